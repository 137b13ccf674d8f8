//! P4Info, checked once and indexed by id: everything that a controller can refer to.
//!
//! P4Info is a list of messages that refer to each other by id. [`Catalog::new`] checks that
//! ids exist, are unique and of their kind, that referenced objects exist, and that widths are
//! valid. Users of a catalog need not check again.
//!
//! 1. Each object's id has the first byte of its kind (P4Runtime 1.5.0, "ID Allocation for
//!    P4Info Objects"), and no two objects have the same id.
//! 2. Every id that an object refers to is in the catalog.
//! 3. Every field and parameter has a width of 1 to [`MAX_WIDTH`] bits. A field of type `error`
//!    has the maximum: it is matched by a member's name, for which P4Info has no width.

use std::collections::BTreeMap;

use crate::p4info::Shape;
use crate::proto::p4::config::v1 as info;

/// Maximum width of a field, in bits.
pub const MAX_WIDTH: u32 = 1 << 16;

/// Everything that P4Info describes.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Match-action tables.
    pub tables: BTreeMap<u32, Table>,
    /// Actions of tables.
    pub actions: BTreeMap<u32, Action>,
    /// Action profiles and selectors.
    pub profiles: BTreeMap<u32, Profile>,
    /// Counters with an index.
    pub counters: BTreeMap<u32, Counter>,
    /// Counters of a table's entries.
    pub direct_counters: BTreeMap<u32, Counter>,
    /// Meters with an index.
    pub meters: BTreeMap<u32, Meter>,
    /// Meters of a table's entries.
    pub direct_meters: BTreeMap<u32, Meter>,
    /// Registers.
    pub registers: BTreeMap<u32, Register>,
    /// Digests.
    pub digests: BTreeMap<u32, Digest>,
    /// Value sets of the parser.
    pub value_sets: BTreeMap<u32, ValueSet>,
    /// The header in front of a packet to the controller.
    pub packet_in: Option<PacketHeader>,
    /// The header in front of a packet from the controller.
    pub packet_out: Option<PacketHeader>,
}

/// A match-action table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// The fields of its key, in order.
    pub fields: Vec<Field>,
    /// The actions that it may have, and where.
    pub actions: BTreeMap<u32, Scope>,
    /// Whether the program fixes its default action.
    pub has_const_default: bool,
    /// The action profile that holds its actions.
    pub profile: Option<u32>,
    /// The counters of its entries.
    pub direct_counter: Option<u32>,
    /// The meters of its entries.
    pub direct_meter: Option<u32>,
    /// Its capacity in entries; zero if not given.
    pub size: u64,
    /// Whether entries may have an idle time-out.
    pub has_idle_timeout: bool,
    /// Whether its entries belong to the program and can never change.
    pub is_const: bool,
    /// Whether several entries may match: the key has a ternary, range or optional field.
    pub has_priorities: bool,
}

/// A field of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its id in the table.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its width in bits for the controller.
    pub width: u32,
    /// How it matches.
    pub kind: MatchKind,
    /// Whether it is of type `error`, whose values are written as the names of its members.
    pub is_error: bool,
}

/// How a field of a key matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// Exactly one value.
    Exact,
    /// The longest prefix.
    Lpm,
    /// A value under a mask.
    Ternary,
    /// From one value to another.
    Range,
    /// Exactly one value, or any.
    Optional,
}

/// Where a table may use an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In entries and as the default.
    Everywhere,
    /// In entries only.
    Entries,
    /// As the default only.
    Default,
    /// As a group's action only, which no entry can have here.
    Group,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of an action, or a field of a header in front of a controller's packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its width in bits.
    pub width: u32,
}

/// An action profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// The tables whose actions it holds.
    pub tables: Vec<u32>,
    /// Whether it has groups, from which a selector chooses a member.
    pub has_selector: bool,
    /// Maximum number of members, or sum of group sizes; zero if not given.
    pub size: u64,
    /// Maximum size of a group; zero if not given.
    pub max_group_size: u32,
    /// Whether members have no weights.
    pub has_no_weights: bool,
    /// If the size counts members: the maximum weight of one; zero if not given.
    pub size_by_members: Option<u32>,
}

/// An array of counters.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// Number of counters; zero for direct ones.
    pub size: u64,
    /// Whether it counts bytes.
    pub has_bytes: bool,
    /// Whether it counts packets.
    pub has_packets: bool,
    /// For direct counters, the table.
    pub table: Option<u32>,
}

/// An array of meters.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// Number of meters; zero for direct ones.
    pub size: u64,
    /// Whether rates are in bytes instead of packets.
    pub is_in_bytes: bool,
    /// How it marks packets.
    pub marker: Marker,
    /// For direct meters, the table.
    pub table: Option<u32>,
}

/// How a meter colours packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Two rates, three colours (RFC 2698).
    TwoRates,
    /// One rate, three colours (RFC 2697).
    OneRate,
    /// One rate, two colours.
    TwoColours,
}

/// An array of registers.
#[derive(Clone, Debug)]
pub struct Register {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// Number of registers.
    pub size: u64,
    /// The type of a register.
    pub shape: Shape,
}

/// A digest.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// The type of a message.
    pub shape: Shape,
}

/// A value set of the parser.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Its id.
    pub id: u32,
    /// Its name in the program.
    pub name: String,
    /// The fields of a member.
    pub fields: Vec<Field>,
    /// Maximum number of members; zero if not given.
    pub size: u64,
}

/// The header in front of a controller's packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// Its fields, in the order in which they are sent.
    pub fields: Vec<Parameter>,
}

impl Table {
    /// The index in the key of the field with this id.
    pub fn field_index(&self, id: u32) -> Option<usize> {
        self.fields.iter().position(|field| field.id == id)
    }
}

impl PacketHeader {
    /// Its length in bytes; unused bits of the last byte are padding.
    pub fn length_bytes(&self) -> usize {
        let bits: usize = self.fields.iter().map(|field| field.width as usize).sum();
        bits.div_ceil(8)
    }
}

impl Scope {
    /// `None` for a scope of a later version of P4Runtime.
    pub(super) fn of(reference: &info::ActionRef) -> Option<Scope> {
        Some(
            match info::action_ref::Scope::try_from(reference.scope).ok()? {
                info::action_ref::Scope::TableAndDefault => Scope::Everywhere,
                info::action_ref::Scope::TableOnly => Scope::Entries,
                info::action_ref::Scope::DefaultOnly => Scope::Default,
                info::action_ref::Scope::GroupAction => Scope::Group,
            },
        )
    }
}
