//! Maintainers that look at every entry: the baselines.

use super::{Maintainer, Repair, Scope};
use crate::outcome::Outcome;
use crate::statistics::EvictReason;

/// Evicts everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flush;

impl Maintainer for Flush {
    fn scope(&self) -> Scope {
        Scope::Everything
    }

    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome {
        repair.evict(EvictReason::Flushed)
    }
}

/// Translates every entry again before a packet is forwarded at the new version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Revalidate;

impl Maintainer for Revalidate {
    fn scope(&self) -> Scope {
        Scope::Everything
    }

    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome {
        repair.retranslate()
    }
}

/// Translates every entry again while packets are forwarded; entries not reached yet give old
/// answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lazy;

impl Maintainer for Lazy {
    fn scope(&self) -> Scope {
        Scope::Later
    }

    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome {
        repair.retranslate()
    }
}
