//! Instructions (OpenFlow 1.1 and later); in OpenFlow 1.0 a list of actions.

use super::decode::decode_actions;
use super::encode::encode_actions;
use super::{Action, Instructions};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::port::PortNumber;
use crate::version::Version;
use crate::wire::{Reader, Writer};

const GOTO_TABLE: u16 = 1;
const WRITE_METADATA: u16 = 2;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;
const CLEAR_ACTIONS: u16 = 5;
const METER: u16 = 6;
const EXPERIMENTER: u16 = 0xffff;

impl Instructions {
    /// Reads the instructions, or OpenFlow 1.0's actions, that fill the reader.
    pub(crate) fn decode(version: Version, reader: Reader<'_>) -> Result<Instructions, Refusal> {
        if version == Version::V10 {
            return Instructions::from_actions(decode_actions(version, reader)?);
        }
        let mut list = reader.with_code(ErrorCode::OFPBIC_BAD_LEN);
        let mut instructions = Instructions::default();
        let mut seen = Vec::new();
        while !list.is_empty() {
            let mut start = list;
            let (kind, length) = (start.u16()?, usize::from(start.u16()?));
            if length < 8 || length % 8 != 0 {
                let what = format!("an instruction of {length} bytes");
                return Err(refuse(ErrorCode::OFPBIC_BAD_LEN, what));
            }
            let mut body = list.part(length)?;
            body.skip(4)?;
            if seen.contains(&kind) {
                let what = format!("instruction {kind} twice");
                return Err(refuse(ErrorCode::OFPBIC_DUP_INST, what));
            }
            seen.push(kind);
            instructions.read(version, kind, body)?;
        }
        Ok(instructions)
    }

    fn read(&mut self, version: Version, kind: u16, body: Reader<'_>) -> Result<(), Refusal> {
        let mut body = body;
        let fixed = |bytes: usize, body: &Reader<'_>| match body.len() == bytes {
            true => Ok(()),
            false => Err(body.bad_length(format!("instruction {kind} with {} bytes", body.len()))),
        };
        match kind {
            GOTO_TABLE => {
                fixed(4, &body)?;
                self.goto = Some(body.u8()?);
            }
            WRITE_METADATA => {
                fixed(20, &body)?;
                body.skip(4)?;
                self.metadata = Some((body.u64()?, body.u64()?));
            }
            WRITE_ACTIONS => {
                body.skip(4)?;
                self.write = Some(decode_actions(version, body)?);
            }
            APPLY_ACTIONS => {
                body.skip(4)?;
                self.apply = decode_actions(version, body)?;
            }
            CLEAR_ACTIONS => self.clear = true,
            METER if (Version::V13..=Version::V14).contains(&version) => {
                fixed(4, &body)?;
                self.meter = Some(body.u32()?);
            }
            EXPERIMENTER => {
                let what = "an experimenter's instruction";
                return Err(refuse(ErrorCode::OFPBIC_BAD_EXPERIMENTER, what));
            }
            other => {
                let what = format!("instruction {other}");
                return Err(refuse(ErrorCode::OFPBIC_UNKNOWN_INST, what));
            }
        }
        Ok(())
    }

    /// The instructions that OpenFlow 1.0's actions are: metadata has an action of its own
    /// there, which comes last.
    pub(crate) fn from_actions(mut actions: Vec<Action>) -> Result<Instructions, Refusal> {
        let mut metadata = None;
        if let Some(Action::WriteMetadata { value, mask }) = actions.last() {
            metadata = Some((*value, *mask));
            actions.pop();
        }
        let is_metadata = |action: &Action| matches!(action, Action::WriteMetadata { .. });
        if actions.iter().any(is_metadata) {
            let what = "write_metadata is the last action";
            return Err(refuse(ErrorCode::OFPBAC_UNSUPPORTED_ORDER, what));
        }
        Ok(Instructions {
            apply: actions,
            metadata,
            ..Instructions::default()
        })
    }

    /// Writes the instructions. OpenFlow 1.0 gets actions, as far as it has them: `goto_table`
    /// becomes a resubmit.
    pub(crate) fn encode(&self, version: Version, writer: &mut Writer) {
        if version == Version::V10 {
            return self.encode_10(writer);
        }
        let meter = self.meter.filter(|_| version < Version::V15);
        if let Some(meter) = meter.filter(|_| version >= Version::V13) {
            header(METER, 8, writer);
            writer.u32(meter);
        }
        let mut apply = Vec::new();
        if version >= Version::V15 {
            apply.extend(self.meter.map(Action::Meter));
        }
        apply.extend(self.apply.iter().cloned());
        if !apply.is_empty() {
            list(APPLY_ACTIONS, &apply, version, writer);
        }
        if self.clear {
            header(CLEAR_ACTIONS, 8, writer);
            writer.zeros(4);
        }
        if let Some(set) = &self.write {
            list(WRITE_ACTIONS, set, version, writer);
        }
        if let Some((value, mask)) = self.metadata {
            header(WRITE_METADATA, 24, writer);
            writer.zeros(4);
            writer.u64(value);
            writer.u64(mask);
        }
        if let Some(table) = self.goto {
            header(GOTO_TABLE, 8, writer);
            writer.u8(table);
            writer.zeros(3);
        }
    }

    fn encode_10(&self, writer: &mut Writer) {
        let mut actions = self.apply.clone();
        let metadata = self
            .metadata
            .map(|(value, mask)| Action::WriteMetadata { value, mask });
        actions.extend(metadata);
        actions.extend(self.goto.map(|table| Action::Resubmit {
            port: PortNumber::IN_PORT,
            table,
            with_ct: false,
        }));
        encode_actions(&actions, Version::V10, writer);
    }
}

fn header(kind: u16, length: u16, writer: &mut Writer) {
    writer.u16(kind);
    writer.u16(length);
}

fn list(kind: u16, actions: &[Action], version: Version, writer: &mut Writer) {
    let start = writer.len();
    header(kind, 0, writer);
    writer.zeros(4);
    encode_actions(actions, version, writer);
    writer.patch_length(start + 2, start);
}
