//! What `thalweg-vswitchd` writes of a walk does what the walk does: the actions are read again
//! and run on the packet.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_packet::{
    Connection, Headers, Instant, Layout, Packet, PacketPool, PortId, Receipt, standard,
};
use thalweg_pipeline::{Effect, Outbox, run};
use thalweg_vswitchd::datapath_text::{ActionWriter, DatapathFlow, FieldBits, no_tunnels};
use thalweg_workload::PacketSource;

use super::answer::{Answer, Ours, add_queues, answer_of, execute};
use super::datapath_text::parse_actions;
use super::{PORTS, program, shape};

const SEEDS: std::ops::Range<u64> = 20_000..20_200;
const PACKETS: usize = 20;

fn whole_layout() -> Layout {
    let all: BTreeSet<_> = standard::all_but_options().collect();
    Layout::new(Arc::new(standard::fields()), &all).expect("all fields fit")
}

fn key(layout: &Layout, in_port: u32, bytes: &[u8]) -> Vec<u64> {
    let headers = Headers::parse(bytes).expect("a frame");
    let mut key = vec![0; layout.ingress_words()];
    layout.extract(bytes, &headers, &Receipt::from_port(in_port), &mut key);
    key
}

/// The packets that leave in the first pass.
fn done(ours: &Ours, effects: &[Effect], in_port: u32, bytes: &[u8]) -> Answer {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let mut packet = Packet::from_bytes(bytes);
    packet.set_received(PortId(in_port), Instant::ZERO);
    let headers = Headers::parse(bytes).expect("a frame");
    run(
        effects,
        ours.pipeline.fields(),
        packet,
        headers,
        &Connection::NONE,
        &mut outbox,
    );
    let is_cut_short = !outbox.recirculated.is_empty();
    let mut answer = Answer {
        is_cut_short,
        ..answer_of(outbox)
    };
    add_queues(effects, 0, bytes, &mut answer.queues);
    answer.sort();
    answer
}

#[test]
fn actions_do_what_the_walk_does() {
    let whole = whole_layout();
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number + 1,
        senders: &|_| 1,
        tunnels: &no_tunnels,
    };
    let (mut count, mut changes, mut nested) = (0, 0, 0);
    for seed in SEEDS {
        let program = program(seed).expect("a program");
        let [rules, groups] = [&program.rules, &program.groups].map(|lines| lines.join("\n"));
        let ours = Ours::load(&rules, &groups, PORTS.into()).expect("it is loaded");
        let mut packets = PacketSource::new(&shape(seed), seed);
        for _ in 0..PACKETS {
            let packet = packets.next_packet();
            let (in_port, bytes) = (packet.in_port, &packet.bytes);
            if bytes.len() < 14 {
                continue;
            }
            let walk = ours.translate(in_port, bytes).expect("a walk");
            let expected = done(&ours, &walk.effects, in_port, bytes);
            let narrow = ours.pipeline.layout();
            let mask = FieldBits::read_words(narrow, &walk.mask);
            let mut wide_mask = vec![0; whole.words()];
            mask.write_words(&whole, &mut wide_mask);
            wide_mask.truncate(whole.ingress_words());
            for (layout, mask) in [(&whole, &wide_mask), (&**narrow, &walk.mask)] {
                let key = key(layout, in_port, bytes);
                let flow = DatapathFlow::of_entry(layout, &key, mask);
                let mut flow = flow.with_tags_of(bytes);
                let text = writer.write_covering(&walk.effects, &mut flow).text;
                let actions =
                    parse_actions(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                let found = execute(&actions, bytes).expect("they are run");
                assert_eq!(found, expected, "seed {seed}: {text}: {:?}", walk.effects);
                count += 1;
                changes += usize::from(text.contains("set(") || text.contains("push"));
                let is_nested = |effect: &Effect| matches!(effect, Effect::Clone(_));
                nested += usize::from(walk.effects.iter().any(is_nested));
            }
        }
    }
    // Otherwise nothing was compared.
    assert!(
        count > 4_000 && changes > 900 && nested > 100,
        "{count} lists, {changes} with changes, {nested} with lists in them"
    );
}
