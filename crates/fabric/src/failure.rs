//! Links and switches that fail while a run goes on.
//!
//! ```text
//!   fails ------------ reroute_after ------------> others go round it
//!   |  what is on the link, in its queues or offered to it is dropped: LinkDown
//!   mended ----------- reroute_after ------------> they use it again
//! ```
//!
//! A link fails in both directions. A switch that fails is one all of whose links do; what its caches
//! hold it has when it comes back. Next hops are computed anew from the links that work, so that
//! packets take shortest paths of what is left, and a node that cannot be reached has none: NoRoute.
//! In between packets run into the failure and are counted.
//!
//! 1. A packet that was on a link or in its queue when it failed never arrives, even if the link is
//!    mended before.
//! 2. An element that failed twice works again when it was mended twice.

use crate::Time;
use crate::topology::{NodeId, PortId, Topology};

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// The link between two nodes, in either order.
    Link(NodeId, NodeId),
    /// A switch, by its number.
    Switch(NodeId),
}

/// Something fails for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What.
    pub element: Element,
    /// From when.
    pub at: Time,
    /// Until when; `None` is for ever.
    pub until: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// The failure of this index begins.
    Fails(u32),
    /// It ends.
    Mended(u32),
    /// Routes follow.
    Reroute,
}

/// The failures of a run, and what works by now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    /// The ports of each failure.
    ports: Vec<Vec<PortId>>,
    /// By time.
    changes: Vec<(Time, Change)>,
    next: usize,
    /// How many failures each port is in.
    depth: Vec<u16>,
}

/// What is to be done with ports and routes.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// These ports went down, or up.
    Ports { ports: Vec<PortId>, is_up: bool },
    /// Next hops are to be computed anew.
    Reroute,
}

impl Failures {
    /// Finds the ports of each failure; gives the index of the first that has none.
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

    /// When something changes next.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.changes.get(self.next).map(|(time, _)| *time)
    }

    /// What changes next; `None` if it makes no difference.
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
            // It changes for a port that is in no other failure.
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
