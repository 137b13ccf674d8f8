//! Work on the pipeline in steps, so that workers can ask it in between.
//!
//! A worker reads the pipeline for each upcall. A change of 200,000 rules, the counts of as many
//! and their end take a good part of a second; here the pipeline is held for some hundred of them
//! at a time, which is some hundred microseconds; a change of few rules is made and published at
//! once. Before that the same rules are looked at while workers read, so that what the change needs
//! is near by then. A worker that comes meanwhile waits awake for as long as a step of a change
//! usually takes (`thalweg_datapath::read_soon`).
//!
//! 1. Between steps readers of the published version see nothing of a change.

use std::sync::PoisonError;

use thalweg_datapath::Ledger;
use thalweg_packet::Instant;
use thalweg_pipeline::{Change, ChangeError, Delta, Pipeline, Progress, Version};

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Rules that are credited or forgotten while readers wait. In a model check, whose changes are
/// small, so few that they take several steps.
const PARTS: usize = if cfg!(thalweg_model) { 2 } else { 128 };
/// Rules that are changed while readers wait.
const CHANGED: usize = if cfg!(thalweg_model) { 2 } else { 32 };

/// Makes a change and publishes it.
///
/// # Errors
/// If any of its operations cannot be done; then nothing is.
pub(crate) fn apply(
    pipeline: &RwLock<Pipeline>,
    change: &Change,
    now: Instant,
) -> Result<Delta, ChangeError> {
    let reader = read(pipeline);
    let mut plan = reader.plan(change)?;
    reader.foresee(&plan, CHANGED);
    drop(reader);
    let mut writer = write(pipeline);
    writer.begin(&mut plan, now);
    loop {
        // What selects rules finds them while others read.
        if !plan.needs_search() {
            match writer.perform(&mut plan, CHANGED) {
                Ok(Progress::Unfinished) => {}
                Ok(Progress::Finished) => return Ok(writer.publish()),
                Err(error) => {
                    drop(writer);
                    while write(pipeline).undo(PARTS) == Progress::Unfinished {}
                    return Err(error);
                }
            }
        }
        drop(writer);
        let reader = read(pipeline);
        reader.search(&mut plan);
        reader.foresee(&plan, CHANGED);
        drop(reader);
        writer = write(pipeline);
    }
}

/// Gives counts to those they belong to.
pub(crate) fn settle(pipeline: &RwLock<Pipeline>, ledger: Ledger) {
    let mut counts = ledger.into_counts();
    while !counts.is_empty() {
        counts.settle(&mut write(pipeline), PARTS);
    }
}

/// Forgets what no version from this one on can see.
pub(crate) fn reclaim(pipeline: &RwLock<Pipeline>, oldest: Version) {
    while write(pipeline).reclaim_some(oldest, PARTS) == Progress::Unfinished {}
}

pub(crate) fn read(pipeline: &RwLock<Pipeline>) -> RwLockReadGuard<'_, Pipeline> {
    pipeline.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write(pipeline: &RwLock<Pipeline>) -> RwLockWriteGuard<'_, Pipeline> {
    pipeline.write().unwrap_or_else(PoisonError::into_inner)
}
