//! Records the births and deaths of rules by version, so that aborting and reclaiming touch
//! only those.
//!
//! 1. A rule is in `births` under its version of birth until that version is settled, that is,
//!    no later than `oldest`. A settled version can no longer be aborted.
//! 2. A rule is in `deaths` under its version of death until it is reclaimed or lives again.
//!
//! Costs: a few bytes for each rule born or dead since the last reclaim. Finding the changes
//! of a version takes a search among the open versions.

use std::collections::BTreeMap;

use crate::{RuleId, Version};

/// The births and deaths that may still matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    births: BTreeMap<Version, Vec<RuleId>>,
    deaths: BTreeMap<Version, Vec<RuleId>>,
    oldest: Version,
}

impl History {
    pub(crate) fn record_birth(&mut self, id: RuleId, born: Version) {
        if born > self.oldest {
            self.births.entry(born).or_default().push(id);
        }
    }

    pub(crate) fn record_death(&mut self, id: RuleId, died: Version) {
        self.deaths.entry(died).or_default().push(id);
    }

    /// Removes and returns the changes of a version: the rules born and the rules that died.
    ///
    /// # Panics
    /// If the version is settled.
    pub(crate) fn take_version(&mut self, version: Version) -> (Vec<RuleId>, Vec<RuleId>) {
        assert!(
            version > self.oldest,
            "{version} is settled and cannot be aborted"
        );
        let births = self.births.remove(&version).unwrap_or_default();
        let deaths = self.deaths.remove(&version).unwrap_or_default();
        (births, deaths)
    }

    /// Forgets the death of a rule that an aborted version removes.
    pub(crate) fn forget_death(&mut self, id: RuleId, died: Version) {
        if let Some(deaths) = self.deaths.get_mut(&died) {
            deaths.retain(|&dead| dead != id);
        }
    }

    /// Forgets a rule that is removed, whatever its state.
    pub(crate) fn forget(&mut self, id: RuleId, born: Version, died: Version) {
        if let Some(births) = self.births.get_mut(&born) {
            births.retain(|&other| other != id);
        }
        if died != Version::NEVER {
            self.forget_death(id, died);
        }
    }

    /// The rules born in a version that may be aborted.
    pub(crate) fn born_in(&self, version: Version) -> &[RuleId] {
        self.births.get(&version).map_or(&[], Vec::as_slice)
    }

    /// The rules whose births stay open until `oldest` is settled.
    pub(crate) fn born_by(&self, oldest: Version) -> impl Iterator<Item = RuleId> + '_ {
        let births = self.births.range(..=oldest);
        births.flat_map(|(_, ids)| ids.iter().copied())
    }

    /// The rules that settling up to `oldest` would return.
    pub(crate) fn dead_by(&self, oldest: Version) -> impl Iterator<Item = RuleId> + '_ {
        let deaths = self.deaths.range(..=oldest);
        deaths.flat_map(|(_, ids)| ids.iter().copied())
    }

    /// The oldest version that may be looked up.
    pub(crate) fn oldest(&self) -> Version {
        self.oldest
    }

    /// Settles all versions up to `oldest`; returns the rules that died by then.
    pub(crate) fn settle(&mut self, oldest: Version) -> Vec<RuleId> {
        self.oldest = self.oldest.max(oldest);
        self.births = self.births.split_off(&oldest.next());
        let later = self.deaths.split_off(&oldest.next());
        let settled = std::mem::replace(&mut self.deaths, later);
        settled.into_values().flatten().collect()
    }

    /// The number of rules that are not born yet at `version`.
    pub(crate) fn born_after(&self, version: Version) -> usize {
        self.births
            .range(version.next()..)
            .map(|(_, ids)| ids.len())
            .sum()
    }

    /// The number of rules that are dead at `version` but not reclaimed.
    pub(crate) fn died_by(&self, version: Version) -> usize {
        self.deaths
            .range(..=version)
            .map(|(_, ids)| ids.len())
            .sum()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let lists = self.births.values().chain(self.deaths.values());
        let list_bytes = |ids: &Vec<RuleId>| {
            size_of::<(Version, Vec<RuleId>)>() + ids.capacity() * size_of::<RuleId>()
        };
        lists.map(list_bytes).sum()
    }
}
