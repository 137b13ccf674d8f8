//! Rules, groups and meters to records and back, in the numbers of the bridges and ports that
//! are there.

use std::collections::BTreeMap;

use thalweg_packet::PortId;
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{
    BridgeId, Flow, Group, Labels, MeterId, Operation, PortRenumbering, RateMeter, Rule,
};

use super::records::{GroupRecord, MeterRecord, RuleRecord, SavedSwitch, SwitchNames};

/// The bits of [`RuleRecord::flags`].
const REPORTS_REMOVAL: u8 = 1 << 0;
const CHECKS_OVERLAP: u8 = 1 << 1;
const RESETS_COUNTS: u8 = 1 << 2;
const NO_PACKET_COUNTS: u8 = 1 << 3;
const NO_BYTE_COUNTS: u8 = 1 << 4;

/// Ports from here on have a meaning of their own (`OFPP_MAX` of OpenFlow 1.0).
const FIRST_RESERVED: u32 = 0xff00;

/// The record of a rule, given as a flow.
pub(super) fn rule_record(bridge: u16, is_among: bool, flow: &Flow, rule: &Rule) -> RuleRecord {
    let local = Flow {
        priority: thalweg_pipeline::DEFAULT_PRIORITY,
        cookie: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        reports_removal: false,
        resets_counts: false,
        ..match is_among {
            true => flow.in_bridge(BridgeId::default()),
            false => flow.clone(),
        }
    };
    let labels = flow.labels;
    let flags = [
        (flow.reports_removal, REPORTS_REMOVAL),
        (labels.checks_overlap, CHECKS_OVERLAP),
        (labels.resets_counts, RESETS_COUNTS),
        (labels.no_packet_counts, NO_PACKET_COUNTS),
        (labels.no_byte_counts, NO_BYTE_COUNTS),
    ];
    let set = flags.iter().filter(|(is_set, _)| *is_set);
    let past = rule.past();
    RuleRecord {
        bridge,
        text: format!("{local:#}"),
        priority: flow.priority,
        cookie: flow.cookie,
        timeouts_s: (flow.idle_timeout_s, flow.hard_timeout_s),
        importance: labels.importance,
        max_length: labels.max_length,
        flags: set.fold(0, |flags, (_, flag)| flags | flag),
        number: rule.precedence.age(),
        created_at_ns: past.created_at.as_nanos(),
        modified_at_ns: past.modified_at.as_nanos(),
        used_at_ns: past.used_at.as_nanos(),
        counted: past.counters.into(),
    }
}

/// A group's text in the numbers of its bridge.
pub(super) fn group_text(is_among: bool, group: &Group) -> String {
    match is_among {
        true => group.in_bridge(BridgeId::default()).to_string(),
        false => group.to_string(),
    }
}

/// Why a record does not fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Misfit {
    NoBridge,
    NoPort,
    Text,
}

impl Misfit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Misfit::NoBridge => "bridge_gone",
            Misfit::NoPort => "port_gone",
            Misfit::Text => "text_refused",
        }
    }
}

/// The places of a snapshot among the bridges and ports that are there.
pub(super) struct Places {
    /// By place in the snapshot.
    bridges: Vec<Option<BridgeId>>,
    /// By place of the bridge and former number; `None` for a port that is gone.
    ports: BTreeMap<(u16, u32), Option<u32>>,
    /// Numbers in use now, whose former owner was another port or none.
    taken: BTreeMap<BridgeId, Vec<u32>>,
    is_among: bool,
    /// Whether every port has the number that it had.
    is_same: bool,
}

impl Places {
    /// Finds bridges and ports by their names.
    pub(super) fn new(saved: &SavedSwitch, names: &SwitchNames, is_among: bool) -> Places {
        let bridge = |name: &String| match is_among {
            true => {
                let mut known = names.bridges.iter();
                let found = known.find(|(_, known)| known == name);
                found.map(|(bridge, _)| *bridge)
            }
            false => Some(BridgeId::default()),
        };
        let bridges: Vec<Option<BridgeId>> = saved.about.bridges.iter().map(bridge).collect();
        let bridge_of = |port: PortId| match is_among {
            true => BridgeId::of_port(port),
            false => BridgeId::default(),
        };
        let number_of = |port: PortId| match is_among {
            true => port.0 & 0xffff,
            false => port.0,
        };
        let mut by_name: BTreeMap<(BridgeId, &str), u32> = BTreeMap::new();
        let mut taken: BTreeMap<BridgeId, Vec<u32>> = BTreeMap::new();
        for (port, name) in &names.ports {
            by_name.insert((bridge_of(*port), name), number_of(*port));
            taken
                .entry(bridge_of(*port))
                .or_default()
                .push(number_of(*port));
        }
        let ports = saved.ports.iter().map(|port| {
            let bridge = bridges.get(usize::from(port.bridge)).copied().flatten();
            let now = bridge.and_then(|bridge| by_name.get(&(bridge, &port.name)).copied());
            ((port.bridge, port.number), now)
        });
        let ports: BTreeMap<(u16, u32), Option<u32>> = ports.collect();
        let is_same = ports.iter().all(|((_, former), now)| *now == Some(*former))
            && saved.ports.len() == names.ports.len();
        Places {
            bridges,
            ports,
            taken,
            is_among,
            is_same,
        }
    }

    /// The bridge at a place.
    pub(super) fn bridge(&self, place: u16) -> Result<BridgeId, Misfit> {
        let bridge = self.bridges.get(usize::from(place)).copied().flatten();
        bridge.ok_or(Misfit::NoBridge)
    }

    /// The number that a port of a bridge has now.
    ///
    /// A number that no port had, or whose port is gone, stays: rules may name ports that come
    /// later. Another port that has the number now is not meant.
    fn port(&self, place: u16, bridge: BridgeId, former: PortId) -> Option<PortId> {
        if self.is_same || former.0 >= FIRST_RESERVED && self.is_among {
            return Some(former);
        }
        match self.ports.get(&(place, former.0)) {
            Some(Some(now)) => Some(PortId(*now)),
            _ => {
                let taken = self.taken.get(&bridge);
                let is_free = taken.is_none_or(|taken| !taken.contains(&former.0));
                is_free.then_some(former)
            }
        }
    }

    /// The pipeline's number of a port that is there now.
    pub(super) fn station_port(&self, place: u16, former: u32) -> Result<PortId, Misfit> {
        let bridge = self.bridge(place)?;
        let now = match self.ports.get(&(place, former)) {
            Some(now) => now.ok_or(Misfit::NoPort)?,
            None => return Err(Misfit::NoPort),
        };
        Ok(match self.is_among {
            true => bridge.port(now as u16),
            false => PortId(now),
        })
    }

    /// The rule of a record.
    pub(super) fn rule(
        &self,
        record: &RuleRecord,
        parser: &mut Parser<'_>,
    ) -> Result<Flow, Misfit> {
        let bridge = self.bridge(record.bridge)?;
        let read = parser.parse_flow(&record.text).map_err(|_| Misfit::Text)?;
        let is_set = |flag: u8| record.flags & flag != 0;
        let flow = Flow {
            priority: record.priority,
            cookie: record.cookie,
            idle_timeout_s: record.timeouts_s.0,
            hard_timeout_s: record.timeouts_s.1,
            reports_removal: is_set(REPORTS_REMOVAL),
            labels: Labels {
                importance: record.importance,
                max_length: record.max_length,
                checks_overlap: is_set(CHECKS_OVERLAP),
                resets_counts: is_set(RESETS_COUNTS),
                no_packet_counts: is_set(NO_PACKET_COUNTS),
                no_byte_counts: is_set(NO_BYTE_COUNTS),
            },
            ..read
        };
        let flow = match self.is_same {
            true => flow,
            false => {
                let ports: PortRenumbering<'_> = &|port| self.port(record.bridge, bridge, port);
                flow.renumbered(ports).ok_or(Misfit::NoPort)?
            }
        };
        Ok(match self.is_among {
            true => flow.in_bridge(bridge),
            false => flow,
        })
    }

    /// The group of a record.
    pub(super) fn group(
        &self,
        record: &GroupRecord,
        parser: &mut Parser<'_>,
    ) -> Result<Group, Misfit> {
        let bridge = self.bridge(record.bridge)?;
        let read = parser.parse_group(&record.text);
        let mut group = read.map_err(|_| Misfit::Text)?;
        for (bucket, max_length) in group.buckets.iter_mut().zip(&record.max_lengths) {
            bucket.max_length = *max_length;
        }
        if !self.is_same {
            let ports: PortRenumbering<'_> = &|port| self.port(record.bridge, bridge, port);
            group = group.renumbered(ports).ok_or(Misfit::NoPort)?;
        }
        Ok(match self.is_among {
            true => group.in_bridge(bridge),
            false => group,
        })
    }

    /// The meter of a record.
    pub(super) fn meter(
        &self,
        record: &MeterRecord,
        parser: &mut Parser<'_>,
    ) -> Result<RateMeter, Misfit> {
        let bridge = self.bridge(record.bridge)?;
        match parser.parse_operation(&record.text) {
            Ok(Operation::SetMeter(meter)) => {
                let id: MeterId = match self.is_among {
                    true => bridge.meter(meter.id.number()),
                    false => meter.id,
                };
                Ok(RateMeter { id, ..meter })
            }
            _ => Err(Misfit::Text),
        }
    }
}
