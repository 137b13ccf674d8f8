//! Turns headers into bytes: the deparser, and checksums.

use crate::program::headers::Headers;
use crate::program::ids::FieldId;

use super::engine::{Stop, Walk};
use super::frame::Frame;
use super::outcome::{DropReason, PACKET_BYTES_MAX};
use super::pack::BitWriter;
use crate::program::exact::{self, Scope};

impl Walk<'_> {
    /// Verifies all checksums that apply, and returns whether all are right.
    ///
    /// # Errors
    /// Fails if it is more work than the packet may make.
    pub(crate) fn verify_checksums(&mut self, frame: &Frame) -> Result<bool, Stop> {
        let program = self.program;
        let mut are_right = true;
        for checksum in program
            .checksums
            .iter()
            .filter(|checksum| checksum.is_verified)
        {
            let field = program.headers.field(checksum.target);
            let is_there = frame.is_valid(&program.headers, field.header)
                && self.holds(checksum.condition.as_ref(), frame);
            if is_there {
                let expected = self.calculate(checksum.calculation, frame);
                self.spend(1)?;
                are_right &= low_word(checksum.target, &program.headers, frame) == expected;
            }
        }
        Ok(are_right)
    }

    fn update_checksums(&mut self, frame: &mut Frame) -> Result<(), Stop> {
        let program = self.program;
        for checksum in program
            .checksums
            .iter()
            .filter(|checksum| checksum.is_updated)
        {
            if self.holds(checksum.condition.as_ref(), frame) {
                let value = self.calculate(checksum.calculation, frame);
                self.spend(1)?;
                let field = program.headers.field(checksum.target);
                let words = &mut frame.words[exact::range(field)];
                crate::program::code::put(value.into(), words, field.width_bits);
            }
        }
        Ok(())
    }

    fn holds(&self, condition: Option<&crate::program::code::Code>, frame: &Frame) -> bool {
        condition.is_none_or(|condition| {
            condition.is_true(&Scope {
                headers: &self.program.headers,
                words: &frame.words,
                arguments: &[],
                parameters: &[],
            })
        })
    }

    /// Appends the packet as it leaves.
    pub(crate) fn deparse(&mut self, frame: &mut Frame, into: &mut Vec<u8>) -> Result<(), Stop> {
        let program = self.program;
        let headers = &program.headers;
        self.spend(program.costs.departure + frame.packet().len() as u64 / 8)?;
        self.update_checksums(frame)?;
        for step in &program.deparser_steps {
            self.step(step, &[], &[], frame)?;
        }
        let from = into.len();
        let mut writer = BitWriter::new(into);
        for &header in &program.deparser {
            if frame.is_valid(headers, header) {
                writer.put_header(headers, header, frame);
            }
            // A deparser may name a header any number of times.
            if writer.into.len() - from > PACKET_BYTES_MAX {
                break;
            }
        }
        writer.finish();
        into.extend_from_slice(frame.payload());
        if into.len() - from > PACKET_BYTES_MAX {
            into.truncate(from);
            return Err(Stop(DropReason::TooLong));
        }
        Ok(())
    }
}

/// The lowest 64 bits of a field.
fn low_word(field: FieldId, headers: &Headers, frame: &Frame) -> u64 {
    let field = headers.field(field);
    frame.words[(field.word + field.words() - 1) as usize]
}
