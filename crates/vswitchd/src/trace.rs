//! `ofproto/trace`: what the switch does with a packet, step by step, in Open vSwitch's text.
//!
//! ```text
//!   arguments --> TraceQuestion: a packet's fields, perhaps its bytes, perhaps actions
//!   question  --> the interpreter walks, a narrator observes --> text
//! ```
//!
//! The text has the packet (`Flow:`), each bridge, table, rule and action that the walk meets,
//! the packet at its end (`Final flow:`), and the entry that a cache would have (`Megaflow:`,
//! `Datapath actions:`). It is that of Open vSwitch 3.1 (`ofproto-dpif-trace.c`,
//! `ofproto-dpif-xlate.c`), also where that is odd.
//!
//! There is no socket, clock or state here: [`TraceNames`] knows bridges and ports. What a
//! packet does to the switch, the caller does ([`TraceAnswer::packet`]).
//!
//! 1. The walk is the interpreter's own; the narrator only listens.
//! 2. A text is bounded: a longer one is cut off with a line that says so.
//!
//! Open vSwitch follows a packet through its recirculations only where connections are tracked,
//! and so does this (`forks`): a packet whose labels are gone ends at `recirc(...)`. Another trace
//! goes on there, of a datapath flow with that `recirc_id`; what it restores is told in fewer
//! words than Open vSwitch's. A select group names the bucket that Thalweg's own hash chooses,
//! without scores. The slow path is told of as Open vSwitch has it; there is none here. A rule
//! keeps no memory of OpenFlow 1.0's actions: `mod_nw_dst` is `set_field:...->ip_dst`, as it is in
//! Open vSwitch when a controller speaks OpenFlow 1.2.

mod arguments;
mod bridge_flow;
mod connection_state;
mod error;
mod flow;
mod forks;
mod frozen;
mod mask;
mod names;
mod nodes;
mod reasons;
mod sights;
mod underlay;

use std::collections::{BTreeSet, VecDeque};

use thalweg_packet::{FieldId, Layout, PortId, standard as f};
use thalweg_pipeline::text::{PortSpelling, print_megaflow_with_ports};
use thalweg_pipeline::{Effect, PacketInReason, Pipeline, Translation, observe, observe_resumed};

pub use arguments::TraceQuestion;
pub use connection_state::{ConnectionState, ConnectionStateError};
pub use error::TraceRefusal;
pub use frozen::{FrozenTrace, FrozenTraces};
pub use names::{NativePush, TraceNames};
pub(crate) use reasons::steps_text;
pub use reasons::{explain, why_drop};

use arguments::Switch;
use flow::TracedFlow;
use forks::{FOLLOWED_MAX, Resumed, too_many};
use mask::is_ip;
use sights::{Narrator, failure_text};
use underlay::{Asked, tunnel_output};

use crate::datapath_text::{ActionWriter, DatapathActions, FieldBits};

/// Most bytes of text behind which no other copy is followed.
const TEXT_MAX: usize = 4 << 20;

/// Said of packets that Open vSwitch's datapath cannot change as asked.
const SLOW_PATH: &str = "\nThis flow is handled by the userspace slow path because it:\n  \
                         - Uses action(s) not supported by datapath.";

/// The command that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceCommand {
    /// `ofproto/trace`.
    Trace,
    /// `ofproto/trace-packet-out`.
    TracePacketOut,
}

/// The answer to a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceAnswer {
    /// The text.
    pub text: String,
    /// The packet, if the question has one: the switch learns from it, and its controllers get
    /// what they are told.
    pub packet: Option<TracedPacket>,
    /// The walks that it froze, with their numbers in the text.
    pub frozen: Vec<(u32, FrozenTrace)>,
}

/// A packet that a trace was about.
#[derive(Clone, PartialEq, Debug)]
pub struct TracedPacket {
    /// The port by which it came in.
    pub in_port: PortId,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// What remains to do with it: everything except sending it and looking it up again.
    pub effects: Vec<Effect>,
}

/// Reads the arguments of a command and answers it.
///
/// # Errors
/// If the arguments are not those of the command; the refusal has Open vSwitch's words.
pub fn trace(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    command: TraceCommand,
    arguments: &[String],
) -> Result<TraceAnswer, TraceRefusal> {
    let layout = full_layout(pipeline);
    let switch = Switch {
        pipeline,
        names,
        layout: &layout,
    };
    let question = match command {
        TraceCommand::Trace => TraceQuestion::of_packet(switch, arguments)?,
        TraceCommand::TracePacketOut => TraceQuestion::of_packet_out(switch, arguments)?,
    };
    let mut states: VecDeque<ConnectionState> = question.next_states.iter().copied().collect();
    let (mut answer, forks) = answer(switch, &question, &[]);
    let mut waiting: VecDeque<Resumed> = forks.into();
    let mut followed = 0;
    while let Some(mut resumed) = waiting.pop_front() {
        followed += 1;
        if followed > FOLLOWED_MAX || answer.text.len() > TEXT_MAX {
            answer.text += &too_many(waiting.len() + 1);
            break;
        }
        answer.text += &resumed.resume(states.pop_front());
        let (next, forks) = self::answer(switch, &resumed.question, &answer.frozen);
        answer.text += &next.text;
        answer.frozen.extend(next.frozen);
        waiting.extend(forks);
    }
    Ok(answer)
}

/// A layout of all fields, but of options of tunnels only those that rules use. If these are too
/// many, it has the fields that rules use, and no others.
pub(crate) fn full_layout(pipeline: &Pipeline) -> Layout {
    let used = pipeline.layout().used().iter().copied();
    let all: BTreeSet<FieldId> = f::all_but_options().chain(used).collect();
    let full = Layout::new(pipeline.fields().clone(), &all);
    full.unwrap_or_else(|_| (**pipeline.layout()).clone())
}

/// Answers a question up to where trackers are asked; returns the copies that go on there.
/// `earlier` walks of the same trace keep their numbers.
fn answer(
    switch: Switch<'_>,
    question: &TraceQuestion,
    earlier: &[(u32, FrozenTrace)],
) -> (TraceAnswer, Vec<Resumed>) {
    let Switch {
        pipeline,
        names,
        layout,
    } = switch;
    let port_names = |port: PortId| names.port_name(port).map(|name| quoted(&name));
    let numbers = PortSpelling::numbers(pipeline);
    let ports = match question.shows_names {
        true => numbers.with_names(&port_names),
        false => numbers,
    };
    let flow = &question.flow;
    let words = flow.words(layout);
    let has_packet = question.frame.is_some();
    let mut narrator = Narrator::new(pipeline, names, ports, question.bridge, has_packet);
    let translation = walk(switch, question, &words, &mut narrator);
    let mut text = format!("Flow: {}\n", flow.text(ports));
    text += &narrator.nodes.text();
    let last = last_flow(&narrator, flow, ports);
    text += &format!("\nFinal flow: {last}\n");
    let failure = narrator.failure;
    let has_queue = narrator.examined.has_queue;
    let mut mask = narrator.examined.mask(&translation, layout, &flow.key);
    let frozen = translation.continuations.iter().map(|left| FrozenTrace {
        continuation: left.clone(),
        layout: pipeline.layout().clone(),
    });
    let frozen: Vec<FrozenTrace> = frozen.collect();
    let known = earlier.iter().map(|(_, walk)| walk);
    let all: Vec<FrozenTrace> = known.chain(&frozen).cloned().collect();
    let numbers = names.recirculations(&all).split_off(earlier.len());
    let effects = (&translation.effects[..], &numbers[..]);
    let actions = datapath_actions(switch, question, effects, mask.clone());
    if actions.enters_tunnel && is_ip(&flow.key) {
        // A tunnel tells of congestion what the packet tells.
        mask.set(f::IP_ECN, 3);
    }
    let megaflow = megaflow_text(layout, flow, &mask, has_queue, ports);
    text += &format!("Megaflow: {megaflow}\n");
    text += &format!("Datapath actions: {}", actions.text);
    if let Some(bound) = failure {
        let why = failure_text(bound);
        text += &format!("\nTranslation failed ({why}), packet is dropped.\n");
    } else if actions.is_slow {
        text.push_str(SLOW_PATH);
    }
    let packet = question.frame.clone().map(|frame| TracedPacket {
        in_port: flow.in_port(),
        frame,
        effects: without_sends(&translation.effects),
    });
    let frozen: Vec<(u32, FrozenTrace)> = numbers.into_iter().zip(frozen).collect();
    let has_bridges = pipeline.has_bridges();
    let resumed = narrator.forks.into_iter().map(|fork| {
        let walk = frozen[fork.continuation].clone();
        Resumed::new(fork, walk, question, has_bridges)
    });
    let resumed = resumed.collect();
    let answer = TraceAnswer {
        text,
        packet,
        frozen,
    };
    (answer, resumed)
}

/// Walks with the question's packet: from the first table, with actions, or where another trace
/// stopped.
fn walk(
    switch: Switch<'_>,
    question: &TraceQuestion,
    words: &[u64],
    narrator: &mut Narrator<'_>,
) -> Translation {
    let (pipeline, version) = (switch.pipeline, switch.pipeline.version());
    let packet = (switch.layout, words);
    match (&question.frozen, &question.actions) {
        (Some(frozen), None) => {
            narrator.thaw(&frozen.continuation);
            let from = (&*frozen.continuation, &*frozen.layout);
            observe_resumed(pipeline, packet, from, version, narrator)
        }
        (_, actions) => observe(pipeline, packet, actions.clone(), version, narrator),
    }
}

/// The packet at the end of its walk.
fn last_flow(narrator: &Narrator<'_>, flow: &TracedFlow, ports: PortSpelling<'_>) -> String {
    let mut key = narrator.last.clone();
    // Walks take this number away.
    key.set(f::RECIRC_ID, flow.key.get(f::RECIRC_ID));
    let last = TracedFlow {
        key,
        priority: match narrator.queue {
            0 => flow.priority,
            queue => queue,
        },
        ..flow.clone()
    };
    match last == *flow && !narrator.set_output.is_set() {
        true => "unchanged".to_owned(),
        false => last.text(ports),
    }
}

/// The entry that a cache would have.
fn megaflow_text(
    layout: &Layout,
    flow: &TracedFlow,
    mask: &FieldBits,
    has_queue: bool,
    ports: PortSpelling<'_>,
) -> String {
    let mut mask_words = vec![0; layout.words()];
    mask.write_words(layout, &mut mask_words);
    let ingress = layout.ingress_words();
    let words = flow.words(layout);
    let (key, bits) = (&words[..ingress], &mask_words[..ingress]);
    let mut megaflow = print_megaflow_with_ports(layout, key, bits, ports);
    let recirculation = flow.key.get(f::RECIRC_ID);
    if recirculation != 0 {
        let number = format!("recirc_id={recirculation:#x}");
        megaflow = megaflow.replacen("recirc_id=0", &number, 1);
    }
    let mut parts: Vec<&str> = megaflow.split(',').collect();
    if has_queue {
        // It stands behind the number of the pass and the datapath's hash.
        let is_before =
            |part: &&str| part.starts_with("recirc_id=") || part.starts_with("dp_hash=");
        let place = parts.iter().rposition(is_before);
        parts.insert(place.map_or(0, |place| place + 1), "skb_priority=0");
    }
    let flags = tunnel_flags_text(flow.tunnel_flags);
    // Hexadecimal digits without a prefix, as in Open vSwitch.
    let tos = format!("tun_tos={:x}", flow.key.get(f::TUN_TOS));
    if mask.get(f::TUN_ID) != 0 {
        // They stand behind what all tunnels have, before the options of one.
        let is_before = |part: &&str| {
            let is_tunnel = ["tun_", "gbp_", "gtpu_"].map(|start| part.starts_with(start));
            is_tunnel.contains(&true) && !part.starts_with("tun_metadata")
        };
        parts.retain(|part| !part.starts_with("tun_flags="));
        for part in parts.iter_mut().filter(|part| part.starts_with("tun_tos=")) {
            *part = &tos;
        }
        if let Some(place) = parts.iter().rposition(is_before) {
            parts.insert(place + 1, &flags);
        }
    }
    parts.join(",")
}

/// The flags of a tunnel, all of which Open vSwitch compares.
fn tunnel_flags_text(flags: u16) -> String {
    let sign = |bit: u16| if flags >> bit & 1 != 0 { '+' } else { '-' };
    let oam = if flags & 1 != 0 { "+oam" } else { "" };
    format!("tun_flags={}df{}csum{}key{oam}", sign(1), sign(2), sign(3))
}

/// The actions of the walk in a datapath.
fn datapath_actions(
    switch: Switch<'_>,
    question: &TraceQuestion,
    (effects, numbers): (&[Effect], &[u32]),
    mask: FieldBits,
) -> DatapathActions {
    let names = switch.names;
    let port = |port: PortId| match names.port_name(port).filter(|_| question.shows_names) {
        Some(name) => quoted(&name),
        None => match names.datapath_number_of(port) {
            Some(number) => number.to_string(),
            None => port.to_string(),
        },
    };
    let writer = ActionWriter {
        ports: &port,
        recirculations: &|number| numbers[number as usize],
        senders: &|sender| names.sender(sender),
        tunnels: &|number, values, leaving| {
            let asked = Asked {
                number,
                values,
                in_port: question.flow.in_port(),
                leaving,
            };
            tunnel_output(switch, &port, asked)
        },
    };
    let mut flow = question.flow.to_datapath_flow();
    flow.mask = mask;
    let mut actions = writer.write(&as_of_a_rule(effects), &flow);
    actions.is_slow |= actions.uses_labels_in_front && !names.adds_labels();
    if question.frame.is_none() {
        // Without a packet nothing is sent to controllers.
        actions.text = actions.text.replace("dont_send=0,", "dont_send=1,");
    }
    actions
}

/// The effects as those of a rule: a traced packet-out tells controllers a rule's reason.
fn as_of_a_rule(effects: &[Effect]) -> Vec<Effect> {
    let effects = effects.iter().map(|effect| match effect.clone() {
        Effect::Controller {
            reason: PacketInReason::PacketOut,
            max_len_bytes,
            controller_id,
            userdata,
            sender,
            meter,
        } => Effect::Controller {
            reason: PacketInReason::Action,
            max_len_bytes,
            controller_id,
            userdata,
            sender,
            meter,
        },
        other => other.map_lists(|nested| as_of_a_rule(&nested)),
    });
    effects.collect()
}

/// The effects without those that send the packet or look it up again.
fn without_sends(effects: &[Effect]) -> Vec<Effect> {
    let kept = effects.iter().filter_map(|effect| match effect {
        // A trace tracks and measures nothing.
        Effect::Output(_)
        | Effect::Recirculate(_)
        | Effect::Track(_)
        | Effect::Meter(_)
        | Effect::Remark(_)
        | Effect::Slow { .. } => None,
        Effect::LearnRule { rule, .. } => Some(Effect::LearnRule {
            rule: rule.clone(),
            outcomes: None,
        }),
        other => Some(other.clone().map_lists(|nested| without_sends(&nested))),
    });
    kept.collect()
}

/// A name as OpenFlow's texts have it: quoted unless it consists of letters and digits.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric());
    match is_plain {
        true => name.to_owned(),
        false => serde_json::Value::from(name).to_string(),
    }
}
