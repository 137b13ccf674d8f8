//! Runs the parser on a packet.

use crate::program::Program;
use crate::program::headers::Headers;
use crate::program::ids::HeaderId;
use crate::program::parser::{Case, Extracted, KEY_WORDS_MAX, KeyPart, ParserStep, State};

use super::engine::{Stop, Walk};
use super::frame::Frame;
use super::outcome::{DropReason, PARSER_STATES_MAX};

/// A state's key of up to this many words uses a short buffer, which is cheap to zero.
const KEY_INLINE: usize = 4;

/// How a state ends early.
enum Halt {
    /// Parsing ends with this error number; the packet continues.
    Error(u64),
    /// The packet ends.
    Stop(Stop),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Halt {
        Halt::Stop(stop)
    }
}

impl Walk<'_> {
    /// Parses the packet. Returns the error number, 0 for none.
    pub(crate) fn parse(&mut self, frame: &mut Frame) -> Result<u64, Stop> {
        frame.parsed_bytes = 0;
        let mut next = self.program.parser.start;
        let mut visited = 0;
        while let Some(id) = next {
            visited += 1;
            if visited > PARSER_STATES_MAX {
                return Err(Stop(DropReason::ParserTooLong));
            }
            let program = self.program;
            self.spend(program.costs.state(id))?;
            let state = &program.parser.states[id.index()];
            next = match self.run_state(state, frame) {
                Ok(next) => next,
                Err(Halt::Error(error)) => return Ok(error),
                Err(Halt::Stop(stop)) => return Err(stop),
            };
        }
        Ok(0)
    }

    fn run_state(
        &mut self,
        state: &State,
        frame: &mut Frame,
    ) -> Result<Option<crate::program::ids::StateId>, Halt> {
        let program = self.program;
        let headers = &program.headers;
        let too_short = Halt::Error(program.errors.packet_too_short);
        for step in &state.steps {
            match step {
                ParserStep::Extract(extracted, length) => {
                    let length = length
                        .as_ref()
                        .map(|code| code.index(&scope(program, frame)));
                    self.extract(*extracted, length, frame)?;
                }
                ParserStep::Do(step) => self.step(step, &[], &[], frame)?,
                ParserStep::Lookahead(field, offset, bits) => {
                    if frame.rest_bytes() * 8 < (offset + bits) as usize {
                        return Err(too_short);
                    }
                    let field = headers.field(*field);
                    let range = crate::program::exact::range(field);
                    let mut words = [0; KEY_WORDS_MAX];
                    let wide = range.len().max(bits.div_ceil(64) as usize);
                    if wide > KEY_WORDS_MAX {
                        let mut words = vec![0; wide];
                        frame.read_wide(*offset as usize, *bits, &mut words);
                        let from = wide - range.len();
                        frame.words[range].copy_from_slice(&words[from..]);
                        continue;
                    }
                    frame.read_wide(*offset as usize, *bits, &mut words[..wide]);
                    let from = wide - range.len();
                    frame.words[range.clone()].copy_from_slice(&words[from..wide]);
                    let unused = range.len() as u32 * 64 - field.width_bits;
                    frame.words[range.start] &= u64::MAX >> unused;
                }
                ParserStep::Verify(condition, error) => {
                    let scope = scope(program, frame);
                    if !condition.is_true(&scope) {
                        return Err(Halt::Error(error.index(&scope)));
                    }
                }
                ParserStep::Advance(bits) => {
                    let bits = bits.index(&scope(program, frame));
                    if !bits.is_multiple_of(8) {
                        return Err(Halt::Error(program.errors.parser_invalid_argument));
                    }
                    if bits / 8 > frame.rest_bytes() as u64 {
                        return Err(too_short);
                    }
                    frame.parsed_bytes += (bits / 8) as usize;
                }
            }
        }
        self.choose(state, frame)
    }

    fn extract(
        &mut self,
        extracted: Extracted,
        length_bits: Option<u64>,
        frame: &mut Frame,
    ) -> Result<(), Halt> {
        let headers = &self.program.headers;
        let errors = &self.program.errors;
        let full = || Halt::Error(errors.stack_out_of_bounds);
        let (header, next_word) = match extracted {
            Extracted::Header(header) => (header, None),
            Extracted::Next(stack) => {
                let stack = headers.stack(stack);
                let header = frame.next_element(stack).ok_or_else(full)?;
                (header, Some(stack.next_word))
            }
            Extracted::NextUnion(stack, member) => {
                let stack = headers.union_stack(stack);
                let next = frame.words[stack.next_word as usize] as usize;
                let union = *stack.unions.get(next).ok_or_else(full)?;
                let header = headers.union(union).headers[member as usize];
                (header, Some(stack.next_word))
            }
        };
        match length_bits {
            None => {
                let bytes = headers.header(header).fixed_bits as usize / 8;
                if frame.rest_bytes() < bytes {
                    return Err(Halt::Error(errors.packet_too_short));
                }
                extract_fixed(headers, header, frame);
                frame.parsed_bytes += bytes;
            }
            Some(bits) => self.extract_varbit(header, bits, frame)?,
        }
        frame.validate(headers, header);
        if let Some(word) = next_word {
            frame.words[word as usize] += 1;
        }
        Ok(())
    }

    fn extract_varbit(
        &mut self,
        id: HeaderId,
        length_bits: u64,
        frame: &mut Frame,
    ) -> Result<(), Halt> {
        let headers = &self.program.headers;
        let errors = &self.program.errors;
        let header = headers.header(id);
        if !length_bits.is_multiple_of(8) {
            return Err(Halt::Error(errors.parser_invalid_argument));
        }
        let bytes = u64::from(header.fixed_bits / 8).saturating_add(length_bits / 8);
        if (frame.rest_bytes() as u64) < bytes {
            return Err(Halt::Error(errors.packet_too_short));
        }
        let varbit = header.varbit.expect("the loader checked it");
        if length_bits > u64::from(headers.field(varbit).width_bits) {
            return Err(Halt::Error(errors.header_too_short));
        }
        frame.words[header.varbit_length_word() as usize] = length_bits;
        let mut bit = 0;
        for id in header.fields() {
            let field = headers.field(id);
            let width = match field.is_varbit {
                true => length_bits as u32,
                false => field.width_bits,
            };
            let range = crate::program::exact::range(field);
            // Uses a scratch list, since words and bytes both belong to the frame.
            self.wide.clear();
            self.wide.resize(range.len(), 0);
            if width > 0 {
                frame.read_wide(bit, width, self.wide);
            }
            frame.words[range].copy_from_slice(self.wide);
            bit += width as usize;
        }
        frame.parsed_bytes += bytes as usize;
        Ok(())
    }

    /// Chooses the next state.
    fn choose(
        &self,
        state: &State,
        frame: &Frame,
    ) -> Result<Option<crate::program::ids::StateId>, Halt> {
        if state.cases.is_empty() {
            return Ok(state.default_next);
        }
        let mut short = [0; KEY_INLINE];
        let mut long;
        let key = match state.key_words <= KEY_INLINE {
            true => &mut short[..state.key_words],
            false => {
                long = [0; KEY_WORDS_MAX];
                &mut long[..state.key_words]
            }
        };
        let mut at = 0;
        for part in &state.key {
            let into = &mut key[at..at + part.words()];
            at += into.len();
            match part {
                KeyPart::Word(word) => into[0] = frame.words[*word as usize],
                KeyPart::Value(code, width) => {
                    code.value(&scope(self.program, frame)).put(into, *width);
                }
                KeyPart::Lookahead(offset, bits) => {
                    if frame.rest_bytes() * 8 < (offset + bits) as usize {
                        return Err(Halt::Error(self.program.errors.packet_too_short));
                    }
                    frame.read_wide(*offset as usize, *bits, into);
                }
            }
        }
        for (case, next) in &state.cases {
            let is_met = match case {
                Case::Bits(value, mask) => {
                    let words = key.iter().zip(value.iter().zip(mask));
                    words.fold(0, |differs, (key, (value, mask))| {
                        differs | key & mask ^ value
                    }) == 0
                }
                Case::InSet(place, mask) => self.is_in_set(*place, mask, key),
            };
            if is_met {
                return Ok(*next);
            }
        }
        Ok(state.default_next)
    }

    fn is_in_set(&self, place: usize, mask: &[u64], key: &[u64]) -> bool {
        let rows = &self.value_rows[place];
        let widths = &self.program.parser.uses[place].widths;
        if is_whole(mask, widths) {
            return rows.contains(key);
        }
        rows.iter().any(|row| {
            let mut words = row.iter().zip(key).zip(mask);
            words.all(|((row, key), mask)| row & mask == key & mask)
        })
    }
}

/// Whether a mask covers all bits of a key with parts of these widths.
fn is_whole(mask: &[u64], widths: &[u32]) -> bool {
    let ones: u32 = mask.iter().map(|word| word.count_ones()).sum();
    ones == widths.iter().sum::<u32>()
}

fn scope<'a>(program: &'a Program, frame: &'a Frame) -> crate::program::exact::Scope<'a> {
    crate::program::exact::Scope {
        headers: &program.headers,
        words: &frame.words,
        arguments: &[],
        parameters: &[],
    }
}

/// Extracts the fields of a header without a varbit; its bytes must exist.
fn extract_fixed(headers: &Headers, id: HeaderId, frame: &mut Frame) {
    frame.read_lanes(headers.lanes(id).unwrap_or_default());
}
