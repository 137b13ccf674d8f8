//! What the caches count: nothing happens without a reason and a number.

use thalweg_pipeline::Drops;

use crate::maintain::Outcome;

/// Why an entry left the megaflow cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EvictReason {
    /// Its place was needed, and it had not been used since the hand of second chance last passed.
    Capacity,
    /// A change of the rules gave its packets other answers, or its region another shape.
    Changed,
    /// A change made it equal to another entry.
    Duplicate,
    /// It led to or resumed a frozen walk whose number was given up.
    OldContinuation,
    /// It had one of the rarest masks, when there was no room for others.
    RareMask,
    /// Everything was evicted: keys have another layout, or the maintainer knows nothing better.
    Flushed,
}

impl EvictReason {
    /// All reasons.
    pub const ALL: [EvictReason; 6] = [
        EvictReason::Capacity,
        EvictReason::Changed,
        EvictReason::Duplicate,
        EvictReason::OldContinuation,
        EvictReason::RareMask,
        EvictReason::Flushed,
    ];

    /// The reason as reports name it.
    pub fn name(self) -> &'static str {
        match self {
            EvictReason::Capacity => "capacity",
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
    /// The frame was longer than headers can be found in.
    Giant,
    /// A packet had been looked up too often.
    TooManyPasses,
    /// There was no room for another continuation.
    ContinuationsFull,
    /// A mask beyond the limit was asked for. The packet is answered by its walk and makes no entry;
    /// where a repair asked, the entry got the mask of a single key.
    MasksFull,
    /// A new flow was not let into the exact-match cache.
    NotAdmitted,
    /// The entry alone is larger than the cache may be.
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

    /// The reason as reports name it.
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

    /// Whether a packet is lost by it.
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

/// What a cache has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Entries put in.
    pub insertions: u64,
}

impl CacheCounters {
    fn add(&mut self, other: CacheCounters) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.insertions += other.insertions;
    }
}

/// What lookups in the wildcard cache took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LookupCounters {
    /// Sub-tables in which a key was looked for, candidates included.
    pub subtables: u64,
    /// Keys for which a learned index was asked.
    pub learned: u64,
    /// Those among them whose entry waits for its repair, so that sub-tables were searched.
    pub learned_refused: u64,
    /// Keys for which the first layer was asked, where there is one.
    pub asked: u64,
    /// Keys for which it was not, as that does not pay, or to see whether it does.
    pub bypassed: u64,
    /// Sub-tables that it named.
    pub candidates: u64,
    /// Those among them without an entry for the key.
    pub false_candidates: u64,
    /// Keys that were not found, and not looked for in all sub-tables, as that did not pay.
    pub cut: u64,
    /// Those among them for which there was an entry, to which a walk led.
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

/// What a datapath has seen since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Packets that came in.
    pub packets: u64,
    /// The exact-match cache.
    pub microflow: CacheCounters,
    /// The wildcard cache.
    pub megaflow: CacheCounters,
    /// Packets for which the interpreter was asked.
    pub upcalls: u64,
    /// Packets answered by the rules, without an upcall.
    pub computed: u64,
    /// Packets looked up again.
    pub recirculations: u64,
    /// Repairs whose walk was made anew, as what was known of it made the mask too long.
    pub walked_anew: u64,
    /// Trainings of the wildcard cache's learned index that were put to use.
    pub trainings: u64,
    /// What the lookups in the wildcard cache took.
    pub lookups: LookupCounters,
    /// Packets and copies that went nowhere.
    pub(crate) drops: Drops,
    evictions: [u64; EvictReason::ALL.len()],
    refusals: [u64; RefuseReason::ALL.len()],
    outcomes: [u64; Outcome::ALL.len()],
}

impl Statistics {
    /// Adds what another datapath of the same switch has seen.
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

    /// Packets and copies that went nowhere, by the name of the reason; zeros are left out.
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

    /// Entries that a maintainer has looked at and that came to this.
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
