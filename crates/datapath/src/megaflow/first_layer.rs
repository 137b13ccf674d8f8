//! The first layer: remembers in which sub-table a flow was last found.
//!
//! It is a vector Bloom filter of whole keys (`thalweg_classifier::bloom`) with a set for each
//! sub-table, as in Gobriel and Tai (slides on a vector Bloom filter for Open vSwitch;
//! `docs/papers.md`). Any entry that matches is right, so a verified candidate ends the
//! search.
//!
//! ```text
//!   for packet of the burst without entry:   sub-tables = filter[hash(whole key)]
//!       probe them; the first entry that matches and is not refused is the answer
//!   the others:  all sub-tables, in the order of the ranking; what is found is put in
//! ```
//!
//! Nothing depends on the filter being right. Entries that are evicted, or move to another
//! sub-table, stay in it as dead keys and age out; sub-tables' numbers are reused. Each such
//! case costs a wasted probe, which is counted and reported to the filter.
//!
//! **When it does not pay off** it is not used. Costs are counted in probes of a sub-table,
//! over windows of lookups. Only a window's second half counts, as the filter must become warm
//! first:
//!
//! ```text
//!   with the layer:  FIXED + vectors + probes of candidates + sub-tables searched for the others
//!   without:         sub-tables searched, of one burst in SAMPLE that goes past the layer
//! ```
//!
//! After a window that cost more than it saved, the layer is not used for [`REST`] windows.
//! The rest doubles each time up to [`REST_MAX`]; the trial that follows must be cheaper by a
//! fifth.
//!
//! With 169 masks the layer cuts the sub-tables searched per packet from 16.8 to 4.3, and the
//! time per packet by about a third (`thalweg bench forward --rules ipc1-100k --mode
//! megaflows`, 262,144 flows in uniform order). If a search ends after four sub-tables
//! (acl1-100k), the layer does not pay off.
//!
//! 1. The filter takes at most a sixteenth of the cache's bytes. It begins small, and doubles
//!    when more flows came since its window began than it holds.
//! 2. It starts empty again when sub-tables need more sets, and when it grows.

use thalweg_classifier::bloom::Put;
use thalweg_classifier::{VectorFilter, VectorFilterConfig};

/// Sets of a new filter.
const FEWEST_SETS: usize = 8;

/// Flows of a new filter.
const FEWEST_FLOWS: usize = 4_096;

/// Searching this many sub-tables costs less than the layer.
const FEW_SUBTABLES: usize = 4;

/// Fixed cost of the layer, besides loads and probes.
const FIXED: f64 = 1.0;

/// Cost of adding a flow.
const PUT: f64 = 1.0;

/// One burst in this many bypasses the layer, to measure the cost without it.
const SAMPLE: u32 = 64;

/// Windows of rest after the first one that did not pay off, and at most.
const REST: u64 = 16;
const REST_MAX: u64 = 256;

/// Most that a trial may cost, as a share of the search without the layer.
const TRIAL: f64 = 0.8;

/// Smallest filter that is made.
const FEWEST_BYTES: usize = 4_096;

/// The filter, and whether it is worth using.
#[derive(Debug)]
pub(super) struct FirstLayer {
    filter: VectorFilter,
    config: VectorFilterConfig,
    worth: Worth,
}

/// Decides whether the filter is used, by the cost of lookups.
#[derive(Debug, Default)]
struct Worth {
    is_resting: bool,
    /// Whether the last window paid off, so that no trial is needed.
    has_proved: bool,
    /// Lookups until this window or rest is over; its full length; the windows of the next
    /// rest.
    left: u64,
    length: u64,
    rest: u64,
    bursts: u32,
    /// Flows added since the window began.
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
    /// Creates one for a cache of this many bytes; `None` if that is too little for any
    /// filter.
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

    /// Whether this burst uses it.
    pub(super) fn is_asked(&mut self, subtables: usize) -> bool {
        self.worth.bursts = self.worth.bursts.wrapping_add(1);
        let is_sample = self.worth.bursts.is_multiple_of(SAMPLE);
        subtables > FEW_SUBTABLES && !self.worth.is_resting && !is_sample
    }

    /// Remembers where a flow was found, if the sub-table's number has a set.
    pub(super) fn put(&mut self, hash: u64, subtable: u32) {
        if (subtable as usize) < self.config.sets {
            let is_new = self.filter.put(hash, subtable as usize) != Put::Known;
            self.worth.puts += u64::from(is_new);
        }
    }

    /// Counts a burst's lookups with the layer: sub-tables probed and searched, and flows
    /// added.
    pub(super) fn note_layered(&mut self, keys: u64, probes: u64, puts: u64) {
        let fixed = FIXED + self.filter.vectors() as f64;
        let cost = keys as f64 * fixed + probes as f64 + puts as f64 * PUT;
        if self.worth.left * 2 <= self.worth.length {
            self.worth.layered.add(keys, cost);
        }
        // Invariant 1: a filter with fewer keys than requested is as large as allowed.
        let is_full = self.worth.puts > self.filter.keys() as u64;
        if is_full && self.filter.keys() >= self.config.keys {
            self.config.keys *= 2;
            self.begin();
        }
        self.pass(keys);
    }

    /// Counts a burst's lookups without the layer.
    pub(super) fn note_plain(&mut self, keys: u64, probes: u64) {
        self.worth.plain.add(keys, probes as f64);
        self.pass(keys);
    }

    /// Gives each sub-table a set; starts over if there are more sub-tables than sets.
    pub(super) fn make_room(&mut self, subtables: usize) {
        let affordable = self.config.size_bytes_max / 64 * 64;
        let wanted = subtables.next_power_of_two().min(affordable);
        if wanted > self.config.sets {
            self.config.sets = wanted;
            self.begin();
        }
    }

    /// Shrinks to the initial size.
    pub(super) fn clear(&mut self) {
        self.config.sets = FEWEST_SETS;
        self.config.keys = FEWEST_FLOWS;
        self.begin();
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.filter.size_bytes()
    }

    /// Starts over with an empty filter (invariant 2).
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
    /// A window long enough to learn as many flows as the filter holds.
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

    /// Reports lookups like Megaflow: `lookups` of them, at these costs in probes; returns how
    /// many used the layer.
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
        // Two for using it and one for the probe, instead of ten.
        let asked = pass(&mut layer, 8 * window, 1, 10);
        assert!(asked > 7 * window, "{asked} of {}", 8 * window);
        // After success, a little cheaper is enough to go on; a little dearer is not.
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
