//! Work that makes table lookups faster: in slices, with long jobs run elsewhere.
//!
//! A table may replace its index: by a learned one that is retrained, or by one of another
//! kind, if that pays off ([`thalweg_classifier::Auto`]). [`Pipeline::tend`] does a bounded
//! part of that work. When the next part is long, it returns a value that owns what the work
//! needs. [`IndexJob::run`](thalweg_classifier::IndexJob::run) does the work on any thread while
//! rules come and go.
//! [`Pipeline::install`] takes the outcome in constant time, and further slices put it to use.
//! Answers are the same before and after.

use std::sync::Arc;

use thalweg_classifier::{AutoStatistics, BuiltIndex, Tending};
use thalweg_packet::Layout;

use crate::action::TableId;
use crate::pipeline::Pipeline;

/// The table that an index is built for, with the layout of its keys.
#[derive(Clone, Debug)]
pub struct TableOwner {
    layout: Arc<Layout>,
    table: TableId,
}

impl TableOwner {
    /// The table.
    pub fn table(&self) -> TableId {
        self.table
    }
}

impl Pipeline {
    /// Does a slice of work, about `steps` rules, for the first table that has some.
    pub fn tend(&mut self, steps: usize) -> Tending<TableOwner> {
        let layout = self.layout().clone();
        let tables = self.generation.tables.iter_mut().enumerate();
        for (id, table) in tables.filter_map(|(id, table)| Some((id, table.as_mut()?))) {
            let table_id = TableId(id as u32);
            let tending = table.classifier.tend(steps);
            if !matches!(tending, Tending::Idle) {
                return tending.for_owner(|| TableOwner {
                    layout,
                    table: table_id,
                });
            }
        }
        Tending::Idle
    }

    /// Installs the index of the table's last job. The index of any other job is dropped, and
    /// so is one for keys of an older layout.
    pub fn install(&mut self, index: BuiltIndex<TableOwner>) {
        let owner = index.owner();
        if !Arc::ptr_eq(self.layout(), &owner.layout) {
            return;
        }
        let place = owner.table.index();
        if let Some(Some(table)) = self.generation.tables.get_mut(place) {
            table.classifier.install(index.without_owner());
        }
    }

    /// Reports that a table's job could not be run, so that it is offered again.
    pub fn forget_training(&mut self, table: TableId) {
        let table = self.generation.tables.get_mut(table.index());
        if let Some(Some(table)) = table {
            table.classifier.forget_job();
        }
    }

    /// Each table with an index that can be chosen or trained, with its choice and the
    /// reasons.
    pub fn choices(&self) -> Vec<(TableId, AutoStatistics)> {
        let tables = self.generation.tables.iter().enumerate();
        let tables = tables.filter_map(|(id, table)| {
            Some((TableId(id as u32), table.as_ref()?.classifier.choice()?))
        });
        tables.collect()
    }
}
