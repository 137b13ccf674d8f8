//! Converts real weights to integers (invariant 1 of the module above).
//!
//! A hidden unit may be scaled if its output weight is scaled back: `v * max(0, w x + b)`
//! equals `v/k * max(0, k w x + k b)` for any positive `k`. So every `w` becomes a 12-bit
//! integer, and `b` is chosen so that the unit still begins at the same point.

use super::real::Real;
use super::{INPUT_BITS, Submodel, UNITS};

const INPUT_MAX: f64 = 4095.0;
const OUTPUT_MAX: f64 = 32767.0;
/// The scale is at least 2^-28, so that the constant stays below 2^52.
const SCALE_LOG_MAX: f64 = 28.0;

/// The integer form of a real submodel with the number line from `low` to `high`.
pub(super) fn quantize(real: &Real, low: u128, high: u128) -> Submodel {
    let bits = u128::BITS - (high - low).leading_zeros();
    let line = f64::from(1 << INPUT_BITS);
    let mut submodel = Submodel {
        low,
        high,
        shift: bits.saturating_sub(INPUT_BITS),
        input: [0.0; UNITS],
        output: [0.0; UNITS],
        bias: [0.0; UNITS],
        constant: 0.0,
        scale: 1.0,
    };
    let mut outputs = [0.0f64; UNITS];
    for (unit, output) in outputs.iter_mut().enumerate() {
        let (weight, bias) = (f64::from(real.input[unit]), f64::from(real.bias[unit]));
        if weight == 0.0 || !weight.is_finite() || !bias.is_finite() {
            continue;
        }
        let input = INPUT_MAX * weight.signum();
        // The point where the unit begins or ends; beyond the line the distance does not
        // matter.
        let bend = (-bias / weight).clamp(-2.0, 3.0);
        submodel.input[unit] = input as f32;
        submodel.bias[unit] = (-input * bend * line).round();
        *output = f64::from(real.output[unit]) * weight.abs() / (INPUT_MAX * line);
    }
    let greatest = outputs
        .iter()
        .fold(0.0f64, |most, output| most.max(output.abs()));
    let log = match greatest {
        0.0 => SCALE_LOG_MAX,
        _ => (OUTPUT_MAX / greatest)
            .log2()
            .floor()
            .clamp(0.0, SCALE_LOG_MAX),
    };
    let scale = log.exp2();
    for (output, real) in submodel.output.iter_mut().zip(outputs) {
        *output = (real * scale).round().clamp(-OUTPUT_MAX, OUTPUT_MAX) as f32;
    }
    let constant_max = 52f64.exp2();
    submodel.constant = (real.constant * scale)
        .round()
        .clamp(-constant_max, constant_max);
    submodel.scale = 1.0 / scale;
    submodel
}
