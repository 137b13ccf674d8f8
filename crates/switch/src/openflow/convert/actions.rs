//! Instructions and actions of OpenFlow, as actions of the pipeline.

use thalweg_conntrack::Alg;
use thalweg_openflow::action::{self as of_action, Instructions, SampleId};
use thalweg_openflow::message::meter::MAX_METER;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{self as of, ErrorCode, Needs, Refusal, Value, refuse};
use thalweg_packet::PortId;
use thalweg_packet::standard as f;
use thalweg_pipeline::{
    Action, Actions, FlowHash, GroupId, LengthCheck, LinkAlgorithm, LinkChoice, Match,
    MemberAlgorithm, MemberChoice, MeterId, Output, PacketInReason, SampleDirection, Sampling,
    Subfield, TableId, Write,
};

use super::fields::{needs_more, pieces_for_action, subfield};
use super::matching::{fits, ones, port_id, to_piece};
use super::shape::Shape;
use super::{encap, learning, tracking};

/// How deep lists may nest.
const MAX_NESTING: usize = 16;

/// The actions of a flow entry.
///
/// # Errors
/// If the pipeline lacks an instruction, an action or a field, or an action needs a header
/// that the match does not promise.
pub(in crate::openflow) fn of_instructions(
    asked: &Instructions,
    matching: &Match,
) -> Result<Actions, Refusal> {
    let mut reader = Reader {
        shape: Some(Shape::of(matching)),
    };
    let mut actions = reader.list(&asked.apply, 1)?;
    if let Some(number) = asked.meter {
        actions.insert(0, meter(number)?);
    }
    if asked.clear {
        actions.push(Action::ClearActions);
    }
    if let Some(set) = &asked.write {
        actions.push(Action::WriteActions(reader.list(set, 1)?.into()));
    }
    if let Some((value, mask)) = asked.metadata {
        actions.push(Action::WriteMetadata {
            value: value & mask,
            mask,
        });
    }
    if let Some(table) = asked.goto {
        actions.push(Action::Goto(TableId(table.into())));
    }
    Ok(actions.into())
}

/// The actions of a bucket or a packet-out, whose packets may be any.
///
/// # Errors
/// If the pipeline lacks an action or a field.
pub(in crate::openflow) fn of_list(asked: &[of_action::Action]) -> Result<Vec<Action>, Refusal> {
    Reader { shape: None }.list(asked, 1)
}

/// What the outputs to ports are sent with: the first that is not zero, as a rule's outputs
/// have one value in practice.
pub(in crate::openflow) fn max_length_of(asked: &Instructions) -> u16 {
    match max_length(&asked.apply) {
        0 => asked.write.as_deref().map_or(0, max_length),
        found => found,
    }
}

/// The same of one list.
pub(in crate::openflow) fn max_length(asked: &[of_action::Action]) -> u16 {
    let found = asked.iter().find_map(|action| match action {
        of_action::Action::Output { port, max_length }
            if *port != PortNumber::CONTROLLER && *max_length != 0 =>
        {
            Some(*max_length)
        }
        of_action::Action::Clone(nested) => Some(max_length(nested)).filter(|found| *found != 0),
        _ => None,
    });
    found.unwrap_or(0)
}

/// Reads lists of actions.
struct Reader {
    /// Known facts about the packet; `None` where the rule is not known.
    shape: Option<Shape>,
}

impl Reader {
    fn list(&mut self, asked: &[of_action::Action], depth: usize) -> Result<Vec<Action>, Refusal> {
        if depth > MAX_NESTING {
            let what = format!("lists of actions are nested deeper than {MAX_NESTING}");
            return Err(refuse(ErrorCode::OFPBAC_TOO_MANY, what));
        }
        let mut actions = Vec::with_capacity(asked.len());
        for action in asked {
            let Some(action) = self.action(action, depth)? else {
                continue;
            };
            if let Some(shape) = &mut self.shape {
                shape.apply(&action);
            }
            actions.push(action);
        }
        Ok(actions)
    }

    /// One action; `None` if it does nothing.
    // One match: each action has its counterpart.
    fn action(
        &mut self,
        asked: &of_action::Action,
        depth: usize,
    ) -> Result<Option<Action>, Refusal> {
        use of_action::Action as Of;
        Ok(Some(match asked {
            Of::Output { port, max_length } => return output(*port, *max_length),
            Of::OutputField { source, .. } => Action::Output(Output::Field(subfield(*source)?)),
            Of::Controller(options) => controller(options)?,
            Of::Group(group) => Action::Group(GroupId((*group).into())),
            Of::SetVlanVid { id, adds_tag } => set_vlan(Some(*id & 0xfff), None, *adds_tag),
            Of::SetVlanPcp { priority, adds_tag } => set_vlan(None, Some(*priority & 7), *adds_tag),
            Of::StripVlan => Action::PopVlan,
            Of::PushVlan(ether_type) => Action::PushVlan(*ether_type),
            Of::PushMpls(ether_type) => Action::PushMpls(*ether_type),
            Of::PopMpls(ether_type) => Action::PopMpls(*ether_type),
            Of::DecTtl(_) => Action::DecTtl,
            Of::DecMplsTtl => Action::DecMplsTtl,
            Of::DecNshTtl => Action::DecNshTtl,
            Of::Encap {
                packet_type,
                properties,
                ..
            } => Action::Encap(encap::encap(*packet_type, properties)?),
            Of::Decap { packet_type } => Action::Decap(*packet_type),
            Of::SetField {
                field, value, mask, ..
            } => self.set_field(*field, value, mask.as_ref())?,
            Of::Move {
                source,
                destination,
                ..
            } => self.copy(*source, *destination)?,
            Of::DeleteField { field, .. } => {
                let number = pieces_for_action(*field)?[0].field;
                let number = f::tunnel_option_of(number).unwrap_or_default();
                write(&[(f::TUN_OPTIONS, 0, 1 << number)])
            }
            Of::StackPush(source) => Action::Push(subfield(*source)?),
            Of::StackPop(destination) => Action::Pop(self.written(*destination)?),
            Of::Resubmit {
                port,
                table,
                with_ct,
            } => Action::Resubmit {
                with_tuple: *with_ct,
                in_port: (*port != PortNumber::IN_PORT).then(|| port_id(*port)),
                table: table
                    .filter(|table| *table != 0xff)
                    .map(|table| TableId(table.into())),
            },
            Of::Clone(nested) => {
                let outside = self.shape;
                let nested = self.list(nested, depth + 1)?;
                self.shape = outside;
                Action::Clone(nested.into())
            }
            Of::SetQueue(queue) => Action::SetQueue(*queue),
            Of::PopQueue => Action::PopQueue,
            Of::Multipath {
                fields,
                basis,
                algorithm,
                max_link,
                argument,
                destination,
            } => Action::Multipath(Box::new(LinkChoice {
                hash: FlowHash::numbered(*fields).ok_or_else(unknown_choice)?,
                basis: *basis,
                algorithm: LinkAlgorithm::numbered(*algorithm).ok_or_else(unknown_choice)?,
                links: u32::from(*max_link) + 1,
                argument: *argument,
                destination: self.written(*destination)?,
            })),
            Of::Bundle(bundle) => self.bundle(bundle)?,
            Of::Ct(asked) => self.tracking(asked, depth)?,
            Of::CtClear => Action::Untrack,
            Of::Learn(asked) => {
                let learning = learning::learning(asked, self.shape.as_ref())?;
                Action::Learn(Box::new(learning))
            }
            Of::FinTimeout { idle_s, hard_s } => self.fin_timeout(*idle_s, *hard_s)?,
            Of::CheckPacketLarger {
                length,
                destination,
            } => Action::CheckLarger(Box::new(LengthCheck {
                limit_bytes: *length,
                larger: self.written(*destination)?,
            })),
            Of::Sample(asked) => sample(asked)?,
            Of::DebugRecirc => Action::DebugRecirculation,
            Of::DebugSlow => Action::DebugSlow,
            Of::Meter(number) => meter(*number)?,
            Of::Enqueue { port, queue } => Action::Output(Output::Enqueue {
                port: port_id(*port),
                queue: *queue,
            }),
            Of::OutputTruncated { port, max_length } => truncated(*port, *max_length)?,
            Of::Note(bytes) => Action::Note(bytes[..].into()),
            Of::Conjunction {
                id,
                clause,
                clauses,
            } => Action::Conjunction {
                id: *id,
                clause: *clause + 1,
                clauses: *clauses,
            },
            Of::Exit => Action::Exit,
            other => return simple_write(other).map(Some),
        }))
    }

    fn fin_timeout(&self, idle_s: u16, hard_s: u16) -> Result<Action, Refusal> {
        let shape = self.shape.as_ref();
        if shape.is_some_and(|shape| !shape.has(Needs::Tcp)) {
            let what = "fin_timeout needs a match on TCP";
            return Err(refuse(ErrorCode::OFPBAC_MATCH_INCONSISTENT, what));
        }
        Ok(Action::FinTimeout { idle_s, hard_s })
    }

    fn set_field(
        &self,
        field: of::FieldId,
        value: &Value,
        mask: Option<&Value>,
    ) -> Result<Action, Refusal> {
        let pieces = pieces_for_action(field)?;
        if !field.is_writable() {
            let what = format!("{field} cannot be written");
            return Err(refuse(ErrorCode::OFPBAC_BAD_SET_ARGUMENT, what));
        }
        self.require(field)?;
        fits(field, value)?;
        let width = ones(field.width_bits().min(128));
        let mask = mask.map_or(width, |mask| mask.number() & width);
        let value = value.number() & mask;
        Ok(match field {
            of::FieldId::IN_PORT | of::FieldId::IN_PORT_OXM if mask == width => {
                let port = match field {
                    of::FieldId::IN_PORT => PortNumber::from_u16(value as u16),
                    _ => PortNumber(value as u32),
                };
                write(&[(f::IN_PORT, port_id(port).0.into(), ones(32))])
            }
            of::FieldId::VLAN_PCP => set_vlan(None, Some(value as u8), false),
            _ => {
                let writes = pieces
                    .iter()
                    .map(|piece| (piece.field, to_piece(value, piece), to_piece(mask, piece)));
                let writes: Vec<_> = writes.filter(|write| write.2 != 0).collect();
                write(&writes)
            }
        })
    }

    fn tracking(&mut self, asked: &of_action::Ct, depth: usize) -> Result<Action, Refusal> {
        let mut tracking = tracking::without_actions(asked, subfield)?;
        let needs = match tracking.alg {
            None => Needs::Ip,
            Some(Alg::Ftp) => Needs::Tcp,
            Some(Alg::Tftp) => Needs::Udp,
        };
        if self.shape.as_ref().is_some_and(|shape| !shape.has(needs)) {
            let what = "ct needs a match on IP, and its alg one on TCP or UDP";
            return Err(refuse(ErrorCode::OFPBAC_MATCH_INCONSISTENT, what));
        }
        let mut exec = &asked.actions[..];
        if let [of_action::Action::Nat(nat), rest @ ..] = exec {
            (tracking.translation, exec) = (Some(tracking::translation(nat)), rest);
        }
        let outside = self.shape;
        tracking.exec = self.list(exec, depth + 1)?.into();
        self.shape = outside;
        Ok(Action::Track(Box::new(tracking)))
    }

    fn bundle(&self, asked: &of_action::Bundle) -> Result<Action, Refusal> {
        let destination = asked.destination.map(|bits| self.written(bits));
        Ok(Action::Bundle(Box::new(MemberChoice {
            hash: FlowHash::numbered(asked.fields).ok_or_else(unknown_choice)?,
            basis: asked.basis,
            algorithm: MemberAlgorithm::numbered(asked.algorithm).ok_or_else(unknown_choice)?,
            members: asked.members.iter().map(|port| port_id(*port)).collect(),
            destination: destination.transpose()?,
        })))
    }

    fn copy(
        &self,
        source: of_action::Subfield,
        destination: of_action::Subfield,
    ) -> Result<Action, Refusal> {
        if source.width_bits != destination.width_bits {
            let what = "a copy has as many bits as its source";
            return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
        }
        self.require(source.field)?;
        Ok(Action::Move {
            source: subfield(source)?,
            destination: self.written(destination)?,
        })
    }

    fn written(&self, bits: of_action::Subfield) -> Result<Subfield, Refusal> {
        if !bits.field.is_writable() {
            let what = format!("{} cannot be written", bits.field);
            return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
        }
        self.require(bits.field)?;
        subfield(bits)
    }

    /// Refuses a field whose header the match does not promise.
    fn require(&self, field: of::FieldId) -> Result<(), Refusal> {
        let lacks = |shape: &Shape| needs_more(field) && !shape.has(field.needs());
        if self.shape.as_ref().is_some_and(lacks) {
            let what = format!("{field} needs a match on its header");
            return Err(refuse(ErrorCode::OFPBAC_MATCH_INCONSISTENT, what));
        }
        Ok(())
    }
}

/// An output to a port; `None` for OpenFlow 1.0's port that stands for nothing.
fn output(port: PortNumber, max_length: u16) -> Result<Option<Action>, Refusal> {
    Ok(Some(Action::Output(match port {
        PortNumber::IN_PORT => Output::InPort,
        PortNumber::TABLE => Output::Table,
        PortNumber::NORMAL => Output::Normal,
        PortNumber::FLOOD => Output::Flood,
        PortNumber::ALL => Output::All,
        PortNumber::CONTROLLER => Output::to_controller(max_length),
        PortNumber::LOCAL => Output::Local,
        PortNumber::ANY => return Ok(None),
        port if port.is_reserved() => {
            let what = format!("{port} is no port that packets go to");
            return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
        }
        port => Output::Port(PortId(port.0)),
    })))
}

fn unknown_choice() -> Refusal {
    let what = "a choice by a hash or an algorithm that is not known";
    refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what)
}

/// An output of the beginning of the packet.
fn truncated(port: PortNumber, max_length: u32) -> Result<Action, Refusal> {
    let is_one_port = matches!(port, PortNumber::LOCAL | PortNumber::IN_PORT);
    if port.is_reserved() && !is_one_port {
        let what = format!("packets are not cut for {port}");
        return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
    }
    Ok(Action::Output(Output::Truncated {
        port: port_id(port),
        max_len_bytes: max_length,
    }))
}

/// Samples, if domain and point of the observation are numbers.
fn sample(asked: &of_action::Sample) -> Result<Action, Refusal> {
    let (SampleId::Number(domain), SampleId::Number(point)) = (asked.domain, asked.point) else {
        let what = "a sample's domain and point are numbers here, not fields";
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    };
    Ok(Action::Sample(Box::new(Sampling {
        probability: asked.probability,
        collector_set: asked.collector_set,
        domain,
        point,
        port: (asked.port != PortNumber::ANY).then(|| port_id(asked.port)),
        direction: match asked.direction {
            1 => Some(SampleDirection::Ingress),
            2 => Some(SampleDirection::Egress),
            _ => None,
        },
    })))
}

/// Measures by a meter that a rule can name.
fn meter(number: u32) -> Result<Action, Refusal> {
    match number {
        1..=MAX_METER => Ok(Action::Meter(MeterId(number.into()))),
        _ => {
            let what = format!("{number} is no meter's number");
            Err(refuse(ErrorCode::OFPMMFC_INVALID_METER, what))
        }
    }
}

fn controller(options: &of_action::Controller) -> Result<Action, Refusal> {
    let reason = match options.reason {
        0 => PacketInReason::NoMatch,
        1 => PacketInReason::Action,
        2 => PacketInReason::InvalidTtl,
        3 => PacketInReason::ActionSet,
        4 => PacketInReason::Group,
        5 => PacketInReason::PacketOut,
        reason => {
            let what = format!("a packet-in has no reason {reason}");
            return Err(refuse(ErrorCode::NXBRC_BAD_REASON, what));
        }
    };
    Ok(Action::Output(Output::Controller {
        max_len_bytes: options.max_length,
        controller_id: options.id,
        reason,
        userdata: options.userdata.as_deref().unwrap_or_default().into(),
        pause: options.pause,
        meter: options.meter,
    }))
}

fn set_vlan(id: Option<u16>, priority: Option<u8>, adds_tag: bool) -> Action {
    Action::SetVlan {
        id,
        priority,
        adds_tag,
    }
}

fn write(writes: &[(thalweg_packet::FieldId, u128, u128)]) -> Action {
    let writes = writes
        .iter()
        .map(|&(field, value, mask)| Write { field, value, mask });
    Action::SetField(writes.collect())
}

/// The actions of OpenFlow 1.0 and 1.1 that name their field; on packets without it they do
/// nothing.
fn simple_write(asked: &of_action::Action) -> Result<Action, Refusal> {
    use of_action::Action as Of;
    let whole = |field, value: u128, width| Ok(write(&[(field, value, ones(width))]));
    let mac = |address: &[u8; 6]| Value::from_bytes(address).number();
    match asked {
        Of::SetDlSrc(address) => whole(f::ETH_SRC, mac(address), 48),
        Of::SetDlDst(address) => whole(f::ETH_DST, mac(address), 48),
        Of::SetNwSrc(address) => whole(f::IP_SRC, u32::from_be_bytes(*address).into(), 32),
        Of::SetNwDst(address) => whole(f::IP_DST, u32::from_be_bytes(*address).into(), 32),
        Of::SetNwTos(tos) => whole(f::IP_DSCP, u128::from(tos >> 2), 6),
        Of::SetNwEcn(ecn) => whole(f::IP_ECN, u128::from(ecn & 3), 2),
        Of::SetNwTtl(ttl) => whole(f::IP_TTL, (*ttl).into(), 8),
        Of::SetTpSrc(port) => whole(f::TP_SRC, (*port).into(), 16),
        Of::SetTpDst(port) => whole(f::TP_DST, (*port).into(), 16),
        Of::SetMplsTtl(ttl) => whole(f::MPLS_TTL, (*ttl).into(), 8),
        Of::SetMplsLabel(label) => whole(f::MPLS_LABEL, u128::from(label & 0xf_ffff), 20),
        Of::SetMplsTc(class) => whole(f::MPLS_TC, u128::from(class & 7), 3),
        Of::SetTunnel { id, .. } => whole(f::TUN_ID, (*id).into(), 64),
        Of::Meter(_) => {
            let what = "this switch does not measure packets by meters yet";
            Err(refuse(ErrorCode::OFPBAC_BAD_TYPE, what))
        }
        other => {
            let name = format!("{other:?}");
            let name = name.split([' ', '(']).next().unwrap_or_default();
            let what = format!("this switch has no action {name} yet");
            Err(refuse(ErrorCode::OFPBAC_BAD_VENDOR_TYPE, what))
        }
    }
}
