//! The match vector of a pipeline, packed: what is looked up exactly.
//!
//! Parts are packed as those of a table's key are, several into a word where they fit, so that the
//! hash and the comparison have few words to go through. A word of a frame that holds less than 64
//! bits has zeros above them (`program::headers`, invariant 1), so packed keys are equal exactly if
//! all parts are.

use crate::packed::{KeyHash, Packing};
use crate::program::Program;
use crate::program::headers::Headers;
use crate::run::exact::Scope;
use crate::state::Cells;

use super::flow::{Flow, KeyedRegister};

/// Words of 64 bits that a key may have; a pipeline that needs more is not remembered.
pub const KEY_WORDS_MAX: usize = 128;

/// Bits of a word that counts elements, or says how long a varbit is.
const COUNT_BITS: u32 = 32;

/// What a key is made of.
#[derive(Clone, Debug)]
pub(crate) struct KeyShape {
    packing: Packing,
    /// Words that the packing fills.
    packed: usize,
    registers: Vec<RegisterPart>,
    /// Words of a key.
    pub(crate) words: usize,
    /// Bits of all parts together.
    pub(crate) bits: u32,
}

#[derive(Clone, Debug)]
struct RegisterPart {
    register: KeyedRegister,
    size: u32,
    cell_words: usize,
    word: usize,
}

impl KeyShape {
    /// The shape of a pipeline's keys; none if they would be too long.
    pub(crate) fn new(program: &Program, flow: &Flow) -> Option<KeyShape> {
        let widths = word_bits(&program.headers);
        let mut inputs: Vec<(u32, u32)> = flow
            .inputs
            .iter()
            .map(|word| (widths[word as usize], word))
            .collect();
        // The widest first: what is left in a word is filled by narrow ones.
        inputs.sort_unstable_by_key(|&(width, word)| (std::cmp::Reverse(width), word));
        let mut used: Vec<u32> = Vec::new();
        let mut parts = Vec::new();
        let mut bits = 0;
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
        let mut shape = KeyShape {
            packing: Packing::new(used.len(), parts),
            packed: used.len(),
            registers: Vec::new(),
            words: used.len(),
            bits,
        };
        for register in &flow.registers {
            let array = &program.arrays.registers[register.array.index()];
            let cell_words = array.width_bits.div_ceil(64) as usize;
            shape.registers.push(RegisterPart {
                register: register.clone(),
                size: array.size,
                cell_words,
                word: shape.words,
            });
            shape.words += cell_words;
            shape.bits += array.width_bits;
        }
        (shape.words <= KEY_WORDS_MAX).then_some(shape)
    }

    /// Packs the key of a frame at the beginning of the pipeline; its hash.
    #[inline]
    pub(crate) fn fill(
        &self,
        headers: &Headers,
        words: &[u64],
        cells: &Cells,
        (key, hash): (&mut [u64], &KeyHash),
    ) -> u64 {
        if self.registers.is_empty() {
            return self.packing.pack_and_hash(hash, words, key);
        }
        self.packing.pack(words, &mut key[..self.packed]);
        for part in &self.registers {
            key[part.word..part.word + part.cell_words].fill(0);
            let scope = Scope {
                headers,
                words,
                arguments: &[],
                parameters: &[],
            };
            let index = part.register.index.index(&scope);
            // A way that reads past the end is at fault, and not remembered.
            if index < part.size.into() {
                let first = index as usize * part.cell_words;
                let array = part.register.array.index();
                let cell = &cells.registers[array][first..first + part.cell_words];
                key[part.word..part.word + part.cell_words].copy_from_slice(cell);
            }
        }
        hash.hash(key)
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
