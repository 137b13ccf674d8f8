//! Maintainers that look only at the entries a change may affect.
//!
//! A bundle is one change: its affected entries are found once, by their earlier walks, and
//! each is looked at once, at the version that the bundle makes. The order of its parts does
//! not matter, and no state between them is ever seen.
//!
//! A search costs time for each new rule, a sweep for each entry. If a change has far more
//! rules than there are entries, as when all rules are reloaded, all entries are looked at.

use super::{Maintainer, Repair, Scope};
use crate::outcome::Outcome;
use crate::statistics::EvictReason;

/// Translates the affected entries' keys again, and repairs what changed.
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
