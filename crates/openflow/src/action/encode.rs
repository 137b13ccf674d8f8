//! Writes actions, in the form that Open vSwitch chooses for a version.

use super::subfield::{encode_name, name_bytes, offset_bits};
use super::table::{Form, Owner, number_of};
use super::{Action, Bundle, Controller, Sample, SampleId, Subfield, learn, nested};
use crate::field::{Class, FieldId, Value};
use crate::matching::Condition;
use crate::message::port::PortNumber;
use crate::version::Version;
use crate::wire::Writer;

/// Writes a list of actions. What a version cannot say is left out.
pub(crate) fn encode_actions(actions: &[Action], version: Version, writer: &mut Writer) {
    let mut output = Output { version, writer };
    for action in actions {
        output.action(action);
    }
}

struct Output<'a> {
    version: Version,
    writer: &'a mut Writer,
}

impl Output<'_> {
    /// Writes a form's header, then its body, then padding.
    fn put(&mut self, form: Form, body: impl FnOnce(&mut Writer, Owner)) {
        let Some((owner, number)) = number_of(self.version, form) else {
            return;
        };
        let start = self.writer.len();
        match owner {
            Owner::Standard => {
                self.writer.u16(number);
                self.writer.u16(0);
            }
            Owner::Nicira | Owner::Onf => {
                let experimenter = match owner {
                    Owner::Onf => crate::ONF,
                    _ => crate::NICIRA,
                };
                self.writer.u16(0xffff);
                self.writer.u16(0);
                self.writer.u32(experimenter);
                self.writer.u16(number);
            }
        }
        body(self.writer, owner);
        // An experimenter's action has 16 bytes at the least.
        let least = if owner == Owner::Standard { 8 } else { 16 };
        let written = self.writer.len() - start;
        self.writer.zeros(least - written.min(least));
        self.writer.pad_to_8(start);
        self.writer.patch_length(start + 2, start);
    }

    fn empty(&mut self, form: Form) {
        self.put(form, |_, _| {});
    }

    fn byte(&mut self, form: Form, number: u8) {
        self.put(form, |writer, _| writer.u8(number));
    }

    fn short(&mut self, form: Form, number: u16) {
        self.put(form, |writer, _| writer.u16(number));
    }

    fn long(&mut self, form: Form, number: u32) {
        self.put(form, |writer, owner| {
            writer.zeros(if owner == Owner::Standard { 0 } else { 2 });
            writer.u32(number);
        });
    }

    fn bytes(&mut self, form: Form, bytes: &[u8]) {
        self.put(form, |writer, _| writer.put(bytes));
    }

    fn has(&self, form: Form) -> bool {
        number_of(self.version, form).is_some()
    }

    /// Writes a whole field: by `set_field`, or before OpenFlow 1.2 by `reg_load`.
    fn whole(&mut self, field: FieldId, number: u128) {
        let value = Value::from_number(number, field.bytes());
        match self.version >= Version::V12 {
            true => self.set_field(field, &value, None),
            false => self.loads(field, &value, None),
        }
    }

    fn action(&mut self, action: &Action) {
        let is_old = self.version < Version::V12;
        match action {
            Action::Output { port, max_length } => self.output(*port, *max_length),
            Action::Group(group) => self.long(Form::Group, *group),
            Action::SetVlanVid { id, adds_tag } => {
                self.add_tag(*adds_tag);
                match is_old {
                    true => self.short(Form::SetVlanVid, *id),
                    false => self.whole(FieldId::VLAN_VID, u128::from(*id) | 0x1000),
                }
            }
            Action::SetVlanPcp { priority, adds_tag } => {
                self.add_tag(*adds_tag);
                match is_old {
                    true => self.byte(Form::SetVlanPcp, *priority),
                    false => self.whole(FieldId::VLAN_PCP, (*priority).into()),
                }
            }
            Action::StripVlan => self.empty(Form::PopVlan),
            Action::PushVlan(tpid) => self.short(Form::PushVlan, *tpid),
            Action::PushMpls(kind) => self.short(Form::PushMpls, *kind),
            Action::PopMpls(kind) => self.short(Form::PopMpls, *kind),
            Action::DecMplsTtl => self.empty(Form::DecMplsTtl),
            Action::SetMplsTtl(ttl) => self.byte(Form::SetMplsTtl, *ttl),
            Action::SetQueue(queue) => self.long(Form::SetQueue, *queue),
            Action::PopQueue => self.empty(Form::PopQueue),
            Action::Exit => self.empty(Form::Exit),
            Action::CtClear => self.empty(Form::CtClear),
            Action::DecNshTtl => self.empty(Form::DecNshTtl),
            Action::DebugSlow => self.empty(Form::DebugSlow),
            Action::DebugRecirc => self.empty(Form::DebugRecirc),
            Action::Meter(meter) => self.long(Form::Meter, *meter),
            Action::Note(bytes) => self.bytes(Form::Note, bytes),
            action => self.field_or_structure(action),
        }
    }

    /// The actions that were fields' own before OpenFlow 1.2.
    fn field_or_structure(&mut self, action: &Action) {
        let is_old = self.version < Version::V12;
        let mac = |address: &[u8; 6]| Value::from_bytes(address).number();
        match action {
            Action::SetDlSrc(address) if is_old => self.bytes(Form::SetDlSrc, &padded(address)),
            Action::SetDlDst(address) if is_old => self.bytes(Form::SetDlDst, &padded(address)),
            Action::SetNwSrc(address) if is_old => self.bytes(Form::SetNwSrc, address),
            Action::SetNwDst(address) if is_old => self.bytes(Form::SetNwDst, address),
            Action::SetNwTos(tos) if is_old => self.byte(Form::SetNwTos, *tos),
            Action::SetTpSrc(port) if is_old => self.short(Form::SetTpSrc, *port),
            Action::SetTpDst(port) if is_old => self.short(Form::SetTpDst, *port),
            Action::SetMplsLabel(label) if is_old => self.long(Form::SetMplsLabel, *label),
            Action::SetMplsTc(class) if is_old => self.byte(Form::SetMplsTc, *class),
            Action::SetNwEcn(ecn) if self.version == Version::V11 => {
                self.byte(Form::SetNwEcn, *ecn);
            }
            Action::SetNwTtl(ttl) if self.has(Form::SetNwTtl) => self.byte(Form::SetNwTtl, *ttl),
            Action::SetDlSrc(address) => self.whole(FieldId::ETH_SRC, mac(address)),
            Action::SetDlDst(address) => self.whole(FieldId::ETH_DST, mac(address)),
            Action::SetNwSrc(address) => {
                self.whole(FieldId::IP_SRC, u32::from_be_bytes(*address).into());
            }
            Action::SetNwDst(address) => {
                self.whole(FieldId::IP_DST, u32::from_be_bytes(*address).into());
            }
            Action::SetNwTos(tos) => self.whole(FieldId::IP_DSCP, (tos >> 2).into()),
            Action::SetNwEcn(ecn) => self.whole(FieldId::NW_ECN, (*ecn).into()),
            Action::SetNwTtl(ttl) => self.whole(FieldId::NW_TTL, (*ttl).into()),
            // Without a protocol, Open vSwitch takes the port for one of TCP.
            Action::SetTpSrc(port) => self.whole(FieldId::TCP_SRC, (*port).into()),
            Action::SetTpDst(port) => self.whole(FieldId::TCP_DST, (*port).into()),
            Action::SetMplsLabel(label) => self.whole(FieldId::MPLS_LABEL, (*label).into()),
            Action::SetMplsTc(class) => self.whole(FieldId::MPLS_TC, (*class).into()),
            Action::SetTunnel { id, is_wide } => self.tunnel(*id, *is_wide),
            Action::SetField {
                field,
                value,
                mask,
                is_load,
            } => self.write_field(*field, value, mask.as_ref(), *is_load),
            Action::Move {
                source,
                destination,
            } => self.copy(*source, *destination),
            action => self.structure(action),
        }
    }

    fn structure(&mut self, action: &Action) {
        match action {
            Action::OutputField { source, max_length } => self.output_field(*source, *max_length),
            Action::OutputTruncated { port, max_length } => {
                self.put(Form::OutputTruncated, |writer, _| {
                    writer.u16(port.to_u16().unwrap_or(u16::MAX));
                    writer.u32(*max_length);
                });
            }
            Action::Controller(options) => self.controller(options),
            Action::Enqueue { port, queue } => self.enqueue(*port, *queue),
            Action::Bundle(bundle) => self.bundle(bundle),
            Action::StackPush(bits) => self.stack(Form::StackPush, *bits),
            Action::StackPop(bits) => self.stack(Form::StackPop, *bits),
            Action::DecTtl(ids) if **ids == [0] => self.empty(Form::DecNwTtl),
            Action::DecTtl(ids) => self.put(Form::DecTtlIds, |writer, _| {
                writer.u16(ids.len() as u16);
                writer.zeros(4);
                ids.iter().for_each(|id| writer.u16(*id));
            }),
            Action::FinTimeout { idle_s, hard_s } => self.put(Form::FinTimeout, |writer, _| {
                writer.u16(*idle_s);
                writer.u16(*hard_s);
            }),
            Action::Resubmit {
                port,
                table,
                with_ct,
            } => self.resubmit(*port, *table, *with_ct),
            Action::Learn(learn) => {
                let form = match learn::needs_second_form(learn) {
                    true => Form::Learn2,
                    false => Form::Learn,
                };
                self.put(form, |writer, _| learn::encode(learn, writer));
            }
            Action::Conjunction {
                id,
                clause,
                clauses,
            } => self.put(Form::Conjunction, |writer, _| {
                writer.u8(*clause);
                writer.u8(*clauses);
                writer.u32(*id);
            }),
            Action::Sample(sample) => self.sample(sample),
            Action::Ct(ct) => {
                let version = self.version;
                self.put(Form::Ct, |writer, _| nested::encode_ct(ct, version, writer));
            }
            Action::Nat(nat) => self.put(Form::Nat, |writer, _| nested::encode_nat(nat, writer)),
            Action::Clone(list) => {
                let version = self.version;
                self.put(Form::Clone, |writer, _| {
                    writer.zeros(6);
                    encode_actions(list, version, writer);
                });
            }
            Action::Encap {
                packet_type,
                properties,
            } => self.put(Form::Encap, |writer, _| {
                writer.u16(0);
                writer.u32(*packet_type);
                writer.put(properties);
            }),
            Action::Decap { packet_type } => self.put(Form::Decap, |writer, _| {
                writer.u16(0);
                writer.u32(*packet_type);
            }),
            Action::CheckPacketLarger {
                length,
                destination,
            } => self.put(Form::CheckPacketLarger, |writer, _| {
                writer.u16(*length);
                writer.u16(destination.offset);
                encode_name(destination.field, None, writer);
                writer.zeros(10 - name_bytes(destination.field));
            }),
            Action::DeleteField(field) => self.put(Form::DeleteField, |writer, _| {
                encode_name(*field, None, writer);
                writer.zeros(14 - name_bytes(*field));
            }),
            Action::WriteMetadata { value, mask } => self.put(Form::WriteMetadata, |writer, _| {
                writer.zeros(6);
                writer.u64(*value);
                writer.u64(*mask);
            }),
            action => self.multipath(action),
        }
    }

    fn multipath(&mut self, action: &Action) {
        let Action::Multipath {
            fields,
            basis,
            algorithm,
            max_link,
            argument,
            destination,
        } = action
        else {
            return;
        };
        self.put(Form::Multipath, |writer, _| {
            writer.u16(*fields);
            writer.u16(*basis);
            writer.zeros(2);
            writer.u16(*algorithm);
            writer.u16(*max_link);
            writer.u32(*argument);
            writer.zeros(2);
            writer.u16(offset_bits(*destination));
            encode_name(destination.field, None, writer);
        });
    }

    /// Adds the tag that OpenFlow 1.0's actions add by themselves.
    fn add_tag(&mut self, adds_tag: bool) {
        if adds_tag && self.version > Version::V10 {
            self.short(Form::PushVlan, 0x8100);
        }
    }

    fn output(&mut self, port: PortNumber, max_length: u16) {
        match self.version {
            Version::V10 => self.put(Form::Output16, |writer, _| {
                writer.u16(port.to_u16().unwrap_or(u16::MAX));
                writer.u16(max_length);
            }),
            _ => self.put(Form::Output, |writer, _| {
                writer.u32(port.0);
                writer.u16(max_length);
                writer.zeros(6);
            }),
        }
    }

    fn output_field(&mut self, source: Subfield, max_length: u16) {
        match name_bytes(source.field) {
            4 => self.put(Form::OutputReg, |writer, _| {
                writer.u16(offset_bits(source));
                encode_name(source.field, None, writer);
                writer.u16(max_length);
                writer.zeros(6);
            }),
            _ => self.put(Form::OutputReg2, |writer, _| {
                writer.u16(offset_bits(source));
                writer.u16(max_length);
                encode_name(source.field, None, writer);
                writer.zeros(2);
            }),
        }
    }

    fn controller(&mut self, options: &Controller) {
        if options.userdata.is_some() || options.pause || options.meter.is_some() {
            return self.put(Form::Controller2, |writer, _| {
                nested::encode_controller2(options, writer);
            });
        }
        self.put(Form::Controller, |writer, _| {
            writer.u16(options.max_length);
            writer.u16(options.id);
            writer.u8(options.reason);
            writer.u8(0);
        });
    }

    fn enqueue(&mut self, port: PortNumber, queue: u32) {
        if self.version > Version::V10 {
            self.long(Form::SetQueue, queue);
            self.output(port, 0);
            return self.empty(Form::PopQueue);
        }
        self.put(Form::Enqueue, |writer, _| {
            writer.u16(port.to_u16().unwrap_or(u16::MAX));
            writer.zeros(6);
            writer.u32(queue);
        });
    }

    fn bundle(&mut self, bundle: &Bundle) {
        let form = match bundle.destination {
            Some(_) => Form::BundleLoad,
            None => Form::Bundle,
        };
        self.put(form, |writer, _| {
            writer.u16(bundle.algorithm);
            writer.u16(bundle.fields);
            writer.u16(bundle.basis);
            writer.u32(bundle.member_type);
            writer.u16(bundle.members.len() as u16);
            match bundle.destination {
                Some(bits) => {
                    writer.u16(offset_bits(bits));
                    encode_name(bits.field, None, writer);
                }
                None => writer.zeros(6),
            }
            writer.zeros(4);
            for port in &bundle.members {
                writer.u16(port.to_u16().unwrap_or(u16::MAX));
            }
        });
    }

    fn stack(&mut self, form: Form, bits: Subfield) {
        self.put(form, |writer, _| {
            writer.u16(bits.offset);
            encode_name(bits.field, None, writer);
            writer.u16(bits.width_bits);
            writer.zeros(10 - name_bytes(bits.field));
        });
    }

    fn resubmit(&mut self, port: PortNumber, table: u8, with_ct: bool) {
        let port = port.to_u16().unwrap_or(u16::MAX);
        if table == 0xff && !with_ct {
            return self.short(Form::Resubmit, port);
        }
        let form = match with_ct {
            true => Form::ResubmitTableCt,
            false => Form::ResubmitTable,
        };
        self.put(form, |writer, _| {
            writer.u16(port);
            writer.u8(table);
            writer.zeros(3);
        });
    }

    fn tunnel(&mut self, id: u64, is_wide: bool) {
        if self.version >= Version::V12 {
            return self.whole(FieldId::TUN_ID, id.into());
        }
        match u32::try_from(id) {
            Ok(id) if !is_wide => self.long(Form::SetTunnel, id),
            _ => self.put(Form::SetTunnel64, |writer, _| {
                writer.zeros(6);
                writer.u64(id);
            }),
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let form = match sample.form {
            1 => Form::Sample,
            2 => Form::Sample2,
            3 => Form::Sample3,
            _ => Form::Sample4,
        };
        let put_id = |writer: &mut Writer, id: SampleId| match id {
            SampleId::Number(number) => {
                writer.zeros(if form == Form::Sample4 { 4 } else { 0 });
                writer.u32(number);
            }
            SampleId::Field(bits) => {
                encode_name(bits.field, None, writer);
                writer.u16(offset_bits(bits));
                writer.zeros(2);
            }
        };
        self.put(form, |writer, _| {
            writer.u16(sample.probability);
            writer.u32(sample.collector_set);
            put_id(writer, sample.domain);
            put_id(writer, sample.point);
            if form != Form::Sample {
                writer.u16(sample.port.to_u16().unwrap_or(u16::MAX));
                writer.u8(sample.direction);
                writer.zeros(5);
            }
        });
    }

    fn copy(&mut self, source: Subfield, destination: Subfield) {
        if self.version >= Version::V15 {
            let version = Some(self.version);
            return self.put(Form::CopyField, |writer, _| {
                writer.u16(source.width_bits);
                writer.u16(source.offset);
                writer.u16(destination.offset);
                writer.zeros(2);
                encode_name(source.field, version, writer);
                encode_name(destination.field, version, writer);
            });
        }
        self.put(Form::RegMove, |writer, _| {
            writer.u16(source.width_bits);
            writer.u16(source.offset);
            writer.u16(destination.offset);
            encode_name(source.field, None, writer);
            encode_name(destination.field, None, writer);
        });
    }

    fn write_field(&mut self, field: FieldId, value: &Value, mask: Option<&Value>, load: bool) {
        let is_whole = mask.is_none();
        if self.version >= Version::V15 {
            self.set_field(field, value, mask);
        } else if load || self.version >= Version::V12 && !is_whole {
            self.loads(field, value, mask);
        } else if self.version >= Version::V12 {
            self.set_field(field, value, None);
        } else {
            self.old_field(field, value, mask);
        }
    }

    fn set_field(&mut self, field: FieldId, value: &Value, mask: Option<&Value>) {
        let condition = Condition {
            field,
            value: value.clone(),
            mask: mask.cloned(),
        };
        let version = Some(self.version);
        self.put(Form::SetField, |writer, _| {
            condition.encode(version, writer)
        });
    }

    /// Writes bits by Nicira's loads: one for each run of bits.
    fn loads(&mut self, field: FieldId, value: &Value, mask: Option<&Value>) {
        let is_experimenters = matches!(field.header(None).class, Class::Experimenter(_));
        if is_experimenters || field.is_variable() {
            let condition = Condition {
                field,
                value: value.clone(),
                mask: mask.cloned(),
            };
            return self.put(Form::RegLoad2, |writer, _| {
                writer.zeros(6);
                condition.encode(None, writer);
            });
        }
        let width = field.width_bits();
        let ones = Value::ones(width, field.bytes()).number();
        let (value, mask) = (value.number(), mask.map_or(ones, Value::number) & ones);
        let mut start = 0;
        while start < width {
            let ahead = (mask >> start).trailing_zeros() as u16;
            if start + ahead >= width {
                break;
            }
            start += ahead;
            let run = (mask >> start).trailing_ones().min(64) as u16;
            let bits = Subfield {
                field,
                offset: start,
                width_bits: run,
            };
            let number = (value >> start & u128::MAX >> (128 - run)) as u64;
            self.put(Form::RegLoad, |writer, _| {
                writer.u16(offset_bits(bits));
                encode_name(field, None, writer);
                writer.u64(number);
            });
            start += run;
        }
    }

    /// Writes a field as OpenFlow 1.0 and 1.1 can: by its own action, else by loads.
    fn old_field(&mut self, field: FieldId, value: &Value, mask: Option<&Value>) {
        let number = value.number();
        match field {
            FieldId::VLAN_TCI if number & 0x1000 == 0 => self.empty(Form::PopVlan),
            FieldId::VLAN_TCI => {
                self.add_tag(true);
                self.short(Form::SetVlanVid, number as u16 & 0xfff);
                self.byte(Form::SetVlanPcp, (number >> 13) as u8);
            }
            FieldId::VLAN_VID => self.short(Form::SetVlanVid, number as u16 & 0xfff),
            FieldId::VLAN_PCP => self.byte(Form::SetVlanPcp, number as u8),
            FieldId::ETH_SRC => self.bytes(Form::SetDlSrc, &padded(value.bytes())),
            FieldId::ETH_DST => self.bytes(Form::SetDlDst, &padded(value.bytes())),
            FieldId::IP_SRC => self.bytes(Form::SetNwSrc, value.bytes()),
            FieldId::IP_DST => self.bytes(Form::SetNwDst, value.bytes()),
            FieldId::NW_TOS => self.byte(Form::SetNwTos, number as u8),
            FieldId::IP_DSCP => self.byte(Form::SetNwTos, (number << 2) as u8),
            FieldId::NW_ECN if self.version == Version::V11 => {
                self.byte(Form::SetNwEcn, number as u8);
            }
            FieldId::TCP_SRC | FieldId::UDP_SRC => self.short(Form::SetTpSrc, number as u16),
            FieldId::TCP_DST | FieldId::UDP_DST => self.short(Form::SetTpDst, number as u16),
            _ => self.loads(field, value, mask),
        }
    }
}

/// An Ethernet address as its actions have it, with six bytes behind it.
fn padded(address: &[u8]) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..address.len().min(6)].copy_from_slice(&address[..address.len().min(6)]);
    bytes
}
