//! Actions with parts of their own: to controllers with options, to the connection tracker.

use bytes::Bytes;

use super::subfield::{
    check, decode_name, encode_name, from_offset_bits, must_be_zero, offset_bits,
};
use super::{Action, Controller, Ct, CtZone, Nat, decode, encode};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Properties of `NXAST_CONTROLLER2`.
const MAX_LENGTH: u16 = 0;
const CONTROLLER_ID: u16 = 1;
const REASON: u16 = 2;
const USERDATA: u16 = 3;
const PAUSE: u16 = 4;
const METER: u16 = 5;

pub(super) fn decode_controller2(body: &mut Reader<'_>) -> Result<Controller, Refusal> {
    must_be_zero(body.take(6)?)?;
    let mut options = Controller {
        max_length: u16::MAX,
        id: 0,
        reason: 1,
        pause: false,
        userdata: Some(Bytes::new()),
        meter: None,
    };
    while !body.is_empty() {
        let (kind, mut value) = crate::property::decode(body)?;
        value = value.with_code(ErrorCode::OFPBPC_BAD_LEN);
        match kind {
            MAX_LENGTH => options.max_length = value.u16()?,
            CONTROLLER_ID => options.id = value.u16()?,
            REASON => options.reason = value.u8()?,
            USERDATA => options.userdata = Some(Bytes::copy_from_slice(value.rest())),
            PAUSE => options.pause = true,
            METER => options.meter = Some(value.u32()?),
            other => {
                let what = format!("property {other} of an output to a controller");
                return Err(refuse(ErrorCode::OFPBPC_BAD_TYPE, what));
            }
        }
    }
    Ok(options)
}

/// Writes what follows the header.
pub(super) fn encode_controller2(options: &Controller, writer: &mut Writer) {
    writer.zeros(6);
    if options.max_length != u16::MAX {
        crate::property::encode_u16(MAX_LENGTH, writer, options.max_length);
    }
    if options.id != 0 {
        crate::property::encode_u16(CONTROLLER_ID, writer, options.id);
    }
    if options.reason != 1 {
        crate::property::encode(REASON, writer, |writer| writer.u8(options.reason));
    }
    if let Some(userdata) = options.userdata.as_ref().filter(|data| !data.is_empty()) {
        crate::property::encode(USERDATA, writer, |writer| writer.put(userdata));
    }
    if options.pause {
        crate::property::encode(PAUSE, writer, |_| {});
    }
    if let Some(meter) = options.meter {
        crate::property::encode(METER, writer, |writer| writer.u32(meter));
    }
}

pub(super) fn decode_ct(
    version: Version,
    body: &mut Reader<'_>,
    depth: usize,
) -> Result<Action, Refusal> {
    let flags = body.u16()?;
    let mut named = body.part(4)?;
    let packed = body.u16()?;
    let recirc_table = body.u8()?;
    body.skip(3)?;
    let alg = body.u16()?;
    let is_forced_alone = flags & 2 != 0 && flags & 1 == 0;
    if flags & !3 != 0 || is_forced_alone {
        let what = format!("ct with flags {flags:#x}");
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    let zone = match named.peek() {
        [0, 0, 0, 0] => CtZone::Number(packed),
        _ => {
            let field = decode_name(&mut named)?;
            let bits = check(from_offset_bits(field, packed))?;
            if bits.width_bits != 16 {
                let what = "a zone has 16 bits";
                return Err(refuse(ErrorCode::OFPBAC_BAD_SET_LEN, what));
            }
            CtZone::Field(bits)
        }
    };
    let actions = decode::list(version, *body, depth + 1)?;
    for action in &actions {
        let may_be = matches!(
            action,
            Action::Nat(_) | Action::SetField { .. } | Action::Move { .. }
        );
        if !may_be {
            let what = "ct does only nat, set_field and move";
            return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
        }
    }
    Ok(Action::Ct(Box::new(Ct {
        flags,
        zone,
        recirc_table,
        alg,
        actions,
    })))
}

/// Writes what follows the header.
pub(super) fn encode_ct(ct: &Ct, version: Version, writer: &mut Writer) {
    writer.u16(ct.flags);
    match ct.zone {
        CtZone::Number(zone) => {
            writer.u32(0);
            writer.u16(zone);
        }
        CtZone::Field(bits) => {
            encode_name(bits.field, None, writer);
            writer.u16(offset_bits(bits));
        }
    }
    writer.u8(ct.recirc_table);
    writer.zeros(3);
    writer.u16(ct.alg);
    encode::encode_actions(&ct.actions, version, writer);
}

/// Which parts of a range are there.
const IPV4_MIN: u16 = 1 << 0;
const IPV4_MAX: u16 = 1 << 1;
const IPV6_MIN: u16 = 1 << 2;
const IPV6_MAX: u16 = 1 << 3;
const PORT_MIN: u16 = 1 << 4;
const PORT_MAX: u16 = 1 << 5;

pub(super) fn decode_nat(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    must_be_zero(body.take(2)?)?;
    let (flags, parts) = (body.u16()?, body.u16()?);
    let bad = |what: String| Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    if flags & !31 != 0 || flags & 3 == 3 {
        return bad(format!("nat with flags {flags:#x}"));
    }
    if parts != 0 && flags & 3 == 0 || parts & !63 != 0 {
        return bad(format!("nat of neither side with a range {parts:#x}"));
    }
    let has = |bit| parts & bit != 0;
    let is_of_both = has(IPV4_MIN | IPV4_MAX) && has(IPV6_MIN | IPV6_MAX);
    let lacks_first = has(IPV4_MAX) && !has(IPV4_MIN)
        || has(IPV6_MAX) && !has(IPV6_MIN)
        || has(PORT_MAX) && !has(PORT_MIN);
    if is_of_both || lacks_first {
        return bad(format!("nat with a range {parts:#x}"));
    }
    let mut nat = Nat {
        flags,
        ..Nat::default()
    };
    if has(IPV4_MIN) {
        nat.ipv4.0 = Some(body.array()?);
    }
    if has(IPV4_MAX) {
        nat.ipv4.1 = Some(body.array()?);
    }
    if has(IPV6_MIN) {
        nat.ipv6.0 = Some(body.array()?);
    }
    if has(IPV6_MAX) {
        nat.ipv6.1 = Some(body.array()?);
    }
    if has(PORT_MIN) {
        nat.ports.0 = Some(body.u16()?);
    }
    if has(PORT_MAX) {
        nat.ports.1 = Some(body.u16()?);
    }
    Ok(Action::Nat(Box::new(nat)))
}

/// Writes what follows the header.
pub(super) fn encode_nat(nat: &Nat, writer: &mut Writer) {
    writer.zeros(2);
    writer.u16(nat.flags);
    let bits = [
        (nat.ipv4.0.is_some(), IPV4_MIN),
        (nat.ipv4.1.is_some(), IPV4_MAX),
        (nat.ipv6.0.is_some(), IPV6_MIN),
        (nat.ipv6.1.is_some(), IPV6_MAX),
        (nat.ports.0.is_some(), PORT_MIN),
        (nat.ports.1.is_some(), PORT_MAX),
    ];
    let present = bits.into_iter().filter(|bit| bit.0);
    writer.u16(present.fold(0, |parts, bit| parts | bit.1));
    for address in [nat.ipv4.0, nat.ipv4.1].into_iter().flatten() {
        writer.put(&address);
    }
    for address in [nat.ipv6.0, nat.ipv6.1].into_iter().flatten() {
        writer.put(&address);
    }
    for port in [nat.ports.0, nat.ports.1].into_iter().flatten() {
        writer.u16(port);
    }
}
