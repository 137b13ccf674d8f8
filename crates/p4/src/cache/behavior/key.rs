//! The packed match vector of a pipeline, which is looked up exactly.
//!
//! ```text
//!   [ parts of the frame | registers ] values that registers are found by
//!     the key                            behind it, in the same list
//! ```
//!
//! Parts are packed like those of a table's key, several into a word where they fit, so that
//! the hash and the comparison go through few words. A frame word that holds fewer than 64 bits
//! has zeros above them (`program::headers`, invariant 1), so packed keys are equal exactly if
//! all parts are.
//!
//! Registers follow, each with its value. The values that locate them, mostly hashes, are a
//! function of the key, so they are computed but not compared.

use crate::packed::{KeyHash, Packing};
use crate::program::Program;
use crate::program::code::Code;
use crate::program::exact::{self, Scope};
use crate::program::expression::Expr;
use crate::program::headers::Headers;
use crate::program::ids::{CalculationId, FieldId, RegisterId};
use crate::run::engine::calculate;
use crate::run::frame::Frame;
use crate::state::Cells;

use super::flow::{Flow, Role};
use super::known::Derived;

/// Maximum 64-bit words of a key; a pipeline that needs more is not remembered.
pub const KEY_WORDS_MAX: usize = 128;

/// Bits of a word that counts elements or holds a varbit's length.
const COUNT_BITS: u32 = 32;

/// The layout of a pipeline's keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyShape {
    packing: Packing,
    /// Words that the packing fills.
    packed: usize,
    values: Vec<Value>,
    /// By derived value behind the packed words: its first word and its number of words.
    places: Vec<(u32, u32)>,
    /// Words of a key.
    pub(crate) words: usize,
    /// Words of a key and of the values behind it.
    pub(crate) room: usize,
    /// Bits of all parts together.
    pub(crate) bits: u32,
}

/// A derived value, ready to be computed.
#[derive(Clone, Debug)]
enum Value {
    Hash {
        base: Code,
        calculation: CalculationId,
        count: Code,
        given: Vec<(FieldId, Code)>,
        place: u32,
    },
    Register {
        array: RegisterId,
        size: u32,
        index: Code,
        place: (u32, u32),
    },
}

/// Buffers for computing a key: a hash's input, and fields that are temporarily replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyScratch {
    input: Vec<u8>,
    saved: Vec<u64>,
}

/// Parts of a frame in a key.
struct Packed {
    parts: Vec<(u32, usize, u32)>,
    words: usize,
    bits: u32,
}

impl Packed {
    fn new(program: &Program, flow: &Flow) -> Packed {
        let widths = word_bits(&program.headers);
        let mut inputs: Vec<(u32, u32)> = flow
            .inputs
            .iter()
            .map(|word| (widths[word as usize], word))
            .collect();
        // The widest first: narrow parts then fill the space left in a word.
        inputs.sort_unstable_by_key(|&(width, word)| (std::cmp::Reverse(width), word));
        let mut used: Vec<u32> = Vec::new();
        let (mut parts, mut bits) = (Vec::new(), 0);
        for (width, from) in inputs {
            let place = used.iter().position(|bits| bits + width <= 64);
            let place = place.unwrap_or_else(|| {
                used.push(0);
                used.len() - 1
            });
            parts.push((from, place, used[place]));
            used[place] += width;
            bits += width;
        }
        Packed {
            parts,
            words: used.len(),
            bits,
        }
    }
}

impl KeyShape {
    /// Words of a key without registers.
    pub(crate) fn packed_words(program: &Program, flow: &Flow) -> usize {
        Packed::new(program, flow).words
    }

    /// Builds the layout of a pipeline's keys; `None` if they would be too long.
    pub(crate) fn new(program: &Program, flow: &Flow) -> Option<KeyShape> {
        let Packed {
            parts,
            words,
            mut bits,
        } = Packed::new(program, flow);
        if words > KEY_WORDS_MAX {
            return None;
        }
        let mut places = vec![(0, 0); flow.derived.len()];
        let mut room = 0;
        let mut registers = 0;
        for role in [Role::Key, Role::Operand] {
            for (number, derived) in flow.derived.iter().enumerate() {
                if flow.roles[number] != role {
                    continue;
                }
                places[number] = (room, derived.words(program));
                room += places[number].1;
                if let (Role::Key, Derived::Register { array, .. }) = (role, derived) {
                    bits += program.arrays.registers[array.index()].width_bits;
                    registers = room;
                }
            }
        }
        let code = |expr: &Expr| Code::exact(expr.clone(), &program.headers, &places);
        let value = |(number, derived): (usize, &Derived)| match derived {
            _ if flow.roles[number] == Role::Unused => None,
            Derived::Hash {
                base,
                calculation,
                count,
                given,
            } => Some(Value::Hash {
                base: code(base),
                calculation: *calculation,
                count: code(count),
                given: given.iter().map(|(to, value)| (*to, code(value))).collect(),
                place: places[number].0,
            }),
            Derived::Register { array, index } => Some(Value::Register {
                array: *array,
                size: program.arrays.registers[array.index()].size,
                index: code(index),
                place: places[number],
            }),
        };
        Some(KeyShape {
            packing: Packing::new(words, parts),
            packed: words,
            values: flow.derived.iter().enumerate().filter_map(value).collect(),
            words: words + registers as usize,
            room: words + room as usize,
            places,
            bits,
        })
    }

    /// Packs the key of a frame at the beginning of the pipeline, and returns its hash. Leaves
    /// the frame as it was.
    #[inline]
    pub(crate) fn fill(
        &self,
        program: &Program,
        frame: &mut Frame,
        cells: &mut Cells,
        (key, hash, scratch): (&mut [u64], &KeyHash, &mut KeyScratch),
    ) -> u64 {
        if self.values.is_empty() {
            return self.packing.pack_and_hash(hash, &frame.words, key);
        }
        let (packed, values) = key.split_at_mut(self.packed);
        self.packing.pack(&frame.words, packed);
        for value in &self.values {
            self.derive(value, program, (frame, cells), (values, scratch));
        }
        hash.hash(&key[..self.words])
    }

    /// Computes one value from those before it.
    fn derive(
        &self,
        value: &Value,
        program: &Program,
        (frame, cells): (&mut Frame, &mut Cells),
        (values, scratch): (&mut [u64], &mut KeyScratch),
    ) {
        let headers = &program.headers;
        match value {
            Value::Hash {
                base,
                calculation,
                count,
                given,
                place,
            } => {
                let scope = self.scope(headers, frame, values);
                let (base, count) = (base.low_bits(&scope) as u64, count.low_bits(&scope) as u64);
                scratch.saved.clear();
                for (to, _) in given {
                    let words = &frame.words[exact::range(headers.field(*to))];
                    scratch.saved.extend_from_slice(words);
                }
                // No value depends on another: all come from the original frame.
                let from = scratch.saved.len();
                for (to, value) in given {
                    let field = headers.field(*to);
                    let value = value.value(&self.scope(headers, frame, values));
                    let first = scratch.saved.len();
                    scratch.saved.resize(first + field.words() as usize, 0);
                    value.put(&mut scratch.saved[first..], field.width_bits);
                }
                put_back(headers, given, frame, &scratch.saved[from..]);
                let hash = calculate(program, cells, &mut scratch.input, *calculation, frame);
                put_back(headers, given, frame, &scratch.saved[..from]);
                values[*place as usize] = (hash % count.max(1)).wrapping_add(base);
            }
            Value::Register {
                array,
                size,
                index,
                place: (first, words),
            } => {
                let index = index.index(&self.scope(headers, frame, values));
                let value = &mut values[*first as usize..(first + words) as usize];
                // A path that reads past the end is a fault and is not remembered.
                value.fill(0);
                if index < u64::from(*size) {
                    let from = index as usize * *words as usize;
                    let cells = &cells.registers[array.index()];
                    value.copy_from_slice(&cells[from..from + *words as usize]);
                }
            }
        }
    }

    fn scope<'a>(&'a self, headers: &'a Headers, frame: &'a Frame, values: &'a [u64]) -> Scope<'a> {
        Scope {
            headers,
            words: &frame.words,
            arguments: values,
            parameters: &self.places,
        }
    }
}

/// Writes saved values back to their fields, in order.
fn put_back(headers: &Headers, given: &[(FieldId, Code)], frame: &mut Frame, mut values: &[u64]) {
    for (to, _) in given {
        let words = &mut frame.words[exact::range(headers.field(*to))];
        let (own, rest) = values.split_at(words.len());
        words.copy_from_slice(own);
        values = rest;
    }
}

/// How many bits each word of a frame holds.
pub(crate) fn word_bits(headers: &Headers) -> Vec<u32> {
    let mut bits = vec![COUNT_BITS; headers.initial.len()];
    for field in &headers.fields {
        let mut rest = field.width_bits;
        for word in field.word..field.word + field.words() {
            bits[word as usize] = (rest - 1) % 64 + 1;
            rest -= bits[word as usize];
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_each_field_hold_its_bits() {
        let program = Program::from_json(include_str!("../../../testdata/router.json"));
        let headers = program.expect("a program").headers;
        let bits = word_bits(&headers);
        for field in &headers.fields {
            let words = field.word as usize..(field.word + field.words()) as usize;
            let sum: u32 = bits[words].iter().sum();
            assert_eq!(sum, field.width_bits, "{}", field.name);
        }
    }
}
