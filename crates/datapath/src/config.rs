//! Limits of a datapath, fixed at its start.

use thalweg_classifier::RULES_MAX;

use crate::maintain::MaintainerKind;

/// Limits of the exact-match cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MicroflowConfig {
    /// Flows that fit, rounded up to a power of two; 0 for no such cache.
    pub entries: usize,
    /// Where room has to be made for it, one new flow in this many is let in; 1 for all.
    pub admit_one_in: u32,
}

/// Limits of the wildcard cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MegaflowConfig {
    /// Entries that fit; 0 for no such cache.
    pub entries: usize,
    /// Bytes that the entries and their index may take.
    pub bytes: usize,
    /// Masks, and so sub-tables to search. Beyond them an entry matches its packet's key alone.
    pub masks: usize,
    /// How an entry is found.
    pub classifier: MegaflowClassifier,
}

/// How the wildcard cache finds a packet's entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MegaflowClassifier {
    /// Sub-table after sub-table, until lookups have shown that a filter or a learned index pays.
    #[default]
    Auto,
    /// Sub-table after sub-table, those with the most hits first.
    TupleSpace,
    /// First in the sub-table in which the flow was found before, by a vector Bloom filter.
    Bloom,
    /// In a learned index of all entries, which is trained as they change: the computational cache.
    Learned,
}

impl MegaflowClassifier {
    /// All there are.
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

/// A classifier that megaflows do not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no classifier {name:?} for megaflows; choose {}", names())]
pub struct UnknownMegaflowClassifier {
    /// What was asked for.
    pub name: String,
}

fn names() -> String {
    let names = MegaflowClassifier::ALL.map(|classifier| format!("{:?}", classifier.name()));
    names.join(", ")
}

/// Where both take as long among 1,000 entries (`thalweg bench update --crossover --rules 12000`):
/// 12.9 ms by searches, 12.8 ms by a sweep.
const SWEEP_AT: usize = 4;

/// Among 10,000 entries (`thalweg bench update --crossover --rules 12000 --entries 10000`), rules that
/// half of them are affected by took 715 microseconds by prefix and 690 by a scan; a quarter 371 and
/// 431, an eighth 239 and 304, one in a hundred 105 and 180. The change itself is some 70 of each.
const SCAN_SHARE: usize = 2;

/// So few that a mask cannot grow without end, and so many that few walks are made twice: chosen.
const MASK_GROWTH: u32 = 8;

/// Fewer are repaired in the time in which one thread wakes another. In a model check, few, so that
/// walks are asked for.
const REQUESTS_FROM: usize = if cfg!(thalweg_model) { 1 } else { 16 };

/// How packets are answered that the exact-match cache does not know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// By wildcarded entries, which upcalls make and a maintainer keeps right.
    #[default]
    Megaflows,
    /// By the rules, with a lookup in each table that the walk meets; there is nothing to maintain.
    ComputationalFlows,
}

impl Mode {
    /// All there are.
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

/// A mode that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no mode {name:?}; choose \"megaflows\" or \"computational-flows\"")]
pub struct UnknownMode {
    /// What was asked for.
    pub name: String,
}

/// Limits of a datapath.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How packets are answered that the exact-match cache does not know.
    pub mode: Mode,
    /// The exact-match cache.
    pub microflow: MicroflowConfig,
    /// The wildcard cache.
    pub megaflow: MegaflowConfig,
    /// How megaflows follow the rules.
    pub maintainer: MaintainerKind,
    /// Entries that are repaired between two bursts; 1 at the least.
    pub slice: usize,
    /// Bits by which repairs may make a mask longer with what the entry's walk knew already, since a
    /// walk last searched all tables; beyond, all are searched, and the mask has none too many.
    pub mask_growth: u32,
    /// Affected entries from which on a datapath asks for walks that are made elsewhere, if anybody
    /// makes them: [`crate::Datapath::request_walks`].
    pub requests_from: usize,
    /// A change of more new rules than this for each entry is followed by a sweep over all entries,
    /// in place of a search for each rule; 0 for any change that has new rules.
    pub sweep_at: usize,
    /// A search for what a new rule may affect looks at a table's nodes by a prefix, unless more than
    /// one in so many begin so: then it scans all. 0 to scan in any case.
    pub scan_share: usize,
    /// Continuations of packets that are looked up again.
    pub continuations: usize,
    /// Seed of all hashing and of all chance.
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

/// A configuration that makes no datapath.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// More entries than their numbers can tell apart.
    #[error("a cache of {entries} entries is too large; {most} is the most")]
    TooManyEntries {
        /// Entries as configured.
        entries: usize,
        /// The most that the cache can have.
        most: usize,
    },
    /// There must be a mask to have an entry.
    #[error("megaflow masks must be at least 1")]
    NoMasks,
    /// Nothing would ever be repaired.
    #[error("a slice of maintenance must be 1 entry or more")]
    EmptySlice,
    /// Admission is one in so many.
    #[error("microflow admission must be one in 1 or more")]
    NoAdmission,
}

/// The most flows that the exact-match cache may have.
pub(crate) const MAX_ENTRIES: usize = 1 << 28;

/// Bytes of a flow in the exact-match cache, whose key takes a cache line or more.
const FLOW_BYTES: u64 = 16 + 64;

impl Config {
    /// Bytes that a datapath takes when it is made, at the least: those of its exact-match cache.
    pub fn bytes_at_start(&self) -> u64 {
        self.microflow.entries.next_power_of_two() as u64 * FLOW_BYTES
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let sizes = [
            (self.microflow.entries, MAX_ENTRIES),
            // A learned index of the entries names them as a classifier names its rules.
            (self.megaflow.entries, RULES_MAX),
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
