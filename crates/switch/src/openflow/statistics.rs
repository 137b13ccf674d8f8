//! Answers to requests for statistics and descriptions.

use std::time::Duration;

use thalweg_io::{PortCounters, PortStatus, dummy_counts};
use thalweg_openflow::message::flow::{AggregateStats, Counts};
use thalweg_openflow::message::group::{ALL_GROUPS, GroupDesc, GroupFeatures, GroupStats};
use thalweg_openflow::message::port::{
    ALL_QUEUES, CustomStat, PortDesc, PortNumber, PortStats, QueueDesc, QueueRequest, QueueStats,
    config, state,
};
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{ErrorCode, Refusal, Version, refuse};
use thalweg_packet::PortId;

use super::convert::groups::description;
use super::convert::matching::port_number;
use super::cursor::{duration, selector};
use super::numbering::Numbering;
use super::plane::TABLES;
use super::{hidden, meters, tables};
use crate::port_settings::PortDevice;
use crate::switch::Switch;

/// Stands for a count that is not kept.
const NOT_KEPT: u64 = u64::MAX;

/// Answers a request.
///
/// # Errors
/// If there is no such object, or the switch has no such thing.
pub(super) fn read(
    switch: &mut Switch,
    numbers: Numbering,
    version: Version,
    request: &Request,
) -> Result<Reply, Refusal> {
    Ok(match request {
        Request::Aggregate(request) => {
            let sums = aggregate(switch, numbers, request)?;
            Reply::Aggregate(request.is_nicira, sums)
        }
        Request::Table => Reply::Table(tables::statistics(switch, numbers, version)),
        Request::Port(port) => Reply::Port(port_statistics(switch, numbers, *port)),
        Request::Queue(asked) => {
            let queues = queues(switch, numbers, version, asked)?;
            Reply::Queue(queues.into_iter().map(queue_row).collect())
        }
        Request::QueueDesc(asked) => {
            let queues = queues(switch, numbers, version, asked)?;
            Reply::QueueDesc(queues.into_iter().map(queue_description).collect())
        }
        Request::Group(group) => Reply::Group(group_statistics(switch, numbers, *group)),
        Request::GroupDesc(group) => Reply::GroupDesc(group_descriptions(switch, numbers, *group)),
        Request::GroupFeatures => Reply::GroupFeatures(GroupFeatures {
            kinds: 0xf,
            // Weights, liveness, chaining.
            capabilities: 0x7,
            max_groups: [thalweg_openflow::message::group::MAX_GROUP; 4],
            actions: [standard_actions(version); 4],
        }),
        Request::Meter(meter) => Reply::Meter(meters::statistics(switch, numbers, *meter)?),
        Request::MeterConfig(meter) => {
            Reply::MeterConfig(meters::configurations(switch, numbers, *meter)?)
        }
        Request::MeterFeatures => Reply::MeterFeatures(meters::features()),
        Request::TableFeatures(asked) => {
            if !asked.is_empty() {
                tables::set_up(switch, numbers, version, asked)?;
            }
            Reply::TableFeatures(tables::features(switch, numbers, version))
        }
        Request::TableDesc => Reply::TableDesc(tables::descriptions(switch, numbers)),
        Request::IpfixBridge | Request::IpfixFlow => {
            let what = "this switch exports no flows";
            return Err(refuse(ErrorCode::NXST_NOT_CONFIGURED, what));
        }
        Request::Description | Request::Flow(_) | Request::PortDesc(_) | Request::Monitor(_) => {
            let what = "this is answered elsewhere";
            return Err(refuse(ErrorCode::OFPBRC_BAD_STAT, what));
        }
    })
}

fn aggregate(
    switch: &mut Switch,
    numbers: Numbering,
    request: &thalweg_openflow::message::flow::FlowStatsRequest,
) -> Result<AggregateStats, Refusal> {
    let mut sums = AggregateStats::default();
    if request.table == TABLES {
        for entry in hidden::entries(switch, numbers, request)? {
            sums.flows += 1;
            sums.counts.packets += entry.counts.packets;
            sums.counts.bytes += entry.counts.bytes;
        }
        return Ok(sums);
    }
    let (selector, target) = selector(numbers, request)?;
    drop(switch.totals());
    let pipeline = switch.pipeline();
    for id in pipeline.rules_selected(&selector, &target) {
        let Some(rule) = pipeline.rule(id) else {
            continue;
        };
        sums.flows += 1;
        sums.counts.packets += rule.counters.packets;
        sums.counts.bytes += rule.counters.bytes;
    }
    Ok(sums)
}

/// The bits of a version's standard actions that its messages can carry: those that Open
/// vSwitch says, whose numbers changed with OpenFlow 1.1 and 1.2.
pub(super) fn standard_actions(version: Version) -> u32 {
    match version {
        Version::V10 => 0xfff,
        // Not copies of the TTL (11, 12).
        Version::V11 => 0x01ff_e7ff,
        // What sets a field is one action (25) from here on.
        _ => 0x03ff_8001,
    }
}

/// The port of each queue that is asked for. Only dummies have one, with number 0.
fn queues(
    switch: &Switch,
    numbers: Numbering,
    version: Version,
    asked: &QueueRequest,
) -> Result<Vec<PortNumber>, Refusal> {
    let pipeline = switch.pipeline();
    let is_any = match version {
        Version::V10 => matches!(asked.port, PortNumber::ANY | PortNumber::ALL),
        _ => asked.port == PortNumber::ANY,
    };
    let ports = pipeline.ports_of(numbers.bridge, pipeline.version());
    let ports = ports.map(|(id, _)| (id, port_number(numbers.told_port(id))));
    let asked_ports = ports.filter(|(_, number)| is_any || *number == asked.port);
    let asked_ports: Vec<(PortId, PortNumber)> = asked_ports.collect();
    if !is_any && asked_ports.is_empty() {
        let what = format!("there is no port {}", asked.port);
        return Err(refuse(ErrorCode::OFPQOFC_BAD_PORT, what));
    }
    let has_queue = |id: PortId| switch.settings.device(id) == PortDevice::Dummy;
    let with_queue = asked_ports.iter().filter(|(id, _)| has_queue(*id));
    let found: Vec<PortNumber> = match asked.queue {
        0 | ALL_QUEUES => with_queue.map(|(_, number)| *number).collect(),
        _ => Vec::new(),
    };
    let is_all = asked.queue == ALL_QUEUES && !asked_ports.is_empty();
    if found.is_empty() && !is_all {
        let what = format!("there is no queue {}", asked.queue);
        return Err(refuse(ErrorCode::OFPQOFC_BAD_QUEUE, what));
    }
    Ok(found)
}

/// A dummy's queue counts nothing.
fn queue_row(port: PortNumber) -> QueueStats {
    QueueStats {
        port,
        queue: 0,
        tx_bytes: NOT_KEPT,
        tx_packets: NOT_KEPT,
        tx_errors: NOT_KEPT,
        duration: None,
    }
}

fn queue_description(port: PortNumber) -> QueueDesc {
    QueueDesc {
        port,
        queue: 0,
        min_rate: None,
        max_rate: None,
    }
}

fn port_statistics(switch: &mut Switch, numbers: Numbering, port: PortNumber) -> Vec<PortStats> {
    let totals = switch.totals();
    let age = switch.now() - thalweg_packet::Instant::ZERO;
    let pipeline = switch.pipeline();
    let ports = pipeline.ports_of(numbers.bridge, pipeline.version());
    let rows = ports.filter_map(|(id, _)| {
        let number = port_number(numbers.told_port(id));
        let is_asked = port == PortNumber::ANY || port == number;
        let place = totals.ports.binary_search_by_key(&id, |known| known.number);
        let place = place.ok().filter(|_| is_asked && switch.has_port(id))?;
        let counters = totals.ports[place].counters;
        Some(match switch.settings.device(id) {
            // A patch has no device.
            _ if switch.patches.contains(id) => without_errors(port_row(number, &counters, age)),
            PortDevice::Tunnel => without_errors(port_row(number, &counters, age)),
            PortDevice::Interface => port_row(number, &counters, age),
            PortDevice::Dummy => dummy_row(number, &counters, age),
        })
    });
    rows.collect()
}

/// The row of a dummy, which has counts of its own instead of drops and errors.
fn dummy_row(port: PortNumber, counters: &PortCounters, age: Duration) -> PortStats {
    let custom = dummy_counts(counters).map(|(name, value)| CustomStat {
        name: name.to_owned(),
        value,
    });
    PortStats {
        custom: custom.into(),
        ..without_errors(port_row(port, counters, age))
    }
}

/// The row of a port that counts packets and bytes only.
fn without_errors(row: PortStats) -> PortStats {
    PortStats {
        rx_dropped: NOT_KEPT,
        tx_dropped: NOT_KEPT,
        rx_errors: NOT_KEPT,
        tx_errors: NOT_KEPT,
        rx_frame_errors: NOT_KEPT,
        rx_overrun_errors: NOT_KEPT,
        rx_crc_errors: NOT_KEPT,
        collisions: NOT_KEPT,
        ..row
    }
}

fn port_row(port: PortNumber, counters: &PortCounters, age: Duration) -> PortStats {
    PortStats {
        port,
        rx_packets: counters.received_packets,
        tx_packets: counters.sent_packets,
        rx_bytes: counters.received_bytes,
        tx_bytes: counters.sent_bytes,
        rx_dropped: counters.receive_drops(),
        tx_dropped: counters.send_drops(),
        rx_errors: 0,
        tx_errors: 0,
        rx_frame_errors: 0,
        rx_overrun_errors: 0,
        rx_crc_errors: 0,
        collisions: 0,
        duration: Some(duration(age)),
        custom: Vec::new(),
        sizes: None,
    }
}

/// The ports of a bridge, by number.
pub(super) fn port_descriptions(switch: &Switch, numbers: Numbering) -> Vec<PortDesc> {
    let pipeline = switch.pipeline();
    let ports = pipeline.ports_of(numbers.bridge, pipeline.version());
    let rows = ports.map(|(id, known)| {
        let set = switch.settings.config(id);
        let no_flood = if known.floods { 0 } else { config::NO_FLOOD };
        let told = numbers.told_port(id);
        let identity = switch.settings.identity(id);
        PortDesc {
            number: port_number(told),
            address: address_of(switch, numbers, id),
            name: identity.map_or_else(|| format!("port{}", told.0), |known| known.name.clone()),
            config: set & !config::NO_FLOOD | no_flood,
            // A port that was taken down has no link either.
            state: match switch.is_port_up(id) && set & config::PORT_DOWN == 0 {
                true => state::LIVE,
                false => state::LINK_DOWN,
            },
            current: 0,
            advertised: 0,
            supported: 0,
            peer: 0,
            current_speed_kbps: 0,
            max_speed_kbps: 0,
        }
    });
    rows.collect()
}

/// A port's Ethernet address; if none was set, one that is locally administered and made of the
/// datapath and the number.
pub(super) fn address_of(switch: &Switch, numbers: Numbering, port: PortId) -> [u8; 6] {
    let identity = switch.settings.identity(port);
    if let Some(address) = identity.and_then(|identity| identity.address) {
        return address;
    }
    let desk = switch.desks.get(numbers.bridge);
    let datapath = desk.map(|desk| desk.identity.datapath_id);
    let [.., a, b, c] = datapath.unwrap_or(0).to_be_bytes();
    let [.., d, e] = numbers.told_port(port).0.to_be_bytes();
    [0x02, a, b, c, d, e]
}

fn group_descriptions(switch: &Switch, numbers: Numbering, group: u32) -> Vec<GroupDesc> {
    let pipeline = switch.pipeline();
    let groups = pipeline.groups_of(numbers.bridge, pipeline.version());
    groups
        .filter(|known| group == ALL_GROUPS || known.id == numbers.group(group))
        .map(|known| description(&numbers.told_group(known)))
        .collect()
}

fn group_statistics(switch: &mut Switch, numbers: Numbering, group: u32) -> Vec<GroupStats> {
    drop(switch.totals());
    let now = switch.now();
    let pipeline = switch.pipeline();
    let desk = switch.desks.get(numbers.bridge);
    let groups = pipeline.groups_of(numbers.bridge, pipeline.version());
    let groups = groups.filter(|known| group == ALL_GROUPS || known.id == numbers.group(group));
    let rows = groups.map(|known| {
        let counters = pipeline.group_counters(known.id);
        let counters = counters.cloned().unwrap_or_default();
        let counts = |counters: thalweg_pipeline::Counters| Counts {
            packets: counters.packets,
            bytes: counters.bytes,
        };
        let mut buckets: Vec<Counts> = counters.buckets.iter().copied().map(counts).collect();
        buckets.truncate(known.buckets.len());
        let made_at = desk.and_then(|desk| desk.groups.get(&known.id));
        GroupStats {
            group: known.id.number(),
            references: pipeline.users_of(known.id),
            counts: counts(counters.group),
            duration: duration(now - made_at.copied().unwrap_or(thalweg_packet::Instant::ZERO)),
            buckets,
        }
    });
    rows.collect()
}

impl Switch {
    /// Whether a port has a link, as its worker said last.
    pub(crate) fn is_port_up(&self, port: PortId) -> bool {
        self.links
            .get(&port)
            .is_none_or(|status| *status == PortStatus::Up)
    }
}
