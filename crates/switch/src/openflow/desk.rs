//! The desk: the switch's side of OpenFlow. It does what the plane calls for, and reports what
//! happens unasked.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use thalweg_control::openflow::target::{Event, FlowEvent};
use thalweg_openflow::message::flow::{Counts, FlowRemoved, removed};
use thalweg_openflow::message::meter::MeterConfig;
use thalweg_openflow::message::monitor::MonitorEvent;
use thalweg_openflow::message::port::{PortDesc, PortReason, PortStatus};
use thalweg_packet::Instant;
use thalweg_pipeline::{Delta, GroupId, Misses, RuleId, Version};

use super::cursor::{Pin, duration, stats_of};
use super::pausing::BridgeId;
use super::plane::{Call, Events};
use super::tables::Tables;
use super::{OpenFlowIdentity, convert, packets, statistics};
use crate::message::PacketIn;
use crate::removal::{Removal, RemovalReason};
use crate::switch::Switch;
use crate::sync::Receiver;

/// Most calls done in one poll.
const CALLS_PER_POLL: usize = 64;

/// What OpenFlow lost for lack of room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlowCounters {
    /// Packets for controllers that the server did not collect in time.
    pub packet_ins_refused: u64,
    /// Other events, the same way.
    pub events_refused: u64,
}

/// The switch's side of OpenFlow.
pub(crate) struct Desk {
    calls: Receiver<Call>,
    pub(super) events: Arc<Events>,
    pub(super) identity: Arc<OpenFlowIdentity>,
    /// What continuations of paused packets name.
    bridge: BridgeId,
    pub(super) watches_flows: bool,
    /// Meters as they were asked for; packets are not measured yet.
    pub(super) meters: BTreeMap<u32, (MeterConfig, Instant)>,
    /// When each group was made.
    pub(super) groups: BTreeMap<GroupId, Instant>,
    /// Names, limits and vacancy of tables.
    pub(super) tables: Tables,
    /// What tables do with packets that no rule matches.
    pub(super) misses: Misses,
    /// Configuration bits of ports that OpenFlow set.
    pub(super) port_config: BTreeMap<thalweg_packet::PortId, u32>,
    /// Versions that cursors read.
    pins: Vec<Weak<Pin>>,
    /// The ports as they were told last.
    known_ports: Vec<PortDesc>,
    pub(super) counters: OpenFlowCounters,
}

impl Desk {
    pub(super) fn new(
        calls: Receiver<Call>,
        events: Arc<Events>,
        identity: Arc<OpenFlowIdentity>,
        bridge: BridgeId,
    ) -> Desk {
        Desk {
            calls,
            events,
            identity,
            bridge,
            watches_flows: false,
            meters: BTreeMap::new(),
            groups: BTreeMap::new(),
            tables: Tables::default(),
            misses: Misses::default(),
            port_config: BTreeMap::new(),
            pins: Vec::new(),
            known_ports: Vec::new(),
            counters: OpenFlowCounters::default(),
        }
    }

    /// Keeps a version until the pin is dropped or too old.
    pub(super) fn pin(&mut self, pin: &Arc<Pin>) {
        self.pins.retain(|known| known.strong_count() > 0);
        self.pins.push(Arc::downgrade(pin));
    }

    /// The oldest version that a cursor reads at `now`.
    pub(crate) fn oldest_pinned(&mut self, now: Instant) -> Option<Version> {
        self.pins.retain(|known| known.strong_count() > 0);
        let pins = self.pins.iter().filter_map(Weak::upgrade);
        pins.filter(|pin| !pin.is_over(now))
            .map(|pin| pin.version)
            .min()
    }

    fn push(&mut self, event: Event) {
        let is_packet = matches!(event, Event::Packet(_));
        if !self.events.push(event) {
            match is_packet {
                true => self.counters.packet_ins_refused += 1,
                false => self.counters.events_refused += 1,
            }
        }
    }
}

impl Switch {
    /// What OpenFlow lost for lack of room; `None` if OpenFlow does not drive the switch.
    pub fn openflow_counters(&self) -> Option<OpenFlowCounters> {
        self.desk.as_ref().map(|desk| desk.counters)
    }

    /// Does what OpenFlow calls for, and tells it what happened.
    pub(crate) fn serve_openflow(&mut self) {
        if self.desk.is_none() {
            return;
        }
        for _ in 0..CALLS_PER_POLL {
            let call = self
                .desk
                .as_ref()
                .and_then(|desk| desk.calls.try_recv().ok());
            let Some(call) = call else { break };
            call(self);
        }
        self.tell_packets();
        self.tell_removals();
        self.tell_ports();
    }

    fn tell_packets(&mut self) {
        let packets = self.collect_packet_ins();
        self.announce_packets(packets);
    }

    /// Tells controllers of packets.
    pub(super) fn announce_packets(&mut self, packets: Vec<PacketIn>) {
        let bridge = match &self.desk {
            Some(desk) if !packets.is_empty() => desk.bridge,
            _ => return,
        };
        let fields = self.pipeline().fields().clone();
        for packet in packets {
            let event = packets::event_of(&fields, bridge, packet);
            self.announce(Event::Packet(Box::new(event)));
        }
    }

    pub(super) fn announce(&mut self, event: Event) {
        if let Some(desk) = &mut self.desk {
            desk.push(event);
        }
    }

    fn tell_removals(&mut self) {
        if !self.may_have_removals() {
            return;
        }
        for removal in self.collect_removals() {
            self.announce(Event::FlowRemoved(Box::new(flow_removed(&removal))));
        }
    }

    /// Compares the ports with what was told last.
    fn tell_ports(&mut self) {
        let now = statistics::port_descriptions(self);
        let Some(desk) = &mut self.desk else { return };
        if now == desk.known_ports {
            return;
        }
        let before = std::mem::replace(&mut desk.known_ports, now.clone());
        let find = |list: &[PortDesc], port: &PortDesc| {
            list.iter()
                .find(|other| other.number == port.number)
                .cloned()
        };
        let mut told = Vec::new();
        for port in &before {
            if find(&now, port).is_none() {
                told.push((PortReason::Delete, port.clone()));
            }
        }
        for port in &now {
            match find(&before, port) {
                None => told.push((PortReason::Add, port.clone())),
                Some(old) if old != *port => told.push((PortReason::Modify, port.clone())),
                Some(_) => {}
            }
        }
        for (reason, desc) in told {
            self.announce(Event::Port(PortStatus { reason, desc }));
        }
    }

    /// Tells monitors of rules that ended by themselves.
    pub(crate) fn tell_ended(&mut self, delta: &Delta, over: &[(RuleId, RemovalReason)]) {
        self.tell_vacancy();
        if !self.desk.as_ref().is_some_and(|desk| desk.watches_flows) {
            return;
        }
        let now = self.now();
        let pipeline = self.pipeline();
        let mut events = Vec::new();
        for id in &delta.removed {
            if pipeline.is_succeeded(*id) {
                continue;
            }
            let reason = over.iter().find(|(rule, _)| rule == id);
            let reason = match reason {
                Some((_, reason)) => reason_number(*reason),
                None if delta.evicted.contains(id) => removed::EVICTION,
                None => removed::DELETE,
            };
            let stats = stats_of(&pipeline, *id, None, now);
            events.extend(stats.map(|flow| FlowEvent {
                event: MonitorEvent::Removed,
                flow,
                reason,
                change: 0,
            }));
        }
        drop(pipeline);
        for event in events {
            self.announce(Event::Flow(Box::new(event)));
        }
    }
}

fn reason_number(reason: RemovalReason) -> u8 {
    match reason {
        RemovalReason::IdleTimeout => removed::IDLE_TIMEOUT,
        RemovalReason::HardTimeout => removed::HARD_TIMEOUT,
        RemovalReason::Deleted => removed::DELETE,
        RemovalReason::GroupDeleted => removed::GROUP_DELETE,
        RemovalReason::Evicted => removed::EVICTION,
    }
}

fn flow_removed(removal: &Removal) -> FlowRemoved {
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
        matching: convert::matching::of_match(&flow.matching),
    }
}
