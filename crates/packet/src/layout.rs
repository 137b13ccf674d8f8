//! Layouts: where each field of a program lies in the words of a key.
//!
//! A layout has exactly the fields that the loaded program matches or reads. They are packed
//! into 64-bit words: first the ingress fields, stage by stage (port and metadata, L2, L3,
//! L4), then registers. So the first [`Layout::ingress_words`] words are the key of a cache.
//! IPv4 pipelines in use fit into eight of them (one cache line, one 512-bit register), and a
//! staged lookup can hash one stage after another.
//!
//! 1. A field of up to 64 bits lies in one word. A wider field has whole words to itself, most
//!    significant first, its last bits at the bottom of the last word.
//! 2. No two fields share a bit. Bits that belong to no field are always zero.
//! 3. A word holds ingress fields of one stage, or registers; never both.
//! 4. Within a field, bit 0 is the least significant: a prefix of an address is its upper
//!    bits.
//! 5. The layout depends only on the *set* of fields, not on their order. Two programs with
//!    the same fields have the same keys.
//!
//! [`Layout::extract`] fills a key from a packet. It is compiled to one load, shift and mask
//! per run: bits that keep their distance between packet and key (source and destination
//! address are one run). Runs are grouped by header, so absent headers cost nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::extract::{Extraction, Receipt};
use crate::field::{FieldDescriptor, FieldId, Stage};
use crate::headers::Headers;
use crate::shapes::Shapes;
use crate::slot::{Slot, ones};

/// The most words a layout may have; programs that need more are refused.
pub const MAX_WORDS: usize = 64;

/// A program that needs more words than a key may have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the program's fields need {words} words of key, more than {MAX_WORDS}; match or read fewer \
     fields"
)]
pub struct LayoutTooWide {
    /// The number of words that the program needs.
    pub words: usize,
}

/// Where each field lies in the words of a key.
///
/// ```
/// use std::{collections::BTreeSet, sync::Arc};
/// use thalweg_packet::{Layout, standard};
///
/// let used = BTreeSet::from([standard::IP_DST, standard::REG0, standard::IN_PORT]);
/// let layout = Layout::new(Arc::new(standard::fields()), &used)?;
/// assert_eq!((layout.ingress_words(), layout.words()), (2, 3));
/// let mut key = vec![0; layout.words()];
/// layout.set(&mut key, standard::IP_DST, 0x0a00_0001);
/// assert_eq!(layout.get(&key, standard::IP_DST), Some(0x0a00_0001));
/// assert_eq!(layout.get(&key, standard::TP_DST), None); // not part of this program
/// # Ok::<(), thalweg_packet::LayoutTooWide>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    fields: Arc<Vec<FieldDescriptor>>,
    slots: Vec<Option<Slot>>,
    /// The fields that have a slot, in the order of their ids.
    used: Vec<FieldId>,
    ingress_words: usize,
    stages: Vec<Stage>,
    extraction: Extraction,
}

impl Layout {
    /// Packs the fields `used` of a catalogue into words.
    ///
    /// # Errors
    /// If they need more than [`MAX_WORDS`].
    ///
    /// # Panics
    /// If `used` names a field that the catalogue does not have.
    pub fn new(
        fields: Arc<Vec<FieldDescriptor>>,
        used: &BTreeSet<FieldId>,
    ) -> Result<Layout, LayoutTooWide> {
        let mut packing = Packing {
            slots: vec![None; fields.len()],
            stages: Vec::new(),
        };
        let stages = [
            Stage::Metadata,
            Stage::Link,
            Stage::Network,
            Stage::Transport,
        ];
        for stage in stages {
            packing.pack(&fields, stage, used, |field| {
                field.is_ingress() && field.stage == stage
            });
        }
        let ingress_words = packing.stages.len();
        packing.pack(&fields, Stage::Metadata, used, |field| !field.is_ingress());
        if packing.stages.len() > MAX_WORDS {
            return Err(LayoutTooWide {
                words: packing.stages.len(),
            });
        }
        let extraction = Extraction::new(&fields, &packing.slots);
        Ok(Layout {
            fields,
            slots: packing.slots,
            used: used.iter().copied().collect(),
            ingress_words,
            stages: packing.stages,
            extraction,
        })
    }

    /// Words of a cache's key: those that hold ingress fields.
    #[inline]
    pub fn ingress_words(&self) -> usize {
        self.ingress_words
    }

    /// Words of the whole state: ingress fields, then registers.
    #[inline]
    pub fn words(&self) -> usize {
        self.stages.len()
    }

    /// The stage of the fields in word `word`.
    pub fn stage_of_word(&self, word: usize) -> Stage {
        self.stages[word]
    }

    /// Where a field lies, if the program uses it.
    #[inline]
    pub fn slot(&self, field: FieldId) -> Option<Slot> {
        self.slots[field.index()]
    }

    /// The catalogue that the layout was made from.
    pub fn catalogue(&self) -> &Arc<Vec<FieldDescriptor>> {
        &self.fields
    }

    /// The descriptor of a field.
    pub fn descriptor(&self, field: FieldId) -> &FieldDescriptor {
        &self.fields[field.index()]
    }

    /// The fields of the layout, in the order of the catalogue.
    pub fn used(&self) -> &[FieldId] {
        &self.used
    }

    /// A field's value in a key (or its bits in a mask); `None` if the program does not use it.
    ///
    /// # Panics
    /// If the field is wider than 128 bits.
    pub fn get(&self, words: &[u64], field: FieldId) -> Option<u128> {
        let slot = self.slot(field)?;
        assert!(
            slot.width_bits <= 128,
            "fields wider than 128 bits are read word by word"
        );
        let start = usize::from(slot.word);
        if slot.width_bits <= 64 {
            return Some(u128::from(
                words[start] >> slot.shift & ones(slot.width_bits),
            ));
        }
        Some(u128::from(words[start]) << 64 | u128::from(words[start + 1]))
    }

    /// Sets a field in a key or a mask; does nothing if the program does not use it.
    ///
    /// # Panics
    /// If the field is wider than 128 bits, or the value wider than the field.
    pub fn set(&self, words: &mut [u64], field: FieldId, value: u128) {
        let Some(slot) = self.slot(field) else { return };
        assert!(
            slot.width_bits <= 128,
            "fields wider than 128 bits are written word by word"
        );
        let is_in_range = slot.width_bits == 128 || value >> slot.width_bits == 0;
        assert!(is_in_range, "value wider than its field");
        let start = usize::from(slot.word);
        if slot.width_bits <= 64 {
            let word = &mut words[start];
            *word = *word & !(ones(slot.width_bits) << slot.shift) | (value as u64) << slot.shift;
        } else {
            words[start] = (value >> 64) as u64;
            words[start + 1] = value as u64;
        }
    }

    /// The fields of which `mask` has any bit, with those bits.
    pub fn fields_in<'a>(&'a self, mask: &'a [u64]) -> impl Iterator<Item = (FieldId, u128)> + 'a {
        self.used.iter().filter_map(move |&field| {
            let slot = self.slot(field)?;
            let is_covered = usize::from(slot.word) + slot.word_count() <= mask.len();
            let bits = if is_covered {
                self.get(mask, field)?
            } else {
                0
            };
            (bits != 0).then_some((field, bits))
        })
    }

    /// Fills the ingress words of `key` from a packet.
    ///
    /// # Panics
    /// If `key` has fewer words than [`Layout::ingress_words`], or `headers` are not those of
    /// `frame`.
    #[inline]
    pub fn extract(&self, frame: &[u8], headers: &Headers, receipt: &Receipt<'_>, key: &mut [u64]) {
        self.extraction
            .run(frame, headers, receipt, &mut key[..self.ingress_words]);
    }
}

/// Faster extraction for many packets.
impl Layout {
    /// As [`Layout::extract`], and faster for packets that look like earlier ones.
    ///
    /// Words of `key` behind the ingress words become zero.
    ///
    /// # Panics
    /// As [`Layout::extract`]. `shapes` must belong to this layout: with those of another the
    /// key is wrong, but nothing worse happens.
    #[inline]
    pub fn extract_like<const W: usize>(
        &self,
        shapes: &mut Shapes<W>,
        frame: &[u8],
        headers: &Headers,
        receipt: &Receipt<'_>,
        key: &mut [u64; W],
    ) {
        let packet = (frame, headers, receipt);
        shapes.extract(&self.extraction, self.ingress_words, packet, key);
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        self.slots == other.slots && self.fields == other.fields
    }
}

/// The words of a layout while fields are placed in them.
struct Packing {
    slots: Vec<Option<Slot>>,
    stages: Vec<Stage>,
}

impl Packing {
    /// Places the fields for which `is_chosen` holds, widest first, each in the first word
    /// with room.
    fn pack(
        &mut self,
        fields: &[FieldDescriptor],
        stage: Stage,
        used: &BTreeSet<FieldId>,
        is_chosen: impl Fn(&FieldDescriptor) -> bool,
    ) {
        let chosen = used
            .iter()
            .copied()
            .filter(|id| is_chosen(&fields[id.index()]));
        let mut chosen: Vec<FieldId> = chosen.collect();
        chosen.sort_by_key(|id| (std::cmp::Reverse(fields[id.index()].width_bits), *id));
        // Bits still free at the bottom of each open word. Fields fill a word from the top, so
        // that neighbours on the wire can be neighbours in the key.
        let mut open: Vec<(u16, u16)> = Vec::new();
        for id in chosen {
            let width_bits = fields[id.index()].width_bits;
            if width_bits > 64 {
                let word = self.add_words(stage, usize::from(width_bits).div_ceil(64));
                self.slots[id.index()] = Some(Slot {
                    word,
                    shift: 0,
                    width_bits,
                });
                continue;
            }
            let place = match open.iter().position(|&(_, free)| free >= width_bits) {
                Some(place) => place,
                None => {
                    open.push((self.add_words(stage, 1), 64));
                    open.len() - 1
                }
            };
            let (word, free) = &mut open[place];
            *free -= width_bits;
            self.slots[id.index()] = Some(Slot {
                word: *word,
                shift: *free as u8,
                width_bits,
            });
        }
    }

    fn add_words(&mut self, stage: Stage, count: usize) -> u16 {
        let first = self.stages.len() as u16;
        self.stages.extend(std::iter::repeat_n(stage, count));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standard as f;

    fn layout(used: &[FieldId]) -> Layout {
        Layout::new(Arc::new(f::fields()), &used.iter().copied().collect()).expect("fits")
    }

    #[test]
    fn the_ofdpa_pipeline_fits_a_cache_line() {
        let used = [
            f::IN_PORT,
            f::ETH_DST,
            f::ETH_SRC,
            f::ETH_TYPE,
            f::VLAN_TCI,
            f::IP_SRC,
            f::IP_DST,
            f::IP_PROTO,
            f::IP_DSCP,
            f::IP_TTL,
            f::IP_FRAG,
            f::TP_SRC,
            f::TP_DST,
            f::ICMP_TYPE,
            f::ICMP_CODE,
            f::ARP_SPA,
            f::PRESENT_IPV4,
            f::METADATA,
            f::REG0,
        ];
        let layout = layout(&used);
        assert!(
            layout.ingress_words() <= 8,
            "{} words",
            layout.ingress_words()
        );
        assert_eq!(layout.words(), layout.ingress_words() + 2);
    }

    #[test]
    fn every_field_has_bits_of_its_own() {
        let options = (0..4).map(f::tunnel_option_field);
        let all: Vec<FieldId> = f::all_but_options().chain(options).collect();
        let layout = layout(&all);
        let mut taken = vec![0u64; layout.words()];
        for &field in &all {
            let slot = layout.slot(field).expect("used");
            for bit in 0..slot.width_bits {
                let (word, shift) = slot.position(bit);
                assert_eq!(taken[word] >> shift & 1, 0, "{field:?} shares a bit");
                taken[word] |= 1 << shift;
            }
            let mut key = vec![0; layout.words()];
            let ones = if slot.width_bits == 128 {
                u128::MAX
            } else {
                (1 << slot.width_bits) - 1
            };
            layout.set(&mut key, field, ones);
            assert_eq!(layout.get(&key, field), Some(ones));
            assert_eq!(layout.fields_in(&key).collect::<Vec<_>>(), [(field, ones)]);
        }
    }

    #[test]
    fn stages_come_in_order_and_registers_last() {
        let layout = layout(&[f::TP_DST, f::REG3, f::IP_DST, f::ETH_SRC, f::IN_PORT]);
        let stages: Vec<Stage> = (0..layout.words())
            .map(|word| layout.stage_of_word(word))
            .collect();
        use Stage::{Link, Metadata, Network, Transport};
        assert_eq!(stages, [Metadata, Link, Network, Transport, Metadata]);
        assert_eq!(layout.ingress_words(), 4);
    }
}
