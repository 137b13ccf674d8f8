//! Tests B-Cache's stateful behaviours (section II.B) by example.
//!
//! Heavy flows are marked, and a secret knock opens a door.
//!
//! Both are remembered, in the switch and in the program form.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_p4::behavior::transform::transform;
use thalweg_p4::cache::behavior::{BehaviorConfig, Unfit};
use thalweg_p4::program::ids::RegisterId;
use thalweg_p4::state::Update;
use thalweg_p4::{CacheConfig, Config, Outbox, Program, Target, commands};
use thalweg_packet::Instant;
use thalweg_packet::checksum::checksum;

use crate::examples::text;
use crate::pair::Pair;

/// Packets that make a flow heavy in the program.
const HEAVY: usize = 100;
const TOS: usize = 15;

/// A packet from 10.0.0.`source` to 10.0.`network`.1, to a TCP port.
fn packet(source: u8, network: u8, port: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let mut ip = [
        0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, source, 10, 0, network, 1,
    ];
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend(4_000_u16.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.resize(60, 0);
    bytes
}

fn updates(name: &str, program: &Program) -> Vec<Update> {
    let read = commands::parse(&text(&format!("{name}.cmds")), program).expect("commands");
    read.into_iter().map(|command| command.update).collect()
}

/// A target of an example program.
struct Switch {
    target: Target,
    outbox: Outbox,
    now: Instant,
}

impl Switch {
    fn new(name: &str) -> Switch {
        let program = Program::from_json(&text(&format!("{name}.json"))).expect("a program");
        let updates = updates(name, &program);
        let target = Target::new(Arc::new(program), Config::default());
        let mut target = target.expect("own entries");
        target.write(&updates, Instant::ZERO).expect("entries");
        Switch {
            target,
            outbox: Outbox::new(),
            now: Instant::ZERO,
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.now = self.now + Duration::from_micros(1);
        self.outbox.clear();
        self.target.receive(1, bytes, self.now, &mut self.outbox);
        let sent = self.outbox.sent();
        sent.map(|sent| (sent.port, sent.bytes.to_vec())).collect()
    }
}

#[test]
fn heavy_flows_are_marked_and_others_are_not() {
    let mut switch = Switch::new("heavy_hitter");
    let sent = packet(1, 2, 80);
    for number in 1..=2 * HEAVY {
        let left = switch.receive(&sent);
        assert_eq!((left.len(), left[0].0), (1, 2));
        let tos = if number < HEAVY { 0 } else { 8 };
        assert_eq!(left[0].1[TOS], tos, "packet {number}");
        assert_eq!(checksum(&left[0].1[14..34]), 0);
    }
    assert_eq!(switch.receive(&packet(2, 2, 80))[0].1[TOS], 0);
}

#[test]
fn the_door_opens_to_who_knocks_in_order() {
    let mut switch = Switch::new("knock");
    let mut is_open = |source: u8, ports: &[u16]| {
        let sent = ports
            .iter()
            .map(|&port| switch.receive(&packet(source, 2, port)).len());
        sent.collect::<Vec<_>>()
    };
    assert_eq!(
        is_open(1, &[80, 1111, 2222, 3333, 80, 443]),
        [0, 0, 0, 1, 1, 1]
    );
    assert_eq!(is_open(2, &[1111, 3333, 2222, 3333, 80]), [0; 5]);
    assert_eq!(is_open(2, &[1111, 2222, 80, 3333, 80]), [0; 5]);
    assert_eq!(is_open(1, &[1111]), [1]);
}

/// Plays packets of few flows and hosts, with an occasional register write.
fn play(seed: u64, registers: u32, mut step: impl FnMut(&[u8], Option<Update>)) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let ports = [1111, 2222, 3333, 80];
    for _ in 0..3_000 {
        let port = *ports.choose(&mut random).expect("some");
        let bytes = packet(random.random_range(1..6), random.random_range(1..3), port);
        let update = random.random_bool(0.01).then(|| {
            // For the door, the cell with a source's state; for the sketch, a random counter.
            let cell = random.random_range(1..6);
            let value = random.random_range(0..4_u32);
            Update::SetRegister(
                RegisterId(random.random_range(0..registers)),
                cell,
                value.into(),
            )
        });
        step(&bytes, update);
    }
}

#[test]
fn stateful_examples_are_remembered_in_the_switch() {
    for (name, registers) in [("heavy_hitter", 2), ("knock", 1)] {
        let [mut plain, mut traversals, mut behaviors] = [(); 3].map(|()| Switch::new(name));
        traversals.target.cache_traversals(Some(CacheConfig {
            record_one_in: 1,
            ..CacheConfig::default()
        }));
        behaviors.target.cache_behaviors(Some(BehaviorConfig {
            threshold: 0,
            ..BehaviorConfig::default()
        }));
        let program = plain.target.program().clone();
        play(1, registers, |bytes, update| {
            if let Some(update) = update {
                for switch in [&mut plain, &mut traversals, &mut behaviors] {
                    let now = switch.now;
                    switch
                        .target
                        .write(std::slice::from_ref(&update), now)
                        .expect("a cell");
                }
            }
            let expected = plain.receive(bytes);
            assert_eq!(traversals.receive(bytes), expected, "{name}");
            assert_eq!(behaviors.receive(bytes), expected, "{name}");
        });
        for array in 0..registers {
            for cell in 0..program.arrays.registers[array as usize].size {
                let cells = [&mut plain, &mut traversals, &mut behaviors].map(|one| {
                    one.target
                        .state()
                        .register(&program, RegisterId(array), cell)
                });
                assert_eq!(cells[0], cells[1], "{name}: {array} {cell}");
                assert_eq!(cells[0], cells[2], "{name}: {array} {cell}");
            }
        }
        let counts = behaviors.target.behavior_counts().expect("a cache");
        for reason in Unfit::ALL {
            assert_eq!(counts.unfit(reason), 0, "{name}: {counts:?}");
        }
        // Each count of a flow is a behaviour, until the flow is heavy.
        assert!(counts.hits > 3_500, "{name}: {counts:?}");
    }
}

#[test]
fn stateful_examples_are_remembered_in_the_program_form() {
    for (name, registers) in [("heavy_hitter", 2), ("knock", 1)] {
        let json = text(&format!("{name}.json"));
        let made = transform(&json, 10_000).expect("a program");
        assert_eq!(made.plan.stops, [], "{name}: every way can be remembered");
        assert_eq!(made.plan.writes.len(), registers as usize);
        let mut pair = Pair::new(&json, 10_000, 0);
        let program = pair.plain.program().clone();
        assert!(pair.write(&updates(name, &program)));
        let mut number = 0;
        play(2, registers, |bytes, update| {
            if let Some(update) = update {
                assert!(pair.write(&[update]));
            }
            number += 1;
            match number % 4 {
                0 => pair.trace_hit(1, bytes),
                _ => pair.receive(1, bytes),
            }
            pair.read_reports(4);
        });
        pair.compare();
        assert!(pair.hits > 400, "{name}: {} hits", pair.hits);
        // A heavy flow's counters no longer change.
        assert!(name != "knock" || pair.wrote > 5, "{} wrote", pair.wrote);
    }
}
