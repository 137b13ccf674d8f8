//! A datapath flow: values of the standard fields, and a mask.

use thalweg_packet::{FieldId, Layout, standard as f};

use super::attribute::{
    ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, is_arp, is_mpls, is_neighbor_discovery, ones,
};

/// The number of standard fields.
const COUNT: usize = f::PRESENT_ND_TLL.index() + 1;

/// Bits of each standard field: a packet's key, or a mask of one.
#[derive(Clone, PartialEq, Eq)]
pub struct FieldBits {
    bits: [u128; COUNT],
}

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
}

impl Default for FieldBits {
    fn default() -> FieldBits {
        FieldBits { bits: [0; COUNT] }
    }
}

impl FieldBits {
    /// The bits of a field.
    pub fn get(&self, field: FieldId) -> u128 {
        self.bits[field.index()]
    }

    /// Sets the bits of a field.
    pub fn set(&mut self, field: FieldId, bits: u128) {
        self.bits[field.index()] = bits;
    }

    /// A field of at most 16 bits.
    pub(super) fn short(&self, field: FieldId) -> u16 {
        self.get(field) as u16
    }

    /// The fields that have bits, with those bits.
    pub fn iter(&self) -> impl Iterator<Item = (FieldId, u128)> + '_ {
        let bits = self.bits.iter().enumerate();
        bits.filter(|(_, bits)| **bits != 0)
            .map(|(index, bits)| (FieldId(index as u16), *bits))
    }

    /// Copies the fields that a layout has from the words of a key or a mask.
    pub fn read_words(layout: &Layout, words: &[u64]) -> FieldBits {
        let mut bits = FieldBits::default();
        for (field, value) in layout.fields_in(words) {
            bits.set(field, value);
        }
        bits
    }

    /// Copies the fields that a layout has to the words of a key or a mask.
    ///
    /// # Panics
    /// If there are fewer words than the fields of the layout need.
    pub fn write_words(&self, layout: &Layout, words: &mut [u64]) {
        for &field in layout.used() {
            layout.set(words, field, self.get(field));
        }
    }

    /// The type of service, or traffic class: its code point and its congestion bits.
    pub(super) fn service(&self) -> u128 {
        self.get(f::IP_DSCP) << 2 | self.get(f::IP_ECN)
    }

    pub(super) fn set_service(&mut self, bits: u128) {
        self.set(f::IP_DSCP, bits >> 2 & ones(6));
        self.set(f::IP_ECN, bits & ones(2));
    }

    /// The label stack entries of MPLS, outermost first.
    pub(super) fn labels(&self) -> [u32; 3] {
        let first = self.get(f::MPLS_LABEL) << 12
            | self.get(f::MPLS_TC) << 9
            | self.get(f::MPLS_BOS) << 8
            | self.get(f::MPLS_TTL);
        [first, self.get(f::MPLS_LSE1), self.get(f::MPLS_LSE2)].map(|entry| entry as u32)
    }

    pub(super) fn set_labels(&mut self, entries: [u32; 3]) {
        let [first, second, third] = entries.map(u128::from);
        self.set(f::MPLS_LABEL, first >> 12);
        self.set(f::MPLS_TC, first >> 9 & 7);
        self.set(f::MPLS_BOS, first >> 8 & 1);
        self.set(f::MPLS_TTL, first & 0xff);
        self.set(f::MPLS_LSE1, second);
        self.set(f::MPLS_LSE2, third);
    }

    /// Whether the packet is a fragment other than the first.
    pub(super) fn is_later_fragment(&self) -> bool {
        self.get(f::IP_FRAG) & 2 != 0
    }

    /// Sets what follows from other fields: which headers are present, and whether the time to
    /// live can be decremented.
    pub(super) fn derive(&mut self) {
        let ether_type = self.short(f::ETH_TYPE);
        let is_ipv4 = ether_type == ETHER_TYPE_IPV4;
        let is_ipv6 = ether_type == ETHER_TYPE_IPV6;
        let has_transport = (is_ipv4 || is_ipv6) && !self.is_later_fragment();
        let protocol = self.short(f::IP_PROTO);
        let carries = |number| has_transport && protocol == number;
        let is_neighbor = carries(58) && is_ipv6 && is_neighbor_discovery(self);
        let facts = [
            (f::PRESENT_MPLS, is_mpls(ether_type)),
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

impl std::fmt::Debug for FieldBits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = thalweg_packet::standard::fields();
        let names = self.iter().map(|(field, bits)| {
            let name = fields[field.index()].name.clone();
            (name, format!("{bits:#x}"))
        });
        f.debug_map().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_every_field() {
        assert_eq!(f::fields().len(), COUNT);
    }
}
