//! What a bridge's tables see of fragments of IP packets.
//!
//! Only the first fragment of a packet has a transport header. A rule about ports would treat
//! it in another way than the later ones, so by default tables see no fragment's ports, as in
//! OpenFlow (`OFPC_FRAG_*`) and Open vSwitch (`rule_dpif_lookup_from_table`). Only lookups are
//! meant: the packet keeps its ports, and actions read and write them.
//!
//! 1. While a bridge drops fragments, or a rule is about ports, the key has `ip_frag`. So each
//!    lookup can ask whether the packet is a fragment. If it is, the walk depends on the mode
//!    of the table's bridge ([`crate::Input::Fragments`]); if not, on no bridge's.

use thalweg_classifier::Version;
use thalweg_packet::{FieldId, Layout, standard as f};

use crate::bridge::BridgeId;
use crate::matching::Match;
use crate::pipeline::Pipeline;

/// What the tables of a bridge do with fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FragmentMode {
    /// Look them up without ports: these are zero.
    #[default]
    Normal,
    /// Drop them.
    Drop,
    /// Look them up as they are: first fragments with their ports (Open vSwitch's `nx-match`).
    NxMatch,
}

impl FragmentMode {
    /// The mode's name in `ovs-ofctl set-frags`.
    pub fn name(self) -> &'static str {
        match self {
            FragmentMode::Normal => "normal",
            FragmentMode::Drop => "drop",
            FragmentMode::NxMatch => "nx-match",
        }
    }
}

/// The fields that are zero in lookups of fragments. In Open vSwitch's keys, type and code of
/// ICMP are ports.
pub(crate) const HIDDEN_FIELDS: [(FieldId, u16); 4] = [
    (f::TP_SRC, 16),
    (f::TP_DST, 16),
    (f::ICMP_TYPE, 8),
    (f::ICMP_CODE, 8),
];

/// Whether a fragment's ports decide if the conditions hold.
pub(crate) fn is_about_ports(matching: &Match) -> bool {
    let mut hidden = HIDDEN_FIELDS.iter();
    hidden.any(|(field, _)| matching.term(*field).is_some())
}

/// The word of a key in this layout, and the bits in it that are not zero if the packet is a
/// fragment; `None` if no lookup depends on it. The layout is the pipeline's or has more
/// fields.
#[inline]
pub(crate) fn fragment_bits(pipeline: &Pipeline, layout: &Layout) -> Option<(usize, u64)> {
    pipeline.layout().slot(f::IP_FRAG)?;
    let slot = layout.slot(f::IP_FRAG)?;
    let (word, shift) = slot.position(0);
    Some((word, ((1 << slot.width_bits) - 1) << shift))
}

impl Pipeline {
    /// What a bridge does with fragments, at a version.
    pub fn fragment_mode(&self, bridge: BridgeId, version: Version) -> FragmentMode {
        let known = self.fragments.get(&bridge);
        let mode = known.and_then(|history| history.at(version));
        mode.copied().unwrap_or_default()
    }

    /// Turns keys into what the tables of a bridge see, for [`Pipeline::lookup_batch`]. Calls
    /// `drop` with the place of each packet that they drop without a lookup.
    pub fn show_to_tables(
        &self,
        bridge: BridgeId,
        keys: &mut [u64],
        version: Version,
        mut drop: impl FnMut(usize),
    ) {
        let layout = self.layout();
        let Some((word, bits)) = fragment_bits(self, layout) else {
            return;
        };
        for (place, key) in keys.chunks_exact_mut(layout.words()).enumerate() {
            if key[word] & bits == 0 {
                continue;
            }
            match self.fragment_mode(bridge, version) {
                FragmentMode::Normal => {
                    for (field, _) in HIDDEN_FIELDS {
                        layout.set(key, field, 0);
                    }
                }
                FragmentMode::Drop => drop(place),
                FragmentMode::NxMatch => {}
            }
        }
    }
}
