//! The desk: the switch's side of one bridge's OpenFlow.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use thalweg_control::openflow::target::Event;
use thalweg_openflow::message::flow::{Counts, FlowRemoved, removed};
use thalweg_openflow::message::port::{PortDesc, PortReason, PortStatus, config, state};
use thalweg_packet::Instant;
use thalweg_pipeline::{GroupId, Misses, Version};

use super::cursor::{Pin, duration};
use super::numbering::Numbering;
use super::pausing::RunId;
use super::plane::{Calls, Events};
use super::tables::Tables;
use super::{OpenFlowIdentity, convert};
use crate::removal::{Removal, RemovalReason};

/// What OpenFlow lost for lack of room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlowCounters {
    /// Packets for controllers that the server did not collect in time.
    pub packet_ins_refused: u64,
    /// Other events, the same way.
    pub events_refused: u64,
}

/// What outlives a bridge's plane: controllers of its next one find it.
#[derive(Debug, Default)]
pub(super) struct DeskMemory {
    made_at: Instant,
    groups: BTreeMap<GroupId, Instant>,
    tables: Tables,
}

/// The switch's side of one bridge's OpenFlow.
pub(crate) struct Desk {
    pub(super) calls: Calls,
    events: Arc<Events>,
    pub(super) identity: Arc<OpenFlowIdentity>,
    pub(super) numbers: Numbering,
    /// What continuations of paused packets name.
    pub(super) run: RunId,
    pub(super) watches_flows: bool,
    /// When the bridge got its first plane.
    pub(super) made_at: Instant,
    /// When each group was made.
    pub(super) groups: BTreeMap<GroupId, Instant>,
    /// Names, limits and vacancy of tables.
    pub(super) tables: Tables,
    /// What tables do with packets that no rule matches.
    pub(super) misses: Misses,
    /// Versions that cursors read.
    pins: Vec<Weak<Pin>>,
    /// The ports as they were told last, by number.
    known_ports: BTreeMap<u32, PortDesc>,
    pub(super) counters: OpenFlowCounters,
}

impl Desk {
    /// Creates the desk of a plane at the other end of `calls` and `events`.
    pub(super) fn new(
        (calls, events): (Calls, Arc<Events>),
        identity: Arc<OpenFlowIdentity>,
        (numbers, run): (Numbering, RunId),
        misses: Misses,
        made_at: Instant,
    ) -> Desk {
        Desk {
            calls,
            events,
            identity,
            numbers,
            run,
            watches_flows: false,
            made_at,
            groups: BTreeMap::new(),
            tables: Tables::default(),
            misses,
            pins: Vec::new(),
            known_ports: BTreeMap::new(),
            counters: OpenFlowCounters::default(),
        }
    }

    /// The state of the bridge that outlives its plane.
    pub(super) fn into_memory(self) -> DeskMemory {
        DeskMemory {
            made_at: self.made_at,
            groups: self.groups,
            tables: self.tables,
        }
    }

    /// Takes over the state that an earlier desk has kept of the bridge.
    pub(super) fn take_over(&mut self, former: DeskMemory) {
        self.made_at = former.made_at;
        self.groups = former.groups;
        self.tables = former.tables;
    }

    /// Keeps a version until the pin is dropped or too old.
    pub(super) fn pin(&mut self, pin: &Arc<Pin>) {
        self.pins.retain(|known| known.strong_count() > 0);
        self.pins.push(Arc::downgrade(pin));
    }

    /// The oldest version that a cursor reads at `now`.
    pub(super) fn oldest_pinned(&mut self, now: Instant) -> Option<Version> {
        self.pins.retain(|known| known.strong_count() > 0);
        let pins = self.pins.iter().filter_map(Weak::upgrade);
        pins.filter(|pin| !pin.is_over(now))
            .map(|pin| pin.version)
            .min()
    }

    /// Hands an event to the plane, or counts it.
    pub(super) fn push(&mut self, event: Event) {
        let is_packet = matches!(event, Event::Packet(_));
        if !self.events.push(event) {
            match is_packet {
                true => self.counters.packet_ins_refused += 1,
                false => self.counters.events_refused += 1,
            }
        }
    }

    /// Notes the ports as they are now; returns what to tell of it, those that went first, and
    /// whether that is all: `room` events fit, and the rest is told by a later call.
    pub(super) fn note_ports(&mut self, now: Vec<PortDesc>, room: usize) -> (Vec<Event>, bool) {
        let now = now.into_iter().map(|port| (port.number.0, port));
        let now: BTreeMap<u32, PortDesc> = now.collect();
        let known = &mut self.known_ports;
        let mut events = Vec::new();
        let has_room = |events: &Vec<Event>| events.len() + EVENTS_OF_PORT <= room;
        let gone = known.keys().filter(|number| !now.contains_key(number));
        let gone: Vec<u32> = gone.copied().collect();
        for number in gone {
            if !has_room(&events) {
                return (events, false);
            }
            let port = known.remove(&number);
            events.extend(port.map(|port| told(PortReason::Delete, &port, None)));
        }
        for (number, port) in now {
            let before = known.get(&number);
            if before == Some(&port) {
                continue;
            }
            if !has_room(&events) {
                return (events, false);
            }
            tell_port(before, &port, &mut events);
            known.insert(number, port);
        }
        (events, true)
    }

    /// Whether the plane has room for the events of one port.
    pub(super) fn has_room_for_port(&self) -> bool {
        self.room() >= EVENTS_OF_PORT
    }

    /// How many events the plane has room for.
    pub(super) fn room(&self) -> usize {
        self.events.room()
    }
}

/// Most events of a port that came or changed, see [`tell_port`].
const EVENTS_OF_PORT: usize = 3;

/// Tells what became of a port. A change of several things is told in steps, as Open vSwitch
/// does: a new port before it is live, one that is taken down before its link is.
fn tell_port(before: Option<&PortDesc>, port: &PortDesc, events: &mut Vec<Event>) {
    let without = |bits: u32| PortDesc {
        state: port.state & !bits,
        ..port.clone()
    };
    let mut known = match before {
        Some(known) => known.clone(),
        None => {
            let first = without(state::LIVE);
            events.push(told(PortReason::Add, &first, None));
            first
        }
    };
    let is_taken_down = port.config & !known.config & config::PORT_DOWN != 0;
    if is_taken_down && port.state & !known.state & state::LINK_DOWN != 0 {
        let first = without(state::LINK_DOWN);
        events.push(told(PortReason::Modify, &first, Some(&known)));
        known = first;
    }
    if known != *port {
        events.push(told(PortReason::Modify, port, Some(&known)));
    }
}

fn told(reason: PortReason, port: &PortDesc, before: Option<&PortDesc>) -> Event {
    let desc = port.clone();
    let before = before.cloned().map(Box::new);
    Event::Port(PortStatus { reason, desc }, before)
}

/// OpenFlow's number of a reason.
pub(super) fn reason_number(reason: RemovalReason) -> u8 {
    match reason {
        RemovalReason::IdleTimeout => removed::IDLE_TIMEOUT,
        RemovalReason::HardTimeout => removed::HARD_TIMEOUT,
        RemovalReason::Deleted => removed::DELETE,
        RemovalReason::GroupDeleted => removed::GROUP_DELETE,
        RemovalReason::MeterDeleted => removed::METER_DELETE,
        RemovalReason::Evicted => removed::EVICTION,
    }
}

/// The report of an ended rule.
pub(super) fn flow_removed(numbers: Numbering, removal: &Removal) -> FlowRemoved {
    let flow = &removal.flow;
    FlowRemoved {
        is_nicira: false,
        table: Some(flow.table.number()),
        priority: flow.priority,
        cookie: flow.cookie,
        reason: reason_number(removal.reason),
        duration: duration(removal.duration),
        idle_timeout_s: flow.idle_timeout_s,
        hard_timeout_s: flow.hard_timeout_s,
        counts: Counts {
            packets: removal.counters.packets,
            bytes: removal.counters.bytes,
        },
        matching: convert::matching::of_match(&numbers.told_match(&flow.matching)),
    }
}
