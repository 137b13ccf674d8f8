//! What a packet costs, cache off: one table, ten, thirty, and B-Cache's four cases.
//!
//! The programs are those of `$THALWEG_SHARED/data/p4` (chain, l2l3). Packets have 60 bytes without
//! the frame check sequence, which is 64 on a wire. simple_switch, built with optimisation and
//! without logging macros, was measured at 15 us for one table, 22 us for thirty and 20 us for
//! case 4 (processor time a packet); those figures are quoted, from another machine.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use thalweg_p4::{Config, Outbox, Program, Target, commands};
use thalweg_packet::Instant;

fn folder() -> PathBuf {
    let shared = std::env::var_os("THALWEG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    shared.join("data/p4")
}

fn target(program: &str, entries: &str) -> Target {
    let path = folder().join(program);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()));
    let program = Arc::new(Program::from_json(&text).expect("a program"));
    let commands = commands::parse(entries, &program).expect("commands");
    let mut target = Target::new(program, Config::default()).expect("a target");
    let updates: Vec<_> = commands.into_iter().map(|command| command.update).collect();
    target.write(&updates, Instant::ZERO).expect("entries");
    target
}

/// A packet of UDP over IPv4, 60 bytes.
fn packet(dst_mac: [u8; 6]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(dst_mac);
    bytes.extend([2, 0, 0, 0, 0, 1, 8, 0]);
    let mut ip = [
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 9, 200, 1,
    ];
    let checksum = thalweg_packet::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([4, 0, 0, 53, 0, 26, 0, 0]);
    bytes.resize(60, 0);
    bytes
}

fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("p4 packet");
    let mut cases = Vec::new();
    for tables in [1, 10, 30] {
        let target = target(&format!("chain/chain_{tables}.json"), "");
        cases.push((
            format!("chain of {tables}"),
            target,
            packet([2, 0, 0, 0, 0, 2]),
        ));
    }
    for case in 1..=4 {
        let entries = folder().join(format!("l2l3/l2l3_{case}.cmds"));
        let entries = std::fs::read_to_string(entries).expect("entries");
        let target = target(&format!("l2l3/l2l3_{case}.json"), &entries);
        cases.push((
            format!("l2l3 case {case}"),
            target,
            packet([2, 0, 0, 0, 0, 2]),
        ));
    }
    for (name, mut target, packet) in cases {
        let mut outbox = Outbox::new();
        let mut now = 0;
        target.receive(1, &packet, Instant::ZERO, &mut outbox);
        assert_eq!(outbox.sent().count(), 1, "{name}: the packet must leave");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                outbox.clear();
                now += 100_000;
                target.receive(1, &packet, Instant::from_nanos(now), &mut outbox);
                std::hint::black_box(outbox.sent().count())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, run);
criterion_main!(benches);
