//! Maintainers that look at the entries which a change may affect, and at no others.
//!
//! A bundle is one change: its affected entries are found once, against the walks as they were,
//! and each is looked at once, at the version that the bundle makes. No order of its parts matters,
//! and no state between them is ever seen.
//!
//! Searching costs some microseconds a new rule, and a sweep some an entry: where a change has far
//! more rules than there are entries, as when all rules are loaded anew, all entries are looked at.

use super::{Maintainer, Outcome, Repair, Scope};
use crate::statistics::EvictReason;

/// Has the interpreter answer the affected entries' keys anew, and repairs what changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Incremental;

impl Maintainer for Incremental {
    fn scope(&self) -> Scope {
        Scope::Affected
    }

    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome {
        repair.retranslate()
    }
}

/// Evicts the affected entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Barrier;

impl Maintainer for Barrier {
    fn scope(&self) -> Scope {
        Scope::Affected
    }

    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome {
        repair.evict(EvictReason::Changed)
    }
}
