//! What a cache has done, and how large it may be.

use thalweg_classifier::ClassifierKind;

/// How large a cache of traversals may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Segments of all starts together; at the limit one that was not used lately goes.
    pub segments: usize,
    /// Slots of the exact level of each start, rounded up to a power of two; 0 for none.
    pub microflows: usize,
    /// Of keys that are missed for the first time, one in so many is recorded; what is missed again
    /// soon is recorded then. With 1 each is at once, with 0 none ever.
    pub record_one_in: u32,
    /// Whether a start of which next to nothing is found has few packets looked up.
    pub rests: bool,
    /// How segments are found by their masks.
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
    /// The default, with so many segments if it is said.
    pub fn sized(segments: Option<usize>) -> CacheConfig {
        let default = CacheConfig::default();
        CacheConfig {
            segments: segments.unwrap_or(default.segments),
            ..default
        }
    }
}

/// Why a segment is no longer remembered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EvictReason {
    /// Another needed its place.
    Capacity,
    /// An entry came that some packet of it would meet instead.
    Inserted,
    /// The entry that it met went.
    Removed,
    /// It met a default, which changed.
    Default,
    /// It met a member of an action profile that changed.
    Member,
    /// It met a group that changed.
    Group,
    /// A hash function changed.
    Calculation,
}

impl EvictReason {
    /// All there are.
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

/// How often everything happened in a cache.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheStatistics {
    /// Segments that were found by their whole key.
    pub exact_hits: u64,
    /// Segments that were found by their mask.
    pub masked_hits: u64,
    /// Walks that found none at a start.
    pub misses: u64,
    /// Walks that were gone without a look at a start, as nothing is found there.
    pub rested: u64,
    /// Of these, walks that were recorded.
    pub recorded: u64,
    /// Of these, packets that ended on the way, so that nothing was remembered.
    pub ended: u64,
    /// Nodes that were run because a segment stopped before them.
    pub visits: u64,
    /// Nodes that were run because no segment may begin there: its key would be too wide, or there
    /// are too many starts.
    pub refused: u64,
    /// Starts with keys of their own.
    pub starts: u64,
    /// Segments that are remembered.
    pub segments: u64,
    evictions: [u64; EvictReason::ALL.len()],
}

impl CacheStatistics {
    /// Segments that went, for a reason.
    pub fn evictions(&self, reason: EvictReason) -> u64 {
        self.evictions[reason as usize]
    }

    pub(crate) fn evict(&mut self, reason: EvictReason) {
        self.evictions[reason as usize] += 1;
    }
}
