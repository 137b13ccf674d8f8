//! What a controller can ask for.

use num_bigint::BigUint;

use crate::program::ids::{
    ActionId, CalculationId, CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};
use crate::program::table::Match;

use super::cells::{Counter, MeterRates};

/// One thing to write.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// An entry that is not there yet.
    InsertEntry(TableId, TableEntry),
    /// Another action for an entry; its counter, meter and last hit stay, and goes on being known by its match.
    ModifyEntry(TableId, TableEntry),
    /// An entry goes: its match and its priority.
    DeleteEntry(TableId, Vec<Match>, u32),
    /// What a table does when nothing matches; none for what the program says.
    SetDefault(TableId, Option<ActionCall>),
    /// All entries of a table go.
    ClearTable(TableId),
    /// A member of an action profile.
    Member(Mode, ProfileId, u32, Option<ActionCall>),
    /// A group of an action profile: its members, each with a weight.
    Group(Mode, ProfileId, u32, Vec<(u32, u32)>),
    /// A cell of an array of counters.
    SetCounter(CounterId, u32, Counter),
    /// The counter of an entry.
    SetEntryCounter(TableId, Vec<Match>, u32, Counter),
    /// A cell of an array of meters; none to let everything be green.
    SetMeter(MeterId, u32, Option<MeterRates>),
    /// The meter of an entry.
    SetEntryMeter(TableId, Vec<Match>, u32, Option<MeterRates>),
    /// A cell of an array of registers.
    SetRegister(RegisterId, u32, BigUint),
    /// All members of a value set.
    SetValues(ValueSetId, Vec<BigUint>),
    /// Where clones go.
    Mirror(Mode, u16, Mirror),
    /// The copies of a multicast group.
    Multicast(Mode, u16, Vec<Replica>),
    /// The parameters of a CRC whose algorithm's name ends in `_custom`.
    SetCrc(CalculationId, CrcParameters),
}

/// Whether something must be there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// It must not.
    Insert,
    /// It must.
    Modify,
    /// It must, and will not be.
    Delete,
    /// It may or may not.
    Set,
}

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableEntry {
    /// What it asks of each part of the key.
    pub matches: Vec<Match>,
    /// Who wins among entries that match: the larger. 0 where the key has no priorities.
    pub priority: u32,
    /// What is done.
    pub action: EntryAction,
    /// After how long without a packet the controller is told; 0 for never.
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
    /// A group of its own: actions, each with a weight.
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
    /// To all copies of a multicast group.
    pub group: Option<u16>,
    /// To these.
    pub replicas: Vec<Replica>,
    /// How long they are at most, in bytes.
    pub length_max_bytes: Option<u32>,
}

/// A copy of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replica {
    /// The port it leaves by.
    pub port: u32,
    /// Which copy it is: `egress_rid`.
    pub instance: u16,
}

/// A cyclic redundancy check, as Ross Williams' model parameters describe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrcParameters {
    /// The polynomial, without its highest term.
    pub polynomial: u64,
    /// What the register begins with.
    pub initial: u64,
    /// What the result is combined with by exclusive or.
    pub final_xor: u64,
    /// Whether the bits of each byte are taken from the lowest.
    pub is_data_reflected: bool,
    /// Whether the bits of the result are turned around.
    pub is_remainder_reflected: bool,
}
