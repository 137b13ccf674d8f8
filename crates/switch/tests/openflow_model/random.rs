//! Random messages of a controller.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use thalweg_openflow::action::{Action, Instructions, SetForm};
use thalweg_openflow::message::bundle::{BundleControl, BundleControlType};
use thalweg_openflow::message::connection::{Role, RoleMessage};
use thalweg_openflow::message::flow::{
    ALL_TABLES, FlowCommand, FlowFlags, FlowMod, FlowStatsRequest,
};
use thalweg_openflow::message::group::{
    ALL_BUCKETS, ALL_GROUPS, ANY_GROUP, Bucket, FIRST_BUCKET, GroupCommand, GroupMod, GroupType,
    LAST_BUCKET, MAX_GROUP,
};
use thalweg_openflow::message::packet::PacketOut;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::switch::{TableConfig, TableMod, table_config};
use thalweg_openflow::message::{Message, Request};
use thalweg_openflow::{Condition, FieldId, Match, Value, Version};
use thalweg_pipeline::TableLimit;
use thalweg_switch::OpenFlowTable;

/// Chooses one of several, each as often as the others.
pub(crate) fn one_of<T: Clone>(chance: &mut Pcg64Mcg, several: &[T]) -> T {
    several[chance.random_range(0..several.len())].clone()
}

/// A message that changes rules or groups, or sends a packet through them.
///
/// OpenFlow 1.0 says "go to table" by an action, which cannot stand behind metadata. So a rule
/// that writes metadata cannot be read there.
pub(crate) fn change(chance: &mut Pcg64Mcg, version: Version, has_metadata: bool) -> Message {
    let mut asked = any_change(chance, version);
    if let Message::FlowMod(asked) = &mut asked
        && !has_metadata
    {
        asked.instructions.metadata = None;
    }
    asked
}

fn any_change(chance: &mut Pcg64Mcg, version: Version) -> Message {
    match chance.random_range(0..10) {
        0..6 => Message::FlowMod(Box::new(flow_mod(chance, version))),
        6 if version >= Version::V14 && chance.random_bool(0.4) => {
            Message::TableMod(table_mod(chance))
        }
        6..8 if version > Version::V10 => Message::GroupMod(group_mod(chance, version)),
        6..9 => Message::PacketOut(packet_out(chance, version)),
        _ => Message::FlowMod(Box::new(flow_mod(chance, version))),
    }
}

/// Turns eviction on or off.
fn table_mod(chance: &mut Pcg64Mcg) -> TableMod {
    TableMod {
        table: one_of(chance, &[0, 0, 1, 1, 2, ALL_TABLES, 254]),
        config: TableConfig {
            bits: one_of(chance, &[0, table_config::EVICTION]),
            ..TableConfig::default()
        },
    }
}

/// Limits of the tables that rules are in.
pub(crate) fn limits(chance: &mut Pcg64Mcg) -> BTreeMap<u8, OpenFlowTable> {
    let mut tables = BTreeMap::new();
    for table in 0..3 {
        if chance.random_bool(0.5) {
            let limit = TableLimit {
                rules: Some(chance.random_range(1..6)),
                evicts: chance.random_bool(0.5),
                groups: Vec::new(),
            };
            let name = String::new();
            tables.insert(table, OpenFlowTable { name, limit });
        }
    }
    tables
}

/// A flag that the version has.
fn flag(chance: &mut Pcg64Mcg, version: Version) -> u16 {
    let flags = [
        FlowFlags::SEND_REMOVED,
        FlowFlags::CHECK_OVERLAP,
        FlowFlags::RESET_COUNTS,
        FlowFlags::NO_PACKET_COUNTS,
    ];
    let known = if version <= Version::V11 { 2 } else { 3 };
    let known = if version >= Version::V13 { 4 } else { known };
    flags[chance.random_range(0..known)]
}

fn flow_mod(chance: &mut Pcg64Mcg, version: Version) -> FlowMod {
    let command = one_of(
        chance,
        &[
            FlowCommand::Add,
            FlowCommand::Add,
            FlowCommand::Add,
            FlowCommand::Add,
            FlowCommand::Modify,
            FlowCommand::ModifyStrict,
            FlowCommand::Delete,
            FlowCommand::DeleteStrict,
        ],
    );
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    let has_mask = command != FlowCommand::Add && chance.random_bool(0.4);
    let flag = flag(chance, version);
    let (matching, number) = numbered_matching(chance);
    let priority = chance.random_range(1..4);
    // Rules of one table end half a minute after each other, whenever they were added. So which
    // is evicted depends on no clock.
    let timeout_s = 1_000 + 25 * (4 * number + priority);
    FlowMod {
        is_nicira: version == Version::V10,
        command,
        table: match chance.random_range(0..20) {
            0 if deletes => ALL_TABLES,
            1 => 254,
            n => n % 3,
        },
        new_cookie: match command == FlowCommand::Add || chance.random_bool(0.5) {
            true => chance.random_range(0..4),
            false => u64::MAX,
        },
        cookie: if has_mask {
            chance.random_range(0..4)
        } else {
            0
        },
        cookie_mask: if has_mask {
            one_of(chance, &[1, 2, 3, u64::MAX])
        } else {
            0
        },
        idle_timeout_s: one_of(chance, &[0, 0, timeout_s]),
        hard_timeout_s: one_of(chance, &[0, 0, timeout_s]),
        priority,
        buffer: None,
        out_port: match deletes && chance.random_bool(0.3) {
            true => PortNumber(chance.random_range(1..4)),
            false => PortNumber::ANY,
        },
        out_group: match deletes && chance.random_bool(0.2) {
            true => chance.random_range(1..4),
            false => ANY_GROUP,
        },
        flags: FlowFlags(if chance.random_bool(0.4) { flag } else { 0 }),
        importance: chance.random_range(0..3),
        matching,
        instructions: match deletes {
            true => Instructions::default(),
            false => instructions(chance, version),
        },
    }
}

/// A match, and a number that other matches do not have.
fn numbered_matching(chance: &mut Pcg64Mcg) -> (Match, u16) {
    let mut conditions = Vec::new();
    let mut add = |field: FieldId, value: u128, mask: Option<u128>| {
        let value = value & mask.unwrap_or(u128::MAX);
        conditions.push(Condition {
            field,
            value: Value::from_number(value, field.bytes()),
            mask: mask.map(|mask| Value::from_number(mask, field.bytes())),
        });
    };
    let (mut port, mut mac, mut ip) = (0, 0, 0);
    if chance.random_bool(0.4) {
        port = chance.random_range(1..4);
        add(FieldId::IN_PORT_OXM, port.into(), None);
    }
    if chance.random_bool(0.4) {
        let (value, mask) = (chance.random_range(0..3), chance.random_range(0..3));
        mac = 1 + 3 * value + mask;
        let mask = [None, Some(1 << 40), Some(0xff)][usize::from(mask)];
        add(FieldId::ETH_DST, MACS[usize::from(value)], mask);
    }
    if chance.random_bool(0.5) {
        let ether_type = one_of(chance, &[0x800, 0x800, 0x806]);
        add(FieldId::ETH_TYPE, ether_type, None);
        ip = if ether_type == 0x800 { 1 } else { 2 };
        if ether_type == 0x800 && chance.random_bool(0.7) {
            let (value, bits) = (chance.random_range(0..4), chance.random_range(0..3));
            ip = 3 + 3 * value + bits;
            let bits = [8, 16, 32][usize::from(bits)];
            let mask = (bits < 32).then_some(0xffff_ffff << (32 - bits) & 0xffff_ffff);
            add(FieldId::IP_DST, ADDRESSES[usize::from(value)], mask);
        }
    }
    (Match { conditions }, (port * 10 + mac) * 15 + ip)
}

fn matching(chance: &mut Pcg64Mcg) -> Match {
    numbered_matching(chance).0
}

const MACS: [u128; 3] = [0x0200_0000_0001, 0x0200_0000_0002, 0x0300_0000_0001];
const ADDRESSES: [u128; 4] = [0x0a00_0001, 0x0a00_0002, 0x0a01_0001, 0x1400_0001];

fn mac(chance: &mut Pcg64Mcg) -> u128 {
    one_of(chance, &MACS)
}

fn address(chance: &mut Pcg64Mcg) -> u128 {
    one_of(chance, &ADDRESSES)
}

fn instructions(chance: &mut Pcg64Mcg, version: Version) -> Instructions {
    let mut asked = Instructions {
        apply: actions(chance, version),
        ..Instructions::default()
    };
    if version > Version::V10 {
        if chance.random_bool(0.2) {
            asked.write = Some(vec![action(chance, version)]);
        }
        asked.clear = chance.random_bool(0.1);
        if chance.random_bool(0.1) {
            asked.metadata = Some((chance.random_range(0..4) & 2, 2));
        }
        if chance.random_bool(0.3) {
            asked.goto = Some(chance.random_range(1..4));
        }
    }
    asked
}

fn actions(chance: &mut Pcg64Mcg, version: Version) -> Vec<Action> {
    let count = chance.random_range(0..3);
    (0..count).map(|_| action(chance, version)).collect()
}

fn action(chance: &mut Pcg64Mcg, version: Version) -> Action {
    match chance.random_range(0..5) {
        0 if version > Version::V10 => Action::Group(chance.random_range(1..4)),
        1 => Action::SetField {
            field: FieldId::ETH_DST,
            value: Value::from_number(mac(chance), 6),
            mask: None,
            form: SetForm::SetField,
        },
        _ => Action::Output {
            port: PortNumber(chance.random_range(1..4)),
            max_length: 0,
        },
    }
}

fn group_mod(chance: &mut Pcg64Mcg, version: Version) -> GroupMod {
    let command = match version >= Version::V15 && chance.random_bool(0.4) {
        true => one_of(
            chance,
            &[GroupCommand::InsertBucket, GroupCommand::RemoveBucket],
        ),
        false => one_of(
            chance,
            &[
                GroupCommand::Add,
                GroupCommand::Add,
                GroupCommand::Add,
                GroupCommand::Modify,
                GroupCommand::AddOrModify,
                GroupCommand::Delete,
            ],
        ),
    };
    let kinds = [
        GroupType::All,
        GroupType::Select,
        GroupType::Indirect,
        GroupType::FastFailover,
    ];
    let kind = one_of(chance, &kinds);
    let group = match chance.random_range(0..30) {
        0 if command == GroupCommand::Delete => ALL_GROUPS,
        1 => MAX_GROUP + 1,
        _ => chance.random_range(1..5),
    };
    let count = match command {
        GroupCommand::Delete | GroupCommand::RemoveBucket => 0,
        _ => chance.random_range(1..3),
    };
    let place = match command {
        GroupCommand::InsertBucket => one_of(chance, &[0, 1, 2, FIRST_BUCKET, LAST_BUCKET]),
        GroupCommand::RemoveBucket => {
            one_of(chance, &[0, 1, 2, FIRST_BUCKET, LAST_BUCKET, ALL_BUCKETS])
        }
        _ => ALL_BUCKETS,
    };
    let buckets = (0..count).map(|number| bucket(chance, version, kind, number));
    GroupMod {
        command,
        kind,
        group,
        command_bucket: place,
        buckets: buckets.collect(),
        selection: None,
    }
}

fn bucket(chance: &mut Pcg64Mcg, version: Version, kind: GroupType, number: u32) -> Bucket {
    let leads_on = chance.random_bool(0.2);
    Bucket {
        id: match version >= Version::V15 {
            true => chance.random_range(0..4),
            false => number,
        },
        weight: (kind == GroupType::Select).then(|| chance.random_range(0..3)),
        watch_port: match kind == GroupType::FastFailover {
            true => PortNumber(chance.random_range(1..4)),
            false => PortNumber::ANY,
        },
        watch_group: ANY_GROUP,
        actions: vec![match leads_on {
            true => Action::Group(chance.random_range(1..5)),
            false => action(chance, Version::V10),
        }],
    }
}

/// A packet of IPv4 that goes through the tables, or to a group.
fn packet_out(chance: &mut Pcg64Mcg, version: Version) -> PacketOut {
    let group = Action::Group(chance.random_range(1..5));
    let goes_to_group = version > Version::V10 && chance.random_bool(0.2);
    let mut data = vec![0; 60];
    data[..6].copy_from_slice(&mac(chance).to_be_bytes()[10..]);
    data[12..14].copy_from_slice(&[8, 0]);
    data[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253]);
    data[30..34].copy_from_slice(&address(chance).to_be_bytes()[12..]);
    let port: u128 = chance.random_range(1..4);
    PacketOut {
        buffer: None,
        metadata: Match {
            conditions: vec![Condition {
                field: FieldId::IN_PORT_OXM,
                value: Value::from_number(port, 4),
                mask: None,
            }],
        },
        actions: match goes_to_group {
            true => vec![group],
            false => vec![Action::Output {
                port: PortNumber::TABLE,
                max_length: 0,
            }],
        },
        data: Bytes::from(data),
    }
}

pub(crate) fn flow_request(chance: &mut Pcg64Mcg, version: Version) -> FlowStatsRequest {
    let has_mask = chance.random_bool(0.3);
    FlowStatsRequest {
        is_nicira: version == Version::V10,
        table: one_of(chance, &[ALL_TABLES, ALL_TABLES, 0, 1, 2]),
        out_port: one_of(chance, &[PortNumber::ANY, PortNumber::ANY, PortNumber(2)]),
        out_group: match version > Version::V10 && chance.random_bool(0.2) {
            true => chance.random_range(1..4),
            false => ANY_GROUP,
        },
        cookie: if has_mask { 1 } else { 0 },
        cookie_mask: if has_mask { 1 } else { 0 },
        matching: match chance.random_bool(0.5) {
            true => matching(chance),
            false => Match::default(),
        },
    }
}

pub(crate) fn role_request(chance: &mut Pcg64Mcg, version: Version) -> Message {
    let is_nicira = version < Version::V12;
    let roles = [
        Role::NoChange,
        Role::Equal,
        Role::Equal,
        Role::Primary,
        Role::Secondary,
    ];
    let role = one_of(chance, &roles);
    let elects = matches!(role, Role::Primary | Role::Secondary) && !is_nicira;
    Message::RoleRequest(RoleMessage {
        is_nicira,
        role,
        generation: elects.then(|| {
            let near = [0, 1, 2, 3, u64::MAX / 2, u64::MAX - 1];
            one_of(chance, &near)
        }),
    })
}

pub(crate) fn bundle_control(chance: &mut Pcg64Mcg, bundle: u32) -> Message {
    use BundleControlType as Kind;
    let kinds = [
        Kind::OpenRequest,
        Kind::CloseRequest,
        Kind::CommitRequest,
        Kind::CommitRequest,
        Kind::CommitRequest,
        Kind::DiscardRequest,
    ];
    Message::BundleControl(BundleControl {
        bundle,
        kind: one_of(chance, &kinds),
        flags: bundle_flags(chance),
        properties: Bytes::new(),
    })
}

/// Nearly always the same, since those of a bundle's messages must agree.
pub(crate) fn bundle_flags(chance: &mut Pcg64Mcg) -> u16 {
    if chance.random_bool(0.03) { 1 } else { 3 }
}

/// All groups, or one.
pub(crate) fn group_request(chance: &mut Pcg64Mcg, version: Version) -> Message {
    let group = match version >= Version::V15 && chance.random_bool(0.2) {
        true => chance.random_range(1..5),
        false => ALL_GROUPS,
    };
    Message::Request(Request::GroupDesc(group), false)
}
