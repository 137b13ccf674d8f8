//! Headers put in front of a packet and taken off, as datapath actions
//! (`commit_encap_decap_action` of Open vSwitch).
//!
//! A header that was put in front is written when the next one comes, or when the packet leaves:
//! until then, fields of it are still written. `pop_eth` is written at the same moments.

use thalweg_packet::{FieldId, standard as f};

use super::attribute::{ETHER_TYPE_NSH, ETHERNET, NSH, Part, is_mpls, ones};
use super::commit::{Commit, Label, Packet};
use super::field_bits::FieldBits;
use super::format::members;

/// Namespace 1 of packet types: EtherTypes.
pub(super) const ETHER_TYPES: u32 = 1 << 16;

/// The EtherType of Ethernet behind a label (`ETH_TYPE_TEB`).
const BRIDGED: u32 = 0x6558;

/// A header in front whose action is not written yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Front {
    Ethernet,
    Label,
    /// A network service header, with its context in hexadecimal if that has no fields.
    Service(Option<String>),
}

impl Commit {
    pub(super) fn push_ethernet(&mut self) {
        self.commit();
        self.flow.packet_type = 0;
        self.flow.clear(&[f::ETH_SRC, f::ETH_DST]);
        self.pending = Some(Front::Ethernet);
    }

    pub(super) fn pop_ethernet(&mut self) {
        self.commit();
        self.flow.packet_type = ETHER_TYPES | u32::from(self.flow.ether_type);
        self.flow.clear(&[f::ETH_SRC, f::ETH_DST]);
    }

    /// Calls `act` on the packet without its Ethernet header, which the next action brings back.
    pub(super) fn without_ethernet(&mut self, act: impl FnOnce(&mut Commit)) {
        let before = self.flow.clone();
        self.pop_ethernet();
        act(self);
        self.flow = before;
        self.pending = Some(Front::Ethernet);
    }

    /// Puts a label or a network service header in front.
    pub(super) fn encapsulate(&mut self, ether_type: u16, header: &[u8]) {
        self.commit();
        let flow = &mut self.flow;
        flow.packet_type = ETHER_TYPES | u32::from(ether_type);
        flow.ether_type = ether_type;
        flow.clear(&[f::ETH_SRC, f::ETH_DST]);
        flow.tags.clear();
        flow.labels.clear();
        if is_mpls(ether_type) {
            let entry = header.iter().take(4);
            let entry = entry.fold(0, |entry, byte| entry << 8 | u32::from(*byte));
            let known = u32::MAX;
            flow.labels.push(Label { entry, known });
            self.pending = Some(Front::Label);
            self.uses_labels_in_front = true;
            return;
        }
        let byte = |place: usize| u128::from(header.get(place).copied().unwrap_or(0));
        let fields: Vec<FieldId> = (f::NSH_FLAGS.0..=f::NSH_C4.0).map(FieldId).collect();
        flow.clear(&fields);
        flow.values
            .set(f::NSH_TTL, (byte(0) << 8 | byte(1)) >> 6 & ones(6));
        flow.values.set(f::NSH_MDTYPE, byte(2));
        flow.values.set(f::NSH_NP, byte(3));
        flow.values.set(f::NSH_SI, byte(7));
        let context = (byte(2) != 1).then(|| {
            let bytes = header.get(8..).unwrap_or_default();
            let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            if bytes.is_empty() {
                bytes
            } else {
                format!("0x{bytes}")
            }
        });
        self.pending = Some(Front::Service(context));
    }

    /// Takes the outermost header off; another pass follows.
    pub(super) fn decapsulate(&mut self, packet_type: u32) {
        self.commit();
        let text = match self.flow.ether_type {
            ETHER_TYPE_NSH => "pop_nsh()".to_owned(),
            _ => {
                let kind = if packet_type == 0 {
                    BRIDGED
                } else {
                    packet_type & 0xffff
                };
                self.uses_labels_in_front = true;
                format!("pop_mpls(eth_type={kind:#x})")
            }
        };
        self.texts.push(text);
        self.flow.packet_type = packet_type;
        self.flow.ether_type = packet_type as u16;
        self.flow.labels.clear();
        self.base = self.flow.clone();
    }

    /// Writes the header that was put in front, or that Ethernet was taken off.
    pub(super) fn front(&mut self) {
        let flow = &self.flow;
        let text = match self.pending.take() {
            Some(Front::Ethernet) => {
                let inside = whole_members(&ETHERNET, &flow.values);
                format!("push_eth({inside})")
            }
            Some(Front::Label) => match flow.labels.first() {
                Some(label) => format!("add_mpls({label},eth_type={:#x})", flow.ether_type),
                None => return,
            },
            Some(Front::Service(context)) => format!("push_nsh({})", service(flow, context)),
            None if flow.packet_type != 0 && self.base.packet_type == 0 => "pop_eth".to_owned(),
            None => return,
        };
        self.texts.push(text);
        let (base, flow) = (&mut self.base, &self.flow);
        if flow.packet_type != 0 {
            base.tags.clear();
            base.labels.clone_from(&flow.labels);
            base.ether_type = flow.ether_type;
        }
        base.packet_type = flow.packet_type;
        let services = (f::NSH_FLAGS.0..=f::NSH_C4.0).map(FieldId);
        let shown = [f::ETH_SRC, f::ETH_DST].into_iter().chain(services);
        for field in shown {
            base.values.set(field, flow.values.get(field));
            base.known.set(field, flow.known.get(field));
        }
    }
}

impl Packet {
    /// Makes fields zero.
    fn clear(&mut self, fields: &[FieldId]) {
        for field in fields {
            self.values.set(*field, 0);
            self.known.set(*field, u128::MAX);
        }
    }
}

/// The members of an attribute, all of them.
fn whole_members(attribute: &super::attribute::Attribute, values: &FieldBits) -> String {
    let mut mask = FieldBits::default();
    for member in attribute.members {
        let whole = ones(member.part.width_bits());
        member.part.set(&mut mask, whole);
    }
    members(attribute.members, values, &mask, false)
}

/// The members of a new network service header.
fn service(flow: &Packet, context: Option<String>) -> String {
    let text = whole_members(&NSH, &flow.values);
    match context {
        None => text,
        Some(context) => {
            let first = NSH.members.iter().position(|member| match member.part {
                Part::Field(field, _) => field == f::NSH_C1,
                Part::Service => false,
            });
            let count = first.unwrap_or(NSH.members.len());
            let parts: Vec<&str> = text.split(',').take(count).collect();
            format!("{},md2={context}", parts.join(","))
        }
    }
}
