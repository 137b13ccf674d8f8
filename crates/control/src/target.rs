//! The data plane that sessions write to and read from, behind one trait.
//!
//! A target holds up to two program states: the running one, which packets see, and a saved
//! one, which waits to be committed. A session checks a change against its own knowledge and
//! hands it over. The return of [`Target::apply`] is the barrier: from then on no packet sees
//! the older state.
//!
//! There are two implementations: [`Model`](crate::model::Model), which only stores writes, for
//! tests of sessions, and the `P4Plane` of the crate `switch`, which runs programs.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::Value;
use crate::change::{ActionCall, Count, EntryKey, EntryRef, Operation};
use crate::p4info::Catalog;
use crate::problem::Problem;

/// One of a target's two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The state that packets see.
    Running,
    /// The saved state.
    Saved,
}

/// The initial content of a program.
#[derive(Clone, Debug, Default)]
pub struct Initial {
    /// Its entries.
    pub entries: Vec<InitialEntry>,
    /// Its default actions, by table.
    pub defaults: Vec<(u32, ActionCall)>,
    /// Objects of P4Info that the program lacks.
    ///
    /// No packet can reach them. They read as empty, and cannot be written.
    pub absent: BTreeSet<u32>,
}

/// An entry declared in a program.
#[derive(Clone, Debug)]
pub struct InitialEntry {
    /// Its table.
    pub table: u32,
    /// Its key.
    pub key: EntryKey,
    /// Its action.
    pub action: ActionCall,
    /// Whether it can never change.
    pub is_const: bool,
}

/// A data plane's state of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryState {
    /// The value of its direct counter.
    pub count: Count,
    /// The time since it was last hit, or written if it never was, in nanoseconds.
    pub idle_ns: u64,
}

/// The refusal of an operation. Nothing of its change was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The index of the operation in the change.
    pub index: usize,
    /// The reason.
    pub problem: Problem,
}

/// A data plane.
pub trait Target {
    /// Checks whether a program could be loaded; changes nothing.
    ///
    /// # Errors
    /// As [`Target::load`].
    fn verify(&self, catalog: &Catalog, program: &[u8]) -> Result<(), Problem>;

    /// Replaces the saved state by that of a program with its own entries only.
    ///
    /// `program` is the device configuration: the JSON text that p4c writes for BMv2. An
    /// earlier saved state is discarded, unless there is an error.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the program cannot run, or does not fit P4Info.
    fn load(&mut self, catalog: &Catalog, program: &[u8]) -> Result<Initial, Problem>;

    /// Discards the saved state, if there is one.
    fn discard(&mut self);

    /// Makes the saved state the running one, and discards the old one.
    ///
    /// # Panics
    /// Panics if there is no saved state.
    fn commit(&mut self);

    /// Does a change, whole or not at all; packets see all of it or nothing.
    ///
    /// # Errors
    /// Fails if an operation is refused; then nothing was done.
    fn apply(&mut self, side: Side, change: &[Operation]) -> Result<(), Refusal>;

    /// Reads counters of an array.
    ///
    /// # Errors
    /// Fails if the data plane does not answer.
    fn counts(
        &mut self,
        side: Side,
        counter: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Count>, Problem>;

    /// Reads registers of an array: for each, the numbers of its type.
    ///
    /// # Errors
    /// Fails if the data plane does not answer.
    fn registers(
        &mut self,
        side: Side,
        register: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Vec<Value>>, Problem>;

    /// Reads the states of a table's entries, all of which must exist.
    ///
    /// # Errors
    /// Fails if the data plane does not answer.
    fn entries(
        &mut self,
        side: Side,
        table: u32,
        entries: &[EntryRef],
    ) -> Result<Vec<EntryState>, Problem>;

    /// Sends a packet into the program, as if it arrived at the controller's port.
    ///
    /// # Errors
    /// Fails if there is no such port, or if too many packets are waiting.
    fn inject(&mut self, packet: &[u8]) -> Result<(), Problem>;
}
