//! Emulates Open vSwitch by running our effects step by step and checking the packet before
//! each.

use thalweg_packet::standard::header as h;
use thalweg_packet::{FieldDescriptor, Headers, Packet, Rewriter, Scalar};
use thalweg_pipeline::{Effect, PacketInReason};

use super::answer::{Answer, Pass, after};

/// The answer if a tag pushed above two others replaces the lower one, as in Open vSwitch,
/// which handles two tags and rewrites them; `None` if no third tag is pushed.
pub(super) fn losing_third_tags(pass: &Pass, fields: &[FieldDescriptor]) -> Option<Answer> {
    let mut emulation = Emulation::new(fields);
    emulation.run(&pass.walk.effects, &pass.bytes);
    emulation.answer.sort();
    emulation.is_third_tag_pushed.then_some(emulation.answer)
}

/// Whether a label is popped into an EtherType that contradicts the stack.
///
/// That is: to MPLS with no labels left, to another protocol with labels left, or to an
/// EtherType other than the one below the pushed label.
pub(super) fn has_contradicting_pop(pass: &Pass, fields: &[FieldDescriptor]) -> bool {
    let mut emulation = Emulation::new(fields);
    emulation.run(&pass.walk.effects, &pass.bytes);
    emulation.has_contradicting_pop
}

/// Whether a label is pushed above three others, or popped above three; Open vSwitch drops
/// both.
pub(super) fn has_fourth_label(pass: &Pass, fields: &[FieldDescriptor]) -> bool {
    let mut emulation = Emulation::new(fields);
    emulation.run(&pass.walk.effects, &pass.bytes);
    emulation.has_fourth_label
}

struct Emulation<'a> {
    fields: &'a [FieldDescriptor],
    answer: Answer,
    is_third_tag_pushed: bool,
    has_contradicting_pop: bool,
    has_fourth_label: bool,
    /// The EtherTypes below the pushed labels.
    below: Vec<u16>,
}

impl<'a> Emulation<'a> {
    fn new(fields: &'a [FieldDescriptor]) -> Emulation<'a> {
        Emulation {
            fields,
            answer: Answer::default(),
            is_third_tag_pushed: false,
            has_contradicting_pop: false,
            has_fourth_label: false,
            below: Vec::new(),
        }
    }

    fn run(&mut self, effects: &[Effect], bytes: &[u8]) {
        let mut packet = Packet::from_bytes(bytes);
        for effect in effects {
            let Ok(headers) = Headers::parse(packet.bytes()) else {
                return;
            };
            match effect {
                Effect::Output(port) => {
                    self.answer.sent.push((port.0, packet.bytes().to_vec()));
                }
                Effect::Controller {
                    reason,
                    max_len_bytes,
                    ..
                } => {
                    let len = packet.len().min(usize::from(*max_len_bytes));
                    let is_ttl = *reason == PacketInReason::InvalidTtl;
                    let bytes = packet.bytes()[..len].to_vec();
                    self.answer.to_controller.push((is_ttl, bytes));
                }
                Effect::Clone(_) | Effect::ByLength { .. } => {
                    let nested = effect.chosen_list(&packet, &headers);
                    let below = self.below.clone();
                    self.run(nested, packet.bytes());
                    self.below = below;
                }
                Effect::Learn { .. }
                | Effect::LearnRule { .. }
                | Effect::FinTimeout { .. }
                | Effect::Drop { .. } => {}
                Effect::Recirculate(_) => return,
                Effect::PushVlan { .. } if headers.has(h::VLAN_INNER) => {
                    self.is_third_tag_pushed = true;
                    lose_inner_tag(&mut packet, headers);
                    packet = self.after(effect, packet);
                }
                Effect::PopMpls { ether_type } => {
                    let is_other = self.below.pop().is_some_and(|below| below != *ether_type);
                    self.has_contradicting_pop |=
                        is_other || is_contradicting(&packet, &headers, *ether_type);
                    let third = headers.offset(h::MPLS_2);
                    self.has_fourth_label |=
                        third.is_some_and(|at| packet.bytes()[at + 2] & 1 == 0);
                    packet = self.after(effect, packet);
                }
                Effect::PushMpls { .. } => {
                    self.has_fourth_label |= headers.has(h::MPLS_2);
                    self.below.push(headers.scalar(Scalar::EtherType));
                    packet = self.after(effect, packet);
                }
                _ => packet = self.after(effect, packet),
            }
        }
    }

    /// The packet after a rewrite.
    fn after(&self, effect: &Effect, packet: Packet) -> Packet {
        let headers = Headers::parse(packet.bytes()).expect("it was parsed before");
        let after = after(effect, self.fields, packet, headers);
        after.expect("a rewrite leaves the packet here")
    }
}

/// Removes the second tag and rewrites the first, which loses its bit 12.
fn lose_inner_tag(packet: &mut Packet, mut headers: Headers) {
    let outer: [u8; 4] = packet.bytes()[12..16]
        .try_into()
        .expect("a tag has 4 bytes");
    let tpid = u16::from_be_bytes([outer[0], outer[1]]);
    let tci = u16::from_be_bytes([outer[2], outer[3]]) & !0x1000;
    let mut rewriter = Rewriter::new(packet, &mut headers);
    rewriter.pop_vlan();
    rewriter.pop_vlan();
    rewriter.push_vlan(tpid, tci);
}

fn is_contradicting(packet: &Packet, headers: &Headers, ether_type: u16) -> bool {
    headers.offset(h::MPLS_0).is_none_or(|at| {
        let is_bottom = packet.bytes()[at + 2] & 1 == 1;
        is_bottom == matches!(ether_type, 0x8847 | 0x8848)
    })
}
