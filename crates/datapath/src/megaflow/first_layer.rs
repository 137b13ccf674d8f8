//! The first layer: in which sub-table a flow was found before.
//!
//! A vector Bloom filter of whole keys (`thalweg_classifier::bloom`), with a set for each sub-table,
//! in the setting of Gobriel and Tai (slides on a vector Bloom filter for Open vSwitch;
//! `docs/papers.md`): whichever entry matches is right, so a candidate that is verified
//! ends the search.
//!
//! ```text
//!   for packet of the burst without entry:   sub-tables = filter[hash(whole key)]
//!       probe them; the first entry that matches and is not refused is the answer
//!   the others:  all sub-tables, in the order of the ranking; what is found is put in
//! ```
//!
//! Nothing depends on the filter being right. Entries that are evicted, or move to another
//! sub-table, stay in it as dead keys and age out; sub-tables' numbers are given again. Each of
//! these costs a probe in vain, which is counted and told to the filter.
//!
//! **When it does not pay** it is not asked. Costs are counted in probes of a sub-table, over
//! windows of lookups of which the second half counts, as the filter has to become warm first:
//!
//! ```text
//!   with the layer:  FIXED + vectors + probes of candidates + sub-tables searched for the others
//!   without:         sub-tables searched, of one burst in SAMPLE that goes past the layer
//! ```
//!
//! A window that cost more than it saved ends the asking for [`REST`] windows, for twice as many each
//! time up to [`REST_MAX`]; the trial that follows must be cheaper by a fifth.
//!
//! Nanoseconds a packet with 169 masks, 16.8 sub-tables searched without the layer and 4.3 with it
//! (`thalweg bench forward --rules ipc1-100k --mode megaflows`, 262,144 flows in uniform order, medians
//! of 10 samples of 500,000 packets, of which the first few fill the filter): 604 without, 393 with.
//! Where a search ends after four sub-tables (acl1-100k) it is not worth asking.
//!
//! 1. The filter takes a sixteenth of the bytes that the cache may take, at most; it begins small,
//!    and doubles as soon as more flows came since its window began than it holds.
//! 2. It begins anew, empty, when sub-tables need more sets, and when it grows.

use thalweg_classifier::bloom::Put;
use thalweg_classifier::{VectorFilter, VectorFilterConfig};

/// Sets that a filter begins with.
const FEWEST_SETS: usize = 8;

/// Flows that a filter begins with.
const FEWEST_FLOWS: usize = 4_096;

/// Sub-tables of which a search costs less than the layer, in whatever order.
const FEW_SUBTABLES: usize = 4;

/// What the layer costs beside its loads and probes.
const FIXED: f64 = 1.0;

/// What putting a flow in costs.
const PUT: f64 = 1.0;

/// One burst in so many goes past the layer, to see what that costs.
const SAMPLE: u32 = 64;

/// Windows without asking, after the first one that did not pay, and at most.
const REST: u64 = 16;
const REST_MAX: u64 = 256;

/// What a trial may cost of what the search costs without.
const TRIAL: f64 = 0.8;

/// The smallest filter that is made.
const FEWEST_BYTES: usize = 4_096;

/// The filter, and whether it is worth asking.
#[derive(Debug)]
pub(super) struct FirstLayer {
    filter: VectorFilter,
    config: VectorFilterConfig,
    worth: Worth,
}

/// Whether the filter is asked, by what lookups cost.
#[derive(Debug, Default)]
struct Worth {
    is_resting: bool,
    /// Whether the last window was a success, so that no trial is needed.
    has_proved: bool,
    /// Lookups until this window, or the rest, is over, and how long that is.
    left: u64,
    length: u64,
    rest: u64,
    bursts: u32,
    /// Flows put in since the window began.
    puts: u64,
    layered: Cost,
    plain: Cost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    keys: u64,
    sum: f64,
}

impl Cost {
    fn add(&mut self, keys: u64, sum: f64) {
        (self.keys, self.sum) = (self.keys + keys, self.sum + sum);
    }

    fn mean(self) -> Option<f64> {
        (self.keys > 0).then(|| self.sum / self.keys as f64)
    }
}

impl FirstLayer {
    /// For a cache of this many bytes; `None` if that is too little for any filter.
    pub(super) fn new(cache_bytes: usize, seed: u64) -> Option<FirstLayer> {
        let size_bytes_max = cache_bytes / 16;
        if size_bytes_max < FEWEST_BYTES {
            return None;
        }
        let config = VectorFilterConfig {
            sets: FEWEST_SETS,
            keys: FEWEST_FLOWS,
            size_bytes_max,
            counting: false,
            ages: true,
            seed,
        };
        let filter = VectorFilter::new(config);
        let worth = Worth::over(&filter);
        Some(FirstLayer {
            filter,
            config,
            worth,
        })
    }

    #[inline(always)]
    pub(super) fn filter(&self) -> &VectorFilter {
        &self.filter
    }

    /// Whether this burst is to ask it.
    pub(super) fn is_asked(&mut self, subtables: usize) -> bool {
        self.worth.bursts = self.worth.bursts.wrapping_add(1);
        let is_sample = self.worth.bursts.is_multiple_of(SAMPLE);
        subtables > FEW_SUBTABLES && !self.worth.is_resting && !is_sample
    }

    /// Remembers where a flow was found, if there is a set for so high a number.
    pub(super) fn put(&mut self, hash: u64, subtable: u32) {
        if (subtable as usize) < self.config.sets {
            let is_new = self.filter.put(hash, subtable as usize) != Put::Known;
            self.worth.puts += u64::from(is_new);
        }
    }

    /// What lookups of a burst came to with the layer: sub-tables probed and searched, and flows
    /// that were put in.
    pub(super) fn note_layered(&mut self, keys: u64, probes: u64, puts: u64) {
        let fixed = FIXED + self.filter.vectors() as f64;
        let cost = keys as f64 * fixed + probes as f64 + puts as f64 * PUT;
        if self.worth.left * 2 <= self.worth.length {
            self.worth.layered.add(keys, cost);
        }
        // Invariant 1: one that has fewer keys than asked for is as large as it may be.
        let is_full = self.worth.puts > self.filter.keys() as u64;
        if is_full && self.filter.keys() >= self.config.keys {
            self.config.keys *= 2;
            self.begin();
        }
        self.pass(keys);
    }

    /// What they came to without it.
    pub(super) fn note_plain(&mut self, keys: u64, probes: u64) {
        self.worth.plain.add(keys, probes as f64);
        self.pass(keys);
    }

    /// Gives each sub-table a set, by beginning anew if there are more than sets.
    pub(super) fn make_room(&mut self, subtables: usize) {
        let affordable = self.config.size_bytes_max / 64 * 64;
        let wanted = subtables.next_power_of_two().min(affordable);
        if wanted > self.config.sets {
            self.config.sets = wanted;
            self.begin();
        }
    }

    /// Is as small as at first.
    pub(super) fn clear(&mut self) {
        self.config.sets = FEWEST_SETS;
        self.config.keys = FEWEST_FLOWS;
        self.begin();
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.filter.size_bytes()
    }

    /// Invariant 2.
    fn begin(&mut self) {
        self.filter = VectorFilter::new(self.config);
        self.worth = Worth {
            is_resting: self.worth.is_resting,
            rest: self.worth.rest,
            ..Worth::over(&self.filter)
        };
    }

    fn pass(&mut self, keys: u64) {
        self.worth.left = self.worth.left.saturating_sub(keys);
        if self.worth.left == 0 {
            self.worth.decide();
        }
    }
}

impl Worth {
    /// A window long enough for as many flows as the filter holds to become known.
    fn over(filter: &VectorFilter) -> Worth {
        let length = 4 * filter.keys() as u64;
        Worth {
            left: length,
            length,
            rest: REST,
            ..Worth::default()
        }
    }

    fn decide(&mut self) {
        if self.is_resting {
            (self.is_resting, self.has_proved) = (false, false);
        } else if let (Some(layered), Some(plain)) = (self.layered.mean(), self.plain.mean()) {
            let allowed = if self.has_proved {
                plain
            } else {
                TRIAL * plain
            };
            self.has_proved = layered <= allowed;
            self.is_resting = !self.has_proved;
        }
        self.left = self.length;
        if self.is_resting {
            self.left = self.length * self.rest;
            self.rest = (self.rest * 2).min(REST_MAX);
        } else if self.has_proved {
            self.rest = REST;
        }
        self.puts = 0;
        (self.layered, self.plain) = (Cost::default(), Cost::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lookups as Megaflow reports them: of so many, each with that cost in probes.
    fn pass(layer: &mut FirstLayer, lookups: u64, with: u64, without: u64) -> u64 {
        let mut asked = 0;
        for _ in 0..lookups / 32 {
            if layer.is_asked(20) {
                layer.note_layered(32, 32 * with, 0);
                asked += 32;
            } else {
                layer.note_plain(32, 32 * without);
            }
        }
        asked
    }

    #[test]
    fn it_is_asked_while_that_is_cheaper_and_tried_again_after_a_rest() {
        let mut layer = FirstLayer::new(16 << 20, 1).expect("enough");
        let window = layer.worth.length;
        // Two for asking and one for the probe, of ten.
        let asked = pass(&mut layer, 8 * window, 1, 10);
        assert!(asked > 7 * window, "{asked} of {}", 8 * window);
        // Proved: a little cheaper is enough to go on, a little dearer is not.
        assert!(pass(&mut layer, 4 * window, 1, 4) > 3 * window);
        let asked = pass(&mut layer, (REST + 2) * window, 3, 4);
        assert!(asked <= 3 * window, "it rests: {asked}");
        // A trial must be cheaper by a fifth.
        pass(&mut layer, 2 * window, 2, 4);
        let asked = pass(&mut layer, 2 * REST * window, 2, 4);
        assert!(asked <= 2 * window, "it rests: {asked}");
        pass(&mut layer, 4 * REST * window, 1, 10);
        assert!(pass(&mut layer, 4 * window, 1, 10) > 3 * window);
    }

    #[test]
    fn few_subtables_are_searched_without_it() {
        let mut layer = FirstLayer::new(16 << 20, 1).expect("enough");
        assert!((0..200).all(|_| !layer.is_asked(FEW_SUBTABLES)));
        assert!((0..2).any(|_| layer.is_asked(FEW_SUBTABLES + 1)));
    }

    #[test]
    fn it_grows_with_flows_and_subtables_within_its_memory() {
        let bytes = 16 << 20;
        let mut layer = FirstLayer::new(bytes, 1).expect("enough");
        layer.make_room(1_000);
        assert_eq!(layer.filter.vectors(), 16);
        for round in 0..40_u64 {
            for flow in 0..200_000_u64 {
                let hash = (round * 200_000 + flow).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                layer.put(hash, flow as u32 % 1_000);
                layer.note_layered(1, 1, 1);
            }
        }
        assert!(layer.filter.keys() > 8 * FEWEST_FLOWS);
        assert!(layer.size_bytes() <= bytes / 16);
        layer.make_room(100_000_000);
        assert!(layer.size_bytes() <= bytes / 16);
        layer.put(1, u32::MAX - 1);
        layer.clear();
        assert!(layer.size_bytes() < 64 << 10);
        assert!(FirstLayer::new(1_000, 1).is_none());
    }
}
