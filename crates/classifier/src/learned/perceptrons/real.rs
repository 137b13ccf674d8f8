//! The real weights of a submodel in training.

use super::UNITS;

/// Weights before they become integers; inputs are 0 to 1.
#[derive(Clone, Debug)]
pub(super) struct Real {
    pub(super) input: [f32; UNITS],
    pub(super) bias: [f32; UNITS],
    pub(super) output: [f32; UNITS],
    pub(super) constant: f64,
}

impl Real {
    pub(super) const ZERO: Real = Real {
        input: [0.0; UNITS],
        bias: [0.0; UNITS],
        output: [0.0; UNITS],
        constant: 0.0,
    };
}
