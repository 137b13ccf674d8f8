//! Packets to controllers and from them.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_control::openflow::target::PacketEvent;
use thalweg_openflow::message::packet::{PacketIn, PacketInFormat, PacketOut};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{Condition, ErrorCode, FieldId, Match, Refusal, Value, refuse};
use thalweg_packet::{FieldDescriptor, Headers, Instant, Packet, PacketPool};
use thalweg_pipeline::{Actions, Counters, Outbox, PacketInReason, Passes, StepKind};

use super::convert;
use super::convert::matching::{port_id, port_number};
use crate::message::PacketIn as Received;
use crate::switch::Switch;

/// Longest packet that a controller may send, in bytes.
const MAX_PACKET_BYTES: usize = 65_535;

/// Most copies that one packet from a controller may become.
const MAX_COPIES: usize = 4_096;

/// What controllers are told of a packet.
pub(super) fn event_of(fields: &[FieldDescriptor], packet: Received) -> PacketEvent {
    let notice = packet.notice;
    let mut conditions = vec![exact(
        FieldId::IN_PORT_OXM,
        port_number(packet.in_port).0.into(),
    )];
    if let Some(sender) = &notice.sender {
        for (register, value) in &sender.registers {
            let name = &fields[register.index()].name;
            conditions.extend(FieldId::named(name).map(|field| exact(field, *value)));
        }
    }
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
            cookie: sender.and_then(|sender| sender.cookie),
            metadata: Match { conditions },
            userdata: Bytes::from(notice.userdata.to_vec()),
            continuation: None,
        },
        controller_id: notice.controller_id,
        // An action's length has been applied where the packet was sent.
        max_length: (notice.reason != PacketInReason::TableMiss).then_some(u16::MAX),
    }
}

fn exact(field: FieldId, value: u128) -> Condition {
    Condition {
        field,
        value: Value::from_number(value, field.bytes()),
        mask: None,
    }
}

/// A controller's packet that can be sent.
pub(super) struct Prepared {
    packet: Packet,
    actions: Actions,
    registers: Vec<(thalweg_packet::FieldId, u128)>,
}

/// Checks a controller's packet and the actions that come with it.
///
/// # Errors
/// If it is no Ethernet frame, or its port or an action is one that it cannot have.
pub(super) fn prepare(asked: &PacketOut) -> Result<Prepared, Refusal> {
    if asked.buffer.is_some() {
        let what = "this switch keeps no packets";
        return Err(refuse(ErrorCode::OFPBRC_BUFFER_UNKNOWN, what));
    }
    if asked.data.len() > MAX_PACKET_BYTES {
        let what = format!("a packet has at most {MAX_PACKET_BYTES} bytes");
        return Err(refuse(ErrorCode::OFPBRC_BAD_PACKET, what));
    }
    let in_port = asked.in_port().unwrap_or(PortNumber::CONTROLLER);
    let is_real = !in_port.is_reserved();
    let may_be = [PortNumber::CONTROLLER, PortNumber::LOCAL, PortNumber::ANY];
    if !is_real && !may_be.contains(&in_port) {
        let what = format!("no packet comes from {in_port}");
        return Err(refuse(ErrorCode::OFPBRC_BAD_PORT, what));
    }
    let actions = convert::actions::of_list(&asked.actions)?;
    let mut packet = Packet::from_bytes(&asked.data);
    packet.set_received(port_id(in_port), Instant::ZERO);
    Headers::parse(packet.bytes()).map_err(|error| {
        let what = format!("the packet cannot be read: {error}");
        refuse(ErrorCode::OFPBRC_BAD_PACKET, what)
    })?;
    Ok(Prepared {
        packet,
        actions: actions.into(),
        registers: registers_of(&asked.metadata)?,
    })
}

/// Sends a controller's packet; the rules that it meets count it.
pub(super) fn send(switch: &mut Switch, prepared: Prepared) {
    let Prepared {
        packet,
        actions,
        registers,
    } = prepared;
    let now = switch.now();
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let shared = switch.shared.clone();
    let pipeline = shared.pipeline.read();
    let version = pipeline.version();
    let mut credits = Vec::new();
    let bytes = packet.len() as u64;
    let passes = Passes::new(&pipeline, version, packet, &mut outbox);
    // A packet that becomes too long on the way ends there.
    for pass in passes.with_actions(actions, &registers).flatten() {
        for step in pass.translation.trace.steps() {
            if let StepKind::Lookup { table, rule } = step.kind {
                credits.push((table, rule));
            }
        }
    }
    drop(pipeline);
    let mut writer = shared.pipeline.write();
    for (table, rule) in credits {
        writer.credit_table(table, 1, u64::from(rule.is_some()));
        if let Some(rule) = rule {
            writer.credit_rule(rule, Counters { packets: 1, bytes }, now);
        }
    }
    drop(writer);
    switch.post(outbox, now);
}

/// The registers that a packet-out of OpenFlow 1.5 begins with.
fn registers_of(metadata: &Match) -> Result<Vec<(thalweg_packet::FieldId, u128)>, Refusal> {
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
    Ok(terms.map(|term| (term.field, term.value)).collect())
}

impl Switch {
    /// Sends what is in an outbox that no worker owns.
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
        let fields = self.pipeline().fields().clone();
        for (notice, packet) in outbox.to_controller.drain(..) {
            let received = Received {
                notice,
                in_port: packet.in_port(),
                received_at: now,
                bytes: packet.bytes().to_vec(),
            };
            let event = event_of(&fields, received);
            let event = thalweg_control::openflow::target::Event::Packet(Box::new(event));
            self.announce(event);
        }
    }
}
