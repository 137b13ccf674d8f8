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
//! There is no socket, clock or state here: [`TraceNames`] knows bridges and ports, and a
//! function of the caller writes datapath actions. What a packet does to the switch, the
//! caller does ([`TraceAnswer::packet`]).
//!
//! 1. The walk is the interpreter's own; the narrator only listens.
//! 2. A text is bounded: what is longer is cut off with a line that says so.
//!
//! Open vSwitch follows a packet through its recirculations only where connections are tracked,
//! and so does this: a packet whose labels are gone ends at `recirc(...)`. A select group names
//! the bucket that Thalweg's own hash chooses, without scores. No packet takes a slow path here,
//! so none is told of. A rule keeps no memory of OpenFlow 1.0's actions: `mod_nw_dst` is
//! `set_field:...->ip_dst`, as it is in Open vSwitch when a controller speaks OpenFlow 1.2.

mod arguments;
mod bridge_flow;
mod connection_state;
mod error;
mod flow;
mod mask;
mod names;
mod nodes;
mod sights;

use std::collections::BTreeSet;

use thalweg_packet::{FieldId, Layout, PortId};
use thalweg_pipeline::text::{PortSpelling, print_megaflow_with_ports};
use thalweg_pipeline::{Effect, Pipeline, Translation, observe};

pub use arguments::TraceQuestion;
pub use connection_state::{ConnectionState, ConnectionStateError};
pub use error::TraceRefusal;
pub use names::TraceNames;

use arguments::Switch;
use flow::TracedFlow;
use sights::{Narrator, failure_text};

/// The command that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceCommand {
    /// `ofproto/trace`.
    Trace,
    /// `ofproto/trace-packet-out`.
    TracePacketOut,
}

/// What a packet's walk gives a datapath.
#[derive(Clone, Copy, Debug)]
pub struct TracedActions<'a> {
    /// The result of the walk; its mask is in words of `layout`.
    pub translation: &'a Translation,
    /// A layout of all fields.
    pub layout: &'a Layout,
    /// The packet's key.
    pub key: &'a [u64],
    /// Whether ports are named.
    pub shows_names: bool,
}

/// The answer to a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceAnswer {
    /// The text.
    pub text: String,
    /// The packet, if the question has one: the switch learns from it, and its controllers get
    /// what they are told.
    pub packet: Option<TracedPacket>,
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

/// Reads the arguments of a command and answers it; `datapath_actions` writes the actions of a
/// datapath.
///
/// # Errors
/// If the arguments are not those of the command; the refusal has Open vSwitch's words.
pub fn trace(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    command: TraceCommand,
    arguments: &[String],
    datapath_actions: &dyn Fn(TracedActions<'_>) -> String,
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
    Ok(answer(switch, &question, datapath_actions))
}

fn full_layout(pipeline: &Pipeline) -> Layout {
    let count = pipeline.fields().len() as u16;
    let all: BTreeSet<FieldId> = (0..count).map(FieldId).collect();
    Layout::new(pipeline.fields().clone(), &all).expect("all standard fields fit in a layout")
}

fn answer(
    switch: Switch<'_>,
    question: &TraceQuestion,
    datapath_actions: &dyn Fn(TracedActions<'_>) -> String,
) -> TraceAnswer {
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
    let translation = observe(
        pipeline,
        (layout, &words),
        question.actions.clone(),
        pipeline.version(),
        &mut narrator,
    );
    let mut text = format!("Flow: {}\n", flow.text(ports));
    text += &narrator.nodes.text();
    let last = TracedFlow {
        key: narrator.last.clone(),
        ..flow.clone()
    };
    let is_unchanged = last.key == flow.key && !narrator.set_output.is_set();
    let last = match is_unchanged {
        true => "unchanged".to_owned(),
        false => last.text(ports),
    };
    text += &format!("\nFinal flow: {last}\n");
    let failure = narrator.failure;
    let mask = narrator.examined.mask(&translation, layout, &flow.key);
    let key = &words[..layout.ingress_words()];
    let megaflow = print_megaflow_with_ports(layout, key, &mask, ports);
    text += &format!("Megaflow: {megaflow}\n");
    let actions = datapath_actions(TracedActions {
        translation: &translation,
        layout,
        key,
        shows_names: question.shows_names,
    });
    text += &format!("Datapath actions: {actions}");
    if let Some(bound) = failure {
        let why = failure_text(bound);
        text += &format!("\nTranslation failed ({why}), packet is dropped.\n");
    }
    let packet = question.frame.clone().map(|frame| TracedPacket {
        in_port: flow.in_port(),
        frame,
        effects: without_sends(&translation.effects),
    });
    TraceAnswer { text, packet }
}

/// The effects without those that send the packet or look it up again.
fn without_sends(effects: &[Effect]) -> Vec<Effect> {
    let kept = effects.iter().filter_map(|effect| match effect {
        Effect::Output(_) | Effect::Recirculate(_) => None,
        Effect::Clone(nested) => Some(Effect::Clone(without_sends(nested).into())),
        other => Some(other.clone()),
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
