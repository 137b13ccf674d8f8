//! Flow monitors, in Nicira's form (OpenFlow 1.0 to 1.2), the Open Networking Foundation's (1.3)
//! and the standard's (1.4 and later).

use super::stats::entry;
use crate::action::{Instructions, decode_actions, encode_actions_for};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::matching::{Judgement, Match};
use crate::message::group::ANY_GROUP;
use crate::message::monitor::{MonitorCommand, MonitorEvent, MonitorRequest, MonitorUpdate, flags};
use crate::port_number::PortNumber;
use crate::version::Version;
use crate::wire::{Reader, Writer};

pub(super) fn decode_requests(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<Vec<MonitorRequest>, Refusal> {
    let mut requests = Vec::new();
    while !body.is_empty() {
        requests.push(match version {
            Version::V10 | Version::V11 | Version::V12 => decode_nx(body)?,
            Version::V13 => decode_onf(body)?,
            _ => decode_standard(version, body)?,
        });
    }
    Ok(requests)
}

/// Checks a monitor's flags: it tells something, and nothing that the form does not know.
fn checked_flags(flags: u16, known: u16) -> Result<u16, Refusal> {
    let told = flags::ADD | flags::REMOVED | flags::MODIFY;
    if flags & told == 0 || flags & !known != 0 {
        let what = format!("a flow monitor with flags {flags:#x}");
        return Err(refuse(ErrorCode::OFPMOFC_BAD_FLAGS, what));
    }
    Ok(flags)
}

/// The flags that the forms before OpenFlow 1.4 know. Their last one, "tell own changes", has
/// the bit and the meaning of [`flags::NO_ABBREV`].
const OLD_FLAGS: u16 = 0x3f;
const KNOWN_FLAGS: u16 = 0x7f;

fn must_be_zero(bytes: &[u8]) -> Result<(), Refusal> {
    match bytes.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => {
            let what = "bytes of a flow monitor that must be zero are not";
            Err(refuse(ErrorCode::NXBRC_MUST_BE_ZERO, what))
        }
    }
}

fn decode_onf(body: &mut Reader<'_>) -> Result<MonitorRequest, Refusal> {
    let (id, flags) = (body.u32()?, checked_flags(body.u16()?, OLD_FLAGS)?);
    // The length of the match stands in the match, too.
    body.skip(2)?;
    let (out_port, table) = (PortNumber(body.u32()?), body.u8()?);
    must_be_zero(body.take(3)?)?;
    Ok(MonitorRequest {
        id,
        command: MonitorCommand::Add,
        flags,
        out_port,
        out_group: ANY_GROUP,
        table,
        matching: Match::decode_oxm(Version::V13, body, Judgement::Strict)?,
    })
}

fn decode_nx(body: &mut Reader<'_>) -> Result<MonitorRequest, Refusal> {
    let (id, flags) = (body.u32()?, checked_flags(body.u16()?, OLD_FLAGS)?);
    let out_port = body.u16()?;
    let (length, table) = (usize::from(body.u16()?), body.u8()?);
    must_be_zero(body.take(5)?)?;
    let (matching, _) = Match::decode_nxm(body, length, Judgement::Strict)?;
    Ok(MonitorRequest {
        id,
        command: MonitorCommand::Add,
        flags,
        out_port: PortNumber::from_u16(out_port),
        out_group: ANY_GROUP,
        table,
        matching,
    })
}

fn decode_standard(version: Version, body: &mut Reader<'_>) -> Result<MonitorRequest, Refusal> {
    let (id, out_port, out_group) = (body.u32()?, PortNumber(body.u32()?), body.u32()?);
    let (flags, table) = (body.u16()?, body.u8()?);
    let command = match body.u8()? {
        0 => MonitorCommand::Add,
        1 => MonitorCommand::Modify,
        2 => MonitorCommand::Delete,
        other => {
            let what = format!("command {other} of a flow monitor");
            return Err(refuse(ErrorCode::OFPMOFC_BAD_COMMAND, what));
        }
    };
    // A monitor is deleted by its number. Open vSwitch sends no match then, the standard has one.
    let matching = match command {
        MonitorCommand::Delete if body.is_empty() => Match::default(),
        _ => super::flow::decode_match(version, Judgement::Strict, body)?,
    };
    if command != MonitorCommand::Delete {
        checked_flags(flags, KNOWN_FLAGS)?;
    }
    Ok(MonitorRequest {
        id,
        command,
        flags,
        out_port,
        out_group,
        table,
        matching,
    })
}

pub(super) fn put_requests(version: Version, requests: &[MonitorRequest], writer: &mut Writer) {
    for request in requests {
        writer.u32(request.id);
        if version < Version::V13 {
            writer.u16(request.flags & OLD_FLAGS);
            writer.u16(request.out_port.to_u16().unwrap_or(u16::MAX));
            let at = writer.len();
            writer.u16(0);
            writer.u8(request.table);
            writer.zeros(5);
            let length = request.matching.encode_nxm(None, writer);
            writer.patch_u16(at, length as u16);
            continue;
        }
        if version == Version::V13 {
            writer.u16(request.flags & OLD_FLAGS);
            let at = writer.len();
            writer.u16(0);
            writer.u32(request.out_port.0);
            writer.u8(request.table);
            writer.zeros(3);
            let length = put_oxm(version, &request.matching, writer);
            writer.patch_u16(at, length);
            continue;
        }
        writer.u32(request.out_port.0);
        writer.u32(request.out_group);
        writer.u16(request.flags);
        writer.u8(request.table);
        writer.u8(request.command as u8);
        request.matching.encode_oxm(version, writer);
    }
}

/// Writes a match; gives its length without padding.
fn put_oxm(version: Version, matching: &Match, writer: &mut Writer) -> u16 {
    let start = writer.len();
    matching.encode_oxm(version, writer);
    let written = &writer.as_bytes()[start..];
    u16::from_be_bytes([written[2], written[3]])
}

/// The numbers of events: Nicira's and the standard's.
const NX_ADDED: u16 = 0;
const NX_DELETED: u16 = 1;
const NX_MODIFIED: u16 = 2;
const NX_ABBREVIATED: u16 = 3;
const INITIAL: u16 = 0;
const ADDED: u16 = 1;
const REMOVED: u16 = 2;
const MODIFIED: u16 = 3;
const ABBREVIATED: u16 = 4;
const PAUSED: u16 = 5;
const RESUMED: u16 = 6;

pub(super) fn decode_update(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<MonitorUpdate, Refusal> {
    let mut entry = entry(body, 8)?;
    let number = entry.u16()?;
    let is_nicira = has_old_events(version);
    let event = match (is_nicira, number) {
        (true, NX_ABBREVIATED) | (false, ABBREVIATED) => {
            return Ok(MonitorUpdate::Abbreviated(entry.u32()?));
        }
        (false, PAUSED) => return Ok(MonitorUpdate::Paused),
        (false, RESUMED) => return Ok(MonitorUpdate::Resumed),
        (true, NX_ADDED) | (false, ADDED) => MonitorEvent::Added,
        (true, NX_DELETED) | (false, REMOVED) => MonitorEvent::Removed,
        (true, NX_MODIFIED) | (false, MODIFIED) => MonitorEvent::Modified,
        (false, INITIAL) => MonitorEvent::Initial,
        _ => {
            let what = format!("event {number} of a flow monitor");
            return Err(refuse(ErrorCode::NXBRC_FM_BAD_EVENT, what));
        }
    };
    if is_nicira {
        return decode_nx_update(version, event, &mut entry);
    }
    let (table, reason) = (entry.u8()?, entry.u8()?);
    let (idle_timeout_s, hard_timeout_s) = (entry.u16()?, entry.u16()?);
    let priority = entry.u16()?;
    entry.skip(4)?;
    let cookie = entry.u64()?;
    Ok(MonitorUpdate::Full {
        event,
        reason,
        priority,
        idle_timeout_s,
        hard_timeout_s,
        table,
        cookie,
        matching: super::flow::decode_match(version, Judgement::Loose, &mut entry)?,
        instructions: Instructions::decode(version, entry)?,
    })
}

fn decode_nx_update(
    version: Version,
    event: MonitorEvent,
    entry: &mut Reader<'_>,
) -> Result<MonitorUpdate, Refusal> {
    let (reason, priority) = (entry.u16()?, entry.u16()?);
    let (idle_timeout_s, hard_timeout_s) = (entry.u16()?, entry.u16()?);
    let (length, table) = (usize::from(entry.u16()?), entry.u8()?);
    entry.skip(1)?;
    let cookie = entry.u64()?;
    let matching = match version {
        Version::V13 => Match::decode_oxm(version, entry, Judgement::Loose)?,
        _ => Match::decode_nxm(entry, length, Judgement::Loose)?.0,
    };
    Ok(MonitorUpdate::Full {
        event,
        reason: reason as u8,
        priority,
        idle_timeout_s,
        hard_timeout_s,
        table,
        cookie,
        matching,
        instructions: decode_told(version, *entry)?,
    })
}

/// Reads what an entry does. Nicira's form has a list of actions, in OpenFlow 1.1 and 1.2 too.
fn decode_told(version: Version, entry: Reader<'_>) -> Result<Instructions, Refusal> {
    match version {
        Version::V11 | Version::V12 => Ok(Instructions {
            apply: decode_actions(version, entry)?,
            ..Instructions::default()
        }),
        _ => Instructions::decode(version, entry),
    }
}

/// Writes what an entry does; in OpenFlow 1.1 and 1.2 the actions that it applies, because
/// Nicira's form has no room for instructions.
fn put_told(version: Version, matching: &Match, instructions: &Instructions, writer: &mut Writer) {
    match version {
        Version::V11 | Version::V12 => {
            encode_actions_for(matching, &instructions.apply, version, writer);
        }
        _ => instructions.encode_for(matching, version, writer),
    }
}

pub(super) fn put_update(version: Version, update: &MonitorUpdate, writer: &mut Writer) {
    let start = writer.len();
    let is_nicira = has_old_events(version);
    writer.u16(0);
    match update {
        MonitorUpdate::Abbreviated(xid) => {
            writer.u16(if is_nicira {
                NX_ABBREVIATED
            } else {
                ABBREVIATED
            });
            writer.u32(*xid);
        }
        MonitorUpdate::Paused => {
            writer.u16(PAUSED);
            writer.zeros(4);
        }
        MonitorUpdate::Resumed => {
            writer.u16(RESUMED);
            writer.zeros(4);
        }
        MonitorUpdate::Full {
            event,
            reason,
            priority,
            idle_timeout_s,
            hard_timeout_s,
            table,
            cookie,
            matching,
            instructions,
        } => {
            writer.u16(event_number(is_nicira, *event));
            let told_reason = match event {
                MonitorEvent::Removed => *reason,
                _ => 0,
            };
            if is_nicira {
                writer.u16(told_reason.into());
                writer.u16(*priority);
                writer.u16(*idle_timeout_s);
                writer.u16(*hard_timeout_s);
                let at = writer.len();
                writer.u16(0);
                writer.u8(*table);
                writer.u8(0);
                writer.u64(*cookie);
                let length = match version {
                    Version::V13 => put_oxm(version, matching, writer),
                    _ => matching.encode_nxm(None, writer) as u16,
                };
                writer.patch_u16(at, length);
            } else {
                writer.u8(*table);
                writer.u8(told_reason);
                writer.u16(*idle_timeout_s);
                writer.u16(*hard_timeout_s);
                writer.u16(*priority);
                writer.zeros(4);
                writer.u64(*cookie);
                super::flow::put_match(version, matching, writer);
            }
            put_told(version, matching, instructions, writer);
        }
    }
    writer.patch_length(start, start);
}

/// Whether updates have Nicira's form. That of the Open Networking Foundation for OpenFlow 1.3
/// is the same, with another match.
fn has_old_events(version: Version) -> bool {
    version < Version::V14
}

fn event_number(is_nicira: bool, event: MonitorEvent) -> u16 {
    match (is_nicira, event) {
        (true, MonitorEvent::Initial | MonitorEvent::Added) => NX_ADDED,
        (true, MonitorEvent::Removed) => NX_DELETED,
        (true, MonitorEvent::Modified) => NX_MODIFIED,
        (false, MonitorEvent::Initial) => INITIAL,
        (false, MonitorEvent::Added) => ADDED,
        (false, MonitorEvent::Removed) => REMOVED,
        (false, MonitorEvent::Modified) => MODIFIED,
    }
}
