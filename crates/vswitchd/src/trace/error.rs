//! Why a trace was refused, in the words of Open vSwitch.

use super::connection_state::ConnectionStateError;
use crate::datapath_text::DatapathTextError;

/// Why `ofproto/trace` or `ofproto/trace-packet-out` was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceRefusal {
    /// An option needs a value.
    #[error("Missing argument for option {0}")]
    MissingArgument(Box<str>),
    /// An option that the command does not have.
    #[error("{0}: unknown option")]
    UnknownOption(Box<str>),
    /// More words than a datapath or bridge, a flow and a packet.
    #[error("too many arguments")]
    TooManyArguments,
    /// No flow.
    #[error("Syntax error")]
    NoFlow,
    /// The packet is not hexadecimal.
    #[error("Trailing garbage in packet data")]
    PacketGarbage,
    /// The packet is no Ethernet frame.
    #[error("Packet data too short for Ethernet")]
    PacketTooShort,
    /// A payload that no frame can carry.
    #[error("{0}: too much L7 data")]
    PayloadTooLong(Box<str>),
    /// A state of a connection that no connection has.
    #[error(transparent)]
    ConnectionState(#[from] ConnectionStateError),
    /// A datapath flow without a datapath of this name.
    #[error("Cannot find the datapath")]
    NoDatapath,
    /// The flow is a datapath flow with a fault.
    #[error(transparent)]
    DatapathFlow(DatapathTextError),
    /// The flow is not a datapath flow, and no bridge is named.
    #[error("{0} (or the bridge name was omitted)")]
    NoBridge(DatapathTextError),
    /// There is no bridge of this name.
    #[error("{0}: unknown bridge")]
    UnknownBridge(Box<str>),
    /// The bridge's flow is malformed.
    #[error("Bad openflow flow syntax: {0}")]
    BridgeFlow(Box<str>),
    /// A datapath port that no bridge has.
    #[error("no OpenFlow port for datapath port {0}")]
    NoOpenFlowPort(u32),
    /// No tunnel takes packets with these values.
    #[error("no OpenFlow tunnel port for this packet")]
    NoTunnelPort,
    /// The flow continues a walk that is not known.
    #[error("no recirculation data for recirc_id {0:#x}")]
    NoRecirculation(u32),
    /// The explanation covers first passes only.
    #[error("ask about the first pass: later ones go on with a walk that was frozen")]
    LaterPass,
    /// The actions of a packet-out cannot be read.
    #[error("{0}")]
    ActionsText(Box<str>),
    /// The actions of a packet-out cannot be executed; this is OpenFlow's error.
    #[error("Bad actions: {0}")]
    BadActions(&'static str),
}
