//! The connection tracker: `NXAST_CT` and `NXAST_NAT`.

use super::encoder::Encoder;
use super::nesting::{Nesting, Outer};
use super::table::Kind;
use super::{Action, Ct, CtZone, Nat, Subfield};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::wire::Reader;

const COMMIT: u16 = 1 << 0;
const FORCE: u16 = 1 << 1;
const ZONE_BITS: u16 = 16;

const SOURCE: u16 = 1 << 0;
const DESTINATION: u16 = 1 << 1;
const HASH: u16 = 1 << 3;
const RANDOM: u16 = 1 << 4;
const NAT_FLAGS: u16 = 0x1f;

const IPV4_MIN: u16 = 1 << 0;
const IPV4_MAX: u16 = 1 << 1;
const IPV6_MIN: u16 = 1 << 2;
const IPV6_MAX: u16 = 1 << 3;
const PORT_MIN: u16 = 1 << 4;
const PORT_MAX: u16 = 1 << 5;

fn bad_argument(what: &str) -> Refusal {
    refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what)
}

pub(super) fn decode(reader: &mut Reader<'_>, nesting: Nesting) -> Result<Ct, Refusal> {
    let flags = reader.u16()?;
    if flags & FORCE != 0 && flags & COMMIT == 0 {
        return Err(bad_argument("ct with force but without commit"));
    }
    let (source, number) = (reader.u32()?, reader.u16()?);
    let zone = match source {
        0 => CtZone::Number(number),
        _ => {
            let zone = Subfield::from_packed(number, source)?;
            zone.check_source()?;
            if zone.width_bits != ZONE_BITS {
                let what = format!("a zone of {} bits, not 16", zone.width_bits);
                return Err(refuse(ErrorCode::OFPBAC_BAD_SET_LEN, what));
            }
            CtZone::Field(zone)
        }
    };
    let recirc_table = reader.u8()?;
    reader.skip(3)?;
    let alg = reader.u16()?;
    let inside = Reader::new(reader.rest(), ErrorCode::OFPBAC_BAD_LEN);
    let actions = nesting.inside(Outer::Ct)?.decode_list(inside)?;
    let is_plain_nat =
        |action: &Action| matches!(action, Action::Nat(nat) if **nat == Nat::default());
    if flags & COMMIT == 0 && !actions.iter().all(is_plain_nat) {
        return Err(bad_argument("ct without commit may hold a plain nat only"));
    }
    Ok(Ct {
        flags,
        zone,
        recirc_table,
        alg,
        actions,
    })
}

pub(super) fn encode(encoder: &mut Encoder<'_>, ct: &Ct) {
    let context = encoder.context;
    let version = encoder.version;
    encoder.put(Kind::Ct, |writer| {
        writer.u16(ct.flags);
        match &ct.zone {
            CtZone::Number(number) => {
                writer.u32(0);
                writer.u16(*number);
            }
            CtZone::Field(field) => {
                writer.u32(field.short_header());
                writer.u16(field.packed());
            }
        }
        writer.u8(ct.recirc_table);
        writer.zeros(3);
        writer.u16(ct.alg);
        Encoder::new(version, context, writer).list(&ct.actions);
    });
}

pub(super) fn decode_nat(reader: &mut Reader<'_>) -> Result<Nat, Refusal> {
    reader.skip(2)?;
    let (flags, present) = (reader.u16()?, reader.u16()?);
    let has_both = |bits: u16| flags & bits == bits;
    if flags & !NAT_FLAGS != 0 || has_both(SOURCE | DESTINATION) || has_both(HASH | RANDOM) {
        return Err(bad_argument("flags of nat that exclude each other"));
    }
    let has = |bit: u16| present & bit != 0;
    let reader = &mut reader.with_code(ErrorCode::OFPBAC_BAD_ARGUMENT);
    let mut nat = Nat {
        flags,
        ..Nat::default()
    };
    if has(IPV4_MIN) && has(IPV6_MIN | IPV6_MAX)
        || has(IPV4_MAX) && !has(IPV4_MIN)
        || has(IPV6_MAX) && !has(IPV6_MIN)
        || has(PORT_MIN) && !has(IPV4_MIN | IPV6_MIN)
        || has(PORT_MAX) && !has(PORT_MIN)
    {
        return Err(bad_argument("a range of nat whose beginning is missing"));
    }
    nat.ipv4 = range(has(IPV4_MIN), has(IPV4_MAX), || reader.array())?;
    nat.ipv6 = range(has(IPV6_MIN), has(IPV6_MAX), || reader.array())?;
    let ports = range(has(PORT_MIN), has(PORT_MAX), || reader.array::<2>())?;
    nat.ports = (
        ports.0.map(u16::from_be_bytes),
        ports.1.map(u16::from_be_bytes),
    );
    Ok(nat)
}

type Range<T> = (Option<T>, Option<T>);

/// Reads the ends of a range that are present: the first is not zero, the last not below it.
fn range<const N: usize>(
    has_first: bool,
    has_last: bool,
    mut read: impl FnMut() -> Result<[u8; N], Refusal>,
) -> Result<Range<[u8; N]>, Refusal> {
    let first = if has_first { Some(read()?) } else { None };
    let last = if has_last { Some(read()?) } else { None };
    if first == Some([0; N]) {
        return Err(bad_argument("a range of nat that begins at zero"));
    }
    if last.is_some() && last < first {
        return Err(bad_argument("a range of nat that ends before it begins"));
    }
    Ok((first, last))
}

pub(super) fn encode_nat(encoder: &mut Encoder<'_>, nat: &Nat) {
    let bit = |is_present: bool, bit: u16| if is_present { bit } else { 0 };
    let present = bit(nat.ipv4.0.is_some(), IPV4_MIN)
        | bit(nat.ipv4.1.is_some(), IPV4_MAX)
        | bit(nat.ipv6.0.is_some(), IPV6_MIN)
        | bit(nat.ipv6.1.is_some(), IPV6_MAX)
        | bit(nat.ports.0.is_some(), PORT_MIN)
        | bit(nat.ports.1.is_some(), PORT_MAX);
    encoder.put(Kind::Nat, |writer| {
        writer.u16(0);
        writer.u16(nat.flags);
        writer.u16(present);
        for address in [nat.ipv4.0, nat.ipv4.1].into_iter().flatten() {
            writer.put(&address);
        }
        for address in [nat.ipv6.0, nat.ipv6.1].into_iter().flatten() {
            writer.put(&address);
        }
        for port in [nat.ports.0, nat.ports.1].into_iter().flatten() {
            writer.u16(port);
        }
    });
}
