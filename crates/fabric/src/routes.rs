//! Equal-cost next hops between switches, computed once.
//!
//! A breadth-first search from each switch gives distances. A switch's next hops towards it
//! are the ports that lead one step nearer, in the order of the ports. Servers and gateways
//! need no routes: those of their ToR serve. Equal sets of ports are stored once. The caller
//! may choose other ports for a pair of switches.
//!
//! 1. Every next hop is one step nearer, except where the caller chose other ports; so no
//!    route has a loop, and each is a shortest one.
//! 2. A set is empty for the switch itself and for unreachable switches.
//!
//! Cost: eight bytes for each pair of switches; building visits every link for each switch.

use std::collections::HashMap;

use prefetch_index::prefetch_index;

use crate::id::{NodeId, PortId};

const UNREACHED: u32 = u32::MAX;

/// A range of the stored sets.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u32,
    end: u32,
}

/// Next hops for all pairs of switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    switch_count: usize,
    /// Indexed by switch, then by destination.
    table: Vec<Range>,
    /// The sets, one after the other.
    ports: Vec<PortId>,
}

impl Routes {
    /// Computes routes among `switches` switches. `links` gives a switch's ports, each with
    /// the switch it leads to; `instead` gives the ports from one switch to another that
    /// override the nearest ones.
    pub(crate) fn new(
        switches: u32,
        links: impl Fn(u32) -> Vec<(PortId, u32)>,
        instead: impl Fn(u32, u32) -> Option<Vec<PortId>>,
    ) -> Routes {
        let neighbors: Vec<Vec<(PortId, u32)>> = (0..switches).map(links).collect();
        let switch_count = neighbors.len();
        let none = Range { start: 0, end: 0 };
        let mut routes = Routes {
            switch_count,
            table: vec![none; switch_count * switch_count],
            ports: Vec::new(),
        };
        let mut known: HashMap<Vec<PortId>, Range> = HashMap::new();
        let mut distances = vec![UNREACHED; switch_count];
        let mut order = Vec::with_capacity(switch_count);
        for destination in 0..switch_count {
            measure(destination, &neighbors, &mut distances, &mut order);
            for &switch in &order[1..] {
                let nearer = neighbors[switch]
                    .iter()
                    .filter(|(_, peer)| distances[*peer as usize] < distances[switch])
                    .map(|(port, _)| *port);
                let other = instead(switch as u32, destination as u32);
                let set: Vec<PortId> = other.unwrap_or_else(|| nearer.collect());
                let range = *known.entry(set).or_insert_with_key(|set| {
                    let start = routes.ports.len() as u32;
                    routes.ports.extend_from_slice(set);
                    let end = routes.ports.len() as u32;
                    Range { start, end }
                });
                routes.table[switch * switch_count + destination] = range;
            }
        }
        routes
    }

    /// Prefetches a pair's entry.
    #[inline]
    pub(crate) fn ask(&self, switch: NodeId, destination: NodeId) {
        let index = switch.0 as usize * self.switch_count + destination.0 as usize;
        prefetch_index(&self.table, index);
    }

    #[inline]
    pub(crate) fn next_ports(&self, switch: NodeId, destination: NodeId) -> &[PortId] {
        let index = switch.0 as usize * self.switch_count + destination.0 as usize;
        let range = self.table[index];
        &self.ports[range.start as usize..range.end as usize]
    }
}

/// Computes the steps from each switch to `destination`, and the switches in that order.
fn measure(
    destination: usize,
    neighbors: &[Vec<(PortId, u32)>],
    distances: &mut [u32],
    order: &mut Vec<usize>,
) {
    distances.fill(UNREACHED);
    distances[destination] = 0;
    order.clear();
    order.push(destination);
    let mut next = 0;
    while let Some(&switch) = order.get(next) {
        next += 1;
        for &(_, peer) in &neighbors[switch] {
            let peer = peer as usize;
            if distances[peer] == UNREACHED {
                distances[peer] = distances[switch] + 1;
                order.push(peer);
            }
        }
    }
}
