//! Measures the cost of a hop: one switch handles a packet, without the simulator's own work.
//!
//! Packets are in one array, as in the simulator. 80 switches of 64 lines take turns, as in
//! the paper's fabric at a cache size of half the addresses. Each round draws new packets
//! first, so that caches hit and miss. The measurement covers `handle_packet` and the copy of
//! the packet that a round starts with.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_packet::Instant;
use thalweg_v2p::*;

const SWITCHES: u32 = 80;
const HOSTS: u32 = 128;
const MACHINES: u32 = 10_240;
const PACKETS: usize = 4096;
const LINES: u32 = 64;

fn address(base: u32, number: u32) -> Address {
    Address::from_ipv4((base + number).into())
}

fn directory() -> Arc<Directory> {
    let gateways = (0..40).map(|number| address(0x0900_0000, number)).collect();
    let switches = (0..SWITCHES)
        .map(|number| address(0x0b00_0000, number))
        .collect();
    let attach = |host: u32| Attachment {
        tor: SwitchId(48 + host / 4),
        pod: host / 16,
    };
    let hosts = (0..HOSTS).map(|host| (address(0x0a00_0000, host), attach(host)));
    Arc::new(Directory::new(gateways, switches, hosts))
}

/// The role of a switch in the paper's fabric: 16 cores, 32 spines, 32 ToRs; half of the
/// spines and an eighth of the ToRs are gateways'.
fn role(switch: u32) -> Role {
    match switch {
        0..16 => Role::Core,
        16..48 if switch % 8 < 4 => Role::GatewaySpine,
        16..48 => Role::Spine,
        _ if switch.is_multiple_of(8) => Role::GatewayTor,
        _ => Role::Tor,
    }
}

fn fabric(profile: Profile) -> Vec<SwitchAgent> {
    let directory = directory();
    let agent = |number: u32| {
        let (id, address) = (SwitchId(number), address(0x0b00_0000, number));
        let config = AgentConfig::new(id, address, role(number), profile, LINES);
        SwitchAgent::new(&config, directory.clone())
    };
    (0..SWITCHES).map(agent).collect()
}

/// A packet between two random machines, every other one resolved.
fn packet(random: &mut Pcg64) -> Packet {
    // A hundredth of the machines gets most of the packets.
    let popular = random.random_range(0..MACHINES / 100);
    let any = random.random_range(0..MACHINES);
    let destination = if random.random_bool(0.8) {
        popular
    } else {
        any
    };
    let source = random.random_range(0..MACHINES);
    let is_resolved = random.random_bool(0.5);
    let gateway = random.random_range(0..40);
    let place = |machine: u32| address(0x0a00_0000, machine / 80);
    let version = MapVersion(1);
    Packet {
        outer_source: place(source),
        outer_destination: if is_resolved {
            place(destination)
        } else {
            address(0x0900_0000, gateway)
        },
        ttl: INITIAL_TTL,
        flow: gateway,
        body: Body::Data(Data {
            vni: Vni::default(),
            inner_source: address(0, source),
            inner_destination: address(0, destination),
            tags: Tags {
                source_version: version,
                resolved_version: version,
                ..Tags::default()
            },
        }),
    }
}

fn hops(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hops");
    group.throughput(Throughput::Elements(PACKETS as u64));
    for profile in [Profile::Artifact, Profile::Paper, Profile::Plus] {
        let mut random = Pcg64::seed_from_u64(1);
        let mut switches = fabric(profile);
        let packets: Vec<Packet> = (0..PACKETS).map(|_| packet(&mut random)).collect();
        let order: Vec<usize> = (0..PACKETS).map(|_| random.random_range(0..80)).collect();
        group.bench_function(format!("{profile:?}").to_lowercase(), |bencher| {
            let round = |mut packets: Vec<Packet>| {
                for (packet, &number) in packets.iter_mut().zip(&order) {
                    let switch = &mut switches[number];
                    let chance = || random.random();
                    black_box(switch.handle_packet(packet, Ingress::Fabric, Instant::ZERO, chance));
                    while switch.poll_transmit().is_some() {}
                }
                packets
            };
            bencher.iter_batched(|| packets.clone(), round, BatchSize::LargeInput);
        });
        let sum = |count: fn(&AgentCounters) -> u64| -> u64 {
            switches.iter().map(|switch| count(switch.counters())).sum()
        };
        let hits = sum(|counters| counters.hits + counters.promoted);
        let asked = hits + sum(|counters| counters.misses);
        println!(
            "{profile:?}: {:.1} % of lookups hit",
            100.0 * hits as f64 / asked as f64
        );
    }
    group.finish();
}

criterion_group!(benches, hops);
criterion_main!(benches);
