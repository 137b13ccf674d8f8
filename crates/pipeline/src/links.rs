//! Choices among links by a hash of the packet: `multipath`, `bundle`, `bundle_load`.
//!
//! [`crate::interpret`] makes the choice. The numbers of fields and algorithms are those of
//! Nicira's extensions (`nx_hash_fields`, `nx_mp_algorithm`, `nx_bd_algorithm`).

use thalweg_packet::PortId;

use crate::action::Subfield;

/// Most links that a number is chosen from.
pub const MAX_LINKS: u32 = 65_536;

/// Most members that a port is chosen from.
pub const MAX_MEMBERS: usize = 2_048;

/// What of a packet is hashed.
///
/// The symmetric ones are the same for both directions of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowHash {
    /// The source address of Ethernet.
    EthSource,
    /// Both addresses of Ethernet, type, VLANs, both addresses of IP, protocol, and the ports of
    /// TCP and SCTP.
    SymmetricL4,
    /// Both addresses of IP, protocol, and the ports of TCP and SCTP; of other packets addresses,
    /// type and VLANs of Ethernet.
    SymmetricL3L4,
    /// The same, and the ports of UDP.
    SymmetricL3L4Udp,
    /// The source address of IP.
    IpSource,
    /// The destination address of IP.
    IpDestination,
    /// Type and both addresses of IP.
    SymmetricL3,
}

/// How a link is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkAlgorithm {
    /// The hash modulo the number of links.
    ModuloN,
    /// The range of the hash, in equal parts.
    HashThreshold,
    /// The link with the highest weight, which depends on flow and link; of more than 64, as
    /// [`LinkAlgorithm::IterHash`].
    HighestWeight,
    /// Hashes again until one is a link's.
    IterHash,
}

/// How a member is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemberAlgorithm {
    /// The first that is alive.
    ActiveBackup,
    /// Of those that are alive, the one with the highest weight, which depends on flow and
    /// member.
    HighestWeight,
}

/// A number chosen by a hash (`multipath`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LinkChoice {
    /// The fields that are hashed.
    pub hash: FlowHash,
    /// Another one gives another choice.
    pub basis: u16,
    /// How it is chosen.
    pub algorithm: LinkAlgorithm,
    /// The number of links, 1 to [`MAX_LINKS`]; the number is below it.
    pub links: u32,
    /// For [`LinkAlgorithm::IterHash`], below what numbers are tried.
    pub argument: u32,
    /// Where the number goes.
    pub destination: Subfield,
}

/// A port chosen among those that are alive (`bundle`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemberChoice {
    /// The fields that are hashed.
    pub hash: FlowHash,
    /// Another one gives another choice.
    pub basis: u16,
    /// How it is chosen.
    pub algorithm: MemberAlgorithm,
    /// The ports, at most [`MAX_MEMBERS`]; reserved ones have OpenFlow 1.0's numbers.
    pub members: Box<[PortId]>,
    /// Where the port's number goes; `None` to send the packet there.
    pub destination: Option<Subfield>,
}

/// Names in the order of their numbers.
macro_rules! named {
    ($kind:ident: $($variant:ident $name:literal,)*) => {
        impl $kind {
            const ALL: &[($kind, &'static str)] = &[$(($kind::$variant, $name)),*];

            /// Its name in texts.
            pub fn name(self) -> &'static str {
                $kind::ALL[usize::from(self.number())].1
            }

            /// Its number in messages.
            pub fn number(self) -> u16 {
                self as u16
            }

            /// The one with this name.
            pub fn named(name: &str) -> Option<$kind> {
                let mut all = $kind::ALL.iter();
                all.find(|(_, known)| name.eq_ignore_ascii_case(known))
                    .map(|(kind, _)| *kind)
            }

            /// The one with this number.
            pub fn numbered(number: u16) -> Option<$kind> {
                $kind::ALL.get(usize::from(number)).map(|(kind, _)| *kind)
            }
        }
    };
}

named! {
    FlowHash:
    EthSource "eth_src",
    SymmetricL4 "symmetric_l4",
    SymmetricL3L4 "symmetric_l3l4",
    SymmetricL3L4Udp "symmetric_l3l4+udp",
    IpSource "nw_src",
    IpDestination "nw_dst",
    SymmetricL3 "symmetric_l3",
}

named! {
    LinkAlgorithm:
    ModuloN "modulo_n",
    HashThreshold "hash_threshold",
    HighestWeight "hrw",
    IterHash "iter_hash",
}

named! {
    MemberAlgorithm:
    ActiveBackup "active_backup",
    HighestWeight "hrw",
}

impl MemberChoice {
    /// Whether packets are hashed.
    pub fn hashes(&self) -> bool {
        self.algorithm == MemberAlgorithm::HighestWeight && self.members.len() > 1
    }
}
