//! Limits of a datapath, fixed when it is created.

use std::time::Duration;

use thalweg_classifier::RULES_MAX;

use crate::maintainer_kind::MaintainerKind;

/// Limits of the exact-match cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MicroflowConfig {
    /// Most flows, rounded up to a power of two; 0 for no such cache.
    pub entries: usize,
    /// When the cache has no free room, one new flow in this many is admitted; 1 for all.
    pub admit_one_in: u32,
}

/// Limits of the wildcard cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MegaflowConfig {
    /// Most entries; 0 for no such cache.
    pub entries: usize,
    /// Most bytes of the entries and their index.
    pub bytes: usize,
    /// Most masks, and so sub-tables to search. Beyond this limit, a repaired entry matches
    /// only its key.
    pub masks: usize,
    /// How an entry is found.
    pub classifier: MegaflowClassifier,
    /// Whether entries compare whole keys instead of what their walks examined.
    pub is_exact: bool,
    /// Bytes kept of the packet for which an entry was made, for reports.
    pub sample_bytes: usize,
    /// How long an entry may go without a packet, for owners that call
    /// [`crate::Datapath::evict_idle`]; `None` for as long as there is room.
    pub max_idle: Option<Duration>,
}

/// How the wildcard cache finds a packet's entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MegaflowClassifier {
    /// Sub-tables one after the other, until lookups show that a filter or a learned index
    /// pays off.
    #[default]
    Auto,
    /// Sub-tables one after the other, those with the most hits first.
    TupleSpace,
    /// First the sub-table in which the flow was last found, by a vector Bloom filter.
    Bloom,
    /// A learned index of all entries, trained as they change: the computational cache.
    Learned,
}

impl MegaflowClassifier {
    /// All variants.
    pub const ALL: [MegaflowClassifier; 4] = [
        MegaflowClassifier::Auto,
        MegaflowClassifier::TupleSpace,
        MegaflowClassifier::Bloom,
        MegaflowClassifier::Learned,
    ];

    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            MegaflowClassifier::Auto => "auto",
            MegaflowClassifier::TupleSpace => "tuple-space",
            MegaflowClassifier::Bloom => "bloom",
            MegaflowClassifier::Learned => "learned",
        }
    }
}

impl std::str::FromStr for MegaflowClassifier {
    type Err = UnknownMegaflowClassifier;

    fn from_str(name: &str) -> Result<Self, UnknownMegaflowClassifier> {
        let mut all = MegaflowClassifier::ALL.into_iter();
        let known = all.find(|classifier| classifier.name() == name.replace('_', "-"));
        known.ok_or_else(|| UnknownMegaflowClassifier {
            name: name.to_owned(),
        })
    }
}

/// The error for an unknown classifier of megaflows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no classifier {name:?} for megaflows; choose {}", names())]
pub struct UnknownMegaflowClassifier {
    /// The name given.
    pub name: String,
}

fn names() -> String {
    let names = MegaflowClassifier::ALL.map(|classifier| format!("{:?}", classifier.name()));
    names.join(", ")
}

/// Where searches and a sweep take equally long with 1,000 entries (`thalweg bench update
/// --crossover --rules 12000`).
const SWEEP_AT: usize = 4;

/// A prefix search and a scan take about equally long at this share of affected entries, with
/// 10,000 entries (`thalweg bench update --crossover --rules 12000 --entries 10000`). With
/// fewer affected, the prefix search wins.
const SCAN_SHARE: usize = 2;

/// Chosen: low enough that masks stay bounded, high enough that few walks are repeated.
const MASK_GROWTH: u32 = 8;

/// Repairing fewer takes no longer than waking another thread. Low in a model check, so that
/// walks are requested.
const REQUESTS_FROM: usize = if cfg!(thalweg_model) { 1 } else { 16 };

/// Open vSwitch's `max-idle`.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// How packets that miss the exact-match cache are answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// By wildcard entries, which upcalls make and a maintainer keeps right.
    #[default]
    Megaflows,
    /// By the rules, with a lookup in each table on the walk; there is nothing to maintain.
    ComputationalFlows,
}

impl Mode {
    /// All variants.
    pub const ALL: [Mode; 2] = [Mode::Megaflows, Mode::ComputationalFlows];

    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Megaflows => "megaflows",
            Mode::ComputationalFlows => "computational-flows",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let known = Mode::ALL.into_iter().find(|mode| mode.name() == name);
        known.ok_or_else(|| UnknownMode {
            name: name.to_owned(),
        })
    }
}

/// The error for an unknown mode.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no mode {name:?}; choose \"megaflows\" or \"computational-flows\"")]
pub struct UnknownMode {
    /// The name given.
    pub name: String,
}

/// Limits of a datapath.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How packets that miss the exact-match cache are answered.
    pub mode: Mode,
    /// The exact-match cache.
    pub microflow: MicroflowConfig,
    /// The wildcard cache.
    pub megaflow: MegaflowConfig,
    /// How megaflows follow the rules.
    pub maintainer: MaintainerKind,
    /// Entries repaired between two bursts; at least 1.
    pub slice: usize,
    /// Bits that repairs with memory may add to a mask since a walk last searched all tables.
    /// Beyond, all tables are searched again, for the narrowest mask.
    pub mask_growth: u32,
    /// Affected entries from which on a datapath requests walks made elsewhere, if the caller
    /// makes them: [`crate::Datapath::request_walks`].
    pub requests_from: usize,
    /// New rules per entry beyond which a change is followed by a sweep over all entries,
    /// instead of a search for each rule. 0 to sweep for any change with new rules.
    pub sweep_at: usize,
    /// Decides how the search for a new rule's entries works. It uses a prefix, unless more
    /// than one in `scan_share` of a table's nodes match it: then it scans all nodes. 0 to
    /// scan always.
    pub scan_share: usize,
    /// Most continuations of packets that are looked up again.
    pub continuations: usize,
    /// Seed of all hashing and all random choices.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Megaflows,
            microflow: MicroflowConfig {
                entries: 8_192,
                admit_one_in: 20,
            },
            megaflow: MegaflowConfig {
                entries: 200_000,
                bytes: 256 << 20,
                masks: 1_024,
                classifier: MegaflowClassifier::Auto,
                is_exact: false,
                sample_bytes: 0,
                max_idle: Some(MAX_IDLE),
            },
            maintainer: MaintainerKind::Incremental,
            slice: 8,
            mask_growth: MASK_GROWTH,
            requests_from: REQUESTS_FROM,
            sweep_at: SWEEP_AT,
            scan_share: SCAN_SHARE,
            continuations: 65_536,
            seed: 0,
        }
    }
}

/// A configuration from which no datapath can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// More entries than the cache can number.
    #[error("a cache of {entries} entries is too large; {most} is the most")]
    TooManyEntries {
        /// Entries as configured.
        entries: usize,
        /// The most entries possible.
        most: usize,
    },
    /// An entry needs a mask.
    #[error("megaflow masks must be at least 1")]
    NoMasks,
    /// No entry would ever be repaired.
    #[error("a slice of maintenance must be 1 entry or more")]
    EmptySlice,
    /// The admission rate is zero.
    #[error("microflow admission must be one in 1 or more")]
    NoAdmission,
}

/// Most flows of the exact-match cache.
pub(crate) const MAX_ENTRIES: usize = 1 << 28;

/// Bytes of a flow in the exact-match cache, whose key takes at least one cache line.
const FLOW_BYTES: u64 = 16 + 64;

/// Most entries of a wildcard cache: a learned index numbers them like a classifier its rules.
pub const MEGAFLOWS_MAX: usize = RULES_MAX;

impl Config {
    /// Least bytes of a new datapath: those of its exact-match cache.
    pub fn bytes_at_start(&self) -> u64 {
        self.microflow.entries.next_power_of_two() as u64 * FLOW_BYTES
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let sizes = [
            (self.microflow.entries, MAX_ENTRIES),
            (self.megaflow.entries, MEGAFLOWS_MAX),
        ];
        if let Some((entries, most)) = sizes.into_iter().find(|(entries, most)| entries > most) {
            return Err(ConfigError::TooManyEntries { entries, most });
        }
        if self.megaflow.masks == 0 {
            return Err(ConfigError::NoMasks);
        }
        if self.slice == 0 {
            return Err(ConfigError::EmptySlice);
        }
        if self.microflow.admit_one_in == 0 {
            return Err(ConfigError::NoAdmission);
        }
        Ok(())
    }
}
