//! Where the value in a word of a frame comes from, while a walk is recorded.

use crate::program::ids::NodeId;

use super::layout::{Layout, PARTS_MAX, Part};
use super::words::ones;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It is what the frame has now for all packets of the segment.
    Constant,
    /// It is a part of the key, on the bits of a mask, and 0 elsewhere.
    Copy(u32, u64),
    /// It is computed from the parts of a set.
    Computed(u32),
    /// It is no function of the key: this node put it there.
    Impure(NodeId),
    /// Nothing is known of it, as nobody steers by it.
    Unknown,
}

/// Parts of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PartSet([u64; PARTS_MAX / 64]);

impl PartSet {
    fn insert(&mut self, part: u32) {
        self.0[part as usize / 64] |= 1 << (part % 64);
    }

    fn union(&mut self, other: PartSet) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(index, word)| ones(word).map(move |bit| index as u32 * 64 + bit))
    }
}

/// By what a walk wanted to steer, though it is no function of the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Obstacle {
    /// Bits of it.
    pub(crate) bits: u32,
    /// Whether the node that wants to steer has put it there itself.
    pub(crate) is_own: bool,
}

/// The origins of all words of a frame, and the bits of the key that were examined.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    by_word: Vec<Origin>,
    sets: Vec<PartSet>,
    /// Over the words of the key.
    pub(crate) mask: Vec<u64>,
    pub(crate) obstacle: Option<Obstacle>,
    /// The node that is recorded.
    pub(crate) node: NodeId,
}

impl Default for Origins {
    fn default() -> Origins {
        Origins {
            by_word: Vec::new(),
            sets: Vec::new(),
            mask: Vec::new(),
            obstacle: None,
            node: NodeId(0),
        }
    }
}

impl Origins {
    /// Begins anew with the origins at a start.
    pub(crate) fn begin(&mut self, first: &[Origin], layout: &Layout) {
        self.by_word.clear();
        self.by_word.extend_from_slice(first);
        self.sets.clear();
        self.mask.clear();
        self.mask.resize(layout.words, 0);
        self.obstacle = None;
    }

    #[inline]
    pub(crate) fn of(&self, word: u32) -> Origin {
        self.by_word[word as usize]
    }

    #[inline]
    pub(crate) fn put(&mut self, word: u32, origin: Origin) {
        self.by_word[word as usize] = origin;
    }

    /// Words become what others are.
    pub(crate) fn copy_block(&mut self, from: u32, to: u32, words: u32) {
        let from = from as usize..(from + words) as usize;
        self.by_word.copy_within(from, to as usize);
    }

    /// A word becomes another on the bits of a mask.
    pub(crate) fn copy(&mut self, from: u32, to: u32, mask: u64) {
        let origin = match self.of(from) {
            Origin::Copy(part, bits) => Origin::Copy(part, bits & mask),
            other => other,
        };
        self.put(to, origin);
    }

    /// The origin of what is computed from words.
    pub(crate) fn computed(&mut self, words: impl Iterator<Item = u32>) -> Origin {
        let mut set = PartSet::default();
        let mut impure = None;
        for word in words {
            match self.of(word) {
                Origin::Constant => {}
                Origin::Copy(part, _) => set.insert(part),
                Origin::Computed(other) => set.union(self.sets[other as usize]),
                // What this node itself has put there says more than what another has.
                Origin::Impure(node) if impure != Some(self.node) => impure = Some(node),
                Origin::Impure(_) => {}
                Origin::Unknown => return Origin::Unknown,
            }
        }
        if let Some(node) = impure {
            return Origin::Impure(node);
        }
        if set == PartSet::default() {
            return Origin::Constant;
        }
        let known = self.sets.iter().position(|other| *other == set);
        Origin::Computed(known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        }) as u32)
    }

    /// The walk goes on as it does because of these bits of a word.
    pub(crate) fn steer(&mut self, word: u32, bits: u64, layout: &Layout) {
        match self.of(word) {
            Origin::Constant => {}
            Origin::Copy(part, mask) => self.examine(&layout.parts[part as usize], bits & mask),
            Origin::Computed(set) => {
                for part in self.sets[set as usize].iter() {
                    self.examine(&layout.parts[part as usize], u64::MAX);
                }
            }
            Origin::Impure(node) => {
                let is_own = node == self.node;
                let obstacle = self.obstacle.get_or_insert_default();
                obstacle.bits += bits.count_ones();
                obstacle.is_own |= is_own;
            }
            Origin::Unknown => self.obstacle.get_or_insert_default().is_own = true,
        }
    }

    fn examine(&mut self, part: &Part, bits: u64) {
        let ones = crate::program::code::low_mask(part.width_bits.into());
        self.mask[part.into as usize] |= (bits & ones) << part.shift;
    }

    /// The bits of a word that are the same for all packets of the segment as it is now.
    pub(crate) fn fixed_bits(&self, word: u32, layout: &Layout) -> u64 {
        let examined = |part: u32| {
            let part = &layout.parts[part as usize];
            let ones = crate::program::code::low_mask(part.width_bits.into());
            (self.mask[part.into as usize] >> part.shift) & ones | !ones
        };
        match self.of(word) {
            Origin::Constant => u64::MAX,
            Origin::Copy(part, mask) => !mask | examined(part),
            Origin::Computed(set) => {
                let mut parts = self.sets[set as usize].iter();
                match parts.all(|part| examined(part) == u64::MAX) {
                    true => u64::MAX,
                    false => 0,
                }
            }
            Origin::Impure(_) | Origin::Unknown => 0,
        }
    }

    /// Whether a word is no function of the key.
    pub(crate) fn is_impure(&self, word: u32) -> bool {
        matches!(self.of(word), Origin::Impure(_) | Origin::Unknown)
    }
}
