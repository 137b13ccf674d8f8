//! A value that differs from version to version.

use thalweg_classifier::Version;

/// The states of one thing, the oldest first; `None` where it did not exist.
///
/// 1. Versions ascend; the last state holds for its version and all later ones.
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
        let known = self
            .states
            .iter()
            .rev()
            .find(|(since, _)| *since <= version);
        known.and_then(|(_, state)| state.as_ref())
    }

    /// Sets the state from a version on, which is not before any other.
    pub(crate) fn record(&mut self, since: Version, state: Option<T>) {
        self.abort(since);
        self.states.push((since, state));
    }

    /// Undoes what was recorded for a version.
    pub(crate) fn abort(&mut self, version: Version) {
        self.states.retain(|(since, _)| *since != version);
    }

    /// Drops states that no version from `oldest` on can see.
    pub(crate) fn reclaim(&mut self, oldest: Version) {
        if let Some(seen) = self.states.iter().rposition(|(since, _)| *since <= oldest) {
            self.states.drain(..seen);
        }
        if let [(_, None)] = self.states[..] {
            self.states.clear();
        }
    }

    /// Whether nothing is recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}
