//! Tracks where the value in each frame word comes from while a walk is recorded.

use crate::program::ids::NodeId;

use super::layout::{Layout, PARTS_MAX, Part};
use super::words::ones;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Its current value, for all packets of the segment.
    Constant,
    /// A copy of a part of the key on the bits of a mask, and 0 elsewhere.
    Copy(u32, u64),
    /// A value computed from the parts of a set.
    Computed(u32),
    /// No function of the key: this node wrote it.
    Impure(NodeId),
    /// Not tracked, as no node steers by it.
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

/// A word by which a walk wanted to steer, though it is no function of the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Obstacle {
    /// Number of its bits.
    pub(crate) bits: u32,
    /// Whether the node that wants to steer has written it itself.
    pub(crate) is_own: bool,
}

/// The origins of all frame words, and the key bits that were examined.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    by_word: Vec<Origin>,
    sets: Vec<PartSet>,
    /// Mask over the words of the key.
    pub(crate) mask: Vec<u64>,
    pub(crate) obstacle: Option<Obstacle>,
    /// The node that is being recorded.
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
    /// Resets to the origins at a start.
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

    /// Copies the origins of a block of words to another.
    pub(crate) fn copy_block(&mut self, from: u32, to: u32, words: u32) {
        let from = from as usize..(from + words) as usize;
        self.by_word.copy_within(from, to as usize);
    }

    /// Copies the origin of a word to another, on the bits of a mask.
    pub(crate) fn copy(&mut self, from: u32, to: u32, mask: u64) {
        let origin = match self.of(from) {
            Origin::Copy(part, bits) => Origin::Copy(part, bits & mask),
            other => other,
        };
        self.put(to, origin);
    }

    /// The origin of a value computed from words.
    pub(crate) fn computed(&mut self, words: impl Iterator<Item = u32>) -> Origin {
        let mut set = PartSet::default();
        let mut impure = None;
        for word in words {
            match self.of(word) {
                Origin::Constant => {}
                Origin::Copy(part, _) => set.insert(part),
                Origin::Computed(other) => set.union(self.sets[other as usize]),
                // A value that this node itself wrote takes precedence over that of another
                // node.
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

    /// Notes that these bits of a word decide how the walk continues.
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

    /// The bits of a word that are now the same for all packets of the segment.
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
