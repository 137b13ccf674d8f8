//! A private Open vSwitch and Thalweg's daemon have the same rules of Antrea's pipeline.
//!
//! Both load the groups and rules that `generate pipeline --kind ant` writes, by `ovs-ofctl`.
//! They print them alike, answer traces of the pipeline's flows with the same text, and send the
//! same frames. Flows to services are traced up to the group and not sent: Open vSwitch leaves
//! the choice of a bucket to a hash by its datapath, where its traces end.
//!
//! This program is both: the tests, and with [`AS_DAEMON`] in the environment the daemon. Needs
//! Open vSwitch's programs, no privileges.

#[path = "../comparing/mod.rs"]
mod comparable;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use comparable::comparable;
use libtest_mimic::{Arguments, Trial};
use thalweg_workload::{Flow, FlowConfig, Pipeline, PipelineKind, draw_flows};
use xtask::ovs::DummySwitch;

/// Makes this program the daemon.
const AS_DAEMON: &str = "THALWEG_TEST_AS_DAEMON";
const RULES: usize = 1_500;
/// Flows of the pipeline that are traced.
const FLOWS: usize = 400;
/// Differences that are shown.
const SHOWN: usize = 3;

fn main() -> ExitCode {
    if std::env::var_os(AS_DAEMON).is_some() {
        return thalweg_vswitchd::run(std::env::args_os().skip(1));
    }
    let trial = Trial::test("both_answer_alike_by_antreas_rules", || {
        both_answer_alike_by_antreas_rules();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// A switch with the rules.
fn start(daemon: Command, pipeline: &Pipeline) -> DummySwitch {
    let ports = pipeline.ports.len() as u16;
    let mut switch = DummySwitch::start_daemon(ports, daemon).expect("it starts");
    switch.call("time/stop", &[]).expect("its clock stops");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path
    };
    let groups = file("groups", pipeline.groups_text());
    switch.load_groups(&groups).expect("it takes the groups");
    let rules = file("rules", pipeline.rules_text());
    switch.load_rules(&rules).expect("it takes the rules");
    let path = rules.display().to_string();
    let again = switch.bridge_command("replace-flows", &[&path]);
    again.expect("the rules are those of the file");
    switch
}

/// What the switch prints of its rules or groups, sorted.
fn dump(switch: &DummySwitch, command: &str, options: &[&str]) -> Vec<String> {
    let text = switch.command_on("br0", "OpenFlow15", command, options);
    let text = text.expect("it answers");
    let lines = text
        .lines()
        .filter(|line| !line.contains("_REPLY") && !line.contains(" reply "));
    let mut lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

fn compare_dumps(ours: &DummySwitch, theirs: &DummySwitch, pipeline: &Pipeline) {
    let rules = dump(theirs, "dump-flows", &["--no-stats"]);
    assert_eq!(dump(ours, "dump-flows", &["--no-stats"]), rules);
    assert_eq!(rules.len(), pipeline.rules.len());
    let groups = dump(theirs, "dump-groups", &[]);
    assert_eq!(dump(ours, "dump-groups", &[]), groups);
    assert_eq!(groups.len(), pipeline.groups.len());
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A trace without masks, which may differ; and without the fields of a tunnel that no packet
/// came by, which Open vSwitch prints once a rule has written `tun_dst`.
fn without_masks(trace: &str) -> String {
    let is_empty = |field: &&str| {
        let is_of_tunnel = field.starts_with("tun_") || field.starts_with("gtpu_");
        is_of_tunnel && !field.starts_with("tun_dst=")
    };
    let lines = trace.lines().filter(|line| !line.starts_with("Megaflow: "));
    let lines = lines.map(|line| {
        let fields: Vec<&str> = line.split(',').filter(|field| !is_empty(field)).collect();
        fields.join(",") + "\n"
    });
    lines.collect()
}

/// Whether the traces begin to differ where a packet completes several conjunctive matches of
/// one priority: which of them counts is open.
fn has_open_choice([one, other]: &[String; 2]) -> bool {
    let mut pairs = one.lines().zip(other.lines());
    let pair = pairs.find(|(one, other)| one != other);
    pair.is_some_and(|(one, other)| one.contains("conj_id=") && other.contains("conj_id="))
}

/// Whether the flow goes to a service, or to a port of the node that is one.
fn is_to_service(flow: &Flow) -> bool {
    let [a, b, ..] = flow.ip_dst.octets();
    (a == 10 && (0x60..0x70).contains(&b)) || flow.ip_dst.octets() == [172, 18, 255, 1]
}

fn both_answer_alike_by_antreas_rules() {
    let pipeline = PipelineKind::Ant.generate(RULES, 2).expect("it exists");
    let mut ours = Command::new(std::env::current_exe().expect("this program has a name"));
    ours.env(AS_DAEMON, "1");
    let daemons = [ours, Command::new("ovs-vswitchd")];
    let [mut ours, mut theirs] = daemons.map(|daemon| start(daemon, &pipeline));
    compare_dumps(&ours, &theirs, &pipeline);
    let flows = draw_flows(&pipeline, &FlowConfig::new(FLOWS, 2)).expect("there are enough");
    let mut differences = Vec::new();
    let mut sent = BTreeMap::new();
    let (mut grouped, mut open) = (0, 0);
    for (flow, template) in &flows {
        let name = &pipeline.templates[*template].name;
        let (bytes, port) = (flow.packet(60), flow.in_port as u16);
        let place = format!("in_port={port}");
        let arguments = ["br0", &place, &digits(&bytes)];
        let traces = [&mut ours, &mut theirs].map(|switch| {
            let flushed = switch.call("fdb/flush", &[]);
            flushed.expect("it forgets stations");
            let trace = switch.call("ofproto/trace", &arguments);
            let trace = without_masks(&comparable(&trace.expect("it answers")));
            match trace.split_once("    group:") {
                Some((before, _)) => before.to_owned(),
                None => trace,
            }
        });
        grouped += u32::from(traces[1].ends_with("->reg7\n"));
        if has_open_choice(&traces) {
            open += 1;
        } else if traces[0] != traces[1] {
            let [ours, theirs] = traces;
            differences.push(format!("{name}: {flow:?}\nours: {ours}\ntheirs: {theirs}"));
        }
        if is_to_service(flow) || flow.is_arp {
            continue;
        }
        let frames = [&mut ours, &mut theirs].map(|switch| {
            let mut left = switch
                .receive(port, &[&digits(&bytes)])
                .expect("it takes frames");
            left.sort();
            left
        });
        if frames[0] != frames[1] {
            let [ours, theirs] = &frames;
            differences.push(format!(
                "{name}: {flow:?}\nours: {ours:?}\ntheirs: {theirs:?}"
            ));
        }
        *sent.entry(name.clone()).or_insert(0) += frames[1].len();
    }
    let count = differences.len();
    differences.truncate(SHOWN);
    assert!(count == 0, "{count} differ\n{}", differences.join("\n"));
    assert!(open < 10, "{open} traces choose other policies");
    assert!(grouped > 50, "{grouped} traces end at a group");
    let silent = ["spoofed", "tunnel-to-external"];
    for (name, frames) in sent {
        assert_eq!(
            frames == 0,
            silent.contains(&name.as_str()),
            "{name}: {frames}"
        );
    }
}
