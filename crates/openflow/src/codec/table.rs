//! Tables: configuration, statistics, features.

use bytes::Bytes;

use super::stats::entry;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{Class, FieldId, Header};
use crate::message::switch::{
    TableAbilities, TableConfig, TableDesc, TableFeatures, TableMod, TableStats, TableStatus,
    Vacancy, table_config,
};
use crate::property;
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Bytes of a table's name.
const NAME_BYTES: usize = 32;

/// Properties of a table's configuration.
const EVICTION: u16 = 2;
const VACANCY: u16 = 3;

pub(super) fn decode_mod(version: Version, body: &mut Reader<'_>) -> Result<TableMod, Refusal> {
    let table = body.u8()?;
    body.skip(3)?;
    let bits = body.u32()?;
    Ok(TableMod {
        table,
        config: decode_config(version, bits, body)?,
    })
}

fn decode_config(
    version: Version,
    bits: u32,
    body: &mut Reader<'_>,
) -> Result<TableConfig, Refusal> {
    let known = match version {
        Version::V10 | Version::V11 | Version::V12 => table_config::MISS_MASK,
        Version::V13 => 3,
        _ => table_config::EVICTION | table_config::VACANCY_EVENTS | table_config::MISS_MASK,
    };
    if bits & !known != 0 || version < Version::V13 && bits == table_config::MISS_MASK {
        let what = format!("a table's configuration {bits:#x}");
        return Err(refuse(ErrorCode::OFPTMFC_BAD_CONFIG, what));
    }
    let mut config = TableConfig {
        bits,
        ..TableConfig::default()
    };
    while version >= Version::V14 && !body.is_empty() {
        let (kind, mut value) = property::decode(body)?;
        match kind {
            EVICTION => config.eviction = Some(value.u32()?),
            VACANCY => {
                let (down, up, now) = (value.u8()?, value.u8()?, value.u8()?);
                if down > up || up > 100 {
                    let what = format!("vacancy between {down} and {up} percent");
                    return Err(refuse(ErrorCode::OFPBPC_BAD_VALUE, what));
                }
                config.vacancy = Some(Vacancy { down, up, now });
            }
            other => {
                let what = format!("property {other} of a table");
                return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
            }
        }
    }
    Ok(config)
}

fn put_config(config: &TableConfig, writer: &mut Writer) {
    if let Some(eviction) = config.eviction {
        property::encode(EVICTION, writer, |writer| writer.u32(eviction));
    }
    if let Some(Vacancy { down, up, now }) = config.vacancy {
        property::encode(VACANCY, writer, |writer| {
            writer.put(&[down, up, now, 0]);
        });
    }
}

pub(super) fn put_mod(version: Version, asked: &TableMod, writer: &mut Writer) {
    writer.u8(asked.table);
    writer.zeros(3);
    writer.u32(asked.config.bits);
    if version >= Version::V14 {
        put_config(&asked.config, writer);
    }
}

pub(super) fn decode_desc(body: &mut Reader<'_>) -> Result<TableDesc, Refusal> {
    let mut entry = entry(body, 8)?;
    let table = entry.u8()?;
    entry.skip(1)?;
    let bits = entry.u32()?;
    Ok(TableDesc {
        table,
        config: decode_config(Version::V14, bits, &mut entry)?,
    })
}

pub(super) fn put_desc(desc: &TableDesc, writer: &mut Writer) {
    let start = writer.len();
    writer.u16(0);
    writer.u8(desc.table);
    writer.u8(0);
    writer.u32(desc.config.bits);
    put_config(&desc.config, writer);
    writer.patch_length(start, start);
}

pub(super) fn decode_status(body: &mut Reader<'_>) -> Result<TableStatus, Refusal> {
    let reason = body.u8()?;
    body.skip(7)?;
    Ok(TableStatus {
        reason,
        desc: decode_desc(body)?,
    })
}

pub(super) fn put_status(status: &TableStatus, writer: &mut Writer) {
    writer.u8(status.reason);
    writer.zeros(7);
    put_desc(&status.desc, writer);
}

pub(super) fn decode_stats(version: Version, body: &mut Reader<'_>) -> Result<TableStats, Refusal> {
    let mut stats = TableStats {
        table: body.u8()?,
        ..TableStats::default()
    };
    if version >= Version::V13 {
        body.skip(3)?;
        stats.active = body.u32()?;
    } else {
        body.skip(if version == Version::V10 { 3 } else { 7 })?;
        stats.name = body.text(NAME_BYTES)?;
        match version {
            Version::V10 => body.skip(4)?,
            Version::V11 => stats.features = Some(decode_abilities_11(body)?),
            _ => stats.features = Some(decode_abilities_12(body)?),
        }
        stats.max_entries = body.u32()?;
        stats.active = body.u32()?;
    }
    stats.lookups = body.u64()?;
    stats.matched = body.u64()?;
    Ok(stats)
}

/// Bits of OpenFlow 1.0's wildcards and OpenFlow 1.1's match fields: all of them.
const WILDCARDS_10: u32 = 0x003f_ffff;
const MATCH_11: u32 = 0xfbff;
/// Instructions and actions of OpenFlow 1.1, by number: those that OpenFlow 1.2 knows.
const INSTRUCTIONS: u32 = 0b11_1110;

pub(super) fn put_stats(version: Version, stats: &TableStats, writer: &mut Writer) {
    writer.u8(stats.table);
    if version >= Version::V13 {
        writer.zeros(3);
        writer.u32(stats.active);
    } else {
        writer.zeros(if version == Version::V10 { 3 } else { 7 });
        writer.text(&stats.name, NAME_BYTES);
        match version {
            Version::V10 => writer.u32(WILDCARDS_10),
            Version::V11 => put_abilities_11(stats, writer),
            _ => put_abilities_12(stats, writer),
        }
        writer.u32(stats.max_entries);
        writer.u32(stats.active);
    }
    writer.u64(stats.lookups);
    writer.u64(stats.matched);
}

/// Bits of the actions that a table has, by OpenFlow 1.1's numbers.
fn action_bits(actions: &[u16]) -> u32 {
    let bits = actions.iter().filter(|number| **number < 32);
    bits.fold(0, |bits, number| bits | 1 << number)
}

/// The actions that bits name, by OpenFlow 1.1's numbers.
fn actions_of(bits: u32) -> Vec<u16> {
    (0..32).filter(|number| bits & 1 << number != 0).collect()
}

/// Reads what a table of OpenFlow 1.1 can do. Which fields it matches is not read: bits stand
/// for them that no other version has.
fn decode_abilities_11(body: &mut Reader<'_>) -> Result<Box<TableFeatures>, Refusal> {
    body.skip(8)?;
    let mut features = Box::<TableFeatures>::default();
    features.of_entries.instructions = body.u32()?;
    features.of_entries.write_actions = actions_of(body.u32()?);
    features.of_entries.apply_actions = actions_of(body.u32()?);
    features.config = body.u32()?;
    Ok(features)
}

/// Reads what a table of OpenFlow 1.2 can do.
fn decode_abilities_12(body: &mut Reader<'_>) -> Result<Box<TableFeatures>, Refusal> {
    let fields_of = |bits: u64| -> Vec<FieldId> {
        let numbers = (0..64).filter(|number| bits & 1 << number != 0);
        let field = |number| {
            FieldId::of(Header {
                class: Class::Oxm,
                number,
                has_mask: false,
                length: 0,
            })
        };
        numbers.filter_map(field).collect()
    };
    let mut features = Box::<TableFeatures>::default();
    features.matches = fields_of(body.u64()?);
    features.wildcards = fields_of(body.u64()?);
    features.of_entries.write_actions = actions_of(body.u32()?);
    features.of_entries.apply_actions = actions_of(body.u32()?);
    features.of_entries.write_set_fields = fields_of(body.u64()?);
    features.of_entries.apply_set_fields = fields_of(body.u64()?);
    features.metadata_match = body.u64()?;
    features.metadata_write = body.u64()?;
    features.of_entries.instructions = body.u32()?;
    features.config = body.u32()?;
    Ok(features)
}

/// The instructions that a table has: all of them, if it does not say.
fn told_instructions(stats: &TableStats) -> u32 {
    let features = stats.features.as_deref();
    features.map_or(INSTRUCTIONS, |features| {
        features.of_entries.instructions & INSTRUCTIONS
    })
}

fn put_abilities_11(stats: &TableStats, writer: &mut Writer) {
    let features = stats.features.as_deref().cloned().unwrap_or_default();
    writer.u32(MATCH_11);
    writer.u32(MATCH_11);
    writer.u32(told_instructions(stats));
    writer.u32(action_bits_11(&features.of_entries.write_actions));
    writer.u32(action_bits_11(&features.of_entries.apply_actions));
    writer.u32(features.config);
}

/// OpenFlow 1.1 has an action for each field instead of one for all.
fn action_bits_11(actions: &[u16]) -> u32 {
    const SET_FIELD: u16 = 25;
    const EACH_FIELD: u32 = 0b0110_0111_1111_1110;
    let bits = action_bits(actions) & !(1 << SET_FIELD);
    match actions.contains(&SET_FIELD) {
        true => bits | EACH_FIELD,
        false => bits,
    }
}

fn put_abilities_12(stats: &TableStats, writer: &mut Writer) {
    let features = stats.features.as_deref().cloned().unwrap_or_default();
    let bits = |fields: &[FieldId]| {
        let numbers = fields.iter().filter_map(|field| {
            let header = field.header(Some(Version::V12));
            (header.class == Class::Oxm).then_some(header.number)
        });
        numbers.fold(0_u64, |bits, number| bits | 1 << number.min(63))
    };
    writer.u64(bits(&features.matches));
    writer.u64(bits(&features.wildcards));
    writer.u32(action_bits(&features.of_entries.write_actions));
    writer.u32(action_bits(&features.of_entries.apply_actions));
    writer.u64(bits(&features.of_entries.write_set_fields));
    writer.u64(bits(&features.of_entries.apply_set_fields));
    writer.u64(features.metadata_match);
    writer.u64(features.metadata_write);
    writer.u32(told_instructions(stats));
    writer.u32(features.config);
}

/// Properties of a table's features; those of a miss have the odd number behind.
const INSTRUCTION_LIST: u16 = 0;
const NEXT_TABLES: u16 = 2;
const WRITE_ACTIONS: u16 = 4;
const APPLY_ACTIONS: u16 = 6;
const MATCHES: u16 = 8;
const WILDCARDS: u16 = 10;
const WRITE_SET_FIELD: u16 = 12;
const APPLY_SET_FIELD: u16 = 14;

pub(super) fn decode_features(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<Vec<TableFeatures>, Refusal> {
    let mut tables = Vec::new();
    while !body.is_empty() {
        tables.push(decode_one(version, body)?);
    }
    Ok(tables)
}

fn decode_one(version: Version, body: &mut Reader<'_>) -> Result<TableFeatures, Refusal> {
    let mut entry = entry(body, 64)?;
    let (table, command) = (entry.u8()?, entry.u8()?);
    let features_bits = entry.u32()?;
    let mut features = TableFeatures {
        table,
        command,
        features: if version == Version::V15 {
            features_bits
        } else {
            0
        },
        name: entry.text(NAME_BYTES)?,
        metadata_match: entry.u64()?,
        metadata_write: entry.u64()?,
        config: entry.u32()?,
        max_entries: entry.u32()?,
        ..TableFeatures::default()
    };
    while !entry.is_empty() {
        let (kind, value) = property::decode(&mut entry)?;
        read_property(kind, value, &mut features)?;
    }
    Ok(features)
}

fn read_property(
    kind: u16,
    mut value: Reader<'_>,
    features: &mut TableFeatures,
) -> Result<(), Refusal> {
    let abilities = match kind % 2 {
        0 => &mut features.of_entries,
        _ => &mut features.of_misses,
    };
    match kind & !1 {
        INSTRUCTION_LIST => abilities.instructions = decode_instructions(&mut value)?,
        NEXT_TABLES => abilities.next_tables = value.rest().to_vec(),
        WRITE_ACTIONS => abilities.write_actions = decode_action_ids(&mut value)?,
        APPLY_ACTIONS => abilities.apply_actions = decode_action_ids(&mut value)?,
        MATCHES if kind == MATCHES => {
            let fields = decode_fields(&mut value)?;
            let maskable = fields.iter().filter(|(_, has_mask)| *has_mask);
            features.masks = maskable.map(|(field, _)| *field).collect();
            features.matches = fields.into_iter().map(|(field, _)| field).collect();
        }
        WILDCARDS if kind == WILDCARDS => {
            let fields = decode_fields(&mut value)?;
            features.wildcards = fields.into_iter().map(|(field, _)| field).collect();
        }
        WRITE_SET_FIELD => {
            let fields = decode_fields(&mut value)?;
            abilities.write_set_fields = fields.into_iter().map(|(field, _)| field).collect();
        }
        APPLY_SET_FIELD => {
            let fields = decode_fields(&mut value)?;
            abilities.apply_set_fields = fields.into_iter().map(|(field, _)| field).collect();
        }
        _ => features.other.push(Bytes::copy_from_slice(value.rest())),
    }
    Ok(())
}

fn decode_instructions(value: &mut Reader<'_>) -> Result<u32, Refusal> {
    let mut bits = 0;
    while !value.is_empty() {
        let (kind, length) = (value.u16()?, usize::from(value.u16()?));
        value.skip(length.saturating_sub(4))?;
        bits |= 1_u32.checked_shl(kind.into()).unwrap_or(0);
    }
    Ok(bits)
}

fn decode_action_ids(value: &mut Reader<'_>) -> Result<Vec<u16>, Refusal> {
    let mut ids = Vec::new();
    while !value.is_empty() {
        let (kind, length) = (value.u16()?, usize::from(value.u16()?));
        value.skip(length.saturating_sub(4))?;
        if kind != 0xffff {
            ids.push(kind);
        }
    }
    Ok(ids)
}

fn decode_fields(value: &mut Reader<'_>) -> Result<Vec<(FieldId, bool)>, Refusal> {
    let mut fields = Vec::new();
    while !value.is_empty() {
        let (header, _) = Header::decode(value)?;
        let known = header.and_then(|header| Some((FieldId::of(header)?, header.has_mask)));
        fields.extend(known);
    }
    Ok(fields)
}

pub(super) fn put_features(version: Version, features: &TableFeatures, writer: &mut Writer) {
    let start = writer.len();
    writer.u16(0);
    writer.u8(features.table);
    writer.u8(if version == Version::V15 {
        features.command
    } else {
        0
    });
    writer.u32(if version == Version::V15 {
        features.features
    } else {
        0
    });
    writer.text(&features.name, NAME_BYTES);
    writer.u64(features.metadata_match);
    writer.u64(features.metadata_write);
    writer.u32(features.config);
    writer.u32(features.max_entries);
    let sides = [(0, &features.of_entries), (1, &features.of_misses)];
    for (side, abilities) in sides {
        put_abilities(version, side, abilities, writer);
    }
    // Sorted, since a switch tells of many fields in each of 254 tables.
    let mut masks = features.masks.clone();
    masks.sort_unstable();
    let is_masked = |field: &FieldId| masks.binary_search(field).is_ok();
    put_fields(version, MATCHES, &features.matches, is_masked, writer);
    put_fields(version, WILDCARDS, &features.wildcards, |_| false, writer);
    writer.patch_length(start, start);
}

fn put_abilities(version: Version, side: u16, abilities: &TableAbilities, writer: &mut Writer) {
    property::encode(INSTRUCTION_LIST + side, writer, |writer| {
        for kind in (0..32_u16).filter(|kind| abilities.instructions & 1 << kind != 0) {
            writer.u16(kind);
            writer.u16(4);
        }
    });
    property::encode(NEXT_TABLES + side, writer, |writer| {
        writer.put(&abilities.next_tables);
    });
    let lists = [
        (
            (WRITE_ACTIONS, &abilities.write_actions),
            (WRITE_SET_FIELD, &abilities.write_set_fields),
        ),
        (
            (APPLY_ACTIONS, &abilities.apply_actions),
            (APPLY_SET_FIELD, &abilities.apply_set_fields),
        ),
    ];
    for ((actions, ids), (set_fields, fields)) in lists {
        property::encode(actions + side, writer, |writer| {
            for id in ids {
                writer.u16(*id);
                writer.u16(4);
            }
        });
        put_fields(version, set_fields + side, fields, |_| false, writer);
    }
}

fn put_fields(
    version: Version,
    kind: u16,
    fields: &[FieldId],
    is_masked: impl Fn(&FieldId) -> bool,
    writer: &mut Writer,
) {
    property::encode(kind, writer, |writer| {
        for field in fields {
            let header = Header {
                has_mask: is_masked(field),
                ..field.header(Some(version))
            };
            header.encode(writer);
        }
    });
}
