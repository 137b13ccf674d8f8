//! Maintainers that look at every entry.

use thalweg_pipeline::{Delta, Pipeline};

use super::{Maintainer, Outcome, Repair, Work};
use crate::statistics::EvictReason;

/// Evicts everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flush;

impl Maintainer for Flush {
    fn maintain(&mut self, repair: &mut Repair<'_>, _: &Pipeline, _: &Delta) -> Work {
        let mut work = Work::default();
        for id in repair.entries() {
            repair.evict(id, EvictReason::Flushed);
            work.count(Outcome::Evicted);
        }
        work
    }
}

/// Re-executes every entry: the baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Revalidate;

impl Maintainer for Revalidate {
    fn maintain(&mut self, repair: &mut Repair<'_>, pipeline: &Pipeline, delta: &Delta) -> Work {
        let mut work = Work::default();
        for id in repair.entries() {
            if !delta.groups.is_empty() {
                repair.settle(id);
            }
            work.count(repair.retranslate(id, pipeline));
        }
        work
    }
}
