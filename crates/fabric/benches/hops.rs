//! Measures the cost of a hop in a run, and of an event in the queue and in a single heap.
//!
//! A run is of 200,000 datagrams over FT8-10K with 128 servers of 80 machines. One leaves each
//! 10 ns; every second one goes to one of 512 popular machines. Building the run is not
//! measured. The queue holds 20,000 events. Each step takes one and adds one a link's delay
//! later, or in one of ten cases a gateway's.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_fabric::*;
use thalweg_v2p::Profile;

const PACKETS: u32 = 200_000;
const MACHINES: u32 = 10_240;
const HELD: usize = 20_000;
const STEPS: u64 = 1_000_000;

fn trace() -> Vec<TraceLine> {
    let mut random = Pcg64::seed_from_u64(1);
    let line = |index: u32| {
        let popular = random.random_bool(0.5);
        let source = random.random_range(0..MACHINES);
        let destination = random.random_range(0..if popular { 512 } else { MACHINES });
        TraceLine {
            source,
            destination,
            start: Time::from_nanos(u64::from(index) * 10),
            flow: index / 4,
            bytes: 64,
        }
    };
    (0..PACKETS).map(line).collect()
}

fn runs(criterion: &mut Criterion) {
    let trace = trace();
    let mut group = criterion.benchmark_group("hops");
    group.sample_size(10);
    let v2p = |profile| Scheme::SwitchV2p(SwitchV2p::new(profile, 64));
    for (name, scheme) in [
        ("nocache", Scheme::NoCache),
        ("direct", Scheme::Direct),
        ("switchv2p, artifact", v2p(Profile::Artifact)),
        ("switchv2p, plus", v2p(Profile::Plus)),
    ] {
        let placement = Placement::even(MACHINES, 128);
        let config = Config::artifact(FatTree::ft8_10k(10), placement, scheme);
        let ready = Simulation::new(&config, &trace).expect("a configuration that is right");
        let mut once = ready.clone();
        once.run();
        group.throughput(Throughput::Elements(once.report().packet_hops));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || ready.clone(),
                |mut run| {
                    run.run();
                    run
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn span(random: &mut Pcg64) -> Time {
    match random.random_bool(0.1) {
        true => Time::from_micros(40),
        false => Time::from_picos(1_000_000 + random.random_range(0..20_000)),
    }
}

fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10);
    group.throughput(Throughput::Elements(STEPS));
    group.bench_function("calendar", |bencher| {
        bencher.iter(|| {
            let (mut random, mut queue) = (Pcg64::seed_from_u64(2), EventQueue::new());
            for number in 0..HELD {
                queue.push(span(&mut random), [number as u32; 3]);
            }
            for _ in 0..STEPS {
                let (now, event) = queue.pop().expect("as many are added as taken");
                queue.push(now + span(&mut random), event);
            }
            black_box(queue.len())
        });
    });
    group.bench_function("heap", |bencher| {
        bencher.iter(|| {
            let (mut random, mut queue) = (Pcg64::seed_from_u64(2), BinaryHeap::new());
            for number in 0..HELD as u64 {
                queue.push(Reverse((span(&mut random), number, [0_u32; 3])));
            }
            for step in 0..STEPS {
                let Reverse((now, _, event)) = queue.pop().expect("as many are added as taken");
                queue.push(Reverse((
                    now + span(&mut random),
                    HELD as u64 + step,
                    event,
                )));
            }
            black_box(queue.len())
        });
    });
}

criterion_group!(benches, runs, queues);
criterion_main!(benches);
