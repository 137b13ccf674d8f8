//! Policing against a model in fractions, and against what a rate means.

use std::time::Duration;

use proptest::prelude::*;
use thalweg_packet::PortId;

use super::*;
use crate::{MemoryHandle, MemoryPort};

struct Bench {
    port: PolicePort<MemoryPort>,
    policing: Policing,
    handle: MemoryHandle,
    pool: PacketPool,
}

impl Bench {
    fn new() -> Bench {
        let (inner, handle) = MemoryPort::new(PortId(1), 64);
        let (port, policing) = PolicePort::new(inner);
        let pool = PacketPool::with_capacity(64, 2_048);
        Bench {
            port,
            policing,
            handle,
            pool,
        }
    }

    /// The lengths of the packets that pass.
    fn receive(&mut self, lengths: &[usize], now: Instant) -> Vec<usize> {
        for length in lengths {
            self.handle.inject(&vec![7; *length]);
        }
        let mut burst = Vec::new();
        self.port.receive(&mut self.pool, &mut burst, now);
        let passed = burst.iter().map(Packet::len).collect();
        self.pool.put_burst(&mut burst);
        passed
    }
}

fn rate(thousands: u32, burst_thousands: u32) -> Option<PolicingRate> {
    Some(PolicingRate {
        thousands,
        burst_thousands,
    })
}

/// A bucket in `f64`, of one volume.
struct Model {
    per_second: f64,
    burst: f64,
    level: f64,
}

proptest! {
    #[test]
    fn packets_pass_as_the_model_says(
        bits in prop::option::of((1..5_000_u32, 0..20_u32)),
        packets in prop::option::of((1..20_u32, 0..2_u32)),
        bursts in prop::collection::vec(
            (0..5_000_000_u64, prop::collection::vec(14..1_500_usize, 1..8)),
            1..40,
        ),
    ) {
        let mut bench = Bench::new();
        let given = |pair: Option<(u32, u32)>| pair.and_then(|(each, burst)| rate(each, burst));
        bench.policing.set(PolicingRates { bits: given(bits), packets: given(packets) });
        let mut models = [bits, packets].map(|pair| pair.map(|(each, burst)| Model {
            per_second: f64::from(each) * 1e3,
            burst: f64::from(burst) * 1e3,
            level: f64::from(burst) * 1e3,
        }));
        let (mut now, mut dropped) = (Instant::ZERO, 0);
        for (pause_ns, lengths) in bursts {
            now = now + Duration::from_nanos(pause_ns);
            for model in models.iter_mut().flatten() {
                let gain = model.per_second * pause_ns as f64 / 1e9;
                model.level = (model.level + gain).min(model.burst);
            }
            let mut wanted = Vec::new();
            for length in &lengths {
                let volumes = [*length as f64 * 8.0, 1.0];
                // The model rounds, so a packet on the edge is left to the port.
                let edge = |model: &Model, volume: f64| {
                    (model.level - volume.min(model.burst)).abs() < 1e-3
                };
                let both = || models.iter().zip(volumes);
                prop_assume!(!both().any(|(model, volume)| {
                    model.as_ref().is_some_and(|model| {
                        edge(model, volume) && model.level < model.burst
                    })
                }));
                let has = |model: &Model, volume: f64| model.level >= volume.min(model.burst);
                let passes = both().all(|(model, volume)| {
                    model.as_ref().is_none_or(|model| has(model, volume))
                });
                if passes {
                    wanted.push(*length);
                    for (model, volume) in models.iter_mut().zip(volumes) {
                        if let Some(model) = model {
                            model.level -= volume;
                        }
                    }
                }
            }
            dropped += (lengths.len() - wanted.len()) as u64;
            prop_assert_eq!(bench.receive(&lengths, now), wanted);
        }
        prop_assert_eq!(bench.port.counters().drops.count(DropReason::Policed), dropped);
        prop_assert_eq!(bench.port.counters().drops.total(), dropped);
    }
}

#[test]
fn a_rate_holds_over_a_second() {
    let mut bench = Bench::new();
    // Ten megabits a second: 1,250 packets of 1,000 bytes, and a burst of ten.
    bench.policing.set(PolicingRates {
        bits: rate(10_000, 80),
        packets: None,
    });
    let mut passed = 0;
    for step in 0..1_000_u64 {
        let now = Instant::ZERO + Duration::from_millis(step);
        passed += bench.receive(&[1_000; 5], now).len();
    }
    assert_eq!(passed, 10 + 999 * 10_000 / 8_000);
    let counters = bench.port.counters();
    assert_eq!(counters.received_packets, passed as u64);
    assert_eq!(counters.received_bytes, passed as u64 * 1_000);
    assert_eq!(
        counters.drops.count(DropReason::Policed),
        5_000 - passed as u64
    );
}

#[test]
fn packets_larger_than_the_burst_pass_at_the_rate() {
    let mut bench = Bench::new();
    // A megabit a second, a kilobit at once; each packet has eight.
    bench.policing.set(PolicingRates {
        bits: rate(1_000, 1),
        packets: None,
    });
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    assert_eq!(bench.receive(&[1_000], at(0)), [1_000]);
    assert_eq!(bench.receive(&[1_000, 64], at(7)), []);
    assert_eq!(bench.receive(&[1_000, 64], at(8)), [1_000]);
}

#[test]
fn rates_change_and_end() {
    let mut bench = Bench::new();
    let now = Instant::ZERO;
    bench.policing.set(PolicingRates {
        bits: None,
        packets: rate(1, 1),
    });
    assert_eq!(bench.receive(&[64; 8], now).len(), 8);
    bench.policing.set(PolicingRates {
        bits: rate(1, 0),
        packets: None,
    });
    assert_eq!(bench.receive(&[64; 8], now).len(), 1);
    bench.policing.set(PolicingRates::default());
    assert_eq!(bench.receive(&[64; 8], now).len(), 8);
}
