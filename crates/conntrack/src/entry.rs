//! A connection as a dump shows it: plain values, detached from the tracker.
//!
//! The tracker makes entries when it lists connections; `text.rs` prints them as
//! Open vSwitch's tools do. The names and the order of states and bits are those of its
//! `lib/ct-dpif.h`.

use serde::{Deserialize, Serialize};

use crate::{Alg, Tuple};

/// A connection as a dump shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionEntry {
    /// The tuple of the first packet's direction, before translation; it has the zone.
    pub original: Tuple,
    /// The tuple of replies, before they are translated back.
    pub reply: Tuple,
    /// The original tuple of the connection that announced this one.
    pub parent: Option<Tuple>,
    /// Whole seconds until the connection ends if no packet comes.
    pub timeout_s: u32,
    /// The mark.
    pub mark: u32,
    /// The label.
    pub label: u128,
    /// What the protocol's state machine knows.
    pub protocol: ProtocolState,
    /// The protocol whose payload announces further connections.
    pub alg: Option<Alg>,
    /// Bits of its status; Open vSwitch's userspace tracker leaves all zero.
    pub status: Status,
    /// The rule that committed the connection; 0 for none. Tools do not print it.
    pub rule: u64,
    /// The bucket of a group that led to it; 0 for none. Tools do not print it.
    pub bucket: u64,
}

/// What the state machine of a connection's protocol knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProtocolState {
    /// TCP: both peers.
    Tcp {
        /// The peer that sent the first packet.
        original: TcpPeer,
        /// The other peer.
        reply: TcpPeer,
    },
    /// ICMP and ICMPv6: whether a reply was seen. Tools do not print it.
    Icmp {
        /// Whether a reply was seen.
        has_reply: bool,
    },
    /// UDP and all others. Tools do not print it.
    Other(OtherState),
}

/// One peer of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TcpPeer {
    /// Its state.
    pub state: TcpState,
    /// The shift of its window; 0 if unknown or none.
    pub window_scale: u8,
    /// Bits that a verbose dump shows.
    pub flags: TcpPeerFlags,
}

/// The state of one TCP peer, in the order of `enum ct_dpif_tcp_state`.
///
/// The order matters: a short dump prints the greater of the two peers' states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum TcpState {
    /// No packet was seen, or the connection was reset.
    Closed,
    /// Waits for a connection.
    Listen,
    /// Sent SYN.
    SynSent,
    /// Received SYN.
    SynReceived,
    /// Its SYN was acknowledged.
    Established,
    /// Received FIN.
    CloseWait,
    /// Sent FIN.
    FinWait1,
    /// Both sent FIN.
    Closing,
    /// Received FIN and sent its own.
    LastAck,
    /// Its FIN was acknowledged.
    FinWait2,
    /// Both FINs were acknowledged.
    TimeWait,
}

impl TcpState {
    /// All states, in order.
    pub const ALL: [TcpState; 11] = [
        TcpState::Closed,
        TcpState::Listen,
        TcpState::SynSent,
        TcpState::SynReceived,
        TcpState::Established,
        TcpState::CloseWait,
        TcpState::FinWait1,
        TcpState::Closing,
        TcpState::LastAck,
        TcpState::FinWait2,
        TcpState::TimeWait,
    ];

    /// The name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            TcpState::Closed => "CLOSED",
            TcpState::Listen => "LISTEN",
            TcpState::SynSent => "SYN_SENT",
            TcpState::SynReceived => "SYN_RECV",
            TcpState::Established => "ESTABLISHED",
            TcpState::CloseWait => "CLOSE_WAIT",
            TcpState::FinWait1 => "FIN_WAIT_1",
            TcpState::Closing => "CLOSING",
            TcpState::LastAck => "LAST_ACK",
            TcpState::FinWait2 => "FIN_WAIT_2",
            TcpState::TimeWait => "TIME_WAIT",
        }
    }

    /// The state that a short dump prints for a connection whose peers are in `self` and
    /// `other`.
    ///
    /// The kernel's tracker has one state per connection and no FIN_WAIT_2 or SYN_RECV where
    /// the userspace one has, so tools print the state that both agree on.
    pub fn combined(self, other: TcpState) -> TcpState {
        match self.max(other) {
            TcpState::FinWait2 => TcpState::TimeWait,
            TcpState::SynReceived => TcpState::Established,
            state => state,
        }
    }
}

/// The state of a connection of UDP or another protocol without one of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum OtherState {
    /// One packet was seen.
    First,
    /// More packets of the same direction were seen.
    Multiple,
    /// Packets of both directions were seen.
    Bidirectional,
}

/// The bits of a TCP peer (`CT_DPIF_TCPF_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpPeerFlags(pub u8);

impl TcpPeerFlags {
    /// The peer's SYN had the option of window scale (RFC 7323).
    pub const WINDOW_SCALE: TcpPeerFlags = TcpPeerFlags(1 << 0);
    /// The tracker accepts segments that do not fit: the peer's window scale is unknown.
    pub const BE_LIBERAL: TcpPeerFlags = TcpPeerFlags(1 << 3);

    /// Names of the bits, lowest first.
    pub const NAMES: [&str; 6] = [
        "WINDOW_SCALE",
        "SACK_PERM",
        "CLOSE_INIT",
        "BE_LIBERAL",
        "DATA_UNACKNOWLEDGED",
        "MAXACK_SET",
    ];
}

/// The bits of a connection's status (`CT_DPIF_STATUS_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Status(pub u32);

impl Status {
    /// Names of the bits, lowest first.
    pub const NAMES: [&str; 13] = [
        "EXPECTED",
        "SEEN_REPLY",
        "ASSURED",
        "CONFIRMED",
        "SRC_NAT",
        "DST_NAT",
        "SEQ_ADJUST",
        "SRC_NAT_DONE",
        "DST_NAT_DONE",
        "DYING",
        "FIXED_TIMEOUT",
        "TEMPLATE",
        "UNTRACKED",
    ];
}

impl Alg {
    /// The name that rules and dumps spell.
    pub const fn name(self) -> &'static str {
        match self {
            Alg::Ftp => "ftp",
            Alg::Tftp => "tftp",
        }
    }
}
