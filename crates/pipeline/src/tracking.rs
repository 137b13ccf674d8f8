//! The action `ct(...)`: what a rule asks of the tracker of connections.

use thalweg_conntrack::{AddressTranslation, Alg};
use thalweg_packet::{FieldId, standard as f};

use crate::action::{Actions, Subfield, TableId};

/// The fields that a tracker gives, in the order of the catalogue.
pub const TRACKED_FIELDS: [FieldId; 11] = [
    f::CT_STATE,
    f::CT_ZONE,
    f::CT_MARK,
    f::CT_LABEL,
    f::CT_NW_SRC,
    f::CT_NW_DST,
    f::CT_IPV6_SRC,
    f::CT_IPV6_DST,
    f::CT_NW_PROTO,
    f::CT_TP_SRC,
    f::CT_TP_DST,
];

/// What a lookup with the tuple of the connection's first packet reads.
pub(crate) const TUPLE_FIELDS: [FieldId; 19] = [
    f::PRESENT_IPV4,
    f::PRESENT_IPV6,
    f::CT_NW_SRC,
    f::CT_NW_DST,
    f::CT_IPV6_SRC,
    f::CT_IPV6_DST,
    f::CT_NW_PROTO,
    f::CT_TP_SRC,
    f::CT_TP_DST,
    f::IP_SRC,
    f::IP_DST,
    f::IPV6_SRC,
    f::IPV6_DST,
    f::IP_PROTO,
    f::TP_SRC,
    f::TP_DST,
    f::ICMP_TYPE,
    f::ICMP_CODE,
    f::IP_FRAG,
];

/// Whether a tracker gives the field.
pub(crate) fn is_tracked(field: FieldId) -> bool {
    TRACKED_FIELDS.contains(&field)
}

/// What `ct(...)` asks of the tracker, and where the packet goes on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tracking {
    /// The zone in which the packet is tracked.
    pub zone: Zone,
    /// Whether a new connection is remembered (`commit`).
    pub is_commit: bool,
    /// Whether a connection that began in the other direction ends first (`force`).
    pub is_forced: bool,
    /// The table in which a copy of the packet is looked up once it has been tracked.
    pub table: Option<TableId>,
    /// How addresses are translated (`nat`).
    pub translation: Option<AddressTranslation>,
    /// The protocol whose payload announces further connections (`alg`).
    pub alg: Option<Alg>,
    /// What writes the mark and the label (`exec`): writes of constants, and moves.
    pub exec: Actions,
}

/// A zone of the tracker.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Zone {
    /// Its number.
    Number(u16),
    /// The 16 bits that hold it.
    Field(Subfield),
}
