//! Reads lists of actions, and the actions whose form is simple.

use super::nesting::{self, Nesting, Outer};
use super::port::check_output_port;
use super::subfield::check_zeros;
use super::table::{self, Kind, Owner, Row, Shape};
use super::{Action, Subfield, bundle, controller, ct, encap, learn, sample, set_field};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::matching::needs::is_port;
use crate::port_number::PortNumber;
use crate::version::Version;
use crate::wire::Reader;

const EXPERIMENTER: u16 = 0xffff;
const MIN_TRUNCATED_BYTES: u32 = 14;
const MAX_METER: u32 = 0xffff_0000;

/// Reads all that the reader has as actions.
///
/// # Errors
/// The `OFPBAC_*` of the fault.
pub fn decode_actions(version: Version, reader: Reader<'_>) -> Result<Vec<Action>, Refusal> {
    Nesting::new(version).decode_list(reader)
}

/// Value and mask that `NXAST_WRITE_METADATA` writes: an instruction in the form of an action.
pub(super) type Metadata = (u64, u64);

impl Nesting {
    /// Reads all that the reader has as actions that stand here.
    pub(super) fn decode_list(self, reader: Reader<'_>) -> Result<Vec<Action>, Refusal> {
        match decode_items(reader, self)? {
            (actions, None) => Ok(actions),
            (_, Some(_)) => {
                let what = "write_metadata cannot stand here";
                Err(refuse(ErrorCode::OFPBIC_UNSUP_INST, what))
            }
        }
    }
}

/// Reads actions, and the metadata that they write in the end.
pub(super) fn decode_items(
    mut reader: Reader<'_>,
    nesting: Nesting,
) -> Result<(Vec<Action>, Option<Metadata>), Refusal> {
    if !reader.len().is_multiple_of(8) {
        let what = format!("{} bytes of actions, no multiple of 8", reader.len());
        return Err(refuse(ErrorCode::OFPBRC_BAD_LEN, what));
    }
    let mut actions = Vec::new();
    let mut metadata = None;
    while !reader.is_empty() {
        let (row, body) = decode_header(&mut reader, nesting.version)?;
        if metadata.is_some() {
            let what = "actions behind write_metadata";
            return Err(refuse(ErrorCode::OFPBAC_UNSUPPORTED_ORDER, what));
        }
        if row.kind == Kind::WriteMetadata {
            metadata = Some(decode_metadata(body)?);
        } else {
            actions.push(decode_action(row, body, nesting)?);
        }
    }
    nesting::check(&actions, nesting.outer)?;
    Ok((actions, metadata))
}

/// Reads an action's header; the reader that is given stands behind it.
fn decode_header<'a>(
    reader: &mut Reader<'a>,
    version: Version,
) -> Result<(&'static Row, Reader<'a>), Refusal> {
    let mut ahead = reader.with_code(ErrorCode::OFPBAC_BAD_LEN);
    let available = ahead.len();
    let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
    let (owner, number) = if kind == EXPERIMENTER {
        let experimenter = ahead.u32()?;
        let owners = [Owner::Nicira, Owner::Onf];
        let is_it = |owner: &Owner| owner.experimenter() == Some(experimenter);
        let Some(owner) = owners.into_iter().find(is_it) else {
            let what = format!("an action of the unknown experimenter {experimenter:#010x}");
            return Err(refuse(ErrorCode::OFPBAC_BAD_VENDOR, what));
        };
        if available < 16 {
            return Err(ahead.bad_length("an experimenter's action of fewer than 16 bytes"));
        }
        (owner, ahead.u16()?)
    } else {
        (Owner::Standard, kind)
    };
    let Some(row) = table::find(version, owner, number) else {
        let code = match owner {
            Owner::Standard => ErrorCode::OFPBAC_BAD_TYPE,
            Owner::Nicira | Owner::Onf => ErrorCode::OFPBAC_BAD_VENDOR_TYPE,
        };
        let what = format!("OpenFlow {version} has no action {owner:?} {number}");
        return Err(refuse(code, what));
    };
    let (needed, may_be_longer) = row.length();
    let is_right = if may_be_longer {
        length >= needed
    } else {
        length == needed
    };
    if !is_right || !length.is_multiple_of(8) || length > available {
        let what = format!("an action {:?} of {length} bytes", row.kind);
        return Err(ahead.bad_length(what));
    }
    let mut whole = reader.with_code(ErrorCode::OFPBAC_BAD_LEN).part(length)?;
    reader.skip(length)?;
    whole.skip(owner.header_bytes())?;
    Ok((row, whole))
}

fn decode_metadata(mut body: Reader<'_>) -> Result<Metadata, Refusal> {
    check_zeros(body.take(6)?, ErrorCode::NXBRC_MUST_BE_ZERO)?;
    Ok((body.u64()?, body.u64()?))
}

fn decode_action(row: &Row, mut body: Reader<'_>, nesting: Nesting) -> Result<Action, Refusal> {
    match row.shape {
        Shape::Void => Ok(decode_void(row.kind)),
        Shape::Number(bytes) => {
            let header = row.owner.header_bytes();
            let bytes = usize::from(bytes);
            body.skip(header.next_multiple_of(bytes) - header)?;
            let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
            let number = body.take(bytes)?.iter().fold(0, fold);
            decode_number(row.kind, number)
        }
        Shape::Fixed(_) => decode_fixed(row.kind, &mut body),
        Shape::Open(_) => decode_open(row.kind, &mut body, nesting),
    }
}

fn decode_void(kind: Kind) -> Action {
    match kind {
        Kind::StripVlan => Action::StripVlan,
        Kind::DecMplsTtl => Action::DecMplsTtl,
        Kind::DecTtl => Action::DecTtl(None),
        Kind::PopQueue => Action::PopQueue,
        Kind::Exit => Action::Exit,
        Kind::CtClear => Action::CtClear,
        Kind::DecNshTtl => Action::DecNshTtl,
        Kind::DebugSlow => Action::DebugSlow,
        Kind::DebugRecirc => Action::DebugRecirc,
        kind => unreachable!("{kind:?} has a body"),
    }
}

fn decode_number(kind: Kind, number: u64) -> Result<Action, Refusal> {
    let (byte, short, word) = (number as u8, number as u16, number as u32);
    let adds_tag = matches!(kind, Kind::SetVlanVid10 | Kind::SetVlanPcp10);
    let (action, is_valid) = match kind {
        Kind::SetVlanVid10 | Kind::SetVlanVid11 => (
            Action::SetVlanVid {
                id: short,
                adds_tag,
            },
            short <= 0xfff,
        ),
        Kind::SetVlanPcp10 | Kind::SetVlanPcp11 => {
            let priority = byte;
            (Action::SetVlanPcp { priority, adds_tag }, byte <= 7)
        }
        Kind::PushVlan => (Action::PushVlan(short), matches!(short, 0x8100 | 0x88a8)),
        Kind::SetNwSrc => (Action::SetNwSrc(word.to_be_bytes()), true),
        Kind::SetNwDst => (Action::SetNwDst(word.to_be_bytes()), true),
        Kind::SetNwTos => (Action::SetNwTos(byte), byte & 3 == 0),
        Kind::SetNwEcn => (Action::SetNwEcn(byte), byte <= 3),
        Kind::SetNwTtl => (Action::SetNwTtl(byte), true),
        Kind::SetTpSrc => (Action::SetTpSrc(short), true),
        Kind::SetTpDst => (Action::SetTpDst(short), true),
        Kind::SetMplsLabel => (Action::SetMplsLabel(word), true),
        Kind::SetMplsTc => (Action::SetMplsTc(byte), true),
        Kind::SetMplsTtl => (Action::SetMplsTtl(byte), true),
        Kind::PushMpls => (Action::PushMpls(short), matches!(short, 0x8847 | 0x8848)),
        Kind::PopMpls => (Action::PopMpls(short), true),
        Kind::SetQueue => (Action::SetQueue(word), true),
        Kind::Group => (Action::Group(word), true),
        Kind::Meter => return meter(word),
        Kind::Resubmit => {
            let port = PortNumber::from_u16(short);
            let (table, with_ct) = (None, false);
            (
                Action::Resubmit {
                    port,
                    table,
                    with_ct,
                },
                true,
            )
        }
        Kind::SetTunnel => (
            Action::SetTunnel {
                id: number,
                is_wide: false,
            },
            true,
        ),
        Kind::SetTunnel64 => (
            Action::SetTunnel {
                id: number,
                is_wide: true,
            },
            true,
        ),
        kind => unreachable!("{kind:?} holds more than a number"),
    };
    if is_valid {
        return Ok(action);
    }
    Err(refuse(
        ErrorCode::OFPBAC_BAD_ARGUMENT,
        format!("{action:?}"),
    ))
}

fn meter(number: u32) -> Result<Action, Refusal> {
    if (1..=MAX_METER).contains(&number) {
        return Ok(Action::Meter(number));
    }
    let what = format!("no meter can have the number {number}");
    Err(refuse(ErrorCode::OFPMMFC_INVALID_METER, what))
}

fn decode_fixed(kind: Kind, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    match kind {
        Kind::Output10 => {
            let port = PortNumber::from_u16(body.u16()?);
            check_output_port(port)?;
            let max_length = body.u16()?;
            Ok(Action::Output { port, max_length })
        }
        Kind::Output11 => {
            let number = body.u32()?;
            if !is_port(number.into()) {
                let what = format!("{number:#x} is no port");
                return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
            }
            let port = PortNumber(number);
            check_output_port(port)?;
            let max_length = body.u16()?;
            Ok(Action::Output { port, max_length })
        }
        Kind::SetDlSrc => Ok(Action::SetDlSrc(body.array()?)),
        Kind::SetDlDst => Ok(Action::SetDlDst(body.array()?)),
        Kind::Enqueue => decode_enqueue(body),
        Kind::Load => set_field::decode_load(body),
        Kind::ResubmitTable | Kind::ResubmitTableCt => {
            let (port, table) = (PortNumber::from_u16(body.u16()?), body.u8()?);
            check_zeros(body.rest(), ErrorCode::OFPBAC_BAD_ARGUMENT)?;
            Ok(Action::Resubmit {
                port,
                table: Some(table),
                with_ct: kind == Kind::ResubmitTableCt,
            })
        }
        Kind::Multipath => bundle::decode_multipath(body),
        Kind::OutputField | Kind::OutputField2 => decode_output_field(kind, body),
        Kind::FinTimeout => Ok(Action::FinTimeout {
            idle_s: body.u16()?,
            hard_s: body.u16()?,
        }),
        Kind::Controller => controller::decode(body).map(Action::Controller),
        Kind::StackPush | Kind::StackPop => decode_stack(kind, body),
        Kind::Sample | Kind::Sample2 | Kind::Sample3 | Kind::Sample4 => {
            sample::decode(body, kind).map(Action::Sample)
        }
        Kind::Conjunction => decode_conjunction(body),
        Kind::OutputTruncated => {
            let (port, max_length) = (PortNumber::from_u16(body.u16()?), body.u32()?);
            if max_length < MIN_TRUNCATED_BYTES {
                let what = format!("an output of {max_length} bytes");
                return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
            }
            Ok(Action::OutputTruncated { port, max_length })
        }
        Kind::CheckPacketLarger => {
            let (length, offset) = (body.u16()?, body.u16()?);
            let destination = Subfield::decode(body, offset, 1)?;
            check_zeros(body.rest(), ErrorCode::NXBRC_MUST_BE_ZERO)?;
            destination.check_destination()?;
            Ok(Action::CheckPacketLarger {
                length,
                destination,
            })
        }
        Kind::DeleteField => set_field::decode_delete(body),
        kind => unreachable!("{kind:?} is not of fixed length"),
    }
}

fn decode_enqueue(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let port = PortNumber::from_u16(body.u16()?);
    let is_target =
        port.0 < PortNumber::MAX_10 || matches!(port, PortNumber::IN_PORT | PortNumber::LOCAL);
    if !is_target {
        let what = format!("{port} has no queues");
        return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
    }
    body.skip(6)?;
    let queue = body.u32()?;
    Ok(Action::Enqueue { port, queue })
}

fn decode_output_field(kind: Kind, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let packed = body.u16()?;
    let is_extended = kind == Kind::OutputField2;
    let (source, max_length) = if is_extended {
        let max_length = body.u16()?;
        let source = Subfield::decode(body, packed >> 6, (packed & 0x3f) + 1)?;
        check_zeros(body.rest(), ErrorCode::NXBRC_MUST_BE_ZERO)?;
        (source, max_length)
    } else {
        let source = Subfield::from_packed(packed, body.u32()?)?;
        let max_length = body.u16()?;
        check_zeros(body.rest(), ErrorCode::OFPBAC_BAD_ARGUMENT)?;
        (source, max_length)
    };
    source.check_source()?;
    Ok(Action::OutputField {
        source,
        max_length,
        is_extended,
    })
}

fn decode_stack(kind: Kind, body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let offset = body.u16()?;
    let mut field = Subfield::decode(body, offset, 1)?;
    field.width_bits = body.u16()?;
    check_zeros(body.rest(), ErrorCode::NXBRC_MUST_BE_ZERO)?;
    if kind == Kind::StackPush {
        field.check_source()?;
        return Ok(Action::StackPush(field));
    }
    field.check_destination()?;
    Ok(Action::StackPop(field))
}

fn decode_conjunction(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (clause, clauses, id) = (body.u8()?, body.u8()?, body.u32()?);
    if !(2..=64).contains(&clauses) || clause >= clauses {
        let what = format!("dimension {clause} of {clauses}");
        return Err(refuse(ErrorCode::NXBAC_BAD_CONJUNCTION, what));
    }
    Ok(Action::Conjunction {
        id,
        clause,
        clauses,
    })
}

fn decode_open(kind: Kind, body: &mut Reader<'_>, nesting: Nesting) -> Result<Action, Refusal> {
    match kind {
        Kind::DecTtlIds => decode_ttl_ids(body),
        Kind::SetField12 => set_field::decode_set_field(*body, false),
        Kind::SetField15 => set_field::decode_set_field(*body, true),
        Kind::Load2 => set_field::decode_load2(*body),
        Kind::CopyField | Kind::CopyFieldOnf | Kind::Move => set_field::decode_move(body, kind),
        Kind::Note => Ok(Action::Note(bytes::Bytes::copy_from_slice(body.rest()))),
        Kind::Bundle | Kind::BundleLoad => {
            let bundle = bundle::decode(body, kind)?;
            Ok(Action::Bundle(Box::new(bundle)))
        }
        Kind::Learn | Kind::Learn2 => {
            let learn = learn::decode(body, kind)?;
            Ok(Action::Learn(Box::new(learn)))
        }
        Kind::Controller2 => controller::decode_2(body).map(Action::Controller),
        Kind::Ct => Ok(Action::Ct(Box::new(ct::decode(body, nesting)?))),
        Kind::Nat => Ok(Action::Nat(Box::new(ct::decode_nat(body)?))),
        Kind::Clone => {
            body.skip(6)?;
            nesting
                .inside(Outer::Clone)?
                .decode_list(*body)
                .map(Action::Clone)
        }
        Kind::Encap => encap::decode_encap(body),
        Kind::Decap => encap::decode_decap(body),
        kind => unreachable!("{kind:?} is of fixed length"),
    }
}

fn decode_ttl_ids(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    let count = usize::from(body.u16()?);
    check_zeros(body.take(4)?, ErrorCode::NXBRC_MUST_BE_ZERO)?;
    let mut list = body.part(2 * count)?;
    let mut ids = Vec::with_capacity(count);
    while !list.is_empty() {
        ids.push(list.u16()?);
    }
    Ok(Action::DecTtl(Some(ids)))
}
