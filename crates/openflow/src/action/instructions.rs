//! Instructions (OpenFlow 1.5.1, section 7.2.5), which OpenFlow 1.0 writes as actions.

use super::decode::decode_items;
use super::encoder::{Context, Encoder};
use super::nesting::Nesting;
use super::nesting::check_set;
use super::table::Kind;
use super::{Action, Instructions};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::matching::Match;
use crate::port_number::PortNumber;
use crate::version::Version;
use crate::wire::{Reader, Writer};

const GOTO: u16 = 1;
const METADATA: u16 = 2;
const WRITE: u16 = 3;
const APPLY: u16 = 4;
const CLEAR: u16 = 5;
const METER: u16 = 6;
const EXPERIMENTER: u16 = 0xffff;

/// The bodies of a message's instructions, by type.
type Bodies<'a> = [Option<Reader<'a>>; METER as usize + 1];

impl Instructions {
    /// Reads all that the reader has as instructions; in OpenFlow 1.0 as actions.
    ///
    /// # Errors
    /// The `OFPBIC_*` or `OFPBAC_*` of the fault.
    pub fn decode(version: Version, reader: Reader<'_>) -> Result<Instructions, Refusal> {
        let nesting = Nesting::new(version);
        if version == Version::V10 {
            let (apply, metadata) = decode_items(reader, nesting)?;
            return Ok(Instructions {
                apply,
                metadata,
                ..Instructions::default()
            });
        }
        let mut bodies = split(version, reader)?;
        let mut instructions = Instructions::default();
        if let Some(body) = &mut bodies[usize::from(METER)] {
            instructions.meter = Some(body.u32()?);
        }
        if let Some(mut body) = bodies[usize::from(APPLY)] {
            body.skip(4)?;
            (instructions.apply, instructions.metadata) = decode_items(body, nesting)?;
        }
        instructions.clear = bodies[usize::from(CLEAR)].is_some();
        if let Some(mut body) = bodies[usize::from(WRITE)] {
            body.skip(4)?;
            let actions = nesting.decode_list(body)?;
            check_set(&actions)?;
            instructions.write = Some(actions);
        }
        if let Some(body) = &mut bodies[usize::from(METADATA)] {
            if instructions.metadata.is_some() {
                let what = "metadata written twice";
                return Err(refuse(ErrorCode::OFPBAC_UNSUPPORTED_ORDER, what));
            }
            body.skip(4)?;
            instructions.metadata = Some((body.u64()?, body.u64()?));
        }
        if let Some(body) = &mut bodies[usize::from(GOTO)] {
            instructions.goto = Some(body.u8()?);
        }
        Ok(instructions)
    }

    /// Writes the instructions in the forms of a version, for a rule of which nothing is known.
    pub fn encode(&self, version: Version, writer: &mut Writer) {
        self.encode_for(&Match::default(), version, writer);
    }

    /// Writes the instructions of a rule with these conditions (see [`super::encode_actions_for`]).
    ///
    /// What the version lacks is left out: a meter up to OpenFlow 1.2, an action set in 1.0.
    pub fn encode_for(&self, matching: &Match, version: Version, writer: &mut Writer) {
        let context = Context::of(matching);
        if version == Version::V10 {
            let mut encoder = Encoder::new(version, context, writer);
            encoder.list(&self.apply);
            if let Some((value, mask)) = self.metadata {
                encoder.put(Kind::WriteMetadata, |writer| {
                    writer.zeros(6);
                    writer.u64(value);
                    writer.u64(mask);
                });
            }
            if let Some(table) = self.goto {
                encoder.resubmit(PortNumber::IN_PORT, Some(table), false);
            }
            return;
        }
        let meter = self.meter.or_else(|| self.meter_in_front());
        let has_meter = matches!(version, Version::V13 | Version::V14);
        if let Some(meter) = meter.filter(|_| has_meter) {
            put(METER, writer, |writer| writer.u32(meter));
        }
        let first = self.meter.filter(|_| version == Version::V15);
        let first = first.map(Action::Meter);
        put_actions(APPLY, writer, |writer| {
            let mut encoder = Encoder::new(version, context, writer);
            encoder.list(first.as_slice());
            encoder.list(&self.apply);
        });
        if self.clear {
            put(CLEAR, writer, |writer| writer.zeros(4));
        }
        if let Some(actions) = &self.write {
            put_actions(WRITE, writer, |writer| {
                Encoder::new(version, context, writer).list(actions);
            });
        }
        if let Some((value, mask)) = self.metadata {
            put(METADATA, writer, |writer| {
                writer.zeros(4);
                writer.u64(value);
                writer.u64(mask);
            });
        }
        if let Some(table) = self.goto {
            put(GOTO, writer, |writer| {
                writer.u8(table);
                writer.zeros(3);
            });
        }
    }

    /// The meter that OpenFlow 1.5's first action names: an instruction in earlier versions.
    fn meter_in_front(&self) -> Option<u32> {
        match self.apply.first() {
            Some(Action::Meter(meter)) => Some(*meter),
            _ => None,
        }
    }
}

fn put(kind: u16, writer: &mut Writer, body: impl FnOnce(&mut Writer)) {
    let start = writer.len();
    writer.u16(kind);
    writer.u16(0);
    body(writer);
    writer.patch_length(start + 2, start);
}

/// Writes an instruction that holds actions; nothing if there are none.
fn put_actions(kind: u16, writer: &mut Writer, body: impl FnOnce(&mut Writer)) {
    let mut actions = Writer::new();
    body(&mut actions);
    if !actions.is_empty() {
        put(kind, writer, |writer| {
            writer.zeros(4);
            writer.put(actions.as_bytes());
        });
    }
}

fn split(version: Version, reader: Reader<'_>) -> Result<Bodies<'_>, Refusal> {
    let mut reader = reader.with_code(ErrorCode::OFPBIC_BAD_LEN);
    if !reader.len().is_multiple_of(8) {
        let length = reader.len();
        return Err(reader.bad_length(format!("{length} bytes of instructions")));
    }
    let mut bodies = Bodies::default();
    while !reader.is_empty() {
        let mut ahead = reader;
        let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
        if length < 8 || !length.is_multiple_of(8) || length > reader.len() {
            let what = format!("an instruction of {length} bytes");
            return Err(reader.bad_length(what));
        }
        let needed = match kind {
            GOTO | CLEAR => Some(8),
            METER if version != Version::V15 => Some(8),
            METADATA => Some(24),
            WRITE | APPLY => None,
            EXPERIMENTER => {
                let what = "an experimenter's instruction";
                return Err(refuse(ErrorCode::OFPBIC_BAD_EXPERIMENTER, what));
            }
            _ => {
                let what = format!("OpenFlow {version} has no instruction {kind}");
                return Err(refuse(ErrorCode::OFPBIC_UNKNOWN_INST, what));
            }
        };
        if needed.is_some_and(|needed| length != needed) {
            let what = format!("an instruction {kind} of {length} bytes");
            return Err(reader.bad_length(what));
        }
        let place = &mut bodies[usize::from(kind)];
        if place.is_some() {
            let what = format!("the instruction {kind} twice");
            return Err(refuse(ErrorCode::OFPBIC_DUP_INST, what));
        }
        let mut body = reader.part(length)?;
        body.skip(4)?;
        *place = Some(body);
    }
    Ok(bodies)
}
