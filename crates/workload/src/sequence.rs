//! The order in which the packets of many flows arrive.
//!
//! A [`Sequence`] is an endless iterator of flow indexes. Four shapes:
//!
//! - *round-robin*: 0, 1, 2, ... and again: the worst case of every cache smaller than the
//!   flows;
//! - *uniform*: every packet of a random flow: no locality beyond the number of flows;
//! - *Zipf*: the flow of rank `k` has a share proportional to `k^-s`: popularity without
//!   bursts;
//! - *bursts*: flows start, send, pause and end, as in traces.
//!
//! The bursts, in pseudo-code, with `active` a table of a fixed number of flows:
//!
//! ```text
//! for every packet:
//!     if the current burst is over:
//!         slot := one of the active, near the front of a most-recently-used list more often
//!         its burst length := geometric
//!     emit slot's flow; its packets left -= 1
//!     if none are left: slot's flow := the next flow, packets left := Pareto
//! ```
//!
//! So flow sizes are heavy-tailed, bursts of different flows interleave, and the distance
//! between two bursts of a flow, counted in other flows, is mostly short. Caches depend on
//! these three properties of traces (Zhang et al., *On the Characteristics and Origins of
//! Internet Flow Rates*, SIGCOMM 2002; Jain, *Characteristics of Destination Address
//! Locality*, 1990).
//!
//! Memory is bounded by the active flows, not by the number of flows or packets; the
//! assignment of ranks to flows is a permutation that is computed, not stored. A packet costs
//! O(1). A new burst moves its slot to the front: O(active) in the worst case and a few
//! entries in the median.

use rand::Rng;
use rand_distr::{Distribution, Pareto, Zipf};

use crate::error::WorkloadError;
use crate::seed::{Random, stream};

/// The shape of a sequence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SequenceKind {
    /// Each flow in turn.
    RoundRobin,
    /// Each packet belongs to a random flow.
    Uniform,
    /// Popularity is proportional to rank to the power of minus `exponent`.
    Zipf {
        /// Zero is uniform, one is Zipf's law; not negative.
        exponent: f64,
    },
    /// Interleaved bursts of flows with heavy-tailed sizes.
    Bursts {
        /// The number of flows under way at a time, at least 1.
        active_flows: usize,
        /// The mean number of packets in a burst, at least 1.
        mean_burst_packets: f64,
        /// The shape of the Pareto distribution of flow sizes; 1.2 is typical, smaller is more
        /// skewed.
        size_shape: f64,
    },
}

impl SequenceKind {
    /// Bursts as in a trace of a data-centre edge: 256 flows at a time, four packets per
    /// burst.
    pub const TRACE: SequenceKind = SequenceKind::Bursts {
        active_flows: 256,
        mean_burst_packets: 4.0,
        size_shape: 1.2,
    };
}

/// An endless, seeded sequence of flow indexes.
///
/// ```
/// use thalweg_workload::{Sequence, SequenceKind};
///
/// let sequence = Sequence::new(SequenceKind::Zipf { exponent: 1.0 }, 1000, 7)?;
/// assert!(sequence.take(10_000).all(|flow| flow < 1000));
/// # Ok::<(), thalweg_workload::WorkloadError>(())
/// ```
pub struct Sequence {
    flows: usize,
    random: Random,
    state: State,
}

enum State {
    RoundRobin {
        next: usize,
    },
    Uniform,
    Zipf {
        ranks: Zipf<f64>,
        permutation: Permutation,
    },
    Bursts(Bursts),
}

impl Sequence {
    /// A sequence over `flows` flows.
    ///
    /// # Errors
    /// When there are no flows or a parameter of the shape is out of range.
    pub fn new(kind: SequenceKind, flows: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of flows", flows as u64, 1, u32::MAX.into())?;
        let mut random = stream(seed, "sequence");
        let state = match kind {
            SequenceKind::RoundRobin => State::RoundRobin { next: 0 },
            SequenceKind::Uniform => State::Uniform,
            SequenceKind::Zipf { exponent } => State::Zipf {
                ranks: Zipf::new(flows as f64, exponent)
                    .map_err(|_| WorkloadError::Shape("Zipf exponent", exponent))?,
                permutation: Permutation::new(flows, &mut random),
            },
            SequenceKind::Bursts {
                active_flows,
                mean_burst_packets,
                size_shape,
            } => {
                WorkloadError::check("active flows", active_flows as u64, 1, 1 << 20)?;
                if mean_burst_packets.is_nan() || mean_burst_packets < 1.0 {
                    return Err(WorkloadError::Shape("mean burst", mean_burst_packets));
                }
                let sizes = Pareto::new(1.0, size_shape)
                    .map_err(|_| WorkloadError::Shape("shape of flow sizes", size_shape))?;
                let permutation = Permutation::new(flows, &mut random);
                State::Bursts(Bursts::new(
                    active_flows,
                    mean_burst_packets,
                    sizes,
                    permutation,
                    &mut random,
                ))
            }
        };
        Ok(Sequence {
            flows,
            random,
            state,
        })
    }
}

impl Iterator for Sequence {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        Some(match &mut self.state {
            State::RoundRobin { next } => {
                let flow = *next;
                *next = (flow + 1) % self.flows;
                flow
            }
            State::Uniform => self.random.random_range(0..self.flows as u64) as usize,
            State::Zipf { ranks, permutation } => {
                // Ranks are drawn from 1 to the number of flows.
                permutation.apply(ranks.sample(&mut self.random) as usize - 1)
            }
            State::Bursts(bursts) => bursts.next_flow(&mut self.random),
        })
    }
}

/// A permutation of `0..count` in constant memory: steps with a stride coprime to the count.
struct Permutation {
    count: u64,
    start: u64,
    stride: u64,
}

impl Permutation {
    fn new(count: usize, random: &mut Random) -> Self {
        let count = count as u64;
        let start = random.random_range(0..count);
        let mut stride = random.random_range(1..=count);
        while greatest_common_divisor(stride, count) != 1 {
            stride = stride % count + 1;
        }
        Permutation {
            count,
            start,
            stride,
        }
    }

    fn apply(&self, index: usize) -> usize {
        // Counts fit into 32 bits, so the product fits into 64.
        ((self.start + index as u64 % self.count * self.stride) % self.count) as usize
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A flow under way.
struct Active {
    flow: usize,
    packets_left: u64,
}

/// The flows under way, the most recently sent first.
struct Bursts {
    active: Vec<Active>,
    started: usize,
    burst_left: u64,
    end_chance: f64,
    sizes: Pareto<f64>,
    permutation: Permutation,
}

/// The largest flow, so that one draw from a heavy tail cannot starve the rest.
const LARGEST_FLOW_PACKETS: f64 = 1e6;

impl Bursts {
    fn new(
        active_flows: usize,
        mean_burst_packets: f64,
        sizes: Pareto<f64>,
        permutation: Permutation,
        random: &mut Random,
    ) -> Self {
        let mut bursts = Bursts {
            active: Vec::with_capacity(active_flows),
            started: 0,
            burst_left: 0,
            end_chance: 1.0 / mean_burst_packets,
            sizes,
            permutation,
        };
        for _ in 0..active_flows {
            let fresh = bursts.start_flow(random);
            bursts.active.push(fresh);
        }
        bursts
    }

    fn start_flow(&mut self, random: &mut Random) -> Active {
        let flow = self.permutation.apply(self.started);
        self.started = (self.started + 1) % self.permutation.count as usize;
        let packets_left = self.sizes.sample(random).min(LARGEST_FLOW_PACKETS) as u64;
        Active { flow, packets_left }
    }

    fn next_flow(&mut self, random: &mut Random) -> usize {
        if self.burst_left == 0 {
            // Log-uniform stack distance: as many bursts come from 1..2 as from 64..128.
            let depth = (self.active.len() as f64).powf(random.random::<f64>()) as usize - 1;
            let depth = depth.min(self.active.len() - 1);
            self.active[..=depth].rotate_right(1);
            self.burst_left = 1;
            while !random.random_bool(self.end_chance) {
                self.burst_left += 1;
            }
        }
        self.burst_left -= 1;
        let flow = self.active[0].flow;
        self.active[0].packets_left -= 1;
        if self.active[0].packets_left == 0 {
            // A starting flow goes to the back, so that hot flows stay at the front.
            self.burst_left = 0;
            let fresh = self.start_flow(random);
            self.active[0] = fresh;
            self.active.rotate_left(1);
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn draw(kind: SequenceKind, flows: usize, seed: u64, count: usize) -> Vec<usize> {
        Sequence::new(kind, flows, seed)
            .unwrap()
            .take(count)
            .collect()
    }

    #[test]
    fn the_seed_decides_and_indexes_are_in_range() {
        for kind in [
            SequenceKind::Uniform,
            SequenceKind::Zipf { exponent: 1.1 },
            SequenceKind::TRACE,
        ] {
            let packets = draw(kind, 777, 1, 5_000);
            assert!(packets.iter().all(|flow| *flow < 777));
            assert_eq!(packets, draw(kind, 777, 1, 5_000));
            assert_ne!(packets, draw(kind, 777, 2, 5_000));
            assert!(draw(kind, 1, 1, 100).iter().all(|flow| *flow == 0));
        }
        assert_eq!(draw(SequenceKind::RoundRobin, 3, 1, 5), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_permutation_visits_everything_once() {
        let mut random = stream(1, "permutation");
        for count in [1, 2, 3, 12, 1000, 1024] {
            let permutation = Permutation::new(count, &mut random);
            let seen: HashSet<_> = (0..count).map(|index| permutation.apply(index)).collect();
            assert_eq!(seen.len(), count);
        }
    }

    #[test]
    fn zipf_frequencies_are_those_of_the_law() {
        let (flows, count) = (100, 200_000);
        for exponent in [0.0, 0.8, 1.0, 1.5] {
            let mut counts = vec![0_u32; flows];
            for flow in draw(SequenceKind::Zipf { exponent }, flows, 5, count) {
                counts[flow] += 1;
            }
            counts.sort_by_key(|count| std::cmp::Reverse(*count));
            let weight = |rank: usize| (rank as f64).powf(-exponent);
            let total: f64 = (1..=flows).map(weight).sum();
            for rank in [1, 2, 10] {
                let expected = count as f64 * weight(rank) / total;
                let error = (f64::from(counts[rank - 1]) - expected).abs() / expected;
                assert!(
                    error < 0.08,
                    "{exponent} {rank}: {} {expected}",
                    counts[rank - 1]
                );
            }
        }
    }

    /// Hits of a least-recently-used cache of `capacity` flows.
    fn cache_hits(packets: &[usize], capacity: usize) -> usize {
        let mut cache: Vec<usize> = Vec::new();
        let mut hits = 0;
        for flow in packets {
            match cache.iter().position(|cached| cached == flow) {
                Some(place) => {
                    hits += 1;
                    cache[..=place].rotate_right(1);
                }
                None => {
                    cache.truncate(capacity - 1);
                    cache.insert(0, *flow);
                }
            }
        }
        hits
    }

    #[test]
    fn bursts_have_locality_and_heavy_tails() {
        let packets = draw(SequenceKind::TRACE, 10_000, 3, 50_000);
        let uniform = draw(SequenceKind::Uniform, 10_000, 3, 50_000);
        let (local, scattered) = (cache_hits(&packets, 64), cache_hits(&uniform, 64));
        assert!(local > 25_000 && scattered < 1_000, "{local} {scattered}");
        let mut sizes = vec![0_u32; 10_000];
        packets.iter().for_each(|flow| sizes[*flow] += 1);
        sizes.sort_by_key(|size| std::cmp::Reverse(*size));
        let top: u32 = sizes[..100].iter().sum();
        assert!(top > 15_000, "the largest hundred flows have {top} packets");
        assert!(sizes.iter().filter(|size| **size > 0).count() > 3_000);
    }

    #[test]
    fn bad_shapes_are_refused() {
        let error = |kind, flows| Sequence::new(kind, flows, 1).err().unwrap().to_string();
        assert!(error(SequenceKind::Uniform, 0).starts_with("the number of flows is 0"));
        assert!(error(SequenceKind::Zipf { exponent: -1.0 }, 5).contains("Zipf exponent"));
    }
}
