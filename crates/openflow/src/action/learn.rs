//! Making flow entries from packets: `NXAST_LEARN` and `NXAST_LEARN2`.

use super::encoder::Encoder;
use super::subfield::{check_writable, check_zeros};
use super::table::Kind;
use super::{Learn, LearnDestination, LearnSource, LearnSpec, Subfield};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::Value;
use crate::wire::{Reader, Writer};

const WRITES_RESULT: u16 = 1 << 2;
const WIDTH_BITS: u16 = 0x3ff;
const IMMEDIATE: u16 = 1 << 13;
const DESTINATION: u16 = 3 << 11;
const MATCH: u16 = 0;
const LOAD: u16 = 1 << 11;
const OUTPUT: u16 = 2 << 11;

pub(super) fn decode(reader: &mut Reader<'_>, kind: Kind) -> Result<Learn, Refusal> {
    let bad_argument = |what: String| refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what);
    let is_second_form = kind == Kind::Learn2;
    let mut learn = Learn {
        idle_timeout_s: reader.u16()?,
        hard_timeout_s: reader.u16()?,
        priority: reader.u16()?,
        cookie: reader.u64()?,
        flags: reader.u16()?,
        table: reader.u8()?,
        is_second_form,
        fin_idle_timeout_s: 0,
        fin_hard_timeout_s: 0,
        limit: 0,
        result: None,
        specs: Vec::new(),
    };
    check_zeros(reader.take(1)?, ErrorCode::OFPBAC_BAD_ARGUMENT)?;
    (learn.fin_idle_timeout_s, learn.fin_hard_timeout_s) = (reader.u16()?, reader.u16()?);
    let flags = if is_second_form { 7 } else { 3 };
    if learn.table == 0xff || learn.flags & !flags != 0 {
        let Learn { table, flags, .. } = learn;
        return Err(bad_argument(format!(
            "learn with table {table}, flags {flags:#x}"
        )));
    }
    if is_second_form {
        learn.limit = reader.u32()?;
        let offset = reader.u16()?;
        check_zeros(reader.take(2)?, ErrorCode::NXBAC_MUST_BE_ZERO)?;
        if learn.flags & WRITES_RESULT != 0 {
            let result = Subfield::decode(reader, offset, 1)?;
            check_writable(result.field)?;
            learn.result = Some(result);
        } else if offset != 0 {
            return Err(bad_argument(
                "learn names a bit for a result it does not write".into(),
            ));
        }
    }
    let reader = &mut reader.with_code(ErrorCode::OFPBAC_BAD_LEN);
    while !reader.is_empty() {
        let header = reader.u16()?;
        if header == 0 {
            break;
        }
        learn.specs.push(LearnSpec::decode(header, reader)?);
    }
    check_zeros(reader.rest(), ErrorCode::OFPBAC_BAD_ARGUMENT)?;
    Ok(learn)
}

impl LearnSpec {
    fn decode(header: u16, reader: &mut Reader<'_>) -> Result<LearnSpec, Refusal> {
        let width_bits = header & WIDTH_BITS;
        let is_immediate = header & IMMEDIATE != 0;
        let destination = header & DESTINATION;
        if destination > OUTPUT || destination == OUTPUT && is_immediate {
            let what = format!("learn has no part {header:#06x}");
            return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
        }
        let names_destination = destination != OUTPUT;
        let source_bytes = if is_immediate {
            immediate_bytes(width_bits)
        } else {
            6
        };
        let needed = source_bytes + if names_destination { 6 } else { 0 };
        if reader.len() < needed {
            return Err(reader.bad_length("a part of learn that is cut short"));
        }
        let source = if is_immediate {
            LearnSource::Immediate(Value::from_bytes(reader.take(source_bytes)?))
        } else {
            LearnSource::Field(decode_subfield(reader, width_bits)?)
        };
        let destination = match destination {
            MATCH => LearnDestination::Match(decode_subfield(reader, width_bits)?),
            LOAD => LearnDestination::Load(decode_subfield(reader, width_bits)?),
            _ => LearnDestination::Output,
        };
        Ok(LearnSpec {
            source,
            destination,
            width_bits,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        let source = match &self.source {
            LearnSource::Immediate(_) => IMMEDIATE,
            LearnSource::Field(_) => 0,
        };
        let destination = match &self.destination {
            LearnDestination::Match(_) => MATCH,
            LearnDestination::Load(_) => LOAD,
            LearnDestination::Output => OUTPUT,
        };
        writer.u16(self.width_bits | source | destination);
        match &self.source {
            LearnSource::Field(field) => encode_subfield(field, writer),
            LearnSource::Immediate(value) => {
                let bytes = immediate_bytes(self.width_bits);
                let kept = value.bytes().len().min(bytes);
                writer.zeros(bytes - kept);
                writer.put(&value.bytes()[value.bytes().len() - kept..]);
            }
        }
        match &self.destination {
            LearnDestination::Match(field) | LearnDestination::Load(field) => {
                encode_subfield(field, writer);
            }
            LearnDestination::Output => {}
        }
    }
}

fn immediate_bytes(width_bits: u16) -> usize {
    2 * usize::from(width_bits.div_ceil(16))
}

fn decode_subfield(reader: &mut Reader<'_>, width_bits: u16) -> Result<Subfield, Refusal> {
    let header = reader.u32()?;
    let offset = reader.u16()?;
    let field = Subfield::from_short(header, offset, width_bits)?;
    field.check_source()?;
    Ok(field)
}

fn encode_subfield(field: &Subfield, writer: &mut Writer) {
    writer.u32(field.short_header());
    writer.u16(field.offset);
}

pub(super) fn encode(encoder: &mut Encoder<'_>, learn: &Learn) {
    let needs_second = learn.limit != 0 || learn.result.is_some();
    let kind = match learn.is_second_form || needs_second {
        true => Kind::Learn2,
        false => Kind::Learn,
    };
    encoder.put(kind, |writer| {
        writer.u16(learn.idle_timeout_s);
        writer.u16(learn.hard_timeout_s);
        writer.u16(learn.priority);
        writer.u64(learn.cookie);
        let result = if learn.result.is_some() {
            WRITES_RESULT
        } else {
            0
        };
        writer.u16(learn.flags & !WRITES_RESULT | result);
        writer.u8(learn.table);
        writer.u8(0);
        writer.u16(learn.fin_idle_timeout_s);
        writer.u16(learn.fin_hard_timeout_s);
        if kind == Kind::Learn2 {
            writer.u32(learn.limit);
            writer.u16(learn.result.map_or(0, |result| result.offset));
            writer.u16(0);
            if let Some(result) = &learn.result {
                result.put_header(None, writer);
            }
        }
        for spec in &learn.specs {
            spec.encode(writer);
        }
    });
}
