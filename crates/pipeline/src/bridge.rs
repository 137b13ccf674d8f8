//! Bridges: several switches in one pipeline.
//!
//! A pipeline made with [`crate::Config::bridges`] holds the tables, groups, ports and stations
//! of many bridges. They share one version, so a change of one bridge is a version of all, and
//! a remembered answer covers a packet's way through several of them.
//!
//! ```text
//!   PortId   bridge << 16 | port      (ports have 16 bits, as in Open vSwitch)
//!   TableId  bridge << 8  | table
//!   GroupId  bridge << 32 | group
//!   MeterId  bridge << 32 | meter
//! ```
//!
//! Bridge 0 has the numbers of a pipeline without bridges. [`Flow::in_bridge`] and its likes
//! move rules, groups and so on of a single switch into a bridge, and back out for readers.
//!
//! A port may be one end of a patch ([`crate::PortState::peer`]). A packet sent to it enters the
//! peer's bridge at once, in the same walk: without registers, metadata and stack, and with an
//! action set of its own. The other bridge's changes to the packet end with it
//! (`patch_port_output` in Open vSwitch).
//!
//! 1. The upper half of `in_port` is the bridge that a walk is in. Actions neither read nor
//!    write it, so that no rule leaves its bridge except through a patch.

use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::{PortId, standard as f};

use crate::action::{Action, Actions, GroupId, Output, TableId, Write};
use crate::change::{Change, Operation, Revision, Selector, Target};
use crate::flow::{Flow, Group, PortState};
use crate::fragments::FragmentMode;
use crate::interpret::Continuation;
use crate::learning::Learning;
use crate::links::MemberChoice;
use crate::mac::{MacMove, Station};
use crate::matching::Match;
use crate::meters::{MeterId, RateMeter};
use crate::pipeline::{Counters, Pipeline};
use crate::state::PORT_BITS;
use crate::tracking::Tracking;

/// Counts of the packets at one end of a patch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PatchCounters {
    /// Packets that were sent to it, and so left its bridge.
    pub sent: Counters,
    /// Packets that came in by it.
    pub received: Counters,
}

/// A bridge's number in its pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BridgeId(pub u16);

impl BridgeId {
    /// The bridge that a port belongs to.
    pub fn of_port(port: PortId) -> BridgeId {
        BridgeId((port.0 >> 16) as u16)
    }

    /// The port with this number in the bridge.
    pub fn port(self, number: u16) -> PortId {
        PortId(u32::from(self.0) << 16 | u32::from(number))
    }

    /// The table with this number in the bridge.
    pub fn table(self, number: u8) -> TableId {
        TableId(u32::from(self.0) << 8 | u32::from(number))
    }

    /// The group with this number in the bridge.
    pub fn group(self, number: u32) -> GroupId {
        GroupId(u64::from(self.0) << 32 | u64::from(number))
    }

    /// The meter with this number in the bridge.
    pub fn meter(self, number: u32) -> MeterId {
        MeterId(u64::from(self.0) << 32 | u64::from(number))
    }

    /// The port of the bridge that has this number in its own.
    fn move_port(self, port: PortId) -> PortId {
        self.port(port.0 as u16)
    }

    /// The same actions in the bridge.
    pub fn move_actions(self, actions: &[Action]) -> Actions {
        actions
            .iter()
            .map(|action| self.move_action(action))
            .collect()
    }

    fn move_action(self, action: &Action) -> Action {
        match action {
            Action::Output(Output::Port(port)) => {
                Action::Output(Output::Port(self.move_port(*port)))
            }
            Action::Output(Output::Enqueue { port, queue }) => Action::Output(Output::Enqueue {
                port: self.move_port(*port),
                queue: *queue,
            }),
            Action::Output(Output::Truncated {
                port,
                max_len_bytes,
            }) => Action::Output(Output::Truncated {
                port: self.move_port(*port),
                max_len_bytes: *max_len_bytes,
            }),
            Action::Group(group) => Action::Group(self.group(group.number())),
            Action::Meter(meter) => Action::Meter(self.meter(meter.number())),
            Action::SetField(writes) => {
                Action::SetField(writes.iter().map(|write| without_bridge(*write)).collect())
            }
            Action::Resubmit {
                in_port,
                table,
                with_tuple,
            } => Action::Resubmit {
                in_port: in_port.map(|port| self.move_port(port)),
                table: table.map(|table| self.table(table.number())),
                with_tuple: *with_tuple,
            },
            Action::Bundle(choice) => Action::Bundle(Box::new(MemberChoice {
                members: choice
                    .members
                    .iter()
                    .map(|port| self.move_port(*port))
                    .collect(),
                ..(**choice).clone()
            })),
            Action::Clone(nested) => Action::Clone(self.move_actions(nested)),
            Action::WriteActions(nested) => Action::WriteActions(self.move_actions(nested)),
            Action::Track(tracking) => Action::Track(Box::new(Tracking {
                table: tracking.table.map(|table| self.table(table.number())),
                ..(**tracking).clone()
            })),
            Action::Learn(learning) => Action::Learn(Box::new(Learning {
                table: self.table(learning.table.number()),
                ..(**learning).clone()
            })),
            Action::Goto(table) => Action::Goto(self.table(table.number())),
            _ => action.clone(),
        }
    }

    /// The same match in the bridge.
    pub fn move_match(self, matching: &Match) -> Match {
        let mut moved = Match::default();
        for term in matching.terms() {
            let mut term = *term;
            if term.field == f::IN_PORT {
                term.value = self.move_port(PortId(term.value as u32)).0.into();
            }
            moved
                .add(term.field, term.value, term.mask)
                .expect("a field occurs once");
        }
        moved
    }
}

/// A write as any bridge has it: of the input port only the port's number counts.
fn without_bridge(write: Write) -> Write {
    match write.field == f::IN_PORT {
        true => Write {
            value: write.value & u128::from(PORT_BITS),
            ..write
        },
        false => write,
    }
}

impl Pipeline {
    /// Whether its ports and tables belong to bridges.
    pub fn has_bridges(&self) -> bool {
        self.config.bridges
    }

    /// The bridge that a port belongs to: 0 where there are none.
    pub fn bridge_of(&self, port: PortId) -> BridgeId {
        match self.config.bridges {
            true => BridgeId::of_port(port),
            false => BridgeId::default(),
        }
    }

    /// The ports of a bridge at a version, in the order of their numbers; without bridges, all.
    pub fn ports_of(
        &self,
        bridge: BridgeId,
        version: Version,
    ) -> impl Iterator<Item = (PortId, PortState)> {
        let range = match self.config.bridges {
            true => bridge.port(0)..=bridge.port(u16::MAX),
            false => PortId(0)..=PortId(u32::MAX),
        };
        let known = self.ports.range(range);
        known.filter_map(move |(id, history)| Some((*id, *history.at(version)?)))
    }

    /// The groups of a bridge at a version, in the order of their numbers.
    pub fn groups_of(
        &self,
        bridge: BridgeId,
        version: Version,
    ) -> impl Iterator<Item = &Arc<Group>> {
        let known = self.groups.range(bridge.group(0)..=bridge.group(u32::MAX));
        known.filter_map(move |(_, history)| Some(&history.at(version)?.group))
    }

    /// Credits packets to both ends of a patch.
    pub fn credit_patch(&mut self, from: PortId, to: PortId, counters: Counters) {
        for (port, is_sent) in [(from, true), (to, false)] {
            if self.port(port, self.version).is_none() {
                continue;
            }
            let known = self.patch_counters.entry(port).or_default();
            match is_sent {
                true => known.sent.add(counters),
                false => known.received.add(counters),
            }
        }
    }

    /// Counts of the packets at one end of a patch.
    pub fn patch_counters(&self, port: PortId) -> PatchCounters {
        self.patch_counters.get(&port).copied().unwrap_or_default()
    }

    /// Lets a port that is gone count from zero when it comes back as the end of a patch.
    pub fn reset_patch_counters(&mut self, port: PortId) {
        self.patch_counters.remove(&port);
    }

    /// The change that leaves nothing of a bridge: no rules, groups, meters, ports, stations,
    /// limits of tables and settings of its own.
    pub fn removal_of(&self, bridge: BridgeId) -> Change {
        let version = self.version();
        let groups = self.groups_of(bridge, version).map(|group| group.id);
        let meters = self.meters_of(bridge, version).map(|known| known.meter.id);
        let ports = self.ports_of(bridge, version).map(|(port, _)| port);
        let stations = self.macs.stations(version).map(|(station, _)| station);
        let gone = stations.filter(|station| station.bridge == bridge);
        let gone = gone.map(|station| MacMove {
            station,
            port: None,
        });
        let tables = self.limited_tables();
        let tables = tables.filter(|table| table.bridge() == bridge);
        let mut operations = vec![
            Operation::Delete(Selector::default().in_bridge(bridge)),
            Operation::MoveMacs(gone.collect()),
            Operation::SetMisses(bridge, Arc::default()),
            Operation::SetFragments(bridge, FragmentMode::default()),
            Operation::SetForwardsBpdus(bridge, false),
            Operation::SetMirrors(bridge, Arc::default()),
            Operation::DeleteMeters(meters.collect()),
        ];
        operations.extend(groups.map(Operation::DeleteGroup));
        operations.extend(ports.map(Operation::DeletePort));
        operations.extend(tables.map(|table| Operation::LimitTable(table, Arc::default())));
        Change { operations }
    }
}

impl TableId {
    /// The table's number in its bridge.
    pub fn number(self) -> u8 {
        self.0 as u8
    }

    /// The table's place in a list of all tables of all bridges.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The table's bridge.
    pub fn bridge(self) -> BridgeId {
        BridgeId((self.0 >> 8) as u16)
    }
}

impl GroupId {
    /// The group's number in its bridge.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// The group's bridge.
    pub fn bridge(self) -> BridgeId {
        BridgeId((self.0 >> 32) as u16)
    }
}

impl Flow {
    /// The same rule in another bridge.
    pub fn in_bridge(&self, bridge: BridgeId) -> Flow {
        Flow {
            table: bridge.table(self.table.number()),
            matching: bridge.move_match(&self.matching),
            actions: bridge.move_actions(&self.actions),
            ..self.clone()
        }
    }
}

impl Continuation {
    /// The same rest of a walk in another bridge.
    pub fn in_bridge(&self, bridge: BridgeId) -> Continuation {
        let mut moved = self.clone();
        for list in &mut moved.lists {
            list.table = bridge.table(list.table.number());
            list.actions = bridge.move_actions(&list.actions);
        }
        moved.action_set = bridge.move_actions(&moved.action_set);
        moved.entered = moved.entered.map(|_| bridge);
        if let Some((table, _)) = &mut moved.end {
            *table = bridge.table(table.number());
        }
        moved
    }
}

impl Group {
    /// The same group in another bridge.
    pub fn in_bridge(&self, bridge: BridgeId) -> Group {
        let mut group = self.clone();
        group.id = bridge.group(self.id.number());
        for bucket in &mut group.buckets {
            bucket.actions = bridge.move_actions(&bucket.actions);
            bucket.watch_port = bucket.watch_port.map(|port| bridge.move_port(port));
            bucket.watch_group = bucket.watch_group.map(|group| bridge.group(group.number()));
        }
        group
    }
}

impl Selector {
    /// The rules of another bridge that are as these. All tables are all of the bridge's.
    pub fn in_bridge(&self, bridge: BridgeId) -> Selector {
        Selector {
            table: self.table.map(|table| bridge.table(table.number())),
            bridge,
            matching: bridge.move_match(&self.matching),
            ..self.clone()
        }
    }
}

impl Target {
    /// The same target in another bridge.
    pub fn in_bridge(&self, bridge: BridgeId) -> Target {
        let output = self.output.clone().map(|output| match output {
            Output::Port(port) => Output::Port(bridge.move_port(port)),
            output => output,
        });
        let group = self.group.map(|group| bridge.group(group.number()));
        Target { output, group }
    }
}

impl Operation {
    /// The same operation on another bridge.
    pub fn in_bridge(&self, bridge: BridgeId) -> Operation {
        let station = |station: Station| Station { bridge, ..station };
        match self {
            Operation::Add(flow) => Operation::Add(flow.in_bridge(bridge)),
            Operation::AddChecked(flow) => Operation::AddChecked(flow.in_bridge(bridge)),
            Operation::Modify(selector, actions) => {
                Operation::Modify(selector.in_bridge(bridge), bridge.move_actions(actions))
            }
            Operation::Revise(revision) => Operation::Revise(Box::new(Revision {
                selector: revision.selector.in_bridge(bridge),
                actions: bridge.move_actions(&revision.actions),
                otherwise: revision
                    .otherwise
                    .as_ref()
                    .map(|flow| flow.in_bridge(bridge)),
                ..(**revision).clone()
            })),
            Operation::Delete(selector) => Operation::Delete(selector.in_bridge(bridge)),
            Operation::DeleteLeading(selector, target) => {
                Operation::DeleteLeading(selector.in_bridge(bridge), target.in_bridge(bridge))
            }
            Operation::DeleteAll => Operation::Delete(Selector::default().in_bridge(bridge)),
            Operation::SetGroup(group) => Operation::SetGroup(group.in_bridge(bridge)),
            Operation::DeleteGroup(group) => Operation::DeleteGroup(bridge.group(group.number())),
            Operation::SetMeter(meter) => Operation::SetMeter(RateMeter {
                id: bridge.meter(meter.id.number()),
                ..meter.clone()
            }),
            Operation::DeleteMeters(meters) => {
                let moved = meters.iter().map(|meter| bridge.meter(meter.number()));
                Operation::DeleteMeters(moved.collect())
            }
            Operation::SetPort(port, state) => Operation::SetPort(bridge.move_port(*port), *state),
            Operation::DeletePort(port) => Operation::DeletePort(bridge.move_port(*port)),
            Operation::SetPortVlans(port, vlans) => {
                Operation::SetPortVlans(bridge.move_port(*port), vlans.clone())
            }
            Operation::SetMirrors(_, mirrors) => {
                Operation::SetMirrors(bridge, mirrors.in_bridge(bridge).into())
            }
            Operation::SetForwardsBpdus(_, does) => Operation::SetForwardsBpdus(bridge, *does),
            Operation::SetMisses(_, misses) => Operation::SetMisses(bridge, misses.clone()),
            Operation::SetFragments(_, mode) => Operation::SetFragments(bridge, *mode),
            Operation::LimitTable(table, limit) => {
                Operation::LimitTable(bridge.table(table.number()), limit.clone())
            }
            Operation::Foresee(actions) => Operation::Foresee(bridge.move_actions(actions)),
            Operation::MoveMacs(moves) => {
                let mut moves = moves.clone();
                for moved in &mut moves {
                    moved.station = station(moved.station);
                    moved.port = moved.port.map(|port| bridge.move_port(port));
                }
                Operation::MoveMacs(moves)
            }
        }
    }
}
