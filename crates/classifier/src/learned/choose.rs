//! Chooses the fields that sort an iSet: those that separate the most rules.
//!
//! ```text
//!   try each field alone; of the best three:
//!       again and again: try each field after those chosen; keep the best if it adds a hundredth
//! ```
//!
//! NuevoMatch uses one field. But real lists have hundreds of rules with one address, and a
//! filter with port ranges is dozens of rules with the same addresses. A second field after
//! the first separates these. And a rule that leaves an address open is separated by a port
//! placed before it.
//!
//! A trial partitions some windows of the sorted rules, about [`SAMPLE`] rules in all. A
//! window has neighbouring rules, because every hundredth rule would not show how many
//! overlap.

use thalweg_packet::Slot;

use crate::cost::worth_in_group;

use super::composite::Composite;
use super::partition::{Buckets, LANES, Limits, Ranged, partition};
use super::snapshot::Snapshot;

/// The number of rules in a trial.
const SAMPLE: usize = 12_000;
/// The number of rules in a window.
const WINDOW: usize = 1_500;
/// The number of first fields that are extended by others.
const BEAM: usize = 3;
/// The most fields of an iSet.
const FIELDS_MAX: usize = 4;

/// The chosen fields, and the number of rules that they are expected to keep.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) fields: Vec<usize>,
    pub(super) kept: f64,
}

/// The best fields for rules of a snapshot; `None` if no field separates any.
pub(super) fn choose(
    snapshot: &Snapshot,
    rules: &[u32],
    fields: &[Slot],
    limits: Limits,
) -> Option<Choice> {
    let kept = |chosen: &[usize]| {
        let composite = Composite::new(chosen.iter().map(|&field| fields[field]));
        expected(snapshot, rules, &composite, limits)
    };
    let is_used = |field: &usize| {
        let composite = Composite::new([fields[*field]]);
        let mut masks = rules.iter().map(|&rule| snapshot.pattern(rule));
        masks.any(|pattern| composite.block(pattern.value, pattern.mask).length > 0)
    };
    let used: Vec<usize> = (0..fields.len()).filter(is_used).collect();
    let mut choices: Vec<Choice> = Vec::new();
    for &field in &used {
        let fields = vec![field];
        choices.push(Choice {
            kept: kept(&fields),
            fields,
        });
    }
    choices.sort_by(|one, other| other.kept.total_cmp(&one.kept));
    choices.truncate(BEAM);
    for choice in &mut choices {
        while choice.fields.len() < FIELDS_MAX {
            let others = used.iter().filter(|field| !choice.fields.contains(field));
            let longer = others.map(|&field| {
                let mut fields = choice.fields.clone();
                fields.push(field);
                let kept = kept(&fields);
                Choice { fields, kept }
            });
            let best = longer.max_by(|one, other| one.kept.total_cmp(&other.kept));
            match best {
                Some(best) if best.kept > choice.kept + rules.len() as f64 / 100.0 => {
                    *choice = best;
                }
                _ => break,
            }
        }
    }
    choices
        .into_iter()
        .max_by(|one, other| one.kept.total_cmp(&other.kept))
}

/// The number of rules expected to be kept.
fn expected(snapshot: &Snapshot, rules: &[u32], composite: &Composite, limits: Limits) -> f64 {
    let ranged = blocks(snapshot, rules, composite);
    if ranged.len() <= SAMPLE {
        let count = ranged.len();
        let buckets = partition(ranged, composite, limits);
        return (count - buckets.left.len()) as f64 * worth(&buckets);
    }
    let step = ranged.len() / 1024;
    let mut lows: Vec<u128> = ranged
        .iter()
        .step_by(step)
        .map(|rule| rule.block.low)
        .collect();
    lows.sort_unstable();
    let windows = ranged.len().div_ceil(WINDOW);
    let mut bounds: Vec<u128> = (1..windows)
        .map(|window| lows[window * lows.len() / windows])
        .collect();
    bounds.dedup();
    let every = bounds.len().div_ceil(SAMPLE / WINDOW).max(1);
    // Rules whose block exceeds a window overlap too many others and are left over.
    let (mut inside, mut narrow) = (Vec::new(), 0);
    for rule in ranged {
        let window = bounds.partition_point(|&bound| bound <= rule.block.low);
        let is_narrow = bounds
            .get(window)
            .is_none_or(|&bound| composite.high(rule.block) < bound);
        narrow += usize::from(is_narrow);
        if is_narrow && window % every == 0 {
            inside.push(rule);
        }
    }
    let count = inside.len();
    let buckets = partition(inside, composite, limits);
    let kept = (count - buckets.left.len()) as f64 * worth(&buckets);
    kept / count.max(1) as f64 * narrow as f64
}

/// The mean worth of a rule in these buckets, by how far back it lies.
fn worth(buckets: &Buckets) -> f64 {
    let all = (0..buckets.starts.len()).map(|bucket| buckets.bucket(bucket).len());
    let (mut worth, mut rules) = (0.0, 0);
    for count in all {
        let groups = (0..count.div_ceil(LANES)).map(|group| {
            let own = LANES.min(count - group * LANES);
            own as f64 * worth_in_group(group)
        });
        worth += groups.sum::<f64>();
        rules += count;
    }
    worth / rules.max(1) as f64
}

/// The rules with their blocks.
pub(super) fn blocks(snapshot: &Snapshot, rules: &[u32], composite: &Composite) -> Vec<Ranged> {
    let ranged = rules.iter().map(|&rule| {
        let pattern = snapshot.pattern(rule);
        Ranged {
            block: composite.block(pattern.value, pattern.mask),
            rule,
        }
    });
    ranged.collect()
}
