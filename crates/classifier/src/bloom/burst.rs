//! Looks up a burst of keys through the first layer, so that their waits for memory overlap.
//!
//! ```text
//!   for each filter that some key needs:
//!       hash each open key, and ask for its block; then test the blocks
//!       list the candidates of each key; search them all (`tuple_space::probes`)
//! ```
//!
//! A key is open as long as a rule of the filter's sub-tables could beat its best one. The
//! work of a burst is compiled for each set of instructions ([`Level`](crate::simd::Level)).

use crate::simd::{Simd, Work};
use crate::tuple_space::{BURST, Best, Masked, OfOpen, TupleSpace, Wanted, is_settled};
use crate::{RuleId, Version};

use super::flows::Flows;
use super::groups::{GONE, Group, Groups, Member};
use super::own::OwnBits;
use super::statistics::Tally;
use super::{Bloom, KEYS_PER_LOOK};

/// The number of sets of a vector.
const SETS: usize = u64::BITS as usize;

/// A burst lookup, compiled for each set of instructions.
struct OfBurst<'a> {
    bloom: &'a Bloom,
    keys: &'a [u64],
    version: Version,
    answers: &'a mut [Option<RuleId>],
}

impl Work for OfBurst<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.bloom
            .lookup_burst(simd, self.keys, self.version, self.answers);
    }
}

/// The state of a burst.
struct Burst<'a, S> {
    simd: S,
    rules: &'a TupleSpace,
    keys: &'a [u64],
    version: Version,
    count: usize,
    best: [Best; BURST],
    /// Whether the flows may have found rules before the rules are searched.
    has_hints: bool,
    tally: Tally,
}

/// All places of a burst.
const ALL: [u8; BURST] = {
    let mut places = [0; BURST];
    let mut place = 0;
    while place < BURST {
        places[place] = place as u8;
        place += 1;
    }
    places
};

/// The places of the keys that are open.
struct Open {
    places: [u8; BURST],
    count: usize,
}

impl Open {
    /// The first `count` places.
    #[inline(always)]
    fn all(count: usize) -> Open {
        Open { places: ALL, count }
    }

    /// Those of the first `count` places for which a condition holds.
    #[inline(always)]
    fn of(count: usize, mut is_open: impl FnMut(usize) -> bool) -> Open {
        let mut open = Open {
            places: [0; BURST],
            count: 0,
        };
        for place in 0..count {
            open.places[open.count] = place as u8;
            open.count += usize::from(is_open(place));
        }
        open
    }

    #[inline(always)]
    fn places(&self) -> &[u8] {
        &self.places[..self.count]
    }
}

impl Bloom {
    /// Looks up keys, 32 at a time.
    pub(super) fn lookup_bursts(
        &self,
        keys: &[u64],
        version: Version,
        answers: &mut [Option<RuleId>],
    ) {
        let words = self.rules.words();
        assert_eq!(keys.len(), words * answers.len(), "keys of another layout");
        for (keys, answers) in keys.chunks(words * BURST).zip(answers.chunks_mut(BURST)) {
            self.count(keys, answers.len(), version);
            if !self.is_asked() {
                self.counts.bypass(answers.len() as u32);
                self.rules.lookup_burst(keys, version, answers);
                continue;
            }
            crate::simd::prefetch_words(keys);
            self.level.run(OfBurst {
                bloom: self,
                keys,
                version,
                answers,
            });
        }
    }

    #[inline(always)]
    fn lookup_burst<S: Simd>(
        &self,
        simd: S,
        keys: &[u64],
        version: Version,
        answers: &mut [Option<RuleId>],
    ) {
        let mut burst = Burst {
            simd,
            rules: &self.rules,
            keys,
            version,
            count: answers.len(),
            best: [None; BURST],
            has_hints: self.flows.is_some(),
            tally: Tally {
                lookups: answers.len() as u32,
                ..Tally::default()
            },
        };
        match &self.flows {
            Some(flows) => self.find_by_flows(&mut burst, flows),
            None => self.search_burst(&mut burst, None),
        }
        self.counts.add(burst.tally);
        for (answer, best) in answers.iter_mut().zip(&burst.best) {
            *answer = best.map(|(_, id)| id);
        }
    }

    /// Searches by the flows, then the rest for keys whose hits do not count, and adds these.
    #[inline(always)]
    fn find_by_flows<S: Simd>(&self, burst: &mut Burst<'_, S>, flows: &Flows) {
        let hashes = burst.probe_flows(flows);
        let hinted = burst.best;
        if flows.is_disjoint() {
            let open = Open::of(burst.count, |place| hinted[place].is_none());
            if open.count == 0 {
                return;
            }
            self.search_burst(burst, Some(open));
        } else {
            self.search_burst(burst, None);
        }
        for place in 0..burst.count {
            if burst.best[place] != hinted[place] {
                self.learn(flows, hashes[place], burst.best[place]);
            }
        }
    }

    /// Searches every sub-table that no filter of rules excludes, for all keys or some.
    #[inline(always)]
    fn search_burst<S: Simd>(&self, burst: &mut Burst<'_, S>, open: Option<Open>) {
        if let Some(common) = &self.common {
            burst.search_common(common);
        } else if let Some(own) = &self.own {
            burst.search_own(own);
        } else {
            let mut open = open.unwrap_or_else(|| Open::all(burst.count));
            burst.tally.searches += open.count as u32;
            let places = &mut open.places[..open.count];
            self.rules.search_burst(
                burst.simd,
                burst.keys,
                burst.version,
                places,
                &mut burst.best,
            );
        }
    }
}

impl<S: Simd> Burst<'_, S> {
    #[inline(always)]
    fn key(&self, place: u8) -> &[u64] {
        let words = self.rules.words();
        &self.keys[usize::from(place) * words..][..words]
    }

    /// The keys for which a rule of this precedence could be the best.
    #[inline(always)]
    fn open_to(&self, highest: crate::Precedence) -> Open {
        Open::of(self.count, |place| !is_settled(self.best[place], highest))
    }

    /// Probes the sub-tables where the whole keys may have been found; returns the keys'
    /// hashes.
    #[inline(always)]
    fn probe_flows(&mut self, flows: &Flows) -> [u64; BURST] {
        let filter = flows.filter();
        let mut hashes = [0; BURST];
        for (place, hash) in hashes[..self.count].iter_mut().enumerate() {
            *hash = filter.hash_with(self.simd, self.key(place as u8));
        }
        let tests = filter.prepare(&hashes, self.count);
        for vector in 0..filter.vectors() {
            if vector + 1 < filter.vectors() {
                filter.prefetch_all(&tests, vector + 1);
            }
            self.tally.filters += self.count as u32;
            let mut found = [0; BURST];
            filter.find_all(self.simd, &tests, vector, &mut found);
            let first = vector as u32 * u64::BITS;
            let rules = self.rules;
            let wants = |set, _: Best| {
                let number = first + set as u32;
                rules.has_subtable(number).then_some(number)
            };
            let all = Open::all(self.count);
            self.search_sets(all.places(), &found, wants, |wanted| {
                filter.note_false(hashes[usize::from(wanted.place)], wanted.number as usize);
            });
        }
        hashes
    }

    #[inline(always)]
    fn search_common(&mut self, common: &Groups) {
        for (number, group) in common.groups.iter().enumerate() {
            let open = match number {
                0 if !self.has_hints => Open::all(self.count),
                _ => self.open_to(group.highest),
            };
            if open.count > 0 {
                self.search_group(group, &open);
            }
        }
        if common.open.is_empty() {
            return;
        }
        let mut masked = Masked::new();
        for member in &common.open {
            let open = self.open_to(member.highest);
            if open.count > 0 {
                self.tally.visited += open.count as u32;
                let keys = OfOpen {
                    keys: self.keys,
                    open: open.places(),
                };
                let (simd, version, best) = (self.simd, self.version, &mut self.best);
                self.rules
                    .search_one(simd, member.number, keys, version, &mut masked, best);
            }
        }
    }

    #[inline(always)]
    fn search_group(&mut self, group: &Group, open: &Open) {
        let mut hashes = [0; BURST];
        let (keys, width, places) = (self.keys, self.rules.words(), open.places());
        group
            .hash
            .of_each(self.simd, keys, width, places, &mut hashes);
        self.tally.filters += open.count as u32;
        let tests = group.filter.prepare(&hashes, open.count);
        let mut found = [0; BURST];
        group.filter.find_all(self.simd, &tests, 0, &mut found);
        let wants = |set, best| {
            let Member { number, highest } = group.members[set];
            let is_open = number != GONE && !is_settled(best, highest);
            is_open.then_some(number)
        };
        self.search_sets(places, &found, wants, |_| ());
    }

    /// Searches the sub-tables of the sets that each key may be in.
    #[inline(always)]
    fn search_sets(
        &mut self,
        places: &[u8],
        found: &[u64; BURST],
        wants: impl Fn(usize, Best) -> Option<u32>,
        mut note_false: impl FnMut(Wanted),
    ) {
        // Room for one set of each of 32 keys, and for all sets of one more.
        let mut wanted = [Wanted::default(); BURST + SETS];
        let mut at = 0;
        while at < places.len() {
            let mut count = 0;
            while at < places.len() && count <= BURST {
                let place = places[at];
                let best = self.best[usize::from(place) % BURST];
                let mut sets = found[at % BURST];
                while sets != 0 {
                    let set = sets.trailing_zeros() as usize;
                    sets &= sets - 1;
                    if let Some(number) = wants(set, best) {
                        wanted[count] = Wanted { place, number };
                        count += 1;
                    }
                }
                at += 1;
            }
            self.search_wanted(&wanted[..count], &mut note_false);
        }
    }

    fn search_own(&mut self, own: &OwnBits) {
        for (number, highest) in self.rules.ranking() {
            let open = self.open_to(highest);
            if open.count == 0 {
                break;
            }
            self.tally.filters += open.count as u32;
            let subtable = self.rules.subtable(number);
            let mut hashes = [0; BURST];
            for (&place, hash) in open.places().iter().zip(&mut hashes) {
                *hash = subtable.staged.hash(self.key(place));
                own.prefetch(number, *hash);
            }
            let (mut wanted, mut count) = ([Wanted::default(); BURST], 0);
            for (&place, hash) in open.places().iter().zip(hashes) {
                wanted[count] = Wanted { place, number };
                count += usize::from(own.may_have(number, hash));
            }
            self.search_wanted(&wanted[..count], |_| ());
        }
    }

    /// Does the searches that a filter suggested; passes those that found nothing to
    /// `note_false`.
    #[inline(always)]
    fn search_wanted(&mut self, wanted: &[Wanted], note_false: impl FnMut(Wanted)) {
        self.tally.candidates += wanted.len() as u32;
        let (simd, keys, version) = (self.simd, self.keys, self.version);
        let best = &mut self.best;
        self.tally.falses += self
            .rules
            .search_wanted(simd, wanted, keys, version, best, note_false);
    }
}

const _: () = assert!(KEYS_PER_LOOK <= BURST);
