//! `ct` and `ct_clear`: what the tracker is asked, and the copy that goes on with its answer.
//!
//! The walk cannot know what the tracker will say, so the answer is given to another pass, like
//! the input port: a copy of the packet is looked up again in the table that `ct` names, with the
//! fields `ct_*` in its key. The list itself goes on with a packet that has no connection, as in
//! Open vSwitch (`compose_conntrack_action`).
//!
//! 1. What the tracker is asked is a constant of the answer: the zone and what `exec` writes are
//!    read now, and so are in the mask.

use std::sync::Arc;

use thalweg_conntrack::{Bits, TrackRequest};
use thalweg_packet::{FieldId, PortId, standard as f};

use super::fragments::Outcome;
use super::observer::{Observer, Sight};
use super::walk::Walk;
use crate::action::{Action, Subfield, TableId};
use crate::effect::Effect;
use crate::state::Lifted;
use crate::tracking::{TRACKED_FIELDS, Tracking, Zone};

impl<O: Observer> Walk<'_, O> {
    /// Gives the packet to the tracker, and forks a copy that goes on with its answer.
    pub(super) fn track(&mut self, tracking: &Tracking, table: TableId) {
        let zone = match &tracking.zone {
            Zone::Number(zone) => *zone,
            Zone::Field(bits) => {
                let lifted = self.state.lift(bits);
                self.state.read_lifted(&lifted) as u16
            }
        };
        if let Some(translation) = &tracking.translation {
            self.tell(Sight::Translates(translation));
        }
        if tracking.translation.is_none() && tracking.exec.is_empty() {
            self.tell(Sight::EmptyList);
        }
        let (mark, label) = self.execute_inside(&tracking.exec);
        self.has_tracked = true;
        let rule = self.author.rule();
        let rule = rule.filter(|_| self.pipeline.config.names_committing_rules);
        let rule = rule.and_then(|rule| self.pipeline.number_of_rule(rule));
        self.emit(Effect::Track(Arc::new(TrackRequest {
            zone,
            is_commit: tracking.is_commit,
            is_forced: tracking.is_forced,
            mark: (mark.mask != 0).then_some(Bits {
                value: mark.value as u32,
                mask: mark.mask as u32,
            }),
            label: (label.mask != 0).then_some(label),
            translation: tracking.translation.clone(),
            alg: tracking.alg,
            timeout_policy: 0,
            rule: rule.unwrap_or(0),
            bucket: self.bucket,
            // Numbered when all that follows is known.
            place: 0,
        })));
        if let Some(to) = tracking.table {
            let continuation = self.continuations.len();
            self.fork(to, table);
            self.tell(Sight::Forked {
                table: to,
                zone,
                continuation,
            });
        }
        self.untrack(false);
    }

    /// Whether a tracker knows the tuple of the connection's first packet, and the packet is IP.
    pub(super) fn has_tuple(&mut self) -> bool {
        self.state.read(f::CT_NW_PROTO) != 0
            && (self.state.read(f::PRESENT_IPV4) | self.state.read(f::PRESENT_IPV6)) != 0
    }

    /// Looks up with the tuple of the connection's first packet in the place of the packet's own,
    /// and the other way round (`tuple_swap` in Open vSwitch).
    pub(super) fn look_up_tuple(&mut self, table: TableId, in_port: Option<PortId>) -> Outcome {
        let is_icmp = |protocol: u128| matches!(protocol, 1 | 58);
        let first_is_icmp = is_icmp(self.state.read(f::CT_NW_PROTO));
        let own_is_icmp = is_icmp(self.state.read(f::IP_PROTO));
        let (own, first) = match self.state.read(f::PRESENT_IPV6) {
            0 => ([f::IP_SRC, f::IP_DST], [f::CT_NW_SRC, f::CT_NW_DST]),
            _ => ([f::IPV6_SRC, f::IPV6_DST], [f::CT_IPV6_SRC, f::CT_IPV6_DST]),
        };
        let ports = |is_icmp: bool| match is_icmp {
            true => [f::ICMP_TYPE, f::ICMP_CODE],
            false => [f::TP_SRC, f::TP_DST],
        };
        let first_ports = [f::CT_TP_SRC, f::CT_TP_DST];
        let mut shown = Vec::new();
        let mut show = |there: FieldId, source: FieldId| {
            let layout = self.pipeline.layout();
            let width = |field: FieldId| layout.descriptor(field).width_bits;
            let common = width(there).min(width(source));
            shown.push((
                Subfield::whole(there, width(there)),
                self.state.lift(&Subfield::whole(source, common)),
            ));
        };
        for place in 0..2 {
            show(own[place], first[place]);
            show(first[place], own[place]);
            show(ports(first_is_icmp)[place], first_ports[place]);
            show(first_ports[place], ports(own_is_icmp)[place]);
        }
        show(f::IP_PROTO, f::CT_NW_PROTO);
        show(f::CT_NW_PROTO, f::IP_PROTO);
        let former = shown.iter().map(|(there, _)| self.state.lift(there));
        let former: Vec<Lifted> = former.collect();
        for (there, source) in &shown {
            self.state.put_down(source, there);
        }
        let outcome = self.look_up(table, in_port);
        for ((there, _), former) in shown.iter().zip(&former) {
            self.state.put_down(former, there);
        }
        outcome
    }

    /// What `exec` writes into the mark and the label of the connection.
    fn execute_inside(&mut self, exec: &[Action]) -> (Bits<u128>, Bits<u128>) {
        let (mut mark, mut label) = (Bits::default(), Bits::default());
        let mut write = |field: FieldId, value: u128, mask: u128| {
            let bits: &mut Bits<u128> = match field {
                f::CT_MARK => &mut mark,
                _ => &mut label,
            };
            bits.value = bits.value & !mask | value & mask;
            bits.mask |= mask;
        };
        for action in exec {
            self.tell(Sight::Exec(action));
            match action {
                Action::SetField(writes) => {
                    for w in writes {
                        write(w.field, w.value, w.mask);
                        self.state.write(w.field, w.value & w.mask, w.mask);
                    }
                }
                Action::Move {
                    source,
                    destination,
                } => {
                    let lifted = self.state.lift(source);
                    let mut value = self.state.read_lifted(&lifted);
                    for slice in &destination.slices {
                        let ones = u128::MAX >> (128 - slice.width_bits);
                        let bits = (value & ones) << slice.offset;
                        write(slice.field, bits, ones << slice.offset);
                        self.state.write(slice.field, bits, ones << slice.offset);
                        value = value.checked_shr(slice.width_bits.into()).unwrap_or(0);
                    }
                    self.tell(Sight::Written(destination));
                }
                // A change with another action is refused.
                _ => {}
            }
        }
        (mark, label)
    }

    /// Makes the packet one that was never tracked; `is_asked` by an action of its own.
    pub(super) fn untrack(&mut self, is_asked: bool) {
        // As in Open vSwitch, which does not forget what no pass has seen.
        if is_asked && self.has_connection {
            self.emit(Effect::Untrack);
        }
        self.clear_connection();
        if !is_asked {
            self.tell(Sight::Untracked);
        }
    }

    /// Makes the fields of the connection zero.
    pub(super) fn clear_connection(&mut self) {
        self.has_connection = false;
        for field in TRACKED_FIELDS {
            let width = self.pipeline.layout().descriptor(field).width_bits;
            let all = u128::MAX >> (128 - width);
            self.state.write(field, 0, all);
        }
    }
}
