//! Packs the bits of a key that some rule reads into few words.
//!
//! A key places fields to suit parsers and caches, and rules read few of its bits. Rules of
//! only those bits are faster to compare and smaller: a five-tuple with its EtherType takes
//! two words instead of four.
//!
//! 1. Every bit of the masks that a packing was made for is kept, each at one place.
//! 2. Bits of packed words that hold no kept bit are zero.

use super::limits::{BURST, PACKED_WORDS_MAX};

/// The mapping of key bits to packed bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Packing {
    runs: Vec<Run>,
    words: usize,
}

/// Adjacent bits that stay adjacent.
#[derive(Clone, Copy, Debug)]
struct Run {
    from_word: u16,
    from_shift: u8,
    to_word: u16,
    to_shift: u8,
    /// The bits of the run as a mask from bit 0.
    bits: u64,
}

impl Packing {
    /// Keeps the bits of a mask; `None` if they need more than [`PACKED_WORDS_MAX`] words.
    pub(super) fn new(mask: &[u64]) -> Option<Packing> {
        let mut packing = Packing::default();
        let whole = |word: &usize| mask[*word] == u64::MAX;
        for word in (0..mask.len()).filter(whole) {
            packing.push(word, 0, 64);
        }
        for word in (0..mask.len()).filter(|word| !whole(word)) {
            let mut rest = mask[word];
            let mut shift = 0;
            while rest != 0 {
                let gap = rest.trailing_zeros();
                rest >>= gap;
                shift += gap;
                let bits = rest.trailing_ones();
                packing.push(word, shift, bits);
                rest >>= bits;
                shift += bits;
            }
        }
        packing.words = packing.words.max(1);
        (packing.words <= PACKED_WORDS_MAX).then_some(packing)
    }

    /// Adds a run, in two parts if the last word has no room for all of it.
    fn push(&mut self, word: usize, shift: u32, bits: u32) {
        let used = self
            .runs
            .last()
            .map_or(64, |run| u32::from(run.to_shift) + run.bits.count_ones());
        let first = bits.min(64 - used);
        if first > 0 {
            self.runs.push(Run {
                from_word: word as u16,
                from_shift: shift as u8,
                to_word: (self.words - 1) as u16,
                to_shift: used as u8,
                bits: u64::MAX >> (64 - first),
            });
        }
        if first < bits {
            self.words += 1;
            self.runs.push(Run {
                from_word: word as u16,
                from_shift: (shift + first) as u8,
                to_word: (self.words - 1) as u16,
                to_shift: 0,
                bits: u64::MAX >> (64 - (bits - first)),
            });
        }
    }

    /// The number of words of packed keys.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Packs a key, or a rule's value or mask; `packed` has [`Packing::words`] words.
    #[inline(always)]
    pub(super) fn pack(&self, words: &[u64], packed: &mut [u64]) {
        packed.fill(0);
        for run in &self.runs {
            let bits = words[usize::from(run.from_word)] >> run.from_shift & run.bits;
            packed[usize::from(run.to_word)] |= bits << run.to_shift;
        }
    }

    /// Packs a burst of up to [`BURST`] keys of `words` words each, word by word.
    ///
    /// Word `w` of key `k` goes to `packed[w * BURST + k]`, which must be zero. It works run
    /// by run, so that a run's constants stay in registers for all keys.
    #[inline(always)]
    pub(super) fn pack_burst(&self, keys: &[u64], words: usize, packed: &mut [u64]) {
        for run in &self.runs {
            let column = &mut packed[usize::from(run.to_word) * BURST..][..BURST];
            let from = usize::from(run.from_word);
            for (packed, key) in column.iter_mut().zip(keys.chunks_exact(words)) {
                *packed |= (key[from] >> run.from_shift & run.bits) << run.to_shift;
            }
        }
    }

    /// Restores packed bits to their places.
    pub(super) fn unpack(&self, packed: &[u64], words: &mut [u64]) {
        for run in &self.runs {
            let bits = packed[usize::from(run.to_word)] >> run.to_shift & run.bits;
            words[usize::from(run.from_word)] |= bits << run.from_shift;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        let mask = [
            0xffff_0000_00ff_0001,
            u64::MAX,
            0,
            0x0fff_ffff_ffff_fff0,
            0x8000_0000_0000_0001,
        ];
        let packing = Packing::new(&mask).expect("few words");
        assert_eq!(packing.words(), 3); // 25 + 64 + 56 + 2 bits
        let key: Vec<u64> = (1..6u64)
            .map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let mut packed = [7; 3];
        packing.pack(&key, &mut packed);
        let mut burst = [0; 3 * BURST];
        packing.pack_burst(&[key.clone(), key.clone()].concat(), 5, &mut burst);
        let second: Vec<u64> = burst.into_iter().skip(1).step_by(BURST).collect();
        assert_eq!(second, packed);
        let mut back = [0; 5];
        packing.unpack(&packed, &mut back);
        let expected: Vec<u64> = key.iter().zip(mask).map(|(key, mask)| key & mask).collect();
        assert_eq!(back.to_vec(), expected);
    }

    #[test]
    fn rules_without_conditions_have_one_word_too() {
        let packing = Packing::new(&[0, 0]).expect("few words");
        assert_eq!(packing.words(), 1);
        assert!(Packing::new(&[u64::MAX; PACKED_WORDS_MAX + 1]).is_none());
    }
}
