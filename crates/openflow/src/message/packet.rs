//! Packets between switch and controller.

use bytes::Bytes;

use crate::action::Action;
use crate::matching::Match;
use crate::port_number::PortNumber;

/// A packet for a controller (`OFPT_PACKET_IN`, `NXT_PACKET_IN`, `NXT_PACKET_IN2`), and the
/// same packet on its way back (`NXT_RESUME`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PacketIn {
    /// The message that it travels in.
    pub format: PacketInFormat,
    /// The packet, or its beginning.
    pub data: Bytes,
    /// Length of the whole packet in bytes.
    pub total_length: u32,
    /// The number under which the switch keeps the packet.
    pub buffer: Option<u32>,
    /// Why it is sent (`OFPR_*`).
    pub reason: u8,
    /// The table that sent it; `None` where the version cannot say.
    pub table: Option<u8>,
    /// The cookie of the entry that sent it; `None` for no entry.
    pub cookie: Option<u64>,
    /// Input port, metadata, registers and so on.
    pub metadata: Match,
    /// Bytes of the action that sent it (`NXT_PACKET_IN2`).
    pub userdata: Bytes,
    /// What lets the packet go on (`NXT_PACKET_IN2`, `NXT_RESUME`): the bytes of a
    /// [`PacketContinuation`](super::continuation::PacketContinuation).
    pub continuation: Option<Bytes>,
}

/// The forms of packet-in messages (`NXT_SET_PACKET_IN_FORMAT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketInFormat {
    /// The version's own.
    #[default]
    Standard = 0,
    /// `NXT_PACKET_IN`.
    Nicira = 1,
    /// `NXT_PACKET_IN2`.
    Nicira2 = 2,
}

/// Why a packet is sent to a controller (`OFPR_*`).
pub mod reason {
    use crate::version::Version;

    /// No rule matched.
    pub const NO_MATCH: u8 = 0;
    /// An action sent it.
    pub const ACTION: u8 = 1;
    /// Its TTL was too small.
    pub const INVALID_TTL: u8 = 2;
    /// The action set sent it (OpenFlow 1.4 and later).
    pub const ACTION_SET: u8 = 3;
    /// A group's bucket sent it (OpenFlow 1.4 and later).
    pub const GROUP: u8 = 4;
    /// A packet-out sent it (OpenFlow 1.4 and later).
    pub const PACKET_OUT: u8 = 5;
    /// An action of a table-miss entry sent it. No message has this number: see [`told`].
    pub const MISS_ENTRY: u8 = 6;

    /// The reason as a version knows it: before OpenFlow 1.4 many are an action, and a
    /// table-miss entry is one before 1.3 (Open vSwitch's `encode_packet_in_reason`).
    pub fn told(version: Version, reason: u8) -> u8 {
        match reason {
            NO_MATCH | ACTION | INVALID_TTL => reason,
            MISS_ENTRY if version >= Version::V13 => NO_MATCH,
            MISS_ENTRY => ACTION,
            _ if version >= Version::V14 => reason,
            _ => ACTION,
        }
    }
}

/// A packet from a controller (`OFPT_PACKET_OUT`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketOut {
    /// A packet that the switch keeps; `None` if the packet is in the message.
    pub buffer: Option<u32>,
    /// Input port and other metadata; before OpenFlow 1.5 the input port only.
    pub metadata: Match,
    /// The actions on it.
    pub actions: Vec<Action>,
    /// The packet.
    pub data: Bytes,
}

impl PacketOut {
    /// The port that the packet seems to come from.
    pub fn in_port(&self) -> Option<PortNumber> {
        self.metadata.in_port()
    }
}
