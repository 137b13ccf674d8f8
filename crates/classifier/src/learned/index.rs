//! The result of training: iSets, and the rules in them.

use std::hint::select_unpredictable;

use thalweg_packet::MAX_WORDS;

use crate::cost::Visits;
use crate::merged_tuples::MergedTuples;
use crate::simd::{Level, Plain, Simd, Work};
use crate::{Pattern, Precedence, RuleId, Version};

use super::groups::Groups;
use super::iset::Iset;
use super::lane::Lane;
use super::limits::{BURST, NO_SLOT, PACKED_WORDS_MAX};
use super::packing::Packing;
use super::slots::Slots;

/// The most packed words that common rules read.
const PACKED_WORDS: usize = 2;

/// The outcome of a [`TrainingJob`](super::training::TrainingJob).
#[derive(Clone, Debug)]
pub(crate) struct Trained {
    /// The rules in no iSet, until a classifier takes them.
    pub(super) remainder: Option<Box<MergedTuples>>,
    pub(super) key_words: usize,
    pub(super) packing: Packing,
    pub(super) slots: Slots,
    pub(super) isets: Vec<Iset>,
}

impl Trained {
    /// The best slot that matches a key at a version.
    pub(super) fn best(&self, level: Level, key: &[u64], version: Version) -> u32 {
        level.run(SearchOne {
            trained: self,
            key,
            version,
        })
    }

    #[inline(always)]
    fn best_with<S: Simd>(&self, simd: S, key: &[u64], version: Version) -> u32 {
        let mut packed = [0; PACKED_WORDS_MAX];
        let packed = &mut packed[..self.packing.words()];
        self.packing.pack(key, packed);
        let mut best = NO_SLOT;
        for iset in self.isets.iter() {
            if iset.best < best {
                let bucket = iset.bucket(simd, key);
                best = iset
                    .groups
                    .improve(simd, bucket, (packed, 1), version, &self.slots, best);
            }
        }
        best
    }

    /// Like [`Trained::best`], with the iSets, long buckets and further groups that it takes.
    pub(super) fn best_visiting(&self, key: &[u64], version: Version) -> (u32, Visits) {
        let mut packed = [0; PACKED_WORDS_MAX];
        let packed = &mut packed[..self.packing.words()];
        self.packing.pack(key, packed);
        let (mut best, mut visits) = (NO_SLOT, Visits::default());
        for iset in &self.isets {
            let bucket = iset.bucket(Plain, key);
            let before = best;
            best = iset
                .groups
                .improve(Plain, bucket, (packed, 1), version, &self.slots, best);
            let further = iset.groups.compared(bucket, before, best).saturating_sub(1);
            visits.isets += 1;
            visits.long += usize::from(further > 0);
            visits.groups += further;
        }
        (best, visits)
    }

    /// Separates the rules in no iSet.
    ///
    /// # Panics
    /// If they have been taken.
    pub(super) fn split(mut self) -> (Trained, MergedTuples) {
        let remainder = self.remainder.take();
        (self, *remainder.expect("an outcome is taken once"))
    }

    /// The value and mask of a rule.
    pub(super) fn pattern(&self, slot: u32) -> (Vec<u64>, Vec<u64>) {
        let (mut value, mut mask) = (vec![0; self.key_words], vec![0; self.key_words]);
        self.pattern_into(slot, &mut value, &mut mask);
        (value, mask)
    }

    /// As [`Trained::pattern`], written to the caller's slices.
    pub(super) fn pattern_into(&self, slot: u32, value: &mut [u64], mask: &mut [u64]) {
        let iset = &self.isets[usize::from(self.slots.get(slot).iset)];
        let home = self.slots.fate(slot).home;
        let mut packed = [[0; PACKED_WORDS_MAX]; 2];
        let words = self.packing.words();
        for (word, (value, mask)) in iset.groups.words(home).enumerate() {
            (packed[0][word], packed[1][word]) = (value, mask);
        }
        value.fill(0);
        mask.fill(0);
        self.packing.unpack(&packed[0][..words], value);
        self.packing.unpack(&packed[1][..words], mask);
    }

    /// Calls `work` for every lane of a rule that is not vacant.
    fn at_lanes(&mut self, slot: u32, mut work: impl FnMut(&mut Groups, Lane)) {
        let rule = *self.slots.get(slot);
        let home = self.slots.fate(slot).home;
        let copies = rule.has_copies.then(|| {
            let (value, mask) = self.pattern(slot);
            self.isets[usize::from(rule.iset)].lanes_of(slot, &value, &mask)
        });
        let groups = &mut self.isets[usize::from(rule.iset)].groups;
        match copies {
            Some(copies) => copies.into_iter().for_each(|lane| work(groups, lane)),
            None => work(groups, home),
        }
    }

    /// Inserts a rule into an iSet, if one has room for it; returns its slot.
    ///
    /// There is room if the rule reads only bits that are kept, lies within one bucket that is
    /// not too long, and a slot is free between the better rules and the worse ones.
    pub(super) fn insert(
        &mut self,
        pattern: Pattern<'_>,
        precedence: Precedence,
        id: RuleId,
        born: Version,
    ) -> Option<u32> {
        let room = self.slots.room_for(precedence)?;
        let (value, mask) = self.packed(pattern)?;
        let buckets = self
            .isets
            .iter()
            .map(|iset| iset.buckets_of(pattern.value, pattern.mask).into_inner());
        let alone = buckets.enumerate().filter(|(_, (low, high))| low == high);
        let alone: Vec<(usize, usize)> = alone.map(|(iset, (low, _))| (iset, low)).collect();
        if !alone.is_empty() {
            for (from, to) in room.moves() {
                self.move_slot(from, to);
            }
        }
        let slot = room.slot;
        for (number, bucket) in alone {
            let iset = &mut self.isets[number];
            let Some(moves) = iset.groups.insert(bucket, slot, &value, &mask) else {
                continue;
            };
            iset.rules += 1;
            iset.best = iset.best.min(slot);
            self.slots.occupy(slot, precedence, id, number as u8, born);
            for moved in moves {
                match moved.from {
                    Lane::NONE => self.slots.add_lane(slot, moved.to),
                    from => self.slots.move_lane(moved.slot, from, moved.to),
                }
            }
            return Some(slot);
        }
        None
    }

    /// Moves a rule without copies to the vacant slot beside its own.
    fn move_slot(&mut self, from: u32, to: u32) {
        self.slots.relocate(from, to);
        let iset = &mut self.isets[usize::from(self.slots.get(to).iset)];
        iset.best = iset.best.min(to);
        iset.groups.renumber(self.slots.fate(to).home, to);
    }

    /// Reads the memory that [`Trained::insert`] would write to make room.
    pub(super) fn foresee(&self, precedence: Precedence) {
        let moves = self
            .slots
            .room_for(precedence)
            .map(super::slots::Room::moves);
        for (slot, _) in moves.into_iter().flatten() {
            let rule = self.slots.get(slot);
            let groups = &self.isets[usize::from(rule.iset)].groups;
            std::hint::black_box(groups.words(self.slots.fate(slot).home).next());
            std::hint::black_box(self.slots.find(rule.id));
        }
    }

    /// Reads the memory that a removal would write; returns whether an iSet has the rule.
    pub(super) fn foresee_removal(&self, id: RuleId) -> bool {
        let Some(slot) = self.slots.find(id) else {
            return false;
        };
        let iset = &self.isets[usize::from(self.slots.get(slot).iset)];
        let words = iset.groups.words(self.slots.fate(slot).home);
        std::hint::black_box(words.fold(0, |all, (value, mask)| all | value | mask));
        true
    }

    /// Notes that the birth of a rule can no longer be undone.
    pub(super) fn settle_birth(&mut self, slot: u32) {
        if self.slots.fate(slot).died == Version::NEVER {
            self.at_lanes(slot, |groups, lane| groups.set_plain(lane, true));
        }
    }

    /// Ends a rule.
    pub(super) fn end(&mut self, slot: u32, died: Version) {
        self.at_lanes(slot, |groups, lane| groups.set_plain(lane, false));
        self.slots.set_died(slot, died);
    }

    /// Revives a rule that was ended; no version before `settled` is looked up.
    pub(super) fn live_on(&mut self, slot: u32, settled: Version) {
        self.slots.set_died(slot, Version::NEVER);
        if self.slots.fate(slot).born <= settled {
            self.settle_birth(slot);
        }
    }

    /// Forgets a rule.
    pub(super) fn vacate(&mut self, slot: u32) {
        self.at_lanes(slot, Groups::vacate);
        self.isets[usize::from(self.slots.get(slot).iset)].rules -= 1;
        self.slots.vacate(slot);
    }

    /// The packed value and mask of a pattern, if all its bits are kept.
    pub(super) fn packed(&self, pattern: Pattern<'_>) -> Option<(Vec<u64>, Vec<u64>)> {
        let words = self.packing.words();
        let (mut value, mut mask) = (vec![0; words], vec![0; words]);
        self.packing.pack(pattern.value, &mut value);
        self.packing.pack(pattern.mask, &mut mask);
        let mut back = [0; MAX_WORDS];
        let back = &mut back[..self.key_words];
        self.packing.unpack(&mask, back);
        (back == pattern.mask).then_some((value, mask))
    }

    /// The best living rule with exactly this pattern and priority.
    pub(super) fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<u32> {
        let (value, mask) = self.packed(pattern)?;
        let words = || value.iter().copied().zip(mask.iter().copied());
        let in_isets = self.isets.iter().filter_map(|iset| {
            let block = iset.composite.block(pattern.value, pattern.mask);
            let mut rules = iset.groups.bucket(iset.bucket_of(block.low));
            let found = rules.find(|&(lane, slot)| {
                self.slots.get(slot).precedence.priority() == priority
                    && self.is_living(slot)
                    && iset.groups.words(lane).eq(words())
            });
            found.map(|(_, slot)| slot)
        });
        in_isets.min()
    }

    /// Appends the living rules at least as narrow as the pattern.
    pub(super) fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        let Some((value, mask)) = self.packed(pattern) else {
            return;
        };
        for iset in &self.isets {
            let buckets = iset.buckets_of(pattern.value, pattern.mask);
            for (lane, slot) in buckets.flat_map(|bucket| iset.groups.bucket(bucket)) {
                let rule = self.slots.get(slot);
                let mut words = iset.groups.words(lane).zip(value.iter().zip(&mask));
                let is_within =
                    |((own_value, own_mask), (value, mask)): ((u64, u64), (&u64, &u64))| {
                        mask & !own_mask == 0 && own_value & mask == *value
                    };
                // Of a rule's copies only the home counts.
                if self.slots.fate(slot).home == lane
                    && self.is_living(slot)
                    && words.all(is_within)
                {
                    found.push(rule.id);
                }
            }
        }
    }

    pub(super) fn is_living(&self, slot: u32) -> bool {
        !self.slots.get(slot).is_vacant && self.slots.fate(slot).died == Version::NEVER
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let isets = self.isets.iter().map(Iset::heap_bytes);
        isets.sum::<usize>()
            + self.isets.capacity() * size_of::<Iset>()
            + self.packing.heap_bytes()
            + self.slots.heap_bytes()
    }
}

/// The search for one key in all iSets.
struct SearchOne<'a> {
    trained: &'a Trained,
    key: &'a [u64],
    version: Version,
}

impl Work for SearchOne<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> u32 {
        self.trained.best_with(simd, self.key, self.version)
    }
}

/// The search for a burst in all iSets.
pub(super) struct Search<'a> {
    pub(super) trained: &'a Trained,
    pub(super) keys: &'a [u64],
    pub(super) version: Version,
    /// The best slot of each key; must start without any.
    pub(super) best: &'a mut [u32],
}

impl Work for Search<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let trained = self.trained;
        // Most rules take two words; room for sixteen would be 4 KiB to clear for each burst.
        let (mut few, mut many);
        let packed: &mut [u64] = match trained.packing.words() {
            0..=PACKED_WORDS => {
                few = [0; BURST * PACKED_WORDS];
                &mut few
            }
            _ => {
                many = [0; BURST * PACKED_WORDS_MAX];
                &mut many
            }
        };
        let key_words = trained.key_words;
        let count = self.best.len();
        let mut buckets = [[0; BURST]; 2];
        // While an iSet's groups are fetched, the keys are packed, or the next iSet finds its
        // buckets.
        for number in 0..=trained.isets.len() {
            if let Some(iset) = trained.isets.get(number) {
                let buckets = &mut buckets[number % 2][..count];
                iset.burst(simd, self.keys, key_words, buckets);
            }
            if number == 0 {
                trained.packing.pack_burst(self.keys, key_words, packed);
                continue;
            }
            let groups = &trained.isets[number - 1].groups;
            let buckets = &buckets[(number - 1) % 2][..count];
            for &bucket in buckets {
                groups.prefetch_next(bucket as usize);
            }
            for (key, (best, &bucket)) in self.best.iter_mut().zip(buckets).enumerate() {
                *best = groups.improve(
                    simd,
                    bucket as usize,
                    (&packed[key..], BURST),
                    self.version,
                    &trained.slots,
                    *best,
                );
                let is_none = *best == NO_SLOT;
                trained
                    .slots
                    .prefetch(select_unpredictable(is_none, 0, *best));
            }
        }
    }
}
