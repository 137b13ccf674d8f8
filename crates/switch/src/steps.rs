//! Works on the pipeline in steps, so that workers can read it in between.
//!
//! A worker reads the pipeline for each upcall. A change of 200,000 rules, settling their
//! counts, and reclaiming them take long. So each step locks the pipeline only for a limited
//! number of rules; a change of few rules is made and published at once. The rules of a step
//! are first prefetched while workers read, so that the locked part is short. A waiting thread
//! spins for about the length of a step, and workers let the control side go first ([`Gate`]).
//!
//! 1. Between steps, readers of the published version see nothing of a change.

use thalweg_datapath::{Gate, Ledger};
use thalweg_packet::Instant;
use thalweg_pipeline::{Change, ChangeError, Delta, Pipeline, Progress, Version};

/// Rules that are credited or reclaimed per step. In a model check, whose changes are small,
/// few enough that they take several steps.
const PARTS: usize = if cfg!(thalweg_model) { 2 } else { 128 };
/// Rules that are changed per step.
const CHANGED: usize = if cfg!(thalweg_model) { 2 } else { 32 };

/// Makes a change and publishes it.
///
/// # Errors
/// If any of its operations cannot be done; then nothing is done.
pub(crate) fn apply(
    pipeline: &Gate<Pipeline>,
    change: &Change,
    now: Instant,
) -> Result<Delta, ChangeError> {
    let reader = pipeline.read();
    let mut plan = reader.plan(change)?;
    reader.foresee(&plan, CHANGED);
    drop(reader);
    let mut writer = pipeline.write();
    writer.begin(&mut plan, now);
    loop {
        // An operation that selects rules finds them while others read.
        if !plan.needs_search() {
            match writer.perform(&mut plan, CHANGED) {
                Ok(Progress::Unfinished) => {}
                Ok(Progress::Finished) => return Ok(writer.publish()),
                Err(error) => {
                    drop(writer);
                    while pipeline.write().undo(PARTS) == Progress::Unfinished {}
                    return Err(error);
                }
            }
        }
        drop(writer);
        let reader = pipeline.read();
        reader.search(&mut plan);
        reader.foresee(&plan, CHANGED);
        drop(reader);
        writer = pipeline.write();
    }
}

/// Settles counts with the pipeline.
pub(crate) fn settle(pipeline: &Gate<Pipeline>, ledger: Ledger) {
    let mut counts = ledger.into_counts();
    while !counts.is_empty() {
        counts.settle(&mut pipeline.write(), PARTS);
    }
}

/// Drops what no version from `oldest` on can see.
pub(crate) fn reclaim(pipeline: &Gate<Pipeline>, oldest: Version) {
    while pipeline.write().reclaim_some(oldest, PARTS) == Progress::Unfinished {}
}
