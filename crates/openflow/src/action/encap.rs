//! Adding and removing headers: `NXAST_ENCAP` and `NXAST_DECAP`.

use bytes::Bytes;

use super::Action;
use super::encoder::Encoder;
use super::table::Kind;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::wire::Reader;

/// Ethernet, the network service header, MPLS.
const PACKET_TYPES: [u32; 4] = [0, 0x0001_894f, 0x0001_8847, 0x0001_8848];
const NSH_CLASS: u16 = 4;
const MD_TYPE: u8 = 1;
const TLV: u8 = 2;

pub(super) fn decode_encap(reader: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (header_bytes, packet_type) = (reader.u16()?, reader.u32()?);
    if !PACKET_TYPES.contains(&packet_type) {
        let what = format!("no header of the packet type {packet_type:#x} can be added");
        return Err(refuse(ErrorCode::NXBAC_BAD_HEADER_TYPE, what));
    }
    let properties = Bytes::copy_from_slice(reader.peek());
    while !reader.is_empty() {
        check_property(reader)?;
    }
    Ok(Action::Encap {
        packet_type,
        header_bytes,
        properties,
    })
}

fn check_property(reader: &mut Reader<'_>) -> Result<(), Refusal> {
    let mut ahead = *reader;
    let (class, kind, length) = (ahead.u16()?, ahead.u8()?, usize::from(ahead.u8()?));
    let padded = length.next_multiple_of(8);
    if length < 4 || padded > reader.len() {
        return Err(reader.bad_length(format!("a property of encap of {length} bytes")));
    }
    let is_sound = match (class, kind) {
        (NSH_CLASS, MD_TYPE) => length <= 8,
        (NSH_CLASS, TLV) => {
            ahead.skip(3)?;
            length == 8 + usize::from(ahead.u8()?).next_multiple_of(8)
        }
        _ => {
            let what = format!("encap has no property {class}, {kind}");
            return Err(refuse(ErrorCode::NXBAC_UNKNOWN_ED_PROP, what));
        }
    };
    if !is_sound {
        let what = format!("a property {class}, {kind} of {length} bytes");
        return Err(refuse(ErrorCode::NXBAC_BAD_ED_PROP, what));
    }
    reader.skip(padded)
}

pub(super) fn encode_encap(
    encoder: &mut Encoder<'_>,
    packet_type: u32,
    header_bytes: u16,
    properties: &[u8],
) {
    encoder.put(Kind::Encap, |writer| {
        writer.u16(header_bytes);
        writer.u32(packet_type);
        writer.put(properties);
    });
}

pub(super) fn decode_decap(reader: &mut Reader<'_>) -> Result<Action, Refusal> {
    reader.skip(2)?;
    let packet_type = reader.u32()?;
    if !reader.is_empty() {
        let what = "decap has no properties";
        return Err(refuse(ErrorCode::NXBAC_UNKNOWN_ED_PROP, what));
    }
    Ok(Action::Decap { packet_type })
}
