//! Further messages of Open vSwitch.

use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::nicira::{
    CtFlush, CtTuple, IpfixStats, TlvCommand, TlvMap, TlvTable, TlvTableMod,
};
use crate::message::packet::PacketInFormat;
use crate::property;
use crate::wire::{Reader, Writer};

/// Reads whether something is on: a byte with seven of padding.
pub(super) fn decode_switch(body: &mut Reader<'_>) -> Result<bool, Refusal> {
    let is_on = body.u8()? != 0;
    body.skip(7)?;
    Ok(is_on)
}

pub(super) fn put_switch(is_on: bool, writer: &mut Writer) {
    writer.u8(u8::from(is_on));
    writer.zeros(7);
}

pub(super) fn decode_packet_in_format(body: &mut Reader<'_>) -> Result<PacketInFormat, Refusal> {
    Ok(match body.u32()? {
        0 => PacketInFormat::Standard,
        1 => PacketInFormat::Nicira,
        2 => PacketInFormat::Nicira2,
        other => {
            let what = format!("packet-in format {other}");
            return Err(refuse(ErrorCode::OFPBRC_EPERM, what));
        }
    })
}

/// Reads a number of 16 bits behind six bytes of zeros.
pub(super) fn decode_id(body: &mut Reader<'_>) -> Result<u16, Refusal> {
    if body.take(6)? != [0; 6] {
        let what = "bytes that must be zero are not";
        return Err(refuse(ErrorCode::NXBRC_MUST_BE_ZERO, what));
    }
    body.u16()
}

pub(super) fn put_id(id: u16, writer: &mut Writer) {
    writer.zeros(6);
    writer.u16(id);
}

pub(super) fn decode_tlv_mod(body: &mut Reader<'_>) -> Result<TlvTableMod, Refusal> {
    let command = match body.u16()? {
        0 => TlvCommand::Add,
        1 => TlvCommand::Delete,
        2 => TlvCommand::Clear,
        other => {
            let what = format!("command {other} of a TLV table");
            return Err(refuse(ErrorCode::NXTTMFC_BAD_COMMAND, what));
        }
    };
    body.skip(6)?;
    let maps = decode_maps(body)?;
    Ok(TlvTableMod { command, maps })
}

fn decode_maps(body: &mut Reader<'_>) -> Result<Vec<TlvMap>, Refusal> {
    let mut maps = Vec::new();
    while !body.is_empty() {
        let map = TlvMap {
            class: body.u16()?,
            kind: body.u8()?,
            length: body.u8()?,
            index: body.u16()?,
        };
        body.skip(2)?;
        if !map.length.is_multiple_of(4) || map.length > 124 {
            let what = format!("an option of {} bytes", map.length);
            return Err(refuse(ErrorCode::NXTTMFC_BAD_OPT_LEN, what));
        }
        if map.index >= 64 {
            let what = format!("tun_metadata{}", map.index);
            return Err(refuse(ErrorCode::NXTTMFC_BAD_FIELD_IDX, what));
        }
        maps.push(map);
    }
    Ok(maps)
}

fn put_maps(maps: &[TlvMap], writer: &mut Writer) {
    for map in maps {
        writer.u16(map.class);
        writer.u8(map.kind);
        writer.u8(map.length);
        writer.u16(map.index);
        writer.zeros(2);
    }
}

pub(super) fn put_tlv_mod(asked: &TlvTableMod, writer: &mut Writer) {
    writer.u16(asked.command as u16);
    writer.zeros(6);
    put_maps(&asked.maps, writer);
}

pub(super) fn decode_tlv_table(body: &mut Reader<'_>) -> Result<TlvTable, Refusal> {
    let (max_space, max_fields) = (body.u32()?, body.u16()?);
    body.skip(10)?;
    Ok(TlvTable {
        max_space,
        max_fields,
        maps: decode_maps(body)?,
    })
}

pub(super) fn put_tlv_table(table: &TlvTable, writer: &mut Writer) {
    writer.u32(table.max_space);
    writer.u16(table.max_fields);
    writer.zeros(10);
    put_maps(&table.maps, writer);
}

/// Properties of `NXT_CT_FLUSH`, and of a tuple in it.
const ZONE: u16 = 2;
const ORIGINAL: u16 = 0;
const REPLY: u16 = 1;
const MARK: u16 = 3;
const MARK_MASK: u16 = 4;
const LABELS: u16 = 5;
const LABELS_MASK: u16 = 6;
const SOURCE: u16 = 0;
const DESTINATION: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
const ICMP_ID: u16 = 4;
const ICMP_TYPE: u16 = 5;
const ICMP_CODE: u16 = 6;

pub(super) fn decode_ct_flush(body: &mut Reader<'_>) -> Result<CtFlush, Refusal> {
    let mut flush = CtFlush {
        protocol: body.u8()?,
        ..CtFlush::default()
    };
    if body.take(7)? != [0; 7] {
        let what = "bytes that must be zero are not";
        return Err(refuse(ErrorCode::NXBRC_MUST_BE_ZERO, what));
    }
    while !body.is_empty() {
        let (kind, mut value) = property::decode(body)?;
        match kind {
            ORIGINAL => flush.original = decode_tuple(value)?,
            REPLY => flush.reply = decode_tuple(value)?,
            ZONE => flush.zone = Some(value.u16()?),
            MARK => flush.mark = Some((value.u32()?, flush.mark.map_or(u32::MAX, |mark| mark.1))),
            MARK_MASK => flush.mark = Some((flush.mark.map_or(0, |mark| mark.0), value.u32()?)),
            LABELS => {
                value.skip(4)?;
                let mask = flush.labels.map_or(u128::MAX, |labels| labels.1);
                flush.labels = Some((value.u128()?, mask));
            }
            LABELS_MASK => {
                value.skip(4)?;
                let labels = flush.labels.map_or(0, |labels| labels.0);
                flush.labels = Some((labels, value.u128()?));
            }
            other => {
                let what = format!("property {other} of a flush");
                return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
            }
        }
    }
    Ok(flush)
}

fn decode_tuple(mut list: Reader<'_>) -> Result<CtTuple, Refusal> {
    // The list stands behind four bytes of padding.
    list.skip(4.min(list.len()))?;
    let mut tuple = CtTuple::default();
    while !list.is_empty() {
        let (kind, mut value) = property::decode(&mut list)?;
        match kind {
            SOURCE | DESTINATION => {
                let address = Some(value.array()?);
                match kind {
                    SOURCE => tuple.source = address,
                    _ => tuple.destination = address,
                }
            }
            SOURCE_PORT => tuple.source_port = Some(value.u16()?),
            DESTINATION_PORT => tuple.destination_port = Some(value.u16()?),
            ICMP_ID => tuple.icmp.get_or_insert((0, 0, 0)).0 = value.u16()?,
            ICMP_TYPE => tuple.icmp.get_or_insert((0, 0, 0)).1 = value.u8()?,
            ICMP_CODE => tuple.icmp.get_or_insert((0, 0, 0)).2 = value.u8()?,
            other => {
                let what = format!("property {other} of a tuple");
                return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
            }
        }
    }
    Ok(tuple)
}

pub(super) fn put_ct_flush(flush: &CtFlush, writer: &mut Writer) {
    writer.u8(flush.protocol);
    writer.zeros(7);
    for (kind, tuple) in [(ORIGINAL, &flush.original), (REPLY, &flush.reply)] {
        if *tuple != CtTuple::default() {
            property::encode(kind, writer, |writer| {
                writer.zeros(4);
                put_tuple(tuple, writer);
            });
        }
    }
    if let Some(zone) = flush.zone {
        property::encode_u16(ZONE, writer, zone);
    }
    if let Some((mark, mask)) = flush.mark {
        property::encode(MARK, writer, |writer| writer.u32(mark));
        property::encode(MARK_MASK, writer, |writer| writer.u32(mask));
    }
    if let Some((labels, mask)) = flush.labels {
        for (kind, bits) in [(LABELS, labels), (LABELS_MASK, mask)] {
            property::encode(kind, writer, |writer| {
                writer.zeros(4);
                writer.u128(bits);
            });
        }
    }
}

fn put_tuple(tuple: &CtTuple, writer: &mut Writer) {
    for (kind, address) in [(SOURCE, tuple.source), (DESTINATION, tuple.destination)] {
        if let Some(address) = address {
            property::encode(kind, writer, |writer| writer.put(&address));
        }
    }
    let ports = [
        (SOURCE_PORT, tuple.source_port),
        (DESTINATION_PORT, tuple.destination_port),
    ];
    for (kind, port) in ports {
        if let Some(port) = port {
            property::encode_u16(kind, writer, port);
        }
    }
    if let Some((id, icmp_type, code)) = tuple.icmp {
        property::encode_u16(ICMP_ID, writer, id);
        property::encode(ICMP_TYPE, writer, |writer| writer.u8(icmp_type));
        property::encode(ICMP_CODE, writer, |writer| writer.u8(code));
    }
}

pub(super) fn decode_ipfix(body: &mut Reader<'_>) -> Result<IpfixStats, Refusal> {
    let stats = IpfixStats {
        total_flows: body.u64()?,
        current_flows: body.u64()?,
        packets: body.u64()?,
        ipv4_packets: body.u64()?,
        ipv6_packets: body.u64()?,
        error_packets: body.u64()?,
        ipv4_error_packets: body.u64()?,
        ipv6_error_packets: body.u64()?,
        tx_packets: body.u64()?,
        tx_errors: body.u64()?,
        collector_set: body.u32()?,
    };
    body.skip(4)?;
    Ok(stats)
}

pub(super) fn put_ipfix(stats: &IpfixStats, writer: &mut Writer) {
    let counts = [
        stats.total_flows,
        stats.current_flows,
        stats.packets,
        stats.ipv4_packets,
        stats.ipv6_packets,
        stats.error_packets,
        stats.ipv4_error_packets,
        stats.ipv6_error_packets,
        stats.tx_packets,
        stats.tx_errors,
    ];
    counts.iter().for_each(|count| writer.u64(*count));
    writer.u32(stats.collector_set);
    writer.zeros(4);
}
