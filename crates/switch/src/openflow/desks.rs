//! The desks of all bridges: does what planes call for, and tells each what happens unasked.
//!
//! 1. In one poll the desks take turns, one call each, beginning behind the one that was served
//!    last; at most [`CALLS_PER_POLL`] calls are done.
//! 2. What happens is told to the plane of its bridge only: rules and packets by their table,
//!    ports by their number. Without a plane there it is counted.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use thalweg_control::openflow::target::{Event, FlowEvent};
use thalweg_openflow::message::flow::removed;
use thalweg_openflow::message::monitor::MonitorEvent;
use thalweg_packet::Instant;
use thalweg_pipeline::{BridgeId, Change, Delta, GroupId, Misses, RuleId, Version};

use super::cursor::stats_of;
use super::desk::{Desk, DeskMemory, OpenFlowCounters, flow_removed, reason_number};
use super::numbering::Numbering;
use super::{packets, statistics};
use crate::message::PacketIn;
use crate::removal::RemovalReason;
use crate::switch::Switch;

/// Most calls done in one poll.
const CALLS_PER_POLL: usize = 64;

/// The switch's side of OpenFlow.
#[derive(Default)]
pub(crate) struct Desks {
    by_bridge: BTreeMap<BridgeId, Desk>,
    /// The state of bridges whose plane has ended.
    memories: BTreeMap<BridgeId, DeskMemory>,
    /// The bridge whose call was done last.
    last_served: Option<BridgeId>,
    /// Whether ports may differ from the last events about them.
    are_ports_stale: bool,
    /// Events of bridges without a plane.
    unclaimed: OpenFlowCounters,
}

impl Desks {
    /// Whether OpenFlow drives no bridge.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_bridge.is_empty()
    }

    pub(super) fn get(&self, bridge: BridgeId) -> Option<&Desk> {
        self.by_bridge.get(&bridge)
    }

    pub(super) fn get_mut(&mut self, bridge: BridgeId) -> Option<&mut Desk> {
        self.by_bridge.get_mut(&bridge)
    }

    /// Adds the desk of a bridge; it takes over what the one before it knows.
    pub(super) fn insert(&mut self, mut desk: Desk) {
        let bridge = desk.numbers.bridge;
        let former = self.by_bridge.remove(&bridge).map(Desk::into_memory);
        if let Some(former) = former.or_else(|| self.memories.remove(&bridge)) {
            desk.take_over(former);
        }
        self.by_bridge.insert(bridge, desk);
    }

    /// Ends a desk, and remembers what it knows of the bridge. Returns what tables without a
    /// rule for a packet did.
    pub(super) fn remove(&mut self, bridge: BridgeId) -> Option<Misses> {
        let mut desk = self.by_bridge.remove(&bridge)?;
        let misses = std::mem::take(&mut desk.misses);
        self.memories.insert(bridge, desk.into_memory());
        Some(misses)
    }

    /// Forgets a bridge that is gone.
    pub(crate) fn forget(&mut self, bridge: BridgeId) {
        self.memories.remove(&bridge);
    }

    /// When groups were made, as far as that is known.
    pub(crate) fn groups_made_at(&self) -> BTreeMap<GroupId, Instant> {
        let desks = self.by_bridge.values();
        desks.flat_map(|desk| desk.groups.clone()).collect()
    }

    /// Notes when a group was made.
    pub(crate) fn note_group(&mut self, id: GroupId, made_at: Instant) {
        if let Some(desk) = self.by_bridge.get_mut(&id.bridge()) {
            desk.groups.insert(id, made_at);
        }
    }

    /// The oldest version that a cursor of any plane reads at `now`.
    pub(crate) fn oldest_pinned(&mut self, now: Instant) -> Option<Version> {
        let desks = self.by_bridge.values_mut();
        desks.filter_map(|desk| desk.oldest_pinned(now)).min()
    }

    /// Notes that ports came, went or changed.
    pub(crate) fn note_ports(&mut self) {
        self.are_ports_stale = true;
    }

    /// Hands an event to the plane of a bridge.
    pub(super) fn announce(&mut self, bridge: BridgeId, event: Event) {
        match self.by_bridge.get_mut(&bridge) {
            Some(desk) => desk.push(event),
            None if matches!(event, Event::Packet(_)) => self.unclaimed.packet_ins_refused += 1,
            None => self.unclaimed.events_refused += 1,
        }
    }

    /// The bridges with a plane, the one served last at the end.
    fn turns(&self) -> Vec<BridgeId> {
        let last = self.last_served;
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.by_bridge.range((behind, Bound::Unbounded));
        let before = last.map(|last| self.by_bridge.range(..=last));
        let turns = behind.chain(before.into_iter().flatten());
        turns.map(|(bridge, _)| *bridge).collect()
    }

    fn numberings(&self) -> Vec<Numbering> {
        self.by_bridge.values().map(|desk| desk.numbers).collect()
    }
}

impl Switch {
    /// What OpenFlow lost for lack of room; `None` if OpenFlow does not drive the bridge.
    pub fn openflow_counters(&self, bridge: BridgeId) -> Option<OpenFlowCounters> {
        self.desks.get(bridge).map(|desk| desk.counters)
    }

    /// How long a bridge exists, as far as OpenFlow drives it; else the age of the switch.
    pub fn bridge_age(&self, bridge: BridgeId) -> Duration {
        let desk = self.desks.get(bridge);
        self.now() - desk.map_or(Instant::ZERO, |desk| desk.made_at)
    }

    /// Events that no plane got, since their bridge has none while others do.
    pub fn openflow_unclaimed(&self) -> OpenFlowCounters {
        self.desks.unclaimed
    }

    /// Does what OpenFlow calls for, and tells it what happened.
    pub(crate) fn serve_openflow(&mut self) {
        if self.desks.is_empty() {
            return;
        }
        self.do_calls();
        // Ports first: packets of a flood leave them no room.
        self.tell_ports();
        let packets = self.collect_packet_ins();
        self.announce_packets(packets);
        self.tell_removals();
    }

    /// Does waiting calls (invariant 1).
    fn do_calls(&mut self) {
        let mut turns = self.desks.turns();
        let mut left = CALLS_PER_POLL;
        while left > 0 && !turns.is_empty() {
            let mut callers = Vec::new();
            for bridge in turns {
                let desk = self.desks.get(bridge).filter(|_| left > 0);
                let Some(call) = desk.and_then(|desk| desk.calls.next()) else {
                    continue;
                };
                left -= 1;
                self.desks.last_served = Some(bridge);
                call(self);
                callers.push(bridge);
            }
            turns = callers;
        }
    }

    /// Tells controllers of packets.
    pub(super) fn announce_packets(&mut self, packets: Vec<PacketIn>) {
        if packets.is_empty() {
            return;
        }
        let fields = self.pipeline().fields().clone();
        for packet in packets {
            let table = packet.notice.sender.as_ref().map(|sender| sender.table);
            let bridge = match table {
                Some(table) => table.bridge(),
                None => self.pipeline().bridge_of(packet.in_port),
            };
            match self.desks.get_mut(bridge) {
                Some(desk) => {
                    let event = packets::event_of(&fields, desk.numbers, desk.run, packet);
                    desk.push(Event::Packet(Box::new(event)));
                }
                None => self.desks.unclaimed.packet_ins_refused += 1,
            }
        }
    }

    fn tell_removals(&mut self) {
        if !self.may_have_removals() {
            return;
        }
        for removal in self.collect_removals() {
            match self.desks.get_mut(removal.flow.table.bridge()) {
                Some(desk) => {
                    let told = flow_removed(desk.numbers, &removal);
                    desk.push(Event::FlowRemoved(Box::new(told)));
                }
                None => self.desks.unclaimed.events_refused += 1,
            }
        }
    }

    /// Compares the ports with the last events, if they may differ. Events that a plane has no
    /// room for follow later, so that no controller misses a port that stays.
    fn tell_ports(&mut self) {
        if !std::mem::take(&mut self.desks.are_ports_stale) {
            return;
        }
        for numbers in self.desks.numberings() {
            let desk = self.desks.get(numbers.bridge);
            if desk.is_some_and(|desk| !desk.has_room_for_port()) {
                self.desks.are_ports_stale = true;
                continue;
            }
            let now = statistics::port_descriptions(self, numbers);
            if let Some(desk) = self.desks.get_mut(numbers.bridge) {
                let (events, is_all) = desk.note_ports(now, desk.room());
                events.into_iter().for_each(|event| desk.push(event));
                self.desks.are_ports_stale |= !is_all;
            }
        }
    }

    /// Tells monitors of a change that the switch has made of rules.
    pub(crate) fn tell_changed(&mut self, delta: &Delta, change: &Change) {
        for numbers in self.desks.numberings() {
            self.tell_vacancy(numbers);
            let events = self.flow_events(numbers, delta, change);
            if let Some(desk) = self.desks.get_mut(numbers.bridge) {
                for event in events {
                    desk.push(Event::Flow(Box::new(event)));
                }
            }
        }
    }

    /// Tells monitors of rules that ended by themselves.
    pub(crate) fn tell_ended(&mut self, delta: &Delta, over: &[(RuleId, RemovalReason)]) {
        for numbers in self.desks.numberings() {
            self.tell_vacancy(numbers);
        }
        let mut desks = self.desks.by_bridge.values();
        if delta.removed.is_empty() || !desks.any(|desk| desk.watches_flows) {
            return;
        }
        let now = self.now();
        let shared = self.shared.clone();
        let pipeline = shared.pipeline.read();
        for id in &delta.removed {
            let rule = pipeline.rule(*id).filter(|_| !pipeline.is_succeeded(*id));
            let desk = rule.and_then(|rule| self.desks.get_mut(rule.table.bridge()));
            let Some(desk) = desk.filter(|desk| desk.watches_flows) else {
                continue;
            };
            let reason = over.iter().find(|(rule, _)| rule == id);
            let reason = match reason {
                Some((_, reason)) => reason_number(*reason),
                None if delta.evicted.contains(id) => removed::EVICTION,
                None => removed::DELETE,
            };
            if let Some(flow) = stats_of(&pipeline, desk.numbers, *id, None, now) {
                desk.push(Event::Flow(Box::new(FlowEvent {
                    before: None,
                    event: MonitorEvent::Removed,
                    flow,
                    reason,
                    change: 0,
                })));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::{OpenFlowIdentity, SwitchConfig};

    /// Invariant 1: one bridge after the other, and those left over come first in the next
    /// poll.
    #[test]
    fn planes_take_turns() {
        let mut config = SwitchConfig::default();
        config.pipeline.bridges = true;
        let mut switch = Switch::start(config, Vec::new()).expect("it starts");
        let count = CALLS_PER_POLL as u16 + 10;
        let done = Arc::new(Mutex::new(Vec::new()));
        let open = |switch: &mut Switch, bridge| {
            switch.open_flow(BridgeId(bridge), OpenFlowIdentity::new(1, "one"))
        };
        let planes: Vec<_> = (0..count).map(|bridge| open(&mut switch, bridge)).collect();
        let call = |bridge: u16| {
            let done = done.clone();
            let call = move |_: &mut Switch| done.lock().expect("one thread").push(bridge);
            let sent = planes[usize::from(bridge)].calls.try_send(Box::new(call));
            assert!(sent.is_ok());
        };
        (0..count).for_each(call);
        switch.poll(Duration::ZERO);
        let first = std::mem::take(&mut *done.lock().expect("one thread"));
        let expected: Vec<u16> = (0..CALLS_PER_POLL as u16).collect();
        assert_eq!(first, expected);
        // Those that were served call again at once.
        expected.into_iter().for_each(call);
        switch.poll(Duration::ZERO);
        let second = std::mem::take(&mut *done.lock().expect("one thread"));
        let left = CALLS_PER_POLL as u16..count;
        let expected: Vec<u16> = left.chain(0..CALLS_PER_POLL as u16 - 10).collect();
        assert_eq!(second, expected);
    }
}
