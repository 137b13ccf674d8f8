//! Prints fields and their bits, by the names that packets of a shape have for them.

use std::fmt;

use thalweg_packet::{FieldId, standard as f};

use super::{Context, Out};
use crate::action::Subfield;
use crate::text::fields::{self, Name};
use crate::text::shape::{PROTOCOL_SCTP, PROTOCOL_TCP, PROTOCOL_UDP};

/// The name of a field for packets of this shape.
pub(super) fn name_of(field: FieldId, context: Context<'_>) -> Option<&'static Name> {
    let spelling = context
        .shape
        .and_then(|shape| match (field, shape.protocol) {
            (f::TP_SRC, PROTOCOL_TCP) => Some("tcp_src"),
            (f::TP_DST, PROTOCOL_TCP) => Some("tcp_dst"),
            (f::TP_SRC, PROTOCOL_UDP) => Some("udp_src"),
            (f::TP_DST, PROTOCOL_UDP) => Some("udp_dst"),
            (f::TP_SRC, PROTOCOL_SCTP) => Some("sctp_src"),
            (f::TP_DST, PROTOCOL_SCTP) => Some("sctp_dst"),
            (f::ICMP_TYPE, _) if shape.is_ipv6() => Some("icmpv6_type"),
            (f::ICMP_CODE, _) if shape.is_ipv6() => Some("icmpv6_code"),
            _ => None,
        });
    match spelling {
        Some(spelling) => fields::find(spelling),
        None => fields::name_of(field),
    }
}

/// Writes bits of a field, like `NXM_OF_VLAN_TCI[0..11]`.
pub(super) fn subfield(out: Out<'_, '_>, bits: &Subfield, context: Context<'_>) -> fmt::Result {
    let Some((name, offset)) = covering_name(bits, context) else {
        return write!(out, "{:?}", bits.slices);
    };
    let width = bits.width_bits();
    out.write_str(name.code())?;
    match width {
        _ if offset == 0 && width == name.width_bits => out.write_str("[]"),
        1 => write!(out, "[{offset}]"),
        _ => write!(out, "[{offset}..{}]", offset + width - 1),
    }
}

/// The name that covers the slices, and the position of their lowest bit in it.
pub(super) fn covering_name(bits: &Subfield, context: Context<'_>) -> Option<(&'static Name, u16)> {
    let lowest = bits.slices.first()?;
    let highest = bits.slices.last()?;
    if bits.slices.len() == 1 {
        let is_wide_port = lowest.field == f::IN_PORT && lowest.offset + lowest.width_bits > 16;
        return match is_wide_port {
            true => Some((fields::find("in_port_oxm")?, lowest.offset)),
            false => Some((name_of(lowest.field, context)?, lowest.offset)),
        };
    }
    wide_name(highest.field, lowest.field).map(|(name, base)| (name, base + lowest.offset))
}

/// The wide register that holds registers `first` to `last`, and the position of `last` in it.
pub(super) fn wide_name(first: FieldId, last: FieldId) -> Option<(&'static Name, u16)> {
    [2u16, 4].into_iter().find_map(|registers| {
        let number = first.0.checked_sub(f::REG0.0)?;
        let start = FieldId(f::REG0.0 + number / registers * registers);
        let end = start.0 + registers;
        let name = fields::wide_register(start, registers)?;
        (last.0 < end).then(|| (name, 32 * (end - 1 - last.0)))
    })
}
