//! Training of the wildcard cache's learned index: in slices, and long parts elsewhere.
//!
//! [`Datapath::tend`] does a bounded part of it, between two bursts, and when it comes to a long one
//! gives it as a value that owns what it needs; [`Training::run`] does it, on whichever thread has
//! the time, while entries come and go; [`Datapath::install`] takes the outcome in constant time,
//! and further slices put it to use. Answers are the same before and after.
//!
//! 1. The outcome is of the keys' layout with which the job was taken, or it is dropped.

use std::sync::Arc;

use thalweg_classifier::{Job, LearnedStatistics, Outcome, Tended};
use thalweg_packet::Layout;

use crate::datapath::{Datapath, with_core};
use crate::megaflow::CacheChoice;

/// Work for the index of megaflows.
#[derive(Debug)]
pub struct Training {
    layout: Arc<Layout>,
    job: Job,
}

/// What has come of it.
#[derive(Debug)]
pub struct Learnt {
    layout: Arc<Layout>,
    outcome: Outcome,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Tending {
    /// Nothing.
    Idle,
    /// Another slice, soon.
    More,
    /// Long work, which is to be run.
    Job(Training),
}

impl Training {
    /// Entries that it has to do with; 0 if it only gives memory back.
    pub fn entry_count(&self) -> usize {
        self.job.rule_count()
    }

    /// Does it.
    pub fn run(self) -> Learnt {
        Learnt {
            layout: self.layout,
            outcome: self.job.run(),
        }
    }
}

impl Datapath {
    /// A slice of work for the index of megaflows, `steps` entries or so, if it has some.
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

    /// Takes the outcome of the last work; that of any other is dropped.
    pub fn install(&mut self, learnt: Learnt) {
        with_core!(&mut self.core, core => {
            // Invariant 1.
            if Arc::ptr_eq(&core.layout, &learnt.layout) {
                core.megaflow.install(learnt.outcome);
            }
        });
    }

    /// Says that the work that was given will not be done.
    pub fn forget_training(&mut self) {
        with_core!(&mut self.core, core => core.megaflow.forget_job());
    }

    /// Figures of the learned index, if megaflows are in one.
    pub fn learned(&self) -> Option<LearnedStatistics> {
        with_core!(&self.core, core => core.megaflow.learned())
    }

    /// How megaflows are found, and what speaks for that.
    pub fn choice(&self) -> CacheChoice {
        with_core!(&self.core, core => core.megaflow.choice())
    }
}
