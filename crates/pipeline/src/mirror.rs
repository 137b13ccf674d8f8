//! Mirrors: copies of a bridge's packets for an observer, as Open vSwitch's database specifies
//! them (`ovs-vswitchd.conf.db(5)`, "Mirror TABLE").
//!
//! A mirror selects packets by the port that they come in or leave by, and by VLAN, and sends
//! them to a port, which then is for mirrored packets only, or to all ports of a VLAN.
//!
//! 1. Of mirrors with the same output, only one gets a packet, in one walk and its frozen rest.
//! 2. Packets that come in by an output port are not forwarded, `normal` sends only mirrored
//!    packets there, and no station is learned or sought there.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::PortId;

use crate::bridge::BridgeId;
use crate::pipeline::{Counters, Pipeline};
use crate::vlan::{VLANS, VlanSet};

/// Most mirrors of a bridge (Open vSwitch's `MAX_MIRRORS`).
pub(crate) const MAX_MIRRORS: usize = 32;

/// The number by which a mirror's packets are counted; the owner chooses it.
///
/// Mirrors of one number count together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MirrorId(pub u32);

/// The ports whose packets a mirror selects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MirroredPorts {
    /// All of the bridge (`select_all`).
    All,
    /// These.
    These(BTreeSet<PortId>),
}

impl MirroredPorts {
    /// No port.
    pub const NONE: MirroredPorts = MirroredPorts::These(BTreeSet::new());

    fn contain(&self, port: PortId) -> bool {
        match self {
            MirroredPorts::All => true,
            MirroredPorts::These(ports) => ports.contains(&port),
        }
    }

    fn in_bridge(&self, bridge: BridgeId) -> MirroredPorts {
        match self {
            MirroredPorts::All => MirroredPorts::All,
            MirroredPorts::These(ports) => {
                let moved = ports.iter().map(|port| bridge.port(port.0 as u16));
                MirroredPorts::These(moved.collect())
            }
        }
    }
}

/// Where a mirror's packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MirrorOutput {
    /// To a port, which is for mirrored packets only (`output_port`).
    Port(PortId),
    /// To all ports that carry a VLAN, 1 to 4095, as packets of that VLAN (`output_vlan`).
    Vlan(u16),
}

/// A mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BridgeMirror {
    /// The number by which its packets are counted.
    pub id: MirrorId,
    /// Selects packets that come in by these ports (`select_src_port`).
    pub sources: MirroredPorts,
    /// Selects packets that leave by these ports (`select_dst_port`).
    pub destinations: MirroredPorts,
    /// Selects packets of these VLANs only (`select_vlan`).
    pub vlans: VlanSet,
    /// Where selected packets go.
    pub output: MirrorOutput,
    /// Most bytes of each that are sent; `None` for all (`snaplen`).
    pub snaplen_bytes: Option<u16>,
}

/// The mirrors of a bridge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mirrors(Vec<BridgeMirror>);

impl Mirrors {
    /// These mirrors; a change refuses more than 32.
    pub fn new(mirrors: Vec<BridgeMirror>) -> Mirrors {
        Mirrors(mirrors)
    }

    /// The mirrors, in the order in which they get a packet.
    pub fn iter(&self) -> impl Iterator<Item = &BridgeMirror> {
        self.0.iter()
    }

    /// The first fault, if there is one.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let has_no_vlan = |mirror: &BridgeMirror| match mirror.output {
            MirrorOutput::Vlan(vlan) => !(1..VLANS).contains(&vlan),
            MirrorOutput::Port(_) => false,
        };
        if self.0.len() > MAX_MIRRORS {
            Some("a bridge has at most 32 mirrors; leave some out")
        } else if self.iter().any(has_no_vlan) {
            Some("a mirror's output is a VLAN from 1 to 4095")
        } else {
            None
        }
    }

    /// The same mirrors in another bridge.
    pub(crate) fn in_bridge(&self, bridge: BridgeId) -> Mirrors {
        let moved = self.iter().map(|mirror| BridgeMirror {
            sources: mirror.sources.in_bridge(bridge),
            destinations: mirror.destinations.in_bridge(bridge),
            output: match mirror.output {
                MirrorOutput::Port(port) => MirrorOutput::Port(bridge.port(port.0 as u16)),
                output => output,
            },
            ..mirror.clone()
        });
        Mirrors(moved.collect())
    }

    /// Whether a port is for mirrored packets only.
    pub(crate) fn have_output(&self, port: PortId) -> bool {
        let output = MirrorOutput::Port(port);
        self.iter().any(|mirror| mirror.output == output)
    }

    /// One bit for each mirror that selects packets which come in by a port, or leave by it.
    pub(crate) fn selecting(&self, port: PortId, leaves: bool) -> u32 {
        self.bits(|mirror| match leaves {
            true => mirror.destinations.contain(port),
            false => mirror.sources.contain(port),
        })
    }

    /// One bit for each mirror with the output of this one.
    pub(crate) fn with_output_of(&self, mirror: usize) -> u32 {
        let output = self.0[mirror].output;
        self.bits(|other| other.output == output)
    }

    /// The mirror that a bit stands for.
    pub(crate) fn get(&self, mirror: usize) -> &BridgeMirror {
        &self.0[mirror]
    }

    fn bits(&self, is_such: impl Fn(&BridgeMirror) -> bool) -> u32 {
        let numbered = self.iter().enumerate();
        let such = numbered.filter(|(_, mirror)| is_such(mirror));
        such.fold(0, |bits, (number, _)| bits | 1 << number)
    }
}

impl Pipeline {
    /// The mirrors of a bridge, at a version; `None` without any.
    pub fn mirrors(&self, bridge: BridgeId, version: Version) -> Option<&Arc<Mirrors>> {
        self.mirrors.get(&bridge)?.at(version)
    }

    /// Credits packets to a mirror.
    pub fn credit_mirror(&mut self, mirror: MirrorId, counters: Counters) {
        self.mirror_counters
            .entry(mirror)
            .or_default()
            .add(counters);
    }

    /// What a mirror was sent, with the length of packets before they were cut.
    pub fn mirror_counters(&self, mirror: MirrorId) -> Counters {
        self.mirror_counters
            .get(&mirror)
            .copied()
            .unwrap_or_default()
    }

    /// Forgets what other mirrors than these have counted.
    pub fn retain_mirror_counters(&mut self, mirrors: &BTreeSet<MirrorId>) {
        self.mirror_counters
            .retain(|mirror, _| mirrors.contains(mirror));
    }
}
