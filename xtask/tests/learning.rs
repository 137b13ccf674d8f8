//! A private Open vSwitch and Thalweg learn the same rules from the same packets.
//!
//! Random rules learn others, which lead packets elsewhere and teach in their turn. After every
//! packet both switches have the same rules. Needs Open vSwitch's programs, no privileges.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_switch::{Config, Engine};
use thalweg_workload::{PacketSource, RandomConfig, RandomPipeline};
use xtask::ovs::DummySwitch;

/// Pipelines, and packets for each.
const PIPELINES: u64 = 40;
const PACKETS: usize = 40;

fn config(seed: u64) -> RandomConfig {
    RandomConfig {
        tables: 3,
        rules_per_table: 5,
        learns: true,
        is_broad: seed.is_multiple_of(2),
        selects: false,
        ..RandomConfig::default()
    }
}

/// The rules of a text, printed in one way.
fn printed(dump: &str) -> BTreeSet<String> {
    let rules = parse_rules("dump", dump).unwrap_or_else(|errors| panic!("{errors:?}\n{dump}"));
    rules.flows.iter().map(ToString::to_string).collect()
}

fn ours(engine: &Engine) -> BTreeSet<String> {
    let pipeline = engine.pipeline();
    let rules = pipeline.rules(pipeline.version());
    let flows = rules.filter_map(|(id, _)| pipeline.flow_of(id));
    let text: Vec<String> = flows.map(|flow| flow.to_string()).collect();
    printed(&text.join("\n"))
}

fn dump(switch: &DummySwitch) -> BTreeSet<String> {
    let dump = switch.bridge_command("dump-flows", &["--no-stats", "--no-names"]);
    printed(&dump.expect("it dumps its rules"))
}

/// The rules that are new, and how many are gone. The first rules may be printed in two ways.
fn since(first: &BTreeSet<String>, now: &BTreeSet<String>) -> (Vec<String>, usize) {
    let new = now.difference(first).cloned().collect();
    (new, first.difference(now).count())
}

#[test]
fn open_vswitch_learns_the_same_rules() {
    let mut theirs = DummySwitch::start(4).expect("Open vSwitch is installed");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules");
    let mut learned = 0;
    for seed in 0..PIPELINES {
        let config = config(seed);
        let rules = RandomPipeline::new(&config, seed).expect("a sound configuration");
        let groups: Vec<String> = rules.groups().iter().map(ToString::to_string).collect();
        let text = rules.rules_text();
        if text.contains("debug_") {
            // A client without dummies does not print these actions.
            continue;
        }
        theirs.clear().expect("it is emptied");
        std::fs::write(&path, groups.join("\n")).expect("it is written");
        theirs.load_groups(&path).expect("it takes the groups");
        std::fs::write(&path, &text).expect("it is written");
        theirs.load_rules(&path).expect("it takes the rules");
        let mut engine = Engine::new(Config::default()).expect("the limits make sense");
        engine.outbox().grows = true;
        let mut now = Instant::ZERO;
        (1..=4).for_each(|port| engine.add_port(PortId(port), now));
        let all = format!("{}\n{text}", groups.join("\n"));
        let change = parse_rules("rules", &all).expect("generated rules are right");
        let applied = engine.apply(&change.into_change(), now);
        applied.expect("generated rules can be loaded");
        let first = (ours(&engine), dump(&theirs));
        let mut packets = PacketSource::new(&config, seed);
        for _ in 0..PACKETS {
            let packet = packets.next_packet();
            let digits = packet.bytes.iter().fold(String::new(), |mut digits, byte| {
                let _ = write!(digits, "{byte:02x}");
                digits
            });
            let port = format!("in_port={}", packet.in_port);
            // A frame that is too short is none.
            if theirs
                .call("ofproto/trace", &["br0", &port, &digits])
                .is_err()
            {
                continue;
            }
            now = now + Duration::from_millis(1);
            let mut own = Packet::from_bytes(&packet.bytes);
            own.set_received(PortId(packet.in_port), now);
            engine.forward(&mut vec![own], now);
            engine.outbox().recycle();
            let changes = [
                since(&first.0, &ours(&engine)),
                since(&first.1, &dump(&theirs)),
            ];
            assert_eq!(
                changes[0], changes[1],
                "seed {seed}, {port}, packet {digits}\n{text}"
            );
        }
        learned += engine.learning().learned;
    }
    println!("{learned} rules learned by both");
    assert!(learned > 100, "packets taught {learned} rules only");
}
