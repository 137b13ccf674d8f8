//! The range-query recursive model index of NuevoMatch (RQ-RMI), in arithmetic without
//! rounding.
//!
//! ```text
//!   stage 0:  one submodel      its output picks the submodel of the next stage
//!   stage 1:  4 or 8 submodels  the same
//!   stage 2:  16 to 256         its output is where the window begins
//!
//!   submodel: x = (number - low) >> shift, of the line from low to high     (20 bits)
//!             y = sum of 8:  output * max(0, input * x + bias)   + constant
//!             output: y * 2^-s, rounded down
//! ```
//!
//! A submodel is a perceptron of eight hidden units (ReLU), as in NuevoMatch. The number of
//! places determines the stages, as there. The arithmetic differs. NuevoMatch has numbers and
//! weights as 32-bit floats: neighbours merge, sums depend on the order of operations, and the
//! proven error belongs to another function than the running one. Here every submodel has its
//! own number line (`low`, `shift`). Weights are integers so small that every product and sum
//! is an integer below 2^53, which a 64-bit float holds exactly. So all processors and all
//! orders of operations give the same result, and the function *is* piecewise linear: the
//! bound needs no margin for rounding.
//!
//! 1. `input` is below 2^12, `output` below 2^15, `bias` below 2^34, the constant below 2^52.
//! 2. A submodel's line begins and ends where places of its responsibility begin. So three
//!    stages distinguish neighbours anywhere in 128 bits. Numbers before the line count as its
//!    beginning, numbers after it as its end.
//!
//! Costs: three submodels in sequence, and 190 bytes of memory each. AVX2 and AVX-512 gain
//! little, because the three wait for each other.

mod quantize;
mod real;
mod responsibility;
mod train;

pub(super) use train::SAMPLES_MAX;

use super::number::Number;
use responsibility::Interval;

/// The number of hidden units.
const UNITS: usize = 8;
/// The number of bits of a submodel's input.
const INPUT_BITS: u32 = 20;
/// A leaf with longer windows is trained again.
const WINDOW_WANTED: i64 = 32;

/// The model.
#[derive(Clone, Debug)]
pub(super) struct Perceptrons {
    /// The submodels, stage by stage.
    submodels: Vec<Submodel>,
    /// The number of submodels in each stage.
    widths: Vec<usize>,
    window: usize,
    /// The first place of the last window.
    last: i64,
}

/// A perceptron.
#[derive(Clone, Debug, PartialEq)]
struct Submodel {
    low: u128,
    high: u128,
    shift: u32,
    input: [f32; UNITS],
    output: [f32; UNITS],
    bias: [f64; UNITS],
    constant: f64,
    /// A power of two.
    scale: f64,
}

impl Submodel {
    /// The input that represents a number.
    #[inline(always)]
    fn input<N: Number>(&self, number: N) -> u64 {
        let (low, high) = (N::from_wide(self.low), N::from_wide(self.high));
        // Clamps and subtracts before the shift, which keeps 64 bits.
        number.clamp(low, high).minus(low).bits_from(self.shift)
    }

    /// The output for an input.
    #[inline(always)]
    fn output(&self, input: u64) -> i64 {
        let x = input as u32 as i32 as f64;
        let mut terms = [0.0; UNITS];
        for (unit, term) in terms.iter_mut().enumerate() {
            let hidden = f64::from(self.input[unit]) * x + self.bias[unit];
            *term = f64::from(self.output[unit]) * hidden.max(0.0);
        }
        let [a, b, c, d, e, f, g, h] = terms;
        let sum = ((a + e) + (b + f)) + ((c + g) + (d + h)) + self.constant;
        (sum * self.scale).floor() as i64
    }
}

impl Perceptrons {
    /// Trains a model of `starts`, whose first is zero, for numbers of `bits` bits.
    ///
    /// Each submodel is trained on at most `samples_max` samples.
    pub(super) fn new<N: Number>(starts: &[N], bits: u32, samples_max: usize) -> Perceptrons {
        let widths = widths(starts.len());
        let mut submodels = Vec::new();
        let all = Interval {
            low: 0,
            high: u128::MAX >> (128 - bits),
        };
        let mut responsibilities = vec![vec![all]];
        for &next in &widths[1..] {
            let mut below = vec![Vec::new(); next];
            for intervals in &responsibilities {
                let submodel = train::inner(starts, intervals, next, samples_max);
                responsibility::route(&submodel, intervals, &mut below);
                submodels.push(submodel);
            }
            responsibilities = below;
        }
        let mut window = 1;
        for intervals in &responsibilities {
            let (submodel, length) = train::leaf(starts, intervals, samples_max);
            window = window.max(length);
            submodels.push(submodel);
        }
        let window = (window as usize).min(starts.len());
        Perceptrons {
            submodels,
            widths,
            window,
            last: (starts.len() - window) as i64,
        }
    }

    #[inline(always)]
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// The first place of each number's window.
    #[inline(always)]
    pub(super) fn predict<N: Number>(&self, numbers: &[N], places: &mut [u32]) {
        for (place, &number) in places.iter_mut().zip(numbers) {
            *place = self.predict_one(number);
        }
    }

    #[inline(always)]
    fn predict_one<N: Number>(&self, number: N) -> u32 {
        let (mut stage, mut chosen) = (0, 0);
        for pair in self.widths.windows(2) {
            let submodel = &self.submodels[stage + chosen];
            let output = submodel.output(submodel.input(number));
            chosen = output.clamp(0, pair[1] as i64 - 1) as usize;
            stage += pair[0];
        }
        let submodel = &self.submodels[stage + chosen];
        let output = submodel.output(submodel.input(number));
        output.clamp(0, self.last) as u32
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.submodels.capacity() * size_of::<Submodel>()
            + self.widths.capacity() * size_of::<usize>()
    }
}

/// The number of submodels in each stage, by the number of places (NuevoMatch, table 4).
fn widths(places: usize) -> Vec<usize> {
    match places {
        0..1_000 => vec![1, 4],
        1_000..10_000 => vec![1, 4, 16],
        10_000..100_000 => vec![1, 4, 128],
        _ => vec![1, 8, 256],
    }
}
