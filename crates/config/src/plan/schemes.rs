//! `[run]`: which schemes, with which caches, how often.

use std::ops::{Range, RangeInclusive};

use serde::Deserialize;
use thalweg_fabric::Time;
use toml::Spanned;

use super::MICROS;
use crate::value::{Decimal, Number, Several};
use crate::{Result, Source};

/// Which parameters and behaviour a run uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlanProfile {
    /// Those of the published code.
    Artifact,
    /// Those of the paper's text.
    Paper,
}

/// A cache size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CacheSize {
    /// The size.
    pub amount: CacheAmount,
    /// Its line in the plan, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
}

/// The two ways to give a cache size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CacheAmount {
    /// Percentage of the machines, for all switches together.
    Percent(f64),
    /// Entries of one switch.
    Entries(u32),
}

macro_rules! schemes {
    ($($variant:ident, $name:literal, $doc:literal;)*) => {
        /// A scheme that a plan can name.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum SchemeKind {
            $(#[doc = $doc] $variant,)*
        }

        impl SchemeKind {
            /// All schemes.
            pub const ALL: &[SchemeKind] = &[$(SchemeKind::$variant,)*];

            /// Its name in a plan.
            pub fn name(self) -> &'static str {
                match self {
                    $(SchemeKind::$variant => $name,)*
                }
            }
        }
    };
}

schemes! {
    NoCache, "nocache", "Gateways only.";
    Direct, "direct", "Hosts that know everything.";
    OnDemand, "ondemand", "Hosts that remember.";
    Offload, "offload", "Gateways that hand busy mappings to hosts.";
    LocalLearning, "locallearning", "Caches that learn what passes.";
    GwCache, "gwcache", "The same at gateway ToRs only.";
    Bluebird, "bluebird", "ToRs with a control plane.";
    Controller150, "controller", "Caches that a controller fills every 150 µs.";
    Controller300, "controller-300", "The same every 300 µs.";
    SwitchV2p, "switchv2p", "The protocol.";
    SwitchV2pNoInvalidations, "switchv2p-noinval", "Without invalidation packets.";
    SwitchV2pNoTimestamps, "switchv2p-notsvector", "Without the timestamp vector.";
    SwitchV2pTors, "switchv2p-tor", "With memory in ToRs only.";
    SwitchV2pPartitions, "switchv2p-partitions", "With lines of its own for each tenant.";
    SwitchV2pPlus, "switchv2p+", "With versions, ways and seeds.";
    SwitchV2pCurves, "switchv2p+curves", "The same, with memory placed by miss-ratio curves.";
}

impl SchemeKind {
    /// Whether its caches have a size that the plan gives.
    pub fn has_cache(self) -> bool {
        !matches!(
            self,
            SchemeKind::NoCache | SchemeKind::Direct | SchemeKind::OnDemand | SchemeKind::Offload
        )
    }
}

impl PlanProfile {
    /// Its name in a plan.
    pub fn name(self) -> &'static str {
        match self {
            PlanProfile::Artifact => "artifact",
            PlanProfile::Paper => "paper",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    profile: Option<Spanned<String>>,
    schemes: Spanned<Several<String>>,
    cache_percent: Option<Spanned<Several<Decimal>>>,
    cache_entries: Option<Spanned<Several<Number>>>,
    seeds: Option<Spanned<Several<Number>>>,
    offload_threshold_packets: Option<Spanned<Number>>,
    measure_percent: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "crate::value::micros")]
    reroute_after_us: Option<Spanned<Number>>,
}

/// Relative cache sizes of SwitchV2P's switches, by layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryWeights {
    /// Weight of a core.
    pub core: u32,
    /// Weight of a spine.
    pub spine: u32,
    /// Weight of a ToR.
    pub tor: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemorySection {
    core: Spanned<Number>,
    spine: Spanned<Number>,
    tor: Spanned<Number>,
}

const WEIGHTS: RangeInclusive<u64> = 0..=1_000_000;

/// Packets from a host to a machine before the gateway gives out the mapping.
const THRESHOLD: RangeInclusive<u64> = 1..=u32::MAX as u64;

/// Largest percentage; the paper's largest caches have 150,000 %.
const MOST_PERCENT: f64 = 1e9;

/// Entries that a cache can have.
const ENTRIES: RangeInclusive<u64> = 0..=1 << 28;

type Runs = (Vec<SchemeKind>, Vec<CacheSize>, Vec<u64>);

impl Source<'_> {
    pub(super) fn profile(&self, section: &Section) -> Result<PlanProfile> {
        let Some(said) = &section.profile else {
            return Ok(PlanProfile::Artifact);
        };
        match said.get_ref().as_str() {
            "artifact" => Ok(PlanProfile::Artifact),
            "paper" => Ok(PlanProfile::Paper),
            other => {
                let what = format!("there is no profile {other:?}; give \"artifact\" or \"paper\"");
                Err(self.error(&said.span(), what))
            }
        }
    }

    pub(super) fn runs(&self, section: &Section) -> Result<Runs> {
        let mut schemes = Vec::new();
        for (span, name) in Several::items(&section.schemes) {
            let scheme = self.scheme(name, &span)?;
            if schemes.contains(&scheme) {
                let what = format!("scheme {name:?} is there twice; remove one");
                return Err(self.error(&span, what));
            }
            schemes.push(scheme);
        }
        if schemes.is_empty() {
            let what = "schemes has nothing in it; give one at least";
            return Err(self.error(&section.schemes.span(), what));
        }
        let caches = self.caches(section)?;
        let with_cache = schemes.iter().find(|scheme| scheme.has_cache());
        if let (Some(scheme), true) = (with_cache, caches.is_empty()) {
            let name = scheme.name();
            let what = format!("how large are the caches of {name}? add cache_percent");
            return Err(self.error(&section.schemes.span(), what));
        }
        let seeds = match &section.seeds {
            Some(said) => self.numbers("seeds", said, 0..=i64::MAX as u64)?,
            None => vec![1],
        };
        Ok((schemes, caches, seeds))
    }

    pub(super) fn offload_threshold(&self, section: &Section) -> Result<u32> {
        let said = section.offload_threshold_packets.as_ref();
        let said = said.map(|said| self.number("offload_threshold_packets", said, THRESHOLD));
        Ok(said.transpose()?.unwrap_or(10) as u32)
    }

    pub(super) fn measure_percent(&self, section: &Section) -> Result<u32> {
        let said = section.measure_percent.as_ref();
        let said = said.map(|said| self.number("measure_percent", said, 1..=100));
        Ok(said.transpose()?.unwrap_or(25) as u32)
    }

    pub(super) fn reroute_after(&self, section: &Section) -> Result<Time> {
        let said = section.reroute_after_us.as_ref();
        let said = said.map(|said| self.number("reroute_after_us", said, MICROS));
        Ok(Time::from_micros(said.transpose()?.unwrap_or(0)))
    }

    pub(super) fn memory(&self, section: &MemorySection) -> Result<MemoryWeights> {
        let weight = |key, said| self.number(key, said, WEIGHTS).map(|weight| weight as u32);
        let weights = MemoryWeights {
            core: weight("core", &section.core)?,
            spine: weight("spine", &section.spine)?,
            tor: weight("tor", &section.tor)?,
        };
        match weights.core + weights.spine + weights.tor {
            0 => {
                let what = "nobody gets memory; give one layer more than 0";
                Err(self.error(&section.tor.span(), what))
            }
            _ => Ok(weights),
        }
    }

    fn scheme(&self, name: &str, span: &Range<usize>) -> Result<SchemeKind> {
        let mut all = SchemeKind::ALL.iter().copied();
        let found = all.find(|scheme| scheme.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = SchemeKind::ALL.iter().map(|scheme| scheme.name()).collect();
            let names = names.join(", ");
            let what = format!("there is no scheme {name:?}; give some of {names}");
            self.error(span, what)
        })
    }

    fn caches(&self, section: &Section) -> Result<Vec<CacheSize>> {
        match (&section.cache_percent, &section.cache_entries) {
            (Some(_), Some(said)) => {
                let what = "cache_percent and cache_entries say the same; remove one";
                Err(self.error(&said.span(), what))
            }
            (None, Some(said)) => {
                let entries = self.numbers("cache_entries", said, ENTRIES)?;
                let sizes = Several::items(said).zip(entries);
                let size =
                    |((span, _), entries)| self.size(&span, CacheAmount::Entries(entries as u32));
                Ok(sizes.map(size).collect())
            }
            (Some(said), None) => self.percents(said),
            (None, None) => Ok(Vec::new()),
        }
    }

    fn percents(&self, said: &Spanned<Several<Decimal>>) -> Result<Vec<CacheSize>> {
        let mut sizes: Vec<CacheSize> = Vec::new();
        for (span, &Decimal(value)) in Several::items(said) {
            if !(value > 0.0 && value <= MOST_PERCENT) {
                let what = format!("cache_percent must be above 0, to {MOST_PERCENT}, not {value}");
                return Err(self.error(&span, what));
            }
            let size = self.size(&span, CacheAmount::Percent(value));
            if sizes.iter().any(|other| other.amount == size.amount) {
                let what = format!("cache_percent has {value} twice; remove one");
                return Err(self.error(&span, what));
            }
            sizes.push(size);
        }
        match sizes.is_empty() {
            true => {
                let what = "cache_percent has nothing in it; give one number at least";
                Err(self.error(&said.span(), what))
            }
            false => Ok(sizes),
        }
    }

    fn size(&self, span: &Range<usize>, amount: CacheAmount) -> CacheSize {
        let (line, column) = self.place(span);
        CacheSize {
            amount,
            line,
            column,
        }
    }
}
