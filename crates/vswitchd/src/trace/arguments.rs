//! The arguments of `ofproto/trace` and `ofproto/trace-packet-out`.
//!
//! ```text
//!   ofproto/trace            [OPTION]... [DATAPATH] DATAPATH_FLOW [PACKET]
//!                            [OPTION]... BRIDGE BRIDGE_FLOW [PACKET]
//!   ofproto/trace-packet-out the same, and ACTIONS
//!
//!   DATAPATH_FLOW  in_port(1),eth_type(0x0800),ipv4(dst=10.0.0.1)
//!   BRIDGE_FLOW    in_port=1,ip,nw_dst=10.0.0.1
//!   PACKET         bytes in hexadecimal; of the flow counts then only what they do not say
//!   OPTION         -generate (a packet that has the flow's fields), --l7 HEX, --l7-len N,
//!                  --names, --ct-next STATE; of packet-outs -consistent
//! ```
//!
//! Options may stand anywhere. Only a trace with a packet teaches the switch and reaches
//! controllers.

use thalweg_packet::{Layout, PortId, TUNNEL_OPTIONS, standard as f};
use thalweg_pipeline::text::{Parser, PortSpelling, TextError, print_match};
use thalweg_pipeline::{Action, Actions, BridgeId, Match, Pipeline};

use super::bridge_flow;
use super::connection_state::ConnectionState;
use super::error::TraceRefusal;
use super::flow::TracedFlow;
use super::frozen::FrozenTrace;
use super::names::TraceNames;
use crate::datapath_text::{
    DatapathPort, DatapathTextError, FieldBits, FlowReader, FramePayload, OptionBits, compose,
};

/// The most bytes of a generated payload.
const PAYLOAD_BYTES_MAX: usize = 64_000;

/// A packet that a trace asks about.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceQuestion {
    pub(super) flow: TracedFlow,
    pub(super) bridge: BridgeId,
    /// The packet's bytes, if there is a packet.
    pub(super) frame: Option<Vec<u8>>,
    /// The actions of a packet-out; `None` for a lookup in the first table.
    pub(super) actions: Option<Actions>,
    /// The walk that goes on, of a packet that is looked up again.
    pub(super) frozen: Option<FrozenTrace>,
    pub(super) shows_names: bool,
    /// The states after the `ct` actions to come, in order.
    pub(super) next_states: Vec<ConnectionState>,
}

/// The parts of the switch that arguments are read with.
#[derive(Clone, Copy)]
pub(super) struct Switch<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) names: &'a dyn TraceNames,
    /// A layout of all fields.
    pub(super) layout: &'a Layout,
}

/// Options, and the words between them.
#[derive(Default)]
struct Words<'a> {
    words: Vec<&'a str>,
    generates: bool,
    is_consistent: bool,
    shows_names: bool,
    payload: Option<Payload>,
    next_states: Vec<ConnectionState>,
}

enum Payload {
    Bytes(Vec<u8>),
    Count(usize),
}

impl<'a> Words<'a> {
    /// Sorts arguments; packet-outs have an option of their own.
    fn sort(arguments: &'a [String], is_packet_out: bool) -> Result<Words<'a>, TraceRefusal> {
        let mut sorted = Words::default();
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            let mut value = || {
                rest.next()
                    .ok_or(TraceRefusal::MissingArgument(argument.into()))
            };
            match argument {
                "-generate" | "--generate" => sorted.generates = true,
                "--l7" => sorted.payload = Some(Payload::Bytes(bytes(value()?)?)),
                "--l7-len" => sorted.payload = Some(Payload::Count(payload_length(value()?)?)),
                "-consistent" | "--consistent" if is_packet_out => sorted.is_consistent = true,
                "-names" | "--names" => sorted.shows_names = true,
                "--ct-next" => sorted.next_states.push(ConnectionState::read(value()?)?),
                _ if argument.starts_with('-') => {
                    return Err(TraceRefusal::UnknownOption(argument.into()));
                }
                _ if sorted.words.len() == 3 => return Err(TraceRefusal::TooManyArguments),
                _ => sorted.words.push(argument),
            }
        }
        Ok(sorted)
    }

    /// Takes the packet, the last word, if it is there.
    fn take_frame(&mut self) -> Result<Option<Vec<u8>>, TraceRefusal> {
        if self.generates || self.words.len() < 2 {
            return Ok(None);
        }
        match frame(self.words[self.words.len() - 1]) {
            Ok(frame) => {
                self.words.pop();
                Ok(Some(frame))
            }
            Err(refusal) if self.words.len() > 2 => Err(refusal),
            Err(_) => Ok(None),
        }
    }
}

impl TraceQuestion {
    /// Reads the arguments of `ofproto/trace`.
    pub(super) fn of_packet(
        switch: Switch<'_>,
        arguments: &[String],
    ) -> Result<TraceQuestion, TraceRefusal> {
        let words = Words::sort(arguments, false)?;
        Ok(read(switch, words)?.0)
    }

    /// Reads the arguments of `ofproto/trace-packet-out`.
    pub(super) fn of_packet_out(
        switch: Switch<'_>,
        arguments: &[String],
    ) -> Result<TraceQuestion, TraceRefusal> {
        let (actions, others) = match arguments.split_last() {
            Some((actions, others)) => (actions, others),
            None => return Err(TraceRefusal::NoFlow),
        };
        let words = Words::sort(others, true)?;
        let (mut question, is_consistent) = read(switch, words)?;
        let actions = read_actions(switch, actions, &question, is_consistent)?;
        // Without actions, Open vSwitch looks the packet up.
        question.actions = Some(actions).filter(|actions| !actions.is_empty());
        Ok(question)
    }
}

fn read(switch: Switch<'_>, mut words: Words<'_>) -> Result<(TraceQuestion, bool), TraceRefusal> {
    let mut frame = words.take_frame()?;
    let (owner, text) = match *words.words {
        [flow] => (None, flow),
        [owner, flow] => (Some(owner), flow),
        _ => return Err(TraceRefusal::NoFlow),
    };
    let (bridge, mut flow) = read_flow(switch, owner, text)?;
    if words.generates {
        let payload = match &words.payload {
            None => FramePayload::default(),
            Some(Payload::Bytes(bytes)) => FramePayload::Bytes(bytes),
            Some(Payload::Count(count)) => FramePayload::Counted(*count),
        };
        frame = Some(compose(&flow.to_datapath_flow(), payload));
    } else if let Some(frame) = &frame {
        let read = flow.with_frame(switch.layout, frame);
        flow = read.ok_or(TraceRefusal::PacketTooShort)?;
    }
    let frozen = switch.names.frozen(flow.key.get(f::RECIRC_ID) as u32);
    let question = TraceQuestion {
        flow,
        bridge,
        frame,
        actions: None,
        frozen,
        shows_names: words.shows_names,
        next_states: words.next_states,
    };
    Ok((question, words.is_consistent))
}

/// Reads a datapath's or a bridge's flow, and finds the bridge.
fn read_flow(
    switch: Switch<'_>,
    owner: Option<&str>,
    text: &str,
) -> Result<(BridgeId, TracedFlow), TraceRefusal> {
    let names = switch.names;
    let kind = owner.map(|owner| owner.strip_prefix("ovs-").unwrap_or(owner));
    let error = match read_datapath_flow(names, text) {
        Ok(_) if !names.has_datapath(kind) => return Err(TraceRefusal::NoDatapath),
        Ok((flow, options)) => return into_bridge(switch, flow, &options),
        Err(error) => error,
    };
    let is_other = matches!(
        error,
        DatapathTextError::Syntax(_) | DatapathTextError::UnknownPort(_)
    );
    match owner {
        _ if !is_other => Err(TraceRefusal::DatapathFlow(error)),
        None => Err(TraceRefusal::NoBridge(error)),
        Some(owner) => {
            let bridge = names.bridge(owner);
            let bridge = bridge.ok_or_else(|| TraceRefusal::UnknownBridge(owner.into()))?;
            let ports = |name: &str| names.port(bridge, name).map(|port| PortId(port.0 & 0xffff));
            let read = bridge_flow::read(text, &ports);
            let mut flow = read.map_err(|what| TraceRefusal::BridgeFlow(what.into()))?;
            if switch.pipeline.has_bridges() {
                let port = bridge.port(flow.key.get(f::IN_PORT) as u16);
                flow.key.set(f::IN_PORT, port.0.into());
            }
            Ok((bridge, flow))
        }
    }
}

/// Reads a datapath's flow, and the options of its tunnel.
fn read_datapath_flow(
    names: &dyn TraceNames,
    text: &str,
) -> Result<(TracedFlow, Vec<OptionBits>), DatapathTextError> {
    let ports = |port: DatapathPort<'_>| match port {
        DatapathPort::Number(number) => Some(PortId(number)),
        DatapathPort::Name(name) => names.datapath_number(name).map(PortId),
    };
    let mut flow = TracedFlow::default();
    let rest = take_given(text, &mut flow);
    // What a dump shows can be given back: its masks do not matter.
    let read = FlowReader::new(&ports).with_masks().read(&rest)?;
    flow.key = read.key;
    flow.tag_types = read.tag_types;
    flow.tunnel_flags = read.tunnel_flags;
    if read.mask.get(f::IN_PORT) == 0 {
        flow.key.set(f::IN_PORT, u32::MAX.into());
    }
    Ok((flow, read.options))
}

/// Takes the priority, which no field has, out of a datapath flow.
fn take_given(text: &str, flow: &mut TracedFlow) -> String {
    let mut rest = text.to_owned();
    for name in ["skb_priority"] {
        let Some(start) = rest.find(&format!("{name}(")) else {
            continue;
        };
        let inside = &rest[start + name.len() + 1..];
        let Some(len) = inside.find(')') else {
            continue;
        };
        let value = inside[..len].split('/').next().unwrap_or_default();
        let number = match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        if let (Ok(number), Some(place)) = (number, flow.given_mut(name)) {
            *place = number;
            rest.replace_range(start..start + name.len() + len + 2, "");
        }
    }
    rest
}

/// Moves a flow of the datapath to the bridge of its port.
fn into_bridge(
    switch: Switch<'_>,
    mut flow: TracedFlow,
    options: &[OptionBits],
) -> Result<(BridgeId, TracedFlow), TraceRefusal> {
    let recirculation = flow.key.get(f::RECIRC_ID) as u32;
    let frozen = switch.names.frozen(recirculation);
    if recirculation != 0 && frozen.is_none() {
        return Err(TraceRefusal::NoRecirculation(recirculation));
    }
    let number = flow.key.get(f::IN_PORT) as u32;
    let port = switch.names.port_of_datapath(number);
    let mut port = port.ok_or(TraceRefusal::NoOpenFlowPort(number))?;
    let tunnel = flow.tunnel();
    let packet_type = flow.key.get(f::PACKET_TYPE) as u32;
    if tunnel.has_destination()
        && let Some(receiver) = switch.names.tunnel_source(port, &tunnel, packet_type)
    {
        // Tunnels that listen at one place have one number.
        port = receiver.ok_or(TraceRefusal::NoTunnelPort)?;
    }
    flow.key.set(f::IN_PORT, port.0.into());
    let bridge = match switch.pipeline.has_bridges() {
        true => BridgeId::of_port(port),
        false => BridgeId::default(),
    };
    set_options(switch.names, bridge, options, &mut flow.key);
    let entered = frozen.and_then(|frozen| frozen.continuation.entered);
    Ok((entered.unwrap_or(bridge), flow))
}

/// Sets the fields that options of Geneve have in a bridge; others are skipped, as a packet's are.
fn set_options(
    names: &dyn TraceNames,
    bridge: BridgeId,
    options: &[OptionBits],
    key: &mut FieldBits,
) {
    for number in (0..TUNNEL_OPTIONS).filter(|_| !options.is_empty()) {
        let field = f::tunnel_option_field(number);
        let Some(known) = names.option(bridge, field) else {
            continue;
        };
        let is_it = |option: &&OptionBits| {
            (option.class, option.kind, option.len_bytes)
                == (known.class, known.kind, known.len_bytes)
        };
        if let Some((value, _)) = options.iter().find(is_it).and_then(|option| option.bits) {
            key.set(field, value);
            key.set(f::TUN_OPTIONS, key.get(f::TUN_OPTIONS) | 1 << number);
        }
    }
}

/// Reads the actions of a packet-out for this packet.
fn read_actions(
    switch: Switch<'_>,
    text: &str,
    question: &TraceQuestion,
    is_consistent: bool,
) -> Result<Actions, TraceRefusal> {
    const INCONSISTENT: TraceRefusal = TraceRefusal::BadActions("OFPBAC_MATCH_INCONSISTENT");
    let bridge = question.bridge;
    let ports = |name: &str| {
        let port = switch.names.port(bridge, name);
        port.map(|port| PortId(port.0 & 0xffff))
    };
    let mut parser = Parser::new().with_ports(&ports);
    let kind = kind_of(&question.flow);
    let rule = format!(
        "{kind},actions={}",
        if text.trim().is_empty() { "drop" } else { text }
    );
    let read = parser.parse_flow(&rule);
    let read = read.map_err(|error| match error {
        TextError::Prerequisite { .. } => INCONSISTENT,
        TextError::Unknown { kind, name, .. } if kind.starts_with("action") => {
            TraceRefusal::ActionsText(format!("unknown action {name}").into())
        }
        other => TraceRefusal::ActionsText(other.to_string().into()),
    })?;
    for action in read.actions.iter() {
        let instruction = match action {
            Action::Goto(_) => "goto_table",
            Action::WriteActions(_) => "write_actions",
            Action::ClearActions => "clear_actions",
            Action::WriteMetadata { .. } => "write_metadata",
            _ => continue,
        };
        let what = format!("{instruction} instruction not allowed here");
        return Err(TraceRefusal::ActionsText(what.into()));
    }
    if is_consistent && has_no_meaning(text, &question.flow) {
        return Err(INCONSISTENT);
    }
    let flow = match switch.pipeline.has_bridges() {
        true => read.in_bridge(bridge),
        false => read,
    };
    if names_no_group(switch.pipeline, &flow.actions) {
        return Err(TraceRefusal::BadActions("OFPBAC_BAD_OUT_GROUP"));
    }
    Ok(flow.actions)
}

/// The kind of packet, as the conditions of a rule.
fn kind_of(flow: &TracedFlow) -> String {
    let mut kind = Match::default();
    let mut add = |field, mask: u128| {
        let bits = flow.key.get(field) & mask;
        // Each field occurs once.
        let _ = kind.add(field, bits, mask);
    };
    let ether_type = flow.key.get(f::ETH_TYPE);
    if ether_type != 0 {
        add(f::ETH_TYPE, 0xffff);
    }
    if matches!(ether_type, 0x0800 | 0x86dd) {
        add(f::IP_PROTO, 0xff);
        add(f::IP_FRAG, 3);
        if flow.key.get(f::PRESENT_ND) != 0 {
            add(f::ICMP_TYPE, 0xff);
            add(f::ICMP_CODE, 0xff);
        }
    }
    if flow.key.get(f::VLAN_TCI) & u128::from(f::VLAN_PRESENT) != 0 {
        add(f::VLAN_TCI, f::VLAN_PRESENT.into());
    }
    print_match(&kind, PortSpelling::default())
}

/// Whether an old action (`mod_nw_src`) changes a field that the packet does not have.
fn has_no_meaning(actions: &str, flow: &TracedFlow) -> bool {
    let is_ip = matches!(flow.key.get(f::ETH_TYPE), 0x0800 | 0x86dd);
    let has_ports = is_ip && matches!(flow.key.get(f::IP_PROTO), 6 | 17 | 132);
    let words = actions.split([',', '(', ')', ' ']);
    words.map(str::trim).any(|word| {
        word.starts_with("mod_nw_") && !is_ip || word.starts_with("mod_tp_") && !has_ports
    })
}

/// Whether actions name a group that does not exist.
fn names_no_group(pipeline: &Pipeline, actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::Group(group) => pipeline.group(*group, pipeline.version()).is_none(),
        Action::Clone(nested) => names_no_group(pipeline, nested),
        _ => false,
    })
}

/// Reads a packet (`eth_from_hex` of Open vSwitch).
fn frame(digits: &str) -> Result<Vec<u8>, TraceRefusal> {
    let frame = bytes(digits)?;
    match frame.len() {
        0..14 => Err(TraceRefusal::PacketTooShort),
        _ => Ok(frame),
    }
}

/// Reads bytes in hexadecimal, with white space between them.
fn bytes(digits: &str) -> Result<Vec<u8>, TraceRefusal> {
    let digits: Vec<char> = digits
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .collect();
    let byte = |pair: &[char]| match *pair {
        [high, low] => Some((high.to_digit(16)? << 4 | low.to_digit(16)?) as u8),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.ok_or(TraceRefusal::PacketGarbage)
}

fn payload_length(text: &str) -> Result<usize, TraceRefusal> {
    // As C's `atoi` reads it: a text that is no number is zero.
    let count = text.parse::<usize>().unwrap_or(0);
    match count > PAYLOAD_BYTES_MAX {
        true => Err(TraceRefusal::PayloadTooLong(text.into())),
        false => Ok(count),
    }
}
