//! Checks that an operation must pass by itself, whatever rules and groups exist.
//!
//! Texts are checked by their reader, which knows line and column. But programs also make
//! changes, and can put anything into a [`Change`]: fields outside the catalogue, bits past a
//! field's end, instructions in the middle of a list. All that is refused here, before the
//! first operation is done and before any field is looked up.
//!
//! 1. A change that passes causes no panic later: every field is in the catalogue, every slice
//!    lies inside its field, every number of bits fits a `u128`.
//! 2. A change that passes is meaningful: each of its lists could have been read from a text.
//! 3. The cost is that of reading the change once. Nested lists are followed [`MAX_NESTING`]
//!    deep at most, which bounds the use of stack.

use std::collections::BTreeSet;

use thalweg_packet::{FieldDescriptor, FieldId, Source, standard as f};

use crate::action::{Action, Output, Subfield, TableId, Write};
use crate::change::{Change, ChangeError, Operation};
use crate::conjunctions;
use crate::encap::{Encap, ServiceContext};
use crate::flow::{Bucket, Flow, Group, GroupKind, Selection, SelectionMethod};
use crate::learning::{LearnTarget, LearnedBits, Learning};
use crate::links::{LinkChoice, MAX_LINKS, MAX_MEMBERS, MemberChoice};
use crate::mac::MacMove;
use crate::matching::Match;
use crate::meters::MAX_METER;
use crate::reads;
use crate::tracking::{Tracking, Zone, is_tracked};

/// How deep lists of actions may nest, counting the rule's own list.
pub(crate) const MAX_NESTING: usize = 32;

/// Most buckets of a group.
pub(crate) const MAX_BUCKETS: usize = 4096;

/// Highest group number (OpenFlow `OFPG_MAX`).
pub(crate) const MAX_GROUP: u32 = 0xffff_ff00;

/// Highest bucket number (OpenFlow `OFPG_BUCKET_MAX`).
pub(crate) const MAX_BUCKET: u32 = 0xffff_ff00;

/// Most parts of a `learn`.
const MAX_LEARN_PARTS: usize = 256;

/// Highest table number (OpenFlow `OFPTT_MAX`).
pub(crate) const MAX_TABLE: u8 = 254;

/// Fewest bytes that an output can cut a packet to: an Ethernet header.
pub(crate) const MIN_CUT_BYTES: u32 = 14;

/// EtherTypes of VLAN tags: customer and service (IEEE 802.1Q, table 9-1).
pub(crate) const TAG_TYPES: [u16; 2] = [0x8100, 0x88a8];

/// EtherTypes of MPLS labels: unicast and multicast (RFC 5332, section 3).
pub(crate) const LABEL_TYPES: [u16; 2] = [0x8847, 0x8848];

/// What a list belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A rule: instructions are allowed.
    Rule,
    /// A bucket or a `clone`.
    Nested,
    /// The action set: only actions that it can hold.
    ActionSet,
    /// The `exec` of a `ct`: only what writes the connection's mark and label.
    Exec,
}

impl Owner {
    /// Why a list of this owner cannot hold the action; `None` if it can.
    pub(crate) fn refusal(self, action: &Action) -> Option<&'static str> {
        if self != Owner::Rule && action.instruction_rank() > 0 {
            return Some("an instruction stands only in a rule's own list");
        }
        let writes_connection = match action {
            Action::SetField(writes) => writes.iter().any(|write| is_tracked(write.field)),
            Action::Move { destination, .. } | Action::Pop(destination) => destination
                .slices
                .iter()
                .any(|slice| is_tracked(slice.field)),
            _ => false,
        };
        match (self == Owner::Exec, writes_connection) {
            (true, true) if !matches!(action, Action::Pop(_)) => return None,
            (true, _) => return Some("an exec only writes ct_mark and ct_label"),
            (false, true) => return Some("only the exec of a ct writes ct_mark and ct_label"),
            (false, false) => {}
        }
        let is_for_lists_only = matches!(
            action,
            Action::Clone(_)
                | Action::Exit
                | Action::Note(_)
                | Action::Conjunction { .. }
                | Action::Push(_)
                | Action::Pop(_)
                | Action::PopQueue
                | Action::DebugRecirculation
                | Action::Multipath(_)
                | Action::Bundle(_)
                | Action::DebugSlow
                | Action::Learn(_)
                | Action::FinTimeout { .. }
                | Action::CheckLarger(_)
                | Action::Sample(_)
                | Action::Meter(_)
                | Action::Output(Output::Field(_))
        ) || matches!(action, Action::Output(output) if output.is_extended());
        (self == Owner::ActionSet && is_for_lists_only)
            .then_some("an action set cannot hold this; use it outside")
    }
}

/// Message for an action beside `conjunction` that cannot be there.
pub(crate) const BESIDE_CONJUNCTION: &str =
    "`conjunction` actions may be used along with `note` but not any other kind of action";

/// The fault of a clause's number or of the number of clauses, as Open vSwitch words it.
pub(crate) fn conjunction_fault(clause: u8, clauses: u8) -> Option<&'static str> {
    match (clause, clauses) {
        (_, ..2) => Some("conjunction must have at least 2 clauses"),
        (_, 65..) => Some("conjunction must have at most 64 clauses"),
        (0, _) => Some("clause index must be positive"),
        (clause, clauses) if clause > clauses => {
            Some("clause index must be less than or equal to number of clauses")
        }
        _ => None,
    }
}

/// Message for instructions out of OpenFlow's order.
pub(crate) const OUT_OF_ORDER: &str = "instructions come in this order, each once: actions, \
                                       clear_actions, write_actions, write_metadata, goto_table";

type Checked = Result<(), String>;

/// Checks every operation of a change.
pub(crate) fn change(fields: &[FieldDescriptor], change: &Change) -> Result<(), ChangeError> {
    let form = Form { fields };
    let mut operations = change.operations.iter().enumerate();
    operations.try_for_each(|(index, operation)| form.operation(index, operation))
}

/// Checks a change against a catalogue of fields.
struct Form<'a> {
    fields: &'a [FieldDescriptor],
}

impl Form<'_> {
    // One match: each operation has its own form.
    fn operation(&self, index: usize, operation: &Operation) -> Result<(), ChangeError> {
        let bad_rule = |what| ChangeError::BadRule {
            operation: index,
            what,
        };
        let bad_action = |what| ChangeError::BadAction {
            operation: index,
            what,
        };
        match operation {
            Operation::Add(flow) | Operation::AddChecked(flow) => self.flow(index, flow),
            Operation::Modify(selector, actions) => {
                self.matching(&selector.matching).map_err(bad_rule)?;
                self.list(actions, Owner::Rule, 1).map_err(bad_action)
            }
            Operation::Revise(revision) => {
                let selector = &revision.selector;
                self.matching(&selector.matching).map_err(bad_rule)?;
                let checked = self.list(&revision.actions, Owner::Rule, 1);
                checked.map_err(bad_action)?;
                let otherwise = revision.otherwise.as_ref();
                otherwise.map_or(Ok(()), |flow| self.flow(index, flow))
            }
            Operation::Delete(selector) | Operation::DeleteLeading(selector, _) => {
                self.matching(&selector.matching).map_err(bad_rule)
            }
            Operation::SetGroup(group) => {
                let bad_group = |what| ChangeError::BadGroup {
                    operation: index,
                    group: group.id.number(),
                    what,
                };
                self.group(group).map_err(bad_group)?;
                let mut buckets = group.buckets.iter();
                buckets
                    .try_for_each(|bucket| self.bucket(bucket))
                    .map_err(bad_action)
            }
            Operation::SetMeter(meter) => match meter.fault() {
                Some(what) => Err(ChangeError::BadMeter {
                    operation: index,
                    meter: meter.id.number(),
                    what,
                }),
                None => Ok(()),
            },
            Operation::Foresee(actions) => self.list(actions, Owner::Nested, 1).map_err(bad_action),
            Operation::MoveMacs(moves) => {
                let bad_station = |what| ChangeError::BadStation {
                    operation: index,
                    what,
                };
                moves.iter().try_for_each(station).map_err(bad_station)
            }
            Operation::SetPortVlans(_, vlans) => match vlans.fault() {
                Some(what) => Err(ChangeError::BadPort {
                    operation: index,
                    what,
                }),
                None => Ok(()),
            },
            Operation::SetMirrors(_, mirrors) => match mirrors.fault() {
                Some(what) => Err(ChangeError::BadMirrors {
                    operation: index,
                    what,
                }),
                None => Ok(()),
            },
            Operation::DeleteAll
            | Operation::DeleteGroup(_)
            | Operation::DeleteMeters(_)
            | Operation::SetPort(..)
            | Operation::DeletePort(_)
            | Operation::SetForwardsBpdus(..)
            | Operation::SetMisses(..)
            | Operation::SetFragments(..)
            | Operation::LimitTable(..) => Ok(()),
        }
    }

    fn flow(&self, index: usize, flow: &Flow) -> Result<(), ChangeError> {
        let bad_rule = |what| ChangeError::BadRule {
            operation: index,
            what,
        };
        table(flow.table).map_err(bad_rule)?;
        self.matching(&flow.matching).map_err(bad_rule)?;
        let checked = self.list(&flow.actions, Owner::Rule, 1);
        checked.map_err(|what| ChangeError::BadAction {
            operation: index,
            what,
        })
    }

    fn matching(&self, matching: &Match) -> Checked {
        let mut terms = matching.terms().iter();
        terms.try_for_each(|term| self.bits_of(term.field, term.mask).map(|_| ()))
    }

    fn group(&self, group: &Group) -> Result<(), &'static str> {
        if group.id.number() > MAX_GROUP {
            return Err("groups have numbers up to 4294967040");
        }
        if matches!(group.kind, GroupKind::Indirect) && group.buckets.len() != 1 {
            return Err("an indirect group has exactly one bucket");
        }
        if group.buckets.len() > MAX_BUCKETS {
            return Err("a group has 4096 buckets at most");
        }
        let ids: BTreeSet<u32> = group.buckets.iter().map(|bucket| bucket.id).collect();
        if ids.len() != group.buckets.len() {
            return Err("two buckets have the same number");
        }
        if ids.last().is_some_and(|id| *id > MAX_BUCKET) {
            return Err("buckets have numbers up to 4294967040");
        }
        if let GroupKind::Select(Selection {
            method: SelectionMethod::Fields(fields),
            ..
        }) = &group.kind
        {
            let mut hashed = fields.iter();
            if !hashed.all(|hashed| self.bits_of(hashed.field, hashed.mask).is_ok()) {
                return Err("it hashes a field that does not exist, or bits past a field's end");
            }
            let is_presence = |field: FieldId| {
                let field = self.fields.get(field.index());
                field.is_some_and(|field| matches!(field.source, Source::Presence(_)))
            };
            let mut headers = fields.iter().filter_map(|hashed| hashed.only_with);
            if !headers.all(is_presence) {
                return Err("it hashes a field only with what is no presence bit");
            }
        }
        Ok(())
    }

    fn bucket(&self, bucket: &Bucket) -> Checked {
        let checked = self.list(&bucket.actions, Owner::Nested, 1);
        checked.map_err(|what| format!("bucket {}: {what}", bucket.id))
    }

    fn list(&self, actions: &[Action], owner: Owner, depth: usize) -> Checked {
        if depth > MAX_NESTING {
            let what = format!("lists of actions are nested deeper than {MAX_NESTING}");
            return Err(what);
        }
        if !conjunctions::stand_alone(actions) {
            return Err(BESIDE_CONJUNCTION.to_owned());
        }
        let mut rank = 0;
        for (index, action) in actions.iter().enumerate() {
            let next = action.instruction_rank();
            let checked = match owner.refusal(action) {
                Some(refusal) => Err(refusal.to_owned()),
                None if index > 0 && (next < rank || next == rank && rank > 0) => {
                    Err(OUT_OF_ORDER.to_owned())
                }
                None => self.action(action, depth),
            };
            checked.map_err(|what| format!("action {index}: {what}"))?;
            rank = next;
        }
        Ok(())
    }

    // One match: each action has its own rules.
    fn action(&self, action: &Action, depth: usize) -> Checked {
        match action {
            Action::Output(Output::Field(source)) | Action::Push(source) => self.readable(source),
            Action::Output(Output::Truncated { max_len_bytes, .. })
                if *max_len_bytes < MIN_CUT_BYTES =>
            {
                Err(format!(
                    "output: {max_len_bytes} bytes are less than the {MIN_CUT_BYTES} of an \
                     Ethernet header"
                ))
            }
            Action::SetField(writes) if writes.is_empty() => {
                Err("set_field: there is nothing to write".to_owned())
            }
            Action::SetField(writes) => writes.iter().try_for_each(|write| self.write(write)),
            Action::Move {
                source,
                destination,
            } => {
                self.readable(source)?;
                self.writable(destination)?;
                let (read, written) = (source.width_bits(), destination.width_bits());
                if read != written {
                    return Err(format!(
                        "move: {read} bits cannot be copied to {written}; source and destination \
                         must be equally wide"
                    ));
                }
                Ok(())
            }
            Action::Pop(destination) => self.writable(destination),
            Action::Multipath(choice) => self.link_choice(choice),
            Action::Bundle(choice) => self.member_choice(choice),
            Action::SetVlan { id, priority, .. } => set_vlan(*id, *priority),
            Action::PushVlan(tpid) => {
                ether_type("push_vlan", *tpid, TAG_TYPES, "0x8100 or 0x88a8, a tag's")
            }
            Action::PushMpls(kind) => ether_type(
                "push_mpls",
                *kind,
                LABEL_TYPES,
                "0x8847 or 0x8848, a label's",
            ),
            Action::Encap(encap) => encap_form(encap),
            Action::Group(group) if group.number() > MAX_GROUP => Err(format!(
                "group {}: groups have numbers up to {MAX_GROUP}",
                group.number()
            )),
            Action::Meter(meter) if !(1..=MAX_METER).contains(&meter.number()) => Err(format!(
                "meter {}: rules name meters from 1 to {MAX_METER}",
                meter.number()
            )),
            Action::Resubmit {
                table: Some(to), ..
            }
            | Action::Goto(to) => table(*to),
            Action::Resubmit {
                in_port: None,
                table: None,
                ..
            } => Err(
                "resubmit: this would look up the same rule again; name a port or a table"
                    .to_owned(),
            ),
            Action::Clone(nested) => self.list(nested, Owner::Nested, depth + 1),
            Action::WriteActions(nested) => self.list(nested, Owner::ActionSet, depth + 1),
            Action::Track(tracking) => self.tracking(tracking, depth),
            Action::Learn(learning) => self.learning(learning),
            Action::CheckLarger(check) if check.larger.width_bits() != 1 => {
                Err("check_pkt_larger: the result has one bit".to_owned())
            }
            Action::CheckLarger(check) => self.writable(&check.larger),
            Action::Sample(sampling) if sampling.probability == 0 => {
                Err("sample: the probability is zero".to_owned())
            }
            Action::WriteMetadata { value, mask } if value & !mask != 0 => Err(format!(
                "write_metadata: the value {value:#x} has bits outside the mask {mask:#x}"
            )),
            Action::Conjunction {
                clause, clauses, ..
            } => match conjunction_fault(*clause, *clauses) {
                Some(fault) => Err(fault.to_owned()),
                None => Ok(()),
            },
            Action::Output(_)
            | Action::Group(_)
            | Action::PopVlan
            | Action::PopMpls(_)
            | Action::DecTtl
            | Action::DecMplsTtl
            | Action::DecNshTtl
            | Action::Decap(_)
            | Action::Resubmit { .. }
            | Action::SetQueue(_)
            | Action::PopQueue
            | Action::DebugRecirculation
            | Action::DebugSlow
            | Action::Meter(_)
            | Action::Untrack
            | Action::FinTimeout { .. }
            | Action::Sample(_)
            | Action::Note(_)
            | Action::Exit
            | Action::ClearActions
            | Action::WriteMetadata { .. } => Ok(()),
        }
    }

    fn tracking(&self, tracking: &Tracking, depth: usize) -> Checked {
        if let Zone::Field(bits) = &tracking.zone {
            self.readable(bits)?;
            if bits.width_bits() != 16 {
                return Err("ct: a zone has 16 bits".to_owned());
            }
        }
        let translates = tracking
            .translation
            .as_ref()
            .is_some_and(|nat| nat.target.is_some());
        let commits = translates || tracking.is_forced || !tracking.exec.is_empty();
        if commits && !tracking.is_commit {
            return Err("ct: force, exec and nat(src) or nat(dst) need `commit`".to_owned());
        }
        tracking.table.map_or(Ok(()), table)?;
        self.list(&tracking.exec, Owner::Exec, depth + 1)
    }

    fn learning(&self, learning: &Learning) -> Checked {
        table(learning.table)?;
        if learning.parts.len() > MAX_LEARN_PARTS {
            return Err(format!(
                "learn: there are more than {MAX_LEARN_PARTS} parts"
            ));
        }
        for part in &learning.parts {
            match &part.source {
                LearnedBits::Field(bits) => self.readable(bits)?,
                LearnedBits::Constant { value, width_bits } => {
                    if !(1..=128).contains(width_bits)
                        || value.checked_shr((*width_bits).into()).unwrap_or(0) != 0
                    {
                        return Err(format!("learn: {value:#x} has not {width_bits} bits"));
                    }
                }
            }
            let bits = match &part.target {
                LearnTarget::Match(bits) => bits,
                LearnTarget::Load(bits) => {
                    self.writable(bits)?;
                    bits
                }
                LearnTarget::Output => match &part.source {
                    LearnedBits::Field(_) => continue,
                    LearnedBits::Constant { .. } => {
                        return Err("learn: an output is to a port that the packet names".into());
                    }
                },
            };
            self.readable(bits)?;
            let (read, written) = (part.source.width_bits(), bits.width_bits());
            if read != written {
                return Err(format!("learn: {read} bits cannot be {written}"));
            }
        }
        match &learning.result {
            Some(bit) if bit.width_bits() != 1 => Err("learn: the result has one bit".to_owned()),
            Some(bit) => self.writable(bit),
            None => Ok(()),
        }
    }

    fn link_choice(&self, choice: &LinkChoice) -> Checked {
        self.writable(&choice.destination)?;
        let width = u32::from(choice.destination.width_bits()).min(16);
        match choice.links {
            1..=MAX_LINKS if choice.links <= 1 << width => Ok(()),
            links => Err(format!("multipath: {links} links do not fit {width} bits")),
        }
    }

    fn member_choice(&self, choice: &MemberChoice) -> Checked {
        if choice.members.len() > MAX_MEMBERS {
            return Err(format!("bundle: there are more than {MAX_MEMBERS} members"));
        }
        let Some(destination) = &choice.destination else {
            return Ok(());
        };
        self.writable(destination)?;
        match destination.width_bits() {
            ..16 => Err("bundle_load: a port's number has 16 bits".to_owned()),
            _ => Ok(()),
        }
    }

    fn write(&self, write: &Write) -> Checked {
        let descriptor = self.bits_of(write.field, write.mask)?;
        self.may_write(write.field, descriptor)?;
        let (name, value, mask) = (&descriptor.name, write.value, write.mask);
        if mask == 0 {
            return Err(format!("set_field: the mask selects no bit of {name}"));
        }
        if value & !mask != 0 {
            return Err(format!(
                "set_field: the value {value:#x} for {name} has bits outside the mask {mask:#x}"
            ));
        }
        Ok(())
    }

    fn writable(&self, subfield: &Subfield) -> Checked {
        self.readable(subfield)?;
        let mut slices = subfield.slices.iter();
        slices.try_for_each(|slice| self.may_write(slice.field, self.descriptor(slice.field)?))
    }

    fn may_write(&self, field: FieldId, descriptor: &FieldDescriptor) -> Checked {
        // Lists outside of an exec are refused for these ([`Owner::refusal`]).
        let is_of_connection = matches!(field, f::CT_MARK | f::CT_LABEL);
        if is_of_connection || reads::is_writable(field, descriptor) {
            return Ok(());
        }
        let name = &descriptor.name;
        Err(format!(
            "field {name} is read-only; it cannot be set, loaded or moved to"
        ))
    }

    /// Checks that all bits of a subfield exist, and that they fit one number.
    fn readable(&self, subfield: &Subfield) -> Checked {
        let mut sum = 0;
        for slice in &subfield.slices {
            let descriptor = self.descriptor(slice.field)?;
            let end = u32::from(slice.offset) + u32::from(slice.width_bits);
            if slice.width_bits == 0 || end > u32::from(descriptor.width_bits) {
                return Err(format!(
                    "{} bits from bit {} up of {}, which has {}",
                    slice.width_bits, slice.offset, descriptor.name, descriptor.width_bits
                ));
            }
            sum += u32::from(slice.width_bits);
        }
        match sum {
            1..=128 => Ok(()),
            0 => Err("a subfield has no bits".to_owned()),
            _ => Err(format!("a subfield has {sum} bits; 128 fit")),
        }
    }

    /// The descriptor of a field, if the field has all bits of the mask.
    fn bits_of(&self, field: FieldId, mask: u128) -> Result<&FieldDescriptor, String> {
        let descriptor = self.descriptor(field)?;
        let width = descriptor.width_bits;
        if width < 128 && mask >> width != 0 {
            let name = &descriptor.name;
            return Err(format!(
                "{name} has {width} bits; the mask {mask:#x} has more"
            ));
        }
        Ok(descriptor)
    }

    fn descriptor(&self, field: FieldId) -> Result<&FieldDescriptor, String> {
        let known = self.fields.get(field.index());
        known.ok_or_else(|| format!("there is no field number {}", field.0))
    }
}

fn table(table: TableId) -> Checked {
    if table.number() > MAX_TABLE {
        return Err(format!(
            "table {}: tables have numbers up to {MAX_TABLE}",
            table.0
        ));
    }
    Ok(())
}

fn set_vlan(id: Option<u16>, priority: Option<u8>) -> Checked {
    match (id, priority) {
        (Some(id), _) if id > 0x0fff => Err(format!("VLAN {id}: there are VLANs 0 to 4095")),
        (_, Some(priority)) if priority > 7 => Err(format!(
            "VLAN priority {priority}: there are priorities 0 to 7"
        )),
        (None, None) => Err("a tag is to be set, but neither id nor priority".to_owned()),
        _ => Ok(()),
    }
}

fn encap_form(encap: &Encap) -> Checked {
    match encap {
        Encap::Ethernet => Ok(()),
        Encap::Mpls(kind) => ether_type("encap", *kind, LABEL_TYPES, "0x8847 or 0x8848, a label's"),
        Encap::Nsh(header) if header.md_type.is_some_and(|kind| !(1..=2).contains(&kind)) => {
            Err("a network service header has MD type 1 or 2".to_owned())
        }
        Encap::Nsh(header) => {
            let mut contexts = header.contexts.iter();
            match contexts.all(|context| context.value.len() <= ServiceContext::MAX_BYTES) {
                true => Ok(()),
                false => Err(format!(
                    "a context of a service header has up to {} bytes",
                    ServiceContext::MAX_BYTES
                )),
            }
        }
    }
}

fn ether_type(action: &str, given: u16, allowed: [u16; 2], expected: &str) -> Checked {
    if allowed.contains(&given) {
        return Ok(());
    }
    Err(format!("{action}:{given:#06x}; give {expected} EtherType"))
}

fn station(moved: &MacMove) -> Result<(), &'static str> {
    let station = moved.station;
    if station.vlan > 0x0fff {
        return Err("a station's VLAN is above 4095");
    }
    if station.mac >> 48 != 0 {
        return Err("a station's address has more than 48 bits");
    }
    Ok(())
}
