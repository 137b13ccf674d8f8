//! Tables whose entries count packets or time out: a hit looks them up again.
//!
//! No primitive counts for an entry; only a lookup that hits it does. So a path notes which of
//! these tables it hit, and with what key. A hit of the cache restores each key and looks up
//! each table again. Then it gives the outputs that the tables' actions wrote their final
//! values of the path.
//!
//! ```text
//!   walk:  note_k (the key) -> table -> hit? did_k -- no replay --> hit_k (its bit) -> as before
//!   hit:   cache -> again_0? -> put_0 -> table 0 -> did_0 -- replay --> again_1? ... -> finish
//! ```
//!
//! A miss counts nothing, so it is not repeated. The action of a table is repeated. So only
//! tables whose actions only write fields are looked up again, and only if their keys are found
//! in the same place. A hit in any other such table ends the path; so does a hit that executes
//! a meter.
//!
//! 1. On a hit, a table is looked up with the path's key and finds the path's entry: the
//!    barrier evicts a behaviour before an entry that it hit changes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cache::behavior::words::WordSet;
use crate::program::Program;
use crate::program::action::Step;
use crate::program::control::NodeKind;
use crate::program::ids::{ActionId, FieldId, HeaderId, NodeId};
use crate::program::table::Table;

use super::node::{assign, hex, inner, ours};
use super::plan::{Plan, Recount, RecountPart};
use super::value::field_value;

/// Whether all hits of a table have one successor, which can be redirected.
pub(super) fn tells_hits(table: &Table) -> bool {
    let is_one = table.next.iter().all(|&next| next == table.base_next);
    table.next_on_hit.is_some() || (table.next_on_miss.is_none() && is_one)
}

/// A plan's knowledge of the words and steps of ingress.
pub(super) struct Around<'a> {
    pub(super) program: &'a Program,
    /// Words that ingress may write.
    pub(super) written: &'a WordSet,
    /// Headers that may be added or removed.
    pub(super) headers: &'a BTreeSet<HeaderId>,
    pub(super) is_stopped: &'a dyn Fn(ActionId, usize) -> bool,
}

impl Around<'_> {
    /// How to look up a table again; `None` if that is impossible.
    pub(super) fn recount(&self, node: NodeId) -> Option<Recount> {
        let NodeKind::Table(id) = self.program.control.nodes[node.index()].kind else {
            return None;
        };
        let table = self.program.table(id);
        if !tells_hits(table) || table.meter.is_some() || table.profile.is_some() {
            return None;
        }
        let mut writes: BTreeSet<FieldId> = BTreeSet::new();
        for &action in &table.actions {
            writes.extend(self.writes(action)?);
        }
        let mut key = Vec::new();
        for part in &table.key {
            let field = self.program.headers.field(part.field);
            let header = self.program.headers.header(field.header);
            let valid = part
                .valid_word
                .is_some_and(|word| self.written.contains(word));
            if valid || self.headers.contains(&field.header) || field.is_varbit {
                return None;
            }
            let mut words = field.word..field.word + field.words();
            if words.any(|word| self.written.contains(word)) {
                writes.insert(part.field);
                key.push(RecountPart {
                    header: header.name.clone(),
                    field: field.name.clone(),
                    width_bits: field.width_bits,
                });
            }
        }
        Some(Recount {
            table: table.name.clone(),
            key,
            writes,
        })
    }

    /// The fields that an action writes, if it does nothing else that is repeated.
    fn writes(&self, id: ActionId) -> Option<BTreeSet<FieldId>> {
        let uses = crate::cache::behavior::words::Uses {
            program: self.program,
        };
        let steps = &self.program.action(id).steps;
        // An action that ends the path is never repeated.
        if (0..steps.len()).any(|step| (self.is_stopped)(id, step)) {
            return Some(BTreeSet::new());
        }
        let mut fields = BTreeSet::new();
        for step in steps {
            match step {
                Step::Count(..)
                | Step::WriteRegister(..)
                | Step::AddHeader(_)
                | Step::RemoveHeader(_) => return None,
                _ => {
                    for word in uses.step(step).may {
                        fields.insert(uses.field_of(word)?);
                    }
                }
            }
        }
        Some(fields)
    }
}

/// Names and widths of the fields added to the header.
pub(super) fn fields(plan: &Plan) -> Vec<(String, u32)> {
    let mut fields = Vec::new();
    if !plan.recounts.is_empty() {
        fields.push(("replay".to_owned(), 1));
    }
    for (number, recount) in plan.recounts.iter().enumerate() {
        fields.extend(recount.fields(number));
        fields.push((format!("again_{number}"), 1));
    }
    for (index, output) in plan.outputs.iter().enumerate() {
        if plan.restored.contains(&index) {
            fields.push((format!("final_{index}"), output.width_bits));
        }
    }
    fields
}

/// The end of a compound action: saves everything for the repeated lookups.
///
/// These are the tables' flags and keys, and the final values of outputs.
pub(super) fn prepare(plan: &Plan, place: impl Fn(&str) -> usize, steps: &mut Vec<Value>) {
    if plan.recounts.is_empty() {
        return;
    }
    steps.push(assign(ours("replay"), hex(1)));
    for (number, recount) in plan.recounts.iter().enumerate() {
        for (index, (name, _)) in recount.fields(number).iter().enumerate() {
            let data = json!({"type": "runtime_data", "value": place(name)});
            let to = match index {
                0 => format!("again_{number}"),
                _ => name.clone(),
            };
            steps.push(assign(ours(&to), data));
        }
    }
    for &index in &plan.restored {
        let output = &plan.outputs[index];
        let from = json!({"type": "field", "value": [output.header, output.field]});
        steps.push(assign(ours(&format!("final_{index}")), from));
    }
}

/// The actions, by name: note a key, note a hit, restore a key, finish.
pub(super) fn actions(plan: &Plan) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    for (number, recount) in plan.recounts.iter().enumerate() {
        let names = recount.fields(number);
        let pairs = recount
            .key
            .iter()
            .zip(&names[1..])
            .map(|(part, (name, _))| {
                let field = json!({"type": "field", "value": [part.header, part.field]});
                (field, ours(name))
            });
        let pairs: Vec<(Value, Value)> = pairs.collect();
        let note = pairs
            .iter()
            .map(|(field, kept)| assign(kept.clone(), field.clone()));
        let put = pairs
            .iter()
            .map(|(field, kept)| assign(field.clone(), kept.clone()));
        all.push((format!("note_{number}"), note.collect()));
        all.push((format!("put_{number}"), put.collect()));
        let hit = assign(ours(&names[0].0), hex(1));
        all.push((format!("hit_{number}"), vec![hit]));
    }
    if !plan.recounts.is_empty() {
        let finish = plan.restored.iter().map(|&index| {
            let output = &plan.outputs[index];
            let to = json!({"type": "field", "value": [output.header, output.field]});
            assign(to, ours(&format!("final_{index}")))
        });
        all.push(("finish".to_owned(), finish.collect()));
    }
    all
}

/// The conditions: whether a table is looked up again, and whether it just was.
pub(super) fn conditions(plan: &Plan) -> Vec<(String, Value, String, String)> {
    let is_one = |field: &str| inner(json!({"op": "==", "left": ours(field), "right": hex(1)}));
    let next = |number: usize| match number + 1 < plan.recounts.len() {
        true => format!("again_{}", number + 1),
        false => "finish".to_owned(),
    };
    let mut all = Vec::new();
    for number in 0..plan.recounts.len() {
        let (again, did) = (format!("again_{number}"), format!("did_again_{number}"));
        all.push((
            again.clone(),
            is_one(&again),
            format!("put_{number}"),
            next(number),
        ));
        all.push((did, is_one("replay"), next(number), format!("hit_{number}")));
    }
    all
}

/// Redirects what follows a hit of `table` to `to`, and returns where it led before.
pub(super) fn divert_hits(table: &mut Value, to: &str) -> Value {
    if let Some(hit) = table["next_tables"].get_mut("__HIT__") {
        return std::mem::replace(hit, json!(to));
    }
    let next = table["base_default_next"].clone();
    table["next_tables"] = json!({"__HIT__": to, "__MISS__": next});
    next
}

/// The outputs that repeated lookups write, and that must be set once more.
pub(super) fn restored(program: &Program, plan: &Plan) -> Vec<usize> {
    let writes = plan.recounts.iter().flat_map(|one| &one.writes);
    let written: BTreeSet<FieldId> = writes.copied().collect();
    let is_written = |(header, field): (&str, &str)| {
        let mut written = written.iter();
        written.any(|&one| {
            let value = field_value(program, one);
            value["value"] == json!([header, field])
        })
    };
    let outputs = plan.outputs.iter().enumerate();
    let restored = outputs.filter(|(_, one)| is_written((&one.header, &one.field)));
    restored.map(|(index, _)| index).collect()
}
