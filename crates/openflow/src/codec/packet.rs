//! Packets between switch and controller.

use bytes::Bytes;

use super::flow::NO_BUFFER;
use crate::action::{decode_actions, encode_actions};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::FieldId;
use crate::matching::{Condition, Judgement, Match};
use crate::message::packet::{PacketIn, PacketInFormat, PacketOut, reason};
use crate::port_number::PortNumber;
use crate::property;
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Properties of `NXT_PACKET_IN2` and `NXT_RESUME`.
const PACKET: u16 = 0;
const FULL_LENGTH: u16 = 1;
const BUFFER: u16 = 2;
const TABLE: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;
const CONTINUATION: u16 = 8;

fn buffer_of(number: u32) -> Option<u32> {
    (number != NO_BUFFER).then_some(number)
}

fn data(body: &mut Reader<'_>) -> Bytes {
    Bytes::copy_from_slice(body.rest())
}

/// Reads the versions' own message.
pub(super) fn decode_in(version: Version, body: &mut Reader<'_>) -> Result<PacketIn, Refusal> {
    let mut packet = PacketIn {
        buffer: buffer_of(body.u32()?),
        ..PacketIn::default()
    };
    match version {
        Version::V10 => {
            packet.total_length = body.u16()?.into();
            packet
                .metadata
                .conditions
                .push(Condition::exact(FieldId::IN_PORT, body.u16()?.into()));
            packet.reason = body.u8()?;
            body.skip(1)?;
        }
        Version::V11 => {
            packet
                .metadata
                .conditions
                .push(Condition::exact(FieldId::IN_PORT_OXM, body.u32()?.into()));
            body.skip(4)?;
            packet.total_length = body.u16()?.into();
            packet.reason = body.u8()?;
            packet.table = Some(body.u8()?);
        }
        _ => {
            packet.total_length = body.u16()?.into();
            packet.reason = body.u8()?;
            packet.table = Some(body.u8()?);
            if version >= Version::V13 {
                packet.cookie = Some(body.u64()?);
            }
            packet.metadata = Match::decode_oxm(version, body, Judgement::Loose)?;
            body.skip(2)?;
        }
    }
    packet.data = data(body);
    Ok(packet)
}

/// Reads `NXT_PACKET_IN`.
pub(super) fn decode_nx_in(body: &mut Reader<'_>) -> Result<PacketIn, Refusal> {
    let (buffer, total_length) = (buffer_of(body.u32()?), body.u16()?);
    let (reason, table, cookie) = (body.u8()?, body.u8()?, body.u64()?);
    let length = usize::from(body.u16()?);
    body.skip(6)?;
    let (metadata, _) = Match::decode_nxm(body, length, Judgement::Loose)?;
    body.skip(2)?;
    Ok(PacketIn {
        format: PacketInFormat::Nicira,
        data: data(body),
        total_length: total_length.into(),
        buffer,
        reason,
        table: Some(table),
        cookie: Some(cookie),
        metadata,
        userdata: Bytes::new(),
        continuation: None,
    })
}

/// Reads `NXT_PACKET_IN2` or `NXT_RESUME`.
pub(super) fn decode_properties(
    format: PacketInFormat,
    body: &mut Reader<'_>,
) -> Result<PacketIn, Refusal> {
    let mut packet = PacketIn {
        format,
        ..PacketIn::default()
    };
    let mut full_length = None;
    while !body.is_empty() {
        let (kind, mut value) = property::decode(body)?;
        match kind {
            PACKET => packet.data = data(&mut value),
            FULL_LENGTH => full_length = Some(value.u32()?),
            BUFFER => packet.buffer = buffer_of(value.u32()?),
            TABLE => packet.table = Some(value.u8()?),
            COOKIE => {
                value.skip(4)?;
                packet.cookie = Some(value.u64()?);
            }
            REASON => packet.reason = value.u8()?,
            METADATA => {
                packet.metadata = Match::decode_entries(value, Judgement::Loose)?;
            }
            USERDATA => packet.userdata = data(&mut value),
            CONTINUATION => {
                value.skip(4)?;
                packet.continuation = Some(data(&mut value));
            }
            other => {
                let what = format!("property {other} of a packet-in");
                return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
            }
        }
    }
    let length = packet.data.len() as u32;
    packet.total_length = full_length.unwrap_or(length);
    if length == 0 || packet.total_length < length {
        let what = format!("a packet of {} bytes with {length}", packet.total_length);
        return Err(refuse(ErrorCode::OFPBRC_BAD_LEN, what));
    }
    Ok(packet)
}

/// Writes a packet-in in its format.
pub(super) fn put_in(version: Version, packet: &PacketIn, writer: &mut Writer) {
    match packet.format {
        PacketInFormat::Nicira2 => return put_properties(version, packet, writer),
        PacketInFormat::Nicira => return put_nx_in(version, packet, writer),
        PacketInFormat::Standard => {}
    }
    let total = u16::try_from(packet.total_length).unwrap_or(u16::MAX);
    let told = reason::told(version, packet.reason);
    let in_port = packet.metadata.in_port().unwrap_or(PortNumber::ANY);
    writer.u32(packet.buffer.unwrap_or(NO_BUFFER));
    match version {
        Version::V10 => {
            writer.u16(total);
            writer.u16(in_port.to_u16().unwrap_or(u16::MAX));
            writer.u8(told);
            writer.u8(0);
        }
        Version::V11 => {
            writer.u32(in_port.0);
            writer.u32(in_port.0);
            writer.u16(total);
            writer.u8(told);
            writer.u8(packet.table.unwrap_or(0));
        }
        _ => {
            writer.u16(total);
            writer.u8(told);
            writer.u8(packet.table.unwrap_or(0));
            if version >= Version::V13 {
                writer.u64(packet.cookie.unwrap_or(u64::MAX));
            }
            packet.metadata.encode_oxm(version, writer);
            writer.zeros(2);
        }
    }
    writer.put(&packet.data);
}

fn put_nx_in(version: Version, packet: &PacketIn, writer: &mut Writer) {
    writer.u32(packet.buffer.unwrap_or(NO_BUFFER));
    writer.u16(u16::try_from(packet.total_length).unwrap_or(u16::MAX));
    writer.u8(reason::told(version, packet.reason));
    writer.u8(packet.table.unwrap_or(0));
    writer.u64(packet.cookie.unwrap_or(u64::MAX));
    let at = writer.len();
    writer.zeros(8);
    let length = packet.metadata.encode_nxm(None, writer);
    writer.patch_u16(at, length as u16);
    writer.zeros(2);
    writer.put(&packet.data);
}

/// Writes `NXT_PACKET_IN2` or `NXT_RESUME`.
pub(super) fn put_properties(version: Version, packet: &PacketIn, writer: &mut Writer) {
    property::encode(PACKET, writer, |writer| writer.put(&packet.data));
    if packet.total_length as usize != packet.data.len() {
        property::encode(FULL_LENGTH, writer, |writer| {
            writer.u32(packet.total_length)
        });
    }
    if let Some(buffer) = packet.buffer {
        property::encode(BUFFER, writer, |writer| writer.u32(buffer));
    }
    if let Some(table) = packet.table {
        property::encode(TABLE, writer, |writer| writer.u8(table));
    }
    if let Some(cookie) = packet.cookie {
        property::encode(COOKIE, writer, |writer| {
            writer.zeros(4);
            writer.u64(cookie);
        });
    }
    let told = reason::told(version, packet.reason);
    property::encode(REASON, writer, |writer| writer.u8(told));
    property::encode(METADATA, writer, |writer| {
        packet.metadata.encode_entries(Some(version), writer);
    });
    if let Some(continuation) = &packet.continuation {
        property::encode(CONTINUATION, writer, |writer| {
            writer.zeros(4);
            writer.put(continuation);
        });
    }
    if !packet.userdata.is_empty() {
        property::encode(USERDATA, writer, |writer| writer.put(&packet.userdata));
    }
}

pub(super) fn decode_out(version: Version, body: &mut Reader<'_>) -> Result<PacketOut, Refusal> {
    let buffer = buffer_of(body.u32()?);
    let mut metadata = Match::default();
    let length = match version {
        Version::V10 => {
            metadata
                .conditions
                .push(Condition::exact(FieldId::IN_PORT, body.u16()?.into()));
            body.u16()?
        }
        Version::V15 => {
            let length = body.u16()?;
            body.skip(2)?;
            metadata = Match::decode_oxm(version, body, Judgement::Loose)?;
            check_metadata(&metadata)?;
            length
        }
        _ => {
            let port = body.u32()?.into();
            metadata
                .conditions
                .push(Condition::exact(FieldId::IN_PORT_OXM, port));
            let length = body.u16()?;
            body.skip(6)?;
            length
        }
    };
    let actions = decode_actions(version, body.part(length.into())?)?;
    check_in_port(metadata.in_port())?;
    let data = data(body);
    Ok(PacketOut {
        buffer,
        metadata,
        actions,
        data,
    })
}

/// Checks the port that a controller's packet seems to come from.
fn check_in_port(port: Option<PortNumber>) -> Result<(), Refusal> {
    let what = match port {
        Some(PortNumber::LOCAL | PortNumber::ANY | PortNumber::CONTROLLER) => return Ok(()),
        Some(PortNumber(..PortNumber::MAX_10)) => return Ok(()),
        Some(port) => format!("a packet-out from port {port}"),
        None => "a packet-out without its input port".to_owned(),
    };
    Err(refuse(ErrorCode::OFPBRC_BAD_PORT, what))
}

/// Checks that a packet-out's match has nothing that is in the packet itself.
fn check_metadata(metadata: &Match) -> Result<(), Refusal> {
    let is_inside = |condition: &&Condition| !is_pipeline_field(condition.field);
    match metadata.conditions.iter().find(is_inside) {
        None => Ok(()),
        Some(condition) => {
            let what = format!("{} is no field of the pipeline", condition.field);
            Err(refuse(ErrorCode::OFPBRC_PIPELINE_FIELDS_ONLY, what))
        }
    }
}

/// Fields that a packet has beside its bytes, and that a controller may choose: Open vSwitch's
/// list.
fn is_pipeline_field(field: FieldId) -> bool {
    let name = field.name();
    let is_register = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    match is_register {
        "reg" | "xreg" | "xxreg" => true,
        "metadata" | "in_port" | "in_port_oxm" | "packet_type" => true,
        _ => name.starts_with("tun_") && name != "tun_tos" && name != "tun_ttl",
    }
}

pub(super) fn put_out(version: Version, packet: &PacketOut, writer: &mut Writer) {
    let in_port = packet.in_port().unwrap_or(PortNumber::CONTROLLER);
    writer.u32(packet.buffer.unwrap_or(NO_BUFFER));
    let at = match version {
        Version::V10 => {
            writer.u16(in_port.to_u16().unwrap_or(u16::MAX));
            writer.u16(0);
            writer.len() - 2
        }
        Version::V15 => {
            let at = writer.len();
            writer.zeros(4);
            packet.metadata.encode_oxm(version, writer);
            at
        }
        _ => {
            writer.u32(in_port.0);
            let at = writer.len();
            writer.zeros(8);
            at
        }
    };
    let start = writer.len();
    encode_actions(&packet.actions, version, writer);
    writer.patch_length(at, start);
    writer.put(&packet.data);
}
