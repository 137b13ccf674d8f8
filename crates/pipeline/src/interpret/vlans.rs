//! The VLAN of a packet that `normal` forwards, and its tags at each port.
//!
//! ```text
//!   come_in:  the tags it came with, its port  -> the VLAN it is in, or none that is admitted
//!   is_carried:  a port                        -> whether floods of the VLAN go there
//!   send_in_vlan:  a port                      -> a copy with that port's tags
//! ```
//!
//! Inside a bridge, Open vSwitch gives every packet an outer tag and writes the tags of the
//! port when it sends (`xvlan_input_translate`, `xvlan_output_translate`). Here the packet
//! keeps the tags that it came with, [`Inside`] says what its outer tag would be, and
//! [`TagEdits`] leads from the one to the other, so that a packet that leaves as it came costs
//! nothing.
//!
//! 1. Only what decides is read: the priority where a tag is put on or taken off, and the
//!    second tag where a port asks for it.
//! 2. What a copy's edits do to the walk's state is undone behind it, as with a clone.

use thalweg_packet::{PortId, standard as f};

use super::DropReason;
use super::MAX_COPIES;
use super::observer::{Observer, Sight};
use super::walk::{Walk, trim};
use crate::effect::Effect;
use crate::flow::PortState;
use crate::trace::Input;
use crate::vlan::{PortVlans, PriorityTags, VlanMode};

const CUSTOMER_TAG: u16 = 0x8100;

/// Where a packet's VLAN is, against the tags that it came with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outer {
    /// In its outer tag; VLAN 0 without a tag.
    Received,
    /// In its outer tag, where it takes the place of VLAN 0. An access port hides the second
    /// tag.
    Named { hides_second: bool },
    /// In a tag that it came without.
    Added,
    /// In a tag of this type above those that it came with.
    Above(u16),
}

/// A packet inside a bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Inside {
    /// The VLAN it is in.
    pub(super) vlan: u16,
    outer: Outer,
    /// The VLAN id of its outer tag as it came in; `None` without a tag.
    received: Option<u16>,
}

impl Inside {
    /// The same packet in another VLAN, which is not 0.
    pub(super) fn moved_to(self, vlan: u16) -> Inside {
        let outer = match (self.outer, self.received) {
            (Outer::Received, Some(_)) => Outer::Named {
                hides_second: false,
            },
            (Outer::Received, None) => Outer::Added,
            (outer, _) => outer,
        };
        Inside {
            vlan,
            outer,
            ..self
        }
    }
}

/// How a copy's tags become those of a port: some are taken off, then the outer one is
/// written, then one is put on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct TagEdits {
    taken_off: u8,
    /// Value and mask.
    written: Option<(u16, u16)>,
    /// EtherType, and id with priority.
    put_on: Option<(u16, u16)>,
}

/// Which tags a port takes off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenOff {
    None,
    Outer,
    All,
}

impl TakenOff {
    fn at(port: &PortVlans, vlan: u16) -> TakenOff {
        match port.mode {
            VlanMode::Access { .. } => TakenOff::All,
            VlanMode::Tunnel { .. } => TakenOff::Outer,
            VlanMode::NativeUntagged { tag, .. } if tag == vlan => TakenOff::Outer,
            _ => TakenOff::None,
        }
    }
}

impl<O: Observer> Walk<'_, O> {
    /// Finds the VLAN of a packet from `port`; an error names one that the port does not admit.
    pub(super) fn come_in(&mut self, port: PortId) -> Result<Inside, u16> {
        let tag = self.state.read_masked(f::VLAN_TCI, 0x1fff) as u16;
        // Without a tag the other bits may have been written, but do not count yet.
        let received = (tag & f::VLAN_PRESENT != 0).then_some(tag & 0x0fff);
        let id = received.unwrap_or(0);
        self.ask(Input::Port(port));
        let vlans = self.pipeline.port_vlans(port, self.version);
        if !vlans.admits(id) {
            return Err(id);
        }
        let untagged = |hides_second| match received {
            Some(_) => Outer::Named { hides_second },
            None => Outer::Added,
        };
        let (vlan, outer) = match vlans.mode {
            VlanMode::Access { tag } => (tag, untagged(true)),
            VlanMode::NativeTagged { tag, .. } | VlanMode::NativeUntagged { tag, .. }
                if id == 0 =>
            {
                (tag, untagged(false))
            }
            VlanMode::Tunnel { tag, tpid, .. } => (tag, Outer::Above(tpid)),
            _ => (id, Outer::Received),
        };
        Ok(Inside {
            vlan,
            outer,
            received,
        })
    }

    /// Whether floods of the packet's VLAN go to a port (`xbundle_includes_vlan`).
    pub(super) fn is_carried(&mut self, port: PortId, inside: &Inside) -> bool {
        let vlans = self.pipeline.port_vlans(port, self.version);
        if !vlans.carries(inside.vlan) {
            return false;
        }
        match &vlans.mode {
            VlanMode::Access { .. } => self.second_id(inside) == 0,
            VlanMode::Tunnel { customers, .. } => {
                customers.is_all() || customers.contains(self.second_id(inside))
            }
            _ => true,
        }
    }

    /// Whether `normal` floods the packet to a port; not if it is for mirrored packets only.
    pub(super) fn is_flooded(&mut self, port: PortId, inside: &Inside) -> bool {
        self.is_carried(port, inside) && !self.is_mirror_output(port)
    }

    /// The VLAN id below the one that says the packet's VLAN; 0 without a tag there.
    fn second_id(&mut self, inside: &Inside) -> u16 {
        match (inside.outer, inside.received) {
            (Outer::Above(_), received) => received.unwrap_or(0),
            (
                Outer::Received
                | Outer::Named {
                    hides_second: false,
                },
                Some(_),
            ) => self.received_second_id().unwrap_or(0),
            _ => 0,
        }
    }

    fn received_second_id(&mut self) -> Option<u16> {
        let tag = self.state.read_masked(f::VLAN_TCI_INNER, 0x1fff) as u16;
        (tag & f::VLAN_PRESENT != 0).then_some(tag & 0x0fff)
    }

    /// Sends a packet to a port, with the tags that the port wants (`output_normal`).
    pub(super) fn send_in_vlan(&mut self, port: PortId, state: PortState, inside: &Inside) {
        let edits = self.edits_for(port, inside);
        if edits == TagEdits::default() {
            return self.deliver(port, state);
        }
        if !self.spend(self.copy_cost()) {
            return;
        }
        if self.copies == MAX_COPIES {
            self.fail(DropReason::RecursionTooDeep);
            return;
        }
        let snapshot = self.state.snapshot();
        let flags = (self.is_reparse_needed, self.is_tag_hidden);
        let outer = std::mem::take(&mut self.effects);
        self.copies += 1;
        self.edit(edits);
        self.deliver(port, state);
        self.copies -= 1;
        let mut nested = std::mem::replace(&mut self.effects, outer);
        trim(&mut nested);
        if !nested.is_empty() {
            self.effects.push(Effect::Clone(nested.into()));
        }
        // Invariant 2.
        self.state.restore(snapshot);
        (self.is_reparse_needed, self.is_tag_hidden) = flags;
    }

    fn edit(&mut self, edits: TagEdits) {
        for _ in 0..edits.taken_off {
            self.pop_vlan();
        }
        if let Some((value, mask)) = edits.written {
            self.write_tag(value, mask);
        }
        if let Some((tpid, tci)) = edits.put_on {
            self.push_vlan(tpid, tci);
        }
    }

    fn edits_for(&mut self, port: PortId, inside: &Inside) -> TagEdits {
        let pipeline = self.pipeline;
        let vlans = pipeline.port_vlans(port, self.version);
        let (tags, vlan) = (vlans.priority_tags, inside.vlan);
        let put_on = |tpid, tci| TagEdits {
            put_on: (tci != 0 || tags == PriorityTags::Always).then_some((tpid, tci)),
            ..TagEdits::default()
        };
        match (TakenOff::at(vlans, vlan), inside.outer) {
            (TakenOff::Outer, Outer::Above(_)) => self.edits_of_received(tags, inside),
            (TakenOff::Outer | TakenOff::All, Outer::Added) => TagEdits::default(),
            (
                TakenOff::Outer,
                Outer::Received
                | Outer::Named {
                    hides_second: false,
                },
            ) => self.edits_without_outer(tags, inside),
            (TakenOff::Outer | TakenOff::All, _) => self.edits_without_any(tags, inside),
            (TakenOff::None, Outer::Received) => self.edits_of_received(tags, inside),
            (TakenOff::None, Outer::Named { .. }) if vlan == 0 => {
                self.edits_of_received(tags, inside)
            }
            (TakenOff::None, Outer::Named { .. }) => TagEdits {
                written: Some((vlan, 0x0fff)),
                ..TagEdits::default()
            },
            (TakenOff::None, Outer::Added) => put_on(CUSTOMER_TAG, vlan),
            (TakenOff::None, Outer::Above(tpid)) => {
                put_on(tpid, vlan | self.kept_priority(tags, inside))
            }
        }
    }

    /// The priority of the outer tag that the packet came with, in place, if the port keeps it
    /// where that tag goes or is covered.
    fn kept_priority(&mut self, tags: PriorityTags, inside: &Inside) -> u16 {
        match tags {
            PriorityTags::Never => 0,
            _ if inside.received.is_none() => 0,
            _ => self.state.read_masked(f::VLAN_TCI, 0xe000) as u16,
        }
    }

    /// The tags stay as they came in, but for an outer one that says nothing.
    fn edits_of_received(&mut self, tags: PriorityTags, inside: &Inside) -> TagEdits {
        let says_nothing = inside.received == Some(0)
            && tags != PriorityTags::Always
            && self.state.read_masked(f::VLAN_TCI, 0xe000) == 0;
        TagEdits {
            taken_off: u8::from(says_nothing),
            ..TagEdits::default()
        }
    }

    /// The outer tag goes; the second becomes the outer one, if there is one.
    fn edits_without_outer(&mut self, tags: PriorityTags, inside: &Inside) -> TagEdits {
        if inside.received.is_none() {
            return TagEdits::default();
        }
        let Some(second) = self.received_second_id() else {
            return self.edits_without_any(tags, inside);
        };
        let kept = self.kept_priority(tags, inside);
        let priority = match tags {
            PriorityTags::Never if second == 0 => {
                self.state.read_masked(f::VLAN_TCI_INNER, 0xe000) as u16
            }
            _ => kept,
        };
        if second == 0 && priority == 0 && tags != PriorityTags::Always {
            return TagEdits {
                taken_off: 2,
                ..TagEdits::default()
            };
        }
        TagEdits {
            taken_off: 1,
            written: (tags != PriorityTags::Never).then_some((kept, 0xe000)),
            put_on: None,
        }
    }

    /// All tags that are known go; a tag for the priority may take their place.
    fn edits_without_any(&mut self, tags: PriorityTags, inside: &Inside) -> TagEdits {
        if inside.received.is_none() {
            return TagEdits::default();
        }
        let has_second = self.received_second_id().is_some();
        let kept = self.kept_priority(tags, inside);
        TagEdits {
            taken_off: 1 + u8::from(has_second),
            put_on: (kept != 0).then_some((CUSTOMER_TAG, kept)),
            written: None,
        }
    }

    /// Whether the packet came from a protected port and `port` is another
    /// (`xlate_flow_is_protected`).
    pub(super) fn is_kept_apart(&mut self, port: PortId) -> bool {
        let is_protected = |walk: &Self, port| {
            let vlans = walk.pipeline.port_vlans(port, walk.version);
            vlans.is_protected
        };
        if !is_protected(self, port) {
            return false;
        }
        let from = self.in_port();
        self.ask(Input::Port(from));
        is_protected(self, from)
    }

    /// Counts a copy that would go from a protected port to another.
    pub(super) fn drop_for_protection(&mut self) {
        self.tell(Sight::KeptApart);
        self.drop(DropReason::ProtectedPort);
    }
}
