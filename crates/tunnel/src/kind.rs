//! The kinds of tunnels, and what a tunnel carries.

use thalweg_packet::wire::{EtherType, GENEVE_PORT, IpProtocol, VXLAN_PORT};

/// The UDP destination port of GTP-U (3GPP TS 29.281 section 4.4.2.3).
pub const GTPU_PORT: u16 = 2152;

/// A kind of tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TunnelKind {
    /// VXLAN (RFC 7348).
    Vxlan(VxlanFlavour),
    /// Geneve (RFC 8926).
    Geneve,
    /// GRE (RFC 2784, RFC 2890), around Ethernet frames and around bare packets.
    Gre,
    /// ERSPAN type II and III over GRE (draft-foschiano-erspan).
    Erspan,
    /// GTP-U, the user plane of mobile networks (3GPP TS 29.281).
    Gtpu,
}

impl TunnelKind {
    /// All kinds.
    pub const ALL: [TunnelKind; 7] = [
        TunnelKind::Vxlan(VxlanFlavour::Plain),
        TunnelKind::Vxlan(VxlanFlavour::GroupPolicy),
        TunnelKind::Vxlan(VxlanFlavour::GenericProtocol),
        TunnelKind::Geneve,
        TunnelKind::Gre,
        TunnelKind::Erspan,
        TunnelKind::Gtpu,
    ];

    /// The IP protocol that carries the tunnel's header.
    pub const fn protocol(self) -> IpProtocol {
        match self {
            TunnelKind::Vxlan(_) | TunnelKind::Geneve | TunnelKind::Gtpu => IpProtocol::UDP,
            TunnelKind::Gre | TunnelKind::Erspan => IpProtocol::GRE,
        }
    }

    /// The UDP destination port that is usual, if the tunnel goes over UDP.
    pub const fn default_port(self) -> Option<u16> {
        match self {
            TunnelKind::Vxlan(_) => Some(VXLAN_PORT),
            TunnelKind::Geneve => Some(GENEVE_PORT),
            TunnelKind::Gtpu => Some(GTPU_PORT),
            TunnelKind::Gre | TunnelKind::Erspan => None,
        }
    }
}

/// The extension of VXLAN that a tunnel uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum VxlanFlavour {
    /// None.
    #[default]
    Plain,
    /// A group of a policy in the header (draft-smith-vxlan-group-policy).
    GroupPolicy,
    /// Also packets without Ethernet (draft-ietf-nvo3-vxlan-gpe).
    GenericProtocol,
}

/// What the packet in a tunnel begins with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InnerType {
    /// An Ethernet header.
    Ethernet,
    /// The header that an EtherType names; there is no Ethernet header.
    Bare(EtherType),
}

impl InnerType {
    /// The EtherType of a network service header (RFC 8300 section 2.1).
    pub const NSH: EtherType = EtherType(0x894f);
}
