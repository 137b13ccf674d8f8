//! Work that makes the lookups of tables faster: in slices, and long parts elsewhere.
//!
//! A table may have its index replaced by another: a learned one trained again, or one of another
//! kind, if that pays ([`thalweg_classifier::Auto`]). [`Pipeline::tend`] does a bounded part of
//! that, and when it comes to a long one gives it as a value that owns what it needs;
//! [`Training::run`] does it, on whichever thread has the time, while rules come and go;
//! [`Pipeline::install`] takes the outcome in constant time, and further slices put it to use.
//! Answers are the same before and after.

use std::sync::Arc;

use thalweg_classifier::{AutoStatistics, Job, Outcome, Tended};
use thalweg_packet::Layout;

use crate::action::TableId;
use crate::pipeline::Pipeline;

/// Work for one table.
#[derive(Debug)]
pub struct Training {
    layout: Arc<Layout>,
    table: TableId,
    job: Job,
}

/// What has come of it.
#[derive(Debug)]
pub struct Learnt {
    layout: Arc<Layout>,
    table: TableId,
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
    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Rules that it has to do with; 0 if it only gives memory back.
    pub fn rule_count(&self) -> usize {
        self.job.rule_count()
    }

    /// Does it.
    pub fn run(self) -> Learnt {
        Learnt {
            layout: self.layout,
            table: self.table,
            outcome: self.job.run(),
        }
    }
}

impl Pipeline {
    /// A slice of work of the first table that has some: `steps` rules or so.
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

    /// Takes the outcome of the table's last work; that of any other is dropped, and so is one of
    /// keys that have another layout by now.
    pub fn install(&mut self, learnt: Learnt) {
        if !Arc::ptr_eq(self.layout(), &learnt.layout) {
            return;
        }
        let table = self.generation.tables.get_mut(usize::from(learnt.table.0));
        if let Some(Some(table)) = table {
            table.classifier.install(learnt.outcome);
        }
    }

    /// Says that work of a table could not be done, so that it is given again.
    pub fn forget_training(&mut self, table: TableId) {
        let table = self.generation.tables.get_mut(usize::from(table.0));
        if let Some(Some(table)) = table {
            table.classifier.forget_job();
        }
    }

    /// Which index each table has that may choose or train it, and why.
    pub fn choices(&self) -> Vec<(TableId, AutoStatistics)> {
        let tables = self.generation.tables.iter().enumerate();
        let tables = tables.filter_map(|(id, table)| {
            Some((TableId(id as u8), table.as_ref()?.classifier.choice()?))
        });
        tables.collect()
    }
}
