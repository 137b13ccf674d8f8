//! The values of a tunnel's headers, as fields of rules see them (`tun_id`, `tun_src`, ...).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{BitOr, BitOrAssign};

use crate::TunnelOptions;

/// The values of the outer headers of a packet, received or about to be sent.
///
/// Fields that a kind of tunnel does not have are zero.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TunnelMetadata {
    /// The tunnel's key or network identifier; as many low bits are sent as the header has.
    pub id: u64,
    /// The outer addresses.
    pub endpoints: Endpoints,
    /// The outer IPv4 type of service or IPv6 traffic class.
    pub tos: u8,
    /// The outer time to live or hop limit.
    pub ttl: u8,
    /// The outer UDP source port of a received packet; not used for sending.
    pub source_port: u16,
    /// The outer UDP destination port.
    pub destination_port: u16,
    /// Yes-or-no values.
    pub flags: TunnelFlags,
    /// The group of VXLAN's policy.
    pub group_policy: GroupPolicy,
    /// The values of ERSPAN.
    pub erspan: ErspanValues,
    /// The values of GTP-U.
    pub gtpu: GtpuValues,
    /// The options of Geneve, as they are on the wire.
    pub options: TunnelOptions,
}

/// The outer addresses, of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Endpoints {
    /// IPv4 addresses.
    V4 {
        /// The sender.
        source: Ipv4Addr,
        /// The receiver.
        destination: Ipv4Addr,
    },
    /// IPv6 addresses.
    V6 {
        /// The sender.
        source: Ipv6Addr,
        /// The receiver.
        destination: Ipv6Addr,
    },
}

impl Default for Endpoints {
    /// IPv4 addresses of zero.
    fn default() -> Self {
        Endpoints::V4 {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
        }
    }
}

impl Endpoints {
    /// Both addresses, if they are of one family.
    pub const fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Endpoints::V4 {
                source,
                destination,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Endpoints::V6 {
                source,
                destination,
            }),
            _ => None,
        }
    }

    /// The address of the sender.
    pub const fn source(self) -> IpAddr {
        match self {
            Endpoints::V4 { source, .. } => IpAddr::V4(source),
            Endpoints::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// The address of the receiver.
    pub const fn destination(self) -> IpAddr {
        match self {
            Endpoints::V4 { destination, .. } => IpAddr::V4(destination),
            Endpoints::V6 { destination, .. } => IpAddr::V6(destination),
        }
    }

    /// Whether the addresses are IPv6.
    pub const fn is_ipv6(self) -> bool {
        matches!(self, Endpoints::V6 { .. })
    }
}

/// Yes-or-no values of a tunnel. The bits are Open vSwitch's (`FLOW_TNL_F_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TunnelFlags(pub u8);

impl TunnelFlags {
    /// None.
    pub const NONE: TunnelFlags = TunnelFlags(0);
    /// A control packet of Geneve; the only bit that rules see in `tun_flags`.
    pub const OAM: TunnelFlags = TunnelFlags(0x01);
    /// Routers must not fragment the outer packet.
    pub const DONT_FRAGMENT: TunnelFlags = TunnelFlags(0x02);
    /// The outer UDP or GRE header has a checksum.
    pub const CHECKSUM: TunnelFlags = TunnelFlags(0x04);
    /// The tunnel's header has a key or an identifier.
    pub const KEY: TunnelFlags = TunnelFlags(0x08);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: TunnelFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for TunnelFlags {
    type Output = TunnelFlags;

    fn bitor(self, other: TunnelFlags) -> TunnelFlags {
        TunnelFlags(self.0 | other.0)
    }
}

impl BitOrAssign for TunnelFlags {
    fn bitor_assign(&mut self, other: TunnelFlags) {
        self.0 |= other.0;
    }
}

/// The group of VXLAN's policy (`tun_gbp_id`, `tun_gbp_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GroupPolicy {
    /// The group of the sender.
    pub id: u16,
    /// [`GroupPolicy::DONT_LEARN`] and [`GroupPolicy::APPLIED`].
    pub flags: u8,
}

impl GroupPolicy {
    /// The receiver must not learn the sender's address.
    pub const DONT_LEARN: u8 = 0x40;
    /// The policy was applied already.
    pub const APPLIED: u8 = 0x08;
    /// All flags.
    pub const FLAGS: u8 = GroupPolicy::DONT_LEARN | GroupPolicy::APPLIED;
}

/// The values of ERSPAN (`tun_erspan_*`); the session is the tunnel's id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ErspanValues {
    /// 1 for type II, 2 for type III.
    pub version: u8,
    /// The index of a type II header, as its whole second word.
    pub index: u32,
    /// The direction of mirrored traffic in a type III header: 0 came in, 1 went out.
    pub direction: u8,
    /// The hardware's number in a type III header, 6 bits.
    pub hardware_id: u8,
}

/// The values of GTP-U (`tun_gtpu_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct GtpuValues {
    /// The first byte of the header. To send: 0 means [`GtpuValues::DEFAULT_FLAGS`].
    pub flags: u8,
    /// The type of the message. To send: 0 means [`GtpuValues::PACKET`].
    pub message: u8,
}

impl GtpuValues {
    /// Version 1 of GTP, not GTP'.
    pub const DEFAULT_FLAGS: u8 = 0x30;
    /// The flag that says that the header has a sequence number.
    pub const SEQUENCE: u8 = 0x02;
    /// The message that carries a user's packet (G-PDU).
    pub const PACKET: u8 = 255;
}
