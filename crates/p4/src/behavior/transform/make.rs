//! Makes the plan: finds the key, odd primitives, and the ends of paths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cache::behavior::analyse::{analyse, note_operands};
use crate::cache::behavior::flow::{Flow, Role, Unfit};
use crate::cache::behavior::known::Derived;
use crate::cache::behavior::words::{Uses, WordSet};
use crate::error::LoadError;
use crate::program::Program;
use crate::program::action::{Step, Target};
use crate::program::control::{NodeKind, in_order};
use crate::program::expression::{Expr, HeaderExpr};
use crate::program::headers::VALID;
use crate::program::ids::{ActionId, FieldId, HeaderId, NodeId, TableId};

use super::plan::{CacheAction, Count, FieldPart, Output, Plan, Recount, Write};
use super::value::derived_name;
use super::{MAX_COMPOUND_ACTIONS, PREFIX, recount, state};

/// Maximum register writes of a behaviour; more end the path.
const WRITES_MAX: usize = 32;

/// Maximum bits of registers in a key.
const STATE_BITS_MAX: u32 = 1_024;

/// Makes the plan.
pub(super) fn make(program: &Program, json: &Value, entries: u32) -> Result<Plan, LoadError> {
    let refuse = |what: &str| LoadError::Refused {
        pointer: String::new(),
        source_location: None,
        what: what.to_owned(),
    };
    if program.control.ingress.start.is_none() {
        return Err(refuse(
            "ingress is empty: there is nothing to put a cache before",
        ));
    }
    let is_taken = program.headers.find_header(PREFIX).is_some()
        || json.to_string().contains(&format!("\"{PREFIX}."));
    if is_taken {
        return Err(refuse(
            "the program has names that begin with bcache; it has a cache already, or they have to \
             be changed",
        ));
    }
    let flow = analyse(program, true);
    let mut maker = Maker {
        program,
        uses: Uses { program },
        flow: &flow,
        node_actions: node_actions(program, &flow),
        steps: BTreeMap::new(),
        nodes: BTreeMap::new(),
        roles: state_roles(program, &flow),
        counts: Vec::new(),
        writes: Vec::new(),
        hit_stops: BTreeSet::new(),
        recounts: Vec::new(),
        headers: BTreeSet::new(),
    };
    maker.judge();
    let plan = maker.plan(entries);
    if plan.key.is_empty() {
        return Err(refuse(
            "what ingress does depends on no field: there is nothing to match behaviours on",
        ));
    }
    if program
        .control
        .ingress
        .start
        .is_some_and(|start| plan.node_stops.contains(&start))
    {
        return Err(refuse(
            "ingress begins with what no table can remember; no behaviour could be cached",
        ));
    }
    Ok(plan)
}

/// The actions that ingress runs, each with the nodes that run it.
fn node_actions(program: &Program, flow: &Flow) -> BTreeMap<ActionId, Vec<NodeId>> {
    let mut actions: BTreeMap<ActionId, Vec<NodeId>> = BTreeMap::new();
    for (index, changed) in flow.changed.iter().enumerate() {
        if changed.is_none() {
            continue;
        }
        let node = NodeId(index as u32);
        match &program.control.nodes[index].kind {
            NodeKind::If(..) => {}
            NodeKind::Do(action, _) => actions.entry(*action).or_default().push(node),
            NodeKind::Table(table) => {
                for &action in &program.table(*table).actions {
                    actions.entry(action).or_default().push(node);
                }
            }
        }
    }
    actions
}

struct Maker<'p> {
    program: &'p Program,
    uses: Uses<'p>,
    flow: &'p Flow,
    node_actions: BTreeMap<ActionId, Vec<NodeId>>,
    steps: BTreeMap<(ActionId, usize), &'static str>,
    nodes: BTreeMap<NodeId, &'static str>,
    /// By derived value, as far as JSON can express it.
    roles: Vec<Role>,
    counts: Vec<Count>,
    writes: Vec<Write>,
    hit_stops: BTreeSet<NodeId>,
    /// Tables that a hit looks up again.
    recounts: Vec<Recount>,
    headers: BTreeSet<HeaderId>,
}

impl Maker<'_> {
    /// Finds odd primitives and the ends of paths.
    fn judge(&mut self) {
        for (index, changed) in self.flow.changed.iter().enumerate() {
            if changed.is_none() {
                continue;
            }
            let node = NodeId(index as u32);
            if let Some(reason) = self.node_stop(node) {
                self.nodes.insert(node, reason);
            }
        }
        let actions: Vec<_> = self.node_actions.clone().into_iter().collect();
        for (id, nodes) in actions {
            let steps = &self.program.action(id).steps;
            let jumps_back = steps.iter().enumerate().any(|(index, step)| {
                matches!(step, Step::Jump(to) | Step::JumpIfZero(_, to) if *to as usize <= index)
            });
            for (index, step) in steps.iter().enumerate() {
                if let Some(reason) = self.step_stop(id, index, step) {
                    self.steps.insert((id, index), reason);
                    continue;
                }
                match step {
                    Step::Count(array, _) if nodes.len() == 1 && !jumps_back => {
                        self.counts.push(Count {
                            action: id,
                            step: index,
                            array: self.program.arrays.counters[array.index()].name.clone(),
                        });
                    }
                    Step::Count(..) => {
                        self.steps.insert((id, index), "may count more than once");
                    }
                    Step::WriteRegister(array, ..) if nodes.len() == 1 && !jumps_back => {
                        let array = &self.program.arrays.registers[array.index()];
                        self.writes.push(Write {
                            action: id,
                            step: index,
                            array: array.name.clone(),
                            width_bits: array.width_bits,
                            size: array.size,
                        });
                    }
                    Step::WriteRegister(..) => {
                        self.steps
                            .insert((id, index), "may write a register more than once");
                    }
                    Step::AddHeader(HeaderExpr::Header(header))
                    | Step::RemoveHeader(HeaderExpr::Header(header)) => {
                        self.headers.insert(*header);
                    }
                    _ => {}
                }
            }
        }
        self.order_writes();
        self.bound_actions();
        self.judge_counted_tables();
    }

    /// Sorts writes into the order of a walk; too many end the path.
    fn order_writes(&mut self) {
        let order = in_order(self.program, &self.program.control.ingress);
        let place = |action: &ActionId| {
            let node = self.node_actions[action][0];
            order.iter().position(|&one| one == node)
        };
        self.writes
            .sort_by_key(|write| (place(&write.action), write.step));
        for write in self.writes.split_off(self.writes.len().min(WRITES_MAX)) {
            self.steps
                .insert((write.action, write.step), "one odd primitive too many");
        }
    }

    /// Judges tables whose entries count packets, time out or have meters.
    fn judge_counted_tables(&mut self) {
        let written = self.written();
        for node in in_order(self.program, &self.program.control.ingress) {
            let NodeKind::Table(id) = self.program.control.nodes[node.index()].kind else {
                continue;
            };
            let table = self.program.table(id);
            let counts = table.has_counters || table.has_timeouts || table.meter.is_some();
            if !counts || self.nodes.contains_key(&node) {
                continue;
            }
            let around = recount::Around {
                program: self.program,
                written: &written,
                headers: &self.headers,
                is_stopped: &|action, step| self.steps.contains_key(&(action, step)),
            };
            match around.recount(node) {
                Some(recount) => self.recounts.push(recount),
                None if recount::tells_hits(table) => {
                    self.hit_stops.insert(node);
                }
                None => {
                    let reason = "its entries count packets, time out or have meters";
                    self.nodes.insert(node, reason);
                }
            }
        }
    }

    /// Turns odd primitives into stops when they would make too many compound actions.
    fn bound_actions(&mut self) {
        let sum = |headers: usize, counts: usize| {
            let headers = 3_usize.checked_pow(headers as u32);
            headers.and_then(|all| all.checked_mul(1_usize.checked_shl(counts as u32)?))
        };
        let is_too_many = |all: Option<usize>| all.is_none_or(|all| all > MAX_COMPOUND_ACTIONS);
        while self.counts.len() > 20 || is_too_many(sum(self.headers.len(), self.counts.len())) {
            if let Some(count) = self.counts.pop() {
                self.steps
                    .insert((count.action, count.step), "one odd primitive too many");
                continue;
            }
            let Some(header) = self.headers.pop_last() else {
                break;
            };
            let actions: Vec<ActionId> = self.node_actions.keys().copied().collect();
            for id in actions {
                for (index, step) in self.program.action(id).steps.iter().enumerate() {
                    let (Step::AddHeader(one) | Step::RemoveHeader(one)) = step else {
                        continue;
                    };
                    if *one == HeaderExpr::Header(header) {
                        self.steps.insert((id, index), "one odd primitive too many");
                    }
                }
            }
        }
    }

    fn has_odd_words(&self, words: &[u32]) -> bool {
        let mut words = words.iter();
        words.any(|&word| self.uses.field_of(word).is_none())
    }

    fn node_stop(&self, id: NodeId) -> Option<&'static str> {
        if let Some(unfit) = self.flow.nodes[id.index()] {
            return Some(reason(unfit));
        }
        match &self.program.control.nodes[id.index()].kind {
            NodeKind::If(condition, ..) => {
                let mut reads = Vec::new();
                self.uses.expr(condition.expr(), &mut reads);
                self.has_odd_words(&reads)
                    .then_some("reads how much of a stack, or of a varbit, there is")
            }
            NodeKind::Do(..) | NodeKind::Table(_) => None,
        }
    }

    fn step_stop(&self, id: ActionId, index: usize, step: &Step) -> Option<&'static str> {
        if let Some(unfit) = self.flow.steps[id.index()][index] {
            return Some(reason(unfit));
        }
        let words = self.uses.step(step);
        match step {
            Step::ReadRegister(Target::Field(_), ..) => {
                let is_keyed = |node: &NodeId| {
                    let mut reads = self.flow.reads.iter();
                    let place = (*node, id, index);
                    reads.any(|(read, number)| *read == place && self.roles[*number] == Role::Key)
                };
                let is_keyed = self.node_actions[&id].iter().all(is_keyed);
                (!is_keyed).then_some("reads a register whose index no packet gives")
            }
            Step::Digest(_) => Some("sends a digest, and a packet has one"),
            Step::Clone(..) | Step::Resubmit(_) | Step::Recirculate(_) | Step::Truncate(_) => {
                Some("clones, truncates or begins anew")
            }
            Step::Exit => Some("ends ingress"),
            Step::Push(..)
            | Step::Pop(..)
            | Step::AssignStack(..)
            | Step::AssignUnion(..)
            | Step::AssignHeader(..)
            | Step::ValidateHeader(_)
            | Step::AssignVarbit(..)
            | Step::Assign(Target::FieldOf(..), _)
            | Step::Hash(Target::FieldOf(..), ..)
            | Step::ReadRegister(Target::FieldOf(..), ..) => Some("changes a header as a whole"),
            Step::AddHeader(HeaderExpr::Header(header))
            | Step::RemoveHeader(HeaderExpr::Header(header)) => {
                let header = self.program.headers.header(*header);
                let is_simple = header.union.is_none() && header.varbit.is_none();
                (!is_simple).then_some("changes a header as a whole")
            }
            Step::AddHeader(_) | Step::RemoveHeader(_) => Some("changes a header as a whole"),
            // Validity may be set only by adding and removing headers.
            _ if words.may.iter().any(|&word| self.is_validity(word)) => {
                Some("changes a header as a whole")
            }
            _ if self.has_odd_words(&words.reads) || self.has_odd_words(&words.may) => {
                Some("reads how much of a stack, or of a varbit, there is")
            }
            _ => None,
        }
    }

    fn is_validity(&self, word: u32) -> bool {
        let field = self.uses.field_of(word);
        field.is_some_and(|field| self.program.headers.field(field).name == VALID)
    }

    fn plan(self, entries: u32) -> Plan {
        let (key, places) = self.key();
        let (outputs, flagged) = self.outputs(&places);
        let headers: Vec<(String, usize)> = self
            .headers
            .iter()
            .map(|&id| {
                let header = self.program.headers.header(id);
                (header.name.clone(), places[&header.valid_field()])
            })
            .collect();
        let names = &self.program.control.nodes;
        let nodes = self.nodes.iter();
        let mut stops: Vec<(String, &'static str)> = nodes
            .map(|(node, reason)| (names[node.index()].name.clone(), *reason))
            .collect();
        for ((action, _), reason) in &self.steps {
            stops.push((self.program.action(*action).name.clone(), *reason));
        }
        for node in &self.hit_stops {
            let reason = "a hit counts, times out or meters where it cannot be asked again";
            stops.push((names[node.index()].name.clone(), reason));
        }
        stops.sort_unstable();
        stops.dedup();
        let derived = self.flow.derived.iter().enumerate();
        let derived = derived.filter(|(number, _)| self.roles[*number] != Role::Unused);
        let mut plan = Plan {
            entries,
            derived: derived.map(|(number, one)| (number, one.clone())).collect(),
            recounts: self.recounts.clone(),
            restored: Vec::new(),
            walked: self.node_actions.keys().copied().collect(),
            hit_stops: self.hit_stops.clone(),
            actions: compound_actions(self.counts.len(), headers.len()),
            same_parts: self.same_parts(&places),
            step_stops: self.steps.keys().copied().collect(),
            node_stops: self.nodes.keys().copied().collect(),
            key,
            outputs,
            counts: self.counts,
            writes: self.writes,
            headers,
            stops,
            flagged,
        };
        plan.restored = recount::restored(self.program, &plan);
        plan
    }

    /// The key's fields, including the validity of their headers, and their places.
    fn key(&self) -> (Vec<FieldPart>, BTreeMap<FieldId, usize>) {
        let headers = &self.program.headers;
        let inputs = self.flow.inputs.iter();
        let mut fields: BTreeSet<FieldId> =
            inputs.filter_map(|word| self.uses.field_of(word)).collect();
        let odd = self.headers.iter().copied();
        let of_fields = fields.iter().map(|&field| headers.field(field).header);
        let with_validity: BTreeSet<HeaderId> = odd
            .chain(of_fields)
            .filter(|&id| !headers.header(id).is_metadata)
            .collect();
        fields.extend(
            with_validity
                .iter()
                .map(|&id| headers.header(id).valid_field()),
        );
        let places: BTreeMap<FieldId, usize> = fields
            .iter()
            .enumerate()
            .map(|(place, &field)| (field, place))
            .collect();
        let written = self.written();
        let key = fields.iter().map(|&id| {
            let field = headers.field(id);
            let header = headers.header(field.header);
            FieldPart {
                header: header.name.clone(),
                field: field.name.clone(),
                width_bits: field.width_bits,
                is_copied: self.uses.field(id).any(|word| written.contains(word)),
                validity: places.get(&header.valid_field()).copied(),
            }
        });
        let registers = self.flow.derived.iter().enumerate();
        let registers = registers.filter_map(|(number, derived)| match derived {
            Derived::Register { array, .. } if self.roles[number] == Role::Key => Some(FieldPart {
                header: PREFIX.to_owned(),
                field: derived_name(number),
                width_bits: self.program.arrays.registers[array.index()].width_bits,
                is_copied: false,
                validity: None,
            }),
            _ => None,
        });
        (key.chain(registers).collect(), places)
    }

    /// Words that ingress may write.
    fn written(&self) -> WordSet {
        let mut written = WordSet::default();
        for &action in self.node_actions.keys() {
            for step in &self.program.action(action).steps {
                written.extend(self.uses.step(step).may);
            }
        }
        for meter in &self.program.arrays.meters {
            let result = meter.result.into_iter();
            written.extend(result.flat_map(|field| self.uses.field(field)));
        }
        written
    }

    /// Fields that compound actions set, and the words of those that only some paths write.
    fn outputs(&self, places: &BTreeMap<FieldId, usize>) -> (Vec<Output>, BTreeMap<u32, usize>) {
        let mut written = WordSet::default();
        for &action in self.node_actions.keys() {
            for (index, step) in self.program.action(action).steps.iter().enumerate() {
                if !self.steps.contains_key(&(action, index)) {
                    written.extend(self.uses.step(step).may);
                }
            }
        }
        written.intersect(&self.flow.live);
        let fields: BTreeSet<FieldId> = written
            .iter()
            .filter(|&word| !self.is_validity(word))
            .filter_map(|word| self.uses.field_of(word))
            .collect();
        let (mut outputs, mut flagged) = (Vec::new(), BTreeMap::new());
        for id in fields {
            let field = self.program.headers.field(id);
            let is_flagged = !places.contains_key(&id);
            if is_flagged {
                let words = self.uses.field(id);
                flagged.extend(words.map(|word| (word, outputs.len())));
            }
            outputs.push(Output {
                header: self.program.headers.header(field.header).name.clone(),
                field: field.name.clone(),
                width_bits: field.width_bits,
                is_flagged,
            });
        }
        (outputs, flagged)
    }

    /// For the barrier: the parts of tables' keys that surely equal a part of the cache's key.
    fn same_parts(
        &self,
        places: &BTreeMap<FieldId, usize>,
    ) -> BTreeMap<TableId, Vec<Option<usize>>> {
        let mut same = BTreeMap::new();
        for (index, changed) in self.flow.changed.iter().enumerate() {
            let (Some(changed), NodeKind::Table(id)) =
                (changed, &self.program.control.nodes[index].kind)
            else {
                continue;
            };
            let parts = self.program.table(*id).key.iter().map(|part| {
                let mut words = self.uses.field(part.field).chain(part.valid_word);
                let is_same = part.mask.is_none() && words.all(|word| !changed.contains(word));
                places.get(&part.field).copied().filter(|_| is_same)
            });
            same.insert(*id, parts.collect());
        }
        same
    }
}

/// The key's registers and the values that locate them, as far as JSON can express them.
fn state_roles(program: &Program, flow: &Flow) -> Vec<Role> {
    let mut is_said: Vec<bool> = Vec::new();
    let mut roles = vec![Role::Unused; flow.roles.len()];
    let mut bits = 0;
    for (number, derived) in flow.derived.iter().enumerate() {
        let mut can_be = state::is_expressible(program, derived);
        for operand in derived.operands() {
            operand.visit(&mut |part| {
                if let Expr::Argument(made_of) = part {
                    can_be &= is_said[*made_of as usize];
                }
            });
        }
        is_said.push(can_be);
        let width = 64 * derived.words(program);
        if can_be && flow.roles[number] == Role::Key && bits + width <= STATE_BITS_MAX {
            bits += width;
            roles[number] = Role::Key;
        }
    }
    note_operands(&flow.derived, &mut roles);
    roles
}

fn reason(unfit: Unfit) -> &'static str {
    match unfit {
        Unfit::Time => "reads the time",
        Unfit::Chance => "draws a random number",
        Unfit::Meter => "executes a meter",
        Unfit::Register => "uses a register",
        Unfit::Payload => "hashes the payload",
        Unfit::Wish => "takes a wish back",
        Unfit::Fault | Unfit::TooLong => "does nothing, or too much",
    }
}

/// All combinations of counts, and of headers that are added, removed or kept.
fn compound_actions(counts: usize, headers: usize) -> Vec<CacheAction> {
    let mut actions = Vec::new();
    let ways = [None, Some(true), Some(false)];
    for set in 0..1_usize << counts {
        for mut number in 0..3_usize.pow(headers as u32) {
            let mut of_headers = Vec::new();
            for _ in 0..headers {
                of_headers.push(ways[number % 3]);
                number /= 3;
            }
            actions.push(CacheAction {
                name: format!("{PREFIX}.apply_{}", actions.len()),
                counts: (0..counts).filter(|count| set >> count & 1 == 1).collect(),
                headers: of_headers,
            });
        }
    }
    actions
}
