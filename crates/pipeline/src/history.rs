//! A value that can differ from version to version.

use thalweg_classifier::Version;

/// The states of one thing, oldest first; `None` where it did not exist.
///
/// 1. Versions ascend; each state holds up to the next one's version, the last for all later
///    ones.
#[derive(Clone, Debug)]
pub(crate) struct History<T> {
    states: Vec<(Version, Option<T>)>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        History { states: Vec::new() }
    }
}

impl<T> History<T> {
    /// The state at a version.
    pub(crate) fn at(&self, version: Version) -> Option<&T> {
        let (_, state) = &self.states[self.place(version)?];
        state.as_ref()
    }

    /// The version from which the state at `version` holds.
    pub(crate) fn since(&self, version: Version) -> Option<Version> {
        Some(self.states[self.place(version)?].0)
    }

    /// The states in which it existed at versions before this one.
    pub(crate) fn before(&self, version: Version) -> impl Iterator<Item = &T> {
        let earlier = self
            .states
            .iter()
            .take_while(move |(since, _)| *since < version);
        earlier.filter_map(|(_, state)| state.as_ref())
    }

    /// All states in which it existed.
    pub(crate) fn states(&self) -> impl Iterator<Item = &T> {
        self.states.iter().filter_map(|(_, state)| state.as_ref())
    }

    /// Sets the state from version `since` on; `since` must not be before any recorded
    /// version.
    pub(crate) fn record(&mut self, since: Version, state: Option<T>) {
        self.abort(since);
        self.states.push((since, state));
    }

    /// Drops the state recorded for the last version; returns whether the history is empty.
    pub(crate) fn abort(&mut self, version: Version) -> bool {
        self.states.pop_if(|(since, _)| *since == version);
        self.states.is_empty()
    }

    /// Drops states that no version from `oldest` on can see; returns whether the history is
    /// empty.
    pub(crate) fn reclaim(&mut self, oldest: Version) -> bool {
        if let Some(seen) = self.place(oldest) {
            self.states.drain(..seen);
        }
        if let [(_, None)] = self.states[..] {
            self.states.clear();
        }
        self.states.is_empty()
    }

    /// The position of the state at `version`.
    fn place(&self, version: Version) -> Option<usize> {
        let later = self.states.partition_point(|(since, _)| *since <= version);
        later.checked_sub(1)
    }
}
