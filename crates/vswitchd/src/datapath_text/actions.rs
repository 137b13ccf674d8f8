//! Writes the effects of a walk as datapath actions (`xlate_actions` and `format_odp_actions`
//! of Open vSwitch).
//!
//! ```text
//!   set(eth(dst=50:54:00:00:00:0a)),1,push_vlan(vid=10,pcp=0),2
//! ```
//!
//! Open vSwitch does not copy a packet for a list within a list, such as a bucket or a
//! patched bridge: it goes on with the packet that the list has made, and changes back what
//! differs when the packet next leaves. It is written in the same way here, as far as the
//! values to change back to are known. Where they are not, the list is a `clone(...)`.
//!
//! 1. Effects that no datapath has (stations seen, drops counted) are not written; a list with
//!    no other effects is `drop`.

use thalweg_packet::{FieldId, PortId, standard as f};
use thalweg_pipeline::text::print_request;
use thalweg_pipeline::{Effect, MeterPlace, PacketInReason, Sender};

use super::attribute::ones;
use super::commit::{Commit, Packet};
use super::field_bits::FieldBits;
use super::flow::DatapathFlow;
use super::format::hexadecimal;
use super::tunnel::{AskTunnel, TunnelOutput, tunnel_values};

/// Writes actions.
#[derive(Clone, Copy)]
pub struct ActionWriter<'a> {
    /// A port's number in the datapath, or its name.
    pub ports: &'a dyn Fn(PortId) -> String,
    /// The datapath's number of a frozen walk, given the walk's own.
    pub recirculations: &'a dyn Fn(u32) -> u32,
    /// The datapath's number of the state that is sent to a controller.
    pub senders: &'a dyn Fn(Option<&Sender>) -> u32,
    /// What a port does with the values of a tunnel.
    pub tunnels: AskTunnel<'a>,
}

/// The actions on a flow's packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatapathActions {
    /// All of them, as `ofproto/trace` shows them.
    pub text: String,
    /// Whether Open vSwitch's datapath cannot do one of them, and hands such packets to its
    /// control side: the packet's ARP, ICMP or neighbour discovery is changed, or an action
    /// asks for it.
    pub is_slow: bool,
    /// Whether packets go into a tunnel.
    pub enters_tunnel: bool,
    /// Whether they put labels in front of packets or take them off (`add_mpls`), which not all
    /// datapaths of Open vSwitch can.
    pub uses_labels_in_front: bool,
    /// The meter that they pass then.
    pub slow_path_meter: Option<MeterPlace>,
}

impl DatapathActions {
    /// The actions as `dpctl/dump-flows` shows them.
    pub fn installed(&self) -> String {
        let slow = "userspace(pid=0,slow_path(action))".to_owned();
        match self.is_slow {
            true => metered(self.slow_path_meter, slow),
            false => self.text.clone(),
        }
    }
}

impl ActionWriter<'_> {
    /// Writes the actions on packets of a flow.
    pub fn write(&self, effects: &[Effect], flow: &DatapathFlow) -> DatapathActions {
        self.run(effects, flow).0
    }

    /// Writes the actions on packets of a flow, and adds to the flow's mask the bits that Open
    /// vSwitch compares because of the actions, such as those that they write.
    pub fn write_covering(&self, effects: &[Effect], flow: &mut DatapathFlow) -> DatapathActions {
        let (actions, examined) = self.run(effects, flow);
        flow.compares_queue = effects.iter().any(sets_queue);
        for (field, bits) in examined.iter() {
            if flow.knows(field) {
                flow.mask.set(field, bits);
            }
        }
        flow.cover();
        actions
    }

    fn run(&self, effects: &[Effect], flow: &DatapathFlow) -> (DatapathActions, FieldBits) {
        let mut commit = Commit::new(flow);
        self.list(effects, &mut commit);
        let text = match commit.texts.is_empty() {
            true => "drop".to_owned(),
            false => commit.texts.join(","),
        };
        let actions = DatapathActions {
            text,
            is_slow: commit.is_slow,
            enters_tunnel: commit.enters_tunnel,
            uses_labels_in_front: commit.uses_labels_in_front,
            slow_path_meter: effects.iter().find_map(|effect| match effect {
                Effect::Slow { meter } => *meter,
                _ => None,
            }),
        };
        (actions, commit.examined)
    }

    fn list(&self, effects: &[Effect], commit: &mut Commit) {
        for (place, effect) in effects.iter().enumerate() {
            match effect {
                Effect::Clone(nested) => {
                    let is_last = !effects[place + 1..].iter().any(needs_packet);
                    self.nested(nested, is_last, commit);
                }
                Effect::ByLength {
                    limit_bytes,
                    longer,
                    others,
                } => self.by_length(*limit_bytes, [longer, others], commit),
                Effect::Output(port) => {
                    let is_last = !effects[place + 1..].iter().any(needs_packet);
                    self.output(*port, is_last, commit);
                }
                effect => self.effect(effect, commit),
            }
        }
    }

    fn nested(&self, effects: &[Effect], is_last: bool, commit: &mut Commit) {
        if is_last || can_change_back(effects, &commit.flow) {
            let before = commit.flow.clone();
            self.list(effects, commit);
            commit.flow = before;
            return;
        }
        commit.commit();
        let text = self.on_copy(effects, commit);
        if !text.is_empty() {
            commit.texts.push(format!("clone({text})"));
        }
    }

    /// Writes the actions on longer packets, and those on all others.
    fn by_length(&self, limit_bytes: u16, lists: [&[Effect]; 2], commit: &mut Commit) {
        commit.commit();
        let texts = lists.map(|effects| match self.on_copy(effects, commit) {
            text if text.is_empty() => "drop".to_owned(),
            text => text,
        });
        let [longer, others] = texts;
        let text = format!("check_pkt_len(size={limit_bytes},gt({longer}),le({others}))");
        commit.texts.push(text);
    }

    /// The actions of a list on a copy of the packet, which leaves the packet as it is.
    fn on_copy(&self, effects: &[Effect], commit: &mut Commit) -> String {
        let mut copy = commit.clone();
        copy.texts.clear();
        self.list(effects, &mut copy);
        commit.examined = copy.examined;
        commit.is_slow |= copy.is_slow;
        commit.enters_tunnel |= copy.enters_tunnel;
        commit.uses_labels_in_front |= copy.uses_labels_in_front;
        copy.texts.join(",")
    }

    /// Writes an effect that is not an output; one match, an arm for each effect.
    fn effect(&self, effect: &Effect, commit: &mut Commit) {
        match effect {
            Effect::Set { field, value, mask } => commit.set(*field, *value, *mask),
            Effect::DecTtl => commit.decrement_ttl(),
            Effect::DecMplsTtl => commit.decrement_label_ttl(),
            Effect::PushVlan { tpid, tci } => commit.push_tag(*tpid, *tci),
            Effect::PopVlan => commit.pop_tag(),
            Effect::Queue(queue) => commit.flow.queue = *queue,
            Effect::Cut { len_bytes } => {
                commit.commit();
                commit.texts.push(format!("trunc({len_bytes})"));
            }
            Effect::PushMpls { ether_type, entry } => commit.push_label(*ether_type, *entry),
            Effect::PopMpls { ether_type } => commit.pop_label(*ether_type),
            Effect::PushEthernet => commit.push_ethernet(),
            Effect::PopEthernet => commit.pop_ethernet(),
            Effect::Encapsulate { ether_type, header } => commit.encapsulate(*ether_type, header),
            Effect::Decapsulate { packet_type } => commit.decapsulate(*packet_type),
            Effect::Recirculate(number)
            | Effect::LearnRule {
                outcomes: Some((number, _)),
                ..
            } => {
                commit.commit();
                let number = (self.recirculations)(*number);
                commit.texts.push(format!("recirc({number:#x})"));
            }
            Effect::Controller {
                reason,
                max_len_bytes,
                controller_id,
                sender,
                meter,
                ..
            } => {
                commit.commit();
                let sender = sender.as_deref();
                let state = (self.senders)(sender);
                let pauses = sender.is_some_and(|sender| sender.continuation.is_some());
                let cookie = hexadecimal(cookie_of(*reason, sender).into());
                let action = format!(
                    "userspace(pid=0,controller(reason={},dont_send=0,continuation={},\
                     recirc_id={state},rule_cookie={cookie},controller_id={controller_id},\
                     max_len={max_len_bytes}))",
                    reason_number(*reason),
                    u8::from(pauses),
                );
                commit.texts.push(metered(*meter, action));
            }
            Effect::Track(request) => {
                commit.commit();
                commit.texts.push(print_request(request));
            }
            // Open vSwitch does not write pending changes first.
            Effect::Meter(place) => commit.texts.push(format!("meter({})", place.0)),
            Effect::Remark(place) => {
                commit.commit();
                commit.texts.push(format!("meter({})", place.0));
            }
            Effect::Untrack => commit.texts.push("ct_clear".to_owned()),
            Effect::Slow { .. } => commit.is_slow = true,
            Effect::LeaveTunnel => commit.leave_tunnel(),
            Effect::Output(_)
            | Effect::Clone(_)
            | Effect::ByLength { .. }
            | Effect::Learn { .. }
            | Effect::LearnRule { .. }
            | Effect::FinTimeout { .. }
            | Effect::Drop { .. } => {}
        }
    }
}

impl ActionWriter<'_> {
    /// Writes an output; in front of one to a tunnel stand the values of the outer headers, if
    /// the packet does not have them yet.
    fn output(&self, port: PortId, is_last: bool, commit: &mut Commit) {
        match (self.tunnels)(port, &commit.flow.tunnel(), commit.flow.leaving()) {
            TunnelOutput::Untouched => {}
            TunnelOutput::Dropped => return,
            TunnelOutput::Pushed {
                push,
                then,
                is_layer3,
                mark,
            } => {
                // What the bridge drops is not put into a tunnel.
                let text = match (then.is_empty(), is_last) {
                    (true, _) => return,
                    (false, true) => format!("{push},{then}"),
                    (false, false) => format!("clone({push},{then})"),
                };
                let write = |commit: &mut Commit| {
                    commit.commit_with_mark(mark);
                    commit.enters_tunnel = true;
                    commit.texts.push(text);
                };
                return match is_layer3 && commit.flow.packet_type == 0 {
                    true => commit.without_ethernet(write),
                    false => write(commit),
                };
            }
            TunnelOutput::Popped(port) => {
                commit.commit();
                return commit.texts.push(format!("tnl_pop({port})"));
            }
            TunnelOutput::Sent { values, is_layer3 } => {
                commit.set_tunnel(tunnel_values(&values));
                if is_layer3 && commit.flow.packet_type == 0 {
                    commit.without_ethernet(|commit| self.send(port, commit));
                    return;
                }
            }
        }
        self.send(port, commit);
    }

    fn send(&self, port: PortId, commit: &mut Commit) {
        commit.commit();
        commit.texts.push((self.ports)(port));
    }
}

/// An action on packets that a meter lets pass.
fn metered(meter: Option<MeterPlace>, action: String) -> String {
    match meter {
        Some(place) => format!("sample(sample=100.0%,actions(meter({}),{action}))", place.0),
        None => action,
    }
}

/// Open vSwitch's own number of a reason: it knows more reasons than a message can say.
fn reason_number(reason: PacketInReason) -> u8 {
    match reason {
        PacketInReason::TableMiss => 7,
        reason => reason.number(),
    }
}

/// The cookie of the rule that sends, as Open vSwitch has it where there is none: its rule for
/// misses has zero, and a packet-out has all bits.
fn cookie_of(reason: PacketInReason, sender: Option<&Sender>) -> u64 {
    let cookie = sender.and_then(|sender| sender.cookie);
    cookie.unwrap_or(match reason {
        PacketInReason::TableMiss => 0,
        _ => u64::MAX,
    })
}

fn sets_queue(effect: &Effect) -> bool {
    match effect {
        Effect::Queue(_) => true,
        effect => effect.lists().flatten().any(sets_queue),
    }
}

/// Whether an effect sends the packet, or a copy of it, or measures it.
fn needs_packet(effect: &Effect) -> bool {
    match effect {
        Effect::Output(_)
        | Effect::Controller { .. }
        | Effect::Recirculate(_)
        | Effect::LearnRule {
            outcomes: Some(_), ..
        }
        | Effect::Track(_)
        | Effect::Meter(_)
        | Effect::Remark(_)
        | Effect::ByLength { .. }
        | Effect::Untrack => true,
        Effect::Clone(nested) => nested.iter().any(needs_packet),
        _ => false,
    }
}

/// Whether all that a list writes is known before, so that it can be changed back.
fn can_change_back(effects: &[Effect], packet: &Packet) -> bool {
    let knows = |field: FieldId, mask: u128| packet.knows(field, mask);
    effects.iter().all(|effect| match effect {
        Effect::Set { field, mask, .. } => knows(*field, *mask),
        Effect::DecTtl => knows(f::IP_TTL, ones(8)),
        Effect::Clone(nested) => can_change_back(nested, packet),
        // Headers in front are not undone either, as in Open vSwitch.
        Effect::PushEthernet
        | Effect::PopEthernet
        | Effect::Encapsulate { .. }
        | Effect::Decapsulate { .. } => false,
        // What a tracker did is not undone, and what a meter dropped is gone.
        Effect::Track(_) | Effect::Untrack | Effect::Meter(_) | Effect::Remark(_) => false,
        _ => true,
    })
}
