//! Between OpenFlow's matches, actions and groups and the pipeline's.
//!
//! OpenFlow has several names for one field (`tcp_src` and `udp_src`, `xreg0` and `reg1`), the
//! pipeline one. So reading back chooses the name by what the match says of the packet.
//!
//! 1. What the pipeline cannot do is refused with the error that Open vSwitch gives for a
//!    field, an action or an instruction that it does not know.
//! 2. Converted matches and actions mean the same when they are read back.

pub(super) mod actions;
mod encap;
mod fields;
pub(super) mod groups;
mod learning;
pub(super) mod matching;
pub(super) mod reading;
mod shape;
mod tracking;

/// Whether the pipeline has a field.
pub(super) fn knows(field: thalweg_openflow::FieldId) -> bool {
    fields::pieces(field).is_some()
}

/// The numbers of OpenFlow 1.3's actions that the pipeline has: output, MPLS TTL, VLAN, MPLS,
/// queue, group, IP TTL, set-field.
pub(super) const ACTIONS: [u16; 12] = [0, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25];
