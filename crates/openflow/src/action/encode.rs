//! Writes lists of actions, and the actions whose form is simple.

use super::encoder::{Context, Encoder};
use super::port::narrow;
use super::table::{self, Kind, Row, Shape};
use super::{Action, Subfield, bundle, controller, ct, encap, learn, sample, set_field};
use crate::field::FieldId;
use crate::matching::Match;
use crate::port_number::PortNumber;
use crate::version::Version;
use crate::wire::Writer;

/// Writes actions in the forms of a version. Actions that the version lacks are left out.
///
/// Some forms depend on what the rule matches: see [`encode_actions_for`].
pub fn encode_actions(actions: &[Action], version: Version, writer: &mut Writer) {
    Encoder::new(version, Context::default(), writer).list(actions);
}

/// Writes actions of a rule with these conditions, which say whether a VLAN tag is there and
/// which protocol's ports are set.
pub fn encode_actions_for(
    matching: &Match,
    actions: &[Action],
    version: Version,
    writer: &mut Writer,
) {
    Encoder::new(version, Context::of(matching), writer).list(actions);
}

impl<'w> Encoder<'w> {
    pub(super) fn list(&mut self, actions: &[Action]) {
        for action in actions {
            self.act(action);
        }
    }

    pub(super) fn void(&mut self, kind: Kind) {
        self.put(kind, |_| {});
    }

    pub(super) fn bytes(&mut self, kind: Kind, bytes: &[u8]) {
        self.put(kind, |writer| writer.put(bytes));
    }

    pub(super) fn number(&mut self, kind: Kind, number: impl Into<u64>) {
        let Some(Row { owner, shape, .. }) = table::row(kind, self.version) else {
            return;
        };
        let Shape::Number(bytes) = *shape else {
            unreachable!("{kind:?} is no number");
        };
        let (bytes, header) = (usize::from(bytes), owner.header_bytes());
        let number = number.into().to_be_bytes();
        self.put(kind, |writer| {
            writer.zeros(header.next_multiple_of(bytes) - header);
            writer.put(&number[8 - bytes..]);
        });
    }

    /// Writes a number by an action of older versions, or by `set_field`.
    fn either(&mut self, kind: Kind, old: impl Into<u64>, field: FieldId, new: impl Into<u128>) {
        match self.version < Version::V12 {
            true => self.number(kind, old),
            false => set_field::encode_number(self, field, new.into()),
        }
    }

    pub(super) fn act(&mut self, action: &Action) {
        match action {
            Action::Output { port, max_length } => self.output(*port, *max_length),
            Action::Group(group) => self.number(Kind::Group, *group),
            Action::SetField {
                field,
                value,
                mask,
                form,
            } => {
                set_field::encode(self, *field, value, mask.as_ref(), *form);
            }
            Action::Move {
                source,
                destination,
                is_onf,
            } => {
                set_field::encode_move(self, source, destination, *is_onf);
            }
            Action::Resubmit {
                port,
                table,
                with_ct,
            } => self.resubmit(*port, *table, *with_ct),
            Action::Controller(options) => controller::encode(self, options),
            Action::Ct(options) => ct::encode(self, options),
            Action::Nat(nat) => ct::encode_nat(self, nat),
            Action::Learn(learn) => learn::encode(self, learn),
            Action::Bundle(options) => bundle::encode(self, options),
            Action::Clone(actions) => {
                let (version, context) = (self.version, self.context);
                self.put(Kind::Clone, |writer| {
                    writer.zeros(6);
                    Encoder::new(version, context, writer).list(actions);
                });
            }
            action => self.act_on_headers(action),
        }
    }

    fn output(&mut self, port: PortNumber, max_length: u16) {
        match self.version {
            Version::V10 => self.put(Kind::Output10, |writer| {
                writer.u16(narrow(port));
                writer.u16(max_length);
            }),
            _ => self.put(Kind::Output11, |writer| {
                writer.u32(port.0);
                writer.u16(max_length);
            }),
        }
    }

    pub(super) fn resubmit(&mut self, port: PortNumber, table: Option<u8>, with_ct: bool) {
        let kind = match (table, with_ct) {
            (None, false) => return self.number(Kind::Resubmit, narrow(port)),
            (_, false) => Kind::ResubmitTable,
            (_, true) => Kind::ResubmitTableCt,
        };
        self.put(kind, |writer| {
            writer.u16(narrow(port));
            writer.u8(table.unwrap_or(0xff));
        });
    }

    /// Adds a tag in front of an action that OpenFlow 1.0 lets add one.
    fn add_tag(&mut self, adds_tag: bool) {
        if adds_tag && !self.context.has_vlan && self.version > Version::V10 {
            self.number(Kind::PushVlan, 0x8100u16);
        }
        self.context.has_vlan = true;
    }

    fn act_on_headers(&mut self, action: &Action) {
        let version = self.version;
        match action {
            Action::SetVlanVid { id, adds_tag } => {
                self.add_tag(*adds_tag);
                match version {
                    Version::V10 => self.number(Kind::SetVlanVid10, *id),
                    _ => self.either(Kind::SetVlanVid11, *id, FieldId::VLAN_VID, id | 0x1000),
                }
            }
            Action::SetVlanPcp { priority, adds_tag } => {
                self.add_tag(*adds_tag);
                match version {
                    Version::V10 => self.number(Kind::SetVlanPcp10, *priority),
                    _ => self.either(Kind::SetVlanPcp11, *priority, FieldId::VLAN_PCP, *priority),
                }
            }
            Action::StripVlan => {
                self.context.has_vlan = false;
                self.void(Kind::StripVlan);
            }
            Action::PushVlan(ether_type) => {
                self.context.has_vlan = true;
                self.number(Kind::PushVlan, *ether_type);
            }
            Action::SetDlSrc(address) => self.mac(Kind::SetDlSrc, FieldId::ETH_SRC, *address),
            Action::SetDlDst(address) => self.mac(Kind::SetDlDst, FieldId::ETH_DST, *address),
            Action::SetNwSrc(address) => {
                let number = u32::from_be_bytes(*address);
                self.either(Kind::SetNwSrc, number, FieldId::IP_SRC, number);
            }
            Action::SetNwDst(address) => {
                let number = u32::from_be_bytes(*address);
                self.either(Kind::SetNwDst, number, FieldId::IP_DST, number);
            }
            action => self.act_on_packet(action),
        }
    }

    fn act_on_packet(&mut self, action: &Action) {
        let version = self.version;
        match action {
            Action::SetNwTos(tos) => self.either(Kind::SetNwTos, *tos, FieldId::IP_DSCP, tos >> 2),
            Action::SetNwEcn(ecn) => match version {
                Version::V10 => self.load(FieldId::NW_ECN, *ecn),
                _ => self.either(Kind::SetNwEcn, *ecn, FieldId::NW_ECN, *ecn),
            },
            Action::SetNwTtl(ttl) => match version {
                Version::V10 => self.load(FieldId::NW_TTL, *ttl),
                _ => self.number(Kind::SetNwTtl, *ttl),
            },
            Action::SetTpSrc(port) => self.transport(Kind::SetTpSrc, 0, *port),
            Action::SetTpDst(port) => self.transport(Kind::SetTpDst, 1, *port),
            Action::DecTtl(None) => self.void(Kind::DecTtl),
            Action::DecTtl(Some(ids)) => self.put(Kind::DecTtlIds, |writer| {
                writer.u16(ids.len() as u16);
                writer.zeros(4);
                ids.iter().for_each(|id| writer.u16(*id));
            }),
            Action::SetMplsLabel(label) => {
                self.either(Kind::SetMplsLabel, *label, FieldId::MPLS_LABEL, *label);
            }
            Action::SetMplsTc(tc) => self.either(Kind::SetMplsTc, *tc, FieldId::MPLS_TC, *tc),
            Action::SetMplsTtl(ttl) => self.number(Kind::SetMplsTtl, *ttl),
            Action::DecMplsTtl => self.void(Kind::DecMplsTtl),
            Action::PushMpls(ether_type) => {
                self.context.protocol = None;
                self.number(Kind::PushMpls, *ether_type);
            }
            Action::PopMpls(ether_type) => self.number(Kind::PopMpls, *ether_type),
            action => self.act_otherwise(action),
        }
    }

    fn mac(&mut self, kind: Kind, field: FieldId, address: [u8; 6]) {
        if self.version < Version::V12 {
            return self.bytes(kind, &address);
        }
        let fold = |number: u128, byte: u8| number << 8 | u128::from(byte);
        set_field::encode_number(self, field, address.into_iter().fold(0, fold));
    }

    fn load(&mut self, field: FieldId, number: u8) {
        let part = Subfield::all(field);
        self.put(Kind::Load, |writer| {
            writer.u16(part.packed());
            writer.u32(part.short_header());
            writer.u64(number.into());
        });
    }

    fn transport(&mut self, kind: Kind, place: usize, port: u16) {
        let fields = match self.context.protocol {
            Some(6) => Some([FieldId::TCP_SRC, FieldId::TCP_DST]),
            Some(17) => Some([FieldId::UDP_SRC, FieldId::UDP_DST]),
            Some(132) => Some([FieldId::SCTP_SRC, FieldId::SCTP_DST]),
            _ => None,
        };
        match fields {
            Some(fields) => self.either(kind, port, fields[place], port),
            None => self.number(kind, port),
        }
    }

    fn act_otherwise(&mut self, action: &Action) {
        match action {
            Action::OutputField {
                source,
                max_length,
                is_extended,
            } => self.output_field(source, *max_length, *is_extended),
            Action::OutputTruncated { port, max_length } => {
                self.put(Kind::OutputTruncated, |writer| {
                    writer.u16(narrow(*port));
                    writer.u32(*max_length);
                });
            }
            Action::Enqueue { port, queue } => self.enqueue(*port, *queue),
            Action::StackPush(field) => self.stack(Kind::StackPush, field),
            Action::StackPop(field) => self.stack(Kind::StackPop, field),
            Action::SetTunnel { id, is_wide } => {
                let is_wide = *is_wide || *id > u32::MAX.into();
                let kind = if is_wide {
                    Kind::SetTunnel64
                } else {
                    Kind::SetTunnel
                };
                self.either(kind, *id, FieldId::TUN_ID, *id);
            }
            Action::SetQueue(queue) => self.number(Kind::SetQueue, *queue),
            Action::PopQueue => self.void(Kind::PopQueue),
            Action::FinTimeout { idle_s, hard_s } => self.put(Kind::FinTimeout, |writer| {
                writer.u16(*idle_s);
                writer.u16(*hard_s);
            }),
            Action::Conjunction {
                id,
                clause,
                clauses,
            } => self.put(Kind::Conjunction, |writer| {
                writer.u8(*clause);
                writer.u8(*clauses);
                writer.u32(*id);
            }),
            Action::Multipath {
                fields,
                basis,
                algorithm,
                max_link,
                argument,
                destination,
            } => self.put(Kind::Multipath, |writer| {
                writer.u16(*fields);
                writer.u16(*basis);
                writer.u16(0);
                writer.u16(*algorithm);
                writer.u16(*max_link);
                writer.u32(*argument);
                writer.u16(0);
                writer.u16(destination.packed());
                writer.u32(destination.short_header());
            }),
            action => self.act_alone(action),
        }
    }

    fn act_alone(&mut self, action: &Action) {
        match action {
            Action::Note(note) => self.bytes(Kind::Note, note),
            Action::Exit => self.void(Kind::Exit),
            Action::Sample(options) => sample::encode(self, options),
            Action::CtClear => self.void(Kind::CtClear),
            Action::Encap {
                packet_type,
                header_bytes,
                properties,
            } => encap::encode_encap(self, *packet_type, *header_bytes, properties),
            Action::Decap { packet_type } => self.put(Kind::Decap, |writer| {
                writer.u16(0);
                writer.u32(*packet_type);
            }),
            Action::DecNshTtl => self.void(Kind::DecNshTtl),
            Action::CheckPacketLarger {
                length,
                destination,
            } => self.put(Kind::CheckPacketLarger, |writer| {
                writer.u16(*length);
                writer.u16(destination.offset);
                destination.put_header(None, writer);
            }),
            Action::DeleteField { field, bytes } => set_field::encode_delete(self, *field, *bytes),
            Action::Meter(meter) => self.number(Kind::Meter, *meter),
            Action::DebugRecirc => self.void(Kind::DebugRecirc),
            Action::DebugSlow => self.void(Kind::DebugSlow),
            action => unreachable!("{action:?} is written elsewhere"),
        }
    }

    fn output_field(&mut self, source: &Subfield, max_length: u16, is_extended: bool) {
        if is_extended || source.short_header() == 0 {
            return self.put(Kind::OutputField2, |writer| {
                writer.u16(source.packed());
                writer.u16(max_length);
                source.put_header(None, writer);
            });
        }
        self.put(Kind::OutputField, |writer| {
            writer.u16(source.packed());
            writer.u32(source.short_header());
            writer.u16(max_length);
        });
    }

    fn enqueue(&mut self, port: PortNumber, queue: u32) {
        if self.version == Version::V10 {
            return self.put(Kind::Enqueue, |writer| {
                writer.u16(narrow(port));
                writer.zeros(6);
                writer.u32(queue);
            });
        }
        self.number(Kind::SetQueue, queue);
        self.output(port, u16::MAX);
        self.void(Kind::PopQueue);
    }

    fn stack(&mut self, kind: Kind, field: &Subfield) {
        self.put(kind, |writer| {
            writer.u16(field.offset);
            field.put_header(None, writer);
            writer.u16(field.width_bits);
        });
    }
}
