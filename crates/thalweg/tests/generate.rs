//! Tests generated files: they are reproducible, and other commands can read them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use thalweg_io::CaptureReader;
use thalweg_packet::Packet;
use thalweg_pipeline::text;

fn thalweg(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command
        .current_dir(folder)
        .args(arguments.split_whitespace());
    command.output().expect("the program can be started")
}

/// The command's JSON summary of what it wrote.
fn summary(folder: &Path, arguments: &str) -> Value {
    let output = thalweg(folder, &format!("{arguments} --json"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).expect("one object and nothing else")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it was written")
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let folder = folder();
    let cases = [
        "generate pipeline --kind ofd --rules 600",
        "generate pipeline --pipeline psc --rules 600",
        "generate pipeline --kind ant --rules 900",
        "generate pipeline --kind synthetic --rules 600 --tables 9 --traversals 4",
        "generate rules --profile fw1 --count 50",
        "generate rules --profile ipc1 --count 50 --format classbench",
        "generate rules --profile fw6 --count 50",
        "generate rules --profile openflow --count 50",
        "generate changes --rules 2000 --mix random --count 20 --every 10",
    ];
    for case in cases {
        let first = thalweg(folder.path(), case);
        assert!(first.status.success(), "{case}");
        assert_eq!(first.stdout, thalweg(folder.path(), case).stdout, "{case}");
        let other = thalweg(folder.path(), &format!("{case} --seed 2"));
        assert_ne!(first.stdout, other.stdout, "{case}");
    }
}

#[test]
fn rules_groups_and_changes_read_back() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let made = "generate pipeline --rules 2000 --groups-out g -o r";
    let told = summary(folder.path(), made);
    let rules = text::parse_rules("r", &read(&path("r"))).expect("they are rules");
    assert_eq!(told["rules"], rules.flows.len());
    let groups = text::parse_groups("g", &read(&path("g"))).expect("they are groups");
    assert_eq!(told["groups"], groups.len());
    summary(
        folder.path(),
        "generate pipeline --kind ant --rules 900 -o both",
    );
    let both = text::parse_rules("both", &read(&path("both"))).expect("they are rules");
    assert_eq!((both.flows.len(), both.groups.len()), (900, 45));
    let made = "generate changes --rules 2000 --mix route-flap --count 7 --every 50 -o c";
    assert_eq!(summary(folder.path(), made)["changes"], 7);
    let changes = text::parse_changes("c", &read(&path("c"))).expect("they are changes");
    let positions: Vec<u64> = changes.iter().map(|change| change.position).collect();
    assert_eq!(positions, [50, 100, 150, 200, 250, 300, 350]);
}

#[test]
fn filters_come_from_classbench_files_packed_or_not() {
    let folder = folder();
    summary(
        folder.path(),
        "generate rules --count 40 --format classbench -o f",
    );
    let plain = std::fs::read(folder.path().join("f")).expect("it was written");
    let mut packed = Vec::new();
    lzma_rs::xz_compress(&mut &plain[..], &mut packed).expect("memory takes it");
    std::fs::write(folder.path().join("f.xz"), packed).expect("it can be written");
    let from = |name: &str| {
        let told = summary(
            folder.path(),
            &format!("generate rules --from {name} -o rules"),
        );
        assert_eq!(told["filters"], 40);
        let text = read(&folder.path().join("rules"));
        let rules = text::parse_rules("rules", &text).expect("they are rules");
        assert_eq!(told["rules"], rules.flows.len());
        rules
    };
    assert_eq!(from("f"), from("f.xz"));
}

#[test]
fn a_profile_is_counted_changed_and_drawn_from() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let made = "generate rules --profile acl6 --count 300 --format classbench -o f";
    summary(folder.path(), made);
    let told = summary(folder.path(), "generate profile --from f -o p.toml");
    assert!(told["lengths"].as_u64() > Some(10), "{told}");
    let text = read(&path("p.toml"));
    assert!(text.contains("family = \"ipv6\""), "{text}");
    let all_udp = "service = \"17 any any 1\"\n# ";
    let changed = text.replacen("service = ", &format!("{all_udp}service = "), 1);
    let changed = match changed.split_once(all_udp) {
        Some((front, list)) => {
            let rest = list.split_once("]\n").expect("a list of services ends").1;
            format!("{front}service = \"17 any any 1\"\n{rest}")
        }
        None => unreachable!("it was put in"),
    };
    std::fs::write(path("q.toml"), changed).expect("it can be written");
    let told = summary(folder.path(), "generate rules --profile q.toml -o r");
    assert_eq!(
        (&told["filters"], &told["rules"]),
        (&1000.into(), &1000.into())
    );
    let rules = read(&path("r"));
    let rules: Vec<&str> = rules
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert!(
        rules.iter().all(|rule| rule.contains(",udp6")),
        "{}",
        rules[0]
    );
}

#[test]
fn rules_of_a_switch_read_back() {
    let folder = folder();
    let made = "generate rules --profile openflow --count 400 --table 3 --ports 0 -o r";
    assert_eq!(summary(folder.path(), made)["rules"], 400);
    let text = read(&folder.path().join("r"));
    let rules = text::parse_rules("r", &text).expect("they are rules");
    assert_eq!(rules.flows.len(), 400);
    let is_drop =
        |flow: &thalweg_pipeline::Flow| flow.table.number() == 3 && flow.actions.is_empty();
    assert!(rules.flows.iter().all(is_drop));
    assert!(
        text.contains("vlan_tci") && text.contains("in_port"),
        "{text}"
    );
}

#[test]
fn one_capture_or_one_for_each_port_have_the_same_packets() {
    let folder = folder();
    let common = "generate traffic --rules 600 --flows 40 --packets 500 --length 80";
    let whole = summary(folder.path(), &format!("{common} -o all.pcap"));
    assert_eq!(whole["captures"][0]["packets"], 500);
    let parted = summary(folder.path(), &format!("{common} --per-port -o port.pcap"));
    let captures = parted["captures"].as_array().expect("a list");
    assert!(captures.len() > 1);
    let file = |capture: &Value| capture["file"].as_str().expect("a name").to_owned();
    let mut packets: Vec<Packet> = Vec::new();
    for capture in captures {
        let name = file(capture);
        assert_eq!(name, format!("port-p{}.pcap", capture["port"]));
        packets.extend(capture_packets(&folder.path().join(name)));
    }
    packets.sort_by_key(Packet::received_at);
    let in_order = capture_packets(&folder.path().join("all.pcap"));
    let bytes = |packets: &[Packet]| -> Vec<Vec<u8>> {
        packets
            .iter()
            .map(|packet| packet.bytes().to_vec())
            .collect()
    };
    assert_eq!(bytes(&packets), bytes(&in_order));
    assert!(in_order.iter().all(|packet| packet.len() == 80));
}

fn capture_packets(path: &Path) -> Vec<Packet> {
    let mut reader = CaptureReader::open(path).expect("it is a capture");
    let mut packets = Vec::new();
    let mut packet = Packet::default();
    while reader.read_into(&mut packet).expect("it is whole") {
        packets.push(packet.clone());
    }
    packets
}

#[test]
fn generated_files_replay() {
    let folder = folder();
    summary(folder.path(), "generate pipeline --rules 600 -o r");
    let made = "generate traffic --rules 600 --flows 40 --packets 500 --in-port 1 -o t.pcap";
    assert_eq!(summary(folder.path(), made)["captures"][0]["port"], 1);
    summary(
        folder.path(),
        "generate changes --rules 600 --count 5 --every 80 -o c",
    );
    let told = summary(
        folder.path(),
        "replay --rules r --pcap 1=t.pcap --changes c",
    );
    assert_eq!(told["packets"], 500);
    assert_eq!(told["stale_packets"], 0);
}

#[test]
fn what_cannot_be_made_is_refused_with_advice() {
    let folder = folder();
    std::fs::write(folder.path().join("bad"), "@1.2.3.4/33\n").expect("it can be written");
    std::fs::write(folder.path().join("empty"), "").expect("it can be written");
    let profile = "family = \"ipv4\"\nsharing = \"1 2\"\n";
    std::fs::write(folder.path().join("bad.toml"), profile).expect("it can be written");
    let cases = [
        ("generate", "Usage:"),
        (
            "generate pipeline --kind mesh",
            "[possible values: ofd, psc, ant, synthetic]",
        ),
        (
            "generate pipeline --rules 3",
            "must lie within 400 to 1000000",
        ),
        ("generate pipeline --json", "name a file with -o"),
        (
            "generate pipeline --kind psc --groups-out g",
            "use --kind ofd or ant",
        ),
        (
            "generate pipeline -o no/such/folder",
            "choose another place",
        ),
        ("generate rules --from bad", "bad:1:10:"),
        ("generate profile --from bad", "bad:1:10:"),
        ("generate profile --from empty", "add `service`"),
        (
            "generate rules --profile tea",
            "choose of acl1, fw1, ipc1, acl6, fw6, ipc6, openflow",
        ),
        ("generate rules --profile bad.toml", "bad.toml:2:"),
        ("generate rules --profile missing.toml", "check the path"),
        (
            "generate rules --profile openflow --format classbench",
            "use --format rules",
        ),
        ("generate rules --from missing", "check the path"),
        (
            "generate rules --count 0",
            "give a whole number from 1 to 1000000",
        ),
        (
            "generate traffic --in-port 99 -o t",
            "has no port 99; it has 1 to",
        ),
        ("generate traffic -o no/such/folder", "no/such/folder"),
        (
            "generate traffic --in-port x -o t",
            "give a whole number from 1 to 65279",
        ),
        (
            "generate pipeline --kind synthetic --tables 1",
            "--rules, --tables or --traversals: ",
        ),
        ("generate traffic", "--output <FILE>"),
        ("generate changes --mix tea", "route-flap"),
    ];
    for (arguments, advice) in cases {
        let output = thalweg(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {errors}");
        assert!(errors.contains(advice), "{arguments}: {errors}");
    }
}

/// For each case of the P4 switch, the packets of the network's stations match the generated
/// entries.
#[test]
fn a_p4_switch_forwards_what_its_network_sends() {
    let folder = folder();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/p4");
    for case in 1..=4 {
        let generate = format!(
            "generate p4-entries --case {case} --count 200 --packets 2000 --pcap in.pcap \
             -o {case}.cmds"
        );
        let captures = summary(folder.path(), &generate)["captures"].clone();
        let captures = captures.as_object().expect("a capture for each port");
        assert_eq!(captures.len(), 16);
        let mut replay = format!("replay --p4 {examples}/switch_{case}.json --entries {case}.cmds");
        for name in captures.keys() {
            let port = name.trim_start_matches("in-p").trim_end_matches(".pcap");
            replay += &format!(" --pcap {port}={name}");
        }
        let report = summary(folder.path(), &replay);
        assert_eq!(report["packets"], 2_000);
        assert_eq!(report["faults"], serde_json::json!({}));
        assert_eq!(report["digests"], 0, "all stations are known");
        let sent: u64 = report["outputs"]
            .as_object()
            .expect("ports")
            .values()
            .filter_map(Value::as_u64)
            .sum();
        // Some packets are for their own sender's port, or denied; some go to several ports.
        assert!(sent > 1_500, "case {case}: {report}");
    }
}
