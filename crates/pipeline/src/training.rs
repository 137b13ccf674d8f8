//! Training of tables that learn: long work, done elsewhere.
//!
//! A table's classifier may have work that makes its lookups faster and takes longer than a reader
//! of the pipeline should wait. [`Pipeline::training`] gives it as a value that owns what it needs;
//! [`Training::run`] does it, on whichever thread has the time, while rules come and go;
//! [`Pipeline::install`] puts the outcome to use. Answers are the same before and after.

use std::sync::Arc;

use thalweg_classifier::{Trained, TrainingJob};
use thalweg_packet::Layout;

use crate::action::TableId;
use crate::pipeline::Pipeline;

/// Work for one table.
#[derive(Debug)]
pub struct Training {
    layout: Arc<Layout>,
    table: TableId,
    job: TrainingJob,
}

/// What has come of it.
#[derive(Debug)]
pub struct Learnt {
    layout: Arc<Layout>,
    table: TableId,
    trained: Trained,
}

impl Training {
    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Rules that it has.
    pub fn rule_count(&self) -> usize {
        self.job.rule_count()
    }

    /// Does it.
    pub fn run(self) -> Learnt {
        Learnt {
            layout: self.layout,
            table: self.table,
            trained: self.job.run(),
        }
    }
}

impl Pipeline {
    /// Work that is due, if there is some: for a table whose rules have changed much.
    ///
    /// What it needs is copied from the table, so this takes some time for each of its rules.
    pub fn training(&mut self) -> Option<Training> {
        let layout = self.layout().clone();
        let tables = self.generation.tables.iter_mut().enumerate();
        let mut tables = tables.filter_map(|(id, table)| Some((id, table.as_mut()?)));
        tables.find_map(|(id, table)| {
            Some(Training {
                job: table.classifier.training()?,
                layout: layout.clone(),
                table: TableId(id as u8),
            })
        })
    }

    /// Puts the outcome of the table's last training to use; that of any other is dropped, and so is
    /// one of keys that have another layout by now.
    pub fn install(&mut self, learnt: Learnt) {
        if !Arc::ptr_eq(self.layout(), &learnt.layout) {
            return;
        }
        let table = self.generation.tables.get_mut(usize::from(learnt.table.0));
        if let Some(Some(table)) = table {
            table.classifier.install(learnt.trained);
        }
    }
}
