//! Looks up a burst: all keys in each iSet, then all in the remainder.

use crate::merged_tuples::Best;
use crate::{Precedence, RuleId, Version};

use super::Learned;
use super::index::{Search, Trained};
use super::limits::{BURST, NO_SLOT};

impl Learned {
    /// Looks up at most [`BURST`] keys in iSets and remainder.
    pub(super) fn lookup_burst(
        &self,
        trained: &Trained,
        keys: &[u64],
        version: Version,
        answers: &mut [Option<RuleId>],
    ) {
        let mut slots = [NO_SLOT; BURST];
        let slots = &mut slots[..answers.len()];
        self.config.level.run(Search {
            trained,
            keys,
            version,
            best: slots,
        });
        let mut best = [Best::NONE; BURST];
        let best = &mut best[..answers.len()];
        for (best, &mut slot) in best.iter_mut().zip(slots) {
            *best = self.found_by(trained, slot);
        }
        self.remainder.improve_burst(keys, version, best);
        for (answer, best) in answers.iter_mut().zip(best) {
            *answer = best.id();
        }
    }

    /// The result of the iSets as the remainder takes it.
    ///
    /// If any rule will do it has the highest precedence, so no table has a better rule.
    #[inline(always)]
    pub(super) fn found_by(&self, trained: &Trained, slot: u32) -> Best {
        let best = best_of(trained, slot);
        match (self.config.takes_any, best.id()) {
            (true, Some(id)) => Best::beside(Precedence::HIGHEST, id),
            _ => best,
        }
    }
}

/// A slot's rule as the remainder takes it.
#[inline(always)]
pub(super) fn best_of(trained: &Trained, slot: u32) -> Best {
    if slot == NO_SLOT {
        return Best::NONE;
    }
    let rule = trained.slots.get(slot);
    Best::beside(rule.precedence, rule.id)
}
