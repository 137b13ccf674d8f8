//! Generates workloads from a seed, like those of SwitchV2P's evaluation.
//!
//! | workload | model | preserved properties |
//! | --- | --- | --- |
//! | [`FlowWorkload`] | Hadoop, WebSearch | the sizes' distribution, the load, pairs drawn evenly |
//! | [`BurstWorkload`] | Microbursts | the lengths of bursts, the popularity of destinations |
//! | [`VideoWorkload`] | Video | pairs that send at a constant rate |
//! | [`RpcWorkload`] | Alibaba | the number of called machines, and its skew |
//! | [`IncastWorkload`] | the migration's incast | senders to one machine, all at once |
//!
//! Flows and RPCs are lines of a trace for TCP; the others are lines for datagrams. Machines
//! are those of a placement, and no machine sends to one on its own server. Lines are sorted
//! by time.
//!
//! The traces of Microbursts and Alibaba were not published. Their `published` workloads keep
//! what the text says of them and draw the rest evenly. Their `fitted` workloads choose the
//! rest so that SwitchV2P's hits are spread over cores, spines and ToRs as in the paper's
//! Table 5. That table is then no evidence for them; `tests/generate.rs` keeps the fit.
//!
//! 1. The same workload, placement and seed give the same lines.
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*, SIGCOMM
//! 2024, section 5, "Datasets" and "Address reuse characteristics", and the published traces, of
//! whose sizes [`Sizes`] are quantiles.

mod sizes;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp, Zipf};
use rand_pcg::Pcg64;

pub use self::sizes::Sizes;
use crate::{Placement, Time, TraceLine};

const BITS_PER_BYTE: f64 = 8.0;
const PICOS_PER_SECOND: f64 = 1e12;

/// Flows between random pairs of machines at random times, at a given load of the servers'
/// links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowWorkload {
    /// The sizes of flows.
    pub sizes: Sizes,
    /// The load of the servers' links, 0 to 1.
    pub load: f64,
    /// The rate of a server's link.
    pub edge_bps: u64,
    /// The time at which the last flows start.
    pub duration: Time,
    /// The seed.
    pub seed: u64,
}

impl FlowWorkload {
    /// Generates the lines for the machines of a placement.
    pub fn generate(&self, placement: &Placement) -> Vec<TraceLine> {
        let machines = Machines::new(placement);
        let mut random = Pcg64::seed_from_u64(self.seed);
        let bits = self.edge_bps as f64 * placement.servers().len() as f64 * self.load;
        let flows_per_pico = bits / (self.sizes.mean() * BITS_PER_BYTE) / PICOS_PER_SECOND;
        let (mut lines, mut now) = (Vec::new(), 0.0);
        let Ok(gap) = Exp::new(flows_per_pico) else {
            return lines;
        };
        while machines.has_pairs() && flows_per_pico > 0.0 {
            now += gap.sample(&mut random);
            let start = Time::from_picos(now as u64).whole_nanos();
            if start >= self.duration {
                break;
            }
            let (source, destination) = machines.pair(&mut random);
            lines.push(TraceLine {
                source,
                destination,
                start,
                flow: lines.len() as u32 + 1,
                bytes: self.sizes.quantile(random.random()).max(1),
            });
        }
        lines
    }
}

/// Bursts of datagrams from one machine to another, at the sender's full rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BurstWorkload {
    /// The number of bursts.
    pub bursts: u32,
    /// The 99th percentile of burst lengths.
    pub longest: Time,
    /// The time between the packets of a burst.
    pub interval: Time,
    /// Bytes of a packet.
    pub payload_bytes: u64,
    /// The shape of their distribution (Weibull's): 1 is exponential, more is narrower.
    pub length_shape: f64,
    /// The share of machines that are destinations.
    pub destination_share: f64,
    /// The skew of destinations: 0 is even, 1 as in natural texts (Zipf's exponent).
    pub skew: f64,
    /// The share of a destination's bursts that come from one fixed group of servers.
    pub near_share: f64,
    /// The number of servers in such a group, neighbours in the placement.
    pub near_servers: u32,
    /// The time at which the last bursts start.
    pub duration: Time,
    /// The seed.
    pub seed: u64,
}

impl BurstWorkload {
    /// The published properties: bursts of up to 158 µs, and over a quarter of the machines
    /// are the destination of ten or more.
    pub const fn published(seed: u64) -> BurstWorkload {
        BurstWorkload {
            bursts: 86_000,
            longest: Time::from_micros(158),
            interval: Time::from_micros(10),
            payload_bytes: 64,
            length_shape: 1.0,
            destination_share: 1.0,
            skew: 0.4,
            near_share: 0.0,
            near_servers: 4,
            duration: Time::from_micros(25_000),
            seed,
        }
    }

    /// The published properties and the hits of Table 5: bursts are dense, half of the machines
    /// are destinations, and a fifth of a destination's bursts come from one rack.
    pub const fn fitted(seed: u64) -> BurstWorkload {
        BurstWorkload {
            bursts: 54_400,
            interval: Time::from_nanos(250),
            length_shape: 1.5,
            destination_share: 0.49,
            skew: 0.3,
            near_share: 0.2,
            duration: Time::from_micros(100_000),
            ..BurstWorkload::published(seed)
        }
    }

    /// Generates the lines for the machines of a placement.
    pub fn generate(&self, placement: &Placement) -> Vec<TraceLine> {
        let machines = Machines::new(placement);
        let mut random = Pcg64::seed_from_u64(self.seed);
        let mut lines = Vec::new();
        let mut popular = machines.shuffled(&mut random);
        popular.truncate(share_of(popular.len(), self.destination_share).max(1));
        let longest = self.longest.as_picos().max(1) as f64;
        // The 99th percentile of an exponential distribution is ln 100 times its mean.
        let rate = 100_f64.ln() / longest;
        let (Ok(length), Ok(rank)) = (Exp::new(rate), Zipf::new(popular.len() as f64, self.skew))
        else {
            return lines;
        };
        for flow in 1..=self.bursts {
            if !machines.has_pairs() {
                break;
            }
            let rank = rank.sample(&mut random) as usize - 1;
            let destination = popular[rank];
            let source = self.source(&machines, rank, destination, &mut random);
            let start = random.random_range(0..self.duration.as_picos().max(1));
            // A power of an exponential draw is Weibull, with its percentile in the same place.
            let part = length.sample(&mut random) / longest;
            let end = (longest * part.powf(1.0 / self.length_shape)) as u64;
            let step = self.interval.as_picos().max(1) as usize;
            for offset in (0..=end).step_by(step) {
                lines.push(TraceLine {
                    source: source.number,
                    destination: destination.number,
                    start: Time::from_picos(start + offset).whole_nanos(),
                    flow,
                    bytes: self.payload_bytes,
                });
            }
        }
        lines.sort_by_key(|line| line.start);
        lines
    }

    /// Draws the sender of a burst; the group of the destination's rank is near to it.
    fn source(
        &self,
        machines: &Machines,
        rank: usize,
        destination: Place,
        random: &mut Pcg64,
    ) -> Place {
        // With a share of 0 nothing is drawn here, so that `published` keeps its lines.
        if self.near_share > 0.0
            && random.random_bool(self.near_share)
            && let Some(near) = machines.of_group(rank, self.near_servers, random)
            && near.server != destination.server
        {
            return near;
        }
        machines.source_for(destination, random)
    }
}

/// Pairs that send datagrams at a constant rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VideoWorkload {
    /// The number of pairs; no machine is in two.
    pub pairs: u32,
    /// The time between two packets of a pair.
    pub interval: Time,
    /// Bytes of a packet.
    pub payload_bytes: u64,
    /// The time at which they stop.
    pub duration: Time,
    /// The seed.
    pub seed: u64,
}

impl VideoWorkload {
    /// The published properties: 64 pairs at 48 Mb/s for two seconds.
    pub const fn published(seed: u64) -> VideoWorkload {
        VideoWorkload {
            pairs: 64,
            interval: Time::from_nanos(166_667),
            payload_bytes: 1_000,
            duration: Time::from_micros(2_004_000),
            seed,
        }
    }

    /// Generates the lines for the machines of a placement.
    pub fn generate(&self, placement: &Placement) -> Vec<TraceLine> {
        let machines = Machines::new(placement);
        let mut random = Pcg64::seed_from_u64(self.seed);
        let mut lines = Vec::new();
        let mut free = machines.shuffled(&mut random);
        for flow in 1..=self.pairs {
            let Some(source) = free.pop() else {
                break;
            };
            let other = free.iter().rposition(|one| one.server != source.server);
            let Some(index) = other else {
                break;
            };
            let destination = free.swap_remove(index);
            let interval = self.interval.as_picos().max(1);
            let first = random.random_range(0..interval);
            for start in (first..self.duration.as_picos()).step_by(interval as usize) {
                lines.push(TraceLine {
                    source: source.number,
                    destination: destination.number,
                    start: Time::from_picos(start).whole_nanos(),
                    flow,
                    bytes: self.payload_bytes,
                });
            }
        }
        lines.sort_by_key(|line| line.start);
        lines
    }
}

/// Calls among services, as flows: nearly all go to few machines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RpcWorkload {
    /// The number of calls.
    pub calls: u32,
    /// The share of machines that are called.
    pub called_share: f64,
    /// The share of the called machines that are popular.
    pub popular_share: f64,
    /// The share of calls that the popular machines get.
    pub popular_calls: f64,
    /// The skew of calls among the popular machines: 0 is even (Zipf's exponent).
    pub popular_skew: f64,
    /// The greatest size of a call in bytes; sizes are uniform.
    pub most_bytes: u64,
    /// The time at which the last calls start.
    pub duration: Time,
    /// The seed.
    pub seed: u64,
}

impl RpcWorkload {
    /// The published properties: 24 % of the machines are called, and 95 % of calls go to few.
    pub const fn published(seed: u64) -> RpcWorkload {
        RpcWorkload {
            calls: 2_500_000,
            called_share: 0.24,
            popular_share: 0.2,
            popular_calls: 0.95,
            popular_skew: 0.0,
            most_bytes: 2_048,
            duration: Time::from_micros(25_000),
            seed,
        }
    }

    /// The published properties and the hits of Table 5: calls among the popular machines are
    /// as uneven as words in natural texts.
    pub const fn fitted(seed: u64) -> RpcWorkload {
        RpcWorkload {
            popular_skew: 1.0,
            ..RpcWorkload::published(seed)
        }
    }

    /// Generates the lines for the machines of a placement.
    ///
    /// Unpopular machines are called in turn, so that each is called before any is called
    /// again.
    pub fn generate(&self, placement: &Placement) -> Vec<TraceLine> {
        let machines = Machines::new(placement);
        let mut random = Pcg64::seed_from_u64(self.seed);
        let mut called = machines.shuffled(&mut random);
        called.truncate(share_of(called.len(), self.called_share).max(1));
        let split = share_of(called.len(), self.popular_share).clamp(1, called.len().max(1));
        let skewed = match self.popular_skew > 0.0 {
            true => Zipf::new(split as f64, self.popular_skew).ok(),
            false => None,
        };
        let mut turn = 0;
        let mut lines = Vec::new();
        for _ in 0..self.calls {
            if !machines.has_pairs() {
                break;
            }
            let unpopular = &called[split.min(called.len())..];
            let destination = if unpopular.is_empty() || random.random_bool(self.popular_calls) {
                let rank = match &skewed {
                    Some(rank) => rank.sample(&mut random) as usize - 1,
                    None => random.random_range(0..split),
                };
                called[rank]
            } else {
                turn += 1;
                unpopular[turn % unpopular.len()]
            };
            let start = random.random_range(0..self.duration.as_picos().max(1));
            lines.push(TraceLine {
                source: machines.source_for(destination, &mut random).number,
                destination: destination.number,
                start: Time::from_picos(start).whole_nanos(),
                flow: 0,
                bytes: random.random_range(1..=self.most_bytes.max(1)),
            });
        }
        lines.sort_by_key(|line| line.start);
        for (index, line) in lines.iter_mut().enumerate() {
            line.flow = index as u32 + 1;
        }
        lines
    }
}

/// Machines on other servers that all send datagrams to one machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncastWorkload {
    /// The number of senders.
    pub senders: u32,
    /// The destination, by its number in the placement.
    pub destination: u32,
    /// Packets of each sender.
    pub packets: u32,
    /// The time between two packets of a sender.
    pub interval: Time,
    /// Bytes of a packet.
    pub payload_bytes: u64,
    /// The seed.
    pub seed: u64,
}

impl IncastWorkload {
    /// The published properties: 64 machines send a packet each microsecond, for a
    /// millisecond.
    pub const fn published(seed: u64) -> IncastWorkload {
        IncastWorkload {
            senders: 64,
            destination: 5_200,
            packets: 1_000,
            interval: Time::from_micros(1),
            payload_bytes: 64,
            seed,
        }
    }

    /// Generates the lines for the machines of a placement; none if it lacks the destination.
    pub fn generate(&self, placement: &Placement) -> Vec<TraceLine> {
        let machines = Machines::new(placement);
        let mut random = Pcg64::seed_from_u64(self.seed);
        let mut lines = Vec::new();
        let known = machines
            .all
            .iter()
            .find(|one| one.number == self.destination);
        let Some(destination) = known else {
            return lines;
        };
        let mut senders = machines.shuffled(&mut random);
        senders.retain(|one| one.server != destination.server);
        senders.truncate(self.senders as usize);
        for packet in 0..self.packets {
            let start = self.interval.as_picos() * u64::from(packet);
            for (index, sender) in senders.iter().enumerate() {
                lines.push(TraceLine {
                    source: sender.number,
                    destination: self.destination,
                    start: Time::from_picos(start),
                    flow: index as u32 + 1,
                    bytes: self.payload_bytes,
                });
            }
        }
        lines
    }
}

/// A share of a count, rounded.
fn share_of(count: usize, share: f64) -> usize {
    (count as f64 * share).round() as usize
}

/// A machine and its server.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u32,
    server: u32,
}

struct Machines {
    all: Vec<Place>,
}

impl Machines {
    fn new(placement: &Placement) -> Machines {
        let servers = placement.servers().iter().enumerate();
        let all = servers.flat_map(|(server, machines)| {
            let server = server as u32;
            machines.iter().map(move |&number| Place { number, server })
        });
        Machines { all: all.collect() }
    }

    /// Whether there are machines on at least two servers.
    fn has_pairs(&self) -> bool {
        let ends = (self.all.first(), self.all.last());
        matches!(ends, (Some(first), Some(last)) if first.server != last.server)
    }

    fn shuffled(&self, random: &mut Pcg64) -> Vec<Place> {
        let mut all = self.all.clone();
        all.shuffle(random);
        all
    }

    /// Draws a machine of a group of `servers` neighbours; the number of the group wraps.
    fn of_group(&self, group: usize, servers: u32, random: &mut Pcg64) -> Option<Place> {
        let servers = servers.max(1);
        let groups = self.all.last()?.server / servers + 1;
        let group = (group % groups as usize) as u32;
        let first_of = |group| self.all.partition_point(|one| one.server / servers < group);
        let members = &self.all[first_of(group)..first_of(group + 1)];
        match members.is_empty() {
            true => None,
            false => Some(members[random.random_range(0..members.len())]),
        }
    }

    fn pair(&self, random: &mut Pcg64) -> (u32, u32) {
        let destination = self.all[random.random_range(0..self.all.len())];
        (
            self.source_for(destination, random).number,
            destination.number,
        )
    }

    /// Draws a machine on another server.
    fn source_for(&self, destination: Place, random: &mut Pcg64) -> Place {
        loop {
            let source = self.all[random.random_range(0..self.all.len())];
            if source.server != destination.server {
                return source;
            }
        }
    }
}
