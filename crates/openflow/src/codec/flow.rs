//! Flow entries: changes, requests, statistics, removals.

use super::Context;
use super::stats::{Oxs, decode_counts, decode_duration, entry, put_counts, put_duration};
use crate::action::Instructions;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::matching::{Cookie, Judgement, Match};
use crate::message::flow::{
    ALL_TABLES, AggregateStats, Counts, Duration, FlowCommand, FlowFlags, FlowMod, FlowRemoved,
    FlowStats, FlowStatsRequest, removed,
};
use crate::message::group::ANY_GROUP;
use crate::port_number::PortNumber;
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// No packet is kept by the switch.
pub(super) const NO_BUFFER: u32 = u32::MAX;

/// Reads a version's own match.
pub(super) fn decode_match(
    version: Version,
    judgement: Judgement,
    body: &mut Reader<'_>,
) -> Result<Match, Refusal> {
    match version {
        Version::V10 => Match::decode_of10(body),
        _ => Match::decode_oxm(version, body, judgement),
    }
}

/// Writes a version's own match.
pub(super) fn put_match(version: Version, matching: &Match, writer: &mut Writer) {
    match version {
        Version::V10 => matching.encode_of10(writer),
        Version::V11 => matching.encode_of11(writer),
        _ => matching.encode_oxm(version, writer),
    }
}

/// Writes the match of a flow entry in a reply: in OpenFlow 1.1 with Nicira's numbers, as Open
/// vSwitch does, because the version's own match has no room for most fields.
fn put_told_match(version: Version, matching: &Match, writer: &mut Writer) {
    if version != Version::V11 {
        return put_match(version, matching, writer);
    }
    let start = writer.len();
    writer.u16(OXM);
    writer.u16(0);
    matching.encode_entries(Some(version), writer);
    writer.patch_length(start + 2, start);
    writer.pad_to_8(start);
}

/// The type of a match that is a list of entries.
const OXM: u16 = 1;

/// Reads Nicira's match of `length` bytes and its padding.
fn decode_nx_match(length: u16, body: &mut Reader<'_>) -> Result<(Match, Cookie), Refusal> {
    Match::decode_nxm(body, length.into(), Judgement::Strict)
}

/// Writes Nicira's match, its padding, and its length at `at`.
fn put_nx_match(matching: &Match, cookie: Cookie, at: usize, writer: &mut Writer) {
    let length = matching.encode_nxm(cookie, writer);
    writer.patch_u16(at, length as u16);
}

/// Splits OpenFlow 1.0's command into table and command.
fn split_command(context: Context, command: u16) -> (u8, u16) {
    match context.flow_mod_table_id {
        true => ((command >> 8) as u8, command & 0xff),
        false => (ALL_TABLES, command),
    }
}

fn command_of(number: u16) -> Result<FlowCommand, Refusal> {
    Ok(match number {
        0 => FlowCommand::Add,
        1 => FlowCommand::Modify,
        2 => FlowCommand::ModifyStrict,
        3 => FlowCommand::Delete,
        4 => FlowCommand::DeleteStrict,
        other => {
            let what = format!("command {other} of a flow-mod");
            return Err(refuse(ErrorCode::OFPFMFC_BAD_COMMAND, what));
        }
    })
}

fn buffer_of(number: u32) -> Option<u32> {
    (number != NO_BUFFER).then_some(number)
}

/// Checks a flow-mod's flags. The bit that resets counts from OpenFlow 1.2 on marks entries for
/// an emergency in 1.0, which neither we nor Open vSwitch have.
fn flags_of(version: Version, flags: u16, timeouts_s: (u16, u16)) -> Result<FlowFlags, Refusal> {
    let known = match version {
        Version::V10 | Version::V12 => 0b111,
        Version::V11 => 0b11,
        _ => 0b1_1111,
    };
    if flags & !known != 0 {
        let what = format!("a flow-mod with flags {flags:#x}");
        return Err(refuse(ErrorCode::OFPFMFC_BAD_FLAGS, what));
    }
    if version == Version::V10 && flags & FlowFlags::EMERGENCY != 0 {
        let code = match timeouts_s {
            (0, 0) => ErrorCode::OFPFMFC_TABLE_FULL,
            _ => ErrorCode::OFPFMFC_BAD_EMERG_TIMEOUT,
        };
        return Err(refuse(code, "there are no entries for an emergency"));
    }
    Ok(FlowFlags(flags))
}

/// The flags that a version can say. Entries for an emergency, which OpenFlow 1.0 has, are not
/// written: the bit resets counts in other versions.
fn put_flags(version: Version, flags: FlowFlags, writer: &mut Writer) {
    writer.u16(match version {
        Version::V10 | Version::V11 => flags.0 & 0b11,
        Version::V12 => flags.0 & 0b111,
        _ => flags.0 & 0b1_1111,
    });
}

/// Reads a port of 32 bits that 16 bits can name, as all of Open vSwitch's can.
fn out_port(body: &mut Reader<'_>) -> Result<PortNumber, Refusal> {
    let port = PortNumber(body.u32()?);
    if port.to_u16().is_none() {
        let what = format!("port {port} is too large");
        return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
    }
    Ok(port)
}

fn decode_mod_10(context: Context, body: &mut Reader<'_>) -> Result<FlowMod, Refusal> {
    let version = Version::V10;
    let mut ahead = *body;
    let is_exact = ahead.u32()? & ALL_WILDCARDS_10 == 0;
    let matching = Match::decode_of10(body)?;
    let new_cookie = body.u64()?;
    let (table, command) = split_command(context, body.u16()?);
    let timeouts_s = (body.u16()?, body.u16()?);
    let priority = body.u16()?;
    Ok(FlowMod {
        is_nicira: false,
        command: command_of(command)?,
        table,
        new_cookie,
        cookie: 0,
        cookie_mask: 0,
        idle_timeout_s: timeouts_s.0,
        hard_timeout_s: timeouts_s.1,
        // An entry that names every field has the highest priority (OpenFlow 1.0.0, section
        // 3.4).
        priority: if is_exact { u16::MAX } else { priority },
        buffer: buffer_of(body.u32()?),
        out_port: PortNumber::from_u16(body.u16()?),
        out_group: ANY_GROUP,
        flags: flags_of(version, body.u16()?, timeouts_s)?,
        importance: 0,
        matching,
        instructions: Instructions::decode(version, rest(body))?,
    })
}

/// The bits of OpenFlow 1.0's wildcards.
const ALL_WILDCARDS_10: u32 = 0x003f_ffff;

/// The table of a flow-mod; all of them only where entries are deleted (OpenFlow 1.2 and later).
fn checked_table(version: Version, command: FlowCommand, table: u8) -> Result<u8, Refusal> {
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    if table == ALL_TABLES && (version == Version::V11 || !deletes) {
        let what = format!("{command:?} in all tables");
        return Err(refuse(ErrorCode::OFPFMFC_BAD_TABLE_ID, what));
    }
    Ok(table)
}

/// Whether a change adds an entry where it finds none: additions, and in OpenFlow 1.1 changes
/// that compare no cookie. Such a flow-mod's cookie is that of the new entry.
fn may_add(version: Version, command: FlowCommand, cookie_mask: u64) -> bool {
    match command {
        FlowCommand::Add => true,
        FlowCommand::Modify | FlowCommand::ModifyStrict => {
            version == Version::V11 && cookie_mask == 0
        }
        FlowCommand::Delete | FlowCommand::DeleteStrict => false,
    }
}

pub(super) fn decode_mod(
    version: Version,
    context: Context,
    body: &mut Reader<'_>,
) -> Result<FlowMod, Refusal> {
    if version == Version::V10 {
        return decode_mod_10(context, body);
    }
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let (table, command) = (body.u8()?, command_of(body.u8()?.into())?);
    let (idle_timeout_s, hard_timeout_s) = (body.u16()?, body.u16()?);
    let (priority, buffer) = (body.u16()?, buffer_of(body.u32()?));
    let (out_port, out_group) = (out_port(body)?, body.u32()?);
    let timeouts_s = (idle_timeout_s, hard_timeout_s);
    let (flags, importance) = (flags_of(version, body.u16()?, timeouts_s)?, body.u16()?);
    let matching = decode_match(version, Judgement::Strict, body)?;
    let (new_cookie, cookie, cookie_mask) = match may_add(version, command, cookie_mask) {
        true => (cookie, 0, 0),
        false => (u64::MAX, cookie & cookie_mask, cookie_mask),
    };
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    Ok(FlowMod {
        is_nicira: false,
        command,
        table: checked_table(version, command, table)?,
        new_cookie,
        cookie,
        cookie_mask,
        idle_timeout_s,
        hard_timeout_s,
        priority,
        buffer,
        out_port,
        out_group: if deletes { out_group } else { ANY_GROUP },
        flags,
        importance: if version >= Version::V14 && command == FlowCommand::Add {
            importance
        } else {
            0
        },
        matching,
        instructions: Instructions::decode(version, rest(body))?,
    })
}

/// A reader of all that is left, which is then read.
fn rest<'a>(body: &mut Reader<'a>) -> Reader<'a> {
    let rest = *body;
    body.rest();
    rest
}

pub(super) fn decode_nx_mod(
    version: Version,
    context: Context,
    body: &mut Reader<'_>,
) -> Result<FlowMod, Refusal> {
    let new_cookie = body.u64()?;
    let (table, command) = split_command(context, body.u16()?);
    let (idle_timeout_s, hard_timeout_s) = (body.u16()?, body.u16()?);
    let (priority, buffer) = (body.u16()?, buffer_of(body.u32()?));
    let (out_port, flags) = (PortNumber::from_u16(body.u16()?), body.u16()?);
    let length = body.u16()?;
    body.skip(6)?;
    let (matching, cookie) = decode_nx_match(length, body)?;
    let (cookie, cookie_mask) = cookie.unwrap_or((0, 0));
    let command = command_of(command)?;
    if command == FlowCommand::Add && cookie_mask != 0 {
        let what = "a flow-mod that adds an entry matches no cookie";
        return Err(refuse(ErrorCode::NXBRC_NXM_INVALID, what));
    }
    Ok(FlowMod {
        is_nicira: true,
        command,
        table,
        new_cookie,
        cookie,
        cookie_mask,
        idle_timeout_s,
        hard_timeout_s,
        priority,
        buffer,
        out_port,
        out_group: ANY_GROUP,
        flags: flags_of(version, flags, (idle_timeout_s, hard_timeout_s))?,
        importance: 0,
        matching,
        instructions: Instructions::decode(version, rest(body))?,
    })
}

pub(super) fn put_mod(version: Version, flow: &FlowMod, writer: &mut Writer) {
    if version == Version::V10 && !flow.is_nicira {
        flow.matching.encode_of10(writer);
    }
    if version == Version::V10 || flow.is_nicira {
        writer.u64(flow.new_cookie);
        writer.u16(join_command(flow));
        writer.u16(flow.idle_timeout_s);
        writer.u16(flow.hard_timeout_s);
        writer.u16(flow.priority);
        writer.u32(flow.buffer.unwrap_or(NO_BUFFER));
        writer.u16(flow.out_port.to_u16().unwrap_or(u16::MAX));
        put_flags(version, flow.flags, writer);
        if flow.is_nicira {
            let at = writer.len();
            writer.zeros(8);
            let cookie = Some((flow.cookie, flow.cookie_mask));
            put_nx_match(&flow.matching, cookie, at, writer);
        }
        return flow
            .instructions
            .encode_for(&flow.matching, version, writer);
    }
    let (cookie, mask) = match may_add(version, flow.command, flow.cookie_mask) {
        true => (flow.new_cookie, 0),
        false => (flow.cookie & flow.cookie_mask, flow.cookie_mask),
    };
    let deletes = matches!(
        flow.command,
        FlowCommand::Delete | FlowCommand::DeleteStrict
    );
    // Where all tables cannot be meant, none is named by the number of the first.
    let has_all = deletes && version > Version::V11;
    let table = match flow.table {
        ALL_TABLES if !has_all => 0,
        table => table,
    };
    writer.u64(cookie);
    writer.u64(mask);
    writer.u8(table);
    writer.u8(flow.command as u8);
    writer.u16(flow.idle_timeout_s);
    writer.u16(flow.hard_timeout_s);
    writer.u16(flow.priority);
    writer.u32(flow.buffer.unwrap_or(NO_BUFFER));
    writer.u32(flow.out_port.0);
    writer.u32(flow.out_group);
    put_flags(version, flow.flags, writer);
    writer.u16(
        if version >= Version::V14 && flow.command == FlowCommand::Add {
            flow.importance
        } else {
            0
        },
    );
    put_match(version, &flow.matching, writer);
    flow.instructions
        .encode_for(&flow.matching, version, writer);
}

/// The command with its table in front, if it names one.
fn join_command(flow: &FlowMod) -> u16 {
    let command = flow.command as u16;
    match flow.table {
        ALL_TABLES => command,
        table => u16::from(table) << 8 | command,
    }
}

pub(super) fn decode_request(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<FlowStatsRequest, Refusal> {
    if version == Version::V10 {
        let matching = Match::decode_of10(body)?;
        let table = body.u8()?;
        body.skip(1)?;
        return Ok(FlowStatsRequest {
            is_nicira: false,
            table,
            out_port: PortNumber::from_u16(body.u16()?),
            out_group: ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            matching,
        });
    }
    let table = body.u8()?;
    body.skip(3)?;
    let (out_port, out_group) = (out_port(body)?, body.u32()?);
    body.skip(4)?;
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let matching = decode_match(version, Judgement::Strict, body)?;
    // Bytes behind the match are ignored, as in Open vSwitch: OpenFlow 1.5 has a list of the
    // wanted statistics there.
    body.rest();
    Ok(FlowStatsRequest {
        is_nicira: false,
        table,
        out_port,
        out_group,
        cookie,
        cookie_mask,
        matching,
    })
}

pub(super) fn decode_nx_request(body: &mut Reader<'_>) -> Result<FlowStatsRequest, Refusal> {
    let (out_port, length, table) = (body.u16()?, body.u16()?, body.u8()?);
    body.skip(3)?;
    let (matching, cookie) = decode_nx_match(length, body)?;
    let (cookie, cookie_mask) = cookie.unwrap_or((0, 0));
    Ok(FlowStatsRequest {
        is_nicira: true,
        table,
        out_port: PortNumber::from_u16(out_port),
        out_group: ANY_GROUP,
        cookie,
        cookie_mask,
        matching,
    })
}

pub(super) fn put_request(version: Version, asked: &FlowStatsRequest, writer: &mut Writer) {
    let narrow = asked.out_port.to_u16().unwrap_or(u16::MAX);
    if asked.is_nicira {
        writer.u16(narrow);
        let at = writer.len();
        writer.u16(0);
        writer.u8(asked.table);
        writer.zeros(3);
        let cookie = Some((asked.cookie, asked.cookie_mask));
        return put_nx_match(&asked.matching, cookie, at, writer);
    }
    if version == Version::V10 {
        asked.matching.encode_of10(writer);
        writer.u8(asked.table);
        writer.u8(0);
        return writer.u16(narrow);
    }
    writer.u8(asked.table);
    writer.zeros(3);
    writer.u32(asked.out_port.0);
    writer.u32(asked.out_group);
    writer.zeros(4);
    writer.u64(asked.cookie);
    writer.u64(asked.cookie_mask);
    put_match(version, &asked.matching, writer);
}

pub(super) fn decode_stats(version: Version, body: &mut Reader<'_>) -> Result<FlowStats, Refusal> {
    let mut entry = entry(body, 8)?;
    let entry = &mut entry;
    match version {
        Version::V10 => {
            let table = entry.u8()?;
            entry.skip(1)?;
            let matching = Match::decode_of10(entry)?;
            let duration = decode_duration(entry)?;
            let (priority, idle, hard) = (entry.u16()?, entry.u16()?, entry.u16()?);
            entry.skip(6)?;
            Ok(FlowStats {
                table,
                duration,
                priority,
                idle_timeout_s: idle,
                hard_timeout_s: hard,
                idle_age_s: None,
                hard_age_s: None,
                importance: 0,
                flags: FlowFlags(0),
                cookie: entry.u64()?,
                counts: decode_counts(entry)?,
                matching,
                instructions: Instructions::decode(version, *entry)?,
            })
        }
        Version::V15 => decode_stats_15(entry),
        _ => {
            let table = entry.u8()?;
            entry.skip(1)?;
            let duration = decode_duration(entry)?;
            let (priority, idle, hard) = (entry.u16()?, entry.u16()?, entry.u16()?);
            let (flags, importance) = (entry.u16()?, entry.u16()?);
            entry.skip(2)?;
            Ok(FlowStats {
                table,
                duration,
                priority,
                idle_timeout_s: idle,
                hard_timeout_s: hard,
                idle_age_s: None,
                hard_age_s: None,
                importance: if version >= Version::V14 {
                    importance
                } else {
                    0
                },
                flags: FlowFlags(if version >= Version::V13 { flags } else { 0 }),
                cookie: entry.u64()?,
                counts: decode_counts(entry)?,
                matching: decode_match(version, Judgement::Loose, entry)?,
                instructions: Instructions::decode(version, *entry)?,
            })
        }
    }
}

fn decode_stats_15(entry: &mut Reader<'_>) -> Result<FlowStats, Refusal> {
    entry.skip(2)?;
    let table = entry.u8()?;
    entry.skip(1)?;
    let (priority, idle, hard) = (entry.u16()?, entry.u16()?, entry.u16()?);
    let (flags, importance, cookie) = (entry.u16()?, entry.u16()?, entry.u64()?);
    let matching = Match::decode_oxm(Version::V15, entry, Judgement::Loose)?;
    let oxs = Oxs::decode(entry)?;
    Ok(FlowStats {
        table,
        duration: oxs.duration.unwrap_or_default(),
        priority,
        idle_timeout_s: idle,
        hard_timeout_s: hard,
        idle_age_s: oxs
            .idle
            .map(|idle| u16::try_from(idle.seconds).unwrap_or(u16::MAX)),
        hard_age_s: None,
        importance,
        flags: FlowFlags(flags),
        cookie,
        counts: oxs.counts(),
        matching,
        instructions: Instructions::decode(Version::V15, *entry)?,
    })
}

pub(super) fn decode_nx_stats(body: &mut Reader<'_>) -> Result<FlowStats, Refusal> {
    let mut entry = entry(body, 48)?;
    let table = entry.u8()?;
    entry.skip(1)?;
    let duration = decode_duration(&mut entry)?;
    let (priority, idle, hard) = (entry.u16()?, entry.u16()?, entry.u16()?);
    let (length, idle_age, hard_age) = (entry.u16()?, entry.u16()?, entry.u16()?);
    let (cookie, counts) = (entry.u64()?, decode_counts(&mut entry)?);
    let matching = decode_nx_match(length, &mut entry)?.0;
    // Ages are told plus one; zero means that they are not.
    let age = |told: u16| told.checked_sub(1);
    Ok(FlowStats {
        table,
        duration,
        priority,
        idle_timeout_s: idle,
        hard_timeout_s: hard,
        idle_age_s: age(idle_age),
        hard_age_s: age(hard_age),
        importance: 0,
        flags: FlowFlags(0),
        cookie,
        counts,
        matching,
        instructions: Instructions::decode(Version::V10, entry)?,
    })
}

/// Flags that a version tells of an entry.
fn told_flags(version: Version, flags: FlowFlags) -> u16 {
    match version {
        Version::V10 | Version::V11 | Version::V12 => 0,
        _ => flags.0 & 0x1f,
    }
}

pub(super) fn put_stats(version: Version, is_nicira: bool, flow: &FlowStats, writer: &mut Writer) {
    let start = writer.len();
    writer.u16(0);
    if version == Version::V15 {
        writer.zeros(2);
        writer.u8(flow.table);
        writer.u8(0);
        put_times(flow, writer);
        writer.u16(told_flags(version, flow.flags));
        writer.u16(flow.importance);
        writer.u64(flow.cookie);
        put_match(version, &flow.matching, writer);
        let seconds = |age: u16| Duration {
            seconds: age.into(),
            nanoseconds: 0,
        };
        let oxs = Oxs {
            duration: Some(flow.duration),
            idle: flow.idle_age_s.map(seconds),
            ..Oxs::default()
        };
        oxs.with_counts(flow.counts).encode(writer);
        flow.instructions
            .encode_for(&flow.matching, version, writer);
        return writer.patch_length(start, start);
    }
    writer.u8(flow.table);
    writer.u8(0);
    if version == Version::V10 && !is_nicira {
        flow.matching.encode_of10(writer);
    }
    put_duration(flow.duration, writer);
    put_times(flow, writer);
    let mut match_length_at = writer.len();
    match (version, is_nicira) {
        (_, true) => {
            match_length_at = writer.len();
            writer.u16(0);
            let told = |age: Option<u16>| age.map_or(0, |age| age.saturating_add(1));
            writer.u16(told(flow.idle_age_s));
            writer.u16(told(flow.hard_age_s));
        }
        (Version::V10, false) => writer.zeros(6),
        _ => {
            writer.u16(told_flags(version, flow.flags));
            writer.u16(if version >= Version::V14 {
                flow.importance
            } else {
                0
            });
            writer.zeros(2);
        }
    }
    writer.u64(flow.cookie);
    put_counts(told_counts(is_nicira, flow.counts), writer);
    if is_nicira {
        put_nx_match(&flow.matching, None, match_length_at, writer);
    } else if version > Version::V10 {
        put_told_match(version, &flow.matching, writer);
    }
    flow.instructions
        .encode_for(&flow.matching, version, writer);
    writer.patch_length(start, start);
}

/// Counts as told: those that are not kept are zero, except in Nicira's messages.
fn told_counts(is_nicira: bool, counts: Counts) -> Counts {
    let told = |count: u64| if count == u64::MAX { 0 } else { count };
    match is_nicira {
        true => counts,
        false => Counts {
            packets: told(counts.packets),
            bytes: told(counts.bytes),
        },
    }
}

fn put_times(flow: &FlowStats, writer: &mut Writer) {
    writer.u16(flow.priority);
    writer.u16(flow.idle_timeout_s);
    writer.u16(flow.hard_timeout_s);
}

pub(super) fn decode_aggregate(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<AggregateStats, Refusal> {
    if version == Version::V15 {
        let oxs = Oxs::decode(body)?;
        return Ok(AggregateStats {
            counts: oxs.counts(),
            flows: oxs.flows.unwrap_or(0),
        });
    }
    let (counts, flows) = (decode_counts(body)?, body.u32()?);
    body.skip(4)?;
    Ok(AggregateStats { counts, flows })
}

pub(super) fn put_aggregate(version: Version, sums: AggregateStats, writer: &mut Writer) {
    if version == Version::V15 {
        let oxs = Oxs {
            flows: Some(sums.flows),
            ..Oxs::default()
        };
        return oxs.with_counts(sums.counts).encode(writer);
    }
    put_counts(sums.counts, writer);
    writer.u32(sums.flows);
    writer.zeros(4);
}

pub(super) fn decode_removed(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<FlowRemoved, Refusal> {
    if version == Version::V15 {
        let (table, reason, priority) = (body.u8()?, body.u8()?, body.u16()?);
        let (idle_timeout_s, hard_timeout_s, cookie) = (body.u16()?, body.u16()?, body.u64()?);
        let matching = Match::decode_oxm(Version::V15, body, Judgement::Loose)?;
        let oxs = Oxs::decode(body)?;
        return Ok(FlowRemoved {
            is_nicira: false,
            table: Some(table),
            priority,
            cookie,
            reason,
            duration: oxs.duration.unwrap_or_default(),
            idle_timeout_s,
            hard_timeout_s,
            counts: oxs.counts(),
            matching,
        });
    }
    let first = match version {
        Version::V10 => Some(Match::decode_of10(body)?),
        _ => None,
    };
    let (cookie, priority, reason, table) = (body.u64()?, body.u16()?, body.u8()?, body.u8()?);
    let (duration, idle_timeout_s) = (decode_duration(body)?, body.u16()?);
    let hard = body.u16()?;
    let counts = decode_counts(body)?;
    let matching = match first {
        Some(matching) => matching,
        None => decode_match(version, Judgement::Loose, body)?,
    };
    Ok(FlowRemoved {
        is_nicira: false,
        table: (version > Version::V10).then_some(table),
        priority,
        cookie,
        reason,
        duration,
        idle_timeout_s,
        hard_timeout_s: if version >= Version::V11 { hard } else { 0 },
        counts,
        matching,
    })
}

pub(super) fn decode_nx_removed(body: &mut Reader<'_>) -> Result<FlowRemoved, Refusal> {
    let (cookie, priority, reason, table) = (body.u64()?, body.u16()?, body.u8()?, body.u8()?);
    let (duration, idle_timeout_s) = (decode_duration(body)?, body.u16()?);
    let (length, counts) = (body.u16()?, decode_counts(body)?);
    Ok(FlowRemoved {
        is_nicira: true,
        // The number is told plus one.
        table: table.checked_sub(1),
        priority,
        cookie,
        reason,
        duration,
        idle_timeout_s,
        hard_timeout_s: 0,
        counts,
        matching: decode_nx_match(length, body)?.0,
    })
}

pub(super) fn put_removed(version: Version, flow: &FlowRemoved, writer: &mut Writer) {
    if version == Version::V15 && !flow.is_nicira {
        writer.u8(flow.table.unwrap_or(0));
        writer.u8(flow.reason);
        writer.u16(flow.priority);
        writer.u16(flow.idle_timeout_s);
        writer.u16(flow.hard_timeout_s);
        writer.u64(flow.cookie);
        put_match(version, &flow.matching, writer);
        let oxs = Oxs {
            duration: Some(flow.duration),
            ..Oxs::default()
        };
        return oxs.with_counts(flow.counts).encode(writer);
    }
    let is_first = version == Version::V10 && !flow.is_nicira;
    if is_first {
        flow.matching.encode_of10(writer);
    }
    writer.u64(flow.cookie);
    writer.u16(flow.priority);
    // That the meter went is a deletion before OpenFlow 1.4.
    writer.u8(match flow.reason {
        removed::METER_DELETE if version < Version::V14 => removed::DELETE,
        reason => reason,
    });
    writer.u8(match flow.is_nicira {
        true => flow.table.map_or(0, |table| table.saturating_add(1)),
        false if is_first => 0,
        false => flow.table.unwrap_or(0),
    });
    put_duration(flow.duration, writer);
    writer.u16(flow.idle_timeout_s);
    let at = writer.len();
    let tells_hard = version >= Version::V11 && !flow.is_nicira;
    writer.u16(if tells_hard { flow.hard_timeout_s } else { 0 });
    put_counts(told_counts(!is_first, flow.counts), writer);
    if flow.is_nicira {
        put_nx_match(&flow.matching, None, at, writer);
    } else if !is_first {
        put_match(version, &flow.matching, writer);
    }
}
