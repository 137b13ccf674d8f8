//! Keeps the flows of some rules few while a cache grows.
//!
//! With a million flows through a pipeline of 12,000 rules, no rule is met by only ten of
//! them. Sizes must be compared at equal numbers of affected entries. So some rules are chosen
//! while the cache is small: those that as many flows have met as changes should affect. From
//! then on, flows that would meet one of these rules are left out; the interpreter finds out
//! which would. So the same rules are changed in caches of all sizes, and the sizes differ
//! only in their other entries.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use thalweg_packet::{Packet, PacketPool};
use thalweg_pipeline::{Outbox, Pipeline, RuleId, StepKind, forward};

/// Entries in the cache when the rules are chosen: the smallest size that is usually compared.
pub(super) const CHOSEN_AT: usize = 10_000;

/// Rules chosen for each number of flows.
const RULES_EACH: usize = 64;

/// The rules that no further flow may meet.
pub(super) struct Kept {
    rules: HashSet<RuleId>,
    outbox: Outbox,
}

impl Kept {
    /// Chooses among rules, each given with the number of flows that met it.
    pub(super) fn choose(rules: &[(RuleId, u64)], wanted: &[RangeInclusive<u64>]) -> Kept {
        let of_range = |range: &RangeInclusive<u64>| {
            let range = range.clone();
            let met = rules.iter().filter(move |(_, flows)| range.contains(flows));
            met.take(RULES_EACH).map(|(rule, _)| *rule)
        };
        Kept {
            rules: wanted.iter().flat_map(of_range).collect(),
            outbox: Outbox::new(PacketPool::with_capacity(8, 2_048)),
        }
    }

    /// Whether a packet would meet one of the rules.
    pub(super) fn is_met_by(&mut self, pipeline: &Pipeline, packet: &Packet) -> bool {
        let passes = forward(
            pipeline,
            pipeline.version(),
            packet.clone(),
            &mut self.outbox,
        );
        self.outbox.recycle();
        let meets = |kind| match kind {
            StepKind::Lookup {
                rule: Some(rule), ..
            } => self.rules.contains(&rule),
            _ => false,
        };
        let passes = passes.iter().flatten();
        passes.flat_map(|pass| pass.trace.kinds()).any(meets)
    }
}
