//! Ports: descriptions, changes, statistics.

use super::stats::{decode_duration, decode_number, entry, put_duration, put_number};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::port::{
    CustomStat, PortDesc, PortMod, PortNumber, PortReason, PortStats, PortStatus,
};
use crate::property;
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Bytes of a port's name.
const NAME_BYTES: usize = 16;
/// The configuration bits of OpenFlow 1.1 and later.
const CONFIG_BITS: u32 = 0x65;
/// The state bits of OpenFlow 1.0: link, and the states of the spanning tree.
const STATE_BITS_10: u32 = 0x301;
/// Intel's experimenter number, under which Open vSwitch tells counts by packet size.
const INTEL: u32 = 0x0000_aa01;

/// Features of OpenFlow 1.0 as those of 1.1: media and pauses have other bits.
fn features_from_10(bits: u32) -> u32 {
    bits & 0x7f | (bits & 0xf80) << 4
}

fn features_to_10(bits: u32) -> u32 {
    bits & 0x7f | bits >> 4 & 0xf80
}

/// Reads a port of 16 bits and `padding` bytes, or of 32 bits.
fn decode_port(
    version: Version,
    padding: usize,
    body: &mut Reader<'_>,
) -> Result<PortNumber, Refusal> {
    if version == Version::V10 {
        let port = PortNumber::from_u16(body.u16()?);
        body.skip(padding)?;
        return Ok(port);
    }
    let port = PortNumber(body.u32()?);
    if port.to_u16().is_none() {
        let what = format!("port {:#x}, which 16 bits cannot name", port.0);
        return Err(refuse(ErrorCode::OFPBRC_BAD_PORT, what));
    }
    Ok(port)
}

fn narrow(port: PortNumber) -> u16 {
    port.to_u16().unwrap_or(u16::MAX)
}

pub(super) fn decode_desc(version: Version, body: &mut Reader<'_>) -> Result<PortDesc, Refusal> {
    if version >= Version::V14 {
        return decode_desc_14(body);
    }
    let number = match version {
        Version::V10 => PortNumber::from_u16(body.u16()?),
        _ => PortNumber(decode_number(body)?),
    };
    let address = body.array()?;
    if version > Version::V10 {
        body.skip(2)?;
    }
    let name = body.text(NAME_BYTES)?;
    let (config, state) = (body.u32()?, body.u32()?);
    let mut features = [0; 4];
    for bits in &mut features {
        *bits = match version {
            Version::V10 => features_from_10(body.u32()?),
            _ => body.u32()?,
        };
    }
    let (current_speed_kbps, max_speed_kbps) = match version {
        Version::V10 => (0, 0),
        _ => (body.u32()?, body.u32()?),
    };
    let [current, advertised, supported, peer] = features;
    Ok(PortDesc {
        number,
        address,
        name,
        config,
        state,
        current,
        advertised,
        supported,
        peer,
        current_speed_kbps,
        max_speed_kbps,
    })
}

fn decode_desc_14(body: &mut Reader<'_>) -> Result<PortDesc, Refusal> {
    let mut start = *body;
    start.skip(4)?;
    let length = usize::from(start.u16()?);
    if length < 40 {
        return Err(body.bad_length(format!("a port of {length} bytes")));
    }
    let mut port = body.part(length)?;
    let number = PortNumber(port.u32()?);
    port.skip(4)?;
    let address = port.array()?;
    port.skip(2)?;
    let name = port.text(NAME_BYTES)?;
    let (config, state) = (port.u32()?, port.u32()?);
    let mut speeds = [0; 6];
    while !port.is_empty() {
        let (kind, mut value) = property::decode(&mut port)?;
        // Only the Ethernet property is of interest.
        if kind == 0 {
            value.skip(4)?;
            for number in &mut speeds {
                *number = value.u32()?;
            }
        }
    }
    let [
        current,
        advertised,
        supported,
        peer,
        current_speed_kbps,
        max_speed_kbps,
    ] = speeds;
    Ok(PortDesc {
        number,
        address,
        name,
        config,
        state,
        current,
        advertised,
        supported,
        peer,
        current_speed_kbps,
        max_speed_kbps,
    })
}

pub(super) fn put_desc(version: Version, port: &PortDesc, writer: &mut Writer) {
    let start = writer.len();
    match version {
        Version::V10 => writer.u16(narrow(port.number)),
        _ => put_number(port.number.0, writer),
    }
    writer.put(&port.address);
    writer.zeros(if version > Version::V10 { 2 } else { 0 });
    writer.text(&port.name, NAME_BYTES);
    let features = [port.current, port.advertised, port.supported, port.peer];
    if version == Version::V10 {
        writer.u32(port.config & 0x7f);
        writer.u32(port.state & STATE_BITS_10);
        return features
            .iter()
            .for_each(|bits| writer.u32(features_to_10(*bits)));
    }
    writer.u32(port.config & CONFIG_BITS);
    writer.u32(port.state);
    let speeds = |writer: &mut Writer| {
        features.iter().for_each(|bits| writer.u32(*bits));
        writer.u32(port.current_speed_kbps);
        writer.u32(port.max_speed_kbps);
    };
    if version < Version::V14 {
        return speeds(writer);
    }
    property::encode(0, writer, |writer| {
        writer.zeros(4);
        speeds(writer);
    });
    writer.patch_length(start + 4, start);
}

pub(super) fn decode_status(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<PortStatus, Refusal> {
    let reason = match body.u8()? {
        0 => PortReason::Add,
        1 => PortReason::Delete,
        2 => PortReason::Modify,
        other => {
            let what = format!("reason {other} of a port's status");
            return Err(refuse(ErrorCode::NXBRC_BAD_REASON, what));
        }
    };
    body.skip(7)?;
    let desc = decode_desc(version, body)?;
    Ok(PortStatus { reason, desc })
}

pub(super) fn put_status(version: Version, status: &PortStatus, writer: &mut Writer) {
    writer.u8(status.reason as u8);
    writer.zeros(7);
    put_desc(version, &status.desc, writer);
}

pub(super) fn decode_mod(version: Version, body: &mut Reader<'_>) -> Result<PortMod, Refusal> {
    let port = match version {
        Version::V10 => PortNumber::from_u16(body.u16()?),
        _ => PortNumber(decode_number(body)?),
    };
    let address = body.array()?;
    if version > Version::V10 {
        body.skip(2)?;
    }
    let (config, mask) = (body.u32()?, body.u32()?);
    let advertise = match version {
        Version::V10 => features_from_10(decode_number(body)?),
        Version::V11 | Version::V12 | Version::V13 => decode_number(body)?,
        _ => {
            let mut advertise = 0;
            while !body.is_empty() {
                let (kind, mut value) = property::decode(body)?;
                if kind != 0 {
                    let what = format!("property {kind} of a port-mod");
                    return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
                }
                advertise = value.u32()?;
            }
            advertise
        }
    };
    Ok(PortMod {
        port,
        address,
        config,
        mask,
        advertise,
    })
}

pub(super) fn put_mod(version: Version, asked: &PortMod, writer: &mut Writer) {
    match version {
        Version::V10 => writer.u16(narrow(asked.port)),
        _ => put_number(asked.port.0, writer),
    }
    writer.put(&asked.address);
    writer.zeros(if version > Version::V10 { 2 } else { 0 });
    let bits = if version == Version::V10 {
        0x7f
    } else {
        CONFIG_BITS
    };
    writer.u32(asked.config & bits);
    writer.u32(asked.mask & bits);
    match version {
        Version::V10 => put_number(features_to_10(asked.advertise), writer),
        Version::V11 | Version::V12 | Version::V13 => put_number(asked.advertise, writer),
        _ if asked.advertise != 0 => {
            property::encode(0, writer, |writer| writer.u32(asked.advertise));
        }
        _ => {}
    }
}

pub(super) fn decode_stats_request(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<PortNumber, Refusal> {
    let port = decode_port(version, 6, body)?;
    if version > Version::V10 {
        body.skip(4)?;
    }
    Ok(port)
}

pub(super) fn put_stats_request(version: Version, port: PortNumber, writer: &mut Writer) {
    match version {
        Version::V10 => writer.u16(narrow(port)),
        _ => writer.u32(port.0),
    }
    writer.zeros(if version == Version::V10 { 6 } else { 4 });
}

pub(super) fn decode_desc_request(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<PortNumber, Refusal> {
    match version {
        Version::V15 => Ok(PortNumber(decode_number(body)?)),
        _ => Ok(PortNumber::ANY),
    }
}

pub(super) fn put_desc_request(version: Version, port: PortNumber, writer: &mut Writer) {
    if version == Version::V15 {
        put_number(port.0, writer);
    }
}

pub(super) fn decode_stats(version: Version, body: &mut Reader<'_>) -> Result<PortStats, Refusal> {
    if version >= Version::V14 {
        return decode_stats_14(body);
    }
    let port = decode_stats_request(version, body)?;
    let mut counts = [0; 12];
    for count in &mut counts {
        *count = body.u64()?;
    }
    let duration = match version {
        Version::V13 => Some(decode_duration(body)?),
        _ => None,
    };
    Ok(from_counts(port, counts, duration))
}

fn from_counts(
    port: PortNumber,
    counts: [u64; 12],
    duration: Option<crate::message::flow::Duration>,
) -> PortStats {
    let [
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        rx_dropped,
        tx_dropped,
        rx_errors,
        tx_errors,
        rx_frame_errors,
        rx_overrun_errors,
        rx_crc_errors,
        collisions,
    ] = counts;
    PortStats {
        port,
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        rx_dropped,
        tx_dropped,
        rx_errors,
        tx_errors,
        rx_frame_errors,
        rx_overrun_errors,
        rx_crc_errors,
        collisions,
        duration,
        custom: Vec::new(),
        sizes: None,
    }
}

fn decode_stats_14(body: &mut Reader<'_>) -> Result<PortStats, Refusal> {
    let mut entry = entry(body, 80)?;
    entry.skip(2)?;
    let port = PortNumber(entry.u32()?);
    let duration = Some(decode_duration(&mut entry)?);
    let mut counts = [u64::MAX; 12];
    for count in &mut counts[..8] {
        *count = entry.u64()?;
    }
    let (mut custom, mut sizes) = (Vec::new(), None);
    while !entry.is_empty() {
        let (kind, mut value) = property::decode(&mut entry)?;
        match kind {
            0 => {
                value.skip(4)?;
                for count in &mut counts[8..] {
                    *count = value.u64()?;
                }
            }
            property::EXPERIMENTER => match property::experimenter(&mut value)? {
                (INTEL, 1, mut value) => {
                    value.skip(4)?;
                    let mut known = Box::new([0; 21]);
                    for count in known.iter_mut() {
                        *count = value.u64()?;
                    }
                    sizes = Some(known);
                }
                (INTEL, 2, value) => custom = decode_custom(value)?,
                _ => {}
            },
            _ => {}
        }
    }
    Ok(PortStats {
        custom,
        sizes,
        ..from_counts(port, counts, duration)
    })
}

fn decode_custom(mut value: Reader<'_>) -> Result<Vec<CustomStat>, Refusal> {
    value.skip(2)?;
    let count = value.u16()?;
    let mut custom = Vec::new();
    for _ in 0..count {
        let length = value.u8()?;
        custom.push(CustomStat {
            name: value.text(length.into())?,
            value: value.u64()?,
        });
    }
    Ok(custom)
}

pub(super) fn put_stats(version: Version, stats: &PortStats, writer: &mut Writer) {
    let start = writer.len();
    let counts = [
        stats.rx_packets,
        stats.tx_packets,
        stats.rx_bytes,
        stats.tx_bytes,
        stats.rx_dropped,
        stats.tx_dropped,
        stats.rx_errors,
        stats.tx_errors,
    ];
    let ethernet = [
        stats.rx_frame_errors,
        stats.rx_overrun_errors,
        stats.rx_crc_errors,
        stats.collisions,
    ];
    let all = |counts: &[u64], writer: &mut Writer| {
        counts.iter().for_each(|count| writer.u64(*count));
    };
    if version < Version::V14 {
        put_stats_request(version, stats.port, writer);
        all(&counts, writer);
        all(&ethernet, writer);
        if version == Version::V13 {
            put_duration(stats.duration.unwrap_or(UNKNOWN), writer);
        }
        return;
    }
    writer.zeros(4);
    writer.u32(stats.port.0);
    put_duration(stats.duration.unwrap_or(UNKNOWN), writer);
    all(&counts, writer);
    property::encode(0, writer, |writer| {
        writer.zeros(4);
        all(&ethernet, writer);
    });
    if let Some(sizes) = &stats.sizes {
        property::encode(property::EXPERIMENTER, writer, |writer| {
            writer.u32(INTEL);
            writer.u32(1);
            writer.zeros(4);
            all(&sizes[..], writer);
        });
    }
    if !stats.custom.is_empty() {
        property::encode(property::EXPERIMENTER, writer, |writer| {
            writer.u32(INTEL);
            writer.u32(2);
            writer.zeros(2);
            writer.u16(stats.custom.len() as u16);
            for stat in &stats.custom {
                let length = stat.name.len().min(63);
                writer.u8(length as u8);
                writer.put(&stat.name.as_bytes()[..length]);
                writer.u64(stat.value);
            }
        });
    }
    writer.patch_length(start, start);
}

/// Stands for a time that is not known.
pub(super) const UNKNOWN: crate::message::flow::Duration = crate::message::flow::Duration {
    seconds: u32::MAX,
    nanoseconds: u32::MAX,
};
