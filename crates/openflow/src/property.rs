//! Properties: parts with type and length, padded to 8 bytes (OpenFlow 1.4 and later).

use crate::error::{ErrorCode, Refusal, refuse};
use crate::wire::{Reader, Writer};

/// Reads a property; its value is what follows the four bytes of the header.
pub(crate) fn decode<'a>(reader: &mut Reader<'a>) -> Result<(u16, Reader<'a>), Refusal> {
    let mut start = reader.with_code(ErrorCode::OFPBPC_BAD_LEN);
    let (kind, length) = (start.u16()?, usize::from(start.u16()?));
    if length < 4 {
        let what = format!("a property of {length} bytes");
        return Err(refuse(ErrorCode::OFPBPC_BAD_LEN, what));
    }
    let value = start.part(length - 4)?;
    let padded = length.next_multiple_of(8);
    if reader.len() < padded {
        let what = format!("a property of {length} bytes without its padding");
        return Err(refuse(ErrorCode::OFPBPC_BAD_LEN, what));
    }
    reader.skip(padded)?;
    Ok((kind, value))
}

/// Writes a property.
pub(crate) fn encode(kind: u16, writer: &mut Writer, value: impl FnOnce(&mut Writer)) {
    let start = writer.len();
    writer.u16(kind);
    writer.u16(0);
    value(writer);
    writer.patch_length(start + 2, start);
    writer.pad_to_8(start);
}

/// Writes a property with a number of 16 bits, which OpenFlow pads inside the property.
pub(crate) fn encode_u16(kind: u16, writer: &mut Writer, number: u16) {
    encode(kind, writer, |writer| {
        writer.u16(number);
        writer.u16(0);
    });
}

/// Reads an experimenter's property: who, its type, its value. The header has been read.
pub(crate) fn experimenter<'a>(value: &mut Reader<'a>) -> Result<(u32, u32, Reader<'a>), Refusal> {
    let (who, kind) = (value.u32()?, value.u32()?);
    Ok((who, kind, *value))
}

/// The type of experimenters' properties.
pub(crate) const EXPERIMENTER: u16 = 0xffff;
