//! Ports: numbers, descriptions, changes, statistics, queues.

pub use crate::port_number::PortNumber;

use crate::message::counts::Duration;

/// A port's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortDesc {
    /// Its number.
    pub number: PortNumber,
    /// Its Ethernet address.
    pub address: [u8; 6],
    /// Its name, at most 15 bytes on the wire.
    pub name: String,
    /// Its configuration (`OFPPC_*` of OpenFlow 1.1 and later, plus OpenFlow 1.0's).
    pub config: u32,
    /// Its state (`OFPPS_*`, the same way).
    pub state: u32,
    /// Current features, by the bits of OpenFlow 1.1 and later.
    pub current: u32,
    /// Advertised features.
    pub advertised: u32,
    /// Supported features.
    pub supported: u32,
    /// Features that the peer advertises.
    pub peer: u32,
    /// Current speed in kbit/s.
    pub current_speed_kbps: u32,
    /// Highest speed in kbit/s.
    pub max_speed_kbps: u32,
}

/// Bits of a port's configuration. 0, 2, 5 and 6 are in every version, the others are OpenFlow
/// 1.0's.
pub mod config {
    /// The port is switched off.
    pub const PORT_DOWN: u32 = 1 << 0;
    /// No spanning tree (OpenFlow 1.0).
    pub const NO_STP: u32 = 1 << 1;
    /// Drops what it receives.
    pub const NO_RECV: u32 = 1 << 2;
    /// Drops what it receives of the spanning tree (OpenFlow 1.0).
    pub const NO_RECV_STP: u32 = 1 << 3;
    /// Is left out of a flood (OpenFlow 1.0).
    pub const NO_FLOOD: u32 = 1 << 4;
    /// Drops what it should send.
    pub const NO_FWD: u32 = 1 << 5;
    /// Packets from it are not sent to a controller.
    pub const NO_PACKET_IN: u32 = 1 << 6;
}

/// Bits of a port's state.
pub mod state {
    /// No link.
    pub const LINK_DOWN: u32 = 1 << 0;
    /// Blocked (OpenFlow 1.1 and later).
    pub const BLOCKED: u32 = 1 << 1;
    /// Live for a group that watches it (OpenFlow 1.1 and later).
    pub const LIVE: u32 = 1 << 2;
}

/// Why a [`PortStatus`] is sent (`OFPPR_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortReason {
    /// The port is new.
    Add = 0,
    /// The port is gone.
    Delete = 1,
    /// The port is another.
    Modify = 2,
}

/// Tells a change of a port (`OFPT_PORT_STATUS`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port as it is now.
    pub desc: PortDesc,
}

/// Changes a port's configuration (`OFPT_PORT_MOD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortMod {
    /// The port.
    pub port: PortNumber,
    /// Its Ethernet address, which must be right.
    pub address: [u8; 6],
    /// The new bits.
    pub config: u32,
    /// Which bits change.
    pub mask: u32,
    /// The features that it advertises; 0 to leave them.
    pub advertise: u32,
}

/// A port's statistics (`OFPMP_PORT_STATS`); `u64::MAX` stands for a count that is not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortStats {
    /// The port.
    pub port: PortNumber,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on receipt.
    pub rx_dropped: u64,
    /// Packets dropped instead of being sent.
    pub tx_dropped: u64,
    /// Errors of reception.
    pub rx_errors: u64,
    /// Errors of transmission.
    pub tx_errors: u64,
    /// Frames with bad alignment.
    pub rx_frame_errors: u64,
    /// Packets lost for lack of room.
    pub rx_overrun_errors: u64,
    /// Packets with a bad checksum.
    pub rx_crc_errors: u64,
    /// Collisions.
    pub collisions: u64,
    /// How long the port exists; `None` if not known.
    pub duration: Option<Duration>,
    /// Open vSwitch's further counts (OpenFlow 1.4 and later).
    pub custom: Vec<CustomStat>,
    /// Counts by packet size (`INTEL_PORT_STATS_RFC2819`, OpenFlow 1.4 and later).
    pub sizes: Option<Box<[u64; 21]>>,
}

/// A count with a name of its own (`NX` custom statistics).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CustomStat {
    /// Its name, at most 63 bytes.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// The number of all queues in requests.
pub const ALL_QUEUES: u32 = 0xffff_ffff;

/// Which queues statistics or descriptions are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueRequest {
    /// The port; `ANY` for all.
    pub port: PortNumber,
    /// The queue; [`ALL_QUEUES`] for all.
    pub queue: u32,
}

/// A queue's statistics (`OFPMP_QUEUE_STATS`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueStats {
    /// The port.
    pub port: PortNumber,
    /// The queue.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped.
    pub tx_errors: u64,
    /// How long the queue exists; `None` if not known.
    pub duration: Option<Duration>,
}

/// A queue's configuration (`OFPT_QUEUE_GET_CONFIG_REPLY`, `OFPMP_QUEUE_DESC`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueDesc {
    /// The port.
    pub port: PortNumber,
    /// The queue.
    pub queue: u32,
    /// Guaranteed rate in tenths of a percent; `None` for none.
    pub min_rate: Option<u16>,
    /// Highest rate, the same way.
    pub max_rate: Option<u16>,
}
