//! The tunnel values of a packet that a tunnel port sends.
//!
//! [`TunnelPort::outgoing`] takes the values that rules gave a packet, and puts those of the port
//! in their place where the port fixes them. It also says which fields of the packet it read: a
//! cached answer must match on them. The rules are Open vSwitch's (`tnl_port_send` and
//! `tnl_wc_init` of `ofproto/tunnel.c`, and `compose_output_action__` of
//! `ofproto/ofproto-dpif-xlate.c`):
//!
//! - Addresses and key are the port's, unless it says `flow`; the UDP port is always the port's.
//! - Type of service and time to live are fixed or inherited, congestion marks always inherited.
//! - Of the flags, only the mark of control packets stays as it is.
//! - A packet is not sent to the address at which it was received.
//!
//! 1. Two packets that agree on the fields read, and on whether they are IP, have the same answer.
//! 2. Values that the kind of tunnel does not have are zero.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{BitOr, BitOrAssign};

use crate::{
    Endpoints, ErspanValues, InnerIp, OuterField, PortValue, TunnelFlags, TunnelKind,
    TunnelMetadata, TunnelPort,
};

/// Fields of a packet that an answer about its tunnels depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TunnelReads(pub u16);

impl TunnelReads {
    /// None.
    pub const NONE: TunnelReads = TunnelReads(0);
    /// The tunnel's key (`tun_id`).
    pub const ID: TunnelReads = TunnelReads(0x0001);
    /// The outer sender (`tun_src`, `tun_ipv6_src`).
    pub const SOURCE: TunnelReads = TunnelReads(0x0002);
    /// The outer receiver (`tun_dst`, `tun_ipv6_dst`).
    pub const DESTINATION: TunnelReads = TunnelReads(0x0004);
    /// The outer type of service.
    pub const TOS: TunnelReads = TunnelReads(0x0008);
    /// All flags but [`TunnelFlags::OAM`].
    pub const FLAGS: TunnelReads = TunnelReads(0x0010);
    /// [`TunnelFlags::OAM`] (`tun_flags`).
    pub const OAM: TunnelReads = TunnelReads(0x0020);
    /// The group of VXLAN's policy (`tun_gbp_id`, `tun_gbp_flags`).
    pub const GROUP_POLICY: TunnelReads = TunnelReads(0x0040);
    /// ERSPAN's version (`tun_erspan_ver`).
    pub const ERSPAN_VERSION: TunnelReads = TunnelReads(0x0080);
    /// ERSPAN's index (`tun_erspan_idx`).
    pub const ERSPAN_INDEX: TunnelReads = TunnelReads(0x0100);
    /// ERSPAN's direction (`tun_erspan_dir`).
    pub const ERSPAN_DIRECTION: TunnelReads = TunnelReads(0x0200);
    /// ERSPAN's hardware number (`tun_erspan_hwid`).
    pub const ERSPAN_HARDWARE_ID: TunnelReads = TunnelReads(0x0400);
    /// The values of GTP-U (`tun_gtpu_flags`, `tun_gtpu_msgtype`).
    pub const GTPU: TunnelReads = TunnelReads(0x0800);
    /// The options of Geneve (`tun_metadata0` and so on).
    pub const OPTIONS: TunnelReads = TunnelReads(0x1000);
    /// The code point of the packet itself (the upper six bits of `nw_tos`).
    pub const INNER_DSCP: TunnelReads = TunnelReads(0x2000);
    /// The congestion mark of the packet itself (`nw_ecn`).
    pub const INNER_ECN: TunnelReads = TunnelReads(0x4000);
    /// The time to live of the packet itself (`nw_ttl`).
    pub const INNER_TTL: TunnelReads = TunnelReads(0x8000);

    /// Whether all of `other` are read.
    pub const fn has(self, other: TunnelReads) -> bool {
        self.0 & other.0 == other.0
    }

    /// What depends on a packet that came out of a tunnel, before any rule looks at it.
    ///
    /// The congestion mark of the packet itself is read if the outer packet met congestion; see
    /// [`crate::received_tos`].
    pub fn of_received(metadata: &TunnelMetadata, inner: Option<InnerIp>) -> Self {
        const CONGESTED: u8 = 0x03;
        let mut reads = TunnelReads::ID
            | TunnelReads::SOURCE
            | TunnelReads::DESTINATION
            | TunnelReads::TOS
            | TunnelReads::FLAGS;
        if inner.is_some() && metadata.tos & CONGESTED == CONGESTED {
            reads |= TunnelReads::INNER_ECN;
        }
        reads
    }
}

impl BitOr for TunnelReads {
    type Output = TunnelReads;

    fn bitor(self, other: TunnelReads) -> TunnelReads {
        TunnelReads(self.0 | other.0)
    }
}

impl BitOrAssign for TunnelReads {
    fn bitor_assign(&mut self, other: TunnelReads) {
        self.0 |= other.0;
    }
}

/// Why a packet does not go into a tunnel. The first two texts are Open vSwitch's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendRefusal {
    /// The packet would go where it came from, or it has no destination and came from no tunnel.
    #[error("Not tunneling to our own address")]
    OwnAddress,
    /// The packet came from a tunnel and has no destination.
    #[error("native tunnel routing failed")]
    NoDestination,
    /// The port's address and the packet's destination are of two families.
    #[error("the tunnel's local address is of another family than the packet's destination")]
    MixedFamilies,
}

/// What a tunnel port makes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The values of the outer headers; the sender is unspecified if the route says it.
    pub metadata: TunnelMetadata,
    /// The packet mark that the packet gets, with which the outer packet is routed.
    pub packet_mark: Option<u32>,
}

impl TunnelPort {
    /// The tunnel values of a packet that the port sends, and which fields that depends on.
    ///
    /// `current` is what rules gave the packet, `inner` its IP header if it has one. `received_at`
    /// is the outer destination with which it came out of a tunnel, if it came out of one. Open
    /// vSwitch's mask also has the whole packet mark if the port sets it.
    pub fn outgoing(
        &self,
        current: &TunnelMetadata,
        inner: Option<InnerIp>,
        received_at: Option<IpAddr>,
    ) -> (Result<Outgoing, SendRefusal>, TunnelReads) {
        let mut reads = TunnelReads::OAM;
        if self.remote.is_flow() || received_at.is_some() {
            reads |= TunnelReads::DESTINATION;
        }
        let destination = self.remote.or(current.endpoints.destination());
        let is_own = match received_at {
            None => destination.is_unspecified(),
            Some(own) => destination == own,
        };
        if is_own {
            return (Err(SendRefusal::OwnAddress), reads);
        }
        if destination.is_unspecified() {
            return (Err(SendRefusal::NoDestination), reads);
        }
        let endpoints = match self.local {
            None => without_source(destination),
            Some(PortValue::Fixed(source)) => match Endpoints::new(source, destination) {
                Some(endpoints) => endpoints,
                None => return (Err(SendRefusal::MixedFamilies), reads),
            },
            Some(PortValue::Flow) => {
                reads |= TunnelReads::SOURCE;
                let source = current.endpoints.source();
                Endpoints::new(source, destination).unwrap_or(without_source(destination))
            }
        };
        let metadata = TunnelMetadata {
            id: self.outgoing_id(current, &mut reads),
            endpoints,
            tos: self.tos.tos(inner),
            ttl: self.ttl.ttl(inner),
            source_port: 0,
            destination_port: self.destination_port,
            flags: TunnelFlags(current.flags.0 & TunnelFlags::OAM.0) | self.flags(),
            ..self.outgoing_extension(current, &mut reads)
        };
        if inner.is_some() {
            reads |= TunnelReads::INNER_ECN;
            if self.tos == OuterField::Inherit {
                reads |= TunnelReads::INNER_DSCP;
            }
            if self.ttl == OuterField::Inherit {
                reads |= TunnelReads::INNER_TTL;
            }
        }
        let outgoing = Outgoing {
            metadata,
            packet_mark: self.egress_packet_mark,
        };
        (Ok(outgoing), reads)
    }

    fn outgoing_id(&self, current: &TunnelMetadata, reads: &mut TunnelReads) -> u64 {
        match self.out_key {
            None => 0,
            Some(PortValue::Fixed(key)) => key,
            Some(PortValue::Flow) => {
                *reads |= TunnelReads::ID;
                current.id
            }
        }
    }

    /// The values that only this kind of tunnel has; the others are zero.
    fn outgoing_extension(
        &self,
        current: &TunnelMetadata,
        reads: &mut TunnelReads,
    ) -> TunnelMetadata {
        let mut metadata = TunnelMetadata::default();
        match self.kind() {
            TunnelKind::Vxlan(_) => {
                *reads |= TunnelReads::GROUP_POLICY;
                metadata.group_policy = current.group_policy;
            }
            TunnelKind::Geneve => {
                *reads |= TunnelReads::OPTIONS;
                metadata.options = current.options.clone();
            }
            TunnelKind::Gtpu => {
                *reads |= TunnelReads::GTPU;
                metadata.gtpu = current.gtpu;
            }
            TunnelKind::Erspan => {
                for (is_flow, read) in [
                    (self.erspan.version.is_flow(), TunnelReads::ERSPAN_VERSION),
                    (self.erspan.index.is_flow(), TunnelReads::ERSPAN_INDEX),
                    (
                        self.erspan.direction.is_flow(),
                        TunnelReads::ERSPAN_DIRECTION,
                    ),
                    (
                        self.erspan.hardware_id.is_flow(),
                        TunnelReads::ERSPAN_HARDWARE_ID,
                    ),
                ] {
                    if is_flow {
                        *reads |= read;
                    }
                }
                metadata.erspan = ErspanValues {
                    version: self.erspan.version.or(current.erspan.version),
                    index: self.erspan.index.or(current.erspan.index),
                    direction: self.erspan.direction.or(current.erspan.direction),
                    hardware_id: self.erspan.hardware_id.or(current.erspan.hardware_id),
                };
            }
            TunnelKind::Gre => {}
        }
        metadata
    }
}

/// The addresses of a packet whose sender is not known yet.
const fn without_source(destination: IpAddr) -> Endpoints {
    match destination {
        IpAddr::V4(destination) => Endpoints::V4 {
            source: Ipv4Addr::UNSPECIFIED,
            destination,
        },
        IpAddr::V6(destination) => Endpoints::V6 {
            source: Ipv6Addr::UNSPECIFIED,
            destination,
        },
    }
}
