//! The connections of a switch: their tracker, which all workers share.

use std::sync::{Mutex, MutexGuard, OnceLock};

use thalweg_conntrack::{Config, FragmentSettings, Fragments, Tracker};
use thalweg_packet::Instant;

use crate::effect::HeldFragment;

/// The connections of a switch, and the fragments that wait to be tracked.
///
/// The tracker is made when a packet or a caller first asks for it: most pipelines have none.
#[derive(Debug)]
pub struct Connections {
    config: Config,
    tracker: OnceLock<Tracker>,
    fragments: Mutex<Fragments<HeldFragment>>,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections::new(Config::default())
    }
}

impl Connections {
    /// No connections; the tracker is made with this configuration.
    pub fn new(config: Config) -> Connections {
        Connections::with_fragments(config, FragmentSettings::default())
    }

    /// As [`Connections::new`], with these limits of fragments.
    pub fn with_fragments(config: Config, settings: FragmentSettings) -> Connections {
        Connections {
            config,
            tracker: OnceLock::new(),
            fragments: Mutex::new(Fragments::new(settings)),
        }
    }

    /// The tracker, if a packet or a caller has asked for it.
    pub fn tracker_made(&self) -> Option<&Tracker> {
        self.tracker.get()
    }

    /// The chance that the tracker was made with.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// The tracker.
    pub fn tracker(&self) -> &Tracker {
        self.tracker.get_or_init(|| Tracker::new(self.config))
    }

    /// The fragments that wait; no worker can track a fragment while the guard is held.
    pub fn fragments(&self) -> MutexGuard<'_, Fragments<HeldFragment>> {
        self.fragments
            .lock()
            .expect("no code panics while it holds the fragments")
    }

    /// Ends connections whose time is over, in at most `budget` steps; returns their number.
    /// Drops as many fragments whose packets stayed incomplete, which their status counts.
    pub fn expire(&self, now: Instant, budget: usize) -> usize {
        let ended = self.tracker.get();
        let ended = ended.map_or(0, |tracker| tracker.expire(now, budget));
        let expired = self.fragments().expire(now, budget);
        // Freed without the lock.
        drop(expired);
        ended
    }
}
