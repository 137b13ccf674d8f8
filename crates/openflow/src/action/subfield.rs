//! Fields and parts of fields, as Nicira's actions and the standard's name them.

use super::Subfield;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Header};
use crate::version::Version;
use crate::wire::{Reader, Writer};

impl Subfield {
    /// All bits of a field.
    pub fn all(field: FieldId) -> Subfield {
        Subfield::new(field, 0, field.width_bits())
    }

    /// Some bits of a field.
    pub fn new(field: FieldId, offset: u16, width_bits: u16) -> Subfield {
        Subfield {
            field,
            offset,
            width_bits,
            bytes: field.bytes() as u8,
        }
    }

    /// Refuses bits that the field does not have.
    pub(super) fn check_source(&self) -> Result<(), Refusal> {
        let width = match self.field.is_variable() {
            true => 8 * u32::from(self.bytes),
            false => self.field.width_bits().into(),
        };
        let end = u32::from(self.offset) + u32::from(self.width_bits);
        if self.width_bits == 0 || end > width {
            let Subfield { field, offset, .. } = self;
            let what = format!("{field} of {width} bits has no bits {offset} to {end}");
            return Err(refuse(ErrorCode::OFPBAC_BAD_SET_LEN, what));
        }
        Ok(())
    }

    /// Refuses bits that the field does not have, and fields that no action may write.
    pub(super) fn check_destination(&self) -> Result<(), Refusal> {
        self.check_source()?;
        check_writable(self.field)
    }

    /// Offset and width in 16 bits, which hold widths up to 64.
    pub(super) fn packed(&self) -> u16 {
        self.offset << 6 | (self.width_bits.saturating_sub(1) & 0x3f)
    }

    /// Reads the bits from [`Subfield::packed`] and a header of 32 bits.
    pub(super) fn from_packed(packed: u16, header: u32) -> Result<Subfield, Refusal> {
        Subfield::from_short(header, packed >> 6, (packed & 0x3f) + 1)
    }

    /// Reads the field from a header of 32 bits.
    pub(super) fn from_short(header: u32, offset: u16, width: u16) -> Result<Subfield, Refusal> {
        let bytes = header.to_be_bytes();
        let mut reader = Reader::new(&bytes, ErrorCode::OFPBAC_BAD_SET_TYPE);
        let known = Header::decode(&mut reader)
            .ok()
            .and_then(|(known, _)| known);
        let named = known.and_then(|known| Some((FieldId::of(known)?, known.length)));
        match named.filter(|(field, length)| field.fits(*length)) {
            Some((field, bytes)) => Ok(Subfield {
                field,
                offset,
                width_bits: width,
                bytes,
            }),
            None => {
                let what = format!("no field has the header {header:#010x}");
                Err(refuse(ErrorCode::OFPBAC_BAD_SET_TYPE, what))
            }
        }
    }

    /// Reads the field from a header of 4 or 8 bytes.
    pub(super) fn decode(
        reader: &mut Reader<'_>,
        offset: u16,
        width_bits: u16,
    ) -> Result<Subfield, Refusal> {
        let mut ahead = reader.with_code(ErrorCode::OFPBMC_BAD_LEN);
        let (header, _) = Header::decode(&mut ahead)?;
        reader.skip(reader.len() - ahead.len())?;
        let named = header.and_then(|header| Some((FieldId::of(header)?, header)));
        let Some((field, header)) = named.filter(|(field, header)| field.fits(header.length))
        else {
            let what = format!("no field has the header {header:?}");
            return Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what));
        };
        if header.has_mask {
            let what = format!("a mask for {field}, which is named as a whole");
            return Err(refuse(ErrorCode::OFPBMC_BAD_MASK, what));
        }
        Ok(Subfield {
            field,
            offset,
            width_bits,
            bytes: header.length,
        })
    }

    /// The field's header in 32 bits; 0 if it needs 64.
    pub(super) fn short_header(&self) -> u32 {
        let mut writer = Writer::new();
        self.put_header(None, &mut writer);
        match <[u8; 4]>::try_from(writer.as_bytes()) {
            Ok(bytes) => u32::from_be_bytes(bytes),
            Err(_) => 0,
        }
    }

    /// Writes the field's header, of 4 or 8 bytes.
    pub(super) fn put_header(&self, version: Option<Version>, writer: &mut Writer) {
        put_header(self.field, self.bytes, version, writer);
    }
}

pub(super) fn put_header(field: FieldId, bytes: u8, version: Option<Version>, writer: &mut Writer) {
    let header = Header {
        length: bytes,
        ..field.header(version)
    };
    header.encode(writer);
}

pub(super) fn check_writable(field: FieldId) -> Result<(), Refusal> {
    if field.is_writable() {
        return Ok(());
    }
    let what = format!("{field} cannot be written");
    Err(refuse(ErrorCode::OFPBAC_BAD_SET_ARGUMENT, what))
}

/// Refuses padding that is not zero.
pub(super) fn check_zeros(bytes: &[u8], code: ErrorCode) -> Result<(), Refusal> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    Err(refuse(code, "reserved bytes are not zero"))
}
