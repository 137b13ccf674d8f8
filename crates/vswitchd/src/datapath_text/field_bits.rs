//! The bits of each standard field of a packet, in no layout.

use thalweg_packet::{FieldId, Layout, TunnelValues, standard as f};

/// The number of standard fields.
pub(super) const COUNT: usize = f::PRESENT_ND_TLL.index() + 1;

/// Bits of each standard field: a packet's key, or a mask of one.
#[derive(Clone, PartialEq, Eq)]
pub struct FieldBits {
    pub(super) bits: [u128; COUNT],
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

    /// The values of the tunnel.
    pub(crate) fn tunnel(&self) -> TunnelValues {
        TunnelValues::of_fields(self.iter())
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
        self.set(f::IP_DSCP, bits >> 2 & 0x3f);
        self.set(f::IP_ECN, bits & 0x3);
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
