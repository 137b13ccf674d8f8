//! The size limits of a cache, and its counters.

use thalweg_classifier::ClassifierKind;

/// The limits and options of a traversal cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Maximum segments of all starts together.
    ///
    /// At the limit one that was not used lately is evicted.
    pub segments: usize,
    /// Slots in the exact level of each start.
    ///
    /// The number is rounded up to a power of two; 0 means no exact level.
    pub microflows: usize,
    /// One in this many keys that miss for the first time is recorded.
    ///
    /// A key that soon misses again always is. With 1 every miss is recorded, with 0 none.
    pub record_one_in: u32,
    /// Whether a start that finds almost nothing looks up only a sample of its packets.
    pub rests: bool,
    /// The classifier that finds segments by their masks.
    pub classifier: ClassifierKind,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig {
            segments: 1 << 16,
            microflows: 1 << 13,
            record_one_in: 16,
            rests: true,
            classifier: ClassifierKind::default(),
        }
    }
}

impl CacheConfig {
    /// The default, with `segments` replaced if given.
    pub fn sized(segments: Option<usize>) -> CacheConfig {
        let default = CacheConfig::default();
        CacheConfig {
            segments: segments.unwrap_or(default.segments),
            ..default
        }
    }
}

/// Why a segment was evicted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EvictReason {
    /// Another segment needed its place.
    Capacity,
    /// A new entry would match some packet of it instead.
    Inserted,
    /// The entry that it hit was removed.
    Removed,
    /// It used a default action, which changed.
    Default,
    /// It used a member of an action profile that changed.
    Member,
    /// It used a group that changed.
    Group,
    /// A hash function changed.
    Calculation,
}

impl EvictReason {
    /// All reasons.
    pub const ALL: [EvictReason; 7] = [
        EvictReason::Capacity,
        EvictReason::Inserted,
        EvictReason::Removed,
        EvictReason::Default,
        EvictReason::Member,
        EvictReason::Group,
        EvictReason::Calculation,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            EvictReason::Capacity => "capacity",
            EvictReason::Inserted => "entry_inserted",
            EvictReason::Removed => "entry_removed",
            EvictReason::Default => "default_changed",
            EvictReason::Member => "member_changed",
            EvictReason::Group => "group_changed",
            EvictReason::Calculation => "calculation_changed",
        }
    }
}

/// A cache's counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheStatistics {
    /// Segments found by their whole key.
    pub exact_hits: u64,
    /// Segments found by their mask.
    pub masked_hits: u64,
    /// Lookups at a start that found no segment.
    pub misses: u64,
    /// Walks without a lookup at a start, because that start rests.
    pub rested: u64,
    /// Misses that were recorded.
    pub recorded: u64,
    /// Recorded packets that ended on the way, so that nothing was remembered.
    pub ended: u64,
    /// Nodes that ran because a segment stopped before them.
    pub visits: u64,
    /// Nodes that ran because no segment may begin there.
    ///
    /// The key would be too wide, or there are too many starts.
    pub refused: u64,
    /// Starts, each with its own key layout.
    pub starts: u64,
    /// Segments stored now.
    pub segments: u64,
    evictions: [u64; EvictReason::ALL.len()],
}

impl CacheStatistics {
    /// Segments evicted for this reason.
    pub fn evictions(&self, reason: EvictReason) -> u64 {
        self.evictions[reason as usize]
    }

    pub(crate) fn evict(&mut self, reason: EvictReason) {
        self.evictions[reason as usize] += 1;
    }
}
