//! A mask in stages: tells whether any value begins like a key, and which bits show a miss.
//!
//! The values are stored elsewhere. This has the hashes of their beginnings and a trie of
//! their ends:
//!
//! ```text
//!   stages:  for each stage of the mask but the last, the hashes of the values up to its end
//!   tail:    a trie of the values' last stage
//! ```
//!
//! 1. Both have one entry for each added value, so "none" holds for all of them.

use thalweg_packet::Stage;

use crate::counting_set::CountingSet;
use crate::hash::WordHash;
use crate::key_shape::KeyShape;
use crate::masked_words::MaskedWords;
use crate::prefix_trie::{BITS_MAX, PrefixTrie};
use crate::simd::Simd;
use crate::value_hash::{ShortMask, ShortValue, ValueHash};

/// A mask, its stages, and the summary of the values under it.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    pub(crate) words: MaskedWords,
    whole: ValueHash,
    /// The hash of the early stages.
    hash: WordHash,
    stages: Box<[EarlyStage]>,
    tail: Option<Tail>,
}

/// A stage of the mask before the last: its end, and the hashes of the values up to there.
#[derive(Clone, Debug)]
struct EarlyStage {
    end: usize,
    hashes: CountingSet,
}

/// The trie of the last stage, which has one or two words.
#[derive(Clone, Debug)]
struct Tail {
    trie: PrefixTrie,
    /// The length up to the last bit of the mask.
    length: u32,
}

/// How far a key agrees with the values.
pub(crate) enum Begun {
    /// No value agrees with the key's words before this index.
    Refused(usize),
    /// Some value may agree; holds the hash so far, or the value's hash after the last stage.
    Reached(u64),
}

impl Staged {
    /// Creates the stages of a mask, without values.
    pub(crate) fn new(mask: &[u64], shape: &KeyShape, hash: WordHash) -> Staged {
        let words = MaskedWords::with_order(mask, shape.words_by_stage());
        let mut ends: Vec<usize> = Vec::new();
        let mut last = None;
        for (position, (word, _)) in words.iter().enumerate() {
            if last.replace(shape.stage(word)) != Some(shape.stage(word)) {
                ends.push(position);
            }
            *ends.last_mut().expect("just pushed") = position + 1;
        }
        ends.pop();
        let stages = ends.iter().map(|&end| EarlyStage {
            end,
            hashes: CountingSet::new(),
        });
        let tail_start = ends.last().copied().unwrap_or(0);
        let tail: Vec<(usize, u64)> = words.iter().skip(tail_start).collect();
        let tail = has_tail(&tail, mask, shape).then(|| Tail {
            trie: PrefixTrie::new(),
            length: BITS_MAX - joined(tail.iter().map(|&(_, mask)| mask)).trailing_zeros(),
        });
        Staged {
            stages: stages.collect(),
            whole: ValueHash::new(&words, hash),
            words,
            hash,
            tail,
        }
    }

    /// The hash of a key's value.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        self.whole.of_key(key)
    }

    /// As [`Staged::hash`], with these instructions; also the value, which is zero if it is
    /// not short.
    #[inline(always)]
    pub(crate) fn mask<S: Simd>(&self, simd: S, key: &[u64]) -> (ShortValue, u64) {
        match self.short() {
            Some(short) => short.of_key(simd, key),
            None => (ShortValue::default(), self.hash(key)),
        }
    }

    /// The mask as a short mask, if it has few words.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<&ShortMask> {
        self.whole.short()
    }

    /// The hash of a compact value.
    pub(crate) fn hash_value(&self, value: impl IntoIterator<Item = u64>) -> u64 {
        self.whole.of_value(value)
    }

    /// The hash of no words.
    pub(crate) fn hash_start(&self) -> u64 {
        self.hash.start()
    }

    /// The number of stages, the last included.
    pub(crate) fn stage_count(&self) -> usize {
        self.stages.len() + 1
    }

    /// The stage of a word of the key; the mask must touch the word.
    pub(crate) fn stage_of_word(&self, word: usize) -> usize {
        let position = self.words.iter().position(|(other, _)| other == word);
        let position = position.expect("the mask touches the word");
        self.stages.partition_point(|stage| stage.end <= position)
    }

    /// The index at which a stage starts in the list of words.
    fn stage_start(&self, stage: usize) -> usize {
        stage
            .checked_sub(1)
            .map_or(0, |before| self.stages[before].end)
    }

    /// Continues with a stage; refuses if no value begins like the key.
    pub(crate) fn begin(&self, stage: usize, key: &[u64], state: u64) -> Begun {
        let start = self.stage_start(stage);
        let Some(early) = self.stages.get(stage) else {
            return Begun::Reached(self.hash(key));
        };
        let state = self
            .words
            .hash_range(start..early.end, key, self.hash, state);
        match early.hashes.contains(state) {
            true => Begun::Reached(state),
            false => Begun::Refused(early.end),
        }
    }

    /// Adds the bits that show that no value is the key's; the caller knows that there is
    /// none.
    ///
    /// If no value agrees on the leading bits of the last stage that the trie names, these
    /// bits alone show it, whatever the earlier stages. Otherwise it is the whole mask.
    pub(crate) fn examine_miss(&self, key: &[u64], examined: &mut [u64]) {
        let start = self.stage_start(self.stages.len());
        let lookup = |tail: &Tail| {
            let value = joined(self.words.compact(key).skip(start));
            let found = tail.trie.lookup(value);
            (!found.has_length(tail.length)).then_some(found.examined_bits)
        };
        let Some(examined_bits) = self.tail.as_ref().and_then(lookup) else {
            self.words.add_to(0..self.words.len(), examined);
            return;
        };
        let bits = !u128::MAX.checked_shr(examined_bits).unwrap_or(0);
        let parts = [(bits >> 64) as u64, bits as u64];
        for ((word, mask), part) in self.words.iter().skip(start).zip(parts) {
            examined[word] |= mask & part;
        }
    }

    /// Adds a compact value.
    pub(crate) fn add_value(&mut self, value: &[u64]) {
        let mut state = self.hash.start();
        let mut start = 0;
        for stage in &mut self.stages {
            let words = value[start..stage.end].iter();
            state = words.fold(state, |state, &word| self.hash.step(state, word));
            stage.hashes.insert(state);
            start = stage.end;
        }
        if let Some(tail) = &mut self.tail {
            tail.trie
                .insert(joined(value[start..].iter().copied()), tail.length);
        }
    }

    /// Removes a compact value that was added.
    pub(crate) fn remove_value(&mut self, value: &[u64]) {
        let mut state = self.hash.start();
        let mut start = 0;
        for stage in &mut self.stages {
            let words = value[start..stage.end].iter();
            state = words.fold(state, |state, &word| self.hash.step(state, word));
            stage.hashes.remove(state);
            start = stage.end;
        }
        if let Some(tail) = &mut self.tail {
            tail.trie
                .remove(joined(value[start..].iter().copied()), tail.length);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let stages = self.stages.iter().map(|stage| stage.hashes.heap_bytes());
        let tail = self.tail.as_ref().map_or(0, |tail| tail.trie.heap_bytes());
        self.words.heap_bytes()
            + self.whole.heap_bytes()
            + size_of_val(&*self.stages)
            + stages.sum::<usize>()
            + tail
    }
}

/// Whether a trie of the last stage is worth its memory.
///
/// The stage must have one word (or two words of ports and the like), and bits that no prefix
/// field's trie covers.
fn has_tail(last: &[(usize, u64)], mask: &[u64], shape: &KeyShape) -> bool {
    let Some(&(word, _)) = last.last() else {
        return false;
    };
    let words_max = match shape.stage(word) {
        Stage::Transport => 2,
        _ => 1,
    };
    let covered = |word: usize| {
        let fields = shape.prefix_fields().iter();
        let masks = fields.flat_map(|field| field.masks(field.prefix_length(mask)));
        let own = masks.filter(|(covered, _)| *covered == word);
        own.fold(0, |bits, (_, mask)| bits | mask)
    };
    last.len() <= words_max && last.iter().any(|&(word, mask)| mask & !covered(word) != 0)
}

/// Joins one or two words as the leading bits of one number.
fn joined(words: impl Iterator<Item = u64>) -> u128 {
    words
        .zip([64, 0])
        .fold(0, |bits, (word, shift)| bits | u128::from(word) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TupleSpaceConfig;
    use crate::hash::hash_words;

    #[test]
    fn the_stages_follow_the_values_down() {
        let config = TupleSpaceConfig {
            stages: vec![Stage::Link, Stage::Network],
            prefix_fields: Vec::new(),
            seed: 0,
        };
        let shape = KeyShape::new(&config);
        let mut staged = Staged::new(&[0xf, 0xff], &shape, WordHash::new(1));
        let mut model: Vec<[u64; 2]> = Vec::new();
        for step in 0..20_000u64 {
            let random = |salt: u64| hash_words(salt, &[step]);
            let values_max = if step % 5_000 < 2_500 { 40 } else { 3 };
            if model.len() > values_max || random(1) % 3 == 0 && !model.is_empty() {
                let value = model.swap_remove(random(2) as usize % model.len());
                staged.remove_value(&value);
            } else {
                let value = [random(4) % 16, random(5) % 256];
                staged.add_value(&value);
                model.push(value);
            }
            let key = [random(7) % 16, 0];
            let begins = model.iter().any(|value| value[0] == key[0]);
            let begun = staged.begin(0, &key, staged.hash_start());
            assert_eq!(matches!(begun, Begun::Reached(_)), begins);
        }
    }
}
