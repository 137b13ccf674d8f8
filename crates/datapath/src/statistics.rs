//! The counters of the caches: every event has a reason and a number.

use thalweg_pipeline::Drops;

use crate::outcome::Outcome;

/// Why an entry left the megaflow cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EvictReason {
    /// Its room was needed, and it had not been used since the second-chance hand last passed.
    Capacity,
    /// No packet had used it for [`MegaflowConfig::max_idle`].
    ///
    /// [`MegaflowConfig::max_idle`]: crate::MegaflowConfig::max_idle
    Idle,
    /// A change of the rules changed its packets' answers, or its region.
    Changed,
    /// A change made it equal to another entry.
    Duplicate,
    /// It led to or resumed a frozen walk whose number was withdrawn.
    OldContinuation,
    /// It had one of the rarest masks when there was no room for others.
    RareMask,
    /// Everything was evicted: keys have a new layout, or the maintainer flushes.
    Flushed,
}

impl EvictReason {
    /// All reasons.
    pub const ALL: [EvictReason; 7] = [
        EvictReason::Capacity,
        EvictReason::Idle,
        EvictReason::Changed,
        EvictReason::Duplicate,
        EvictReason::OldContinuation,
        EvictReason::RareMask,
        EvictReason::Flushed,
    ];

    /// The reason's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            EvictReason::Capacity => "capacity",
            EvictReason::Idle => "idle",
            EvictReason::Changed => "changed",
            EvictReason::Duplicate => "duplicate",
            EvictReason::OldContinuation => "old_continuation",
            EvictReason::RareMask => "rare_mask",
            EvictReason::Flushed => "flushed",
        }
    }
}

/// Why something was not remembered, or not done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefuseReason {
    /// The frame was shorter than an Ethernet header.
    Runt,
    /// The frame was too long to find headers in it.
    Giant,
    /// A packet had been looked up too often.
    TooManyPasses,
    /// There was no room for another continuation.
    ContinuationsFull,
    /// The limit on masks was reached. The packet is answered by its walk and makes no entry;
    /// a repaired entry gets the mask of a single key.
    MasksFull,
    /// A new flow was not admitted to the exact-match cache.
    NotAdmitted,
    /// The entry alone is larger than the cache's limit.
    TooLarge,
}

impl RefuseReason {
    /// All reasons.
    pub const ALL: [RefuseReason; 7] = [
        RefuseReason::Runt,
        RefuseReason::Giant,
        RefuseReason::TooManyPasses,
        RefuseReason::ContinuationsFull,
        RefuseReason::MasksFull,
        RefuseReason::NotAdmitted,
        RefuseReason::TooLarge,
    ];

    /// The reason's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            RefuseReason::Runt => "runt",
            RefuseReason::Giant => "giant",
            RefuseReason::TooManyPasses => "too_many_passes",
            RefuseReason::ContinuationsFull => "continuations_full",
            RefuseReason::MasksFull => "masks_full",
            RefuseReason::NotAdmitted => "not_admitted",
            RefuseReason::TooLarge => "too_large",
        }
    }

    /// Whether the packet is lost.
    pub fn drops_packet(self) -> bool {
        matches!(
            self,
            RefuseReason::Runt
                | RefuseReason::Giant
                | RefuseReason::TooManyPasses
                | RefuseReason::ContinuationsFull
        )
    }
}

/// Counters of one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Entries added.
    pub insertions: u64,
}

impl CacheCounters {
    fn add(&mut self, other: CacheCounters) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.insertions += other.insertions;
    }
}

/// Counts of the work of lookups in the wildcard cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LookupCounters {
    /// Sub-tables searched for keys, including candidates.
    pub subtables: u64,
    /// Keys looked up in a learned index.
    pub learned: u64,
    /// Of these, keys whose entry waits for its repair, so that sub-tables were searched.
    pub learned_refused: u64,
    /// Keys looked up in the first layer, if there is one.
    pub asked: u64,
    /// Keys that bypassed it, as it does not pay off, or to see whether it does.
    pub bypassed: u64,
    /// Sub-tables that it named.
    pub candidates: u64,
    /// Of these, sub-tables without an entry for the key.
    pub false_candidates: u64,
    /// Keys not found, with some sub-tables left out because searching them does not pay off.
    pub cut: u64,
    /// Of these, keys with an entry, which a walk found.
    pub unsearched: u64,
}

impl LookupCounters {
    fn add(&mut self, other: LookupCounters) {
        self.subtables += other.subtables;
        self.learned += other.learned;
        self.learned_refused += other.learned_refused;
        self.asked += other.asked;
        self.bypassed += other.bypassed;
        self.candidates += other.candidates;
        self.false_candidates += other.false_candidates;
        self.cut += other.cut;
        self.unsearched += other.unsearched;
    }
}

/// Counters of a datapath since it was created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Packets received.
    pub packets: u64,
    /// The exact-match cache.
    pub microflow: CacheCounters,
    /// The wildcard cache.
    pub megaflow: CacheCounters,
    /// Packets that the interpreter answered.
    pub upcalls: u64,
    /// Packets answered by the rules, without an upcall.
    pub computed: u64,
    /// Packets looked up again.
    pub recirculations: u64,
    /// Repairs whose walk was repeated without memory, as that had made the mask too long.
    pub walked_anew: u64,
    /// Trainings of the wildcard cache's learned index that were installed.
    pub trainings: u64,
    /// The work of lookups in the wildcard cache.
    pub lookups: LookupCounters,
    /// Dropped packets and copies.
    pub(crate) drops: Drops,
    evictions: [u64; EvictReason::ALL.len()],
    refusals: [u64; RefuseReason::ALL.len()],
    outcomes: [u64; Outcome::ALL.len()],
}

impl Statistics {
    /// Adds the counters of another datapath of the same switch.
    pub fn add(&mut self, other: &Statistics) {
        self.packets += other.packets;
        self.microflow.add(other.microflow);
        self.megaflow.add(other.megaflow);
        self.upcalls += other.upcalls;
        self.computed += other.computed;
        self.recirculations += other.recirculations;
        self.walked_anew += other.walked_anew;
        self.trainings += other.trainings;
        self.lookups.add(other.lookups);
        self.drops.add(&other.drops);
        let evictions = self.evictions.iter_mut().zip(other.evictions);
        let refusals = self.refusals.iter_mut().zip(other.refusals);
        let outcomes = self.outcomes.iter_mut().zip(other.outcomes);
        for (sum, count) in evictions.chain(refusals).chain(outcomes) {
            *sum += count;
        }
    }

    /// Dropped packets and copies, by the name of the reason; zeros are left out.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let refusals = RefuseReason::ALL
            .into_iter()
            .filter(|reason| reason.drops_packet());
        let refusals = refusals.map(|reason| (reason.name(), self.refusals(reason)));
        self.drops
            .iter()
            .chain(refusals.filter(|(_, count)| *count > 0))
    }

    /// Entries that left the wildcard cache for this reason.
    pub fn evictions(&self, reason: EvictReason) -> u64 {
        self.evictions[reason as usize]
    }

    /// How often something was refused for this reason.
    pub fn refusals(&self, reason: RefuseReason) -> u64 {
        self.refusals[reason as usize]
    }

    /// Entries with this outcome at a maintainer.
    pub fn outcomes(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    pub(crate) fn count_outcome(&mut self, outcome: Outcome) {
        self.outcomes[outcome as usize] += 1;
    }

    pub(crate) fn count_eviction(&mut self, reason: EvictReason) {
        self.evictions[reason as usize] += 1;
    }

    pub(crate) fn count_refusal(&mut self, reason: RefuseReason) {
        self.refusals[reason as usize] += 1;
    }
}
