//! `encap` and `decap`: headers that are put in front of a packet, and taken off.
//!
//! ```text
//!   Ethernet IPv4 --decap-> IPv4 --encap(nsh)-> NSH IPv4 --encap(ethernet)-> Ethernet NSH IPv4
//! ```
//!
//! Fields belong to the outermost header and what the parser finds behind it. So an added header
//! hides all others, and one that is taken off uncovers headers that the key does not have: the
//! walk then freezes, and goes on with another parse (`xlate_generic_encap_action` and
//! `xlate_generic_decap_action` of Open vSwitch).
//!
//! 1. A pipeline without such actions does not have the packet's type in its keys. All its packets
//!    begin with Ethernet.
//! 2. A packet for which the header cannot be added or taken off fails the walk.

use thalweg_packet::{Stage, standard as f};

use super::DropReason;
use super::observer::Observer;
use super::walk::{Next, Walk};
use crate::effect::Effect;
use crate::encap::{ETHER_TYPE_NSH, Encap, ServiceHeader};

/// Namespace 1 of packet types: EtherTypes (OpenFlow 1.5.1, section 7.2.3.11).
const ETHER_TYPES: u32 = 1 << 16;

const IPV4: u32 = ETHER_TYPES | 0x0800;
const IPV6: u32 = ETHER_TYPES | 0x86dd;
const NSH: u32 = ETHER_TYPES | ETHER_TYPE_NSH as u32;
const MPLS: u32 = ETHER_TYPES | 0x8847;
const MPLS_MULTICAST: u32 = ETHER_TYPES | 0x8848;

impl<O: Observer> Walk<'_, O> {
    /// The packet's type; 0 for Ethernet.
    pub(super) fn packet_type(&mut self) -> u32 {
        match self.has_packet_types {
            true => self.state.read(f::PACKET_TYPE) as u32,
            false => 0,
        }
    }

    /// Whether the packet begins behind Ethernet.
    pub(super) fn is_layer3(&mut self) -> bool {
        self.packet_type() != 0
    }

    fn set_packet_type(&mut self, packet_type: u32) {
        self.state
            .write(f::PACKET_TYPE, packet_type.into(), u32::MAX.into());
    }

    /// Writes the EtherType behind the tags; in a packet without Ethernet, also the packet's type.
    pub(super) fn write_ether_type(&mut self, ether_type: u16) {
        self.state
            .write(f::ETH_TYPE, u128::from(ether_type), 0xffff);
        if self.is_layer3() {
            self.set_packet_type(ETHER_TYPES | u32::from(ether_type));
        }
    }

    /// Adds a header in front.
    pub(super) fn encap(&mut self, encap: &Encap) -> Next {
        match encap {
            Encap::Ethernet if self.is_layer3() => {
                self.set_packet_type(0);
                self.hide_addresses();
                self.emit(Effect::PushEthernet);
                Next::Continue
            }
            Encap::Ethernet => self.fail(DropReason::UnsupportedPacketType),
            Encap::Mpls(ether_type) => self.encap_label(*ether_type),
            Encap::Nsh(header) => self.encap_service(header),
        }
    }

    /// Adds a label: in front of Ethernet, or as the top one of a packet without Ethernet.
    fn encap_label(&mut self, ether_type: u16) -> Next {
        if self.is_layer3() && self.state.read(f::PRESENT_MPLS) == 1 {
            if self.known_labels().is_none_or(|labels| labels == 3) {
                return self.fail(DropReason::TooManyLabels);
            }
            self.push_mpls(ether_type);
            return Next::Continue;
        }
        // RFC 3032, section 2.1: explicit null is label 0 for IPv4 and 2 for IPv6. The TTL is not
        // that of the packet, as in Open vSwitch.
        let label = match self.state.read(f::ETH_TYPE) {
            0x86dd => 2,
            _ => 0,
        };
        let entry: u32 = label << 12 | 1 << 8 | 64;
        self.put_in_front(ether_type, entry.to_be_bytes().into());
        self.state.write(f::PRESENT_MPLS, 1, 1);
        self.write_label(entry & !0x100);
        self.state.write(f::MPLS_BOS, 1, 1);
        Next::Continue
    }

    fn encap_service(&mut self, header: &ServiceHeader) -> Next {
        let next_protocol = match self.packet_type() {
            IPV4 => 1,
            IPV6 => 2,
            0 => 3,
            NSH => 4,
            _ => return self.fail(DropReason::UnsupportedPacketType),
        };
        let bytes = header.bytes(next_protocol);
        let md_type = u128::from(bytes[2]);
        self.put_in_front(ETHER_TYPE_NSH, bytes.into());
        let fields = [
            (f::PRESENT_NSH, 1, 1),
            (f::PRESENT_NSH_CONTEXT, u128::from(md_type == 1), 1),
            (f::NSH_TTL, 63, 0x3f),
            (f::NSH_MDTYPE, md_type, 0xff),
            (f::NSH_NP, next_protocol.into(), 0xff),
            (f::NSH_SI, 255, 0xff),
        ];
        for (field, value, mask) in fields {
            self.state.write(field, value, mask);
        }
        Next::Continue
    }

    /// Puts a header in front of all others, which it hides.
    fn put_in_front(&mut self, ether_type: u16, header: Box<[u8]>) {
        self.hide_headers(Stage::Link);
        self.set_packet_type(ETHER_TYPES | u32::from(ether_type));
        self.state
            .write(f::ETH_TYPE, u128::from(ether_type), 0xffff);
        // All that the parser would find is known again.
        (self.is_reparse_needed, self.is_tag_hidden) = (false, false);
        self.emit(Effect::Encapsulate { ether_type, header });
    }

    /// Takes the outermost header off. `asked` is what the packet's type becomes, where the header
    /// does not say it.
    pub(super) fn decap(&mut self, asked: u32) -> Next {
        match self.packet_type() {
            0 if self.has_tag(f::VLAN_TCI) => self.fail(DropReason::UnsupportedPacketType),
            0 => {
                let ether_type = self.state.read(f::ETH_TYPE) as u32;
                self.set_packet_type(ETHER_TYPES | ether_type);
                self.hide_addresses();
                self.emit(Effect::PopEthernet);
                Next::Continue
            }
            NSH => self.decap_service(),
            MPLS | MPLS_MULTICAST => self.decap_label(asked),
            _ => self.fail(DropReason::UnsupportedPacketType),
        }
    }

    fn decap_service(&mut self) -> Next {
        if self.state.read(f::PRESENT_NSH) == 0 {
            return self.fail(DropReason::UnsupportedPacketType);
        }
        let packet_type = match self.state.read(f::NSH_NP) {
            1 => IPV4,
            2 => IPV6,
            3 => 0,
            4 => NSH,
            _ => return self.fail(DropReason::UnsupportedPacketType),
        };
        self.uncover(packet_type)
    }

    fn decap_label(&mut self, asked: u32) -> Next {
        if self.state.read(f::PRESENT_MPLS) == 0 {
            return Next::Continue;
        }
        let Some(labels) = self.known_labels() else {
            return self.fail(DropReason::TooManyLabels);
        };
        if labels > 1 && matches!(asked, MPLS | MPLS_MULTICAST) {
            self.pop_mpls(asked as u16);
            return Next::Continue;
        }
        // Labels above another type go together.
        for _ in 1..labels {
            self.pop_mpls(MPLS as u16);
        }
        // Only the type counts, as in Open vSwitch.
        match asked as u16 {
            0 => self.uncover(0),
            _ => self.uncover(ETHER_TYPES | asked & 0xffff),
        }
    }

    /// Takes the outermost header off; another parse finds the next one.
    fn uncover(&mut self, packet_type: u32) -> Next {
        self.set_packet_type(packet_type);
        self.emit(Effect::Decapsulate { packet_type });
        Next::Freeze
    }

    /// The number of labels; `None` if there are more than the key has.
    fn known_labels(&mut self) -> Option<u32> {
        if self.state.read(f::MPLS_BOS) == 1 {
            return Some(1);
        }
        if self.state.read_masked(f::MPLS_LSE1, 0x100) != 0 {
            return Some(2);
        }
        (self.state.read_masked(f::MPLS_LSE2, 0x100) != 0).then_some(3)
    }

    fn hide_addresses(&mut self) {
        for field in [f::ETH_SRC, f::ETH_DST] {
            self.state.write(field, 0, 0xffff_ffff_ffff);
        }
    }
}

impl crate::pipeline::Pipeline {
    /// Whether rules can tell packets that begin with Ethernet from others.
    pub(super) fn has_packet_types(&self) -> bool {
        self.layout().slot(f::PACKET_TYPE).is_some()
    }
}
