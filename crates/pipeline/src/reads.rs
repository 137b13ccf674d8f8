//! Which fields a program needs in its keys: those its rules match and its actions read.
//!
//! A field of the packet that is only written needs no place in the key. A register or a field of
//! a tunnel that is written does: controllers are told of it with the packet. Beyond its visible
//! operands, an action reads its preconditions: whether the header that it writes is there, what
//! undoing `pop_mpls` takes, what repeating `dec_ttl` takes. The interpreter reads fields without
//! checking that the layout has them; this list makes that safe. A condition on ports also reads
//! whether the packet is a fragment, whose ports tables may not see (`fragments`).

use std::collections::BTreeSet;

use thalweg_classifier::Version;
use thalweg_packet::{FieldDescriptor, FieldId, PortId, Scalar, Source, standard as f};

use crate::action::{Action, Output, Subfield, TableId};
use crate::flow::{Flow, Group, GroupKind, SelectionMethod};
use crate::fragments::is_about_ports;
use crate::learning::{LearnTarget, LearnedBits, Learning};
use crate::links::FlowHash;
use crate::mirror::Mirrors;
use crate::pipeline::Pipeline;
use crate::tracking::{TUPLE_FIELDS, Zone, is_tracked};
use crate::vlan::PortVlans;

/// Fields read by what hashes both directions of a connection alike.
const CONNECTION_FIELDS: [FieldId; 14] = [
    f::PRESENT_IPV4,
    f::PRESENT_IPV6,
    f::ETH_SRC,
    f::ETH_DST,
    f::ETH_TYPE,
    f::VLAN_TCI,
    f::IP_SRC,
    f::IP_DST,
    f::IPV6_SRC,
    f::IPV6_DST,
    f::IP_PROTO,
    f::IP_FRAG,
    f::TP_SRC,
    f::TP_DST,
];

/// Adds the fields that a hash reads.
fn add_hash(hash: FlowHash, used: &mut BTreeSet<FieldId>) {
    match hash {
        FlowHash::EthSource => {
            used.insert(f::ETH_SRC);
        }
        FlowHash::IpSource => {
            used.extend([f::PRESENT_IPV4, f::PRESENT_IPV6, f::IP_SRC, f::IPV6_SRC]);
        }
        FlowHash::IpDestination => {
            used.extend([f::PRESENT_IPV4, f::PRESENT_IPV6, f::IP_DST, f::IPV6_DST]);
        }
        FlowHash::SymmetricL3
        | FlowHash::SymmetricL4
        | FlowHash::SymmetricL3L4
        | FlowHash::SymmetricL3L4Udp => {
            used.extend(CONNECTION_FIELDS);
            used.insert(f::VLAN_TCI_INNER);
        }
    }
}

/// Fields that an action on VLAN tags reads or moves.
const TAG_FIELDS: [FieldId; 4] = [f::VLAN_TCI, f::VLAN_TCI_INNER, f::ETH_TYPE, f::RECIRC_ID];

/// Fields that `normal` reads.
const NORMAL_FIELDS: [FieldId; 4] = [f::IN_PORT, f::VLAN_TCI, f::ETH_SRC, f::ETH_DST];

/// Fields that a `push_mpls` or `pop_mpls` reads or moves.
const MPLS_FIELDS: [FieldId; 15] = [
    f::ETH_TYPE,
    f::RECIRC_ID,
    f::MPLS_LABEL,
    f::MPLS_TC,
    f::MPLS_BOS,
    f::MPLS_TTL,
    f::MPLS_LSE1,
    f::MPLS_LSE2,
    f::PRESENT_MPLS,
    f::PRESENT_IPV4,
    f::PRESENT_IPV6,
    f::PRESENT_IPV6_CHAIN,
    f::IP_DSCP,
    f::IP_TTL,
    f::IP_TTL_ABOVE_1,
];

/// Adds the fields that a rule needs.
pub(crate) fn add_flow(flow: &Flow, fields: &[FieldDescriptor], used: &mut BTreeSet<FieldId>) {
    used.extend(flow.matching.terms().iter().map(|term| term.field));
    if is_about_ports(&flow.matching) {
        used.insert(f::IP_FRAG);
    }
    add_actions(&flow.actions, fields, used);
}

impl Pipeline {
    /// Whether a rule of these tables asks for, reads or writes an option of tunnels
    /// (`tun_metadata`), by its number.
    pub fn uses_tunnel_option(
        &self,
        number: u8,
        version: Version,
        is_of: impl Fn(TableId) -> bool,
    ) -> bool {
        let layout = self.layout();
        let (field, bit) = (f::tunnel_option_field(number), 1 << number);
        let known = [field, f::TUN_OPTIONS].map(|field| layout.slot(field).is_some());
        if known == [false, false] {
            return false;
        }
        let is_of_presence = |action: &Action| match action {
            Action::SetField(writes) => writes
                .iter()
                .any(|write| write.field == f::TUN_OPTIONS && write.mask & bit != 0),
            _ => false,
        };
        let mut rules = self.rules(version).filter(|(_, rule)| is_of(rule.table));
        rules.any(|(id, rule)| {
            let matching = self.match_of(id).unwrap_or_default();
            let presence = matching.term(f::TUN_OPTIONS).map_or(0, |term| term.mask);
            let mut used: BTreeSet<FieldId> = BTreeSet::new();
            used.extend(matching.terms().iter().map(|term| term.field));
            add_actions(&rule.actions, self.fields(), &mut used);
            let is_present = presence & bit != 0 || rule.actions.iter().any(is_of_presence);
            is_present || used.contains(&field)
        })
    }
}

/// Adds the fields that a group needs.
pub(crate) fn add_group(group: &Group, fields: &[FieldDescriptor], used: &mut BTreeSet<FieldId>) {
    if let GroupKind::Select(selection) = &group.kind {
        match &selection.method {
            SelectionMethod::Fields(hashed) if !hashed.is_empty() => {
                used.extend(hashed.iter().map(|hashed| hashed.field));
                used.extend(hashed.iter().filter_map(|hashed| hashed.only_with));
            }
            _ => used.extend(CONNECTION_FIELDS),
        }
    }
    for bucket in &group.buckets {
        add_actions(&bucket.actions, fields, used);
    }
}

/// Adds the fields that `normal` reads for the tags of a port.
pub(crate) fn add_vlans(vlans: &PortVlans, used: &mut BTreeSet<FieldId>) {
    if vlans.edits_tags() {
        used.extend(TAG_FIELDS);
    }
}

/// Adds the fields that mirrors read.
pub(crate) fn add_mirrors(mirrors: &Mirrors, used: &mut BTreeSet<FieldId>) {
    if mirrors.iter().next().is_some() {
        used.extend(TAG_FIELDS);
        used.extend([f::IN_PORT, f::ETH_DST]);
    }
}

pub(crate) fn add_actions(
    actions: &[Action],
    fields: &[FieldDescriptor],
    used: &mut BTreeSet<FieldId>,
) {
    for action in actions {
        add_action(action, fields, used);
    }
}

// One match: each action has its own fields.
fn add_action(action: &Action, fields: &[FieldDescriptor], used: &mut BTreeSet<FieldId>) {
    match action {
        Action::Output(output) => add_output(output, used),
        Action::SetField(writes) => {
            for write in writes {
                add_target(write.field, fields, used);
            }
        }
        Action::Move {
            source,
            destination,
        } => {
            add_subfield(source, used);
            add_written(destination, fields, used);
        }
        Action::Push(source) => add_subfield(source, used),
        Action::Pop(destination) => add_written(destination, fields, used),
        Action::SetVlan { .. } | Action::PushVlan(_) | Action::PopVlan => used.extend(TAG_FIELDS),
        Action::PushMpls(_) | Action::PopMpls(_) => used.extend(MPLS_FIELDS),
        Action::DecTtl => {
            used.extend([
                f::IP_TTL,
                f::IP_TTL_ABOVE_1,
                f::PRESENT_IPV4,
                f::PRESENT_IPV6_CHAIN,
            ]);
        }
        Action::DecMplsTtl => used.extend([f::MPLS_TTL, f::PRESENT_MPLS]),
        Action::Encap(_) | Action::Decap(_) => {
            used.extend(MPLS_FIELDS);
            used.extend([
                f::PACKET_TYPE,
                f::VLAN_TCI,
                f::VLAN_TCI_INNER,
                f::ETH_SRC,
                f::ETH_DST,
                f::PRESENT_NSH,
                f::PRESENT_NSH_CONTEXT,
                f::NSH_NP,
            ]);
        }
        Action::DecNshTtl => used.extend([f::NSH_TTL, f::PRESENT_NSH]),
        Action::Resubmit {
            in_port,
            with_tuple,
            ..
        } => {
            if in_port.is_some() {
                used.insert(f::IN_PORT);
            }
            if *with_tuple {
                used.extend(TUPLE_FIELDS);
            }
        }
        Action::Clone(actions) | Action::WriteActions(actions) => {
            add_actions(actions, fields, used);
        }
        Action::Group(_)
        | Action::SetQueue(_)
        | Action::PopQueue
        | Action::DebugSlow
        | Action::Untrack
        | Action::FinTimeout { .. }
        | Action::Sample(_)
        | Action::Note(_)
        | Action::Conjunction { .. }
        | Action::Exit
        | Action::ClearActions
        | Action::Goto(_) => {}
        Action::Multipath(choice) => {
            add_hash(choice.hash, used);
            add_written(&choice.destination, fields, used);
        }
        Action::Bundle(choice) => {
            if choice.hashes() {
                add_hash(choice.hash, used);
            }
            match &choice.destination {
                Some(destination) => add_written(destination, fields, used),
                None => {
                    used.insert(f::IN_PORT);
                    let is_normal = |member: &PortId| member.0 & 0xffff == 0xfffa;
                    if choice.members.iter().any(is_normal) {
                        used.extend(NORMAL_FIELDS);
                    }
                }
            }
        }
        Action::Track(tracking) => {
            if let Zone::Field(bits) = &tracking.zone {
                add_subfield(bits, used);
            }
            for action in &*tracking.exec {
                if let Action::Move { source, .. } = action {
                    add_subfield(source, used);
                }
            }
            if tracking.table.is_some() {
                used.insert(f::RECIRC_ID);
            }
        }
        // A meter may remark, today or later.
        Action::DebugRecirculation | Action::Meter(_) => {
            used.insert(f::RECIRC_ID);
        }
        Action::Learn(learning) => add_learning(learning, fields, used),
        Action::CheckLarger(check) => add_written(&check.larger, fields, used),
        Action::WriteMetadata { .. } => add_target(f::METADATA, fields, used),
    }
}

/// Adds what a rule that learns reads, and what the rules that it learns match and read: these
/// then change no layout.
fn add_learning(learning: &Learning, fields: &[FieldDescriptor], used: &mut BTreeSet<FieldId>) {
    for part in &learning.parts {
        if let LearnedBits::Field(source) = &part.source {
            add_subfield(source, used);
        }
        match &part.target {
            LearnTarget::Match(bits) => {
                add_subfield(bits, used);
                used.insert(f::IP_FRAG);
            }
            LearnTarget::Load(bits) => add_written(bits, fields, used),
            LearnTarget::Output => {
                used.insert(f::IN_PORT);
            }
        }
    }
    if let Some(bit) = &learning.result {
        add_written(bit, fields, used);
        used.insert(f::RECIRC_ID);
    }
}

fn add_output(output: &Output, used: &mut BTreeSet<FieldId>) {
    match output {
        Output::Normal => used.extend(NORMAL_FIELDS),
        Output::Field(source) => {
            add_subfield(source, used);
            used.insert(f::IN_PORT);
            // Narrower bits cannot hold the number of `normal`.
            if source.width_bits() >= 16 {
                used.extend(NORMAL_FIELDS);
            }
        }
        Output::Controller { .. } | Output::Table => {}
        Output::Port(_)
        | Output::InPort
        | Output::All
        | Output::Flood
        | Output::Local
        | Output::Enqueue { .. }
        | Output::Truncated { .. } => {
            used.insert(f::IN_PORT);
        }
    }
}

fn add_subfield(subfield: &Subfield, used: &mut BTreeSet<FieldId>) {
    used.extend(subfield.slices.iter().map(|slice| slice.field));
}

/// Adds what a write to a field needs.
fn add_target(field: FieldId, fields: &[FieldDescriptor], used: &mut BTreeSet<FieldId>) {
    used.extend(precondition(field, fields));
    let source = &fields[field.index()].source;
    if matches!(source, Source::Register | Source::Intrinsic(_)) {
        used.insert(field);
    }
}

fn add_written(subfield: &Subfield, fields: &[FieldDescriptor], used: &mut BTreeSet<FieldId>) {
    for slice in &subfield.slices {
        add_target(slice.field, fields, used);
    }
}

/// The fields that tell whether a field can be written: presence bits of the headers it may
/// lie in.
pub(crate) fn precondition(field: FieldId, fields: &[FieldDescriptor]) -> Vec<FieldId> {
    match &fields[field.index()].source {
        Source::Wire(locations) => locations
            .iter()
            .filter_map(|location| f::presence_of(location.header))
            .collect(),
        // A write may add or remove the tag.
        Source::Scalar(Scalar::VlanTci) => TAG_FIELDS.to_vec(),
        Source::Scalar(Scalar::ArpOperation) => vec![f::PRESENT_ARP],
        _ => Vec::new(),
    }
}

/// Whether an action may write the field: bits of a header, a register, or the tunnel's key.
///
/// Fields that say how to read the rest of a packet (the EtherType, the end of the labels) are
/// changed only by the actions for that.
pub(crate) fn is_writable(field: FieldId, descriptor: &FieldDescriptor) -> bool {
    let is_hidden = matches!(field, f::VLAN_TCI_INNER | f::MPLS_LSE1 | f::MPLS_LSE2);
    let is_structure = matches!(field, f::RECIRC_ID | f::MPLS_BOS | f::TCP_FLAGS)
        || matches!(field, f::PACKET_TYPE | f::NSH_MDTYPE | f::NSH_NP);
    // Only a lookup, the action set and a datapath set these.
    let is_set_elsewhere = matches!(field, f::CONJ_ID | f::ACTSET_OUTPUT | f::DP_HASH);
    let is_structure = is_structure || is_set_elsewhere;
    // Of what the tracker said, only `exec` writes, into the connection.
    let is_structure = is_structure || is_tracked(field);
    match &descriptor.source {
        _ if is_hidden || is_structure => false,
        Source::Wire(_) | Source::Register | Source::Intrinsic(_) => true,
        Source::Scalar(scalar) => matches!(scalar, Scalar::VlanTci | Scalar::ArpOperation),
        Source::Presence(_) => false,
    }
}
