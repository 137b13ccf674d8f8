//! The packets that leave a switch for one packet, from either switch.
//!
//! [`execute`] runs Open vSwitch's datapath actions on the bytes of a packet; [`Ours`] asks
//! our interpreter. Both produce an [`Answer`], so that different lists with the same effect
//! agree.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context, ensure};
use thalweg_packet::{
    Connection, FieldDescriptor, Headers, Instant, Packet, PacketPool, PortId, Receipt,
};
use thalweg_packet::{Rewriter, standard};
use thalweg_pipeline::{
    BridgeId, Change, Config, Continuation, Effect, FragmentMode, MAX_PASSES, Operation, Outbox,
    PacketInReason, Pipeline, PortState, Translation, resume, run, text, translate,
};

use super::datapath_text::DatapathAction;

/// Reason code of OpenFlow's packet-in message (OpenFlow 1.5.1, section 7.4.1).
const INVALID_TTL: u8 = 2;

/// Outgoing packets in the order of ports, and packets for the controller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    /// Port and bytes; packets of one port keep their order.
    pub(super) sent: Vec<(u32, Vec<u8>)>,
    /// Whether the reason is the TTL, and the bytes.
    pub(super) to_controller: Vec<(bool, Vec<u8>)>,
    /// Port and queue of the packets that left in one, sorted; only of packets that are looked
    /// up once.
    pub(super) queues: Vec<(u32, u32)>,
    /// Whether the packet, or a copy, must be looked up again; later effects are missing.
    pub(super) is_cut_short: bool,
}

impl Answer {
    /// Sorts by port; there is no other order among ports.
    pub(super) fn sort(&mut self) {
        self.sent.sort_by_key(|(port, _)| *port);
        self.queues.sort_unstable();
    }
}

/// Runs datapath actions on a packet.
pub(super) fn execute(actions: &[DatapathAction], bytes: &[u8]) -> anyhow::Result<Answer> {
    let packet = Packet::from_bytes(bytes);
    let headers = Headers::parse(bytes)?;
    let mut execution = Execution {
        fields: standard::fields(),
        answer: Answer::default(),
    };
    execution.run(actions, packet, headers, 0);
    execution.answer.sort();
    Ok(execution.answer)
}

struct Execution {
    fields: Vec<FieldDescriptor>,
    answer: Answer,
}

impl Execution {
    /// Executes actions; one match, an arm for each action.
    fn run(
        &mut self,
        actions: &[DatapathAction],
        mut packet: Packet,
        mut headers: Headers,
        mut queue: u32,
    ) {
        let mut cut = usize::MAX;
        for action in actions {
            let mut rewriter = Rewriter::new(&mut packet, &mut headers);
            match action {
                DatapathAction::Set(writes) => {
                    for write in writes {
                        let field = &self.fields[write.field.index()];
                        let (value, mask) = (write.value, write.mask);
                        rewriter.write(&field.source, field.width_bits, value, mask);
                    }
                }
                DatapathAction::PushVlan { tpid, tci } => {
                    rewriter.push_vlan(*tpid, *tci);
                }
                DatapathAction::PopVlan => {
                    rewriter.pop_vlan();
                }
                DatapathAction::PushMpls { ether_type, entry } => {
                    rewriter.push_mpls(*ether_type, *entry);
                }
                DatapathAction::PopMpls { ether_type } => {
                    rewriter.pop_mpls(*ether_type);
                    // A label that was pushed before hid headers; the datapath still knows
                    // them.
                    headers = Headers::parse(packet.bytes()).unwrap_or(headers);
                }
                DatapathAction::Output(port) => {
                    let len = packet.len().min(std::mem::replace(&mut cut, usize::MAX));
                    self.answer
                        .sent
                        .push((*port, packet.bytes()[..len].to_vec()));
                    self.answer
                        .queues
                        .extend((queue != 0).then_some((*port, queue)));
                }
                DatapathAction::Cut(len) => cut = *len as usize,
                DatapathAction::Queue(new) => queue = *new,
                DatapathAction::Controller {
                    reason,
                    max_len_bytes,
                } => {
                    let len = packet.len().min(usize::from(*max_len_bytes));
                    let bytes = packet.bytes()[..len].to_vec();
                    self.answer
                        .to_controller
                        .push((*reason == INVALID_TTL, bytes));
                }
                DatapathAction::Clone(nested) => {
                    self.run(nested, packet.clone(), headers, queue);
                }
                DatapathAction::CheckLength {
                    limit,
                    longer,
                    others,
                } => {
                    let end = length_stated(packet.bytes(), &headers).unwrap_or(packet.len());
                    let nested = if end > *limit { longer } else { others };
                    self.run(nested, packet.clone(), headers, queue);
                }
                DatapathAction::Recirculate => self.answer.is_cut_short = true,
                DatapathAction::Drop => {}
            }
        }
    }
}

/// Where the packet ends by its IP header; what follows is padding.
fn length_stated(bytes: &[u8], headers: &Headers) -> Option<usize> {
    let number = |at: usize| usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1]);
    match headers.offset(standard::header::IPV4) {
        Some(at) => Some(at + number(at + 2)),
        None => {
            let at = headers.offset(standard::header::IPV6)?;
            Some(at + 40 + number(at + 4))
        }
    }
}

/// Our interpreter with one set of rules.
pub(super) struct Ours {
    pub(super) pipeline: Pipeline,
}

impl Ours {
    /// Loads rules and groups into a switch with the ports 1 to `ports`.
    ///
    /// # Errors
    /// If they are refused.
    pub(super) fn load(rules: &str, groups: &str, ports: u32) -> anyhow::Result<Ours> {
        let mut pipeline = Pipeline::new(Config::default());
        let state = PortState {
            is_up: true,
            floods: true,
            forwards: true,
            peer: None,
        };
        let ports = (1..=ports).map(|port| Operation::SetPort(PortId(port), state));
        let mut parsed = text::parse_rules("rules", rules)?;
        parsed.groups = text::parse_groups("groups", groups)?;
        let operations = ports.chain(parsed.into_change().operations).collect();
        pipeline.apply(&Change { operations }, Instant::ZERO)?;
        Ok(Ours { pipeline })
    }

    /// Sets what tables see of fragments.
    ///
    /// # Errors
    /// If it is refused.
    pub(super) fn set_fragments(&mut self, mode: FragmentMode) -> anyhow::Result<()> {
        let set = Operation::SetFragments(BridgeId::default(), mode);
        self.pipeline.apply(&Change::one(set), Instant::ZERO)?;
        Ok(())
    }

    /// The key of a packet on its first pass.
    pub(super) fn key(&self, in_port: u32, bytes: &[u8]) -> anyhow::Result<Vec<u64>> {
        let headers = Headers::parse(bytes).context("no Ethernet frame")?;
        let layout = self.pipeline.layout();
        let mut key = vec![0; layout.ingress_words()];
        layout.extract(bytes, &headers, &Receipt::from_port(in_port), &mut key);
        Ok(key)
    }

    /// Translates a packet's first pass.
    pub(super) fn translate(&self, in_port: u32, bytes: &[u8]) -> anyhow::Result<Translation> {
        let key = self.key(in_port, bytes)?;
        Ok(translate(&self.pipeline, &key, self.pipeline.version()))
    }

    /// The answer if a cache that holds `first` answers the first pass, and all passes.
    pub(super) fn answer(
        &self,
        first: &Translation,
        in_port: u32,
        bytes: &[u8],
    ) -> anyhow::Result<(Answer, Vec<Pass>)> {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let mut packet = Packet::from_bytes(bytes);
        packet.set_received(PortId(in_port), Instant::ZERO);
        let mut passes: Vec<Pass> = Vec::new();
        let mut waiting: VecDeque<(Option<Arc<Continuation>>, Connection, Packet)> =
            VecDeque::from([(None, Connection::NONE, packet)]);
        while let Some((continuation, connection, packet)) = waiting.pop_front() {
            ensure!(
                passes.len() < MAX_PASSES,
                "the packet is looked up again without end"
            );
            let headers = Headers::parse(packet.bytes())?;
            let walk = match continuation {
                None => first.clone(),
                Some(continuation) => {
                    let receipt = Receipt {
                        in_port,
                        recirculation_id: passes.len() as u32,
                        connection,
                        ..Receipt::default()
                    };
                    let layout = self.pipeline.layout();
                    let mut key = vec![0; layout.ingress_words()];
                    layout.extract(packet.bytes(), &headers, &receipt, &mut key);
                    resume(&self.pipeline, &key, &continuation, self.pipeline.version())
                }
            };
            let bytes = packet.bytes().to_vec();
            run(
                &walk.effects,
                self.pipeline.fields(),
                packet,
                headers,
                &connection,
                &mut outbox,
            );
            for again in outbox.recirculated.drain(..) {
                let continuation = walk.continuations[again.continuation as usize].clone();
                waiting.push_back((Some(continuation), again.connection, again.packet));
            }
            passes.push(Pass {
                walk,
                headers,
                bytes,
            });
        }
        let mut answer = answer_of(outbox);
        if let [pass] = &passes[..] {
            let queues = &mut answer.queues;
            add_queues(&pass.walk.effects, 0, &pass.bytes, queues);
        }
        answer.sort();
        Ok((answer, passes))
    }
}

/// One pass of a packet: its bytes, its headers and its walk.
pub(super) struct Pass {
    pub(super) bytes: Vec<u8>,
    pub(super) headers: Headers,
    pub(super) walk: Translation,
}

/// Adds port and queue of what effects send in a queue.
pub(super) fn add_queues(
    effects: &[Effect],
    mut queue: u32,
    bytes: &[u8],
    queues: &mut Vec<(u32, u32)>,
) {
    let mut packet = Packet::from_bytes(bytes);
    for effect in effects {
        let Ok(headers) = Headers::parse(packet.bytes()) else {
            return;
        };
        match effect {
            Effect::Queue(new) => queue = *new,
            Effect::Output(port) if queue != 0 => queues.push((port.0, queue)),
            Effect::Output(_) | Effect::Recirculate(_) => {}
            Effect::Clone(_) | Effect::ByLength { .. } => {
                let nested = effect.chosen_list(&packet, &headers);
                add_queues(nested, queue, packet.bytes(), queues);
            }
            other => match after(other, &standard::fields(), packet, headers) {
                Some(after) => packet = after,
                None => return,
            },
        }
    }
}

/// The packet after an effect, if that leaves it here.
pub(super) fn after(
    effect: &Effect,
    fields: &[FieldDescriptor],
    packet: Packet,
    headers: Headers,
) -> Option<Packet> {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    let effects = [effect.clone(), Effect::Recirculate(0)];
    let connection = &Connection::NONE;
    run(&effects, fields, packet, headers, connection, &mut outbox);
    outbox.recirculated.pop().map(|again| again.packet)
}

/// The packets that left.
pub(super) fn answer_of(outbox: Outbox) -> Answer {
    let sent = outbox.sent.into_iter();
    let sent = sent.map(|(port, packet)| (port.0, packet.bytes().to_vec()));
    let to_controller = outbox.to_controller.into_iter();
    let to_controller = to_controller.map(|(notice, packet)| {
        let is_ttl = notice.reason == PacketInReason::InvalidTtl;
        (is_ttl, packet.bytes().to_vec())
    });
    let mut answer = Answer {
        sent: sent.collect(),
        to_controller: to_controller.collect(),
        queues: Vec::new(),
        is_cut_short: false,
    };
    answer.sort();
    answer
}
