//! Groups: changes, descriptions, statistics.

use std::collections::BTreeSet;

use super::stats::put_number;
use super::stats::{
    decode_counts, decode_duration, decode_number, entry, put_counts, put_duration,
};
use crate::action::{decode_actions, encode_actions};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Header, Value};
use crate::matching::{Condition, Match};
use crate::message::counts::Duration;
use crate::message::group::{
    ALL_BUCKETS, ALL_GROUPS, ANY_GROUP, Bucket, FIRST_BUCKET, GroupCommand, GroupDesc,
    GroupFeatures, GroupMod, GroupStats, GroupType, LAST_BUCKET, MAX_BUCKET, Selection,
};
use crate::port_number::PortNumber;
use crate::property;
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Netronome's experimenter number, under which select groups say how they choose.
const NETRONOME: u32 = 0x0000_154d;
/// The number that older programs write for it.
const NETRONOME_COMPATIBLE: u32 = 0x0000_1540;
/// Bytes of a method's name.
const METHOD_BYTES: usize = 16;

/// Properties of a bucket of OpenFlow 1.5.
const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;

/// Whether a version has buckets with numbers; OpenFlow 1.0 has them by Nicira's messages.
fn has_bucket_ids(version: Version) -> bool {
    version == Version::V10 || version == Version::V15
}

fn command_of(version: Version, number: u16) -> Result<GroupCommand, Refusal> {
    Ok(match number {
        0 => GroupCommand::Add,
        1 => GroupCommand::Modify,
        2 => GroupCommand::Delete,
        3 if has_bucket_ids(version) => GroupCommand::InsertBucket,
        5 if has_bucket_ids(version) => GroupCommand::RemoveBucket,
        0x8000 => GroupCommand::AddOrModify,
        other => {
            let what = format!("command {other} of a group-mod");
            return Err(refuse(ErrorCode::OFPGMFC_BAD_COMMAND, what));
        }
    })
}

fn command_number(command: GroupCommand) -> u16 {
    match command {
        GroupCommand::Add => 0,
        GroupCommand::Modify => 1,
        GroupCommand::Delete => 2,
        GroupCommand::InsertBucket => 3,
        GroupCommand::RemoveBucket => 5,
        GroupCommand::AddOrModify => 0x8000,
    }
}

fn kind_of(number: u8) -> Result<GroupType, Refusal> {
    Ok(match number {
        0 => GroupType::All,
        1 => GroupType::Select,
        2 => GroupType::Indirect,
        3 => GroupType::FastFailover,
        other => {
            let what = format!("a group of type {other}");
            return Err(refuse(ErrorCode::OFPGMFC_BAD_TYPE, what));
        }
    })
}

pub(super) fn decode_mod(version: Version, body: &mut Reader<'_>) -> Result<GroupMod, Refusal> {
    let command = command_of(version, body.u16()?)?;
    let kind = kind_of(body.u8()?)?;
    body.skip(1)?;
    let group = body.u32()?;
    if !has_bucket_ids(version) {
        let list = *body;
        body.rest();
        let read = GroupMod {
            command,
            kind,
            group,
            command_bucket: ALL_BUCKETS,
            buckets: decode_buckets_11(version, list)?,
            selection: None,
        };
        if version >= Version::V13 && command == GroupCommand::Delete && !read.buckets.is_empty() {
            let what = "buckets of a group that is deleted";
            return Err(refuse(ErrorCode::OFPGMFC_INVALID_GROUP, what));
        }
        return checked(read);
    }
    let length = body.u16()?;
    body.skip(2)?;
    let command_bucket = checked_place(command, body.u32()?)?;
    let buckets = decode_buckets_15(version, body.part(length.into())?)?;
    let selection = decode_selection(body)?;
    let may_choose = matches!(
        command,
        GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify
    );
    if selection.is_some() && !(kind == GroupType::Select && may_choose) {
        let what = format!("{command:?} of a group of type {kind:?} says how it chooses");
        return Err(refuse(ErrorCode::OFPBPC_BAD_VALUE, what));
    }
    checked(GroupMod {
        command,
        kind,
        group,
        command_bucket,
        buckets,
        selection,
    })
}

/// Checks where buckets are inserted or removed.
fn checked_place(command: GroupCommand, place: u32) -> Result<u32, Refusal> {
    let is_bucket = place <= MAX_BUCKET || matches!(place, FIRST_BUCKET | LAST_BUCKET);
    let is_right = match command {
        GroupCommand::InsertBucket => is_bucket,
        GroupCommand::RemoveBucket => is_bucket || place == ALL_BUCKETS,
        _ => place == ALL_BUCKETS,
    };
    match is_right {
        true => Ok(place),
        false => {
            let what = format!("{command:?} with bucket {place:#x}");
            Err(refuse(ErrorCode::OFPGMFC_BAD_BUCKET, what))
        }
    }
}

/// Checks buckets against the kind of their group and the command, as Open vSwitch does.
fn checked(asked: GroupMod) -> Result<GroupMod, Refusal> {
    let GroupMod {
        command,
        kind,
        buckets,
        ..
    } = &asked;
    let refused = |code: ErrorCode, what: &str| Err(refuse(code, what));
    let is_deleted = *command == GroupCommand::Delete;
    if *kind == GroupType::Indirect && !is_deleted && buckets.len() != 1 {
        let what = "an indirect group has one bucket";
        return refused(ErrorCode::OFPGMFC_INVALID_GROUP, what);
    }
    if *command == GroupCommand::RemoveBucket && !buckets.is_empty() {
        let what = "buckets are removed by their numbers";
        return refused(ErrorCode::OFPGMFC_BAD_BUCKET, what);
    }
    for bucket in buckets {
        let has_weight = bucket.weight.is_some_and(|weight| weight != 0);
        let may_have_weight = *kind == GroupType::Select || *command == GroupCommand::InsertBucket;
        if has_weight && !may_have_weight {
            let what = "only a select group has weights";
            return refused(ErrorCode::OFPGMFC_INVALID_GROUP, what);
        }
        let watches = bucket.watch_port != PortNumber::ANY || bucket.watch_group != ANY_GROUP;
        match kind {
            GroupType::All | GroupType::Indirect if watches => {
                let what = "a group of this type watches nothing";
                return refused(ErrorCode::OFPGMFC_WATCH_UNSUPPORTED, what);
            }
            GroupType::FastFailover if !watches => {
                let what = "each bucket of a fast failover group watches something";
                return refused(ErrorCode::OFPGMFC_INVALID_GROUP, what);
            }
            _ => {}
        }
    }
    Ok(asked)
}

/// Reads a port that a bucket watches.
fn watched(number: u32) -> Result<PortNumber, Refusal> {
    let port = PortNumber(number);
    match port.to_u16() {
        Some(_) => Ok(port),
        None => {
            let what = format!("a bucket watches port {number:#x}");
            Err(refuse(ErrorCode::OFPGMFC_BAD_WATCH, what))
        }
    }
}

fn decode_buckets_11(version: Version, list: Reader<'_>) -> Result<Vec<Bucket>, Refusal> {
    let mut list = list.with_code(ErrorCode::OFPGMFC_BAD_BUCKET);
    let mut buckets = Vec::new();
    while !list.is_empty() {
        let mut bucket = entry(&mut list, 16)?;
        let weight = bucket.u16()?;
        let (watch_port, watch_group) = (watched(bucket.u32()?)?, bucket.u32()?);
        bucket.skip(4)?;
        buckets.push(Bucket {
            id: buckets.len() as u32,
            weight: Some(weight),
            watch_port,
            watch_group,
            actions: decode_actions(version, bucket)?,
        });
    }
    Ok(buckets)
}

fn decode_buckets_15(version: Version, list: Reader<'_>) -> Result<Vec<Bucket>, Refusal> {
    let mut list = list.with_code(ErrorCode::OFPGMFC_BAD_BUCKET);
    let (mut buckets, mut seen) = (Vec::new(), BTreeSet::new());
    while !list.is_empty() {
        let mut bucket = entry(&mut list, 8)?;
        let length = bucket.u16()?;
        let id = bucket.u32()?;
        let actions = decode_actions(version, bucket.part(length.into())?)?;
        let mut read = Bucket {
            id,
            weight: None,
            watch_port: PortNumber::ANY,
            watch_group: ANY_GROUP,
            actions,
        };
        while !bucket.is_empty() {
            let (kind, mut value) = property::decode(&mut bucket)?;
            match kind {
                WEIGHT => read.weight = Some(value.u16()?),
                WATCH_PORT => read.watch_port = watched(value.u32()?)?,
                WATCH_GROUP => read.watch_group = value.u32()?,
                other => {
                    let what = format!("property {other} of a bucket");
                    return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
                }
            }
        }
        if id > MAX_BUCKET || !seen.insert(id) {
            let what = format!("bucket {id:#x} is too large or there twice");
            return Err(refuse(ErrorCode::OFPGMFC_BAD_BUCKET, what));
        }
        buckets.push(read);
    }
    Ok(buckets)
}

/// Reads a group's properties: how it chooses.
fn decode_selection(body: &mut Reader<'_>) -> Result<Option<Selection>, Refusal> {
    let mut selection = None;
    while !body.is_empty() {
        let (kind, mut value) = property::decode(body)?;
        if kind != property::EXPERIMENTER {
            let what = format!("property {kind} of a group");
            return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
        }
        let (who, kind, mut value) = property::experimenter(&mut value)?;
        if !matches!((who, kind), (NETRONOME | NETRONOME_COMPATIBLE, 1)) {
            let what = format!("property {kind} of experimenter {who:#x}");
            return Err(refuse(ErrorCode::OFPBPC_BAD_EXPERIMENTER, what));
        }
        value = value.with_code(ErrorCode::OFPBPC_BAD_LEN);
        value.skip(4)?;
        let method = value.text(METHOD_BYTES)?;
        let parameter = value.u64()?;
        if !matches!(method.as_str(), "" | "hash" | "dp_hash") {
            let what = format!("no select group chooses by `{method}`");
            return Err(refuse(ErrorCode::OFPBPC_BAD_VALUE, what));
        }
        selection = Some(Selection {
            fields: decode_hashed(&mut value)?,
            method,
            parameter,
        });
    }
    Ok(selection)
}

/// Reads fields whose values say which bits are hashed.
fn decode_hashed(value: &mut Reader<'_>) -> Result<Match, Refusal> {
    let mut fields = Match::default();
    while !value.is_empty() {
        let (header, length) = Header::decode(value)?;
        let bits = value.take(length)?;
        let field = header.and_then(FieldId::of);
        let Some(field) = field.filter(|field| field.bytes() == bits.len()) else {
            let what = "a field that cannot be hashed";
            return Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what));
        };
        if fields.get(field).is_some() {
            let what = format!("{field} twice");
            return Err(refuse(ErrorCode::OFPBMC_DUP_FIELD, what));
        }
        fields.conditions.push(Condition {
            field,
            value: Value::from_bytes(bits),
            mask: None,
        });
    }
    Ok(fields)
}

fn put_selection(version: Version, selection: &Selection, writer: &mut Writer) {
    property::encode(property::EXPERIMENTER, writer, |writer| {
        writer.u32(NETRONOME);
        writer.u32(1);
        writer.zeros(4);
        writer.text(&selection.method, METHOD_BYTES);
        writer.u64(selection.parameter);
        for condition in &selection.fields.conditions {
            condition.encode(Some(version), writer);
        }
    });
}

fn put_bucket(version: Version, kind: GroupType, bucket: &Bucket, writer: &mut Writer) {
    let start = writer.len();
    writer.u16(0);
    if !has_bucket_ids(version) {
        writer.u16(bucket.weight.unwrap_or(0));
        writer.u32(bucket.watch_port.0);
        writer.u32(bucket.watch_group);
        writer.zeros(4);
        encode_actions(&bucket.actions, version, writer);
        return writer.patch_length(start, start);
    }
    writer.u16(0);
    writer.u32(bucket.id);
    let actions = writer.len();
    encode_actions(&bucket.actions, version, writer);
    writer.patch_length(start + 2, actions);
    // A weight of zero means something in a select group only.
    let weight = bucket
        .weight
        .filter(|weight| kind == GroupType::Select || *weight != 0);
    if let Some(weight) = weight {
        property::encode_u16(WEIGHT, writer, weight);
    }
    if bucket.watch_port != PortNumber::ANY {
        property::encode(WATCH_PORT, writer, |writer| writer.u32(bucket.watch_port.0));
    }
    if bucket.watch_group != ANY_GROUP {
        property::encode(WATCH_GROUP, writer, |writer| writer.u32(bucket.watch_group));
    }
    writer.patch_length(start, start);
}

pub(super) fn put_mod(version: Version, asked: &GroupMod, writer: &mut Writer) {
    writer.u16(command_number(asked.command));
    writer.u8(asked.kind as u8);
    writer.u8(0);
    writer.u32(asked.group);
    let at = writer.len();
    if has_bucket_ids(version) {
        writer.zeros(4);
        writer.u32(asked.command_bucket);
    }
    let start = writer.len();
    for bucket in &asked.buckets {
        put_bucket(version, asked.kind, bucket, writer);
    }
    if has_bucket_ids(version) {
        writer.patch_length(at, start);
        if let Some(selection) = &asked.selection {
            put_selection(version, selection, writer);
        }
    }
}

pub(super) fn decode_desc_request(version: Version, body: &mut Reader<'_>) -> Result<u32, Refusal> {
    match has_bucket_ids(version) {
        true => decode_number(body),
        false => Ok(ALL_GROUPS),
    }
}

pub(super) fn put_desc_request(version: Version, group: u32, writer: &mut Writer) {
    if has_bucket_ids(version) {
        put_number(group, writer);
    }
}

pub(super) fn decode_desc(version: Version, body: &mut Reader<'_>) -> Result<GroupDesc, Refusal> {
    let mut entry = entry(body, 8)?;
    let kind = kind_of(entry.u8()?)?;
    entry.skip(1)?;
    let group = entry.u32()?;
    if !has_bucket_ids(version) {
        return Ok(GroupDesc {
            group,
            kind,
            buckets: decode_buckets_11(version, entry)?,
            selection: None,
        });
    }
    let length = entry.u16()?;
    entry.skip(6)?;
    Ok(GroupDesc {
        group,
        kind,
        buckets: decode_buckets_15(version, entry.part(length.into())?)?,
        selection: decode_selection(&mut entry)?,
    })
}

pub(super) fn put_desc(version: Version, desc: &GroupDesc, writer: &mut Writer) {
    let start = writer.len();
    writer.u16(0);
    writer.u8(desc.kind as u8);
    writer.u8(0);
    writer.u32(desc.group);
    let at = writer.len();
    writer.zeros(if has_bucket_ids(version) { 8 } else { 0 });
    let buckets = writer.len();
    for bucket in &desc.buckets {
        put_bucket(version, desc.kind, bucket, writer);
    }
    if has_bucket_ids(version) {
        writer.patch_length(at, buckets);
        if let Some(selection) = &desc.selection {
            put_selection(version, selection, writer);
        }
    }
    writer.patch_length(start, start);
}

/// Whether a version tells how long a group exists.
fn tells_duration(version: Version) -> bool {
    version == Version::V10 || version >= Version::V13
}

pub(super) fn decode_stats(version: Version, body: &mut Reader<'_>) -> Result<GroupStats, Refusal> {
    let mut entry = entry(body, 32)?;
    entry.skip(2)?;
    let (group, references) = (entry.u32()?, entry.u32()?);
    entry.skip(4)?;
    let counts = decode_counts(&mut entry)?;
    let duration = match tells_duration(version) {
        true => decode_duration(&mut entry)?,
        false => Duration::default(),
    };
    let mut buckets = Vec::new();
    while !entry.is_empty() {
        buckets.push(decode_counts(&mut entry)?);
    }
    Ok(GroupStats {
        group,
        references,
        counts,
        duration,
        buckets,
    })
}

pub(super) fn put_stats(version: Version, stats: &GroupStats, writer: &mut Writer) {
    let start = writer.len();
    writer.u32(0);
    writer.u32(stats.group);
    writer.u32(stats.references);
    writer.zeros(4);
    put_counts(stats.counts, writer);
    if tells_duration(version) {
        put_duration(stats.duration, writer);
    }
    for counts in &stats.buckets {
        put_counts(*counts, writer);
    }
    writer.patch_length(start, start);
}

pub(super) fn decode_features(body: &mut Reader<'_>) -> Result<GroupFeatures, Refusal> {
    let mut features = GroupFeatures {
        kinds: body.u32()?,
        capabilities: body.u32()?,
        ..GroupFeatures::default()
    };
    for number in features.max_groups.iter_mut().chain(&mut features.actions) {
        *number = body.u32()?;
    }
    Ok(features)
}

pub(super) fn put_features(features: &GroupFeatures, writer: &mut Writer) {
    writer.u32(features.kinds);
    writer.u32(features.capabilities);
    for number in features.max_groups.iter().chain(&features.actions) {
        writer.u32(*number);
    }
}
