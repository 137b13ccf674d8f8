//! The result of planning a write: operations on a program's state, in order.
//!
//! A [`Change`] is already checked against P4Info and the store: ids exist, widths fit, entries
//! to insert are new, and entries to delete exist. So a target refuses only for reasons that it
//! alone knows, such as its own limit.
//!
//! A list of actions given with an entry ("one shot") is a group with members here, with
//! numbers that are otherwise unused.

use std::ops::Range;

use crate::Value;

/// Operations that take effect together or not at all.
pub type Change = Vec<Operation>;

/// One operation on a program's state. Objects have P4Info's ids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Inserts an entry.
    InsertEntry {
        /// The table.
        table: u32,
        /// The entry's key.
        key: EntryKey,
        /// Its action.
        action: ActionRef,
    },
    /// Gives an entry another action; its counter continues.
    ModifyEntry {
        /// The table.
        table: u32,
        /// The entry's key.
        key: EntryKey,
        /// Its new action.
        action: ActionRef,
    },
    /// Deletes an entry with its counter and meter.
    DeleteEntry {
        /// The table.
        table: u32,
        /// The entry's key.
        key: EntryKey,
    },
    /// Sets a table's default action.
    SetDefault {
        /// The table.
        table: u32,
        /// The action; `None` restores the program's.
        action: Option<ActionCall>,
    },
    /// Inserts or modifies a member of an action profile.
    SetMember {
        /// The action profile.
        profile: u32,
        /// The member.
        member: u32,
        /// Its action.
        action: ActionCall,
    },
    /// Deletes a member that is not in use.
    DeleteMember {
        /// The action profile.
        profile: u32,
        /// The member.
        member: u32,
    },
    /// Inserts or modifies a group of an action selector.
    SetGroup {
        /// The action profile.
        profile: u32,
        /// The group.
        group: u32,
        /// Its members.
        members: Vec<GroupMember>,
    },
    /// Deletes a group that is not in use.
    DeleteGroup {
        /// The action profile.
        profile: u32,
        /// The group.
        group: u32,
    },
    /// Sets counters of an array.
    SetCounters {
        /// The array.
        counter: u32,
        /// The indices of the counters.
        indices: Range<u64>,
        /// The value.
        count: Count,
    },
    /// Sets the counter of an entry.
    SetDirectCounter {
        /// The table.
        table: u32,
        /// The entry.
        entry: EntryRef,
        /// The value.
        count: Count,
    },
    /// Sets the rates of an array's meters.
    SetMeters {
        /// The array.
        meter: u32,
        /// The indices of the meters.
        indices: Range<u64>,
        /// The rates; `None` makes every packet green.
        rates: Option<Rates>,
    },
    /// Sets the rates of an entry's meter.
    SetDirectMeter {
        /// The table.
        table: u32,
        /// The entry.
        entry: EntryRef,
        /// The rates; `None` makes every packet green.
        rates: Option<Rates>,
    },
    /// Sets registers of an array.
    SetRegisters {
        /// The array.
        register: u32,
        /// The indices of the registers.
        indices: Range<u64>,
        /// The numbers of the register's type, in order.
        numbers: Vec<Value>,
    },
    /// Sets or deletes a multicast group.
    SetMulticast {
        /// The group, which is not zero.
        group: u32,
        /// The copies; `None` deletes the group.
        replicas: Option<Vec<Replica>>,
    },
    /// Sets or deletes a clone session.
    SetClone {
        /// The session, which is not zero.
        session: u32,
        /// The session; `None` deletes it.
        clone: Option<CloneSession>,
    },
    /// Sets all members of a value set.
    SetValueSet {
        /// The value set.
        set: u32,
        /// Each member, a match for each field.
        members: Vec<Vec<Match>>,
    },
}

/// The key of an entry: its match and, where several entries may match, its priority.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntryKey {
    /// The larger wins; zero in tables where only one entry can match.
    pub priority: i32,
    /// A match for each field of the key, in its order.
    pub matches: Vec<Match>,
}

/// The match of one field of an entry.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Match {
    /// Any value.
    Any,
    /// Exactly this value.
    Exact(Value),
    /// The first bits of a value, at least one; the other bits of the value are zero.
    Prefix(Value, u32),
    /// The bits of a value under a nonzero mask; the value's other bits are zero.
    Masked(Value, Value),
    /// From one value to another, both included, but not all values.
    Range(Value, Value),
}

/// The owner of a direct counter or meter.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum EntryRef {
    /// An entry.
    Entry(EntryKey),
    /// The default entry.
    Default,
}

/// An action with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionCall {
    /// The action.
    pub action: u32,
    /// An argument for each parameter, in order.
    pub arguments: Vec<Value>,
}

/// What an entry leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ActionRef {
    /// An action.
    Call(ActionCall),
    /// The action of a member of the table's action profile.
    Member(u32),
    /// The action of a member that the selector chooses from a group.
    Group(u32),
}

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The member.
    pub member: u32,
    /// Its weight, relative to the other members' weights; at least one.
    pub weight: u32,
}

/// The value of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// The rates of a meter with two rates (RFC 2698), in units per second and units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// Committed information rate.
    pub committed: u64,
    /// Committed burst size.
    pub committed_burst: u64,
    /// Peak information rate.
    pub peak: u64,
    /// Peak burst size.
    pub peak_burst: u64,
}

/// A copy of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Replica {
    /// The port it leaves by.
    pub port: u32,
    /// The number that distinguishes it from other copies (`egress_rid`).
    pub instance: u32,
}

/// The treatment of cloned packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloneSession {
    /// The copies.
    pub replicas: Vec<Replica>,
    /// The length to which copies are truncated, in bytes; zero for no truncation.
    pub length_bytes: u32,
}
