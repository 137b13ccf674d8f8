//! Reads actions.

use bytes::Bytes;

use super::subfield::{check, check_written, decode_name, from_offset_bits, must_be_zero};
use super::table::{Form, Owner, form_of};
use super::{Action, Bundle, Controller, Sample, SampleId, Subfield, learn, nested};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::{FieldId, Value};
use crate::matching::Condition;
use crate::message::port::PortNumber;
use crate::version::Version;
use crate::wire::Reader;

/// How deep lists may nest: `clone` and `ct`.
pub(super) const MAX_NESTING: usize = 16;

/// Reads a list of actions that fills the reader.
///
/// # Errors
/// With `OFPBAC_*` for what is wrong with an action.
pub(crate) fn decode_actions(version: Version, reader: Reader<'_>) -> Result<Vec<Action>, Refusal> {
    list(version, reader, 1)
}

pub(super) fn list(
    version: Version,
    reader: Reader<'_>,
    depth: usize,
) -> Result<Vec<Action>, Refusal> {
    if depth > MAX_NESTING {
        let what = format!("lists of actions are nested deeper than {MAX_NESTING}");
        return Err(refuse(ErrorCode::OFPBAC_TOO_MANY, what));
    }
    let mut reader = reader.with_code(ErrorCode::OFPBAC_BAD_LEN);
    let mut actions = Vec::new();
    while !reader.is_empty() {
        actions.push(one(version, &mut reader, depth)?);
    }
    Ok(actions)
}

fn one(version: Version, list: &mut Reader<'_>, depth: usize) -> Result<Action, Refusal> {
    let mut start = *list;
    let kind = start.u16()?;
    let length = usize::from(start.u16()?);
    if length < 8 || length % 8 != 0 {
        let what = format!("an action of {length} bytes; they are multiples of 8");
        return Err(start.bad_length(what));
    }
    let mut body = list.part(length)?;
    body.skip(4)?;
    let (owner, number) = match kind {
        0xffff => {
            let owner = match body.u32()? {
                crate::NICIRA => Owner::Nicira,
                crate::ONF => Owner::Onf,
                other => {
                    let what = format!("an action of experimenter {other:#x}");
                    return Err(refuse(ErrorCode::OFPBAC_BAD_VENDOR, what));
                }
            };
            if length < 16 {
                return Err(body.bad_length("an experimenter's action has 16 bytes"));
            }
            (owner, body.u16()?)
        }
        number => (Owner::Standard, number),
    };
    let Some(form) = form_of(version, owner, number) else {
        let (code, what) = match owner {
            Owner::Standard => (ErrorCode::OFPBAC_BAD_TYPE, format!("action {number}")),
            _ => (
                ErrorCode::OFPBAC_BAD_VENDOR_TYPE,
                format!("action {owner:?} {number}"),
            ),
        };
        return Err(refuse(code, what));
    };
    let mut context = Context {
        version,
        owner,
        depth,
    };
    context.action(form, &mut body)
}

/// What reading an action depends on.
struct Context {
    version: Version,
    owner: Owner,
    depth: usize,
}

impl Context {
    /// Reads a number of 32 bits, which experimenters' actions align.
    fn aligned_u32(&self, body: &mut Reader<'_>) -> Result<u32, Refusal> {
        if self.owner != Owner::Standard {
            body.skip(2)?;
        }
        body.u32()
    }

    fn action(&mut self, form: Form, body: &mut Reader<'_>) -> Result<Action, Refusal> {
        let version = self.version;
        Ok(match form {
            Form::SetVlanVid => Action::SetVlanVid {
                id: vlan(body.u16()?)?,
                adds_tag: version == Version::V10,
            },
            Form::SetVlanPcp => Action::SetVlanPcp {
                priority: bounded(body.u8()?, 7)?,
                adds_tag: version == Version::V10,
            },
            Form::PopVlan => Action::StripVlan,
            Form::PushVlan => match body.u16()? {
                tpid @ (0x8100 | 0x88a8) => Action::PushVlan(tpid),
                other => return Err(bad_argument(format!("a tag with EtherType {other:#x}"))),
            },
            Form::SetDlSrc => Action::SetDlSrc(body.array()?),
            Form::SetDlDst => Action::SetDlDst(body.array()?),
            Form::SetNwSrc => Action::SetNwSrc(body.array()?),
            Form::SetNwDst => Action::SetNwDst(body.array()?),
            Form::SetNwTos => match body.u8()? {
                tos if tos & 3 == 0 => Action::SetNwTos(tos),
                tos => return Err(bad_argument(format!("type of service {tos:#x}"))),
            },
            Form::SetNwEcn => Action::SetNwEcn(bounded(body.u8()?, 3)?),
            Form::SetNwTtl => Action::SetNwTtl(body.u8()?),
            Form::SetTpSrc => Action::SetTpSrc(body.u16()?),
            Form::SetTpDst => Action::SetTpDst(body.u16()?),
            Form::SetMplsLabel => match self.aligned_u32(body)? {
                label @ ..=0xf_ffff => Action::SetMplsLabel(label),
                label => return Err(bad_argument(format!("label {label:#x}"))),
            },
            Form::SetMplsTc => Action::SetMplsTc(bounded(body.u8()?, 7)?),
            Form::SetMplsTtl => Action::SetMplsTtl(body.u8()?),
            Form::DecMplsTtl => Action::DecMplsTtl,
            Form::PushMpls => match body.u16()? {
                kind @ (0x8847 | 0x8848) => Action::PushMpls(kind),
                other => return Err(bad_argument(format!("a label with EtherType {other:#x}"))),
            },
            Form::PopMpls => Action::PopMpls(body.u16()?),
            Form::SetQueue => Action::SetQueue(self.aligned_u32(body)?),
            Form::Group => Action::Group(self.aligned_u32(body)?),
            Form::DecNwTtl => Action::DecTtl(vec![0]),
            Form::Meter => Action::Meter(self.aligned_u32(body)?),
            Form::PopQueue => Action::PopQueue,
            Form::Exit => Action::Exit,
            Form::CtClear => Action::CtClear,
            Form::DecNshTtl => Action::DecNshTtl,
            Form::DebugSlow => Action::DebugSlow,
            Form::DebugRecirc => Action::DebugRecirc,
            Form::Note => Action::Note(Bytes::copy_from_slice(body.rest())),
            _ => return self.structured(form, body),
        })
    }

    fn structured(&mut self, form: Form, body: &mut Reader<'_>) -> Result<Action, Refusal> {
        Ok(match form {
            Form::Output16 | Form::Output | Form::OutputTruncated | Form::Enqueue => {
                return output(form, body);
            }
            Form::OutputReg | Form::OutputReg2 => return output_field(form, body),
            Form::Controller => controller(body)?,
            Form::Controller2 => Action::Controller(nested::decode_controller2(body)?),
            Form::DecTtlIds => dec_ttl(body)?,
            Form::SetField => set_field(self.version, body)?,
            Form::RegLoad => reg_load(body)?,
            Form::RegLoad2 => reg_load2(body)?,
            Form::CopyField => copy_field(body)?,
            Form::OnfCopyField => {
                body.skip(2)?;
                copy_field(body)?
            }
            Form::RegMove => reg_move(body)?,
            Form::Resubmit => Action::Resubmit {
                port: PortNumber::from_u16(body.u16()?),
                table: 0xff,
                with_ct: false,
            },
            Form::ResubmitTable | Form::ResubmitTableCt => {
                let (port, table) = (body.u16()?, body.u8()?);
                must_be_zero(body.take(3)?)?;
                Action::Resubmit {
                    port: PortNumber::from_u16(port),
                    table,
                    with_ct: form == Form::ResubmitTableCt,
                }
            }
            Form::SetTunnel => Action::SetTunnel {
                id: self.aligned_u32(body)?.into(),
                is_wide: false,
            },
            Form::SetTunnel64 => {
                body.skip(6)?;
                Action::SetTunnel {
                    id: body.u64()?,
                    is_wide: true,
                }
            }
            Form::FinTimeout => Action::FinTimeout {
                idle_s: body.u16()?,
                hard_s: body.u16()?,
            },
            Form::WriteMetadata => {
                must_be_zero(body.take(6)?)?;
                Action::WriteMetadata {
                    value: body.u64()?,
                    mask: body.u64()?,
                }
            }
            Form::StackPush => Action::StackPush(stack(body)?),
            Form::StackPop => Action::StackPop(check_written(stack(body)?)?),
            Form::Conjunction => conjunction(body)?,
            Form::Multipath => multipath(body)?,
            Form::Bundle | Form::BundleLoad => bundle(form, body)?,
            Form::Learn | Form::Learn2 => learn::decode(form == Form::Learn2, body)?,
            Form::Sample | Form::Sample2 | Form::Sample3 | Form::Sample4 => sample(form, body)?,
            Form::Ct => nested::decode_ct(self.version, body, self.depth)?,
            Form::Nat => nested::decode_nat(body)?,
            Form::Clone => {
                body.skip(6)?;
                Action::Clone(list(self.version, *body, self.depth + 1)?)
            }
            Form::Encap => {
                // The size of the header is a hint that nobody needs.
                body.skip(2)?;
                Action::Encap {
                    packet_type: body.u32()?,
                    properties: Bytes::copy_from_slice(body.rest()),
                }
            }
            Form::Decap => {
                body.skip(2)?;
                Action::Decap {
                    packet_type: body.u32()?,
                }
            }
            Form::CheckPacketLarger => {
                let (length, offset) = (body.u16()?, body.u16()?);
                let field = decode_name(body)?;
                let bit = Subfield {
                    field,
                    offset,
                    width_bits: 1,
                };
                Action::CheckPacketLarger {
                    length,
                    destination: check_written(bit)?,
                }
            }
            Form::DeleteField => Action::DeleteField(decode_name(body)?),
            _ => unreachable!("the other forms are simple"),
        })
    }
}

pub(super) fn bad_argument(what: String) -> Refusal {
    refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what)
}

fn vlan(id: u16) -> Result<u16, Refusal> {
    match id {
        ..=0xfff => Ok(id),
        _ => Err(bad_argument(format!("VLAN {id}"))),
    }
}

fn bounded(number: u8, most: u8) -> Result<u8, Refusal> {
    match number <= most {
        true => Ok(number),
        false => Err(bad_argument(format!(
            "{number} where at most {most} is possible"
        ))),
    }
}

/// A port of 32 bits that 16 bits can name.
pub(super) fn wide_port(number: u32) -> Result<PortNumber, Refusal> {
    let port = PortNumber(number);
    match port.to_u16() {
        Some(_) => Ok(port),
        None => {
            let what = format!("port {number:#x}, which 16 bits cannot name");
            Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what))
        }
    }
}

fn output(form: Form, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    Ok(match form {
        Form::Output16 => Action::Output {
            port: PortNumber::from_u16(body.u16()?),
            max_length: body.u16()?,
        },
        Form::Output => Action::Output {
            port: wide_port(body.u32()?)?,
            max_length: body.u16()?,
        },
        Form::OutputTruncated => {
            let port = PortNumber::from_u16(body.u16()?);
            let max_length = body.u32()?;
            if max_length < 14 {
                return Err(bad_argument(format!("a packet cut to {max_length} bytes")));
            }
            Action::OutputTruncated { port, max_length }
        }
        _ => {
            let port = PortNumber::from_u16(body.u16()?);
            body.skip(6)?;
            let queue = body.u32()?;
            let is_port = !port.is_reserved();
            if !is_port && port != PortNumber::IN_PORT && port != PortNumber::LOCAL {
                let what = format!("no queue is at {port}");
                return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
            }
            Action::Enqueue { port, queue }
        }
    })
}

fn output_field(form: Form, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let packed = body.u16()?;
    let (field, max_length) = match form {
        Form::OutputReg => {
            let field = decode_name(body)?;
            let max_length = body.u16()?;
            must_be_zero(body.rest())?;
            (field, max_length)
        }
        _ => {
            let max_length = body.u16()?;
            let field = decode_name(body)?;
            must_be_zero(body.rest())?;
            (field, max_length)
        }
    };
    Ok(Action::OutputField {
        source: check(from_offset_bits(field, packed))?,
        max_length,
    })
}

fn controller(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let options = Controller {
        max_length: body.u16()?,
        id: body.u16()?,
        reason: body.u8()?,
        pause: false,
        userdata: None,
        meter: None,
    };
    must_be_zero(body.take(1)?)?;
    Ok(Action::Controller(options))
}

fn dec_ttl(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let count = usize::from(body.u16()?);
    must_be_zero(body.take(4)?)?;
    if count == 0 || body.len() < 2 * count {
        return Err(body.bad_length(format!("dec_ttl with {count} controllers")));
    }
    let ids = (0..count).map(|_| body.u16());
    Ok(Action::DecTtl(ids.collect::<Result<_, _>>()?))
}

fn set_field(version: Version, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (field, value, mask) = written_field(body)?;
    if mask.is_some() && version < Version::V15 {
        let what = "set_field takes no mask before OpenFlow 1.5";
        return Err(refuse(ErrorCode::OFPBAC_BAD_SET_MASK, what));
    }
    let present = |bits: &Value| bits.number() & 0x1000 != 0;
    let lacks_tag =
        field == FieldId::VLAN_VID && !(present(&value) && mask.as_ref().is_none_or(present));
    if field == FieldId::IN_PORT_OXM || lacks_tag {
        let what = format!("set_field cannot write that into {field}");
        return Err(refuse(ErrorCode::OFPBAC_BAD_SET_ARGUMENT, what));
    }
    Ok(Action::SetField {
        field,
        value,
        mask,
        is_load: false,
    })
}

/// Reads a field that is written, its value and mask; then only zeros.
fn written_field(body: &mut Reader<'_>) -> Result<(FieldId, Value, Option<Value>), Refusal> {
    let code = ErrorCode::OFPBAC_BAD_SET_ARGUMENT;
    let decoded = Condition::decode(body).map_err(|refusal| match refusal.code {
        ErrorCode::OFPBMC_BAD_MASK => refuse(ErrorCode::OFPBAC_BAD_SET_MASK, refusal.what),
        ErrorCode::OFPBMC_BAD_VALUE => refuse(code, refusal.what),
        _ => refusal,
    })?;
    let unknown = || refuse(ErrorCode::OFPBAC_BAD_SET_TYPE, "a field that nobody knows");
    let condition = decoded.ok_or_else(unknown)?;
    if body.rest().iter().any(|byte| *byte != 0) {
        return Err(refuse(code, "bytes behind the value that are not zero"));
    }
    if !condition.field.is_writable() {
        return Err(refuse(
            code,
            format!("{} cannot be written", condition.field),
        ));
    }
    Ok((condition.field, condition.value, condition.mask))
}

fn reg_load(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let packed = body.u16()?;
    let field = decode_name(body)?;
    let number = u128::from(body.u64()?);
    let bits = check_written(from_offset_bits(field, packed))?;
    let ones = u128::MAX >> (128 - u32::from(bits.width_bits));
    if number > ones {
        let what = format!("{number:#x} does not fit {} bits", bits.width_bits);
        return Err(bad_argument(what));
    }
    let is_whole = bits.width_bits == field.width_bits();
    let bytes = field.bytes();
    // A field of 16 bytes has room for any offset.
    let shifted = |number: u128| {
        let moved = number.checked_shl(bits.offset.into()).unwrap_or(0);
        Value::from_number(moved, bytes)
    };
    Ok(Action::SetField {
        field,
        value: shifted(number),
        mask: (!is_whole).then(|| shifted(ones)),
        is_load: true,
    })
}

fn reg_load2(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    body.skip(6)?;
    let (field, value, mask) = written_field(body)?;
    Ok(Action::SetField {
        field,
        value,
        mask,
        is_load: true,
    })
}

fn copy_field(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let width_bits = body.u16()?;
    let (from, to) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    moved(width_bits, from, to, body)
}

fn reg_move(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let width_bits = body.u16()?;
    let (from, to) = (body.u16()?, body.u16()?);
    moved(width_bits, from, to, body)
}

fn moved(width_bits: u16, from: u16, to: u16, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (source, destination) = (decode_name(body)?, decode_name(body)?);
    must_be_zero(body.rest())?;
    let bits = |field, offset| Subfield {
        field,
        offset,
        width_bits,
    };
    Ok(Action::Move {
        source: check(bits(source, from))?,
        destination: check_written(bits(destination, to))?,
    })
}

fn stack(body: &mut Reader<'_>) -> Result<Subfield, Refusal> {
    let offset = body.u16()?;
    let field = decode_name(body)?;
    let width_bits = body.u16()?;
    must_be_zero(body.rest())?;
    check(Subfield {
        field,
        offset,
        width_bits,
    })
}

fn conjunction(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (clause, clauses) = (body.u8()?, body.u8()?);
    if !(2..=64).contains(&clauses) || clause >= clauses {
        let what = format!("dimension {clause} of {clauses}");
        return Err(refuse(ErrorCode::NXBAC_BAD_CONJUNCTION, what));
    }
    Ok(Action::Conjunction {
        clause,
        clauses,
        id: body.u32()?,
    })
}

fn multipath(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (fields, basis) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    let (algorithm, max_link, argument) = (body.u16()?, body.u16()?, body.u32()?);
    body.skip(2)?;
    let packed = body.u16()?;
    let destination = check_written(from_offset_bits(decode_name(body)?, packed))?;
    if destination.width_bits < 16 && max_link >> destination.width_bits != 0 {
        return Err(bad_argument(format!(
            "{max_link} links in {} bits",
            destination.width_bits
        )));
    }
    Ok(Action::Multipath {
        fields,
        basis,
        algorithm,
        max_link,
        argument,
        destination,
    })
}

fn bundle(form: Form, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (algorithm, fields, basis) = (body.u16()?, body.u16()?, body.u16()?);
    let member_type = body.u32()?;
    let (count, packed) = (usize::from(body.u16()?), body.u16()?);
    let mut named = body.part(4)?;
    must_be_zero(body.take(4)?)?;
    if member_type != 0x0000_0002 {
        return Err(bad_argument(format!("members of type {member_type:#x}")));
    }
    if count > 2_048 || body.len() < 2 * count {
        return Err(body.bad_length(format!("a bundle of {count} ports")));
    }
    let destination = match form {
        Form::BundleLoad => {
            let field = decode_name(&mut named)?;
            Some(check_written(from_offset_bits(field, packed))?)
        }
        _ => {
            must_be_zero(named.rest())?;
            None
        }
    };
    let members = (0..count).map(|_| body.u16().map(PortNumber::from_u16));
    Ok(Action::Bundle(Box::new(Bundle {
        algorithm,
        fields,
        basis,
        member_type,
        members: members.collect::<Result<_, _>>()?,
        destination,
    })))
}

fn sample(form: Form, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let probability = body.u16()?;
    let collector_set = body.u32()?;
    let (domain, point) = match form {
        Form::Sample4 => (sample_id(body)?, sample_id(body)?),
        _ => (SampleId::Number(body.u32()?), SampleId::Number(body.u32()?)),
    };
    if probability == 0 {
        return Err(bad_argument("a sample of no packets".to_owned()));
    }
    let (port, direction) = match form {
        Form::Sample => (PortNumber::ANY, 0),
        _ => (PortNumber::from_u16(body.u16()?), bounded(body.u8()?, 2)?),
    };
    must_be_zero(body.rest())?;
    Ok(Action::Sample(Sample {
        probability,
        collector_set,
        domain,
        point,
        port,
        direction,
        form: match form {
            Form::Sample => 1,
            Form::Sample2 => 2,
            Form::Sample3 => 3,
            _ => 4,
        },
    }))
}

fn sample_id(body: &mut Reader<'_>) -> Result<SampleId, Refusal> {
    let mut name = body.part(4)?;
    let mut bits = body.part(4)?;
    if name.peek() == [0; 4] {
        return Ok(SampleId::Number(bits.u32()?));
    }
    let packed = bits.u16()?;
    let field = decode_name(&mut name)?;
    Ok(SampleId::Field(check(from_offset_bits(field, packed))?))
}
