//! Training of the wildcard cache's learned index: long work, done elsewhere.
//!
//! [`Datapath::training`] gives it as a value that owns what it needs; [`Training::run`] does it, on
//! whichever thread has the time, while entries come and go; [`Datapath::install`] puts the outcome
//! to use. Answers are the same before and after.
//!
//! 1. The outcome is of the keys' layout with which the job was taken, or it is dropped.

use std::sync::Arc;

use thalweg_classifier::{LearnedStatistics, Trained, TrainingJob};
use thalweg_packet::Layout;

use crate::datapath::{Datapath, with_core};

/// Work for the index of megaflows.
#[derive(Debug)]
pub struct Training {
    layout: Arc<Layout>,
    job: TrainingJob,
}

/// What has come of it.
#[derive(Debug)]
pub struct Learnt {
    layout: Arc<Layout>,
    trained: Trained,
}

impl Training {
    /// Entries that it has.
    pub fn entry_count(&self) -> usize {
        self.job.rule_count()
    }

    /// Does it.
    pub fn run(self) -> Learnt {
        Learnt {
            layout: self.layout,
            trained: self.job.run(),
        }
    }
}

impl Datapath {
    /// Work that is due, if megaflows are in a learned index and have changed much.
    ///
    /// What it needs is copied, so this takes some time for each entry.
    pub fn training(&mut self) -> Option<Training> {
        with_core!(&mut self.core, core => Some(Training {
            job: core.megaflow.index_mut()?.training()?,
            layout: core.layout.clone(),
        }))
    }

    /// Puts the outcome of the last training to use; that of any other is dropped.
    pub fn install(&mut self, learnt: Learnt) {
        with_core!(&mut self.core, core => {
            // Invariant 1.
            if Arc::ptr_eq(&core.layout, &learnt.layout)
                && let Some(index) = core.megaflow.index_mut()
            {
                index.install(learnt.trained);
                core.statistics.trainings += 1;
            }
        });
    }

    /// Says that the work that was given will not be done.
    pub fn forget_training(&mut self) {
        with_core!(&mut self.core, core => {
            core.megaflow.index_mut().into_iter().for_each(|index| index.forget_training());
        });
    }

    /// Figures of the learned index, if megaflows are in one.
    pub fn learned(&mut self) -> Option<LearnedStatistics> {
        with_core!(&mut self.core, core => Some(core.megaflow.index_mut()?.statistics()))
    }
}
