//! The nodes of a program's JSON that the cache adds.

use serde_json::{Value, json};

use super::PREFIX;

/// A field of the cache.
pub(super) fn ours(field: &str) -> Value {
    json!({"type": "field", "value": [PREFIX, field]})
}

/// A constant.
pub(super) fn hex(number: u64) -> Value {
    json!({"type": "hexstr", "value": format!("{number:#x}")})
}

/// A primitive.
pub(super) fn call(op: &str, parameters: Value) -> Value {
    json!({"op": op, "parameters": parameters})
}

/// An assignment.
pub(super) fn assign(to: Value, value: Value) -> Value {
    call("assign", json!([to, value]))
}

/// An operator's value, wrapped as p4c wraps it for a primitive.
pub(super) fn expression(value: Value) -> Value {
    json!({"type": "expression", "value": {"type": "expression", "value": value}})
}

/// An operator's value, wrapped for use within another operator.
pub(super) fn inner(value: Value) -> Value {
    json!({"type": "expression", "value": value})
}
