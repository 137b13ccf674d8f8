//! Answers to requests for statistics and descriptions.

use thalweg_io::PortStatus;
use thalweg_openflow::message::flow::{AggregateStats, Counts};
use thalweg_openflow::message::group::{ALL_GROUPS, GroupDesc, GroupFeatures, GroupStats};
use thalweg_openflow::message::meter::{
    ALL_METERS, BAND_DROP, BAND_DSCP_REMARK, MeterFeatures, MeterStats, flags,
};
use thalweg_openflow::message::port::{PortDesc, PortNumber, PortStats, config, state};
use thalweg_openflow::message::switch::{TableDesc, TableFeatures, TableStats};
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{ErrorCode, Refusal, Version, refuse};
use thalweg_packet::PortId;
use thalweg_pipeline::GroupId;

use super::convert::groups::description;
use super::convert::matching::{port_id, port_number};
use super::cursor::{duration, selector};
use super::plane::TABLES;
use crate::switch::Switch;

/// Most bands of a meter.
pub(super) const MAX_BANDS: u8 = 8;
/// Most meters.
const MAX_METERS: u32 = 65_536;
/// Most rules that a table says it can hold.
const MAX_ENTRIES: u32 = 1_000_000;

/// Answers a request.
///
/// # Errors
/// If there is no such object, or the switch has no such thing.
pub(super) fn read(
    switch: &mut Switch,
    _version: Version,
    request: &Request,
) -> Result<Reply, Refusal> {
    Ok(match request {
        Request::Aggregate(request) => {
            let sums = aggregate(switch, request)?;
            Reply::Aggregate(request.is_nicira, sums)
        }
        Request::Table => Reply::Table(tables(switch)),
        Request::Port(port) => Reply::Port(port_statistics(switch, *port)?),
        Request::Queue(asked) => {
            check_port(switch, asked.port, ErrorCode::OFPQOFC_BAD_PORT)?;
            if asked.queue != thalweg_openflow::message::port::ALL_QUEUES {
                let what = format!("there is no queue {}", asked.queue);
                return Err(refuse(ErrorCode::OFPQOFC_BAD_QUEUE, what));
            }
            Reply::Queue(Vec::new())
        }
        Request::QueueDesc(asked) => {
            check_port(switch, asked.port, ErrorCode::OFPQOFC_BAD_PORT)?;
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
        Request::TableFeatures(_) => Reply::TableFeatures(table_features(switch)),
        Request::TableDesc => Reply::TableDesc(table_descriptions(switch)),
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

fn tables(switch: &mut Switch) -> Vec<TableStats> {
    drop(switch.totals());
    let pipeline = switch.pipeline();
    let mut active = [0; TABLES as usize];
    for (_, rule) in pipeline.rules(pipeline.version()) {
        if let Some(count) = active.get_mut(usize::from(rule.table.number())) {
            *count += 1;
        }
    }
    let mut lookups = [(0, 0); TABLES as usize];
    for (table, asked, matched) in pipeline.table_counters() {
        if let Some(counts) = lookups.get_mut(usize::from(table.number())) {
            *counts = (asked, matched);
        }
    }
    let features = features_of_tables(switch);
    let rows = features.into_iter().map(|features| {
        let table = features.table;
        let (lookups, matched) = lookups[usize::from(table)];
        TableStats {
            table,
            active: active[usize::from(table)],
            lookups,
            matched,
            name: features.name.clone(),
            max_entries: MAX_ENTRIES,
            features: Some(Box::new(features)),
        }
    });
    rows.collect()
}

fn table_features(switch: &Switch) -> Vec<TableFeatures> {
    features_of_tables(switch)
}

/// What each table can do: all of them the same.
fn features_of_tables(switch: &Switch) -> Vec<TableFeatures> {
    use thalweg_openflow::FieldId;
    use thalweg_openflow::message::switch::TableAbilities;
    let known = |field: &FieldId| super::convert::knows(*field);
    let matches: Vec<FieldId> = FieldId::all().filter(known).collect();
    let masks = matches.iter().copied().filter(|field| field.is_maskable());
    let masks: Vec<FieldId> = masks.collect();
    let set = matches.iter().copied().filter(|field| field.is_writable());
    let set: Vec<FieldId> = set.collect();
    let actions = super::convert::ACTIONS.to_vec();
    let configs = switch.desk.as_ref().map(|desk| &desk.tables);
    let table = |table: u8| {
        let abilities = TableAbilities {
            next_tables: (table + 1..TABLES).collect(),
            // Goto, write metadata, write, apply, clear.
            instructions: 0b11_1110,
            write_actions: actions.clone(),
            apply_actions: actions.clone(),
            write_set_fields: set.clone(),
            apply_set_fields: set.clone(),
        };
        let config = configs.and_then(|known| known.get(&table));
        TableFeatures {
            table,
            command: 0,
            features: 0,
            name: format!("table{table}"),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: config.map_or(0, |config| config.bits),
            max_entries: MAX_ENTRIES,
            of_entries: abilities.clone(),
            of_misses: abilities,
            matches: matches.clone(),
            masks: masks.clone(),
            wildcards: matches.clone(),
            other: Vec::new(),
        }
    };
    (0..TABLES).map(table).collect()
}

fn table_descriptions(switch: &Switch) -> Vec<TableDesc> {
    let configs = switch.desk.as_ref().map(|desk| &desk.tables);
    let desc = |table| TableDesc {
        table,
        config: configs
            .and_then(|known| known.get(&table).copied())
            .unwrap_or_default(),
    };
    (0..TABLES).map(desc).collect()
}

fn check_port(switch: &Switch, port: PortNumber, code: ErrorCode) -> Result<(), Refusal> {
    let is_known = port == PortNumber::ANY || port == PortNumber::ALL || {
        let pipeline = switch.pipeline();
        pipeline.port(port_id(port), pipeline.version()).is_some()
    };
    match is_known {
        true => Ok(()),
        false => Err(refuse(code, format!("there is no port {port}"))),
    }
}

fn port_statistics(switch: &mut Switch, port: PortNumber) -> Result<Vec<PortStats>, Refusal> {
    check_port(switch, port, ErrorCode::OFPBRC_BAD_PORT)?;
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
    Ok(rows.collect())
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
            state: if is_up { 0 } else { state::LINK_DOWN },
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
