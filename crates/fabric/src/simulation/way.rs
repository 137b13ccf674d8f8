//! Records one packet's way, hop by hop: what each node did with it.
//!
//! The caller asks for it before the run starts. The actions of a protocol switch are read
//! from the changes of its counters, so the protocol does not need to know that it is
//! observed.

use std::fmt::Write;

use thalweg_v2p::{AgentCounters, Body, Data};

use super::{Endpoint, Simulation};
use crate::Time;
use crate::id::NodeId;
use crate::report::Drop;
use crate::schemes::Caches;

/// The watched packet's treatment at one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketStep {
    /// The time.
    pub at: Time,
    /// The node: `ToR 3`, `server 17`, counted from 0.
    pub node: String,
    /// A description.
    pub what: String,
}

/// The watched packet and its way.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Its flow's number in the trace.
    flow: u32,
    /// Its number in the flow.
    sequence: u32,
    steps: Vec<PacketStep>,
}

/// The state of a switch and a packet before the switch handles it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    destination: NodeId,
    is_tagged: bool,
    is_carrying: bool,
    counters: Option<AgentCounters>,
}

impl Simulation {
    /// From now on records the way of packet `sequence`, from 0, of the trace's flow `flow`.
    /// In a connection the packets of both ends are counted.
    pub fn watch_packet(&mut self, flow: u32, sequence: u32) {
        let steps = Vec::new();
        self.way = Some(Box::new(Way {
            flow,
            sequence,
            steps,
        }));
    }

    /// The way of the watched packet so far.
    pub fn packet_steps(&self) -> &[PacketStep] {
        self.way.as_deref().map_or(&[], |way| &way.steps)
    }

    fn is_watched(&self, flight: u32) -> bool {
        let Some(way) = &self.way else {
            return false;
        };
        let under_way = &self.flights[flight as usize];
        let is_data = matches!(under_way.packet.body, Body::Data(_));
        is_data
            && under_way.sequence == way.sequence
            && self.flows[under_way.flow as usize].number == way.flow
    }

    fn note(&mut self, node: NodeId, what: String) {
        let step = PacketStep {
            at: self.now,
            node: self.topology.name(node).to_string(),
            what,
        };
        if let Some(way) = &mut self.way {
            way.steps.push(step);
        }
    }

    fn destination_of(&self, flight: u32) -> String {
        self.topology
            .name(self.flights[flight as usize].destination)
            .to_string()
    }

    /// Notes that the packet is about to be sent for the first time.
    #[cold]
    pub(super) fn way_send(&mut self, flight: u32, node: NodeId) {
        if !self.is_watched(flight) {
            return;
        }
        let under_way = &self.flights[flight as usize];
        let bytes = under_way.bytes;
        let text = match &under_way.packet.body {
            Body::Data(data) => addresses(data),
            Body::Learning(_) | Body::Invalidation(_) => String::new(),
        };
        let to = self.destination_of(flight);
        self.note(node, format!("sends {bytes} bytes {text} to {to}"));
    }

    /// Notes the state when the packet reached a switch that has not yet handled it.
    #[cold]
    pub(super) fn way_before(&self, flight: u32, switch: NodeId) -> Option<Look> {
        if !self.is_watched(flight) {
            return None;
        }
        let under_way = &self.flights[flight as usize];
        let (is_tagged, is_carrying) = tags_of(&under_way.packet.body);
        Some(Look {
            destination: under_way.destination,
            is_tagged,
            is_carrying,
            counters: self.counters_of(switch),
        })
    }

    fn counters_of(&self, switch: NodeId) -> Option<AgentCounters> {
        match &self.caches {
            Caches::Protocol(agents) => Some(*agents[switch.0 as usize].counters()),
            _ => None,
        }
    }

    /// Notes what the switch did with the packet.
    #[cold]
    pub(super) fn way_after(&mut self, flight: u32, switch: NodeId, before: Look) {
        let under_way = &self.flights[flight as usize];
        let (is_tagged, is_carrying) = tags_of(&under_way.packet.body);
        let mut text = String::new();
        let now = self.counters_of(switch);
        if let (Some(before), Some(now)) = (before.counters, now) {
            text = difference(&before, &now);
        }
        let is_elsewhere = under_way.destination != before.destination;
        let to = self.destination_of(flight);
        if is_elsewhere {
            append(&mut text, "destination rewritten");
        }
        if is_tagged && !before.is_tagged {
            append(&mut text, "tagged as misdelivered");
        }
        match (before.is_carrying, is_carrying) {
            (false, true) => append(&mut text, "carries a mapping from here"),
            (true, false) => append(&mut text, "the mapping that it carried stays here"),
            _ => {}
        }
        append(&mut text, &format!("on to {to}"));
        self.note(switch, text);
    }

    /// Notes that the packet reached a server or gateway.
    #[cold]
    pub(super) fn way_endpoint(&mut self, flight: u32, node: NodeId) {
        if !self.is_watched(flight) {
            return;
        }
        let what = match &self.endpoints[self.endpoint_index(node)] {
            Endpoint::Gateway(_) => "arrives, to be resolved",
            Endpoint::Host(_) => {
                let machine = self.flights[flight as usize].machine;
                match self.machines.all[machine as usize].node == node {
                    true => "delivered",
                    false => "misdelivered: the machine is not here",
                }
            }
        };
        self.note(node, what.to_owned());
    }

    /// Notes that the packet leaves a server or gateway that it had reached.
    #[cold]
    pub(super) fn way_leave(&mut self, flight: u32, node: NodeId) {
        let was_just_sent = |step: &PacketStep| step.at == self.now;
        if self.is_watched(flight) && !self.packet_steps().last().is_some_and(was_just_sent) {
            let to = self.destination_of(flight);
            self.note(node, format!("leaves for {to}"));
        }
    }

    /// Notes that the packet is dropped.
    #[cold]
    pub(super) fn way_drop(&mut self, flight: u32, reason: Drop) {
        if self.is_watched(flight) {
            let to = self.flights[flight as usize].destination;
            self.note(to, format!("never gets there: {}", reason.name()));
        }
    }
}

fn addresses(data: &Data) -> String {
    format!("from {} for {}", data.inner_source, data.inner_destination)
}

/// Whether a packet has a misdelivery tag, and whether it carries a mapping.
fn tags_of(body: &Body) -> (bool, bool) {
    match body {
        Body::Data(data) => (data.tags.misdelivery.is_some(), data.tags.carried.is_some()),
        Body::Learning(_) | Body::Invalidation(_) => (false, false),
    }
}

fn append(text: &mut String, what: &str) {
    let comma = if text.is_empty() { "" } else { ", " };
    write!(text, "{comma}{what}").expect("a string takes everything");
}

/// A count, and its meaning if it has risen.
type Counted = (fn(&AgentCounters) -> u64, &'static str);

/// The description of an agent's counts for one packet.
fn difference(before: &AgentCounters, now: &AgentCounters) -> String {
    let counts: [Counted; 15] = [
        (|of| of.hits, "hit"),
        (|of| of.misses, "miss"),
        (|of| of.admitted_free, "learned in a free line"),
        (|of| of.admitted_again, "knew what it could learn"),
        (
            |of| of.admitted_other_place,
            "learned another place of the machine",
        ),
        (|of| of.evicted, "learned in place of another mapping"),
        (AgentCounters::refused, "did not learn"),
        (|of| of.spilled, "spilled a mapping"),
        (|of| of.promoted, "promoted a mapping"),
        (|of| of.carried_lost, "threw away a carried mapping"),
        (|of| of.learning_packets, "teaches the sender's ToR"),
        (|of| of.tagged, "sees that it was misdelivered"),
        (|of| of.invalidated_by_tag, "threw the stale mapping out"),
        (
            |of| of.invalidation_packets,
            "blames the switch that was wrong",
        ),
        (
            |of| of.invalidations_suppressed,
            "has just blamed that switch",
        ),
    ];
    let mut text = String::new();
    for (count, what) in counts {
        if count(now) > count(before) {
            append(&mut text, what);
        }
    }
    text
}
