//! Matches as lists of entries: NXM, and OXM (OpenFlow 1.5.1, section 7.2.3).

use super::judgement::Judgement;
use super::needs::check_value;
use super::{Condition, Match};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{Class, FieldId, Header, Value};
use crate::version::Version;
use crate::wire::{Reader, Writer};

const OXM: u16 = 1;
/// Nicira's number of the flow entry's cookie, which stands among the conditions of
/// `NXT_FLOW_MOD` and `NXST_FLOW`.
const COOKIE: (Class, u8) = (Class::Nxm1, 30);
const COOKIE_BYTES: u8 = 8;

/// A cookie and the bits of it that must agree.
pub type Cookie = Option<(u64, u64)>;

struct Entry {
    header: Option<Header>,
    value: Value,
    mask: Option<Value>,
}

impl Match {
    /// Reads all that the reader has as entries, without padding; a cookie among them is
    /// refused.
    ///
    /// # Errors
    /// The `OFPBMC_*` of the fault.
    pub fn decode_entries(reader: Reader<'_>, judgement: Judgement) -> Result<Match, Refusal> {
        decode(reader, judgement, false).map(|(matching, _)| matching)
    }

    /// Reads `length` bytes of Nicira's entries and the padding to a multiple of 8 behind them.
    ///
    /// # Errors
    /// As for [`Match::decode_entries`].
    pub fn decode_nxm(
        reader: &mut Reader<'_>,
        length: usize,
        judgement: Judgement,
    ) -> Result<(Match, Cookie), Refusal> {
        let mut part = reader
            .with_code(ErrorCode::OFPBMC_BAD_LEN)
            .part(length.next_multiple_of(8))?;
        reader.skip(part.len())?;
        decode(part.part(length)?, judgement, true)
    }

    /// Reads `struct ofp_match`: type, length, entries or OpenFlow 1.1's fixed fields, padding.
    ///
    /// # Errors
    /// As for [`Match::decode_entries`]; `OFPBMC_BAD_TYPE` for an unknown form.
    pub fn decode_oxm(
        version: Version,
        reader: &mut Reader<'_>,
        judgement: Judgement,
    ) -> Result<Match, Refusal> {
        let mut ahead = reader.with_code(ErrorCode::OFPBMC_BAD_LEN);
        let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
        if kind == super::standard::STANDARD && version == Version::V11 {
            return Match::decode_of11(reader);
        }
        if kind != OXM {
            let what = format!("a match of type {kind}");
            return Err(refuse(ErrorCode::OFPBMC_BAD_TYPE, what));
        }
        if length < 4 {
            return Err(ahead.bad_length("a match shorter than its header"));
        }
        let padded = length.next_multiple_of(8);
        let mut part = ahead.part(padded - 4)?;
        reader.skip(padded)?;
        decode(part.part(length - 4)?, judgement, false).map(|(matching, _)| matching)
    }

    /// Writes the entries alone: with `None` Nicira's numbers are preferred, else the
    /// version's.
    pub fn encode_entries(&self, version: Option<Version>, writer: &mut Writer) {
        for condition in self.in_forms_of(version).iter() {
            condition.encode(version, writer);
        }
    }

    /// Writes Nicira's entries, the cookie behind them, and padding to a multiple of 8. Gives
    /// the length without padding.
    pub fn encode_nxm(&self, cookie: Cookie, writer: &mut Writer) -> usize {
        let start = writer.len();
        self.encode_entries(None, writer);
        if let Some((cookie, mask)) = cookie.filter(|(_, mask)| *mask != 0) {
            let has_mask = mask != u64::MAX;
            let header = Header {
                class: COOKIE.0,
                number: COOKIE.1,
                has_mask,
                length: COOKIE_BYTES,
            };
            header.encode(writer);
            writer.u64(cookie & mask);
            if has_mask {
                writer.u64(mask);
            }
        }
        let length = writer.len() - start;
        writer.pad_to_8(start);
        length
    }

    /// Writes `struct ofp_match` with its padding: OpenFlow 1.1's fixed fields, or entries.
    pub fn encode_oxm(&self, version: Version, writer: &mut Writer) {
        if version == Version::V11 {
            return self.encode_of11(writer);
        }
        let start = writer.len();
        writer.u16(OXM);
        writer.u16(0);
        self.encode_entries(Some(version), writer);
        writer.patch_length(start + 2, start);
        writer.pad_to_8(start);
    }
}

impl Condition {
    /// Writes the entry: header, value, mask.
    pub(crate) fn encode(&self, version: Option<Version>, writer: &mut Writer) {
        let Condition { field, value, mask } = self;
        let header = Header {
            has_mask: mask.is_some(),
            length: value.bytes().len() as u8,
            ..field.header(version)
        };
        header.encode(writer);
        writer.put(value.bytes());
        if let Some(mask) = mask {
            writer.put(mask.bytes());
        }
    }
}

fn decode(
    mut reader: Reader<'_>,
    judgement: Judgement,
    allows_cookie: bool,
) -> Result<(Match, Cookie), Refusal> {
    let mut matching = Match::default();
    let mut cookie = None;
    while !reader.is_empty() {
        let entry = Entry::decode(&mut reader)?;
        if let Some(read) = entry.cookie().filter(|_| allows_cookie) {
            if cookie.is_some() {
                return Err(refuse(ErrorCode::OFPBMC_DUP_FIELD, "two cookies"));
            }
            cookie = Some(read).filter(|(_, mask)| *mask != 0);
            continue;
        }
        match entry.field() {
            Some(field) => matching.add(entry.condition(field)?, judgement)?,
            None if judgement == Judgement::Loose => {}
            None => {
                let what = match entry.header {
                    Some(header) => format!("no field is {:?} {}", header.class, header.number),
                    None => "a field of an unknown class".to_owned(),
                };
                return Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what));
            }
        }
    }
    Ok((matching, cookie))
}

impl Entry {
    fn decode(reader: &mut Reader<'_>) -> Result<Entry, Refusal> {
        let mut ahead = reader.with_code(ErrorCode::OFPBMC_BAD_LEN);
        let (header, payload) = Header::decode(&mut ahead)?;
        let mut values = ahead.part(payload)?;
        let has_mask = header.is_some_and(|header| header.has_mask);
        let length = if has_mask { payload / 2 } else { payload };
        let value = Value::from_bytes(values.take(length)?);
        let mask = has_mask.then(|| Value::from_bytes(values.rest()));
        reader.skip(reader.len() - ahead.len())?;
        if mask.as_ref().is_some_and(|mask| value.exceeds(mask)) {
            let what = format!("the value {value:?} has bits that its mask lacks");
            return Err(refuse(ErrorCode::OFPBMC_BAD_WILDCARDS, what));
        }
        Ok(Entry {
            header,
            value,
            mask,
        })
    }

    fn cookie(&self) -> Cookie {
        let header = self.header?;
        let is_cookie = (header.class, header.number) == COOKIE && header.length == COOKIE_BYTES;
        let mask = self.mask.as_ref().map_or(u64::MAX.into(), Value::number);
        is_cookie.then(|| (self.value.number() as u64, mask as u64))
    }

    /// The field, if one has this number and this length.
    fn field(&self) -> Option<FieldId> {
        let header = self.header?;
        FieldId::of(header).filter(|field| field.fits(header.length))
    }

    fn condition(self, field: FieldId) -> Result<Condition, Refusal> {
        let condition = Condition {
            field,
            value: self.value,
            mask: self.mask,
        };
        let is_partial = |mask: &&Value| !mask.is_zero() && !mask.is_ones();
        if let Some(mask) = condition.mask.as_ref().filter(is_partial)
            && !field.is_maskable()
        {
            let what = format!("{field} cannot have the mask {mask:?}");
            return Err(refuse(ErrorCode::OFPBMC_BAD_MASK, what));
        }
        check_value(&condition)?;
        Ok(condition.simplified())
    }
}

impl Match {
    /// Adds a condition; one that compares nothing is dropped.
    pub(super) fn add(
        &mut self,
        condition: Condition,
        judgement: Judgement,
    ) -> Result<(), Refusal> {
        let field = condition.field;
        if judgement == Judgement::Strict && !self.allows(field) {
            let what = format!("{field} needs {:?} before it", field.needs());
            return Err(refuse(ErrorCode::OFPBMC_BAD_PREREQ, what));
        }
        if self.repeats(field) {
            let what = format!("{field} is matched twice");
            return Err(refuse(ErrorCode::OFPBMC_DUP_FIELD, what));
        }
        // A condition on no bit of an option needs the option.
        if field.is_variable() || !condition.mask.as_ref().is_some_and(Value::is_zero) {
            self.conditions.push(condition);
        }
        Ok(())
    }
}
