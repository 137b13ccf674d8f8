//! Random VLANs of ports, mostly those that random packets are in, and random mirrors.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use thalweg_packet::PortId;
use thalweg_pipeline::{
    BridgeMirror, MirrorId, MirrorOutput, MirroredPorts, Mirrors, PortVlans, PriorityTags,
    VlanMode, VlanSet,
};

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

/// Up to three mirrors; the output of some is a port that does not exist.
pub(crate) fn any_mirrors(random: &mut Pcg64Mcg) -> Mirrors {
    let count = random.random_range(0..=3);
    Mirrors::new((0..count).map(|_| any_mirror(random)).collect())
}

fn any_mirror(random: &mut Pcg64Mcg) -> BridgeMirror {
    BridgeMirror {
        id: MirrorId(random.random_range(0..3)),
        sources: any_ports(random),
        destinations: any_ports(random),
        vlans: match random.random_ratio(1, 3) {
            true => VlanSet::of([0, 100]),
            false => VlanSet::ALL,
        },
        output: match random.random_ratio(1, 2) {
            true => MirrorOutput::Port(PortId(random.random_range(1..=5))),
            false => MirrorOutput::Vlan(100),
        },
        snaplen_bytes: random.random_ratio(1, 3).then_some(20),
    }
}

fn any_ports(random: &mut Pcg64Mcg) -> MirroredPorts {
    if random.random_ratio(1, 3) {
        return MirroredPorts::All;
    }
    let ports = (1..=4).filter(|_| random.random_ratio(1, 3));
    MirroredPorts::These(ports.map(PortId).collect())
}
