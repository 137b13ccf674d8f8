//! Sets of words of a frame.

/// The indices of the one bits of a word, from the lowest.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(lowest)
    })
}

/// A set of words of a frame, with one bit for each.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct WordSet {
    bits: Box<[u64]>,
}

impl WordSet {
    /// Creates an empty set for a frame of `words` words.
    pub(crate) fn new(words: usize) -> WordSet {
        WordSet {
            bits: vec![0; words.div_ceil(64)].into(),
        }
    }

    /// Whether a word is in the set.
    #[inline]
    pub(crate) fn contains(&self, word: u32) -> bool {
        self.bits[word as usize / 64] >> (word % 64) & 1 == 1
    }

    /// Adds a word. Returns whether it is new.
    pub(crate) fn insert(&mut self, word: u32) -> bool {
        let is_new = !self.contains(word);
        self.bits[word as usize / 64] |= 1 << (word % 64);
        is_new
    }

    /// Removes a word.
    pub(crate) fn remove(&mut self, word: u32) {
        self.bits[word as usize / 64] &= !(1 << (word % 64));
    }

    /// Adds words. Returns whether any is new.
    pub(crate) fn extend(&mut self, words: impl IntoIterator<Item = u32>) -> bool {
        words
            .into_iter()
            .fold(false, |changed, word| self.insert(word) | changed)
    }

    /// The words in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let all = self.bits.iter().enumerate();
        all.flat_map(|(index, &bits)| ones(bits).map(move |bit| index as u32 * 64 + bit))
    }
}

impl Clone for WordSet {
    fn clone(&self) -> WordSet {
        WordSet {
            bits: self.bits.clone(),
        }
    }

    fn clone_from(&mut self, other: &WordSet) {
        self.bits.clone_from(&other.bits);
    }
}
