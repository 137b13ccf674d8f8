//! Answers to requests for statistics and descriptions.

use std::time::Duration;

use thalweg_io::{PortCounters, PortStatus};
use thalweg_openflow::message::flow::{AggregateStats, Counts};
use thalweg_openflow::message::group::{ALL_GROUPS, GroupDesc, GroupFeatures, GroupStats};
use thalweg_openflow::message::meter::{
    ALL_METERS, BAND_DROP, BAND_DSCP_REMARK, MeterFeatures, MeterStats, flags,
};
use thalweg_openflow::message::port::{
    ALL_QUEUES, PortDesc, PortNumber, PortStats, QueueRequest, config, state,
};
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{ErrorCode, Refusal, Version, refuse};
use thalweg_packet::PortId;

use super::convert::groups::description;
use super::convert::matching::{port_id, port_number};
use super::cursor::{duration, selector};
use super::desk::Desk;
use super::numbering::Numbering;
use super::tables;
use crate::switch::Switch;

/// Most bands of a meter.
pub(super) const MAX_BANDS: u8 = 8;
/// Most meters.
pub(super) const MAX_METERS: u32 = 65_536;

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
            check_queue(switch, numbers, version, asked)?;
            Reply::Queue(Vec::new())
        }
        Request::QueueDesc(asked) => {
            check_queue(switch, numbers, version, asked)?;
            Reply::QueueDesc(Vec::new())
        }
        Request::Group(group) => Reply::Group(group_statistics(switch, numbers, *group)),
        Request::GroupDesc(group) => Reply::GroupDesc(group_descriptions(switch, numbers, *group)),
        Request::GroupFeatures => Reply::GroupFeatures(GroupFeatures {
            kinds: 0xf,
            // Weights, liveness, chaining with checks.
            capabilities: 0xf,
            max_groups: [thalweg_openflow::message::group::MAX_GROUP; 4],
            actions: [0x0fff_9fff; 4],
        }),
        Request::Meter(meter) => {
            let known = meters(switch.desks.get(numbers.bridge), *meter)?;
            Reply::Meter(meter_statistics(switch.now(), known))
        }
        Request::MeterConfig(meter) => {
            let known = meters(switch.desks.get(numbers.bridge), *meter)?;
            Reply::MeterConfig(known.into_iter().map(|known| known.0).collect())
        }
        Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
            max_meters: MAX_METERS,
            bands: 1 << BAND_DROP | 1 << BAND_DSCP_REMARK,
            capabilities: (flags::KBPS | flags::PKTPS | flags::BURST | flags::STATS).into(),
            max_bands: MAX_BANDS,
            max_colors: 0,
            features: 0,
        }),
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
    let (selector, target) = selector(numbers, request)?;
    drop(switch.totals());
    let pipeline = switch.pipeline();
    let mut sums = AggregateStats::default();
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

/// Ports have no queues, so that only a request for all of them has an answer.
fn check_queue(
    switch: &Switch,
    numbers: Numbering,
    version: Version,
    asked: &QueueRequest,
) -> Result<(), Refusal> {
    let pipeline = switch.pipeline();
    let is_known = |port| {
        let id = numbers.port(port_id(port));
        pipeline.port(id, pipeline.version()).is_some()
    };
    let is_any = match version {
        Version::V10 => matches!(asked.port, PortNumber::ANY | PortNumber::ALL),
        _ => asked.port == PortNumber::ANY,
    };
    if !is_any && !is_known(asked.port) {
        let what = format!("there is no port {}", asked.port);
        return Err(refuse(ErrorCode::OFPQOFC_BAD_PORT, what));
    }
    let mut ports = pipeline.ports_of(numbers.bridge, pipeline.version());
    let has_ports = ports.next().is_some();
    if asked.queue != ALL_QUEUES || !has_ports {
        let what = format!("there is no queue {}", asked.queue);
        return Err(refuse(ErrorCode::OFPQOFC_BAD_QUEUE, what));
    }
    Ok(())
}

fn port_statistics(switch: &mut Switch, numbers: Numbering, port: PortNumber) -> Vec<PortStats> {
    let totals = switch.totals();
    let age = switch.now() - thalweg_packet::Instant::ZERO;
    let pipeline = switch.pipeline();
    let ports = pipeline.ports_of(numbers.bridge, pipeline.version());
    let rows = ports.filter_map(|(id, state)| {
        let number = port_number(numbers.told_port(id));
        let is_asked = port == PortNumber::ANY || port == number;
        let place = totals.ports.binary_search_by_key(&id, |known| known.number);
        let counters = match state.peer {
            // A patch has no device.
            Some(_) => PortCounters::default(),
            None => totals.ports[place.ok()?].counters,
        };
        (is_asked && switch.has_port(id)).then(|| port_row(number, &counters, age))
    });
    rows.collect()
}

fn port_row(port: PortNumber, counters: &PortCounters, age: Duration) -> PortStats {
    PortStats {
        port,
        rx_packets: counters.received_packets,
        tx_packets: counters.sent_packets,
        rx_bytes: counters.received_bytes,
        tx_bytes: counters.sent_bytes,
        rx_dropped: 0,
        tx_dropped: counters.drops.total(),
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
            state: match switch.is_port_up(id) {
                true if set & config::PORT_DOWN != 0 => 0,
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

type KnownMeter = (
    thalweg_openflow::message::meter::MeterConfig,
    thalweg_packet::Instant,
);

fn meters(desk: Option<&Desk>, meter: u32) -> Result<Vec<KnownMeter>, Refusal> {
    let Some(desk) = desk else {
        return Ok(Vec::new());
    };
    if meter == ALL_METERS {
        return Ok(desk.meters.values().cloned().collect());
    }
    match desk.meters.get(&meter) {
        Some(known) => Ok(vec![known.clone()]),
        None => {
            let what = format!("there is no meter {meter}");
            Err(refuse(ErrorCode::OFPMMFC_UNKNOWN_METER, what))
        }
    }
}

fn meter_statistics(now: thalweg_packet::Instant, known: Vec<KnownMeter>) -> Vec<MeterStats> {
    let rows = known.into_iter().map(|(config, made_at)| MeterStats {
        id: config.id,
        flows: 0,
        counts: Counts::default(),
        duration: duration(now - made_at),
        bands: vec![Counts::default(); config.bands.len()],
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
