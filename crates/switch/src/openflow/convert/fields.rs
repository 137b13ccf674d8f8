//! Which bits of the pipeline's fields each of OpenFlow's fields covers.

use std::collections::HashMap;
use std::sync::LazyLock;

use thalweg_openflow as of;
use thalweg_openflow::{ErrorCode, Needs, Refusal, refuse};
use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, TUNNEL_OPTIONS};
use thalweg_pipeline::{Slice, Subfield};

use super::shape::Shape;

/// A run of a field's bits, and the bits of a pipeline's field that they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) field: FieldId,
    /// The lowest bit in the pipeline's field.
    pub(super) offset: u16,
    /// The lowest bit in OpenFlow's field.
    pub(super) of_offset: u16,
    pub(super) width_bits: u16,
}

const fn piece(field: FieldId, offset: u16, of_offset: u16, width_bits: u16) -> Piece {
    Piece {
        field,
        offset,
        of_offset,
        width_bits,
    }
}

type Row = (of::FieldId, Piece);

/// The fields that are one run of bits; where several of OpenFlow's are the same bits, the
/// first that the packet has is the one to print.
#[rustfmt::skip]
static ROWS: [Row; 85] = [
    (of::FieldId::RECIRC_ID, piece(f::RECIRC_ID, 0, 0, 32)),
    (of::FieldId::CONJ_ID, piece(f::CONJ_ID, 0, 0, 32)),
    (of::FieldId::TUN_ID, piece(f::TUN_ID, 0, 0, 64)),
    (of::FieldId::TUN_SRC, piece(f::TUN_SRC, 0, 0, 32)),
    (of::FieldId::TUN_DST, piece(f::TUN_DST, 0, 0, 32)),
    (of::FieldId::TUN_IPV6_SRC, piece(f::TUN_IPV6_SRC, 0, 0, 128)),
    (of::FieldId::TUN_IPV6_DST, piece(f::TUN_IPV6_DST, 0, 0, 128)),
    (of::FieldId::TUN_FLAGS, piece(f::TUN_FLAGS, 0, 0, 1)),
    (of::FieldId::TUN_GBP_ID, piece(f::TUN_GBP_ID, 0, 0, 16)),
    (of::FieldId::TUN_GBP_FLAGS, piece(f::TUN_GBP_FLAGS, 0, 0, 8)),
    (of::FieldId::TUN_ERSPAN_IDX, piece(f::TUN_ERSPAN_IDX, 0, 0, 20)),
    (of::FieldId::TUN_ERSPAN_VER, piece(f::TUN_ERSPAN_VER, 0, 0, 4)),
    (of::FieldId::TUN_ERSPAN_DIR, piece(f::TUN_ERSPAN_DIR, 0, 0, 1)),
    (of::FieldId::TUN_ERSPAN_HWID, piece(f::TUN_ERSPAN_HWID, 0, 0, 6)),
    (of::FieldId::TUN_GTPU_FLAGS, piece(f::TUN_GTPU_FLAGS, 0, 0, 8)),
    (of::FieldId::TUN_GTPU_MSGTYPE, piece(f::TUN_GTPU_MSGTYPE, 0, 0, 8)),
    (of::FieldId::CT_STATE, piece(f::CT_STATE, 0, 0, 8)),
    (of::FieldId::CT_ZONE, piece(f::CT_ZONE, 0, 0, 16)),
    (of::FieldId::CT_MARK, piece(f::CT_MARK, 0, 0, 32)),
    (of::FieldId::CT_LABEL, piece(f::CT_LABEL, 0, 0, 128)),
    (of::FieldId::CT_NW_SRC, piece(f::CT_NW_SRC, 0, 0, 32)),
    (of::FieldId::CT_NW_DST, piece(f::CT_NW_DST, 0, 0, 32)),
    (of::FieldId::CT_IPV6_SRC, piece(f::CT_IPV6_SRC, 0, 0, 128)),
    (of::FieldId::CT_IPV6_DST, piece(f::CT_IPV6_DST, 0, 0, 128)),
    (of::FieldId::CT_NW_PROTO, piece(f::CT_NW_PROTO, 0, 0, 8)),
    (of::FieldId::CT_TP_SRC, piece(f::CT_TP_SRC, 0, 0, 16)),
    (of::FieldId::CT_TP_DST, piece(f::CT_TP_DST, 0, 0, 16)),
    (of::FieldId::PKT_MARK, piece(f::PKT_MARK, 0, 0, 32)),
    (of::FieldId::DP_HASH, piece(f::DP_HASH, 0, 0, 32)),
    (of::FieldId::ACTSET_OUTPUT, piece(f::ACTSET_OUTPUT, 0, 0, 32)),
    (of::FieldId::PACKET_TYPE, piece(f::PACKET_TYPE, 0, 0, 32)),
    (of::FieldId::METADATA, piece(f::METADATA, 0, 0, 64)),
    (of::FieldId::IN_PORT_OXM, piece(f::IN_PORT, 0, 0, 32)),
    (of::FieldId::IN_PORT, piece(f::IN_PORT, 0, 0, 16)),
    (of::FieldId::ETH_SRC, piece(f::ETH_SRC, 0, 0, 48)),
    (of::FieldId::ETH_DST, piece(f::ETH_DST, 0, 0, 48)),
    (of::FieldId::ETH_TYPE, piece(f::ETH_TYPE, 0, 0, 16)),
    (of::FieldId::VLAN_TCI, piece(f::VLAN_TCI, 0, 0, 16)),
    (of::FieldId::VLAN_VID, piece(f::VLAN_TCI, 0, 0, 13)),
    (of::FieldId::VLAN_PCP, piece(f::VLAN_TCI, 13, 0, 3)),
    (of::FieldId::MPLS_LABEL, piece(f::MPLS_LABEL, 0, 0, 20)),
    (of::FieldId::MPLS_TC, piece(f::MPLS_TC, 0, 0, 3)),
    (of::FieldId::MPLS_BOS, piece(f::MPLS_BOS, 0, 0, 1)),
    (of::FieldId::MPLS_TTL, piece(f::MPLS_TTL, 0, 0, 8)),
    (of::FieldId::NSH_FLAGS, piece(f::NSH_FLAGS, 0, 0, 2)),
    (of::FieldId::NSH_TTL, piece(f::NSH_TTL, 0, 0, 6)),
    (of::FieldId::NSH_MDTYPE, piece(f::NSH_MDTYPE, 0, 0, 8)),
    (of::FieldId::NSH_NP, piece(f::NSH_NP, 0, 0, 8)),
    (of::FieldId::NSH_SPI, piece(f::NSH_SPI, 0, 0, 24)),
    (of::FieldId::NSH_SI, piece(f::NSH_SI, 0, 0, 8)),
    (of::FieldId::NSH_C1, piece(f::NSH_C1, 0, 0, 32)),
    (of::FieldId::NSH_C2, piece(f::NSH_C2, 0, 0, 32)),
    (of::FieldId::NSH_C3, piece(f::NSH_C3, 0, 0, 32)),
    (of::FieldId::NSH_C4, piece(f::NSH_C4, 0, 0, 32)),
    (of::FieldId::IP_SRC, piece(f::IP_SRC, 0, 0, 32)),
    (of::FieldId::IP_DST, piece(f::IP_DST, 0, 0, 32)),
    (of::FieldId::IPV6_SRC, piece(f::IPV6_SRC, 0, 0, 128)),
    (of::FieldId::IPV6_DST, piece(f::IPV6_DST, 0, 0, 128)),
    (of::FieldId::IPV6_LABEL, piece(f::IPV6_LABEL, 0, 0, 20)),
    (of::FieldId::NW_PROTO, piece(f::IP_PROTO, 0, 0, 8)),
    (of::FieldId::NW_TOS, piece(f::IP_DSCP, 0, 2, 6)),
    (of::FieldId::IP_DSCP, piece(f::IP_DSCP, 0, 0, 6)),
    (of::FieldId::NW_ECN, piece(f::IP_ECN, 0, 0, 2)),
    (of::FieldId::NW_TTL, piece(f::IP_TTL, 0, 0, 8)),
    (of::FieldId::IP_FRAG, piece(f::IP_FRAG, 0, 0, 2)),
    (of::FieldId::ARP_OP, piece(f::ARP_OP, 0, 0, 16)),
    (of::FieldId::ARP_SPA, piece(f::ARP_SPA, 0, 0, 32)),
    (of::FieldId::ARP_TPA, piece(f::ARP_TPA, 0, 0, 32)),
    (of::FieldId::ARP_SHA, piece(f::ARP_SHA, 0, 0, 48)),
    (of::FieldId::ARP_THA, piece(f::ARP_THA, 0, 0, 48)),
    (of::FieldId::TCP_SRC, piece(f::TP_SRC, 0, 0, 16)),
    (of::FieldId::TCP_DST, piece(f::TP_DST, 0, 0, 16)),
    (of::FieldId::TCP_FLAGS, piece(f::TCP_FLAGS, 0, 0, 12)),
    (of::FieldId::UDP_SRC, piece(f::TP_SRC, 0, 0, 16)),
    (of::FieldId::UDP_DST, piece(f::TP_DST, 0, 0, 16)),
    (of::FieldId::SCTP_SRC, piece(f::TP_SRC, 0, 0, 16)),
    (of::FieldId::SCTP_DST, piece(f::TP_DST, 0, 0, 16)),
    (of::FieldId::ICMP_TYPE, piece(f::ICMP_TYPE, 0, 0, 8)),
    (of::FieldId::ICMP_CODE, piece(f::ICMP_CODE, 0, 0, 8)),
    (of::FieldId::ICMPV6_TYPE, piece(f::ICMP_TYPE, 0, 0, 8)),
    (of::FieldId::ICMPV6_CODE, piece(f::ICMP_CODE, 0, 0, 8)),
    (of::FieldId::ND_TARGET, piece(f::ND_TARGET, 0, 0, 128)),
    (of::FieldId::ND_SLL, piece(f::ND_SLL, 0, 0, 48)),
    (of::FieldId::ND_TLL, piece(f::ND_TLL, 0, 0, 48)),
    (of::FieldId::REG0, piece(f::REG0, 0, 0, 32)),
];

/// The pieces of every field, registers included, the lowest bits first.
static PIECES: LazyLock<HashMap<of::FieldId, Vec<Piece>>> = LazyLock::new(|| {
    let mut pieces: HashMap<_, _> = ROWS
        .iter()
        .map(|(field, piece)| (*field, vec![*piece]))
        .collect();
    for (prefix, count, registers) in [("reg", 16, 1), ("xreg", 8, 2), ("xxreg", 4, 4)] {
        for number in 0..count {
            let field = of::FieldId::named(&format!("{prefix}{number}"));
            let field = field.expect("OpenFlow has these registers");
            // The lowest bits are in the register with the highest number.
            let parts = (0..registers).map(|part| {
                let register = registers * number + (registers - 1 - part);
                piece(f::register_field(register), 0, 32 * part, 32)
            });
            pieces.insert(field, parts.collect());
        }
    }
    for number in 0..TUNNEL_OPTIONS {
        let option = option_field(number);
        pieces.insert(
            option,
            vec![piece(f::tunnel_option_field(number), 0, 0, 128)],
        );
    }
    pieces
});

/// OpenFlow's field of a tunnel's option.
fn option_field(number: u8) -> of::FieldId {
    of::FieldId::TUN_METADATA0.after(number.into())
}

/// The pieces of a field, the lowest bits first; `None` if the pipeline lacks it.
pub(super) fn pieces(field: of::FieldId) -> Option<&'static [Piece]> {
    PIECES.get(&field).map(Vec::as_slice)
}

/// The pieces of a field that actions name.
///
/// # Errors
/// If the pipeline lacks the field.
pub(super) fn pieces_for_action(field: of::FieldId) -> Result<&'static [Piece], Refusal> {
    let lacking = || {
        let what = format!("this switch has no field {field}");
        refuse(ErrorCode::OFPBAC_BAD_SET_TYPE, what)
    };
    pieces(field).ok_or_else(lacking)
}

/// The bits of the pipeline that some bits of a field are.
///
/// # Errors
/// If the pipeline lacks the field, or the bits are outside it.
pub(super) fn subfield(bits: of::action::Subfield) -> Result<Subfield, Refusal> {
    let pieces = pieces_for_action(bits.field)?;
    let (first, end) = (
        bits.offset,
        u32::from(bits.offset) + u32::from(bits.width_bits),
    );
    if bits.width_bits == 0 || end > u32::from(bits.field.width_bits()) {
        let what = format!("{} has {} bits", bits.field, bits.field.width_bits());
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    let end = end as u16;
    let slices = pieces.iter().filter_map(|piece| {
        let low = first.max(piece.of_offset);
        let high = end.min(piece.of_offset + piece.width_bits);
        (low < high).then(|| Slice {
            field: piece.field,
            offset: low - piece.of_offset + piece.offset,
            width_bits: high - low,
        })
    });
    Ok(Subfield {
        slices: slices.collect(),
    })
}

/// OpenFlow's name for a pipeline's field in packets of a shape, with the piece that it is.
pub(super) fn name_of(field: FieldId, shape: &Shape) -> Option<(of::FieldId, Piece)> {
    if f::REG0 <= field && field <= f::register_field(15) {
        let register = of::FieldId::named(&format!("reg{}", field.0 - f::REG0.0))?;
        return Some((register, piece(field, 0, 0, 32)));
    }
    if let Some(number) = f::tunnel_option_of(field) {
        return Some((option_field(number), piece(field, 0, 0, 128)));
    }
    let named = || ROWS.iter().filter(move |row| row.1.field == field);
    let fits = |row: &&Row| shape.has(row.0.needs());
    named().find(fits).or_else(|| named().next()).copied()
}

/// OpenFlow's name for some bits.
pub(super) fn of_subfield(bits: &Subfield, shape: &Shape) -> Option<of::action::Subfield> {
    let first = bits.slices.first()?;
    if bits.slices.len() == 1 {
        let (field, piece) = name_of(first.field, shape)?;
        let offset = (first.offset + piece.of_offset).checked_sub(piece.offset)?;
        return Some(of::action::Subfield::new(field, offset, first.width_bits));
    }
    // Bits of several registers: the wide register that has them all.
    let holds = |pieces: &[Piece]| {
        let start = pieces.iter().position(|piece| piece.field == first.field)?;
        let offset = pieces[start].of_offset + first.offset;
        let run = pieces[start..].iter().zip(&*bits.slices);
        let agrees = run.clone().count() == bits.slices.len()
            && run.clone().all(|(piece, slice)| piece.field == slice.field);
        agrees.then_some(offset)
    };
    let wide = |prefix: &str, count: u16| {
        (0..count).find_map(|number| {
            let field = of::FieldId::named(&format!("{prefix}{number}"))?;
            Some((field, holds(pieces(field)?)?))
        })
    };
    let (field, offset) = wide("xreg", 8).or_else(|| wide("xxreg", 4))?;
    let width_bits = bits.width_bits();
    Some(of::action::Subfield::new(field, offset, width_bits))
}

/// Whether a field's prerequisites say more than "Ethernet".
pub(super) fn needs_more(field: of::FieldId) -> bool {
    !matches!(field.needs(), Needs::Nothing | Needs::Ethernet)
}
