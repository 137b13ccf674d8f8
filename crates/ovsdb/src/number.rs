//! Whole numbers of JSON.

use serde_json::Value;

/// A whole number, which JSON may also write with a fraction of zero.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let real = value.as_f64().filter(|_| value.is_f64())?;
        let is_whole = real.fract() == 0.0 && real.abs() < 9_007_199_254_740_992.0;
        is_whole.then_some(real as i64)
    })
}
