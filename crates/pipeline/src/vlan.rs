//! The VLANs of ports, as Open vSwitch's database says them (`ovs-vswitchd.conf.db(5)`, "Port
//! TABLE", "VLAN Configuration").
//!
//! Only `normal` follows them. A packet is in one VLAN of its bridge, whatever tags it came
//! with: its port says which, and which tags it has when it leaves a port
//! (`crate::interpret`). A port that nothing is set for carries all VLANs and leaves tags as
//! they are.
//!
//! 1. A set of all VLANs has one form, so that equal sets are equal values.
//! 2. A port that is both is told from one that is not by every action that sends
//!    ([`PortVlans::is_protected`]).

use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::PortId;

use crate::bridge::BridgeId;
use crate::check::form::TAG_TYPES;
use crate::pipeline::Pipeline;

/// How many VLAN ids there are (IEEE 802.1Q, clause 9.6).
pub(crate) const VLANS: u16 = 4096;

const WORDS: usize = VLANS as usize / 64;

/// A set of VLANs.
///
/// ```
/// use thalweg_pipeline::VlanSet;
///
/// let set = VlanSet::of([10, 12]);
/// assert!(set.contains(10) && !set.contains(11));
/// assert!(VlanSet::ALL.contains(11));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct VlanSet(Option<Arc<[u64; WORDS]>>);

impl VlanSet {
    /// All VLANs.
    pub const ALL: VlanSet = VlanSet(None);

    /// These VLANs; numbers above 4095 are left out.
    pub fn of(vlans: impl IntoIterator<Item = u16>) -> VlanSet {
        let mut words = [0; WORDS];
        for vlan in vlans.into_iter().filter(|vlan| *vlan < VLANS) {
            words[usize::from(vlan) / 64] |= 1 << (vlan % 64);
        }
        // Invariant 1.
        match words == [u64::MAX; WORDS] {
            true => VlanSet::ALL,
            false => VlanSet(Some(Arc::new(words))),
        }
    }

    /// Whether a VLAN is in the set.
    pub fn contains(&self, vlan: u16) -> bool {
        vlan < VLANS
            && self
                .0
                .as_ref()
                .is_none_or(|words| words[usize::from(vlan) / 64] >> (vlan % 64) & 1 == 1)
    }

    /// Whether all VLANs are in it.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// The VLANs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..VLANS).filter(|vlan| self.contains(*vlan))
    }
}

impl std::fmt::Debug for VlanSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_all() {
            true => f.write_str("ALL"),
            false => f.debug_set().entries(self.iter()).finish(),
        }
    }
}

/// Which VLANs a port carries, and how its packets are tagged (`vlan_mode`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum VlanMode {
    /// One VLAN, without tags (`access`).
    Access {
        /// The VLAN.
        tag: u16,
    },
    /// Many VLANs, with tags; VLAN 0 without (`trunk`).
    Trunk {
        /// The VLANs.
        trunks: VlanSet,
    },
    /// As a trunk; packets without a tag are in the native VLAN and leave with a tag
    /// (`native-tagged`).
    NativeTagged {
        /// The native VLAN; the port carries it in any case.
        tag: u16,
        /// The others.
        trunks: VlanSet,
    },
    /// The same, but packets of the native VLAN leave without a tag (`native-untagged`).
    NativeUntagged {
        /// The native VLAN; the port carries it in any case.
        tag: u16,
        /// The others.
        trunks: VlanSet,
    },
    /// One VLAN, whose packets keep their own tags below a tag of the bridge
    /// (`dot1q-tunnel`).
    Tunnel {
        /// The VLAN.
        tag: u16,
        /// The VLANs that the port's packets may have themselves (`cvlans`).
        customers: VlanSet,
        /// EtherType of the bridge's tag, 0x8100 or 0x88a8 (`qinq-ethtype`).
        tpid: u16,
    },
}

/// When a packet without a VLAN leaves with a tag for its priority
/// (`other_config:priority-tags`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PriorityTags {
    /// A tag with VLAN 0 and priority 0 is taken off.
    Never,
    /// The same; and a tag that is taken off leaves its priority, unless that is 0.
    IfNonzero,
    /// As above, but a tag with VLAN 0 and priority 0 stays.
    #[default]
    Always,
}

/// A port's settings besides its state. By default, it carries all VLANs, and packets leave
/// with the tags that they came with.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct PortVlans {
    /// The VLANs.
    pub mode: VlanMode,
    /// What becomes of priorities. Open vSwitch's default is [`PriorityTags::Never`], that of
    /// this type is to leave tags as they are.
    pub priority_tags: PriorityTags,
    /// Whether nothing is sent from here to other protected ports, by whatever action.
    pub is_protected: bool,
}

impl Default for VlanMode {
    fn default() -> VlanMode {
        VlanMode::Trunk {
            trunks: VlanSet::ALL,
        }
    }
}

/// The settings of ports without settings of their own.
pub(crate) static USUAL: PortVlans = PortVlans {
    mode: VlanMode::Trunk {
        trunks: VlanSet::ALL,
    },
    priority_tags: PriorityTags::Always,
    is_protected: false,
};

impl PortVlans {
    /// The first fault, if there is one.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let tag = match &self.mode {
            VlanMode::Trunk { .. } => 0,
            VlanMode::Access { tag }
            | VlanMode::NativeTagged { tag, .. }
            | VlanMode::NativeUntagged { tag, .. }
            | VlanMode::Tunnel { tag, .. } => *tag,
        };
        let has_wrong_type = matches!(
            &self.mode,
            VlanMode::Tunnel { tpid, .. } if !TAG_TYPES.contains(tpid)
        );
        match tag < VLANS {
            false => Some("a port's VLAN is at most 4095"),
            true if has_wrong_type => Some("a tunnel's tags have the EtherType 0x8100 or 0x88a8"),
            true => None,
        }
    }

    /// Whether the port does more with tags than to let packets of some VLANs pass.
    pub(crate) fn edits_tags(&self) -> bool {
        !matches!(self.mode, VlanMode::Trunk { .. }) || self.priority_tags != PriorityTags::Always
    }

    /// Whether the port carries not all VLANs, or is not a trunk.
    pub(crate) fn limits(&self) -> bool {
        !matches!(&self.mode, VlanMode::Trunk { trunks } if trunks.is_all())
    }

    /// Whether packets of a VLAN of the bridge may leave here, whatever tags they have below.
    ///
    /// A port with a native VLAN carries it, and no VLAN 0 beside it, whatever `trunks` says
    /// (`bundle_set` in Open vSwitch).
    pub(crate) fn carries(&self, vlan: u16) -> bool {
        match &self.mode {
            VlanMode::Access { tag } | VlanMode::Tunnel { tag, .. } => *tag == vlan,
            VlanMode::Trunk { trunks } => trunks.contains(vlan),
            VlanMode::NativeTagged { tag, trunks } | VlanMode::NativeUntagged { tag, trunks } => {
                match *tag {
                    0 => trunks.contains(vlan),
                    tag => vlan == tag || vlan != 0 && trunks.contains(vlan),
                }
            }
        }
    }

    /// Whether packets may come in with this VLAN id; 0 without a tag
    /// (`input_vid_is_valid`).
    pub(crate) fn admits(&self, vlan: u16) -> bool {
        match &self.mode {
            VlanMode::Access { .. } => vlan == 0,
            VlanMode::Tunnel { customers, .. } => customers.contains(vlan),
            VlanMode::Trunk { .. } => self.carries(vlan),
            VlanMode::NativeTagged { .. } | VlanMode::NativeUntagged { .. } => {
                vlan == 0 || self.carries(vlan)
            }
        }
    }
}

impl Pipeline {
    /// A port's settings besides its state, at a version.
    pub fn port_vlans(&self, port: PortId, version: Version) -> &PortVlans {
        let set = self.vlans.get(&port);
        let set = set.and_then(|history| history.at(version));
        set.map_or(&USUAL, |vlans| vlans)
    }

    /// Whether a bridge forwards packets to the addresses that are reserved for the link
    /// (`other_config:forward-bpdu`), at a version.
    pub fn forwards_bpdus(&self, bridge: BridgeId, version: Version) -> bool {
        let bpdus = self.bpdus.get(&bridge);
        let bpdus = bpdus.and_then(|history| history.at(version));
        bpdus.is_some()
    }
}
