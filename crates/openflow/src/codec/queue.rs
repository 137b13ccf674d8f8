//! Queues: configuration and statistics.

use super::port::UNKNOWN;
use super::stats::{decode_duration, entry, put_duration};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::port::{QueueDesc, QueueRequest, QueueStats};
use crate::port_number::PortNumber;
use crate::property;
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Properties of a queue.
const MIN_RATE: u16 = 1;
const MAX_RATE: u16 = 2;
/// A rate that is not set; others above 1,000 mean that the rate is switched off.
const NO_RATE: u16 = u16::MAX;

fn decode_port(
    version: Version,
    padding: usize,
    body: &mut Reader<'_>,
) -> Result<PortNumber, Refusal> {
    if version > Version::V10 {
        return Ok(PortNumber(body.u32()?));
    }
    let port = PortNumber::from_u16(body.u16()?);
    body.skip(padding)?;
    Ok(port)
}

fn put_port(version: Version, port: PortNumber, padding: usize, writer: &mut Writer) {
    if version > Version::V10 {
        return writer.u32(port.0);
    }
    writer.u16(port.to_u16().unwrap_or(u16::MAX));
    writer.zeros(padding);
}

pub(super) fn decode_config_request(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<PortNumber, Refusal> {
    let port = decode_port(version, 2, body)?;
    if version > Version::V10 {
        body.skip(4)?;
    }
    if !may_ask(version, port) {
        let what = format!("queues of port {port}");
        return Err(refuse(ErrorCode::OFPQOFC_BAD_PORT, what));
    }
    Ok(port)
}

/// Whether a version can ask for the queues of a port: of one, or from 1.1 on of all.
pub(super) fn may_ask(version: Version, port: PortNumber) -> bool {
    port.0 < PortNumber::MAX_10 || port == PortNumber::ANY && version > Version::V10
}

pub(super) fn put_config_request(version: Version, port: PortNumber, writer: &mut Writer) {
    put_port(version, port, 2, writer);
    writer.zeros(if version > Version::V10 { 4 } else { 0 });
}

pub(super) fn decode_config_reply(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<(PortNumber, Vec<QueueDesc>), Refusal> {
    let port = decode_port(version, 6, body)?;
    if version > Version::V10 {
        body.skip(4)?;
    }
    let mut queues = Vec::new();
    while !body.is_empty() {
        queues.push(decode_config(version, port, body)?);
    }
    Ok((port, queues))
}

/// One queue of OpenFlow 1.0 to 1.3, which have the port outside or inside it.
fn decode_config(
    version: Version,
    port: PortNumber,
    body: &mut Reader<'_>,
) -> Result<QueueDesc, Refusal> {
    let names_port = version >= Version::V12;
    let length_at = if names_port { 8 } else { 4 };
    let mut start = *body;
    start.skip(length_at)?;
    let length = usize::from(start.u16()?);
    let header = if names_port { 16 } else { 8 };
    if length < header {
        return Err(body.bad_length(format!("a queue of {length} bytes")));
    }
    let mut queue = body.part(length)?;
    let number = queue.u32()?;
    queue.skip(header - 4)?;
    let mut desc = QueueDesc {
        port,
        queue: number,
        min_rate: None,
        max_rate: None,
    };
    while !queue.is_empty() {
        let (kind, mut value) = property::decode(&mut queue)?;
        value.skip(4)?;
        note_rate(kind, value.u16()?, &mut desc);
    }
    Ok(desc)
}

fn note_rate(kind: u16, rate: u16, desc: &mut QueueDesc) {
    let rate = (rate != NO_RATE).then_some(rate);
    match kind {
        MIN_RATE => desc.min_rate = rate,
        MAX_RATE => desc.max_rate = rate,
        _ => {}
    }
}

pub(super) fn put_config_reply(
    version: Version,
    port: PortNumber,
    queues: &[QueueDesc],
    writer: &mut Writer,
) {
    put_port(version, port, 6, writer);
    writer.zeros(if version > Version::V10 { 4 } else { 0 });
    for queue in queues {
        let start = writer.len();
        writer.u32(queue.queue);
        if version >= Version::V12 {
            writer.u32(queue.port.0);
        }
        let at = writer.len();
        writer.zeros(if version >= Version::V12 { 8 } else { 4 });
        for (kind, rate) in [(MIN_RATE, queue.min_rate), (MAX_RATE, queue.max_rate)] {
            if let Some(rate) = rate {
                property::encode(kind, writer, |writer| {
                    writer.zeros(4);
                    writer.u16(rate);
                    writer.zeros(6);
                });
            }
        }
        writer.patch_length(at, start);
    }
}

pub(super) fn decode_request(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<QueueRequest, Refusal> {
    Ok(QueueRequest {
        port: decode_port(version, 2, body)?,
        queue: body.u32()?,
    })
}

pub(super) fn put_request(version: Version, asked: QueueRequest, writer: &mut Writer) {
    put_port(version, asked.port, 2, writer);
    writer.u32(asked.queue);
}

pub(super) fn decode_stats(version: Version, body: &mut Reader<'_>) -> Result<QueueStats, Refusal> {
    let mut inner = *body;
    let entry = match version {
        Version::V14 | Version::V15 => {
            let mut entry = entry(body, 48)?;
            entry.skip(6)?;
            inner = entry;
            None
        }
        _ => Some(()),
    };
    let port = decode_port(version, 2, &mut inner)?;
    let stats = QueueStats {
        port,
        queue: inner.u32()?,
        tx_bytes: inner.u64()?,
        tx_packets: inner.u64()?,
        tx_errors: inner.u64()?,
        duration: match version >= Version::V13 {
            true => Some(decode_duration(&mut inner)?),
            false => None,
        },
    };
    if entry.is_some() {
        *body = inner;
    }
    Ok(stats)
}

pub(super) fn put_stats(version: Version, stats: &QueueStats, writer: &mut Writer) {
    let start = writer.len();
    writer.zeros(if version >= Version::V14 { 8 } else { 0 });
    put_port(version, stats.port, 2, writer);
    writer.u32(stats.queue);
    writer.u64(stats.tx_bytes);
    writer.u64(stats.tx_packets);
    writer.u64(stats.tx_errors);
    if version >= Version::V13 {
        put_duration(stats.duration.unwrap_or(UNKNOWN), writer);
    }
    if version >= Version::V14 {
        writer.patch_length(start, start);
    }
}

pub(super) fn decode_desc(body: &mut Reader<'_>) -> Result<QueueDesc, Refusal> {
    let mut start = *body;
    start.skip(8)?;
    let length = usize::from(start.u16()?);
    if length < 16 {
        return Err(body.bad_length(format!("a queue of {length} bytes")));
    }
    let mut queue = body.part(length)?;
    let mut desc = QueueDesc {
        port: PortNumber(queue.u32()?),
        queue: queue.u32()?,
        min_rate: None,
        max_rate: None,
    };
    queue.skip(8)?;
    while !queue.is_empty() {
        let (kind, mut value) = property::decode(&mut queue)?;
        note_rate(kind, value.u16()?, &mut desc);
    }
    Ok(desc)
}

pub(super) fn put_desc(queue: &QueueDesc, writer: &mut Writer) {
    let start = writer.len();
    writer.u32(queue.port.0);
    writer.u32(queue.queue);
    writer.zeros(8);
    for (kind, rate) in [(MIN_RATE, queue.min_rate), (MAX_RATE, queue.max_rate)] {
        if let Some(rate) = rate {
            property::encode_u16(kind, writer, rate);
        }
    }
    writer.patch_length(start + 8, start);
}
