//! Prints actions like `ofpacts_format` of Open vSwitch.
//!
//! The printer tracks the packet's [`Shape`], because some spellings are refused where the
//! packet may lack the field: `set_field:80->tcp_dst` needs TCP, `mod_tp_dst:80` does not.
//! Without a shape, as in a bucket or for a single action, it uses a spelling that always
//! reads back.

use std::fmt;

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, PortId};

use super::learn::{fin_timeout, learning};
use super::subfield::{covering_name, name_of, subfield, wide_name};
use super::tracking::tracking;
use super::{Context, Out, PortSpelling, hexadecimal, port, text, value};
use crate::action::{Action, Output, SampleDirection, Sampling, Subfield, Write};
use crate::effect::PacketInReason;
use crate::encap::{Encap, NEXT_PROTOCOL};
use crate::links::{LinkChoice, MemberChoice};
use crate::matching::Match;
use crate::text::shape::Needs;
use crate::text::value::ones;

impl fmt::Display for Action {
    /// Prints the action as in a rule with an unknown match.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        action(f, self, Context::default())
    }
}

impl fmt::Display for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        subfield(f, self, Context::default())
    }
}

/// Prints a list of actions as a packet that meets them has it, `drop` if it is empty.
///
/// `packet` is a match that the packet meets: a port is `tcp_dst` in a packet of TCP.
pub fn print_actions(actions: &[Action], packet: &Match, ports: PortSpelling<'_>) -> String {
    let context = Context {
        is_met: true,
        ..Context::of(packet, ports)
    };
    text(|out| list(out, actions, context))
}

/// Prints bits of a field, as [`print_actions`] does.
pub fn print_subfield(bits: &Subfield, packet: &Match) -> String {
    let context = Context::of(packet, PortSpelling::default());
    text(|out| subfield(out, bits, context))
}

/// Prints a value of these bits: in the field's notation if they are all of the field,
/// otherwise in hexadecimal.
pub fn print_value(
    bits: &Subfield,
    number: u128,
    packet: &Match,
    ports: PortSpelling<'_>,
) -> String {
    let context = Context::of(packet, ports);
    let width = bits.width_bits();
    text(|out| match covering_name(bits, context) {
        Some((name, 0)) if name.width_bits == width => {
            value(out, name, (number, ones(width)), context.ports)
        }
        _ => hexadecimal(out, number),
    })
}

/// Writes a list, `drop` if it is empty.
pub(super) fn list(out: Out<'_, '_>, actions: &[Action], context: Context<'_>) -> fmt::Result {
    let mut context = context;
    if actions.is_empty() {
        return out.write_str("drop");
    }
    for (index, each) in actions.iter().enumerate() {
        if index > 0 {
            out.write_str(",")?;
        }
        action(out, each, context)?;
        if let Some(shape) = &mut context.shape {
            shape.apply(each);
        }
    }
    Ok(())
}

fn encap(out: Out<'_, '_>, encap: &Encap) -> fmt::Result {
    let header = match encap {
        Encap::Ethernet => return out.write_str("encap(ethernet)"),
        Encap::Mpls(0x8847) => return out.write_str("encap(mpls)"),
        Encap::Mpls(_) => return out.write_str("encap(mpls_mc)"),
        Encap::Nsh(header) => header,
    };
    let md_type = header.md_type.map(|md_type| format!("md_type={md_type}"));
    let contexts = header.contexts.iter().map(|context| {
        let value: String = context
            .value
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let value = if value.is_empty() {
            value
        } else {
            format!("0x{value}")
        };
        format!("tlv({:#06x},{},{value})", context.class, context.kind)
    });
    let parts: Vec<String> = md_type.into_iter().chain(contexts).collect();
    match parts.is_empty() {
        true => out.write_str("encap(nsh)"),
        false => write!(out, "encap(nsh({}))", parts.join(",")),
    }
}

// One match: each action has its spelling.
fn action(out: Out<'_, '_>, action: &Action, context: Context<'_>) -> fmt::Result {
    match action {
        Action::Output(target) => output(out, target, context),
        Action::Group(group) => write!(out, "group:{}", group.number()),
        Action::SetField(writes) => set_field(out, writes, context),
        Action::Move {
            source,
            destination,
        } => {
            out.write_str("move:")?;
            subfield(out, source, context)?;
            out.write_str("->")?;
            subfield(out, destination, context)
        }
        Action::Push(source) => {
            out.write_str("push:")?;
            subfield(out, source, context)
        }
        Action::Pop(destination) => {
            out.write_str("pop:")?;
            subfield(out, destination, context)
        }
        Action::SetVlan {
            id: None,
            priority: Some(priority),
            adds_tag: false,
        } if has_tag(context) => write!(out, "set_field:{priority}->vlan_pcp"),
        Action::SetVlan {
            id,
            priority,
            adds_tag,
        } => {
            let verb = if *adds_tag { "mod" } else { "set" };
            if let Some(id) = id {
                write!(out, "{verb}_vlan_vid:{id}")?;
            }
            let separator = if id.is_some() { "," } else { "" };
            match priority {
                Some(priority) => write!(out, "{separator}{verb}_vlan_pcp:{priority}"),
                None => Ok(()),
            }
        }
        Action::PushVlan(tpid) => write!(out, "push_vlan:{tpid:#x}"),
        Action::PopVlan => out.write_str("pop_vlan"),
        Action::PushMpls(kind) => write!(out, "push_mpls:{kind:#06x}"),
        Action::PopMpls(kind) => write!(out, "pop_mpls:{kind:#06x}"),
        Action::DecTtl => out.write_str("dec_ttl"),
        Action::DecMplsTtl => out.write_str("dec_mpls_ttl"),
        Action::Encap(added) => encap(out, added),
        Action::Decap(NEXT_PROTOCOL) => out.write_str("decap()"),
        Action::Decap(kind) => {
            let (namespace, kind) = (kind >> 16, kind & 0xffff);
            let prefix = if kind == 0 { "" } else { "0x" };
            write!(
                out,
                "decap(packet_type(ns={namespace},type={prefix}{kind:x}))"
            )
        }
        Action::DecNshTtl => out.write_str("dec_nsh_ttl"),
        Action::Clone(actions) => {
            out.write_str("clone(")?;
            list(out, actions, context)?;
            out.write_str(")")
        }
        Action::WriteActions(actions) => {
            out.write_str("write_actions(")?;
            list(out, actions, context)?;
            out.write_str(")")
        }
        _ => control(out, action, context),
    }
}

/// Writes actions that continue processing elsewhere, and those without effect.
fn control(out: Out<'_, '_>, action: &Action, context: Context<'_>) -> fmt::Result {
    match action {
        Action::Resubmit {
            in_port,
            table,
            with_tuple,
        } => {
            let in_port = in_port.map(|port| u128::from(port.0));
            if let (Some(in_port), None, false) = (in_port, table, with_tuple) {
                out.write_str("resubmit:")?;
                return port(out, in_port, context.ports);
            }
            out.write_str("resubmit(")?;
            in_port.map_or(Ok(()), |in_port| port(out, in_port, context.ports))?;
            match table {
                Some(table) => write!(out, ",{}", table.number())?,
                None => out.write_str(",")?,
            }
            out.write_str(if *with_tuple { ",ct)" } else { ")" })
        }
        Action::SetQueue(queue) => write!(out, "set_queue:{queue}"),
        Action::PopQueue => out.write_str("pop_queue"),
        Action::Note(bytes) => {
            write!(out, "note:{}", dotted(bytes))
        }
        Action::Conjunction {
            id,
            clause,
            clauses,
        } => write!(out, "conjunction({id},{clause}/{clauses})"),
        Action::Multipath(choice) => multipath(out, choice, context),
        Action::Bundle(choice) => bundle(out, choice, context),
        Action::DebugRecirculation => out.write_str("debug_recirc"),
        Action::Meter(meter) => write!(out, "meter:{}", meter.number()),
        Action::DebugSlow => out.write_str("debug_slow"),
        Action::Track(asked) => {
            let exec = text(|out| list(out, &asked.exec, context));
            tracking(out, asked, &exec, context)
        }
        Action::Untrack => out.write_str("ct_clear"),
        Action::Learn(asked) => learning(out, asked, context),
        Action::FinTimeout { idle_s, hard_s } => fin_timeout(out, *idle_s, *hard_s),
        Action::Sample(sampling) => sample(out, sampling, context),
        Action::CheckLarger(check) => {
            write!(out, "check_pkt_larger({})->", check.limit_bytes)?;
            subfield(out, &check.larger, context)
        }
        Action::Exit => out.write_str("exit"),
        Action::ClearActions => out.write_str("clear_actions"),
        Action::WriteMetadata { value, mask } => {
            out.write_str("write_metadata:")?;
            hexadecimal(out, (*value).into())?;
            if *mask != u64::MAX {
                out.write_str("/")?;
                hexadecimal(out, (*mask).into())?;
            }
            Ok(())
        }
        Action::Goto(table) => write!(out, "goto_table:{}", table.number()),
        _ => Ok(()),
    }
}

fn sample(out: Out<'_, '_>, asked: &Sampling, context: Context<'_>) -> fmt::Result {
    write!(
        out,
        "sample(probability={},collector_set_id={},obs_domain_id={},obs_point_id={}",
        asked.probability, asked.collector_set, asked.domain, asked.point,
    )?;
    if let Some(port) = asked.port {
        out.write_str(",sampling_port=")?;
        super::set_output(out, port.0.into(), context.ports)?;
    }
    out.write_str(match asked.direction {
        None => ")",
        Some(SampleDirection::Ingress) => ",ingress)",
        Some(SampleDirection::Egress) => ",egress)",
    })
}

fn output(out: Out<'_, '_>, output: &Output, context: Context<'_>) -> fmt::Result {
    match output {
        Output::Port(number) => {
            out.write_str("output:")?;
            port(out, number.0.into(), context.ports)
        }
        Output::InPort => out.write_str("IN_PORT"),
        Output::All => out.write_str("ALL"),
        Output::Flood => out.write_str("FLOOD"),
        Output::Normal => out.write_str("NORMAL"),
        Output::Local => out.write_str("LOCAL"),
        Output::Table => out.write_str("TABLE"),
        Output::Controller { .. } => controller(out, output),
        Output::Field(source) => {
            out.write_str("output:")?;
            subfield(out, source, context)
        }
        Output::Truncated {
            port,
            max_len_bytes,
        } => {
            out.write_str("output(port=")?;
            single_port(out, *port, context)?;
            write!(out, ",max_len={max_len_bytes})")
        }
        Output::Enqueue { port, queue } => {
            out.write_str("enqueue:")?;
            single_port(out, *port, context)?;
            write!(out, ":{queue}")
        }
    }
}

fn multipath(out: Out<'_, '_>, choice: &LinkChoice, context: Context<'_>) -> fmt::Result {
    write!(
        out,
        "multipath({},{},{},{},{},",
        choice.hash.name(),
        choice.basis,
        choice.algorithm.name(),
        choice.links,
        choice.argument,
    )?;
    subfield(out, &choice.destination, context)?;
    out.write_str(")")
}

fn bundle(out: Out<'_, '_>, choice: &MemberChoice, context: Context<'_>) -> fmt::Result {
    let verb = match choice.destination {
        Some(_) => "bundle_load",
        None => "bundle",
    };
    let (hash, basis, algorithm) = (choice.hash.name(), choice.basis, choice.algorithm.name());
    write!(out, "{verb}({hash},{basis},{algorithm},ofport,")?;
    if let Some(destination) = &choice.destination {
        subfield(out, destination, context)?;
        out.write_str(",")?;
    }
    out.write_str("members:")?;
    for (index, member) in choice.members.iter().enumerate() {
        if index > 0 {
            out.write_str(",")?;
        }
        let short = short_port(*member, context);
        match Output::reserved(short) {
            None | Some(Output::Local | Output::Controller { .. }) => {
                single_port(out, *member, context)?;
            }
            Some(reserved) => output(out, &reserved, context)?,
        }
    }
    out.write_str(")")
}

/// A port's number in its bridge.
fn short_port(number: PortId, context: Context<'_>) -> PortId {
    match context.ports.has_bridges {
        true => PortId(number.0 & 0xffff),
        false => number,
    }
}

/// Writes a port that is one port.
fn single_port(out: Out<'_, '_>, number: PortId, context: Context<'_>) -> fmt::Result {
    match short_port(number, context) == Output::IN_PORT {
        true => out.write_str("IN_PORT"),
        false => port(out, number.0.into(), context.ports),
    }
}

/// Writes an output to the controller, with the options that differ from the default.
fn controller(out: Out<'_, '_>, output: &Output) -> fmt::Result {
    let Output::Controller {
        max_len_bytes,
        controller_id,
        reason,
        userdata,
        pause,
        meter,
    } = output
    else {
        return Ok(());
    };
    if *output == Output::to_controller(*max_len_bytes) {
        return write!(out, "CONTROLLER:{max_len_bytes}");
    }
    let mut options = Vec::new();
    match reason {
        PacketInReason::TableMiss | PacketInReason::NoMatch => {
            options.push("reason=no_match".to_owned())
        }
        PacketInReason::InvalidTtl => options.push("reason=invalid_ttl".to_owned()),
        PacketInReason::ActionSet => options.push("reason=action_set".to_owned()),
        PacketInReason::Group => options.push("reason=group".to_owned()),
        PacketInReason::PacketOut => options.push("reason=packet_out".to_owned()),
        // Only a walk gives the last one.
        PacketInReason::Action | PacketInReason::MissRule => {}
    }
    if *max_len_bytes != u16::MAX {
        options.push(format!("max_len={max_len_bytes}"));
    }
    if *controller_id != 0 {
        options.push(format!("id={controller_id}"));
    }
    if !userdata.is_empty() {
        options.push(format!("userdata={}", dotted(userdata)));
    }
    if *pause {
        options.push("pause".to_owned());
    }
    if let Some(meter) = meter {
        options.push(format!("meter_id={meter}"));
    }
    write!(out, "controller({})", options.join(","))
}

fn dotted(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(".")
}

fn set_field(out: Out<'_, '_>, writes: &[Write], context: Context<'_>) -> fmt::Result {
    if let [
        Write {
            field: f::TUN_OPTIONS,
            mask,
            ..
        },
    ] = writes
    {
        return write!(out, "delete_field:tun_metadata{}", mask.trailing_zeros());
    }
    if let [write] = writes {
        return set_one(out, *write, context);
    }
    let registers: Option<(FieldId, FieldId)> = writes
        .iter()
        .map(|write| write.field)
        .min()
        .zip(writes.iter().map(|write| write.field).max());
    let Some((name, _)) = registers.and_then(|(first, last)| wide_name(first, last)) else {
        return write!(out, "{writes:?}");
    };
    let (mut all_value, mut all_mask) = (0, 0);
    for write in writes {
        let place = name.pieces.iter().find(|piece| piece.field == write.field);
        let offset = place.map_or(0, |piece| piece.name_offset);
        all_value |= write.value << offset;
        all_mask |= write.mask << offset;
    }
    out.write_str("set_field:")?;
    value(out, name, (all_value, all_mask), context.ports)?;
    write!(out, "->{}", name.primary())
}

fn set_one(out: Out<'_, '_>, write: Write, context: Context<'_>) -> fmt::Result {
    let Write {
        field,
        value: bits,
        mask,
    } = write;
    let Some(name) = name_of(field, context) else {
        return write!(out, "{write:?}");
    };
    if field == f::VLAN_TCI {
        return write_tag(out, write, context);
    }
    let width = if field == f::IN_PORT {
        32
    } else {
        name.width_bits
    };
    let is_whole = mask == ones(width);
    let is_allowed = context.is_met || context.shape.is_some_and(|shape| shape.has(name.needs));
    if is_whole && !is_allowed && modify(out, field, bits)? {
        return Ok(());
    }
    if is_whole || name.is_maskable {
        out.write_str("set_field:")?;
        let mask = if is_whole {
            ones(name.width_bits)
        } else {
            mask
        };
        value(out, name, (bits, mask), context.ports)?;
        return write!(out, "->{}", name.primary());
    }
    let offset = mask.trailing_zeros();
    let last = 127 - mask.leading_zeros();
    write!(out, "load:{:#x}->{}", bits >> offset, name.code())?;
    match offset == last {
        true => write!(out, "[{offset}]"),
        false => write!(out, "[{offset}..{last}]"),
    }
}

/// Writes the action that sets a field without a prerequisite, if there is one.
fn modify(out: Out<'_, '_>, field: FieldId, bits: u128) -> Result<bool, fmt::Error> {
    let word = match field {
        f::IP_SRC => "mod_nw_src",
        f::IP_DST => "mod_nw_dst",
        f::IP_DSCP => "mod_nw_tos",
        f::IP_ECN => "mod_nw_ecn",
        f::IP_TTL => "mod_nw_ttl",
        f::TP_SRC => "mod_tp_src",
        f::TP_DST => "mod_tp_dst",
        f::MPLS_LABEL => "set_mpls_label",
        f::MPLS_TC => "set_mpls_tc",
        f::MPLS_TTL => "set_mpls_ttl",
        _ => return Ok(false),
    };
    write!(out, "{word}:")?;
    match field {
        f::IP_SRC | f::IP_DST => super::ipv4(out, bits, ones(32))?,
        f::IP_DSCP => write!(out, "{}", bits << 2)?,
        _ => write!(out, "{bits}")?,
    }
    Ok(true)
}

fn has_tag(context: Context<'_>) -> bool {
    context.shape.is_some_and(|shape| shape.has(Needs::Vlan))
}

/// Writes bits of a tag, with the word for id and bit 12 if these are whole.
fn write_tag(out: Out<'_, '_>, write: Write, context: Context<'_>) -> fmt::Result {
    let Write { value, mask, .. } = write;
    match mask {
        0x1fff if has_tag(context) => write!(out, "set_field:{value}->vlan_vid"),
        0xffff => {
            out.write_str("set_field:")?;
            hexadecimal(out, value)?;
            out.write_str("->vlan_tci")
        }
        _ => {
            out.write_str("set_field:")?;
            hexadecimal(out, value)?;
            write!(out, "/{mask:#x}->vlan_tci")
        }
    }
}
