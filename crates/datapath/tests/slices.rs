//! Slices of the caches, beside a look at all entries at once.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{Config, Datapath, EntryId, EntryView, Gate, MicroflowConfig};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{Change, Operation, Outbox, Pipeline, PortState, text};

const RULES: [&str; 3] = [
    "priority=9,dl_type=0x1234,actions=output:3",
    "priority=8,dl_dst=00:00:00:00:00:00/00:00:00:00:00:01,actions=output:3",
    "priority=1,dl_src=00:00:00:00:00:00/00:00:00:00:00:0f,actions=output:4",
];

fn pipeline() -> Gate<Pipeline> {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let rules = RULES.map(|rule| text::parse_flow(rule).expect("a rule"));
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let mut change = Change::adding(rules);
    let ports = [3, 4].map(|port| Operation::SetPort(PortId(port), state));
    change.operations.extend(ports);
    let added = pipeline.apply(&change, Instant::ZERO);
    added.expect("it has room");
    Gate::new(pipeline)
}

fn packet(random: &mut Pcg64Mcg) -> Packet {
    let mut bytes = [0; 60];
    random.fill(&mut bytes[..12]);
    bytes[12..14].copy_from_slice(&random.random_range(0x1234_u16..0x1238).to_be_bytes());
    let mut packet = Packet::from_bytes(&bytes);
    packet.set_received(PortId(random.random_range(1..3)), Instant::ZERO);
    packet
}

/// All slices of `count` numbers: entries, and the entries of exact-match flows.
fn by_slices(datapath: &Datapath, count: u32) -> (Vec<EntryView>, Vec<EntryId>) {
    let (mut entries, mut exact, mut from) = (Vec::new(), Vec::new(), 0);
    loop {
        let slice = datapath.entry_slice(from, count);
        assert!(slice.entries.len() <= count as usize && slice.exact.len() <= count as usize);
        entries.extend(slice.entries);
        exact.extend(slice.exact);
        match slice.next {
            Some(next) => from = next,
            None => return (entries, exact),
        }
    }
}

#[test]
fn slices_have_together_what_a_look_at_once_has() {
    for seed in 0..20 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let pipeline = pipeline();
        let config = Config {
            microflow: MicroflowConfig {
                entries: 64,
                admit_one_in: 1,
            },
            ..Config::default()
        };
        let mut datapath = Datapath::new(config, &pipeline.read()).expect("it makes sense");
        let mut outbox = Outbox::new(PacketPool::with_capacity(64, 2048));
        assert_eq!(by_slices(&datapath, 8), (Vec::new(), Vec::new()));
        let mut now = Instant::ZERO;
        for _ in 0..random.random_range(1..20) {
            now = now + std::time::Duration::from_secs(1);
            let count = random.random_range(1..16);
            let mut packets = (0..count).map(|_| packet(&mut random)).collect();
            datapath.process(&mut packets, now, &pipeline, &mut outbox);
            outbox.sent.clear();
            if random.random_ratio(1, 4) {
                // Some entries go, and flows that point to them stay.
                datapath.evict_idle(0, 5, now);
            }
        }
        let all = datapath.entries();
        assert!(!all.is_empty());
        let (entries, exact) = by_slices(&datapath, random.random_range(1..40));
        assert_eq!(entries, all, "seed {seed}");
        assert!(!exact.is_empty() && exact.len() <= datapath.microflow_count());
        let is_known = |id: &EntryId| all.iter().any(|entry| entry.id == *id);
        assert!(exact.iter().all(is_known), "seed {seed}");
    }
}
