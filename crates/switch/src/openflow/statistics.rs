//! Answers to requests for statistics and descriptions.

use thalweg_io::PortStatus;
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
use thalweg_pipeline::GroupId;

use super::convert::groups::description;
use super::convert::matching::{port_id, port_number};
use super::cursor::{duration, selector};
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
    version: Version,
    request: &Request,
) -> Result<Reply, Refusal> {
    Ok(match request {
        Request::Aggregate(request) => {
            let sums = aggregate(switch, request)?;
            Reply::Aggregate(request.is_nicira, sums)
        }
        Request::Table => Reply::Table(tables::statistics(switch, version)),
        Request::Port(port) => Reply::Port(port_statistics(switch, *port)),
        Request::Queue(asked) => {
            check_queue(switch, version, asked)?;
            Reply::Queue(Vec::new())
        }
        Request::QueueDesc(asked) => {
            check_queue(switch, version, asked)?;
            Reply::QueueDesc(Vec::new())
        }
        Request::Group(group) => Reply::Group(group_statistics(switch, *group)),
        Request::GroupDesc(group) => Reply::GroupDesc(group_descriptions(switch, *group)),
        Request::GroupFeatures => Reply::GroupFeatures(GroupFeatures {
            kinds: 0xf,
            // Weights, liveness, chaining with checks.
            capabilities: 0xf,
            max_groups: [thalweg_openflow::message::group::MAX_GROUP; 4],
            actions: [0x0fff_9fff; 4],
        }),
        Request::Meter(meter) => Reply::Meter(meter_statistics(switch, *meter)?),
        Request::MeterConfig(meter) => {
            let known = meters(switch, *meter)?;
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
                tables::set_up(switch, version, asked)?;
            }
            Reply::TableFeatures(tables::features(switch, version))
        }
        Request::TableDesc => Reply::TableDesc(tables::descriptions(switch)),
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
    request: &thalweg_openflow::message::flow::FlowStatsRequest,
) -> Result<AggregateStats, Refusal> {
    let (selector, target) = selector(request)?;
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
fn check_queue(switch: &Switch, version: Version, asked: &QueueRequest) -> Result<(), Refusal> {
    let pipeline = switch.pipeline();
    let is_known = |port| pipeline.port(port_id(port), pipeline.version()).is_some();
    let is_any = match version {
        Version::V10 => matches!(asked.port, PortNumber::ANY | PortNumber::ALL),
        _ => asked.port == PortNumber::ANY,
    };
    if !is_any && !is_known(asked.port) {
        let what = format!("there is no port {}", asked.port);
        return Err(refuse(ErrorCode::OFPQOFC_BAD_PORT, what));
    }
    let has_ports = pipeline.ports(pipeline.version()).next().is_some();
    if asked.queue != ALL_QUEUES || !has_ports {
        let what = format!("there is no queue {}", asked.queue);
        return Err(refuse(ErrorCode::OFPQOFC_BAD_QUEUE, what));
    }
    Ok(())
}

fn port_statistics(switch: &mut Switch, port: PortNumber) -> Vec<PortStats> {
    let totals = switch.totals();
    let age = switch.now() - thalweg_packet::Instant::ZERO;
    let present = totals.ports.into_iter().filter(|totals| {
        let is_asked = port == PortNumber::ANY || port == port_number(totals.number);
        is_asked && switch.has_port(totals.number)
    });
    let rows = present.map(|totals| {
        let counters = totals.counters;
        PortStats {
            port: port_number(totals.number),
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
    });
    rows.collect()
}

/// The ports, by number.
pub(super) fn port_descriptions(switch: &Switch) -> Vec<PortDesc> {
    let pipeline = switch.pipeline();
    let ports: Vec<_> = pipeline.ports(pipeline.version()).collect();
    drop(pipeline);
    let desk = switch.desk.as_ref();
    let rows = ports.into_iter().map(|(id, known)| {
        let name = desk.and_then(|desk| desk.identity.port_names.get(&id).cloned());
        let set = desk.and_then(|desk| desk.port_config.get(&id).copied());
        let no_flood = if known.floods { 0 } else { config::NO_FLOOD };
        let is_up = switch.is_port_up(id);
        PortDesc {
            number: port_number(id),
            address: address_of(switch, id),
            name: name.unwrap_or_else(|| format!("port{}", id.0)),
            config: set.unwrap_or(0) & !config::NO_FLOOD | no_flood,
            state: match is_up {
                true if set.unwrap_or(0) & config::PORT_DOWN != 0 => 0,
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

/// A port's Ethernet address: locally administered, made of the datapath and the number.
pub(super) fn address_of(switch: &Switch, port: PortId) -> [u8; 6] {
    let datapath = switch.desk.as_ref().map(|desk| desk.identity.datapath_id);
    let [.., a, b, c] = datapath.unwrap_or(0).to_be_bytes();
    let [.., d, e] = port.0.to_be_bytes();
    [0x02, a, b, c, d, e]
}

fn group_descriptions(switch: &Switch, group: u32) -> Vec<GroupDesc> {
    let pipeline = switch.pipeline();
    let groups = pipeline.groups(pipeline.version());
    groups
        .filter(|known| group == ALL_GROUPS || known.id == GroupId(group.into()))
        .map(|known| description(known))
        .collect()
}

fn group_statistics(switch: &mut Switch, group: u32) -> Vec<GroupStats> {
    drop(switch.totals());
    let now = switch.now();
    let pipeline = switch.pipeline();
    let groups = pipeline.groups(pipeline.version());
    let groups = groups.filter(|known| group == ALL_GROUPS || known.id == GroupId(group.into()));
    let rows = groups.map(|known| {
        let counters = pipeline.group_counters(known.id);
        let counters = counters.cloned().unwrap_or_default();
        let counts = |counters: thalweg_pipeline::Counters| Counts {
            packets: counters.packets,
            bytes: counters.bytes,
        };
        let mut buckets: Vec<Counts> = counters.buckets.iter().copied().map(counts).collect();
        buckets.truncate(known.buckets.len());
        let made_at = switch
            .desk
            .as_ref()
            .and_then(|desk| desk.groups.get(&known.id));
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

fn meters(switch: &Switch, meter: u32) -> Result<Vec<KnownMeter>, Refusal> {
    let Some(desk) = &switch.desk else {
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

fn meter_statistics(switch: &Switch, meter: u32) -> Result<Vec<MeterStats>, Refusal> {
    let now = switch.now();
    let known = meters(switch, meter)?;
    let rows = known.into_iter().map(|(config, made_at)| MeterStats {
        id: config.id,
        flows: 0,
        counts: Counts::default(),
        duration: duration(now - made_at),
        bands: vec![Counts::default(); config.bands.len()],
    });
    Ok(rows.collect())
}

impl Switch {
    /// Whether a port has a link, as its worker said last.
    pub(super) fn is_port_up(&self, port: PortId) -> bool {
        self.links
            .get(&port)
            .is_none_or(|status| *status == PortStatus::Up)
    }
}
