//! Which of a tunnel's values a field reads and writes.

/// The number of option fields, `tun_metadata0` to `tun_metadata63`.
pub const TUNNEL_OPTIONS: u8 = 64;

/// One of the values of a tunnel, as a field reads and writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TunnelPart {
    /// The tunnel's key or network identifier.
    Id,
    /// The outer IPv4 source.
    Ipv4Source,
    /// The outer IPv4 destination.
    Ipv4Destination,
    /// The outer IPv6 source.
    Ipv6Source,
    /// The outer IPv6 destination.
    Ipv6Destination,
    /// The outer type of service.
    Tos,
    /// The outer time to live.
    Ttl,
    /// Whether it is a control packet of Geneve (OAM): the only flag that rules see.
    Flags,
    /// The group of VXLAN's policy.
    GroupPolicyId,
    /// The flags of VXLAN's policy.
    GroupPolicyFlags,
    /// The version of ERSPAN.
    ErspanVersion,
    /// The index of ERSPAN.
    ErspanIndex,
    /// The direction of ERSPAN.
    ErspanDirection,
    /// The hardware's number of ERSPAN.
    ErspanHardware,
    /// The flags of GTP-U.
    GtpuFlags,
    /// The message type of GTP-U.
    GtpuMessage,
    /// The value of an option; zero if it is absent.
    Option(u8),
    /// Which options are present, one bit each.
    Options,
}
