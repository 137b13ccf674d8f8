//! Choices by a hash: `NXAST_BUNDLE`, `NXAST_BUNDLE_LOAD`, `NXAST_MULTIPATH`.

use super::encoder::Encoder;
use super::port::check_output_port;
use super::subfield::check_zeros;
use super::table::Kind;
use super::{Action, Bundle, Subfield};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::port_number::PortNumber;
use crate::wire::Reader;

/// The header of `in_port` (NXM), the only type of members.
const MEMBER_TYPE: u32 = 2;
const MAX_MEMBERS: u16 = 2048;
const LAST_HASH_FIELDS: u16 = 6;
const LAST_BUNDLE_ALGORITHM: u16 = 1;
const LAST_MULTIPATH_ALGORITHM: u16 = 3;

fn bad_argument(what: String) -> Refusal {
    refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what)
}

pub(super) fn decode(reader: &mut Reader<'_>, kind: Kind) -> Result<Bundle, Refusal> {
    let (algorithm, fields, basis) = (reader.u16()?, reader.u16()?, reader.u16()?);
    let (member_type, count) = (reader.u32()?, reader.u16()?);
    let (packed, header) = (reader.u16()?, reader.u32()?);
    if fields > LAST_HASH_FIELDS
        || algorithm > LAST_BUNDLE_ALGORITHM
        || count > MAX_MEMBERS
        || member_type != MEMBER_TYPE
    {
        let what = format!(
            "bundle with fields {fields}, algorithm {algorithm}, \
            {count} members of type {member_type:#x}"
        );
        return Err(bad_argument(what));
    }
    check_zeros(reader.take(4)?, ErrorCode::OFPBAC_BAD_ARGUMENT)?;
    let destination = if kind == Kind::BundleLoad {
        let destination = Subfield::from_packed(packed, header)?;
        if destination.width_bits < 16 {
            let width = destination.width_bits;
            return Err(bad_argument(format!("{width} bits for a port's number")));
        }
        destination.check_destination()?;
        Some(destination)
    } else if packed != 0 || header != 0 {
        return Err(bad_argument("bundle names a field".to_owned()));
    } else {
        None
    };
    let mut members = reader.part(2 * usize::from(count))?;
    let mut list = Vec::with_capacity(count.into());
    while !members.is_empty() {
        let port = PortNumber::from_u16(members.u16()?);
        if port == PortNumber::CONTROLLER {
            let what = "bundle cannot have a controller as a member";
            return Err(refuse(ErrorCode::OFPBAC_BAD_OUT_PORT, what));
        }
        if port != PortNumber::ANY {
            check_output_port(port)?;
        }
        list.push(port);
    }
    Ok(Bundle {
        algorithm,
        fields,
        basis,
        members: list,
        destination,
    })
}

pub(super) fn encode(encoder: &mut Encoder<'_>, bundle: &Bundle) {
    let kind = match bundle.destination {
        Some(_) => Kind::BundleLoad,
        None => Kind::Bundle,
    };
    encoder.put(kind, |writer| {
        writer.u16(bundle.algorithm);
        writer.u16(bundle.fields);
        writer.u16(bundle.basis);
        writer.u32(MEMBER_TYPE);
        writer.u16(bundle.members.len() as u16);
        writer.u16(bundle.destination.map_or(0, |field| field.packed()));
        writer.u32(bundle.destination.map_or(0, |field| field.short_header()));
        writer.zeros(4);
        for member in &bundle.members {
            writer.u16(member.to_u16().unwrap_or(u16::MAX));
        }
    });
}

pub(super) fn decode_multipath(reader: &mut Reader<'_>) -> Result<Action, Refusal> {
    let (fields, basis) = (reader.u16()?, reader.u16()?);
    reader.skip(2)?;
    let (algorithm, max_link, argument) = (reader.u16()?, reader.u16()?, reader.u32()?);
    reader.skip(2)?;
    let destination = Subfield::from_packed(reader.u16()?, reader.u32()?)?;
    let links = u32::from(max_link) + 1;
    let bits = links.next_power_of_two().trailing_zeros();
    if fields > LAST_HASH_FIELDS
        || algorithm > LAST_MULTIPATH_ALGORITHM
        || u32::from(destination.width_bits) < bits
    {
        let what = format!(
            "multipath with fields {fields}, algorithm {algorithm}, {links} links in {} bits",
            destination.width_bits
        );
        return Err(bad_argument(what));
    }
    destination.check_destination()?;
    Ok(Action::Multipath {
        fields,
        basis,
        algorithm,
        max_link,
        argument,
        destination,
    })
}
