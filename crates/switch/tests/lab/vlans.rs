//! Random VLANs of ports, mostly those that random packets are in.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use thalweg_pipeline::{PortVlans, PriorityTags, VlanMode, VlanSet};

pub(crate) fn any_vlans(random: &mut Pcg64Mcg) -> PortVlans {
    const TAGS: [u16; 5] = [0, 1, 2, 100, 4095];
    let mut tag = || TAGS[random.random_range(0..TAGS.len())];
    let (tag, trunk) = (tag(), tag());
    let trunks = match random.random_ratio(1, 2) {
        true => VlanSet::ALL,
        false => VlanSet::of([0, 2, trunk]),
    };
    let mode = match random.random_range(0..7) {
        0 => VlanMode::Access { tag },
        1 => VlanMode::NativeTagged { tag, trunks },
        2 => VlanMode::NativeUntagged { tag, trunks },
        3 => VlanMode::Tunnel {
            tag,
            customers: trunks,
            tpid: 0x88a8,
        },
        _ => VlanMode::Trunk { trunks },
    };
    let tags = [
        PriorityTags::Never,
        PriorityTags::IfNonzero,
        PriorityTags::Always,
    ];
    PortVlans {
        mode,
        priority_tags: tags[random.random_range(0..tags.len())],
        is_protected: random.random_ratio(1, 4),
    }
}
