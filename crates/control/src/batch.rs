//! Does a batch of updates, and returns a verdict for each.
//!
//! Every update is planned against the store. The resulting change goes to the target in one
//! piece, so packets see all of it or nothing, with either atomicity. The atomicities differ in
//! what happens to the rest when an update is refused:
//!
//! | atomicity | an update is refused |
//! | --- | --- |
//! | `CONTINUE_ON_ERROR` | the others are done |
//! | `ROLLBACK_ON_ERROR`, `DATAPLANE_ATOMIC` | none is done; the others are `ABORTED` |
//!
//! If the target refuses after all checks, a batch that may continue is repeated update by
//! update.

use crate::change::Change;
use crate::problem::{Code, Failure, Problem, Verdicts};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::write_request::Atomicity;
use crate::store::Store;
use crate::target::{Side, Target};

/// Does a batch.
///
/// # Errors
/// Returns a verdict for each update, if one or more were refused.
pub(crate) fn write(
    store: &mut Store,
    target: &mut dyn Target,
    side: Side,
    updates: &[p4::Update],
    atomicity: Atomicity,
) -> Result<(), Failure> {
    let mut change = Change::new();
    let start = store.mark(&change);
    let mut verdicts = Verdicts::with_capacity(updates.len());
    let mut ends = Vec::with_capacity(updates.len());
    for update in updates {
        verdicts.push(store.update(update, &mut change));
        ends.push(change.len());
    }
    let may_continue = atomicity == Atomicity::ContinueOnError;
    let has_failed = verdicts.iter().any(Result::is_err);
    if has_failed && !may_continue {
        store.undo_to(start, &mut change);
        store.keep();
        return Err(aborted(verdicts));
    }
    match target.apply(side, &change) {
        Ok(()) => store.keep(),
        Err(refusal) => {
            store.undo_to(start, &mut change);
            if !may_continue {
                let refused = ends.partition_point(|end| *end <= refusal.index);
                if let Some(verdict) = verdicts.get_mut(refused) {
                    *verdict = Err(refusal.problem);
                }
                store.keep();
                return Err(aborted(verdicts));
            }
            verdicts = one_by_one(store, target, side, updates);
        }
    }
    if verdicts.iter().any(Result::is_err) {
        return Err(Failure::Parts(verdicts));
    }
    Ok(())
}

fn one_by_one(
    store: &mut Store,
    target: &mut dyn Target,
    side: Side,
    updates: &[p4::Update],
) -> Verdicts {
    let one = |update: &p4::Update| {
        let mut change = Change::new();
        let start = store.mark(&change);
        store.update(update, &mut change)?;
        let done = target.apply(side, &change);
        if done.is_err() {
            store.undo_to(start, &mut change);
        }
        store.keep();
        done.map_err(|refusal| refusal.problem)
    };
    updates.iter().map(one).collect()
}

/// Marks the updates that would have been done as aborted.
fn aborted(verdicts: Verdicts) -> Failure {
    let verdict = |verdict: Result<(), Problem>| match verdict {
        Ok(()) => Err(Problem::new(
            Code::Aborted,
            "not done, as another update of the batch was refused",
        )),
        refused => refused,
    };
    Failure::Parts(verdicts.into_iter().map(verdict).collect())
}
