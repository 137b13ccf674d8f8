//! The connection: hello, roles, which messages are wanted.

use crate::message::group::GroupMod;
use crate::message::meter::MeterMod;
use crate::version::Versions;

/// The first message (`OFPT_HELLO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The versions that the sender speaks: those of the bitmap, or all up to the header's.
    pub versions: Versions,
}

/// A controller's role (`OFPCR_ROLE_*`, `NX_ROLE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Does not change (in requests).
    NoChange = 0,
    /// May do everything, beside others.
    #[default]
    Equal = 1,
    /// May do everything, alone.
    Primary = 2,
    /// May only read.
    Secondary = 3,
}

/// A role and its generation (`OFPT_ROLE_REQUEST`, `NXT_ROLE_REQUEST` and their replies).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoleMessage {
    /// Whether it travels as Nicira's message.
    pub is_nicira: bool,
    /// The role.
    pub role: Role,
    /// The generation of the election; `None` if there is none.
    pub generation: Option<u64>,
}

/// Tells that the role changed (`OFPT_ROLE_STATUS`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoleStatus {
    /// The new role.
    pub role: Role,
    /// 0: another asked for the role, 1: configuration, 2: experimenter (`OFPCRR_*`).
    pub reason: u8,
    /// The generation of the election.
    pub generation: Option<u64>,
}

/// Kinds of messages that a switch sends unasked, with reasons as bits of a mask.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AsyncKind {
    /// Packets.
    PacketIn = 0,
    /// Ports.
    PortStatus = 1,
    /// Ends of flow entries.
    FlowRemoved = 2,
    /// Roles.
    RoleStatus = 3,
    /// Room of tables.
    TableStatus = 4,
    /// Other controllers' changes of groups and meters.
    RequestForward = 5,
}

/// Which messages a controller gets unasked (`OFPT_SET_ASYNC`, `OFPT_GET_ASYNC_REPLY` and
/// Nicira's forms). Lists are indexed by [`AsyncKind`]; a bit stands for a reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AsyncConfig {
    /// In the roles equal and primary; `None` leaves a kind as it is.
    pub primary: [Option<u32>; 6],
    /// In the role secondary.
    pub secondary: [Option<u32>; 6],
}

/// The message in which a whole [`AsyncConfig`] travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncForm {
    /// The version's own: masks in OpenFlow 1.3, properties later.
    Standard,
    /// `NXT_SET_ASYNC_CONFIG`: masks.
    Nicira,
    /// `NXT_SET_ASYNC_CONFIG2`: properties.
    Nicira2,
}

/// A change that another controller made (`OFPT_REQUESTFORWARD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestForward {
    /// Of a group.
    Group(u32, GroupMod),
    /// Of a meter.
    Meter(u32, MeterMod),
}
