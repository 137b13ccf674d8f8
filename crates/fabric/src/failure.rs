//! Links and switches that fail during a run.
//!
//! ```text
//!   fails ------------ reroute_after ------------> others go round it
//!   |  what is on the link, in its queues or offered to it is dropped: LinkDown
//!   mended ----------- reroute_after ------------> they use it again
//! ```
//!
//! A link fails in both directions. When a switch fails, all its links fail; its caches keep
//! their contents. Next hops are recomputed from the working links, so packets take the
//! shortest remaining paths; an unreachable node has none: NoRoute. Before that, packets run
//! into the failure and are counted.
//!
//! 1. A packet that was on a link or in its queue when it failed never arrives, even if the
//!    link is repaired earlier.
//! 2. An element that failed twice works again after both failures end.

use crate::Time;
use crate::id::{NodeId, PortId};
use crate::topology::Topology;

/// The failing element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// The link between two nodes, in either order.
    Link(NodeId, NodeId),
    /// A switch, by its number.
    Switch(NodeId),
}

/// A failure and its duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The failing element.
    pub element: Element,
    /// The start.
    pub at: Time,
    /// The end; `None` is never.
    pub until: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// The failure with this index begins.
    Fails(u32),
    /// The failure with this index ends.
    Mended(u32),
    /// Routes are recomputed.
    Reroute,
}

/// The failures of a run, and the current state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    /// The ports of each failure.
    ports: Vec<Vec<PortId>>,
    /// Sorted by time.
    changes: Vec<(Time, Change)>,
    next: usize,
    /// For each port, the number of failures that it is part of.
    depth: Vec<u16>,
}

/// The effect of a change on ports and routes.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// These ports went down, or up.
    Ports { ports: Vec<PortId>, is_up: bool },
    /// Next hops must be recomputed.
    Reroute,
}

impl Failures {
    /// Finds the ports of each failure; returns the index of the first that has none.
    pub(crate) fn new(
        topology: &Topology,
        failures: &[Failure],
        reroute_after: Time,
    ) -> Result<Failures, usize> {
        let mut made = Failures {
            depth: vec![0; topology.port_count()],
            ..Failures::default()
        };
        for (index, failure) in failures.iter().enumerate() {
            let ports = ports_of(topology, failure.element);
            if ports.is_empty() || failure.until.is_some_and(|until| until <= failure.at) {
                return Err(index);
            }
            made.ports.push(ports);
            made.changes.push((failure.at, Change::Fails(index as u32)));
            made.changes
                .push((failure.at + reroute_after, Change::Reroute));
            if let Some(until) = failure.until {
                made.changes.push((until, Change::Mended(index as u32)));
                made.changes.push((until + reroute_after, Change::Reroute));
            }
        }
        made.changes.sort_by_key(|(time, _)| *time);
        Ok(made)
    }

    /// The time of the next change.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.changes.get(self.next).map(|(time, _)| *time)
    }

    /// Applies the next change; `None` if it has no effect.
    pub(crate) fn take(&mut self) -> Option<Effect> {
        let (_, change) = *self.changes.get(self.next)?;
        self.next += 1;
        let (index, is_up) = match change {
            Change::Reroute => return Some(Effect::Reroute),
            Change::Fails(index) => (index, false),
            Change::Mended(index) => (index, true),
        };
        let mut ports = self.ports[index as usize].clone();
        ports.retain(|port| {
            let depth = &mut self.depth[port.0 as usize];
            *depth = if is_up { *depth - 1 } else { *depth + 1 };
            // Only ports that are in no other failure change.
            *depth == u16::from(!is_up)
        });
        Some(Effect::Ports { ports, is_up })
    }

    /// Whether a port works.
    pub(crate) fn is_up(&self, port: PortId) -> bool {
        self.depth[port.0 as usize] == 0
    }
}

fn ports_of(topology: &Topology, element: Element) -> Vec<PortId> {
    let ports = (0..topology.port_count() as u32).map(PortId);
    let joins = |port, one, other| topology.owner(port) == one && topology.peer(port) == other;
    match element {
        Element::Link(one, other) => ports
            .filter(|&port| joins(port, one, other) || joins(port, other, one))
            .collect(),
        Element::Switch(switch) if (switch.0 as usize) < topology.switch_count() => {
            topology.link_ports(switch).collect()
        }
        Element::Switch(_) => Vec::new(),
    }
}
