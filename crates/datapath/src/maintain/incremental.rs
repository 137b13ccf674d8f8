//! Maintainers that look at the entries which a change may affect, and at no others.
//!
//! A bundle is one change: its affected entries are found once, against the walks as they were,
//! and each is looked at once, at the version that the bundle makes. No order of its parts matters,
//! and no state between them is ever seen.
//!
//! Searching costs some microseconds a new rule, and a sweep some an entry: where a change has far
//! more rules than there are entries, as when all rules are loaded anew, the entries are swept.
//! `Barrier` then evicts them all.

use thalweg_pipeline::{Delta, Pipeline};

use super::{Flush, Maintainer, Outcome, Repair, Revalidate, Work};
use crate::statistics::EvictReason;

/// New rules for each entry from which on a sweep is taken to be cheaper than a search for each of
/// them. Chosen, not measured.
const SWEEP_AT: usize = 4;

/// Has the interpreter answer the affected entries' keys anew, and repairs what changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Incremental;

impl Maintainer for Incremental {
    fn maintain(&mut self, repair: &mut Repair<'_>, pipeline: &Pipeline, delta: &Delta) -> Work {
        if delta.inserted.len() / SWEEP_AT > repair.len() {
            return Revalidate.maintain(repair, pipeline, delta);
        }
        let mut work = Work::default();
        for id in repair.affected(pipeline, delta) {
            if !delta.groups.is_empty() {
                repair.settle(id);
            }
            work.count(repair.repair(id, pipeline));
        }
        work
    }
}

/// Evicts the affected entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Barrier;

impl Maintainer for Barrier {
    fn maintain(&mut self, repair: &mut Repair<'_>, pipeline: &Pipeline, delta: &Delta) -> Work {
        if delta.inserted.len() / SWEEP_AT > repair.len() {
            return Flush.maintain(repair, pipeline, delta);
        }
        let mut work = Work::default();
        for id in repair.affected(pipeline, delta) {
            repair.evict(id, EvictReason::Changed);
            work.count(Outcome::Evicted);
        }
        work
    }
}
