//! A learning switch with VLANs, on lists of tags.
//!
//! The packet inside the bridge is a list of tags whose first is the bridge's own; a port
//! takes tags off it and puts tags on. Written from the manual of Open vSwitch's database,
//! without the pipeline's notions.

use std::collections::BTreeMap;

use thalweg_pipeline::{PortVlans, PriorityTags, VlanMode, VlanSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    pub(crate) tpid: u16,
    pub(crate) vlan: u16,
    pub(crate) priority: u16,
}

impl Tag {
    pub(crate) fn new(tpid: u16, vlan: u16, priority: u16) -> Tag {
        Tag {
            tpid,
            vlan,
            priority,
        }
    }
}

pub(crate) type Tags = Vec<Tag>;

#[derive(Default)]
pub(crate) struct Expected {
    pub(crate) sent: Vec<(u32, Tags)>,
    pub(crate) learned: Vec<u16>,
}

/// A packet inside the bridge.
struct Frame {
    /// The bridge's own tag; its EtherType is that of the tag that says the VLAN.
    own: Tag,
    /// Whether a tag says the VLAN, or only the port.
    has_own: bool,
    /// The tags below.
    below: Tags,
    /// Whether ports look at the tags below.
    shows_below: bool,
    received: Tags,
}

/// What leaves for a packet from a port; `known` is the VLAN and the port of its destination.
pub(crate) fn sent(
    ports: &BTreeMap<u32, PortVlans>,
    from: u32,
    tags: &[Tag],
    known: Option<(u16, u32)>,
) -> Expected {
    let Some(frame) = receive(&ports[&from], tags) else {
        return Expected::default();
    };
    let goes = |to: &u32| {
        let is_apart = ports[to].is_protected && ports[&from].is_protected;
        *to != from && !is_apart
    };
    let leaves = |to: u32| {
        (
            to,
            leave(&ports[&to].mode, ports[&to].priority_tags, &frame),
        )
    };
    let to = known.filter(|(vlan, to)| {
        *vlan == frame.own.vlan
            && (*to == from
                || ports
                    .get(to)
                    .is_none_or(|port| is_of_vlan(&port.mode, *vlan)))
    });
    let sent = match to {
        Some((_, to)) if !ports.contains_key(&to) => vec![],
        Some((_, to)) => Some(to).filter(goes).map(leaves).into_iter().collect(),
        None => {
            let ports = ports.iter();
            let ports = ports.filter(|(to, port)| goes(to) && is_flooded(&port.mode, &frame));
            ports.map(|(to, _)| leaves(*to)).collect()
        }
    };
    Expected {
        sent,
        learned: vec![frame.own.vlan],
    }
}

/// The packet inside the bridge, or none if the port does not take it.
fn receive(port: &PortVlans, tags: &[Tag]) -> Option<Frame> {
    let untagged = Tag::new(0x8100, 0, 0);
    let first = tags.first().copied().unwrap_or(untagged);
    let rest = || tags.iter().skip(1).copied().collect::<Tags>();
    let frame = |vlan, has_own, shows_below| Frame {
        own: Tag { vlan, ..first },
        has_own,
        below: rest(),
        shows_below,
        received: tags.to_vec(),
    };
    let is_tagged = !tags.is_empty();
    match &port.mode {
        VlanMode::Access { tag } => (first.vlan == 0).then(|| frame(*tag, true, false)),
        VlanMode::Trunk { .. } => {
            is_of_vlan(&port.mode, first.vlan).then(|| frame(first.vlan, is_tagged, true))
        }
        VlanMode::NativeTagged { tag, .. } | VlanMode::NativeUntagged { tag, .. } => {
            match first.vlan {
                0 => Some(frame(*tag, true, true)),
                vlan => is_of_vlan(&port.mode, vlan).then(|| frame(vlan, is_tagged, true)),
            }
        }
        VlanMode::Tunnel {
            tag,
            customers,
            tpid,
        } => customers.contains(first.vlan).then(|| Frame {
            own: Tag::new(*tpid, *tag, 0),
            has_own: true,
            below: tags.to_vec(),
            shows_below: true,
            received: tags.to_vec(),
        }),
    }
}

fn with_native(tag: u16, trunks: &VlanSet) -> Vec<u16> {
    let vlans = trunks.iter();
    match tag {
        0 => vlans.collect(),
        tag => vlans.filter(|vlan| *vlan != 0).chain([tag]).collect(),
    }
}

fn is_of_vlan(mode: &VlanMode, vlan: u16) -> bool {
    match mode {
        VlanMode::Access { tag } | VlanMode::Tunnel { tag, .. } => *tag == vlan,
        VlanMode::Trunk { trunks } => trunks.iter().any(|trunk| trunk == vlan),
        VlanMode::NativeTagged { tag, trunks } | VlanMode::NativeUntagged { tag, trunks } => {
            with_native(*tag, trunks).contains(&vlan)
        }
    }
}

fn is_flooded(mode: &VlanMode, frame: &Frame) -> bool {
    let below = frame.below.first().filter(|_| frame.shows_below);
    let customer = below.map_or(0, |tag| tag.vlan);
    is_of_vlan(mode, frame.own.vlan)
        && match mode {
            VlanMode::Access { .. } => customer == 0,
            VlanMode::Tunnel { customers, .. } => customers.contains(customer),
            _ => true,
        }
}

fn leave(mode: &VlanMode, priority_tags: PriorityTags, frame: &Frame) -> Tags {
    let priority = frame.received.first().map_or(0, |tag| tag.priority);
    let keeps = priority_tags != PriorityTags::Never;
    let takes_own_off = match mode {
        VlanMode::Access { .. } => true,
        VlanMode::Tunnel { .. } => true,
        VlanMode::NativeUntagged { tag, .. } => *tag == frame.own.vlan,
        VlanMode::Trunk { .. } | VlanMode::NativeTagged { .. } => false,
    };
    let takes_all_off =
        matches!(mode, VlanMode::Access { .. }) || takes_own_off && !frame.shows_below;
    // The bridge knows two tags of a packet.
    let unknown = frame.received.iter().skip(2).copied();
    let mut tags: Tags = match (takes_all_off, takes_own_off) {
        (true, _) => unknown.collect(),
        (false, true) => frame.below.clone(),
        (false, false) => {
            let own = frame.has_own.then_some(frame.own);
            own.into_iter().chain(frame.below.iter().copied()).collect()
        }
    };
    let known = if takes_all_off { 0 } else { tags.len().min(2) };
    match known {
        0 if keeps && takes_own_off && priority != 0 => {
            tags.insert(0, Tag::new(0x8100, 0, priority));
        }
        0 => {}
        _ => {
            if keeps {
                tags[0].priority = priority;
            }
            let says_nothing = tags[0].vlan == 0 && tags[0].priority == 0;
            if says_nothing && priority_tags != PriorityTags::Always {
                tags.remove(0);
            }
        }
    }
    tags
}
