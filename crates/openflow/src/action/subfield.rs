//! Bits of fields in actions.

use super::Subfield;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Header};
use crate::wire::{Reader, Writer};

/// Reads the header that names a field in an action.
pub(super) fn decode_name(reader: &mut Reader<'_>) -> Result<FieldId, Refusal> {
    let code = ErrorCode::OFPBAC_BAD_SET_TYPE;
    // The length belongs to a value that is elsewhere, so only class and number count.
    let mut first = *reader;
    let (class, _) = (first.u16()?, first.u16()?);
    let mut named = *reader;
    let (header, _) = match class {
        0xffff => Header::decode(&mut named)?,
        _ => Header::decode(&mut named)?,
    };
    let field = header.and_then(FieldId::of);
    let field = field.ok_or_else(|| refuse(code, "a field that nobody knows"))?;
    *reader = named;
    Ok(field)
}

/// Writes the header that names a field; Nicira's actions prefer NXM names.
pub(super) fn encode_name(
    field: FieldId,
    version: Option<crate::version::Version>,
    writer: &mut Writer,
) {
    field.header(version).encode(writer);
}

/// Size of a field's name on the wire.
pub(super) fn name_bytes(field: FieldId) -> usize {
    field.header(None).bytes()
}

/// The bits that `offset << 6 | width - 1` names.
pub(super) fn from_offset_bits(field: FieldId, packed: u16) -> Subfield {
    Subfield {
        field,
        offset: packed >> 6,
        width_bits: (packed & 63) + 1,
    }
}

/// The number that names the bits of a field.
pub(super) fn offset_bits(bits: Subfield) -> u16 {
    bits.offset << 6 | bits.width_bits.saturating_sub(1) & 63
}

/// Refuses bits outside their field.
pub(super) fn check(bits: Subfield) -> Result<Subfield, Refusal> {
    let end = u32::from(bits.offset) + u32::from(bits.width_bits);
    if bits.width_bits == 0 || end > u32::from(bits.field.width_bits()) {
        let what = format!(
            "bits {} to {end} of {}, which has {}",
            bits.offset,
            bits.field,
            bits.field.width_bits()
        );
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    Ok(bits)
}

/// The same for bits that are written.
pub(super) fn check_written(bits: Subfield) -> Result<Subfield, Refusal> {
    if !bits.field.is_writable() {
        let what = format!("{} cannot be written", bits.field);
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    check(bits)
}

/// Refuses bytes that are not zero.
pub(super) fn must_be_zero(bytes: &[u8]) -> Result<(), Refusal> {
    if bytes.iter().any(|byte| *byte != 0) {
        let what = "bytes that must be zero are not";
        return Err(refuse(ErrorCode::NXBRC_MUST_BE_ZERO, what));
    }
    Ok(())
}
