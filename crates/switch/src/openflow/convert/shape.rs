//! Known facts about a rule's packets: first from its match, then from each action.

use thalweg_openflow::Needs;
use thalweg_packet::FieldId;
use thalweg_packet::standard as f;
use thalweg_pipeline::{Action, Encap, Match};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: [u16; 2] = [0x0806, 0x8035];
const NSH: u16 = 0x894f;
const MPLS: [u16; 2] = [0x8847, 0x8848];

/// Known facts about the headers; zero for an unknown one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Shape {
    ether_type: u16,
    protocol: u8,
    tags: u8,
    icmp_type: u8,
    icmp_code: u8,
    is_later_fragment: bool,
    is_layer3: bool,
}

impl Shape {
    /// What a match says.
    pub(super) fn of(matching: &Match) -> Shape {
        let mut shape = Shape::default();
        for term in matching.terms() {
            shape.learn(term.field, term.value);
        }
        shape
    }

    /// Notes that a field has this value.
    pub(super) fn learn(&mut self, field: FieldId, value: u128) {
        match field {
            f::ETH_TYPE => self.ether_type = value as u16,
            f::IP_PROTO => self.protocol = value as u8,
            f::VLAN_TCI => self.tags = u8::from(value as u16 & f::VLAN_PRESENT != 0),
            f::ICMP_TYPE => self.icmp_type = value as u8,
            f::ICMP_CODE => self.icmp_code = value as u8,
            f::IP_FRAG => self.is_later_fragment = value & 2 != 0,
            f::PACKET_TYPE if value != 0 => {
                (self.is_layer3, self.ether_type) = (true, value as u16);
            }
            _ => {}
        }
    }

    /// Whether packets of this shape have what a field needs.
    pub(super) fn has(&self, needs: Needs) -> bool {
        let (is_ipv4, is_ipv6) = (self.ether_type == IPV4, self.ether_type == IPV6);
        let is_ip = is_ipv4 || is_ipv6;
        let carries = |protocol| is_ip && self.protocol == protocol && !self.is_later_fragment;
        let is_icmpv6 = is_ipv6 && self.protocol == 58;
        let is_nd = |kind| is_icmpv6 && self.icmp_type == kind && self.icmp_code == 0;
        match needs {
            Needs::Nothing | Needs::Ethernet => true,
            Needs::Vlan => self.tags > 0,
            Needs::Mpls => MPLS.contains(&self.ether_type),
            Needs::Arp => ARP.contains(&self.ether_type),
            Needs::Ipv4 => is_ipv4,
            Needs::Ipv6 => is_ipv6,
            Needs::Ip => is_ip,
            Needs::Tcp => carries(6),
            Needs::Udp => carries(17),
            Needs::Sctp => carries(132),
            Needs::Icmpv4 => is_ipv4 && self.protocol == 1,
            Needs::Icmpv6 => is_icmpv6,
            Needs::Nd => is_nd(135) || is_nd(136),
            Needs::NdSolicit => is_nd(135),
            Needs::NdAdvert => is_nd(136),
            Needs::Nsh => self.ether_type == NSH,
            // What a tracker said of other packets is zero.
            Needs::Ct => true,
        }
    }

    /// Follows what an action does to the headers.
    pub(super) fn apply(&mut self, action: &Action) {
        match action {
            Action::PushVlan(_) => self.tags = (self.tags + 1).min(2),
            Action::SetVlan { adds_tag: true, .. } => self.tags = self.tags.max(1),
            Action::PopVlan => self.tags = self.tags.saturating_sub(1),
            Action::PushMpls(ether_type) => {
                (self.ether_type, self.protocol) = (*ether_type, 0);
            }
            Action::PopMpls(ether_type) => self.ether_type = *ether_type,
            Action::Encap(Encap::Ethernet) => self.is_layer3 = false,
            Action::Encap(encap) => {
                *self = Shape {
                    ether_type: match encap {
                        Encap::Mpls(ether_type) => *ether_type,
                        _ => NSH,
                    },
                    is_layer3: true,
                    ..Shape::default()
                };
            }
            // The header behind one other than Ethernet is not known.
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
}

/// The presence bit of the one header that is needed; tells apart fields that several headers
/// have.
pub(super) fn header_of(needs: Needs) -> Option<FieldId> {
    match needs {
        Needs::Tcp => Some(f::PRESENT_TCP),
        Needs::Udp => Some(f::PRESENT_UDP),
        Needs::Sctp => Some(f::PRESENT_SCTP),
        Needs::Icmpv4 => Some(f::PRESENT_ICMPV4),
        Needs::Icmpv6 => Some(f::PRESENT_ICMPV6),
        _ => None,
    }
}

impl Shape {
    /// The shape of packets that have this header, by its presence bit.
    pub(super) fn with_header(presence: Option<FieldId>) -> Shape {
        let (ether_type, protocol) = match presence {
            Some(f::PRESENT_TCP) => (IPV4, 6),
            Some(f::PRESENT_UDP) => (IPV4, 17),
            Some(f::PRESENT_SCTP) => (IPV4, 132),
            Some(f::PRESENT_ICMPV4) => (IPV4, 1),
            Some(f::PRESENT_ICMPV6) => (IPV6, 58),
            _ => (0, 0),
        };
        Shape {
            ether_type,
            protocol,
            ..Shape::default()
        }
    }
}
