//! An iSet: buckets of rules, sorted by the numbers of some fields, under a model.
//!
//! ```text
//!   starts   where each bucket begins, rising
//!   model    number -> window of places in `starts`
//!   groups   the rules of each bucket
//! ```
//!
//! A lookup asks the model, searches the window, and compares the rules of the only bucket
//! that can have a match (`partition`, invariant 2).

use crate::simd::{Plain, Simd};

use super::composite::Composite;
use super::groups::Groups;
use super::lane::Lane;
use super::limits::NO_SLOT;
use super::model::{Model, search};
use super::number::Number;
use super::partition::{Buckets, LANES};

/// Sorted numbers of one width, and their model.
#[derive(Clone, Debug)]
pub(super) struct Directory<N> {
    pub(super) starts: Vec<N>,
    pub(super) model: Model,
}

impl<N: Number> Directory<N> {
    /// The bucket of a number.
    #[inline(always)]
    fn bucket<S: Simd>(&self, simd: S, number: N) -> usize {
        let mut place = [0];
        self.model.predict(&[number], &mut place);
        search(simd, &self.starts, place[0], self.model.window(), number)
    }

    /// The buckets of a burst's numbers.
    #[inline(always)]
    fn burst<S: Simd>(&self, simd: S, numbers: &[N], buckets: &mut [u32], groups: &Groups) {
        self.model.predict(numbers, buckets);
        let window = self.model.window();
        for &place in &*buckets {
            crate::simd::prefetch(&self.starts, place as usize);
            crate::simd::prefetch(&self.starts, place as usize + window - 1);
        }
        for (bucket, &number) in buckets.iter_mut().zip(numbers) {
            let found = search(simd, &self.starts, *bucket, window, number);
            groups.prefetch(found);
            *bucket = found as u32;
        }
    }

    fn heap_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<N>() + self.model.heap_bytes()
    }
}

/// The directory in one of two widths.
#[derive(Clone, Debug)]
pub(super) enum Starts {
    Narrow(Directory<u64>),
    Wide(Directory<u128>),
}

/// Buckets under a model.
#[derive(Clone, Debug)]
pub(super) struct Iset {
    pub(super) composite: Composite,
    pub(super) starts: Starts,
    pub(super) groups: Groups,
    /// The best slot of any rule.
    pub(super) best: u32,
    /// The number of rules, each counted once.
    pub(super) rules: usize,
    /// The indexes of the fields in the configuration.
    pub(super) fields: Vec<usize>,
}

impl Iset {
    /// Creates an iSet from buckets of slots; `packed` writes a slot's value and mask.
    ///
    /// They have `words` words each. Masks are stored by number if `is_numbered` is set and
    /// they are few.
    pub(super) fn new(
        composite: Composite,
        fields: Vec<usize>,
        buckets: &Buckets,
        starts: Starts,
        (words, is_numbered): (usize, bool),
        mut packed: impl FnMut(u32, &mut [u64], &mut [u64]),
    ) -> Iset {
        let mut groups_of = |is_numbered| {
            let mut groups = Groups::new(words, is_numbered);
            let count = buckets.starts.len();
            let lengths = (0..count).map(|bucket| buckets.bucket(bucket).len());
            groups.reserve(lengths.map(|len| len.div_ceil(LANES).max(1)).sum());
            groups.push_groups(count);
            let mut all = 0..count;
            let is_done =
                all.all(|bucket| groups.fill(bucket, buckets.bucket(bucket), &mut packed));
            is_done.then_some(groups)
        };
        let numbered = is_numbered.then(|| groups_of(true)).flatten();
        let groups = numbered.or_else(|| groups_of(false));
        Iset {
            composite,
            starts,
            groups: groups.expect("masks that are written out are stored"),
            best: buckets.rules.iter().copied().min().unwrap_or(NO_SLOT),
            rules: 0,
            fields,
        }
    }

    /// The bucket of a key.
    #[inline(always)]
    pub(super) fn bucket<S: Simd>(&self, simd: S, key: &[u64]) -> usize {
        match &self.starts {
            Starts::Narrow(directory) => directory.bucket(simd, self.composite.narrow(key)),
            Starts::Wide(directory) => directory.bucket(simd, self.composite.wide(key)),
        }
    }

    /// The buckets of up to [`BURST`](super::limits::BURST) keys of `words` words each.
    #[inline(always)]
    pub(super) fn burst<S: Simd>(&self, simd: S, keys: &[u64], words: usize, buckets: &mut [u32]) {
        match &self.starts {
            Starts::Narrow(directory) => {
                let mut numbers = [0u64; super::limits::BURST];
                let numbers = &mut numbers[..buckets.len()];
                self.composite.narrow_burst(keys, words, numbers);
                directory.burst(simd, numbers, buckets, &self.groups);
            }
            Starts::Wide(directory) => {
                let mut numbers = [0u128; super::limits::BURST];
                for (number, key) in numbers.iter_mut().zip(keys.chunks_exact(words)) {
                    *number = self.composite.wide(key);
                }
                directory.burst(simd, &numbers[..buckets.len()], buckets, &self.groups);
            }
        }
    }

    /// The bucket of a number.
    pub(super) fn bucket_of(&self, number: u128) -> usize {
        match &self.starts {
            Starts::Narrow(directory) => directory.bucket(Plain, number as u64),
            Starts::Wide(directory) => directory.bucket(Plain, number),
        }
    }

    /// The number of buckets.
    pub(super) fn bucket_count(&self) -> usize {
        match &self.starts {
            Starts::Narrow(directory) => directory.starts.len(),
            Starts::Wide(directory) => directory.starts.len(),
        }
    }

    /// The lowest and the highest number of a bucket.
    pub(super) fn range_of(&self, bucket: usize) -> (u128, u128) {
        let start = |bucket: usize| match &self.starts {
            Starts::Narrow(directory) => directory.starts.get(bucket).map(|start| start.to_wide()),
            Starts::Wide(directory) => directory.starts.get(bucket).copied(),
        };
        let highest = u128::MAX >> (128 - self.composite.bits());
        let low = start(bucket).expect("a bucket has a start");
        (low, start(bucket + 1).map_or(highest, |next| next - 1))
    }

    pub(super) fn model(&self) -> &Model {
        match &self.starts {
            Starts::Narrow(directory) => &directory.model,
            Starts::Wide(directory) => &directory.model,
        }
    }

    /// The buckets of the keys that a pattern matches.
    pub(super) fn buckets_of(
        &self,
        value: &[u64],
        mask: &[u64],
    ) -> std::ops::RangeInclusive<usize> {
        let block = self.composite.block(value, mask);
        self.bucket_of(block.low)..=self.bucket_of(self.composite.high(block))
    }

    /// Every lane of a slot with this pattern.
    pub(super) fn lanes_of(&self, slot: u32, value: &[u64], mask: &[u64]) -> Vec<Lane> {
        let buckets = self.buckets_of(value, mask);
        let lanes = buckets.flat_map(|bucket| self.groups.bucket(bucket));
        lanes
            .filter(|(_, other)| *other == slot)
            .map(|(lane, _)| lane)
            .collect()
    }

    /// The memory of the sorted starts and the model, in bytes.
    pub(super) fn directory_bytes(&self) -> usize {
        match &self.starts {
            Starts::Narrow(directory) => directory.heap_bytes(),
            Starts::Wide(directory) => directory.heap_bytes(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.composite.heap_bytes()
            + self.directory_bytes()
            + self.groups.heap_bytes()
            + self.fields.capacity() * size_of::<usize>()
    }
}
