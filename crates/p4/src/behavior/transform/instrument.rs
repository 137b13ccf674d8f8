//! Instruments the program's own actions so that they note what they do.
//!
//! Before a primitive that ends a remembered path, it sets `stop = 1`. Before one that writes a
//! flagged output, it sets the output's bit. For an added header it does so only if the header
//! was invalid, since only then are its fields set. Before a count, it sets the count's bit and
//! index. Jumps are redirected to the new places of their targets.

use serde_json::{Value, json};

use crate::cache::behavior::words::Uses;
use crate::program::Program;
use crate::program::action::Step;
use crate::program::ids::ActionId;

use super::node::{assign, expression, hex, inner, ours};
use super::plan::Plan;
use super::state;

/// Rewrites the actions of ingress in place.
pub(super) fn instrument(program: &Program, plan: &Plan, json: &mut Value) {
    let Some(actions) = json.get_mut("actions").and_then(Value::as_array_mut) else {
        return;
    };
    for (index, action) in actions.iter_mut().enumerate() {
        let id = ActionId(index as u32);
        let steps = &program.action(id).steps;
        let notes: Vec<Vec<Value>> = (0..steps.len())
            .map(|step| notes(program, plan, id, step))
            .collect();
        let uses_state =
            |step: &Step| matches!(step, Step::ReadRegister(..) | Step::WriteRegister(..));
        if notes.iter().all(Vec::is_empty) && !steps.iter().any(uses_state) {
            continue;
        }
        let Some(primitives) = action.get_mut("primitives").and_then(Value::as_array_mut) else {
            continue;
        };
        // A note on a count uses the count's own index.
        let mut places = Vec::new();
        let mut rewritten = Vec::new();
        for (mut notes, primitive) in notes.into_iter().zip(primitives.drain(..)) {
            for note in notes
                .iter_mut()
                .filter(|note| note["parameters"][1].is_null())
            {
                note["parameters"][1] = primitive["parameters"][1].clone();
            }
            let index = places.len();
            notes.extend(state_notes(program, plan, (id, index), &primitive));
            places.push(rewritten.len());
            rewritten.append(&mut notes);
            rewritten.push(primitive);
        }
        places.push(rewritten.len());
        for (index, step) in steps.iter().enumerate() {
            let (parameter, to) = match step {
                Step::Jump(to) => (0, to),
                Step::JumpIfZero(_, to) => (1, to),
                _ => continue,
            };
            // A primitive comes after its notes.
            let place = places[index + 1] - 1;
            rewritten[place]["parameters"][parameter] = hex(places[*to as usize] as u64);
        }
        *primitives = rewritten;
    }
}

/// The notes before a primitive on a register, unless it ends the path.
fn state_notes(
    program: &Program,
    plan: &Plan,
    (id, index): (ActionId, usize),
    primitive: &Value,
) -> Vec<Value> {
    if plan.step_stops.contains(&(id, index)) || !plan.walked.contains(&id) {
        return Vec::new();
    }
    match &program.action(id).steps[index] {
        Step::ReadRegister(_, array, _) => {
            let size = program.arrays.registers[array.index()].size;
            vec![state::stop_past_end(&primitive["parameters"][2], size)]
        }
        Step::WriteRegister(..) => {
            let is_it = |write: &super::Write| write.action == id && write.step == index;
            let number = plan.writes.iter().position(is_it);
            number.map_or_else(Vec::new, |number| {
                state::note_write(number, plan.writes[number].size, primitive)
            })
        }
        _ => Vec::new(),
    }
}

fn notes(program: &Program, plan: &Plan, id: ActionId, index: usize) -> Vec<Value> {
    if plan.step_stops.contains(&(id, index)) {
        return vec![assign(ours("stop"), hex(1))];
    }
    let step = &program.action(id).steps[index];
    let mut flags: Vec<usize> = Uses { program }
        .step(step)
        .may
        .iter()
        .filter_map(|word| plan.flagged.get(word).copied())
        .collect();
    flags.sort_unstable();
    flags.dedup();
    let is_there = match step {
        Step::AddHeader(header) => Some(header.example(&program.headers)),
        _ => None,
    };
    let mut notes: Vec<Value> = flags
        .into_iter()
        .map(|output| {
            let flag = ours(&format!("w_{output}"));
            let value = match is_there {
                None => hex(1),
                Some(header) => {
                    let name = &program.headers.header(header).name;
                    let valid = json!({"type": "field", "value": [name, "$valid$"]});
                    expression(json!({"op": "?", "left": flag, "right": hex(1),
                        "cond": inner(json!({"op": "d2b", "left": null, "right": valid}))}))
                }
            };
            assign(flag, value)
        })
        .collect();
    let is_ours = |count: &super::Count| count.action == id && count.step == index;
    if let Some(number) = plan.counts.iter().position(is_ours) {
        notes.push(assign(ours(&format!("did_{number}")), hex(1)));
        // The caller has the primitive, and so the index.
        notes.push(assign(ours(&format!("at_{number}")), Value::Null));
    }
    notes
}
