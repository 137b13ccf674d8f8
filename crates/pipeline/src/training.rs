//! Work that makes table lookups faster: in slices, with long jobs run elsewhere.
//!
//! A table may replace its index: by a learned one that is retrained, or by one of another
//! kind, if that pays off ([`thalweg_classifier::Auto`]). [`Pipeline::tend`] does a bounded
//! part of that work. When the next part is long, it returns a value that owns what the work
//! needs. [`Training::run`] does the work on any thread while rules come and go.
//! [`Pipeline::install`] takes the outcome in constant time, and further slices put it to use.
//! Answers are the same before and after.

use std::sync::Arc;

use thalweg_classifier::{AutoStatistics, Job, Outcome, Tended};
use thalweg_packet::Layout;

use crate::action::TableId;
use crate::pipeline::Pipeline;

/// A long job for one table.
#[derive(Debug)]
pub struct Training {
    layout: Arc<Layout>,
    table: TableId,
    job: Job,
}

/// The result of a [`Training`].
#[derive(Debug)]
pub struct Learnt {
    layout: Arc<Layout>,
    table: TableId,
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
    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Number of rules the job covers; 0 if it only frees memory.
    pub fn rule_count(&self) -> usize {
        self.job.rule_count()
    }

    /// Runs the job.
    pub fn run(self) -> Learnt {
        Learnt {
            layout: self.layout,
            table: self.table,
            outcome: self.job.run(),
        }
    }
}

impl Pipeline {
    /// Does a slice of work, about `steps` rules, for the first table that has some.
    pub fn tend(&mut self, steps: usize) -> Tending {
        let layout = self.layout().clone();
        let tables = self.generation.tables.iter_mut().enumerate();
        for (id, table) in tables.filter_map(|(id, table)| Some((id, table.as_mut()?))) {
            match table.classifier.tend(steps) {
                Tended::Idle => {}
                Tended::More => return Tending::More,
                Tended::Job(job) => {
                    let table = TableId(id as u8);
                    return Tending::Job(Training { layout, table, job });
                }
            }
        }
        Tending::Idle
    }

    /// Installs the outcome of the table's last job. The outcome of any other job is dropped,
    /// and so is one for keys of an older layout.
    pub fn install(&mut self, learnt: Learnt) {
        if !Arc::ptr_eq(self.layout(), &learnt.layout) {
            return;
        }
        let table = self.generation.tables.get_mut(usize::from(learnt.table.0));
        if let Some(Some(table)) = table {
            table.classifier.install(learnt.outcome);
        }
    }

    /// Reports that a table's job could not be run, so that it is offered again.
    pub fn forget_training(&mut self, table: TableId) {
        let table = self.generation.tables.get_mut(usize::from(table.0));
        if let Some(Some(table)) = table {
            table.classifier.forget_job();
        }
    }

    /// Each table with an index that can be chosen or trained, with its choice and the
    /// reasons.
    pub fn choices(&self) -> Vec<(TableId, AutoStatistics)> {
        let tables = self.generation.tables.iter().enumerate();
        let tables = tables.filter_map(|(id, table)| {
            Some((TableId(id as u8), table.as_ref()?.classifier.choice()?))
        });
        tables.collect()
    }
}
