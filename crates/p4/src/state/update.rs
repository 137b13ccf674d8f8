//! The updates that a controller can request.

use num_bigint::BigUint;

pub use crate::program::hash::CrcParameters;
use crate::program::ids::{
    ActionId, CalculationId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};
use crate::program::table::Match;

use crate::counter::Counter;
use crate::meter::MeterRates;

/// One update.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// Inserts an entry that does not exist yet.
    InsertEntry(TableId, TableEntry),
    /// Gives an entry another action. Its counter, meter and last hit stay, and its match still
    /// identifies it.
    ModifyEntry(TableId, TableEntry),
    /// Deletes an entry, given its match and priority.
    DeleteEntry(TableId, Vec<Match>, u32),
    /// Sets a table's default action; `None` restores the program's.
    SetDefault(TableId, Option<ActionCall>),
    /// Deletes all entries of a table.
    ClearTable(TableId),
    /// Writes a member of an action profile.
    Member(Mode, ProfileId, u32, Option<ActionCall>),
    /// Writes a group of an action profile: its members, each with a weight.
    Group(Mode, ProfileId, u32, Vec<(u32, u32)>),
    /// Sets a cell of an array of counters.
    SetCounter(CounterId, u32, Counter),
    /// Sets the counter of an entry.
    SetEntryCounter(TableId, Vec<Match>, u32, Counter),
    /// Sets a cell of an array of meters; `None` makes every packet green.
    SetMeter(MeterId, u32, Option<MeterRates>),
    /// Sets the meter of an entry.
    SetEntryMeter(TableId, Vec<Match>, u32, Option<MeterRates>),
    /// Sets a cell of an array of registers.
    SetRegister(RegisterId, u32, BigUint),
    /// Replaces all members of a value set.
    SetValues(ValueSetId, Vec<BigUint>),
    /// Writes where the clones of a session go.
    Mirror(Mode, u16, Mirror),
    /// Writes the copies of a multicast group.
    Multicast(Mode, u16, Vec<Replica>),
    /// Sets the parameters of a CRC whose algorithm's name ends in `_custom`.
    SetCrc(CalculationId, CrcParameters),
}

/// Whether the item must exist before the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// It must not exist.
    Insert,
    /// It must exist.
    Modify,
    /// It must exist, and is deleted.
    Delete,
    /// It may or may not exist.
    Set,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableEntry {
    /// Its condition on each part of the key.
    pub matches: Vec<Match>,
    /// Of the entries that match, the larger priority wins. 0 where the key has no priorities.
    pub priority: u32,
    /// What it does.
    pub action: EntryAction,
    /// After how long without a packet the controller is notified; 0 for never.
    pub idle_timeout_ns: u64,
}

/// What an entry does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryAction {
    /// An action.
    Call(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's action profile.
    Group(u32),
    /// Its own group: actions, each with a weight.
    OneShot(Vec<(ActionCall, u32)>),
}

/// An action with its data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// A number for each parameter.
    pub data: Vec<BigUint>,
}

/// Where clones of a session go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mirror {
    /// All copies of a multicast group.
    pub group: Option<u16>,
    /// Further copies.
    pub replicas: Vec<Replica>,
    /// Maximum length of a clone in bytes.
    pub length_max_bytes: Option<u32>,
}

/// A copy of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replica {
    /// The port it leaves by.
    pub port: u32,
    /// The number of the copy: `egress_rid`.
    pub instance: u16,
}
