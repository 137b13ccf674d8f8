//! Caches filled by a central controller, which shows the value of a global but delayed
//! allocation.
//!
//! ```text
//!   every 150 or 300 µs:   matrix of what went to gateways ---> integer program ---> the caches
//! ```
//!
//! ToRs count the packets of their own hosts that are addressed to gateways, by route and
//! destination. The controller reads and resets the counts. It finds the placement of mappings
//! that would have served these packets best (`program.rs`), and installs it in the caches at
//! once and without cost. So it is a bound and not a system (section 5). A cache is LRU, so
//! mappings that a plan omits stay while there is room.
//!
//! | cost of a packet | if a switch on its route has the mapping | otherwise |
//! | --- | --- | --- |
//! | [`ControllerCost::Relaxed`] | 8; if its gateway is in its own rack, the links to its machine | 40 |
//! | [`ControllerCost::Exact`] | links to the first such switch, and from there to the machine | links to the gateway, 40, links from there |
//!
//! The first is the published code's, which omits the exact one as too slow. The second is
//! appendix A.1's, with a link and a µs as one unit.
//!
//! The search for the best plan is limited by its steps, not by time, so that a run is the
//! same on every machine. [`ControllerReport`] says how good the plans provably are.
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*, SIGCOMM
//! 2024, appendices A.1 and A.2.

mod program;

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;
use thalweg_v2p::{Address, Database, Key};

use self::program::{Demand, Proof, solve};
use super::recent::RecentCache;
use super::{Question, Resolution};
use crate::Time;
use crate::ecmp::Ecmp;
use crate::id::NodeId;
use crate::topology::Topology;

/// The cost of a packet that a cache on its route resolves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerCost {
    /// Constant along the route: the published code's.
    Relaxed,
    /// The links of its route: appendix A.1's.
    Exact,
}

/// The settings of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller {
    /// Entries of a switch.
    pub entries: u32,
    /// The time between two plans.
    pub interval: Time,
    /// The cost to minimize.
    pub cost: ControllerCost,
    /// The cost of resolving at a gateway, in links.
    pub gateway_cost: u32,
    /// Branch-and-bound steps for a plan.
    pub step_limit: u64,
}

impl Controller {
    /// The published code's controller, at one of its intervals.
    pub const fn artifact(entries: u32, interval: Time) -> Controller {
        Controller {
            entries,
            interval,
            cost: ControllerCost::Relaxed,
            gateway_cost: 40,
            step_limit: 200,
        }
    }

    /// The controller of appendix A.1.
    pub const fn paper(entries: u32, interval: Time) -> Controller {
        Controller {
            cost: ControllerCost::Exact,
            ..Controller::artifact(entries, interval)
        }
    }
}

/// The quality of the plans.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ControllerReport {
    /// Plans with a decision to make.
    pub plans: u64,
    /// Of these, plans that were proven best.
    pub proven: u64,
    /// Plans with nothing proven: too large, or out of steps.
    pub unproven: u64,
    /// The largest relative distance from the best plan, among plans with a bound.
    pub largest_gap: f64,
}

/// A route from a rack to a gateway, and the destination key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Stream {
    tor: NodeId,
    gateway: NodeId,
    /// The hash that chooses among equal routes.
    path: u64,
    key: Key,
}

/// The caches of all switches, and the controller.
#[derive(Clone, Debug)]
pub(crate) struct Planner {
    settings: Controller,
    caches: Vec<RecentCache>,
    matrix: HashMap<Stream, u64>,
    next_plan: Time,
    report: ControllerReport,
}

impl Planner {
    /// Creates empty caches; the first plan is due at once.
    pub(crate) fn new(settings: Controller, switch_count: usize) -> Planner {
        Planner {
            settings,
            caches: vec![RecentCache::new(settings.entries); switch_count],
            matrix: HashMap::new(),
            next_plan: Time::ZERO,
            report: ControllerReport::default(),
        }
    }

    /// Resolves a packet if the switch has its mapping.
    pub(crate) fn handle(&mut self, question: Question<'_>, switch: NodeId) -> Resolution {
        match question.is_unresolved {
            true => {
                let cache = &mut self.caches[switch.0 as usize];
                cache.find(question.data.destination_key()).into()
            }
            false => Resolution::AsIs,
        }
    }

    /// Counts a packet that a host sends towards a gateway.
    pub(crate) fn count(&mut self, tor: NodeId, gateway: NodeId, path: u64, key: Key) {
        let stream = Stream {
            tor,
            gateway,
            path,
            key,
        };
        *self.matrix.entry(stream).or_default() += 1;
    }

    /// The time of the next plan.
    pub(crate) fn next_plan(&self) -> Time {
        self.next_plan
    }

    /// The quality of the plans so far.
    pub(crate) fn report(&self) -> ControllerReport {
        self.report
    }

    /// Makes a plan from the counts, and installs it in the caches.
    pub(crate) fn plan(&mut self, topology: &Topology, ecmp: Ecmp, database: &Database) {
        self.next_plan += self.settings.interval;
        let mut streams: Vec<(Stream, u64)> = self.matrix.drain().collect();
        streams.sort_unstable();
        let mut targets: BTreeMap<Key, (u32, Address)> = BTreeMap::new();
        for (stream, _) in &streams {
            if let Some(place) = database.find(stream.key) {
                targets.insert(stream.key, (0, place));
            }
        }
        for (index, (number, _)) in targets.values_mut().enumerate() {
            *number = index as u32;
        }
        let demands: Vec<Demand> = streams
            .iter()
            .filter_map(|(stream, packets)| {
                let &(target, place) = targets.get(&stream.key)?;
                let options = self.options(*stream, topology, ecmp, place)?;
                Some(Demand {
                    weight: *packets,
                    target,
                    options,
                })
            })
            .collect();
        if demands.is_empty() || self.settings.entries == 0 {
            return;
        }
        let limits = (self.settings.entries, self.settings.step_limit);
        let plan = solve(&demands, self.caches.len(), limits.0, limits.1);
        self.report.plans += 1;
        match plan.proof {
            Proof::Best => self.report.proven += 1,
            Proof::Within(gap) => self.report.largest_gap = self.report.largest_gap.max(gap),
            Proof::None => self.report.unproven += 1,
        }
        let list: Vec<(Key, Address)> = targets.iter().map(|(key, at)| (*key, at.1)).collect();
        for (switch, target) in plan.placed {
            let (key, place) = list[target as usize];
            self.caches[switch as usize].put(key, place);
        }
    }

    /// The switches on a stream's route, and the saving at each.
    fn options(
        &self,
        stream: Stream,
        topology: &Topology,
        ecmp: Ecmp,
        place: Address,
    ) -> Option<SmallVec<[(u32, u32); 5]>> {
        let host = topology.node_of(place)?;
        let way = way_of(stream, topology, ecmp)?;
        let gateway = self.settings.gateway_cost;
        let links = |position: usize| {
            let rest = steps(topology, way[position], host)?;
            Some(position as u32 + 1 + rest)
        };
        let costs = |position: usize| match self.settings.cost {
            ControllerCost::Exact => links(position),
            ControllerCost::Relaxed if way.len() == 1 => links(position),
            ControllerCost::Relaxed => Some(RELAXED),
        };
        let otherwise = match self.settings.cost {
            ControllerCost::Exact => {
                let there = way.len() as u32 + 1;
                there + gateway + 1 + steps(topology, *way.last()?, host)?
            }
            ControllerCost::Relaxed => gateway,
        };
        let option = |(position, switch): (usize, &NodeId)| {
            Some((switch.0, otherwise.saturating_sub(costs(position)?)))
        };
        way.iter().enumerate().map(option).collect()
    }
}

/// The number of links that the published code assumes for every packet resolved by a cache.
const RELAXED: u32 = 8;

/// The switches from a rack to a gateway.
fn way_of(stream: Stream, topology: &Topology, ecmp: Ecmp) -> Option<SmallVec<[NodeId; 5]>> {
    let mut way = SmallVec::new();
    let mut at = stream.tor;
    while at != stream.gateway {
        way.push(at);
        let ports = topology.next_ports(at, stream.gateway);
        let chosen = match ports.len() {
            0 => return None,
            1 => 0,
            count => ecmp.choose(stream.path, at, count),
        };
        at = topology.peer(ports[chosen]);
    }
    Some(way)
}

/// The number of links from a switch to a host.
fn steps(topology: &Topology, switch: NodeId, host: NodeId) -> Option<u32> {
    let (mut at, mut steps) = (switch, 0);
    while at != host {
        at = topology.peer(*topology.next_ports(at, host).first()?);
        steps += 1;
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FatTree;

    /// Compares the costs of packets with the published code's table of cases.
    #[test]
    fn ways_and_links_are_those_of_the_fabric() {
        let topology = Topology::new(&FatTree::ft8_10k(1)).unwrap();
        let planner = |cost| {
            Planner::new(
                Controller {
                    cost,
                    ..Controller::artifact(1, Time::from_micros(150))
                },
                80,
            )
        };
        let savings = |cost, tor: u32, gateway: usize, server: usize| -> Vec<u32> {
            let node = topology.gateways()[gateway];
            let stream = Stream {
                tor: NodeId(48 + tor),
                gateway: node,
                path: 5,
                key: Key {
                    vni: thalweg_v2p::Vni::default(),
                    address: topology.address(node),
                },
            };
            let place = topology.address(topology.servers()[server]);
            let options = planner(cost).options(stream, &topology, Ecmp::Artifact, place);
            options.unwrap().iter().map(|option| option.1).collect()
        };
        use ControllerCost::{Exact, Relaxed};
        // Servers 4t..4t+3 are ToR t's; gateways are on ToRs 0, 10, 20, 31.
        assert_eq!(savings(Relaxed, 0, 0, 1), [38]);
        assert_eq!(savings(Relaxed, 0, 0, 4), [36]);
        assert_eq!(savings(Relaxed, 0, 0, 60), [34]);
        assert_eq!(savings(Relaxed, 1, 0, 4), [32; 3]);
        assert_eq!(savings(Relaxed, 4, 0, 4), [32; 5]);
        // To another pod's gateway, for the sender's own rack: 6 + 40 + 6 without a cache.
        let costs = [2, 4, 6, 8, 10].map(|cost| 52 - cost);
        assert_eq!(savings(Exact, 4, 0, 16), costs);
        // For the gateway's rack: 6 + 40 + 2.
        assert_eq!(savings(Exact, 4, 0, 0), [48 - 6; 5]);
        // For the gateway's pod, another rack: 6 + 40 + 4.
        assert_eq!(
            savings(Exact, 4, 0, 4),
            [6, 6, 6, 6, 8].map(|cost| 50 - cost)
        );
    }
}
