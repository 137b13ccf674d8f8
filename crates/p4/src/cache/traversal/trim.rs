//! Removes operations from a recorded segment whose words are not read afterwards.
//!
//! It goes from the last operation to the first with the *live* words: those that something
//! later may read. At the end of a segment these are the words that the rest of the pipeline
//! and everything after it may read ([`Liveness`](super::layout::Liveness)).
//!
//! Tables pass each other metadata that is useless after the lookups. So a long pipeline
//! shrinks to its effects on the packet, and a hit does not cost more for more tables.

use super::facts::Facts;
use super::segment::Operation;
use super::words::WordSet;

/// Removes needless operations; `live` has the words read after the last one, and `is_kept` is
/// scratch space.
pub(crate) fn trim(
    facts: &Facts,
    operations: &mut Vec<Operation>,
    live: &mut WordSet,
    is_kept: &mut Vec<bool>,
) {
    is_kept.clear();
    is_kept.resize(operations.len(), true);
    for (operation, is_kept) in operations.iter().zip(&mut *is_kept).rev() {
        match *operation {
            Operation::Set(to, _) => {
                *is_kept = live.contains(to);
                live.remove(to);
            }
            Operation::Copy(from, to, _) => {
                *is_kept = live.contains(to);
                if *is_kept {
                    live.remove(to);
                    live.insert(from);
                }
            }
            Operation::Step(action, index, _) => {
                let step = &facts.action(action).steps[index as usize];
                let mut writes = step.writes.iter();
                *is_kept = step.has_effect || writes.any(|&word| live.contains(word));
                if !*is_kept {
                    continue;
                }
                if step.writes_all {
                    step.writes.iter().for_each(|&word| live.remove(word));
                }
                live.extend(step.reads.iter().copied());
            }
            Operation::Action(action, _) => {
                live.extend(facts.action(action).reads.iter().copied());
            }
            Operation::Meter(..) | Operation::Fault(_) => {}
        }
    }
    let mut is_kept = is_kept.iter();
    operations.retain(|_| *is_kept.next().expect("one for each"));
}
