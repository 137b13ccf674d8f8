//! A private Open vSwitch and `thalweg-vswitchd` trace packets through the rules of OVN.
//!
//! The rules are those of a bridge that `ovn-controller` has set up: `data/flows` in the shared
//! folder. Trackers are asked in most of them: each packet is traced for several states of its
//! connection. Masks are not compared, since those of Thalweg are narrower.
//!
//! Needs Open vSwitch's programs, and no privileges.

#[path = "../comparing/mod.rs"]
mod comparable;

use std::collections::BTreeSet;
use std::path::PathBuf;

use comparable::comparable;
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::text::{Parser, parse_groups, parse_rules};
use thalweg_pipeline::{
    BandKind, BridgeId, Change, Config, MeterId, Operation, Pipeline, PortState, RateBand,
    RateMeter, RateUnit,
};
use thalweg_vswitchd::trace::{FrozenTrace, TraceCommand, TraceNames, trace};
use xtask::ovs::DummySwitch;

/// States of a connection, one for each tracker that a packet meets.
const STATES: [&str; 6] = [
    "",
    "--ct-next trk,new --ct-next trk,new --ct-next trk,new",
    "--ct-next trk,est --ct-next trk,est --ct-next trk,est",
    "--ct-next trk,est,rpl --ct-next trk,est,rpl --ct-next trk,est,rpl",
    "--ct-next trk,new --ct-next trk,est --ct-next trk,inv",
    "--ct-next trk,rel,rpl --ct-next trk,rel",
];

fn read(name: &str) -> String {
    let folder = match std::env::var_os("THALWEG_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
    };
    let path = folder.join("data/flows").join(name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()))
}

/// The lines of a dump that can be read, as rules without counts.
fn readable(dump: &str) -> Vec<String> {
    let mut parser = Parser::new();
    let lines = dump.lines().filter_map(|line| {
        let rules = parser.parse_rules("dump", line).ok()?;
        rules.flows.first().map(ToString::to_string)
    });
    lines.collect()
}

struct Names;

impl TraceNames for Names {
    fn bridge(&self, name: &str) -> Option<BridgeId> {
        (name == "br0").then(BridgeId::default)
    }

    fn bridge_name(&self, _: BridgeId) -> String {
        "br0".to_owned()
    }

    fn port(&self, _: BridgeId, name: &str) -> Option<PortId> {
        name.strip_prefix('p')?.parse().ok().map(PortId)
    }

    fn port_name(&self, port: PortId) -> Option<String> {
        match port.0 {
            0xfffe => Some("br0".to_owned()),
            number => (1..=4).contains(&number).then(|| format!("p{number}")),
        }
    }

    fn has_datapath(&self, _: Option<&str>) -> bool {
        true
    }

    fn port_of_datapath(&self, number: u32) -> Option<PortId> {
        (1..=4).contains(&number).then_some(PortId(number))
    }

    fn datapath_number(&self, name: &str) -> Option<u32> {
        name.strip_prefix('p')?.parse().ok()
    }

    fn datapath_number_of(&self, port: PortId) -> Option<u32> {
        match port.0 {
            0xfffe => Some(100),
            number => Some(number),
        }
    }

    fn recirculations(&self, walks: &[FrozenTrace]) -> Vec<u32> {
        (1..).take(walks.len()).collect()
    }

    fn frozen(&self, _: u32) -> Option<FrozenTrace> {
        None
    }
}

/// Packets between the machines of OVN's switches, by every field that the rules compare.
fn packets(dump: &str) -> Vec<String> {
    let values = |name: &str| {
        let found = dump
            .split([',', ' '])
            .filter_map(|part| part.strip_prefix(name));
        let plain = found.filter(|value| !value.contains(['/', '[']) && !value.is_empty());
        plain.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let (macs, targets) = (values("dl_src="), values("dl_dst="));
    let (sources, destinations) = (values("nw_src="), values("nw_dst="));
    let pick = |from: &BTreeSet<String>, place: usize| {
        from.iter()
            .nth(place % from.len().max(1))
            .cloned()
            .unwrap_or_default()
    };
    let kinds = [
        "tcp,tp_dst=80",
        "tcp,tp_dst=22",
        "udp,udp_dst=53",
        "icmp,icmp_type=8",
    ];
    let packet = |number: usize| {
        let kind = kinds[number % kinds.len()];
        format!(
            "in_port={},{kind},dl_src={},dl_dst={},nw_src={},nw_dst={},nw_ttl=64",
            1 + number % 4,
            pick(&macs, number / 2),
            pick(&targets, number / 3 + number),
            pick(&sources, number * 7 / 3),
            pick(&destinations, number * 5),
        )
    };
    (0..48).map(packet).collect()
}

/// The text without its masks, and without a `ct_clear` that nothing follows, which does nothing.
fn without_masks(text: &str) -> String {
    let lines = text.lines();
    let lines = lines.filter(|line| !line.starts_with("Megaflow: "));
    let lines = lines.map(|line| match line.strip_prefix("Datapath actions: ") {
        Some("ct_clear") => "Datapath actions: drop",
        Some(_) => line.trim_end_matches(",ct_clear"),
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The meters of a dump, as `ovs-ofctl add-meter` takes them.
fn meters(dump: &str) -> Vec<String> {
    let meters = dump.split("meter=").skip(1);
    meters
        .map(|meter| {
            let words: Vec<&str> = meter.split_whitespace().collect();
            format!("meter={}", words.join(",").replace("bands=,", "bands="))
        })
        .collect()
}

/// A meter in `kbps` with one band, as `ovs-ofctl add-meter` takes it.
fn meter(text: &str) -> Operation {
    let number = |name: &str| -> Option<u32> {
        let value = text.split(',').find_map(|part| part.strip_prefix(name));
        value?.parse().ok()
    };
    let rate = number("rate=").expect("it has a rate");
    Operation::SetMeter(RateMeter {
        id: MeterId(number("meter=").expect("it has a number").into()),
        unit: RateUnit::Kilobits,
        bands: [RateBand {
            kind: BandKind::Drop,
            rate,
            burst: number("burst_size=").unwrap_or(rate),
        }]
        .into(),
        has_burst: text.contains(",burst,"),
        has_statistics: true,
    })
}

/// Thalweg with the rules, groups and meters.
fn ours(rules: &[String], groups: &[String], meters: &[String]) -> Pipeline {
    let mut ours = Pipeline::new(Config::default());
    let port = |number| {
        let state = PortState {
            is_up: true,
            floods: true,
            forwards: true,
            peer: None,
        };
        Operation::SetPort(PortId(number), state)
    };
    let mut operations: Vec<Operation> = [1, 2, 3, 4, 0xfffe].map(port).into();
    for group in parse_groups("groups", &groups.join("\n")).expect("they were read") {
        operations.push(Operation::SetGroup(group));
    }
    operations.extend(meters.iter().map(|text| meter(text)));
    let change = parse_rules("rules", &rules.join("\n")).expect("they were read");
    operations.extend(change.into_change().operations);
    let applied = ours.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the rules can be loaded");
    ours
}

fn compare(
    (flows, groups, meters): (&str, &str, &[String]),
    (least, least_tracked): (usize, usize),
) {
    let dump = read(flows);
    let rules = readable(&dump);
    assert!(rules.len() >= least, "{} of {least} lines", rules.len());
    let groups: Vec<String> = read(groups)
        .lines()
        .filter(|line| line.contains("group_id=") && parse_groups("groups", line).is_ok())
        .map(|line| line.trim().to_owned())
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, lines: &[String]| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n")).expect("it is written");
        path
    };
    let mut theirs = DummySwitch::start(4).expect("Open vSwitch is installed");
    theirs
        .load_groups(&file("groups", &groups))
        .expect("it takes the groups");
    for meter in meters {
        let added = theirs.command_on("br0", "OpenFlow15", "add-meter", &[meter]);
        added.expect("it takes the meters");
    }
    // The option that OVN gives its logical ports.
    let option = "{class=0x102,type=0x80,len=4}->tun_metadata0";
    let mapped = theirs.command_on("br0", "OpenFlow15", "add-tlv-map", &[option]);
    mapped.expect("it takes the option");
    theirs
        .load_rules(&file("rules", &rules))
        .expect("it takes the rules");
    let ours = ours(&rules, &groups, meters);
    let (mut differences, mut tracked, mut chosen) = (Vec::new(), 0, 0);
    for packet in packets(&dump) {
        for states in STATES {
            let question = format!("br0 {packet} {states}");
            let arguments: Vec<&str> = question.split_whitespace().collect();
            theirs.call("fdb/flush", &[]).expect("it is flushed");
            let answer = theirs.call("ofproto/trace", &arguments).expect("it traces");
            let words: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let mine = trace(&ours, &Names, TraceCommand::Trace, &words).expect("we trace");
            tracked += usize::from(answer.contains("resume conntrack"));
            // The bucket that a group chooses is each switch's own affair.
            if answer.contains(" bucket") {
                chosen += 1;
                continue;
            }
            let (answer, mine) = (comparable(&answer), comparable(&mine.text));
            let (answer, mine) = (without_masks(&answer), without_masks(&mine));
            if answer != mine {
                differences.push(format!("> {question}\ntheirs: {answer}\nours: {mine}\n"));
            }
        }
    }
    assert!(
        tracked >= least_tracked,
        "trackers were asked {tracked} times"
    );
    assert!(chosen <= tracked / 2, "groups chose {chosen} times");
    let count = differences.len();
    differences.truncate(5);
    assert!(
        differences.is_empty(),
        "{count}:\n{}",
        differences.join("\n")
    );
}

#[test]
fn a_switch_of_ovn_traces_alike() {
    compare(("ovn.dump", "ovn-groups.dump", &[]), (624, 6));
}

#[test]
fn a_richer_switch_of_ovn_traces_alike() {
    let meters = meters(&read("ovn-rich-meters.dump"));
    assert_eq!(meters.len(), 2, "{meters:?}");
    let files = ("ovn-rich.dump", "ovn-rich-groups.dump", &meters[..]);
    compare(files, (600, 50));
}
