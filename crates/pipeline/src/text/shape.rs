//! Prerequisites: what a rule's match implies about the headers of its packets.
//!
//! A port or an address exists only in packets of some kinds, so a rule that names one must
//! match on such packets. A [`Shape`] holds the known headers of the packets: first from the
//! match, then from each action, because `push_mpls` hides the headers behind it. This follows
//! Open vSwitch's `mf_are_prereqs_ok` and the checks of `ofpacts_check`, with one difference.
//! They let a match name a field without its prerequisite and ignore the condition, which is
//! never what the user meant.
//!
//! The printer tracks the same shape, to choose among spellings that mean the same.

use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use crate::action::Action;
use crate::encap::Encap;
use crate::matching::Match;

/// What a packet must have for a field to exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    Nothing,
    Vlan,
    Mpls,
    Nsh,
    Arp,
    Ipv4,
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    Tcp,
    Udp,
    Sctp,
    /// TCP, UDP or SCTP.
    Ports,
    /// ICMP or ICMPv6.
    Icmp,
    Icmpv6,
    /// Neighbour discovery.
    Nd,
    NdSolicitation,
    NdAdvertisement,
}

impl Needs {
    /// The condition to add to the match, for error messages.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Needs::Nothing => "nothing",
            Needs::Vlan => "a VLAN tag (dl_vlan=N, or push_vlan before it)",
            Needs::Mpls => "`mpls` or `mplsm`",
            Needs::Nsh => "`eth_type=0x894f`",
            Needs::Arp => "`arp` or `rarp`",
            Needs::Ipv4 => "`ip`",
            Needs::Ipv6 => "`ipv6`",
            Needs::Ip => "`ip` or `ipv6`",
            Needs::Tcp => "`tcp` or `tcp6`",
            Needs::Udp => "`udp` or `udp6`",
            Needs::Sctp => "`sctp` or `sctp6`",
            Needs::Ports => "`tcp`, `udp` or `sctp` (or tcp6, udp6, sctp6)",
            Needs::Icmp => "`icmp` or `icmp6`",
            Needs::Icmpv6 => "`icmp6`",
            Needs::Nd => "`icmp6,icmp_type=135,icmp_code=0` (or icmp_type=136)",
            Needs::NdSolicitation => "`icmp6,icmp_type=135,icmp_code=0`",
            Needs::NdAdvertisement => "`icmp6,icmp_type=136,icmp_code=0`",
        }
    }
}

impl Needs {
    /// The presence bit of the one header that is needed; tells apart fields that several
    /// headers have.
    pub(super) fn header(self) -> Option<FieldId> {
        match self {
            Needs::Tcp => Some(f::PRESENT_TCP),
            Needs::Udp => Some(f::PRESENT_UDP),
            Needs::Sctp => Some(f::PRESENT_SCTP),
            // In a hash the name means ICMPv4 only: there is no match to tell the version.
            Needs::Icmp => Some(f::PRESENT_ICMPV4),
            Needs::Icmpv6 => Some(f::PRESENT_ICMPV6),
            _ => None,
        }
    }
}

pub(super) const ETHER_TYPE_IPV4: u16 = 0x0800;
pub(super) const ETHER_TYPE_ARP: u16 = 0x0806;
pub(super) const ETHER_TYPE_RARP: u16 = 0x8035;
pub(super) const ETHER_TYPE_IPV6: u16 = 0x86dd;
pub(super) const ETHER_TYPE_MPLS: u16 = 0x8847;
pub(super) const ETHER_TYPE_MPLS_MULTICAST: u16 = 0x8848;
pub(super) const ETHER_TYPE_NSH: u16 = 0x894f;

pub(super) const PROTOCOL_ICMP: u8 = 1;
pub(super) const PROTOCOL_TCP: u8 = 6;
pub(super) const PROTOCOL_UDP: u8 = 17;
pub(super) const PROTOCOL_ICMPV6: u8 = 58;
pub(super) const PROTOCOL_SCTP: u8 = 132;

const ND_SOLICITATION: u8 = 135;
const ND_ADVERTISEMENT: u8 = 136;

/// The known headers of a rule's packets; zero if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Shape {
    pub(super) ether_type: u16,
    pub(super) protocol: u8,
    tags: u8,
    icmp_type: u8,
    icmp_code: u8,
    is_later_fragment: bool,
    is_layer3: bool,
}

impl Shape {
    /// The shape that a match implies.
    pub(super) fn of(matching: &Match) -> Shape {
        let mut shape = Shape::default();
        for term in matching.terms() {
            shape.learn(term.field, term.value);
        }
        shape
    }

    /// Records that a field has this value.
    pub(super) fn learn(&mut self, field: FieldId, value: u128) {
        match field {
            f::ETH_TYPE => self.ether_type = value as u16,
            f::IP_PROTO => self.protocol = value as u8,
            f::VLAN_TCI => self.tags = u8::from(value as u16 & f::VLAN_PRESENT != 0),
            f::ICMP_TYPE => self.icmp_type = value as u8,
            f::ICMP_CODE => self.icmp_code = value as u8,
            f::IP_FRAG => self.is_later_fragment = value & 2 != 0,
            f::PACKET_TYPE if value != 0 => {
                self.is_layer3 = true;
                self.ether_type = value as u16;
            }
            _ => {}
        }
    }

    pub(super) fn is_arp(&self) -> bool {
        matches!(self.ether_type, ETHER_TYPE_ARP | ETHER_TYPE_RARP)
    }

    pub(super) fn is_ipv6(&self) -> bool {
        self.ether_type == ETHER_TYPE_IPV6
    }

    /// Whether packets of this shape meet the prerequisite.
    pub(super) fn has(&self, needs: Needs) -> bool {
        let is_ipv4 = self.ether_type == ETHER_TYPE_IPV4;
        let is_ip = is_ipv4 || self.is_ipv6();
        let is_transport =
            |protocol: u8| is_ip && self.protocol == protocol && !self.is_later_fragment;
        let is_icmpv6 = self.is_ipv6() && self.protocol == PROTOCOL_ICMPV6;
        let is_nd = |kind: u8| is_icmpv6 && self.icmp_type == kind && self.icmp_code == 0;
        match needs {
            Needs::Nothing => true,
            Needs::Vlan => self.tags > 0,
            Needs::Mpls => {
                matches!(self.ether_type, ETHER_TYPE_MPLS | ETHER_TYPE_MPLS_MULTICAST)
            }
            Needs::Nsh => self.ether_type == ETHER_TYPE_NSH,
            Needs::Arp => self.is_arp(),
            Needs::Ipv4 => is_ipv4,
            Needs::Ipv6 => self.is_ipv6(),
            Needs::Ip => is_ip,
            Needs::Tcp => is_transport(PROTOCOL_TCP),
            Needs::Udp => is_transport(PROTOCOL_UDP),
            Needs::Sctp => is_transport(PROTOCOL_SCTP),
            Needs::Ports => [PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_SCTP]
                .into_iter()
                .any(is_transport),
            Needs::Icmp => is_icmpv6 || is_ipv4 && self.protocol == PROTOCOL_ICMP,
            Needs::Icmpv6 => is_icmpv6,
            Needs::Nd => is_nd(ND_SOLICITATION) || is_nd(ND_ADVERTISEMENT),
            Needs::NdSolicitation => is_nd(ND_SOLICITATION),
            Needs::NdAdvertisement => is_nd(ND_ADVERTISEMENT),
        }
    }

    /// Records what an action does to the headers.
    pub(super) fn apply(&mut self, action: &Action) {
        match action {
            Action::PushVlan(_) => self.tags = (self.tags + 1).min(2),
            Action::SetVlan { adds_tag: true, .. } => self.tags = self.tags.max(1),
            Action::PopVlan => self.tags = self.tags.saturating_sub(1),
            Action::PushMpls(ether_type) => {
                self.ether_type = *ether_type;
                self.protocol = 0;
            }
            Action::PopMpls(ether_type) => self.ether_type = *ether_type,
            Action::Encap(encap) => self.encap(encap),
            // Behind a header other than Ethernet, nothing is known.
            Action::Decap(_) if self.is_layer3 => *self = Shape::default(),
            Action::Decap(_) => self.is_layer3 = true,
            Action::SetField(writes) => {
                let present = u128::from(f::VLAN_PRESENT);
                for write in writes {
                    if write.field == f::VLAN_TCI && write.mask & present != 0 {
                        self.tags = u8::from(write.value & present != 0);
                    }
                }
            }
            _ => {}
        }
    }

    fn encap(&mut self, encap: &Encap) {
        let ether_type = match encap {
            Encap::Ethernet => {
                self.is_layer3 = false;
                return;
            }
            Encap::Mpls(ether_type) => *ether_type,
            Encap::Nsh(_) => ETHER_TYPE_NSH,
        };
        *self = Shape {
            ether_type,
            is_layer3: true,
            ..Shape::default()
        };
    }
}
