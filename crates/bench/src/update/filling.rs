//! Generates flows that fill a cache and are unlikely to meet an existing entry.
//!
//! Flows drawn from the pipeline's templates meet more and more existing entries as a cache
//! grows. Regions are wide where there are few rules, and drawn flows return to them. Each
//! further entry then takes ever more flows, and each of these is looked up and, for
//! [`kept`](super::kept), walked for nothing. So once less than a quarter of the flows make
//! entries, the source changes to *neighbours*. A neighbour is one of the first flows, with
//! one to three bits of its addresses and ports flipped. An entry's mask has the bits that
//! told its packet from nearby rules. With one of those bits flipped, a packet is outside the
//! entry's region but still near the rules, where regions are small.
//!
//! A neighbour is a packet like any other: a miss makes its entry, by its own walk. Where rules
//! track connections, they also check senders' addresses, so only the receiver's side is turned.

use std::net::Ipv4Addr;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_workload::{Flow, FlowConfig, FlowSource, Pipeline};

/// Number of first flows that get neighbours.
const BASES: usize = 1 << 16;
/// Flows between two checks of how many have made entries.
const LOOKED_AT_EVERY: usize = 4_096;
/// Number of drawn flows of which at least one must make an entry.
const DRAWN_FOR_ONE: usize = 4;
/// Most bits in which a neighbour differs.
const TURNED_MAX: u32 = 3;

/// Bits that can be flipped: 24 of each address, all of the ports.
const TURNABLE: u32 = 24 + 24 + 16 + 16;
/// Those of the receiver's address and port, in the same order.
const RECEIVERS: [std::ops::Range<u32>; 2] = [24..48, 64..80];

/// A source of flows for a growing cache.
pub(super) struct Filling<'a> {
    source: FlowSource<'a>,
    random: Pcg64Mcg,
    bases: Vec<Flow>,
    /// Flows since the last check.
    flows: usize,
    entries_then: usize,
    has_neighbours: bool,
    /// The bits in which neighbours differ.
    turnable: Vec<u32>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, entries: usize, seed: u64) -> Filling<'a> {
        Filling {
            source: FlowSource::new(pipeline, &FlowConfig::new(entries, seed)),
            random: Pcg64Mcg::seed_from_u64(seed),
            bases: Vec::new(),
            flows: 0,
            entries_then: 0,
            has_neighbours: false,
            turnable: match pipeline.tracks() {
                true => RECEIVERS.into_iter().flatten().collect(),
                false => (0..TURNABLE).collect(),
            },
        }
    }

    /// The next flow's packet; `None` if a draw could not be finished.
    pub(super) fn next(&mut self) -> Option<Packet> {
        let flow = if self.has_neighbours {
            let base = self.bases.choose(&mut self.random)?;
            neighbour(base, &self.turnable, &mut self.random)
        } else {
            let template = self.source.next_template();
            let flow = self.source.draw(template)?;
            if self.bases.len() < BASES {
                self.bases.push(flow);
            }
            flow
        };
        self.flows += 1;
        let mut packet = Packet::from_bytes(&flow.packet(60));
        packet.set_received(PortId(flow.in_port), Instant::ZERO);
        Some(packet)
    }

    /// Records the number of entries that the flows have made.
    pub(super) fn note(&mut self, entries: usize) {
        if self.has_neighbours || self.flows < LOOKED_AT_EVERY {
            return;
        }
        let made = entries.saturating_sub(self.entries_then);
        self.has_neighbours = made * DRAWN_FOR_ONE < self.flows;
        (self.flows, self.entries_then) = (0, entries);
    }
}

/// The flow with a few bits flipped.
fn neighbour(base: &Flow, turnable: &[u32], random: &mut Pcg64Mcg) -> Flow {
    let mut flow = *base;
    for _ in 0..random.random_range(1..=TURNED_MAX) {
        turn(&mut flow, turnable[random.random_range(0..turnable.len())]);
    }
    flow
}

/// Flips one bit of the addresses and ports; the sources' bits come first.
fn turn(flow: &mut Flow, bit: u32) {
    match bit {
        0..24 => flow.ip_src = Ipv4Addr::from(u32::from(flow.ip_src) ^ (1 << bit)),
        24..48 => flow.ip_dst = Ipv4Addr::from(u32::from(flow.ip_dst) ^ (1 << (bit - 24))),
        48..64 => flow.source_port ^= 1 << (bit - 48),
        _ => flow.destination_port ^= 1 << (bit - 64),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_workload::PipelineKind;

    use super::*;

    #[test]
    fn each_bit_turns_another_and_twice_is_none() {
        let base = Flow::default();
        let turned = (0..TURNABLE).map(|bit| {
            let mut flow = base;
            turn(&mut flow, bit);
            flow
        });
        let turned: Vec<Flow> = turned.collect();
        for (bit, flow) in turned.iter().enumerate() {
            assert_ne!(*flow, base);
            assert!(!turned[..bit].contains(flow), "bit {bit}");
            let mut back = *flow;
            turn(&mut back, bit as u32);
            assert_eq!(back, base);
        }
    }

    #[test]
    fn neighbours_follow_only_when_drawn_flows_make_few_entries() {
        let pipeline = PipelineKind::Psc.generate(500, 1).expect("500 rules");
        let mut filling = Filling::new(&pipeline, 100, 1);
        let go_on = |filling: &mut Filling<'_>| {
            let mut left = LOOKED_AT_EVERY;
            while left > 0 {
                left -= usize::from(filling.next().is_some());
            }
        };
        go_on(&mut filling);
        filling.note(LOOKED_AT_EVERY / DRAWN_FOR_ONE);
        assert!(!filling.has_neighbours);
        go_on(&mut filling);
        filling.note(LOOKED_AT_EVERY / DRAWN_FOR_ONE * 2 - 1);
        assert!(filling.has_neighbours);
        assert!(filling.next().is_some());
    }
}
