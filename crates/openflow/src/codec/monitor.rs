//! Flow monitors, in Nicira's form (OpenFlow 1.0 to 1.2), the Open Networking Foundation's (1.3)
//! and the standard's (1.4 and later).

use super::stats::entry;
use crate::action::Instructions;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::matching::{Judgement, Match};
use crate::message::group::ANY_GROUP;
use crate::message::monitor::{MonitorCommand, MonitorEvent, MonitorRequest, MonitorUpdate};
use crate::message::port::PortNumber;
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
            _ => decode_standard(version, body)?,
        });
    }
    Ok(requests)
}

fn decode_nx(body: &mut Reader<'_>) -> Result<MonitorRequest, Refusal> {
    let (id, flags, out_port) = (body.u32()?, body.u16()?, body.u16()?);
    let (length, table) = (usize::from(body.u16()?), body.u8()?);
    body.skip(5)?;
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
    Ok(MonitorRequest {
        id,
        command,
        flags,
        out_port,
        out_group,
        table,
        matching: super::flow::decode_match(version, Judgement::Strict, body)?,
    })
}

pub(super) fn put_requests(version: Version, requests: &[MonitorRequest], writer: &mut Writer) {
    for request in requests {
        writer.u32(request.id);
        if version < Version::V13 {
            writer.u16(request.flags);
            writer.u16(request.out_port.to_u16().unwrap_or(u16::MAX));
            let at = writer.len();
            writer.u16(0);
            writer.u8(request.table);
            writer.zeros(5);
            let length = request.matching.encode_nxm(None, writer);
            writer.patch_u16(at, length as u16);
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
    let is_nicira = version < Version::V13;
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
    let (matching, _) = Match::decode_nxm(entry, length, Judgement::Loose)?;
    Ok(MonitorUpdate::Full {
        event,
        reason: reason as u8,
        priority,
        idle_timeout_s,
        hard_timeout_s,
        table,
        cookie,
        matching,
        instructions: Instructions::decode(version, *entry)?,
    })
}

pub(super) fn put_update(version: Version, update: &MonitorUpdate, writer: &mut Writer) {
    let start = writer.len();
    let is_nicira = version < Version::V13;
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
                let length = matching.encode_nxm(None, writer);
                writer.patch_u16(at, length as u16);
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
            instructions.encode(version, writer);
        }
    }
    writer.patch_length(start, start);
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
