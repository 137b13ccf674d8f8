//! What a write comes to: operations on a program's state, in the order in which they are done.
//!
//! Whoever made a [`Change`] has checked it against P4Info and against what is there: numbers
//! exist, widths fit, entries to insert are new and those to delete are there. So a target only
//! refuses what it alone knows, such as a limit of its own.
//!
//! A list of actions given with an entry ("one shot") has become a group and its members here,
//! with numbers that nobody else uses.

use std::ops::Range;

use crate::Value;

/// Operations that take effect together or not at all.
pub type Change = Vec<Operation>;

/// One thing done to a program's state. Numbers of objects are P4Info's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A new entry of a table.
    InsertEntry {
        /// The table.
        table: u32,
        /// Which entry.
        key: EntryKey,
        /// What it does.
        action: ActionRef,
    },
    /// Another action for an entry, whose counter goes on.
    ModifyEntry {
        /// The table.
        table: u32,
        /// Which entry.
        key: EntryKey,
        /// What it does from now on.
        action: ActionRef,
    },
    /// The end of an entry and of its counter and meter.
    DeleteEntry {
        /// The table.
        table: u32,
        /// Which entry.
        key: EntryKey,
    },
    /// What a table does with what matches no entry.
    SetDefault {
        /// The table.
        table: u32,
        /// The action; none is what the program says.
        action: Option<ActionCall>,
    },
    /// A member of an action profile, new or changed.
    SetMember {
        /// The action profile.
        profile: u32,
        /// The member.
        member: u32,
        /// What it does.
        action: ActionCall,
    },
    /// The end of a member that nothing refers to.
    DeleteMember {
        /// The action profile.
        profile: u32,
        /// The member.
        member: u32,
    },
    /// A group of an action selector, new or changed.
    SetGroup {
        /// The action profile.
        profile: u32,
        /// The group.
        group: u32,
        /// Its members.
        members: Vec<GroupMember>,
    },
    /// The end of a group that nothing refers to.
    DeleteGroup {
        /// The action profile.
        profile: u32,
        /// The group.
        group: u32,
    },
    /// Counters of an array that get a value.
    SetCounters {
        /// The array.
        counter: u32,
        /// Which of it.
        indices: Range<u64>,
        /// The value.
        count: Count,
    },
    /// The counter of an entry gets a value.
    SetDirectCounter {
        /// The table.
        table: u32,
        /// Which entry.
        entry: EntryRef,
        /// The value.
        count: Count,
    },
    /// Meters of an array get rates.
    SetMeters {
        /// The array.
        meter: u32,
        /// Which of it.
        indices: Range<u64>,
        /// The rates; without, every packet is green.
        rates: Option<Rates>,
    },
    /// The meter of an entry gets rates.
    SetDirectMeter {
        /// The table.
        table: u32,
        /// Which entry.
        entry: EntryRef,
        /// The rates; without, every packet is green.
        rates: Option<Rates>,
    },
    /// Registers of an array get a value.
    SetRegisters {
        /// The array.
        register: u32,
        /// Which of it.
        indices: Range<u64>,
        /// The numbers of its type, in order.
        numbers: Vec<Value>,
    },
    /// Where packets of a multicast group go; nowhere is the end of the group.
    SetMulticast {
        /// The group, which is not zero.
        group: u32,
        /// The copies.
        replicas: Option<Vec<Replica>>,
    },
    /// Where clones of a session go.
    SetClone {
        /// The session, which is not zero.
        session: u32,
        /// The copies; none is the end of the session.
        clone: Option<CloneSession>,
    },
    /// The members of a value set, all of them.
    SetValueSet {
        /// The value set.
        set: u32,
        /// Each member, a match for each field.
        members: Vec<Vec<Match>>,
    },
}

/// Which entry of a table: what it matches and, where several may match, its priority.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntryKey {
    /// The larger wins; zero in tables where only one entry can match.
    pub priority: i32,
    /// A match for each field of the key, in its order.
    pub matches: Vec<Match>,
}

/// What a field of an entry matches.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Match {
    /// Any value.
    Any,
    /// The one value.
    Exact(Value),
    /// The first bits of a value, at least one; the other bits of the value are zero.
    Prefix(Value, u32),
    /// The bits of a value under a mask, which is not zero; the other bits of the value are.
    Masked(Value, Value),
    /// From a value to a value, both included; not all values.
    Range(Value, Value),
}

/// What an entry's counter and meter belong to.
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
    /// An argument for each parameter, in their order.
    pub arguments: Vec<Value>,
}

/// What an entry does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ActionRef {
    /// An action.
    Call(ActionCall),
    /// That of a member of the table's action profile.
    Member(u32),
    /// That of a member which the selector chooses from a group.
    Group(u32),
}

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The member.
    pub member: u32,
    /// How often it is chosen, beside the others' weights; at least one.
    pub weight: u32,
}

/// What a counter has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// What a meter with two rates allows (RFC 2698), in units a second and units.
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
    /// The port where it leaves.
    pub port: u32,
    /// What tells it from others (`egress_rid`).
    pub instance: u32,
}

/// What becomes of a packet that is cloned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloneSession {
    /// The copies.
    pub replicas: Vec<Replica>,
    /// The length that copies are cut to, in bytes; zero is no cutting.
    pub length_bytes: u32,
}
