//! Equal-cost next hops between switches, computed once.
//!
//! A search in breadth from each switch gives distances; the next hops towards it are a switch's
//! ports that lead one step nearer, in the order of the ports. Servers and gateways need no routes
//! of their own: their ToR's serve. Equal sets of ports are stored once. Whoever asks for the routes
//! may say for a pair of switches which ports it wants instead.
//!
//! 1. Every next hop is one step nearer, but where other ports were asked for; so no route has a
//!    loop, and each is a shortest one.
//! 2. A set is empty for the switch itself and for switches that cannot be reached.
//!
//! Cost: eight bytes for each pair of switches; building takes a look at every link for each switch.

use std::collections::HashMap;

use prefetch_index::prefetch_index;

use crate::topology::{NodeId, PortId};

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
    /// By switch, then by destination.
    table: Vec<Range>,
    /// The sets, one after the other.
    ports: Vec<PortId>,
}

impl Routes {
    /// Routes among so many switches; `links` gives the ports of one, each with the switch it
    /// leads to, and `instead` those that one takes to another whatever is nearer.
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

    /// Has a pair's entry brought nearer.
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

/// Steps from each switch to `destination`, and the switches in that order.
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
