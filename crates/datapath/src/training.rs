//! Trains the wildcard cache's learned index: in slices, with long jobs run elsewhere.
//!
//! [`Datapath::tend`] does a bounded part of the work, between two bursts. When the next part
//! is long, it returns a value that owns what the work needs. [`Training::run`] does it on any
//! thread while entries come and go. [`Datapath::install`] takes the outcome in constant time,
//! and further slices put it to use. Answers are the same before and after.
//!
//! 1. An outcome is dropped if the layout has changed since the job was taken.

use std::sync::Arc;

use thalweg_classifier::{Job, LearnedStatistics, Outcome, Tended};
use thalweg_packet::Layout;

use crate::datapath::{Datapath, with_core};
use crate::megaflow::CacheChoice;

/// A long job for the index of megaflows.
#[derive(Debug)]
pub struct Training {
    layout: Arc<Layout>,
    job: Job,
}

/// The result of a [`Training`].
#[derive(Debug)]
pub struct Learnt {
    layout: Arc<Layout>,
    outcome: Outcome,
}

/// What a slice of tending leaves to do.
#[derive(Debug)]
pub enum Tending {
    /// Nothing.
    Idle,
    /// Another slice, soon.
    More,
    /// A long job to run.
    Job(Training),
}

impl Training {
    /// Number of entries the job covers; 0 if it only frees memory.
    pub fn entry_count(&self) -> usize {
        self.job.rule_count()
    }

    /// Runs the job.
    pub fn run(self) -> Learnt {
        Learnt {
            layout: self.layout,
            outcome: self.job.run(),
        }
    }
}

impl Datapath {
    /// Does a slice of work for the index of megaflows, about `steps` entries, if there is
    /// some.
    pub fn tend(&mut self, steps: usize) -> Tending {
        with_core!(&mut self.core, core => {
            let before = core.megaflow.trainings();
            let tended = core.megaflow.tend(&core.entries, &core.layout, steps);
            core.statistics.trainings += core.megaflow.trainings().saturating_sub(before);
            match tended {
                Tended::Idle => Tending::Idle,
                Tended::More => Tending::More,
                Tended::Job(job) => Tending::Job(Training { layout: core.layout.clone(), job }),
            }
        })
    }

    /// Installs the outcome of the last job; drops that of any other.
    pub fn install(&mut self, learnt: Learnt) {
        with_core!(&mut self.core, core => {
            // Invariant 1.
            if Arc::ptr_eq(&core.layout, &learnt.layout) {
                core.megaflow.install(learnt.outcome);
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
