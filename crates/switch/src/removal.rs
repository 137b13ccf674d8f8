//! The reports of ended rules.

use std::time::Duration;

use thalweg_pipeline::{Counters, Flow};

/// Why a rule ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemovalReason {
    /// It was idle for too long.
    IdleTimeout,
    /// Its time was over.
    HardTimeout,
    /// It was deleted, or replaced by another.
    Deleted,
    /// A group that it used was deleted.
    GroupDeleted,
    /// A meter that it used was deleted.
    MeterDeleted,
    /// It made room for another in a full table.
    Evicted,
}

/// The report of an ended rule that asked for it.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The rule.
    pub flow: Flow,
    /// Why it ended.
    pub reason: RemovalReason,
    /// Its final counters.
    pub counters: Counters,
    /// How long it existed.
    pub duration: Duration,
}
