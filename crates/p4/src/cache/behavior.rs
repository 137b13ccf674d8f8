//! B-Cache in the switch: finds hot behaviours, remembers them whole, and evicts them on
//! changes.
//!
//! ```text
//!   packet --key--> store: there? --yes--> replay: write words, count, go on       (ingress, egress
//!                     | no                                                           apart)
//!                     v
//!                   detector: hot? --no--> walk
//!                     | yes
//!                     v
//!                   walk with a record --> report {epoch, key, behaviour} --queue--+
//!                                                                                  v
//!   change --> behaviours that it may affect leave; the epoch grows     installed if the epoch is
//!              (the control barrier: before the write returns)          still the report's
//! ```
//!
//! The key is exact over the sound vector of the pipeline, so the result of a behaviour is a
//! constant for each word. [`Unfit`] says what ends a behaviour. Its effects on the switch
//! (counters, entries that time out, registers) are repeated for every packet. The paper's
//! cache is one table before one pipeline. v1model replicates between its two pipelines, so
//! each has its own cache. The decisions of the paper's manager are made here between two
//! packets, a few reports at a time.
//!
//! A change is a barrier: when it returns, no behaviour that it may affect is left. A report
//! carries the epoch in which its packet walked; one of an older epoch is dropped, however late
//! it is read. The paper evicts what the changed entry matches in the vector, or everything. We
//! keep the key of each table lookup of a behaviour. We evict the behaviours that looked up the
//! changed table with a key that the entry matches.
//!
//! 1. An installed behaviour gives what a walk would give now, for every packet with its key.
//! 2. Nothing is installed whose packet walked before the newest change.
//! 3. Behaviours and waiting reports are bounded; those without room are counted.
//! 4. No clock: the oldest behaviour is the one installed first.
//!
//! A path that cannot be remembered is stored as unfit under its key, so its packets are not
//! found hot and recorded again and again. It is evicted as behaviours are.
//!
//! A lookup packs the key, hashes its words and makes one comparison; the detector touches two
//! counters. A record costs at most another walk, and is made for hot behaviours only. Records,
//! reports and behaviours reuse the memory of earlier ones. A change goes through the lookups
//! of its table.
//!
//! Reference: Zhang et al., *B-Cache*, sections II.B, III and IV.

pub(crate) mod analyse;
mod detector;
pub(crate) mod flow;
mod key;
pub(crate) mod known;
mod observe;
mod record;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod words;

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_packet::Instant;

pub use detector::{Detector, ROW_COUNTERS};
pub use flow::{EFFECTS_MAX, Unfit};
pub use key::KEY_WORDS_MAX;

pub(crate) use record::{Behavior, Ended, Record};

use crate::program::Program;
use crate::program::ids::{ProfileId, TableId};
use crate::program::table::{Match, MatchKind};
use crate::rest::Rest;
use crate::run::Frame;
use crate::state::{State, Update, patterns_of};

use self::flow::Flow;
use self::key::{KeyScratch, KeyShape};
use self::store::Store;

/// How behaviours are remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BehaviorConfig {
    /// Capacity of each of the two pipelines; at least 1.
    pub entries: usize,
    /// A behaviour that was seen more often than this is hot.
    pub threshold: u16,
    /// Maximum reports waiting to be installed.
    pub reports: usize,
    /// Reports handled before each packet; with 0, only [`crate::Target::install`] handles
    /// them.
    pub reports_per_packet: usize,
    /// Whether a pipeline that finds almost nothing looks up only a sample of its packets.
    pub rests: bool,
}

impl Default for BehaviorConfig {
    fn default() -> BehaviorConfig {
        BehaviorConfig {
            entries: 10_240,
            threshold: 1,
            reports: 1_024,
            reports_per_packet: 4,
            rests: true,
        }
    }
}

impl BehaviorConfig {
    /// The default, with `entries` and `threshold` replaced where given.
    pub fn sized(entries: Option<usize>, threshold: Option<u16>) -> BehaviorConfig {
        let default = BehaviorConfig::default();
        BehaviorConfig {
            entries: entries.unwrap_or(default.entries),
            threshold: threshold.unwrap_or(default.threshold),
            ..default
        }
    }
}

/// Counts of packets and behaviours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BehaviorCounts {
    /// Walks that a behaviour replaced.
    pub hits: u64,
    /// Walks made because nothing was remembered.
    pub misses: u64,
    /// Walks made without a lookup because the cache rests.
    pub rested: u64,
    /// Behaviours that the detector found hot and that could be remembered.
    pub reports: u64,
    /// Behaviours that were installed.
    pub installed: u64,
    /// Reports dropped because they predate a change.
    pub stale: u64,
    /// Reports of behaviours that were already installed.
    pub known: u64,
    /// Reports for which there was no room.
    pub no_room: u64,
    /// Behaviours evicted to make room.
    pub replaced: u64,
    /// Behaviours evicted by a change.
    pub affected: u64,
    unfit: [u64; Unfit::ALL.len()],
}

impl BehaviorCounts {
    /// Hot paths that could not be remembered for this reason.
    pub fn unfit(&self, reason: Unfit) -> u64 {
        self.unfit[reason as usize]
    }
}

/// Maximum key buffers kept for reuse by reports.
const SPARE_KEYS_MAX: usize = 16;

/// By table, the words of its key.
fn key_words(program: &Program) -> impl Iterator<Item = usize> {
    let tables = program.tables.iter();
    tables.map(|table| match table.key.is_empty() {
        true => 0,
        false => table.key_words as usize,
    })
}

/// One pipeline's cache.
#[derive(Debug)]
struct Side {
    flow: Arc<Flow>,
    shape: KeyShape,
    store: Store,
    detector: Detector,
    rest: Rest,
    /// The key of the current packet, with the values that locate its registers.
    key: Vec<u64>,
    scratch: KeyScratch,
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// The behaviour was replayed; the packet is through the pipeline.
    Done,
    /// The packet must walk.
    Cold,
    /// The packet must walk with a record.
    Hot,
}

/// A hot behaviour on its way into the cache.
#[derive(Debug)]
struct Report {
    epoch: u64,
    is_ingress: bool,
    key: Vec<u64>,
    behavior: Behavior,
}

/// The caches of a program's two pipelines.
#[derive(Debug)]
pub(crate) struct BehaviorCache {
    config: BehaviorConfig,
    /// Ingress, then egress; `None` if the keys would be too long.
    sides: [Option<Box<Side>>; 2],
    epoch: u64,
    reports: VecDeque<Report>,
    /// A spare whose memory the next record reuses.
    record: Option<Record>,
    /// Key buffers of handled reports.
    spare_keys: Vec<Vec<u64>>,
    pub(crate) counts: BehaviorCounts,
}

impl BehaviorCache {
    pub(crate) fn new(program: &Program, config: BehaviorConfig, seed: u64) -> BehaviorCache {
        let side = |is_ingress| {
            let flow = analyse::analyse(program, is_ingress);
            let shape = KeyShape::new(program, &flow)?;
            let entries = config.entries.max(1);
            Some(Box::new(Side {
                store: Store::new(entries, shape.words, key_words(program), seed),
                key: vec![0; shape.room],
                scratch: KeyScratch::default(),
                flow: Arc::new(flow),
                shape,
                detector: Detector::new(config.threshold),
                rest: Rest::new(config.rests),
            }))
        };
        BehaviorCache {
            config,
            sides: [side(true), side(false)],
            epoch: 0,
            reports: VecDeque::new(),
            record: None,
            spare_keys: Vec::new(),
            counts: BehaviorCounts::default(),
        }
    }

    /// Bits of the match vectors of ingress and egress; 0 without a cache.
    pub(crate) fn key_bits(&self) -> [u32; 2] {
        let bits = |side: &Option<Box<Side>>| side.as_ref().map_or(0, |side| side.shape.bits);
        [bits(&self.sides[0]), bits(&self.sides[1])]
    }

    /// Number of installed behaviours.
    pub(crate) fn len(&self) -> usize {
        let sides = self.sides.iter().flatten();
        sides.map(|side| side.store.len()).sum()
    }

    pub(crate) fn set_threshold(&mut self, threshold: u16) {
        self.config.threshold = threshold;
        for side in self.sides.iter_mut().flatten() {
            side.detector.set_threshold(threshold);
        }
    }

    /// Looks the packet up, and replays the behaviour on a hit.
    #[inline]
    pub(crate) fn look(
        &mut self,
        is_ingress: bool,
        program: &Program,
        frame: &mut Frame,
        (state, work_left): (&mut State, &mut u64),
        now: Instant,
    ) -> Look {
        let Some(side) = &mut self.sides[usize::from(!is_ingress)] else {
            return Look::Cold;
        };
        if !side.rest.looks() {
            self.counts.rested += 1;
            return Look::Cold;
        }
        let scratch = &mut side.scratch;
        let into = (&mut side.key[..], &side.store.hash, scratch);
        let hash = (side.shape).fill(program, frame, &mut state.cells, into);
        let key = &side.key[..side.shape.words];
        if let Some(behavior) = side.store.find(hash, key) {
            // A packet that exceeds its work limit ends on the way; the walk finds out where.
            if behavior.is_unfit || behavior.ended.work > *work_left {
                self.counts.misses += 1;
                return Look::Cold;
            }
            *work_left -= behavior.ended.work;
            self.counts.hits += 1;
            side.rest.found();
            behavior.replay(frame, &mut state.tables, &mut state.cells, now);
            return Look::Done;
        }
        self.counts.misses += 1;
        match side.detector.count(hash) {
            true => Look::Hot,
            false => Look::Cold,
        }
    }

    /// Creates an empty record for a hot packet.
    pub(crate) fn begin(&mut self, is_ingress: bool) -> Record {
        let side = self.sides[usize::from(!is_ingress)].as_mut();
        let side = side.expect("a side that looked");
        let record = self.record.take();
        let mut record = record.unwrap_or_else(|| Record::new(side.flow.clone()));
        record.begin(&side.flow, side.store.spare.pop());
        record
    }

    /// Reports a completed walk, with the frame at its end.
    pub(crate) fn report(
        &mut self,
        is_ingress: bool,
        mut record: Record,
        frame: &Frame,
        ended: Ended,
    ) {
        let is_unfit = record.unfit.is_some();
        if let Some(reason) = record.unfit {
            self.counts.unfit[reason as usize] += 1;
        }
        let behavior = record.end_with(&frame.words, ended);
        self.record = Some(record);
        if self.reports.len() >= self.config.reports {
            self.counts.no_room += 1;
            return;
        }
        let Some(side) = &self.sides[usize::from(!is_ingress)] else {
            return;
        };
        self.counts.reports += u64::from(!is_unfit);
        let mut key = self.spare_keys.pop().unwrap_or_default();
        key.clear();
        key.extend_from_slice(&side.key[..side.shape.words]);
        self.reports.push_back(Report {
            epoch: self.epoch,
            is_ingress,
            key,
            behavior,
        });
    }

    /// Handles up to `reports_per_packet` reports, before each packet.
    #[inline]
    pub(crate) fn install_some(&mut self) {
        if !self.reports.is_empty() {
            self.install(self.config.reports_per_packet);
        }
    }

    /// Handles up to `limit` waiting reports, and returns how many behaviours were installed.
    pub(crate) fn install(&mut self, limit: usize) -> usize {
        let before = self.counts.installed;
        for _ in 0..limit {
            let Some(report) = self.reports.pop_front() else {
                break;
            };
            // Invariant 2.
            if report.epoch != self.epoch {
                self.counts.stale += 1;
                continue;
            }
            let Some(side) = &mut self.sides[usize::from(!report.is_ingress)] else {
                continue;
            };
            let hash = side.store.hash.hash(&report.key);
            if side.store.find(hash, &report.key).is_some() {
                self.counts.known += 1;
                continue;
            }
            let replaced = side.store.insert(hash, &report.key, report.behavior);
            self.counts.replaced += replaced as u64;
            self.counts.installed += 1;
            if self.spare_keys.len() < SPARE_KEYS_MAX {
                self.spare_keys.push(report.key);
            }
        }
        (self.counts.installed - before) as usize
    }

    /// The control barrier: evicts everything that a change may affect.
    pub(crate) fn handle_change(&mut self, program: &Program, updates: &[Update]) {
        let mut affected = 0;
        let mut is_ours = false;
        for update in updates {
            let Some(evicted) = self.evict(program, update) else {
                continue;
            };
            affected += evicted;
            is_ours = true;
        }
        self.counts.affected += affected as u64;
        if is_ours {
            self.epoch += 1;
        }
    }

    /// Evicts what an update may affect. `None` if no such update can affect any walk.
    fn evict(&mut self, program: &Program, update: &Update) -> Option<usize> {
        match update {
            Update::InsertEntry(table, entry) | Update::ModifyEntry(table, entry) => {
                Some(self.evict_matching(program, *table, &entry.matches))
            }
            Update::DeleteEntry(table, matches, _) => {
                Some(self.evict_matching(program, *table, matches))
            }
            Update::SetDefault(table, _) => Some(self.evict_from(*table, |_, is_hit| !is_hit)),
            Update::ClearTable(table) => Some(self.evict_from(*table, |_, is_hit| is_hit)),
            Update::Member(_, profile, ..) | Update::Group(_, profile, ..) => {
                Some(self.evict_profile(program, *profile))
            }
            Update::SetCrc(..) => {
                let sides = self.sides.iter_mut().flatten();
                Some(sides.map(|side| side.store.clear()).sum())
            }
            // These are read before each lookup, executed for each packet, or used after the
            // walk.
            Update::SetRegister(..)
            | Update::SetCounter(..)
            | Update::SetEntryCounter(..)
            | Update::SetMeter(..)
            | Update::SetEntryMeter(..)
            | Update::SetValues(..)
            | Update::Mirror(..)
            | Update::Multicast(..) => None,
        }
    }

    fn evict_from(
        &mut self,
        table: TableId,
        is_affected: impl Fn(&[u64], bool) -> bool + Copy,
    ) -> usize {
        let sides = self.sides.iter_mut().flatten();
        sides.map(|side| side.store.evict(table, is_affected)).sum()
    }

    /// Evicts behaviours that looked up a table with a key that the entry matches.
    fn evict_matching(&mut self, program: &Program, table: TableId, matches: &[Match]) -> usize {
        let shape = program.table(table);
        let Ok(patterns) = patterns_of(shape, matches) else {
            // Cannot happen, as the write succeeded; if it did, nothing stale may stay.
            return self.evict_from(table, |_, _| true);
        };
        let is_exact = |kind| matches!(kind, MatchKind::Exact);
        if shape.key.iter().all(|part| is_exact(part.kind)) && patterns.len() == 1 {
            let sides = self.sides.iter_mut().flatten();
            let key = &patterns[0].value;
            let evict = |side: &mut Box<Side>| side.store.evict(table, |other, _| *other == **key);
            return sides.map(evict).sum();
        }
        self.evict_from(table, |key, _| {
            patterns.iter().any(|pattern| {
                let mut words = key.iter().zip(&pattern.value).zip(&pattern.mask);
                words.all(|((key, value), mask)| (key ^ value) & mask == 0)
            })
        })
    }

    fn evict_profile(&mut self, program: &Program, profile: ProfileId) -> usize {
        let tables = program.tables.iter().enumerate();
        let of_profile = tables.filter(|(_, table)| table.profile == Some(profile));
        let mut evicted = 0;
        for (index, _) in of_profile {
            evicted += self.evict_from(TableId(index as u32), |_, is_hit| is_hit);
        }
        evicted
    }
}
