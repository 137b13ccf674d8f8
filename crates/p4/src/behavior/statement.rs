//! Finds the objects that a statement reads and writes, and its parts that cannot be remembered.

use std::collections::BTreeSet;

use crate::program::action::{Action, AnyStack, Step, Target};
use crate::program::code::Code;
use crate::program::expression::{HeaderExpr, UnionExpr};
use crate::program::headers::VALID;
use crate::program::ids::HeaderId;

use super::objects::ObjectId;
use super::reads::{Reader, Set};

/// The effects of a statement, in B-Cache's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Objects that decide the path: read by keys and conditions.
    pub matched: BTreeSet<ObjectId>,
    /// Objects that actions read: operands, indices, inputs of hashes and lists of fields.
    pub operands: BTreeSet<ObjectId>,
    /// Objects written for every packet, on every path through the statement.
    pub written: BTreeSet<ObjectId>,
    /// Objects that may be written.
    pub may_write: BTreeSet<ObjectId>,
    /// Primitives that no `modify_field` can express (section III.B), each with what it acts
    /// on.
    pub odd: BTreeSet<String>,
    /// Why a remembered behaviour ends here, if it does.
    pub stops: BTreeSet<&'static str>,
    /// Whether the pipeline may end here.
    pub exits: bool,
}

impl Effects {
    fn write(&mut self, ids: impl IntoIterator<Item = ObjectId>, is_certain: bool) {
        for id in ids {
            self.may_write.insert(id);
            if is_certain {
                self.written.insert(id);
            }
        }
    }
}

const METER: &str = "executes a meter: its color is of the moment";
const ANOTHER_PASS: &str = "begins anew, with what it keeps of this pass";
const COPY: &str = "makes a copy, which passes egress by itself";
const REPLICAS: &str = "replicates: each copy passes egress by itself";

impl Reader<'_> {
    /// The effects of an action.
    pub(super) fn action(&self, action: &Action) -> Effects {
        let mut effects = Effects::default();
        // After a jump, no step is certain to run.
        let mut is_certain = true;
        for step in &action.steps {
            is_certain &= !matches!(step, Step::Jump(_) | Step::JumpIfZero(..));
            self.step(step, is_certain, &mut effects);
        }
        self.note_moments(&mut effects);
        effects
    }

    /// Notes reads of time and queue state, which differ between equal packets.
    pub(super) fn note_moments(&self, effects: &mut Effects) {
        let standard = &self.program.standard;
        let time = "reads the time";
        let queue = "reads how full a queue is";
        for (spot, reason) in [
            (standard.ingress_global_timestamp, time),
            (standard.egress_global_timestamp, time),
            (standard.enq_timestamp, time),
            (standard.deq_timedelta, time),
            (standard.enq_qdepth, queue),
            (standard.deq_qdepth, queue),
            (standard.packet_length, "reads the packet's length"),
        ] {
            let id = spot.and_then(|spot| self.objects.of_word(spot.word));
            if id.is_some_and(|id| effects.matched.contains(&id) || effects.operands.contains(&id))
            {
                effects.stops.insert(reason);
            }
        }
    }

    /// Adds the effects of one primitive.
    // One match, with an arm for each primitive.
    pub(super) fn step(&self, step: &Step, is_certain: bool, effects: &mut Effects) {
        match step {
            Step::Nothing | Step::Jump(_) => {}
            Step::SetWord(to, value) => {
                let ids = self.objects.of_word(*to);
                if *value != 0 {
                    self.note_replication(ids, effects);
                }
                effects.write(ids, is_certain);
            }
            Step::CopyWord(from, to, _) | Step::CopyWords(from, to, _) => {
                effects.operands.extend(self.objects.of_word(*from));
                self.write(self.objects.of_word(*to), is_certain, effects);
            }
            Step::Assign(target, code) => {
                self.code(code, effects);
                self.write_target(target, is_certain, effects);
            }
            Step::AssignVarbit(from, to) => {
                effects.operands.extend(self.objects.of_field(*from));
                self.write(self.objects.of_field(*to), is_certain, effects);
            }
            Step::AssignHeader(from, to) => self.assign_header(from, to, is_certain, effects),
            Step::AssignUnion(from, to) => self.assign_union(from, to, effects),
            Step::AssignStack(from, to) => {
                self.read_stack(*from, effects);
                self.move_stack(*to, effects);
            }
            Step::AddHeader(header) => {
                // Its fields become 0 if it was invalid: no assignment, but part of the
                // primitive.
                let headers = self.candidates(header);
                let validities = headers.iter().filter_map(|one| self.validity(*one));
                effects.operands.extend(validities);
                self.set_validity("add_header", header, is_certain, effects);
            }
            Step::ValidateHeader(header) => {
                self.set_validity("add_header", header, is_certain, effects);
            }
            Step::RemoveHeader(header) => {
                self.set_validity("remove_header", header, is_certain, effects);
            }
            Step::Push(stack, count) | Step::Pop(stack, count) => {
                self.code(count, effects);
                self.read_stack(*stack, effects);
                self.move_stack(*stack, effects);
                let name = match step {
                    Step::Push(..) => "push",
                    _ => "pop",
                };
                let stack = self.stack_name(*stack);
                effects.odd.insert(format!("{name} {stack}"));
            }
            Step::JumpIfZero(code, _) | Step::Assert(code) => {
                self.expr(code.expr(), &mut effects.matched);
            }
            Step::Exit => effects.exits = true,
            Step::Drop => {
                let standard = &self.program.standard;
                let spots = [Some(standard.egress_spec), standard.mcast_grp];
                let words = spots.into_iter().flatten().map(|spot| spot.word);
                let ids = words.filter_map(|word| self.objects.of_word(word));
                effects.write(ids, is_certain);
            }
            other => self.step_beyond(other, is_certain, effects),
        }
    }

    /// Adds the effects of primitives that act on no header.
    // One match, with an arm for each primitive.
    fn step_beyond(&self, step: &Step, is_certain: bool, effects: &mut Effects) {
        let arrays = &self.program.arrays;
        match step {
            Step::Random(target, least, most) => {
                self.code(least, effects);
                self.code(most, effects);
                // An empty range writes nothing.
                self.write_target(target, false, effects);
                effects.stops.insert("draws a random number");
            }
            Step::Hash(target, base, calculation, count) => {
                self.code(base, effects);
                self.code(count, effects);
                let stop = self.calculation(*calculation, &mut effects.operands);
                effects.stops.extend(stop);
                self.write_target(target, is_certain, effects);
            }
            Step::Digest(list) => {
                let list = &arrays.learn_lists[list.index()];
                self.fields(&list.fields, &mut effects.operands);
                effects.odd.insert(format!("generate_digest {}", list.name));
            }
            Step::Clone(session, list) => {
                self.code(session, effects);
                if let Some(list) = list {
                    let fields = &arrays.field_lists[list.index()].fields;
                    self.fields(fields, &mut effects.operands);
                }
                effects.odd.insert("clone".to_owned());
                effects.stops.insert(COPY);
            }
            Step::Resubmit(list) | Step::Recirculate(list) => {
                if let Some(list) = list {
                    let fields = &arrays.field_lists[list.index()].fields;
                    self.fields(fields, &mut effects.operands);
                }
                let name = match step {
                    Step::Resubmit(_) => "resubmit",
                    _ => "recirculate",
                };
                effects.odd.insert(name.to_owned());
                effects.stops.insert(ANOTHER_PASS);
            }
            Step::Truncate(length) => {
                self.code(length, effects);
                effects.odd.insert("truncate".to_owned());
            }
            Step::Count(counter, index) => {
                self.code(index, effects);
                effects.may_write.insert(self.objects.counter(*counter));
                let name = &arrays.counters[counter.index()].name;
                effects.odd.insert(format!("count {name}"));
            }
            Step::Meter(meter, index, color) => {
                self.code(index, effects);
                effects.may_write.insert(self.objects.meter(*meter));
                self.write_target(color, false, effects);
                effects.stops.insert(METER);
            }
            Step::ReadRegister(target, register, index) => {
                self.code(index, effects);
                effects.operands.insert(self.objects.register(*register));
                self.write_target(target, false, effects);
                let reason = "reads a register: its value is of the moment";
                effects.stops.insert(reason);
            }
            Step::WriteRegister(register, index, value) => {
                self.code(index, effects);
                self.code(value, effects);
                effects.may_write.insert(self.objects.register(*register));
            }
            other => unreachable!("{other:?} is the caller's"),
        }
    }

    /// Adds the effects of a table's meter, which executes on every hit.
    pub(super) fn direct_meter(&self, meter: crate::program::ids::MeterId, effects: &mut Effects) {
        effects.may_write.insert(self.objects.meter(meter));
        let result = self.program.arrays.meters[meter.index()].result;
        let color = result.and_then(|field| self.objects.of_field(field));
        self.write(color, false, effects);
        effects.stops.insert(METER);
    }

    fn code(&self, code: &Code, effects: &mut Effects) {
        self.expr(code.expr(), &mut effects.operands);
    }

    fn write(
        &self,
        ids: impl IntoIterator<Item = ObjectId> + Clone,
        is_certain: bool,
        effects: &mut Effects,
    ) {
        self.note_replication(ids.clone(), effects);
        effects.write(ids, is_certain);
    }

    fn write_target(&self, target: &Target, is_certain: bool, effects: &mut Effects) {
        match target {
            Target::Field(field) => self.write(self.objects.of_field(*field), is_certain, effects),
            Target::FieldOf(header, index) => {
                self.choice(header, &mut effects.operands);
                self.write(self.fields_of(header, *index), false, effects);
            }
        }
    }

    /// Notes a replication if the multicast group may be written.
    fn note_replication(&self, ids: impl IntoIterator<Item = ObjectId>, effects: &mut Effects) {
        let group = self.program.standard.mcast_grp;
        let group = group.and_then(|spot| self.objects.of_word(spot.word));
        if ids.into_iter().any(|id| Some(id) == group) {
            effects.stops.insert(REPLICAS);
        }
    }

    /// Assigning an invalid header makes the target invalid and keeps its fields.
    fn assign_header(
        &self,
        from: &HeaderExpr,
        to: &HeaderExpr,
        is_certain: bool,
        effects: &mut Effects,
    ) {
        for header in [from, to] {
            self.choice(header, &mut effects.operands);
        }
        self.all_of(from, &mut effects.operands);
        let mut fields = Set::new();
        self.all_of(to, &mut fields);
        self.write(fields, false, effects);
        self.write_validity(to, is_certain, effects);
    }

    fn assign_union(&self, from: &UnionExpr, to: &UnionExpr, effects: &mut Effects) {
        for union in [from, to] {
            self.union_choice(union, &mut effects.operands);
        }
        self.all_of_union(from, &mut effects.operands);
        let mut members = Set::new();
        self.all_of_union(to, &mut members);
        self.write(members, false, effects);
    }

    fn read_stack(&self, stack: AnyStack, effects: &mut Effects) {
        for header in self.elements(stack) {
            let ids = self.objects.of_header(self.headers(), header);
            effects.operands.extend(ids);
        }
    }

    fn move_stack(&self, stack: AnyStack, effects: &mut Effects) {
        for header in self.elements(stack) {
            let ids = self.objects.of_header(self.headers(), header);
            self.write(ids, false, effects);
        }
    }

    /// Adds an odd primitive on one header, or on any that may be selected.
    fn set_validity(
        &self,
        name: &str,
        header: &HeaderExpr,
        is_certain: bool,
        effects: &mut Effects,
    ) {
        self.choice(header, &mut effects.operands);
        self.write_validity(header, is_certain, effects);
        let about = match header {
            HeaderExpr::Header(header) => self.headers().header(*header).name.clone(),
            HeaderExpr::Element(stack, _) | HeaderExpr::Last(stack) => {
                self.headers().stack(*stack).name.clone()
            }
            HeaderExpr::Member(union, _) => {
                let example = union.example(self.headers());
                self.headers().union(example).name.clone()
            }
        };
        effects.odd.insert(format!("{name} {about}"));
    }

    /// When a member of a union becomes valid, the other members become invalid.
    fn write_validity(&self, header: &HeaderExpr, is_certain: bool, effects: &mut Effects) {
        let headers = self.candidates(header);
        let is_certain = is_certain && matches!(header, HeaderExpr::Header(_));
        effects.write(
            headers.iter().filter_map(|one| self.validity(*one)),
            is_certain,
        );
        let others = headers.iter().flat_map(|one| self.others(*one));
        effects.write(others.filter_map(|one| self.validity(one)), false);
    }

    fn others(&self, header: HeaderId) -> Vec<HeaderId> {
        let union = self.headers().header(header).union;
        union.map_or(Vec::new(), |id| self.headers().union(id).headers.clone())
    }

    fn stack_name(&self, stack: AnyStack) -> &str {
        match stack {
            AnyStack::Headers(stack) => &self.headers().stack(stack).name,
            AnyStack::Unions(stack) => &self.headers().union_stack(stack).name,
        }
    }
}

/// Whether an object is a header's validity.
pub(super) fn is_validity(name: &str) -> bool {
    name.ends_with(VALID)
}
