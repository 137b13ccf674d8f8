//! Writing and copying bits: `set_field`, `reg_load`, `reg_load2`, `copy_field`, `reg_move`.

use super::encoder::Encoder;
use super::subfield::{check_writable, check_zeros, put_header};
use super::table::Kind;
use super::{Action, SetForm, Subfield};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Header, Value};
use crate::matching::{Condition, needs::check_value};
use crate::version::Version;
use crate::wire::{Reader, Writer};

const VLAN_PRESENT: u128 = 0x1000;

/// A field with its value, as an action has it; a mask of all bits is none.
fn decode_entry(reader: &mut Reader<'_>) -> Result<Condition, Refusal> {
    let mut ahead = reader.with_code(ErrorCode::OFPBMC_BAD_LEN);
    let (header, payload) = Header::decode(&mut ahead)?;
    let Some((header, field)) = header.and_then(|header| Some((header, FieldId::of(header)?)))
    else {
        let what = format!("no field has the header {header:?}");
        return Err(refuse(ErrorCode::OFPBAC_BAD_SET_TYPE, what));
    };
    if !field.fits(header.length) || header.length == 0 {
        let what = format!("{field} does not have {} bytes", header.length);
        return Err(refuse(ErrorCode::OFPBAC_BAD_SET_LEN, what));
    }
    let mut values = ahead.part(payload)?;
    let value = Value::from_bytes(values.take(header.length.into())?);
    let mask = header.has_mask.then(|| Value::from_bytes(values.rest()));
    reader.skip(reader.len() - ahead.len())?;
    if mask.as_ref().is_some_and(|mask| value.exceeds(mask)) {
        let what = format!("the value {value:?} of {field} has bits that its mask lacks");
        return Err(refuse(ErrorCode::OFPBMC_BAD_WILDCARDS, what));
    }
    Ok(Condition { field, value, mask })
}

/// Reads the body of `set_field`; masks exist from OpenFlow 1.5 on.
pub(super) fn decode_set_field(mut reader: Reader<'_>, may_mask: bool) -> Result<Action, Refusal> {
    let entry = decode_entry(&mut reader)?;
    let field = entry.field;
    let bad_argument = |what| refuse(ErrorCode::OFPBAC_BAD_SET_ARGUMENT, what);
    if entry.mask.is_some() && !may_mask {
        let what = format!("this version's set_field of {field} has no mask");
        return Err(refuse(ErrorCode::OFPBAC_BAD_SET_MASK, what));
    }
    check_zeros(reader.rest(), ErrorCode::OFPBAC_BAD_SET_ARGUMENT)?;
    if field == FieldId::IN_PORT_OXM {
        return Err(bad_argument("set_field cannot write in_port".to_owned()));
    }
    check_writable(field)?;
    check_value(&entry).map_err(|refusal| bad_argument(refusal.what))?;
    let has_tag = |value: &Value| value.number() & VLAN_PRESENT != 0;
    if field == FieldId::VLAN_VID
        && !(has_tag(&entry.value) && entry.mask.as_ref().is_none_or(has_tag))
    {
        return Err(bad_argument(
            "vlan_vid is set without the bit 0x1000".to_owned(),
        ));
    }
    Ok(entry.into_action(SetForm::SetField))
}

impl Condition {
    fn into_action(self, form: SetForm) -> Action {
        Action::SetField {
            field: self.field,
            value: self.value,
            // A short mask of an option says that the bits above it stay.
            mask: self
                .mask
                .filter(|mask| self.field.is_variable() || !mask.is_ones()),
            form,
        }
    }
}

/// Reads the body of `reg_load2`.
pub(super) fn decode_load2(mut reader: Reader<'_>) -> Result<Action, Refusal> {
    let entry = decode_entry(&mut reader)?;
    check_zeros(reader.rest(), ErrorCode::OFPBAC_BAD_SET_ARGUMENT)?;
    check_writable(entry.field)?;
    Ok(entry.into_action(SetForm::Load2))
}

/// Reads the body of `reg_load`.
pub(super) fn decode_load(reader: &mut Reader<'_>) -> Result<Action, Refusal> {
    let destination = Subfield::from_packed(reader.u16()?, reader.u32()?)?;
    destination.check_destination()?;
    let number = reader.u64()?;
    let (offset, width) = (destination.offset, destination.width_bits);
    if width < 64 && number >> width != 0 {
        let what = format!("{number:#x} has more than {width} bits");
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    let ones = u64::MAX >> (64 - width);
    let bytes = usize::from(destination.bytes);
    let mask = Value::from_bytes(&with_bits(bytes, offset, ones));
    Ok(Action::SetField {
        field: destination.field,
        value: Value::from_bytes(&with_bits(bytes, offset, number)),
        mask: Some(mask).filter(|mask| !mask.is_ones()),
        form: SetForm::Load,
    })
}

/// `bytes` bytes with these bits from bit `offset` on.
fn with_bits(bytes: usize, offset: u16, number: u64) -> Vec<u8> {
    let mut list = vec![0; bytes];
    for bit in (0..64).filter(|bit| number >> bit & 1 != 0) {
        let place = usize::from(offset) + bit;
        if let Some(byte) = bytes.checked_sub(1 + place / 8) {
            list[byte] |= 1 << (place % 8);
        }
    }
    list
}

fn bit(bytes: &[u8], place: usize) -> bool {
    let byte = bytes.len().checked_sub(1 + place / 8);
    byte.is_some_and(|byte| bytes[byte] >> (place % 8) & 1 != 0)
}

/// Reads the body of `copy_field` or `reg_move`, up to whose numbers the reader stands.
pub(super) fn decode_move(reader: &mut Reader<'_>, kind: Kind) -> Result<Action, Refusal> {
    if kind == Kind::CopyFieldOnf {
        reader.skip(2)?;
    }
    let (width, from, to) = (reader.u16()?, reader.u16()?, reader.u16()?);
    if kind != Kind::Move {
        reader.skip(2)?;
    }
    let source = Subfield::decode(reader, from, width)?;
    let destination = Subfield::decode(reader, to, width)?;
    check_zeros(reader.rest(), ErrorCode::NXBRC_MUST_BE_ZERO)?;
    source.check_source()?;
    destination.check_destination()?;
    Ok(Action::Move {
        source,
        destination,
        is_onf: kind != Kind::Move,
    })
}

pub(super) fn encode_move(
    encoder: &mut Encoder<'_>,
    source: &Subfield,
    destination: &Subfield,
    is_onf: bool,
) {
    let version = encoder.version;
    let (kind, names) = match version {
        Version::V15 => (Kind::CopyField, Some(version)),
        Version::V13 if is_onf => (Kind::CopyFieldOnf, Some(version)),
        _ => (Kind::Move, None),
    };
    encoder.put(kind, |writer| {
        if kind == Kind::CopyFieldOnf {
            writer.u16(0);
        }
        writer.u16(destination.width_bits);
        writer.u16(source.offset);
        writer.u16(destination.offset);
        if kind != Kind::Move {
            writer.u16(0);
        }
        source.put_header(names, writer);
        destination.put_header(names, writer);
    });
}

/// Writes bits of a field in the form that the version has for it.
pub(super) fn encode(
    encoder: &mut Encoder<'_>,
    field: FieldId,
    value: &Value,
    mask: Option<&Value>,
    form: SetForm,
) {
    let version = encoder.version;
    let has_set_field = version >= Version::V12;
    if version == Version::V15 || has_set_field && form == SetForm::SetField && mask.is_none() {
        let names = Some(version);
        encoder.put(set_field_kind(version), |writer| {
            put_entry(field, value, mask, names, writer);
        });
        return;
    }
    let is_whole = form == SetForm::SetField && mask.is_none();
    if !(is_whole && encode_legacy(encoder, field, value)) {
        encode_load(encoder, field, value, mask, form);
    }
}

fn set_field_kind(version: Version) -> Kind {
    match version {
        Version::V15 => Kind::SetField15,
        _ => Kind::SetField12,
    }
}

/// Writes a whole field by `set_field`.
pub(super) fn encode_number(encoder: &mut Encoder<'_>, field: FieldId, number: u128) {
    let value = Value::from_number(number, field.bytes());
    encode(encoder, field, &value, None, SetForm::SetField);
}

fn put_entry(
    field: FieldId,
    value: &Value,
    mask: Option<&Value>,
    names: Option<Version>,
    writer: &mut Writer,
) {
    let entry = Condition {
        field,
        value: value.clone(),
        mask: mask.cloned(),
    };
    entry.encode(names, writer);
}

/// Writes runs of bits by `reg_load`, or all at once by `reg_load2`.
fn encode_load(
    encoder: &mut Encoder<'_>,
    field: FieldId,
    value: &Value,
    mask: Option<&Value>,
    form: SetForm,
) {
    let whole = Subfield {
        bytes: value.bytes().len() as u8,
        ..Subfield::all(field)
    };
    if form == SetForm::Load2 || whole.short_header() == 0 || field.is_variable() {
        return encoder.put(Kind::Load2, |writer| {
            put_entry(field, value, mask, None, writer)
        });
    }
    let width = usize::from(field.width_bits()).min(8 * value.bytes().len());
    let is_written = |place: usize| mask.is_none_or(|mask| bit(mask.bytes(), place));
    let mut start = 0;
    while start < width {
        if !is_written(start) {
            start += 1;
            continue;
        }
        let run = (start..width.min(start + 64)).take_while(|place| is_written(*place));
        let number = run.clone().fold(0u64, |number, place| {
            number | u64::from(bit(value.bytes(), place)) << (place - start)
        });
        let part = Subfield {
            offset: start as u16,
            width_bits: run.count() as u16,
            ..whole
        };
        encoder.put(Kind::Load, |writer| {
            writer.u16(part.packed());
            writer.u32(part.short_header());
            writer.u64(number);
        });
        start += usize::from(part.width_bits);
    }
}

/// Writes a whole field by an action of OpenFlow 1.0 and 1.1, if one does that.
fn encode_legacy(encoder: &mut Encoder<'_>, field: FieldId, value: &Value) -> bool {
    let number = value.number() as u64;
    match field {
        FieldId::VLAN_TCI if number & 0x1000 == 0 => encoder.act(&Action::StripVlan),
        FieldId::VLAN_TCI => {
            let (id, priority) = (number as u16 & 0xfff, (number >> 13) as u8);
            let adds_tag = true;
            encoder.act(&Action::SetVlanVid { id, adds_tag });
            encoder.act(&Action::SetVlanPcp { priority, adds_tag });
        }
        FieldId::VLAN_VID => encoder.act(&Action::SetVlanVid {
            id: number as u16 & 0xfff,
            adds_tag: false,
        }),
        FieldId::VLAN_PCP => encoder.act(&Action::SetVlanPcp {
            priority: number as u8,
            adds_tag: false,
        }),
        FieldId::ETH_SRC => encoder.bytes(Kind::SetDlSrc, value.bytes()),
        FieldId::ETH_DST => encoder.bytes(Kind::SetDlDst, value.bytes()),
        FieldId::IP_SRC => encoder.number(Kind::SetNwSrc, number),
        FieldId::IP_DST => encoder.number(Kind::SetNwDst, number),
        FieldId::NW_TOS => encoder.number(Kind::SetNwTos, number),
        FieldId::IP_DSCP => encoder.number(Kind::SetNwTos, number << 2),
        FieldId::NW_ECN if encoder.version == Version::V11 => {
            encoder.number(Kind::SetNwEcn, number);
        }
        FieldId::TCP_SRC | FieldId::UDP_SRC => encoder.number(Kind::SetTpSrc, number),
        FieldId::TCP_DST | FieldId::UDP_DST => encoder.number(Kind::SetTpDst, number),
        _ => return false,
    }
    true
}

/// Reads the field of `delete_field`.
pub(super) fn decode_delete(reader: &mut Reader<'_>) -> Result<Action, Refusal> {
    let Subfield { field, bytes, .. } = Subfield::decode(reader, 0, 1)?;
    if !field.is_variable() {
        let what = format!("{field} is no option of a tunnel, so that nothing can remove it");
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    Ok(Action::DeleteField { field, bytes })
}

pub(super) fn encode_delete(encoder: &mut Encoder<'_>, field: FieldId, bytes: u8) {
    encoder.put(Kind::DeleteField, |writer| {
        put_header(field, bytes, None, writer);
    });
}
