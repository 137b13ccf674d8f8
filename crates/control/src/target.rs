//! What sessions write to and read from: a data plane, behind one trait.
//!
//! A target holds up to two states of programs: the one that packets meet, and one that was saved
//! and waits to be committed. A session prepares a change against what it knows and hands it
//! over; the return of [`Target::apply`] is the barrier: no packet is answered by the older state
//! from then on.
//!
//! There is [`Model`](crate::model::Model), which only keeps what it is told, for tests of
//! sessions, and what runs programs.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::Value;
use crate::change::{ActionCall, Count, EntryKey, EntryRef, Operation};
use crate::p4info::Catalog;
use crate::problem::Problem;

/// Which of a target's two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one that packets meet.
    Running,
    /// The one that is saved.
    Saved,
}

/// What a program brings along.
#[derive(Clone, Debug, Default)]
pub struct Initial {
    /// Its entries.
    pub entries: Vec<InitialEntry>,
    /// Its default actions, by table.
    pub defaults: Vec<(u32, ActionCall)>,
    /// Objects of P4Info that the program does not have, as no packet meets them: they read as
    /// empty, and cannot be written.
    pub absent: BTreeSet<u32>,
}

/// An entry that a program brings along.
#[derive(Clone, Debug)]
pub struct InitialEntry {
    /// Its table.
    pub table: u32,
    /// Which entry.
    pub key: EntryKey,
    /// What it does.
    pub action: ActionCall,
    /// Whether it stays for ever.
    pub is_const: bool,
}

/// What a data plane knows of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryState {
    /// What its direct counter has counted.
    pub count: Count,
    /// How long ago it was last met, or made, in nanoseconds.
    pub idle_ns: u64,
}

/// An operation that a target does not do. Nothing of its change was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Which operation of the change.
    pub index: usize,
    /// Why.
    pub problem: Problem,
}

/// A data plane.
pub trait Target {
    /// Whether a program could be loaded; nothing changes.
    ///
    /// # Errors
    /// As [`Target::load`].
    fn verify(&self, catalog: &Catalog, program: &[u8]) -> Result<(), Problem>;

    /// Makes the saved state that of a program, without entries but its own.
    ///
    /// `program` is the device configuration: the JSON text that p4c writes for BMv2. A state
    /// that was saved before is gone, unless there is an error.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it cannot be run, or does not fit P4Info.
    fn load(&mut self, catalog: &Catalog, program: &[u8]) -> Result<Initial, Problem>;

    /// Forgets the saved state, if there is one.
    fn discard(&mut self);

    /// Lets packets meet the saved state; the one that they met is gone.
    ///
    /// # Panics
    /// If nothing is saved.
    fn commit(&mut self);

    /// Does a change, whole or not at all; packets meet all of it or nothing.
    ///
    /// # Errors
    /// If an operation is refused; then nothing was done.
    fn apply(&mut self, side: Side, change: &[Operation]) -> Result<(), Refusal>;

    /// What counters of an array have counted.
    ///
    /// # Errors
    /// If the data plane does not answer.
    fn counts(
        &mut self,
        side: Side,
        counter: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Count>, Problem>;

    /// What registers of an array hold: for each, the numbers of its type.
    ///
    /// # Errors
    /// If the data plane does not answer.
    fn registers(
        &mut self,
        side: Side,
        register: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Vec<Value>>, Problem>;

    /// What is known of entries of a table, all of which are there.
    ///
    /// # Errors
    /// If the data plane does not answer.
    fn entries(
        &mut self,
        side: Side,
        table: u32,
        entries: &[EntryRef],
    ) -> Result<Vec<EntryState>, Problem>;

    /// Sends a packet into the program, as if it came in at the controller's port.
    ///
    /// # Errors
    /// If there is no such port, or too many packets wait.
    fn inject(&mut self, packet: &[u8]) -> Result<(), Problem>;
}
