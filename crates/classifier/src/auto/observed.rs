//! Counts lookups, and samples some of them for their keys and costs.
//!
//! 1. Nothing here changes an answer.
//! 2. Counts are read and written separately, and words of a key one by one. Threads that look
//!    up at the same time may lose some counts, and mix the words of two keys. A mixed key is
//!    a key too.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::cost::Visits;

/// The number of lookups between two samples.
pub(super) const LOOK_EVERY: u32 = 2_048;
/// The number of remembered keys.
pub(super) const KEYS: usize = 256;

/// Counts, and the keys of the last samples.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Observed {
    lookups: AtomicU64,
    until_look: AtomicU32,
    samples: AtomicU64,
    tables: AtomicU64,
    /// In picoseconds.
    cost: AtomicU64,
    /// The number of samples ever.
    looks: AtomicU64,
    words: usize,
    keys: Box<[AtomicU64]>,
}

/// The counts since the last [`Observed::restart`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) lookups: u64,
    pub(super) samples: u64,
    tables: u64,
    cost_ps: u64,
}

impl Watched {
    pub(super) fn tables_per_lookup(&self) -> f64 {
        self.tables as f64 / self.samples.max(1) as f64
    }

    pub(super) fn cost_ns(&self) -> f64 {
        self.cost_ps as f64 / 1e3 / self.samples.max(1) as f64
    }
}

impl Observed {
    /// Creates empty counts for keys of `words` words.
    pub(super) fn new(words: usize) -> Observed {
        Observed {
            lookups: AtomicU64::new(0),
            until_look: AtomicU32::new(LOOK_EVERY / 16),
            samples: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            words,
            keys: (0..KEYS * words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Counts lookups; returns whether it is time for a sample.
    #[inline(always)]
    pub(super) fn is_time(&self, lookups: u32) -> bool {
        let left = self.until_look.load(Relaxed);
        self.until_look.store(left.saturating_sub(lookups), Relaxed);
        add(&self.lookups, lookups.into());
        left <= lookups
    }

    /// Records a sample: a key and the work of its lookup.
    #[cold]
    pub(super) fn note(&self, key: &[u64], visits: Visits) {
        let looks = self.looks.load(Relaxed);
        self.looks.store(looks + 1, Relaxed);
        // The gaps vary, since traffic may have a period. The first samples are closer
        // together.
        let gap = if looks < KEYS as u64 {
            LOOK_EVERY / 16
        } else {
            LOOK_EVERY
        };
        let next = gap - (looks as u32).wrapping_mul(97) % (gap / 2);
        self.until_look.store(next, Relaxed);
        add(&self.samples, 1);
        add(&self.tables, visits.asked() as u64);
        add(&self.cost, (visits.cost_ns() * 1e3) as u64);
        let place = looks as usize % KEYS * self.words;
        for (kept, word) in self.keys[place..].iter().zip(key) {
            kept.store(*word, Relaxed);
        }
    }

    pub(super) fn read(&self) -> Watched {
        Watched {
            lookups: self.lookups.load(Relaxed),
            samples: self.samples.load(Relaxed),
            tables: self.tables.load(Relaxed),
            cost_ps: self.cost.load(Relaxed),
        }
    }

    /// Whether anything was looked up since the counts began.
    pub(super) fn is_in_use(&self) -> bool {
        self.lookups.load(Relaxed) > 0
    }

    /// The keys of the last samples, in sequence.
    pub(super) fn keys(&self) -> Vec<u64> {
        let seen = self.looks.load(Relaxed).min(KEYS as u64) as usize;
        let words = self.keys[..seen * self.words].iter();
        words.map(|word| word.load(Relaxed)).collect()
    }

    /// Resets the counts but keeps the keys.
    pub(super) fn restart(&mut self) {
        *self.lookups.get_mut() = 0;
        *self.samples.get_mut() = 0;
        *self.tables.get_mut() = 0;
        *self.cost.get_mut() = 0;
    }
}

/// Adds without one atomic step: a lost count is cheaper than a locked line for each lookup.
#[inline(always)]
fn add(sum: &AtomicU64, more: u64) {
    sum.store(sum.load(Relaxed) + more, Relaxed);
}
