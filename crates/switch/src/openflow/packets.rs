//! Packets to controllers and from them.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_conntrack::CtState;
use thalweg_control::openflow::target::PacketEvent;
use thalweg_openflow::message::continuation as of;
use thalweg_openflow::message::packet::{PacketIn, PacketInFormat, PacketOut};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{Condition, ErrorCode, FieldId, Match, Refusal, Value, refuse};
use thalweg_packet::standard as f;
use thalweg_packet::{
    Connection, FieldDescriptor, Headers, Instant, Packet, PacketPool, PortId, Scalar, TunnelValues,
};
use thalweg_pipeline::{
    Action, Actions, Change, Continuation, Counters, Effect, NEXT_PROTOCOL, Operation, Outbox,
    PacketInReason, Passes, Pipeline, StepKind, TableId, run,
};

use super::convert::matching::{option_value, port_id, port_number};
use super::numbering::Numbering;
use super::pausing::{self, RunId};
use super::{changes, convert};
use crate::message::PacketIn as Received;
use crate::switch::Switch;

#[cfg(test)]
mod tests;

/// Longest packet that a controller may send, in bytes.
const MAX_PACKET_BYTES: usize = 65_535;

/// Most copies that one packet from a controller may become.
const MAX_COPIES: usize = 4_096;

/// What controllers are told of a packet.
pub(super) fn event_of(
    fields: &[FieldDescriptor],
    numbers: Numbering,
    run: RunId,
    packet: Received,
) -> PacketEvent {
    let notice = packet.notice;
    let mut in_port = packet.in_port;
    let mut conditions = Vec::new();
    for (field, value) in notice.sender.iter().flat_map(|sender| &sender.fields) {
        if *field == f::IN_PORT {
            in_port = PortId(*value as u32);
            continue;
        }
        let name = &fields[field.index()].name;
        conditions.extend(FieldId::named(name).map(|field| exact(field, *value)));
    }
    let untold = told_of_tunnel(notice.tunnel.as_deref());
    for condition in untold {
        if (conditions.iter()).all(|known| known.field != condition.field) {
            conditions.push(condition);
        }
    }
    if notice.packet_type != 0 {
        conditions.push(exact(FieldId::PACKET_TYPE, notice.packet_type.into()));
    }
    conditions.extend(conditions_of(
        &notice.connection,
        notice.packet_type,
        &packet.bytes,
    ));
    let in_port = port_number(numbers.told_port(in_port)).0;
    conditions.push(exact(FieldId::IN_PORT_OXM, in_port.into()));
    conditions.sort_by_key(|condition| condition.field);
    let sender = notice.sender.as_ref();
    PacketEvent {
        packet: PacketIn {
            format: PacketInFormat::Standard,
            data: Bytes::from(packet.bytes),
            total_length: u32::try_from(notice.total_len_bytes).unwrap_or(u32::MAX),
            buffer: None,
            reason: notice.reason.number(),
            table: Some(sender.map_or(0, |sender| sender.table.number())),
            cookie: match notice.reason {
                // Open vSwitch has a rule for it, with this cookie.
                PacketInReason::TableMiss => Some(0),
                _ => sender.and_then(|sender| sender.cookie),
            },
            metadata: Match { conditions },
            userdata: Bytes::from(notice.userdata.to_vec()),
            continuation: None,
        },
        continuation: sender.and_then(|sender| {
            let continuation = sender.continuation.as_deref()?;
            let continuation = numbers.told_continuation(continuation);
            Some(pausing::tell(&continuation, run))
        }),
        controller_id: notice.controller_id,
        // An action's length has been applied where the packet was sent.
        max_length: (notice.reason != PacketInReason::TableMiss).then_some(u16::MAX),
    }
}

/// The conditions on a packet's tunnel, as Open vSwitch tells them (`flow_get_metadata`): also
/// fields that no rule reads.
fn told_of_tunnel(tunnel: Option<&TunnelValues>) -> Vec<Condition> {
    let Some(tunnel) = tunnel else {
        return Vec::new();
    };
    let known = [
        (FieldId::TUN_ID, u128::from(tunnel.id)),
        (FieldId::TUN_SRC, tunnel.ipv4_source.into()),
        (FieldId::TUN_DST, tunnel.ipv4_destination.into()),
        (FieldId::TUN_IPV6_SRC, tunnel.ipv6_source),
        (FieldId::TUN_IPV6_DST, tunnel.ipv6_destination),
        (FieldId::TUN_GBP_ID, tunnel.group_policy_id.into()),
        (FieldId::TUN_GBP_FLAGS, tunnel.group_policy_flags.into()),
    ];
    let known = known.into_iter().filter(|(_, value)| *value != 0);
    known.map(|(field, value)| exact(field, value)).collect()
}

/// What a tracker said of a packet, with the EtherType that its reader needs.
fn conditions_of(connection: &Connection, packet_type: u32, bytes: &[u8]) -> Vec<Condition> {
    let mut conditions = Vec::new();
    let mut tell = |field: FieldId, value: u128| {
        if value != 0 {
            conditions.push(exact(field, value));
        }
    };
    let number = |value: u16| u128::from(value);
    tell(FieldId::CT_STATE, connection.state.into());
    tell(FieldId::CT_ZONE, number(connection.zone));
    tell(FieldId::CT_MARK, connection.mark.into());
    tell(FieldId::CT_LABEL, connection.label);
    if connection.state == 0 {
        return conditions;
    }
    if packet_type != 0 {
        tell(FieldId::ETH_TYPE, number(packet_type as u16));
    } else if let Ok(headers) = Headers::parse(bytes) {
        tell(FieldId::ETH_TYPE, number(headers.scalar(Scalar::EtherType)));
    }
    // Any of the other bits says that there is a connection.
    let is_valid = connection.state & !(CtState::TRACKED.0 | CtState::INVALID.0) != 0;
    if is_valid && connection.protocol != 0 {
        let (source, destination) = match connection.is_ipv6 {
            true => (FieldId::CT_IPV6_SRC, FieldId::CT_IPV6_DST),
            false => (FieldId::CT_NW_SRC, FieldId::CT_NW_DST),
        };
        tell(source, connection.source);
        tell(destination, connection.destination);
        tell(FieldId::CT_NW_PROTO, connection.protocol.into());
        tell(FieldId::CT_TP_SRC, number(connection.source_port));
        tell(FieldId::CT_TP_DST, number(connection.destination_port));
    }
    conditions
}

fn exact(field: FieldId, value: u128) -> Condition {
    Condition {
        field,
        value: match field.is_variable() {
            true => option_value(value),
            false => Value::from_number(value, field.bytes()),
        },
        mask: None,
    }
}

/// A controller's packet that can be sent.
pub(super) struct Prepared {
    packet: Packet,
    /// The walk to execute for it.
    continuation: Continuation,
    /// Registers, metadata and tunnel fields.
    fields: Vec<(thalweg_packet::FieldId, u128)>,
}

impl Prepared {
    /// All actions that it may meet before it meets a rule.
    pub(super) fn actions(&self) -> Actions {
        pausing::all_actions(&self.continuation)
    }

    /// The operation that is needed before the packet can be processed, if one is: what its
    /// actions read must be in the key.
    ///
    /// # Errors
    /// If an action makes no sense, or no key has room for what the actions read.
    pub(super) fn foresight(&self, pipeline: &Pipeline) -> Result<Option<Operation>, Refusal> {
        let mut foreseen = self.actions().to_vec();
        if self.packet.is_layer3() {
            // The key must tell it from a packet with Ethernet.
            foreseen.push(Action::Decap(NEXT_PROTOCOL));
        }
        let operation = Operation::Foresee(foreseen.into());
        let change = Change::one(operation.clone());
        let plan = pipeline.plan(&change);
        let plan = plan.map_err(|error| changes::refusal_of(&error))?;
        Ok(plan.needs_new_layout().then_some(operation))
    }

    /// What the controller gave and no rule or action reads or writes: no walk carries it, so
    /// controllers are told of it as it was given.
    fn unread_fields(&self, pipeline: &Pipeline) -> Vec<(thalweg_packet::FieldId, u128)> {
        let known = pipeline.layout().used();
        let given = self.fields.iter().copied();
        let unread = given.filter(|(field, value)| !known.contains(field) && *value != 0);
        unread.collect()
    }

    /// What becomes of the packet at the newest version.
    pub(super) fn passes<'a>(self, pipeline: &'a Pipeline, outbox: &'a mut Outbox) -> Passes<'a> {
        let version = pipeline.version();
        let passes = Passes::new(pipeline, version, self.packet, outbox);
        passes.with_continuation(self.continuation, &self.fields)
    }
}

/// Checks a controller's packet and the actions that come with it.
///
/// # Errors
/// If it cannot be read as a packet of its type, or it cannot have its port or an action.
pub(super) fn prepare(numbers: Numbering, asked: &PacketOut) -> Result<Prepared, Refusal> {
    if asked.buffer.is_some() {
        let what = "this switch keeps no packets";
        return Err(refuse(ErrorCode::OFPBRC_BUFFER_UNKNOWN, what));
    }
    let in_port = asked.in_port().unwrap_or(PortNumber::CONTROLLER);
    let actions = convert::actions::of_list(&asked.actions)?;
    let continuation = Continuation {
        is_packet_out: true,
        ..Continuation::of_list(actions.into(), TableId(0))
    };
    let mut fields = fields_of(&asked.metadata)?;
    let packet_type = take_packet_type(&mut fields);
    Ok(Prepared {
        packet: packet_of(numbers, &asked.data, packet_type, in_port)?,
        continuation: numbers.continuation(continuation),
        fields,
    })
}

/// Checks a packet that a controller lets go on.
///
/// # Errors
/// As for a packet-out, or if this switch has not paused the packet.
pub(super) fn prepare_resumption(
    numbers: Numbering,
    asked: &PacketIn,
    continuation: &of::PacketContinuation,
    run: RunId,
) -> Result<Prepared, Refusal> {
    let continuation = numbers.continuation(pausing::read(continuation, run)?);
    let mut fields = fields_of(&asked.metadata)?;
    let packet_type = take_packet_type(&mut fields);
    pausing::check_fields(&fields)?;
    Ok(Prepared {
        packet: packet_of(
            numbers,
            &asked.data,
            packet_type,
            asked.metadata.in_port().unwrap_or(PortNumber::ANY),
        )?,
        continuation,
        fields,
    })
}

/// A controller's packet that seems to come from a port.
fn packet_of(
    numbers: Numbering,
    data: &Bytes,
    packet_type: u32,
    in_port: PortNumber,
) -> Result<Packet, Refusal> {
    if data.len() > MAX_PACKET_BYTES {
        let what = format!("a packet has at most {MAX_PACKET_BYTES} bytes");
        return Err(refuse(ErrorCode::OFPBRC_BAD_PACKET, what));
    }
    let may_be = [PortNumber::CONTROLLER, PortNumber::LOCAL, PortNumber::ANY];
    if in_port.is_reserved() && !may_be.contains(&in_port) {
        let what = format!("no packet comes from {in_port}");
        return Err(refuse(ErrorCode::OFPBRC_BAD_PORT, what));
    }
    let mut packet = match packet_type {
        0 => Packet::from_bytes(data),
        0x1_0600..=0x1_ffff => Packet::from_layer3(packet_type as u16, data),
        _ => {
            let what = format!("a packet of the type {packet_type:#x} cannot be read");
            return Err(refuse(ErrorCode::OFPBRC_BAD_PACKET, what));
        }
    };
    packet.set_received(numbers.port(port_id(in_port)), Instant::ZERO);
    Headers::parse(packet.bytes()).map_err(|error| {
        let what = format!("the packet cannot be read: {error}");
        refuse(ErrorCode::OFPBRC_BAD_PACKET, what)
    })?;
    Ok(packet)
}

/// Lets a paused packet go on.
///
/// # Errors
/// As [`Prepared::foresight`] has.
pub(super) fn resume(switch: &mut Switch, prepared: Prepared) -> Result<(), Refusal> {
    let foresight = prepared.foresight(&switch.pipeline())?;
    if let Some(operation) = foresight {
        let applied = switch.apply(&Change::one(operation));
        applied.map_err(|error| changes::refusal_of(&error))?;
    }
    send(switch, prepared);
    Ok(())
}

/// Sends a controller's packet; the rules, groups and patches that it meets count it.
pub(super) fn send(switch: &mut Switch, prepared: Prepared) {
    let now = switch.now();
    let mut outbox = switch.own_outbox(now);
    let shared = switch.shared.clone();
    let pipeline = shared.pipeline.read();
    let unread = prepared.unread_fields(&pipeline);
    let mut credits = Vec::new();
    let bytes = prepared.packet.own_len() as u64;
    // A packet that becomes too long on the way ends there.
    for pass in prepared.passes(&pipeline, &mut outbox).flatten() {
        for step in pass.translation.trace.steps() {
            credits.push(step.kind);
        }
    }
    drop(pipeline);
    for (notice, _) in &mut outbox.to_controller {
        if let Some(sender) = &mut notice.sender {
            sender.fields = sender.fields.iter().chain(&unread).copied().collect();
        }
    }
    let mut writer = shared.pipeline.write();
    let counters = Counters { packets: 1, bytes };
    for kind in credits {
        match kind {
            StepKind::Lookup { table, rule } => {
                writer.credit_table(table, 1, u64::from(rule.is_some()));
                if let Some(rule) = rule {
                    writer.credit_rule(rule, counters, now);
                }
            }
            StepKind::Unmatched {
                bridge,
                to_controller,
            } => writer.credit_unmatched(bridge, to_controller, counters),
            StepKind::Fragment { table } => writer.credit_fragments(table, counters),
            StepKind::Bucket { group, bucket } => writer.credit_bucket(group, bucket, counters),
            StepKind::Patch { from, to } => writer.credit_patch(from, to, counters),
            StepKind::Mirror(mirror) => writer.credit_mirror(mirror, counters),
            StepKind::Station { .. } | StepKind::ActionSet | StepKind::Resumption { .. } => {}
        }
    }
    drop(writer);
    switch.post(outbox, now);
}

/// The registers, metadata and tunnel fields that a controller gives a packet.
fn fields_of(metadata: &Match) -> Result<Vec<(thalweg_packet::FieldId, u128)>, Refusal> {
    let is_port = |field| matches!(field, FieldId::IN_PORT | FieldId::IN_PORT_OXM);
    let conditions = metadata.conditions.iter();
    let rest = Match {
        conditions: conditions
            .filter(|condition| !is_port(condition.field))
            .cloned()
            .collect(),
    };
    let matching = convert::matching::matching(&rest)?;
    let terms = matching.terms().iter();
    // Beside fields of a connection there is the EtherType that their reader needs.
    let is_tracked = matching.term(f::CT_STATE).is_some();
    let terms = terms.filter(|term| !is_tracked || term.field != f::ETH_TYPE);
    Ok(terms.map(|term| (term.field, term.value)).collect())
}

/// Takes the packet's type out of what a controller gives with it; 0 for Ethernet.
fn take_packet_type(fields: &mut Vec<(thalweg_packet::FieldId, u128)>) -> u32 {
    let place = fields
        .iter()
        .position(|(field, _)| *field == f::PACKET_TYPE);
    place.map_or(0, |place| fields.remove(place).1 as u32)
}

impl Switch {
    /// Runs effects on a packet that no worker has received, as if one had: it is sent, learned
    /// from, and told to controllers, as they say. Bytes that are no frame do nothing.
    pub fn run_effects(&mut self, in_port: PortId, frame: &[u8], effects: &[Effect]) {
        let Ok(headers) = Headers::parse(frame) else {
            return;
        };
        let now = self.now();
        let mut outbox = self.own_outbox(now);
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(in_port, now);
        let fields = self.pipeline().fields().clone();
        let connection = &Connection::NONE;
        run(effects, &fields, packet, headers, connection, &mut outbox);
        self.post(outbox, now);
    }

    /// An outbox that no worker owns, for packets at this time.
    fn own_outbox(&self, now: Instant) -> Outbox {
        let pool = PacketPool::with_capacity(0, 0);
        let mut outbox = Outbox::with_connections(pool, self.shared.connections.clone())
            .with_meters(self.pipeline().meters().clone());
        (outbox.grows, outbox.now) = (true, now);
        outbox.chance = self.shared.connections.seed() ^ now.as_nanos();
        outbox.learned = self.shared.learned.clone();
        outbox
    }

    /// Sends and handles the content of an outbox that no worker owns.
    fn post(&mut self, mut outbox: Outbox, now: Instant) {
        let routes = Arc::clone(&self.routes);
        for (port, packet) in outbox.sent.drain(..).take(MAX_COPIES) {
            let Some(route) = routes.find(port) else {
                continue;
            };
            let exchange = &self.shared.exchanges[route.worker];
            let mut leaving = vec![(route.place, packet)];
            exchange.leave(&mut leaving, &mut outbox.pool);
            self.shared.doorbells[route.worker].ring();
        }
        for (station, port) in outbox.stations_seen.drain(..) {
            self.handle_station(station, port);
        }
        self.take_lessons(std::mem::take(&mut outbox.rules_taught));
        self.shorten_timeouts(std::mem::take(&mut outbox.fin_timeouts));
        let received = outbox.to_controller.drain(..);
        let received = received.map(|(notice, packet)| Received {
            notice,
            in_port: packet.in_port(),
            received_at: now,
            bytes: packet.bytes().to_vec(),
        });
        self.announce_packets(received.collect());
    }
}
