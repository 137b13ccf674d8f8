//! Actions of the pipeline, as OpenFlow tells them.

use bytes::Bytes;
use thalweg_openflow::action::{self as of_action, Instructions};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{self as of, Needs, Value};
use thalweg_packet::PortId;
use thalweg_packet::standard as f;
use thalweg_pipeline::{
    Action, Match, MemberChoice, Output, SampleDirection, Sampling, Tracking, Write, Zone,
};

use super::fields::{name_of, of_subfield};
use super::matching::{from_piece, ones, option_value, port_number};
use super::shape::Shape;
use super::{encap, learning, tracking};

/// What a rule does, with the length that its outputs to ports were sent with.
pub(in crate::openflow) fn instructions(
    actions: &[Action],
    matching: &Match,
    max_length: u16,
) -> Instructions {
    let mut shape = Shape::of(matching);
    let mut told = Instructions::default();
    for action in actions {
        match action {
            Action::ClearActions => told.clear = true,
            Action::WriteActions(set) => told.write = Some(list(set, &mut shape)),
            Action::WriteMetadata { value, mask } => told.metadata = Some((*value, *mask)),
            Action::Goto(table) => told.goto = Some(table.number()),
            action => told.apply.push(of_one(action, &mut shape)),
        }
    }
    set_length(&mut told.apply, max_length);
    set_length(told.write.as_deref_mut().unwrap_or_default(), max_length);
    told
}

/// A bucket's actions, whose packets may be any.
pub(in crate::openflow) fn of_list(actions: &[Action], max_length: u16) -> Vec<of_action::Action> {
    let mut told = list(actions, &mut Shape::default());
    set_length(&mut told, max_length);
    told
}

/// The rest of a list, for packets of any shape, as actions only: instructions as the actions
/// that do the same, and writes to a tag's id that may add the tag as writes of the whole tag.
pub(in crate::openflow) fn of_frozen(actions: &[Action]) -> Vec<of_action::Action> {
    use of_action::Action as Of;
    let told = actions.iter().map(|action| match action {
        Action::Goto(table) => Of::Resubmit {
            port: PortNumber::IN_PORT,
            table: Some(table.number()),
            with_ct: false,
        },
        Action::WriteMetadata { value, mask } => {
            let whole = *mask == u64::MAX;
            set(
                of::FieldId::METADATA,
                (*value).into(),
                (!whole).then_some((*mask).into()),
            )
        }
        Action::SetVlan {
            id,
            priority,
            adds_tag: true,
        } => {
            let present = u128::from(f::VLAN_PRESENT);
            let id = id.map_or((0, 0), |id| (u128::from(id), 0xfff));
            let priority = priority.map_or((0, 0), |priority| (u128::from(priority) << 13, 0xe000));
            set(
                of::FieldId::VLAN_TCI,
                present | id.0 | priority.0,
                Some(present | id.1 | priority.1),
            )
        }
        Action::Clone(nested) => Of::Clone(of_frozen(nested)),
        action => tell(action, &mut Shape::default()),
    });
    told.collect()
}

/// Tells the length of all outputs but those to controllers, which have their own.
fn set_length(told: &mut [of_action::Action], length: u16) {
    for action in told {
        match action {
            of_action::Action::Output { port, max_length } if *port != PortNumber::CONTROLLER => {
                *max_length = length;
            }
            of_action::Action::Clone(nested) => set_length(nested, length),
            _ => {}
        }
    }
}

fn list(actions: &[Action], shape: &mut Shape) -> Vec<of_action::Action> {
    let told = actions.iter().map(|action| of_one(action, shape));
    told.collect()
}

fn of_one(action: &Action, shape: &mut Shape) -> of_action::Action {
    let told = tell(action, shape);
    shape.apply(action);
    told
}

// One match: each action has its counterpart.
fn tell(action: &Action, shape: &mut Shape) -> of_action::Action {
    use of_action::Action as Of;
    match action {
        Action::Output(output) => tell_output(output, shape),
        Action::Group(group) => Of::Group(group.number()),
        Action::SetField(writes) => set_field(writes, shape),
        Action::Move {
            source,
            destination,
        } => match (of_subfield(source, shape), of_subfield(destination, shape)) {
            (Some(source), Some(destination)) => Of::Move {
                source,
                destination,
                is_onf: false,
            },
            _ => untold(action),
        },
        Action::Push(bits) => of_subfield(bits, shape).map_or(untold(action), Of::StackPush),
        Action::Pop(bits) => of_subfield(bits, shape).map_or(untold(action), Of::StackPop),
        Action::SetVlan {
            id: Some(id),
            adds_tag,
            ..
        } => Of::SetVlanVid {
            id: *id,
            adds_tag: *adds_tag && !shape.has(Needs::Vlan),
        },
        Action::SetVlan {
            priority, adds_tag, ..
        } => Of::SetVlanPcp {
            priority: priority.unwrap_or_default(),
            adds_tag: *adds_tag && !shape.has(Needs::Vlan),
        },
        Action::PushVlan(tpid) => Of::PushVlan(*tpid),
        Action::PopVlan => Of::StripVlan,
        Action::PushMpls(ether_type) => Of::PushMpls(*ether_type),
        Action::PopMpls(ether_type) => Of::PopMpls(*ether_type),
        Action::DecTtl => Of::DecTtl(None),
        Action::DecMplsTtl => Of::DecMplsTtl,
        Action::DecNshTtl => Of::DecNshTtl,
        Action::Encap(added) => encap::told(added),
        Action::Decap(packet_type) => Of::Decap {
            packet_type: *packet_type,
        },
        Action::Resubmit {
            in_port,
            table,
            with_tuple,
        } => Of::Resubmit {
            port: in_port.map_or(PortNumber::IN_PORT, port_number),
            table: table.map(|table| table.number()),
            with_ct: *with_tuple,
        },
        Action::Clone(nested) => Of::Clone(list(nested, &mut shape.clone())),
        Action::Note(bytes) => Of::Note(Bytes::copy_from_slice(bytes)),
        Action::Conjunction {
            id,
            clause,
            clauses,
        } => Of::Conjunction {
            id: *id,
            clause: clause - 1,
            clauses: *clauses,
        },
        Action::Exit => Of::Exit,
        Action::SetQueue(queue) => Of::SetQueue(*queue),
        Action::PopQueue => Of::PopQueue,
        Action::Multipath(choice) => match of_subfield(&choice.destination, shape) {
            Some(destination) => Of::Multipath {
                fields: choice.hash.number(),
                basis: choice.basis,
                algorithm: choice.algorithm.number(),
                max_link: (choice.links - 1) as u16,
                argument: choice.argument,
                destination,
            },
            None => untold(action),
        },
        Action::Bundle(choice) => tell_bundle(choice, shape).unwrap_or(untold(action)),
        Action::Track(tracking) => tell_tracking(tracking, shape),
        Action::Untrack => Of::CtClear,
        Action::Learn(learning) => match learning::told(learning, shape) {
            Some(told) => Of::Learn(Box::new(told)),
            None => untold(action),
        },
        Action::FinTimeout { idle_s, hard_s } => Of::FinTimeout {
            idle_s: *idle_s,
            hard_s: *hard_s,
        },
        Action::CheckLarger(check) => match of_subfield(&check.larger, shape) {
            Some(destination) => Of::CheckPacketLarger {
                length: check.limit_bytes,
                destination,
            },
            None => untold(action),
        },
        Action::Sample(sampling) => tell_sample(sampling),
        Action::DebugRecirculation => Of::DebugRecirc,
        Action::DebugSlow => Of::DebugSlow,
        Action::Meter(meter) => Of::Meter(meter.number()),
        Action::WriteMetadata { .. }
        | Action::WriteActions(_)
        | Action::ClearActions
        | Action::Goto(_) => untold(action),
    }
}

/// A `bundle`, if OpenFlow has a name for where the port goes.
fn tell_bundle(choice: &MemberChoice, shape: &Shape) -> Option<of_action::Action> {
    let destination = match &choice.destination {
        Some(bits) => Some(of_subfield(bits, shape)?),
        None => None,
    };
    let members = choice.members.iter().map(|port| port_number(*port));
    Some(of_action::Action::Bundle(Box::new(of_action::Bundle {
        algorithm: choice.algorithm.number(),
        fields: choice.hash.number(),
        basis: choice.basis,
        members: members.collect(),
        destination,
    })))
}

fn tell_sample(sampling: &Sampling) -> of_action::Action {
    of_action::Action::Sample(of_action::Sample {
        probability: sampling.probability,
        collector_set: sampling.collector_set,
        domain: of_action::SampleId::Number(sampling.domain),
        point: of_action::SampleId::Number(sampling.point),
        port: sampling.port.map_or(PortNumber::ANY, port_number),
        direction: match sampling.direction {
            None => 0,
            Some(SampleDirection::Ingress) => 1,
            Some(SampleDirection::Egress) => 2,
        },
        form: 1,
    })
}

/// A `ct`; its zone is a note if OpenFlow cannot say it.
fn tell_tracking(asked: &Tracking, shape: &Shape) -> of_action::Action {
    let zone = match &asked.zone {
        Zone::Number(zone) => of_action::CtZone::Number(*zone),
        Zone::Field(bits) => match of_subfield(bits, shape) {
            Some(bits) => of_action::CtZone::Field(bits),
            None => return untold(&Action::Track(Box::new(asked.clone()))),
        },
    };
    let exec = list(&asked.exec, &mut shape.clone());
    of_action::Action::Ct(Box::new(tracking::told(asked, zone, exec)))
}

/// What no action of OpenFlow says: a note with its text.
fn untold(action: &Action) -> of_action::Action {
    of_action::Action::Note(Bytes::from(format!("{action:?}")))
}

fn tell_output(output: &Output, shape: &Shape) -> of_action::Action {
    use of_action::Action as Of;
    let port = match output {
        Output::Port(PortId(port)) => PortNumber(*port),
        Output::InPort => PortNumber::IN_PORT,
        Output::All => PortNumber::ALL,
        Output::Flood => PortNumber::FLOOD,
        Output::Normal => PortNumber::NORMAL,
        Output::Local => PortNumber::LOCAL,
        Output::Table => PortNumber::TABLE,
        Output::Controller {
            max_len_bytes,
            controller_id,
            reason,
            userdata,
            pause,
            meter,
        } => {
            if *output == Output::to_controller(*max_len_bytes) {
                return Of::Output {
                    port: PortNumber::CONTROLLER,
                    max_length: *max_len_bytes,
                };
            }
            return Of::Controller(of_action::Controller {
                max_length: *max_len_bytes,
                id: *controller_id,
                reason: reason.number(),
                pause: *pause,
                userdata: (!userdata.is_empty()).then(|| Bytes::copy_from_slice(userdata)),
                meter: *meter,
            });
        }
        Output::Truncated {
            port,
            max_len_bytes,
        } => {
            return Of::OutputTruncated {
                port: port_number(*port),
                max_length: *max_len_bytes,
            };
        }
        Output::Enqueue { port, queue } => {
            return Of::Enqueue {
                port: port_number(*port),
                queue: *queue,
            };
        }
        Output::Field(source) => {
            return match of_subfield(source, shape) {
                Some(source) => Of::OutputField {
                    source,
                    max_length: u16::MAX,
                    is_extended: false,
                },
                None => untold(&Action::Output(output.clone())),
            };
        }
    };
    Of::Output {
        port,
        max_length: 0,
    }
}

/// Tells constants by the name that covers them all.
fn set_field(writes: &[Write], shape: &Shape) -> of_action::Action {
    let told = match writes {
        [write] => one_write(write, shape),
        writes => wide_write(writes),
    };
    told.unwrap_or_else(|| untold(&Action::SetField(writes.into())))
}

fn one_write(write: &Write, shape: &Shape) -> Option<of_action::Action> {
    let Write { field, value, mask } = *write;
    if let Some(own) = own_action(write, shape) {
        return Some(own);
    }
    if field == f::VLAN_TCI && mask == 0x1fff {
        return Some(set(of::FieldId::VLAN_VID, value, None));
    }
    let (name, piece) = name_of(field, shape)?;
    if field == f::IN_PORT {
        // Of the two names only this one has a number for no port.
        return Some(set(of::FieldId::IN_PORT, value & ones(16), None));
    }
    let bits = from_piece(mask, &piece);
    let is_whole = bits == from_piece(ones(piece.width_bits), &piece);
    Some(set(
        name,
        from_piece(value, &piece),
        (!is_whole).then_some(bits),
    ))
}

/// The action that has a name of its own for what it writes.
fn own_action(write: &Write, shape: &Shape) -> Option<of_action::Action> {
    use of_action::Action as Of;
    let Write { field, value, mask } = *write;
    Some(match field {
        // Ports without a protocol are those of the old actions.
        f::TP_SRC if mask == ones(16) && !has_ports(shape) => Of::SetTpSrc(value as u16),
        f::TP_DST if mask == ones(16) && !has_ports(shape) => Of::SetTpDst(value as u16),
        // No standard field is the TTL, and from OpenFlow 1.2 on the codec says `ip_dscp`.
        f::IP_TTL if mask == ones(8) => Of::SetNwTtl(value as u8),
        f::MPLS_TTL if mask == ones(8) => Of::SetMplsTtl(value as u8),
        f::IP_DSCP if mask == ones(6) => Of::SetNwTos((value as u8) << 2),
        f::TUN_OPTIONS if mask != 0 => {
            let option = f::tunnel_option_field(mask.trailing_zeros() as u8);
            let field = name_of(option, shape)?.0;
            Of::DeleteField {
                field,
                bytes: field.bytes() as u8,
            }
        }
        _ => return None,
    })
}

fn has_ports(shape: &Shape) -> bool {
    [Needs::Tcp, Needs::Udp, Needs::Sctp]
        .into_iter()
        .any(|needs| shape.has(needs))
}

fn set(field: of::FieldId, value: u128, mask: Option<u128>) -> of_action::Action {
    let length = match field.is_variable() {
        true => option_value(mask.unwrap_or(value)).bytes().len(),
        false => field.bytes(),
    };
    of_action::Action::SetField {
        field,
        value: Value::from_number(value, length),
        mask: mask.map(|mask| Value::from_number(mask, length)),
        form: of_action::SetForm::SetField,
    }
}

/// Tells writes to several registers as one to a wide one.
fn wide_write(writes: &[Write]) -> Option<of_action::Action> {
    let wide = |prefix: &str, count: u16| {
        (0..count).find_map(|number| {
            let field = of::FieldId::named(&format!("{prefix}{number}"))?;
            let pieces = super::fields::pieces(field)?;
            let mut bits = (0, 0);
            for write in writes {
                let piece = pieces.iter().find(|piece| piece.field == write.field)?;
                bits.0 |= from_piece(write.value, piece);
                bits.1 |= from_piece(write.mask, piece);
            }
            let is_whole = bits.1 == ones(field.width_bits());
            Some(set(field, bits.0, (!is_whole).then_some(bits.1)))
        })
    };
    wide("xreg", 8).or_else(|| wide("xxreg", 4))
}
