//! Trains the wildcard cache's learned index: in slices, with long jobs run elsewhere.
//!
//! [`Datapath::tend`] does a bounded part of the work, between two bursts. When the next part
//! is long, it returns an [`IndexJob`](thalweg_classifier::IndexJob), which owns what the work
//! needs and may run on any thread while entries come and go. [`Datapath::install`] takes the
//! built index in constant time, and further slices put it to use. Answers are the same before
//! and after.
//!
//! 1. An outcome is dropped if the layout has changed since the job was taken.

use std::sync::Arc;

use thalweg_classifier::{BuiltIndex, LearnedStatistics, Tending};
use thalweg_packet::Layout;

use crate::datapath::{Datapath, with_core};
use crate::megaflow::CacheChoice;

/// The wildcard cache that an index is built for, by the layout of its keys.
#[derive(Clone, Debug)]
pub struct CacheOwner(Arc<Layout>);

impl Datapath {
    /// Does a slice of work for the index of megaflows, about `steps` entries, if there is
    /// some.
    pub fn tend(&mut self, steps: usize) -> Tending<CacheOwner> {
        with_core!(&mut self.core, core => {
            let before = core.megaflow.trainings();
            let tended = core.megaflow.tend(&core.entries, &core.layout, steps);
            core.statistics.trainings += core.megaflow.trainings().saturating_sub(before);
            tended.for_owner(|| CacheOwner(core.layout.clone()))
        })
    }

    /// Installs the index of the last job; drops that of any other.
    pub fn install(&mut self, index: BuiltIndex<CacheOwner>) {
        with_core!(&mut self.core, core => {
            // Invariant 1.
            if Arc::ptr_eq(&core.layout, &index.owner().0) {
                core.megaflow.install(index.without_owner());
            }
        });
    }

    /// Records that the last job will not be done.
    pub fn forget_training(&mut self) {
        with_core!(&mut self.core, core => core.megaflow.forget_job());
    }

    /// Figures of the learned index, if megaflows use one.
    pub fn learned(&self) -> Option<LearnedStatistics> {
        with_core!(&self.core, core => core.megaflow.learned())
    }

    /// How megaflows are found, and the figures behind that.
    pub fn choice(&self) -> CacheChoice {
        with_core!(&self.core, core => core.megaflow.choice())
    }
}
