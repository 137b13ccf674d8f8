//! A datapath flow: values of the standard fields, and a mask.

use thalweg_packet::{FieldId, Headers, Layout, Receipt, standard as f};

use super::attribute::{
    ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_NSH, is_arp, is_mpls, is_neighbor_discovery,
    is_tag, ones,
};
use super::field_bits::{COUNT, FieldBits};
use super::options::OptionBits;

/// Fields that OpenFlow compares as a whole or not at all, and their widths in bits.
const UNDIVIDED: [(FieldId, u16); 17] = [
    (f::IP_PROTO, 8),
    (f::IP_DSCP, 6),
    (f::IP_ECN, 2),
    (f::IP_TTL, 8),
    (f::IP_FRAG, 2),
    (f::ARP_OP, 16),
    (f::ICMP_TYPE, 8),
    (f::ICMP_CODE, 8),
    (f::MPLS_LABEL, 20),
    (f::MPLS_TC, 3),
    (f::MPLS_BOS, 1),
    (f::MPLS_TTL, 8),
    (f::NSH_TTL, 6),
    (f::NSH_MDTYPE, 8),
    (f::NSH_NP, 8),
    (f::NSH_SPI, 24),
    (f::NSH_SI, 8),
];

/// A packet as a datapath describes it, and the bits on which other packets of the flow agree.
///
/// In a flow that was read, the mask covers what the text names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DatapathFlow {
    /// The packet's values. Those outside the mask are known but not compared.
    pub key: FieldBits,
    /// The bits that are compared.
    pub mask: FieldBits,
    /// EtherTypes of the outer and the inner tag; 0 where not known.
    pub tag_types: [u16; 2],
    /// The options of Geneve of a flow that was read; the reader does not know their fields.
    pub options: Vec<OptionBits>,
    /// The flags of the tunnel of a flow that was read, from bit 0: `oam`, `df`, `csum`, `key`.
    pub tunnel_flags: u16,
    /// Whether it compares all that packets have.
    pub is_exact: bool,
    /// Whether Linux's priority of a packet is compared, which is zero in all that come in.
    pub(super) compares_queue: bool,
    /// All bits of the fields whose values are not known.
    pub(super) unknown: FieldBits,
}

impl DatapathFlow {
    /// The flow of a cache entry, given the words of its key and its mask.
    ///
    /// Open vSwitch compares more than a walk needs: where a packet comes from, its types, the
    /// kind of fragment, the whole of a tag. The mask covers these fields too, as far as the
    /// layout has them. So fewer packets may be of the flow that is shown than of the entry.
    /// Headers whose presence is compared show as their types, and the guard of a decremented
    /// time to live as that time.
    pub fn of_entry(layout: &Layout, key: &[u64], mask: &[u64]) -> DatapathFlow {
        let mut unknown = FieldBits::default();
        for index in (0..COUNT).filter(|&index| layout.slot(FieldId(index as u16)).is_none()) {
            unknown.bits[index] = u128::MAX;
        }
        let mut flow = DatapathFlow {
            key: FieldBits::read_words(layout, key),
            mask: FieldBits::read_words(layout, mask),
            unknown,
            ..DatapathFlow::default()
        };
        flow.cover();
        flow
    }

    /// The same flow with the types of the tags of a packet of it, which a key does not have:
    /// tags of unknown types are taken for customers' (0x8100).
    #[must_use]
    pub fn with_tags_of(mut self, frame: &[u8]) -> DatapathFlow {
        for (place, tag_type) in self.tag_types.iter_mut().enumerate() {
            let at = 12 + 4 * place;
            let found = frame
                .get(at..at + 2)
                .map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
            match found.filter(|found| is_tag(*found)) {
                Some(found) => *tag_type = found,
                None => break,
            }
        }
        self
    }

    /// The flow of one packet alone, given what it came with; `None` if it has no headers. Of a
    /// packet of `length` bytes, `frame` may be the beginning, with all headers.
    pub fn of_packet(
        layout: &Layout,
        frame: &[u8],
        length: usize,
        receipt: &Receipt,
    ) -> Option<DatapathFlow> {
        // A header may say that more follows than was kept.
        let mut whole = frame.to_vec();
        whole.resize(length.max(frame.len()), 0);
        let headers = Headers::parse(&whole).ok()?;
        let mut words = vec![0; layout.words()];
        layout.extract(&whole, &headers, receipt, &mut words);
        let flow = DatapathFlow {
            key: FieldBits::read_words(layout, &words),
            ..DatapathFlow::default()
        };
        Some(flow.with_tags_of(frame).exact())
    }

    /// The same flow, which compares all that its packet has.
    #[must_use]
    pub fn exact(mut self) -> DatapathFlow {
        for (field, descriptor) in f::fields().iter().enumerate() {
            self.mask.bits[field] = ones(descriptor.width_bits);
        }
        self.is_exact = true;
        self
    }

    /// The same flow with the values that its key lacks, from a packet of it of `length` bytes
    /// that begins with `frame`. They are shown and not compared.
    #[must_use]
    pub fn with_values_of(mut self, layout: &Layout, frame: &[u8], length: usize) -> DatapathFlow {
        let receipt = Receipt::default();
        if let Some(packet) = DatapathFlow::of_packet(layout, frame, length, &receipt) {
            for index in (0..COUNT).filter(|&index| self.unknown.bits[index] != 0) {
                self.key.bits[index] = packet.key.bits[index];
            }
            self.tag_types = packet.tag_types;
        }
        self
    }

    /// Whether the value of a field is known.
    pub(super) fn knows(&self, field: FieldId) -> bool {
        self.unknown.get(field) == 0
    }

    /// Covers what Open vSwitch always compares.
    pub(crate) fn cover(&mut self) {
        let compares = |fields: &[FieldId]| fields.iter().any(|field| self.mask.get(*field) != 0);
        let transports = [
            f::PRESENT_TCP,
            f::PRESENT_UDP,
            f::PRESENT_SCTP,
            f::PRESENT_ICMPV4,
            f::PRESENT_ICMPV6,
        ];
        let is_ip = matches!(
            self.key.short(f::ETH_TYPE),
            ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6
        );
        let whole = [
            (f::RECIRC_ID, 32, true),
            (f::IN_PORT, 32, true),
            (f::PACKET_TYPE, 32, true),
            (f::ETH_TYPE, 16, true),
            (f::IP_FRAG, 2, is_ip),
            (f::IP_PROTO, 8, compares(&transports)),
            (f::IP_TTL, 8, compares(&[f::IP_TTL_ABOVE_1])),
        ];
        for (field, width, is_compared) in whole {
            if is_compared && (self.knows(field) || matches!(field, f::RECIRC_ID | f::PACKET_TYPE))
            {
                self.mask.set(field, ones(width));
            }
        }
        // Rules cannot compare a part of these, so Open vSwitch never does.
        for (field, width) in UNDIVIDED {
            if self.mask.get(field) != 0 {
                self.mask.set(field, ones(width));
            }
        }
        for field in [f::VLAN_TCI, f::VLAN_TCI_INNER] {
            let present = u128::from(f::VLAN_PRESENT);
            let compared = self.mask.get(field);
            let is_tagged = self.key.get(field) & present != 0;
            if is_tagged && (compared != 0 || field == f::VLAN_TCI) {
                let number = if compared == 0 { ones(12) } else { 0 };
                self.mask.set(field, compared | present | number);
            }
        }
        if self.key.is_later_fragment() {
            let behind = [
                f::TP_SRC,
                f::TP_DST,
                f::TCP_FLAGS,
                f::ICMP_TYPE,
                f::ICMP_CODE,
            ];
            behind.iter().for_each(|field| self.mask.set(*field, 0));
        }
    }
}

impl FieldBits {
    /// Sets what follows from other fields: which headers are present, and whether the time to
    /// live can be decremented.
    pub(crate) fn derive(&mut self) {
        let ether_type = self.short(f::ETH_TYPE);
        let is_ipv4 = ether_type == ETHER_TYPE_IPV4;
        let is_ipv6 = ether_type == ETHER_TYPE_IPV6;
        let is_nsh = ether_type == ETHER_TYPE_NSH;
        let has_transport = (is_ipv4 || is_ipv6) && !self.is_later_fragment();
        let protocol = self.short(f::IP_PROTO);
        let carries = |number| has_transport && protocol == number;
        let is_neighbor = carries(58) && is_ipv6 && is_neighbor_discovery(self);
        let facts = [
            (f::PRESENT_MPLS, is_mpls(ether_type)),
            (f::PRESENT_NSH, is_nsh),
            (
                f::PRESENT_NSH_CONTEXT,
                is_nsh && self.get(f::NSH_MDTYPE) == 1,
            ),
            (f::PRESENT_ARP, is_arp(ether_type)),
            (f::PRESENT_IPV4, is_ipv4),
            (f::PRESENT_IPV6, is_ipv6),
            (f::PRESENT_IPV6_CHAIN, is_ipv6),
            (f::PRESENT_TCP, carries(6)),
            (f::PRESENT_UDP, carries(17)),
            (f::PRESENT_SCTP, carries(132)),
            (f::PRESENT_ICMPV4, carries(1) && is_ipv4),
            (f::PRESENT_ICMPV6, carries(58) && is_ipv6),
            (f::PRESENT_ND, is_neighbor),
            (f::PRESENT_ND_SLL, is_neighbor && self.get(f::ND_SLL) != 0),
            (f::PRESENT_ND_TLL, is_neighbor && self.get(f::ND_TLL) != 0),
            (f::IP_TTL_ABOVE_1, self.get(f::IP_TTL) > 1),
        ];
        for (field, is_so) in facts {
            self.set(field, u128::from(is_so));
        }
    }
}
