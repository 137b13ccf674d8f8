//! Registers: `bcache.begin` reads those of the key, and a hit repeats the path's writes.
//!
//! ```text
//!   begin:  v_0 = hash of fields                          what a register is found by
//!           if v_0 < size: v_1 = register[v_0]            a part of the key
//!   walk:   wrote_0 = 1, cell_0, new_0 = index, value     before each write
//!   hit:    if wrote_0: register[cell_0] = new_0          from the entry's data
//! ```
//!
//! An index past the end reads and writes nothing. Such a path ends, so its packets run the
//! program as before. Writes are repeated in the order of the walk: each is at one node, and
//! nodes are ordered.

use serde_json::{Value, json};

use crate::cache::behavior::known::Derived;
use crate::program::Program;
use crate::program::expression::Expr;

use super::node::{assign, call, expression, hex, inner, ours};
use super::plan::Plan;
use super::value::{derived_name, field_value, number};

/// Names and widths of the fields added to the header.
pub(super) fn fields(program: &Program, plan: &Plan) -> Vec<(String, u32)> {
    let mut fields = Vec::new();
    for (place, derived) in &plan.derived {
        let width = match derived {
            Derived::Hash { .. } => 64,
            Derived::Register { array, .. } => program.arrays.registers[array.index()].width_bits,
        };
        fields.push((derived_name(*place), width));
        if let Derived::Hash { given, .. } = derived {
            for (index, (field, _)) in given.iter().enumerate() {
                let width = program.headers.field(*field).width_bits;
                fields.push((format!("g_{place}_{index}"), width));
                fields.push((format!("s_{place}_{index}"), width));
            }
        }
    }
    for (index, write) in plan.writes.iter().enumerate() {
        fields.extend(write.fields(index));
    }
    fields
}

/// Whether JSON can express every operand of a derived value.
pub(super) fn is_expressible(program: &Program, derived: &Derived) -> bool {
    let mut operands = derived.operands().into_iter();
    operands.all(|operand| number(program, operand).is_some())
}

fn value(program: &Program, expr: &Expr) -> Value {
    number(program, expr).expect("the plan has only what can be said")
}

/// Wraps a value as the parameter of a primitive.
fn parameter(value: Value) -> Value {
    match value["type"] == "expression" {
        true => json!({"type": "expression", "value": value}),
        false => value,
    }
}

/// Computes the derived values; appends to the primitives in `steps`.
pub(super) fn derive(program: &Program, plan: &Plan, steps: &mut Vec<Value>) {
    for (place, derived) in &plan.derived {
        match derived {
            Derived::Hash {
                base,
                calculation,
                count,
                given,
            } => {
                let named = |kind: &str, index: usize| ours(&format!("{kind}_{place}_{index}"));
                for (index, (field, new)) in given.iter().enumerate() {
                    let new = parameter(value(program, new));
                    steps.push(assign(named("g", index), new));
                    steps.push(assign(named("s", index), field_value(program, *field)));
                }
                for (index, (field, _)) in given.iter().enumerate() {
                    let field = field_value(program, *field);
                    steps.push(assign(field, named("g", index)));
                }
                let calculation = &program.calculations.calculations[calculation.index()].name;
                let hash = json!({"type": "calculation", "value": calculation});
                let [base, count] = [base, count].map(|one| parameter(value(program, one)));
                let to = ours(&derived_name(*place));
                let parameters = json!([to, base, hash, count]);
                steps.push(call("modify_field_with_hash_based_offset", parameters));
                for (index, (field, _)) in given.iter().enumerate() {
                    let field = field_value(program, *field);
                    steps.push(assign(field, named("s", index)));
                }
            }
            Derived::Register { array, index } => {
                let array = &program.arrays.registers[array.index()];
                let index = value(program, index);
                let is_there = inner(json!({"op": "<", "left": index, "right":
                    hex(array.size.into())}));
                let past = hex(steps.len() as u64 + 2);
                steps.push(call("_jump_if_zero", json!([as_number(is_there), past])));
                let to = ours(&derived_name(*place));
                let register = json!({"type": "register_array", "value": array.name});
                let parameters = json!([to, register, parameter(index)]);
                steps.push(call("register_read", parameters));
            }
        }
    }
}

/// A boolean as the number that a jump takes.
fn as_number(truth: Value) -> Value {
    expression(json!({"op": "b2d", "left": null, "right": truth}))
}

/// Ends the path if an index is past the end of an array.
pub(super) fn stop_past_end(index: &Value, size: u32) -> Value {
    // A parameter that is an expression is wrapped once more than an operand.
    let operand = match index["type"] == "expression" {
        true => index["value"].clone(),
        false => local(index),
    };
    let is_there = inner(json!({"op": "<", "left": operand, "right": hex(size.into())}));
    let stop = json!({"op": "?", "left": ours("stop"), "right": hex(1), "cond": is_there});
    assign(ours("stop"), expression(stop))
}

/// An entry's data has another name within an expression.
fn local(parameter: &Value) -> Value {
    match parameter["type"] == "runtime_data" {
        true => json!({"type": "local", "value": parameter["value"]}),
        false => parameter.clone(),
    }
}

/// The notes before a write: its bit, its index and its value, as in the primitive.
pub(super) fn note_write(number: usize, size: u32, primitive: &Value) -> Vec<Value> {
    let [index, value] = [1, 2].map(|place| primitive["parameters"][place].clone());
    vec![
        stop_past_end(&index, size),
        assign(ours(&format!("wrote_{number}")), hex(1)),
        assign(ours(&format!("cell_{number}")), index),
        assign(ours(&format!("new_{number}")), value),
    ]
}

/// The writes of a hit; `place` finds the entry's data. Appends to the primitives in `steps`.
pub(super) fn replay(plan: &Plan, place: impl Fn(&str) -> usize, steps: &mut Vec<Value>) {
    for (number, write) in plan.writes.iter().enumerate() {
        let data = |kind: &str| {
            let place = place(&format!("{kind}_{number}"));
            json!({"type": "runtime_data", "value": place})
        };
        let past = hex(steps.len() as u64 + 2);
        steps.push(call("_jump_if_zero", json!([data("wrote"), past])));
        let register = json!({"type": "register_array", "value": write.array});
        let parameters = json!([register, data("cell"), data("new")]);
        steps.push(call("register_write", parameters));
    }
}
