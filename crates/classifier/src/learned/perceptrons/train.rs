//! Trains a submodel: least squares by Adam, starting from a spline.
//!
//! Samples are drawn on the fly from the submodel's responsibility, in proportion to places:
//! each place, or every n-th, with its first and its last number. NuevoMatchUP draws as many;
//! NuevoMatch makes a data set first. If asked for more samples than exist, it takes all
//! places.
//!
//! Weights start as a line through nine of the samples, not at random. A perceptron with eight
//! units can follow that line exactly. So a few epochs are enough, and every training gives
//! the same weights. Adam (Kingma, Ba, ICLR 2015) continues from there. A leaf keeps the
//! weights with the shortest proven window. A leaf with a large error is trained again, from
//! another line.

use super::quantize::quantize;
use super::real::Real;
use super::responsibility::{Interval, distances};
use super::{INPUT_BITS, Submodel, UNITS, WINDOW_WANTED};
use crate::learned::number::Number;

/// The default number of samples of a submodel.
pub(in crate::learned) const SAMPLES_MAX: usize = 2_000;
const BATCH: usize = 32;
const EPOCHS: usize = 12;
const RATE: f32 = 1e-3;

/// An input and its wanted output, both 0 to 1.
#[derive(Clone, Copy, Debug)]
struct Sample {
    x: f32,
    y: f32,
}

/// The training data of a submodel.
struct Task {
    low: u128,
    high: u128,
    samples: Vec<Sample>,
    /// The first place; next, the number of places that follow up to the last.
    first: f64,
    span: f64,
}

/// A submodel that picks one of `next` submodels, by the share of the places before a number.
pub(super) fn inner<N: Number>(
    starts: &[N],
    intervals: &[Interval],
    next: usize,
    samples_max: usize,
) -> Submodel {
    let Some(task) = task(starts, intervals, samples_max) else {
        return nothing();
    };
    let starts_of = [furthest(&task.samples), quantiles(&task.samples)];
    let trained = starts_of
        .each_ref()
        .map(|start| adam(start.clone(), &task.samples));
    let all = starts_of.into_iter().chain(trained);
    let errors = all.map(|real| (error(&real, &task.samples), real));
    let best = errors.min_by(|one, other| one.0.total_cmp(&other.0));
    let (_, real) = best.expect("there are four");
    let factor = next as f64 / starts.len() as f64;
    quantize(
        &scaled(&real, task.first * factor, task.span * factor),
        task.low,
        task.high,
    )
}

/// A submodel whose output is the start of the window, and the window's length.
pub(super) fn leaf<N: Number>(
    starts: &[N],
    intervals: &[Interval],
    samples_max: usize,
) -> (Submodel, i64) {
    let Some(task) = task(starts, intervals, samples_max) else {
        return (nothing(), 1);
    };
    let mut best: Option<(Submodel, i64)> = None;
    let mut consider = |real: &Real| {
        let submodel = quantize(&scaled(real, task.first, task.span), task.low, task.high);
        let bounded = bounded(submodel, starts, intervals);
        if best.as_ref().is_none_or(|(_, length)| bounded.1 < *length) {
            best = Some(bounded);
        }
        best.as_ref()
            .is_some_and(|(_, length)| *length <= WINDOW_WANTED)
    };
    for start in [furthest(&task.samples), quantiles(&task.samples)] {
        let real = adam(start.clone(), &task.samples);
        if consider(&real) | consider(&start) {
            break;
        }
    }
    best.expect("there was a first")
}

/// Moves a leaf so that its windows have every place; returns their length.
fn bounded<N: Number>(
    mut submodel: Submodel,
    starts: &[N],
    intervals: &[Interval],
) -> (Submodel, i64) {
    let (least, greatest) = distances(&submodel, starts, intervals);
    // Shifts by a whole number of places, so that rounding down stays the same.
    submodel.constant += least as f64 / submodel.scale;
    (submodel, greatest - least + 1)
}

/// A submodel for no numbers.
fn nothing() -> Submodel {
    quantize(&Real::ZERO, 0, 0)
}

/// The samples of some intervals; `None` if there is no interval.
fn task<N: Number>(starts: &[N], intervals: &[Interval], samples_max: usize) -> Option<Task> {
    let place_of = |number: u128| {
        let number = N::from_wide(number);
        starts.partition_point(|&start| start <= number) - 1
    };
    let mut ranges = Vec::new();
    for interval in intervals {
        ranges.push((place_of(interval.low), place_of(interval.high), interval));
    }
    // From before the first place that begins here to the last one.
    let begins = |place: usize| starts[place].to_wide();
    let inner = ranges.iter().filter(|(from, to, _)| from < to);
    let low = inner.clone().map(|(from, ..)| begins(from + 1) - 1).min();
    let high = inner.map(|(_, to, _)| begins(*to)).max();
    let low = low.unwrap_or(0);
    let high = high.unwrap_or(low);
    let first = ranges.iter().map(|range| range.0).min()?;
    let last = ranges.iter().map(|range| range.1).max()?;
    let places: usize = ranges.iter().map(|range| range.1 - range.0 + 1).sum();
    let span = (last - first).max(1) as f64;
    let step = (2 * places).div_ceil(samples_max.max(2)).max(1);
    let line = quantize(&Real::ZERO, low, high);
    let mut samples = Vec::new();
    for (from, to, interval) in ranges {
        for place in (from..=to).step_by(step) {
            let start = starts[place].to_wide().max(interval.low);
            let next = starts.get(place + 1).map(|next| next.to_wide() - 1);
            let end = next.map_or(interval.high, |next| next.min(interval.high));
            for number in [start, end] {
                samples.push(Sample {
                    x: line.input(number) as f32 / (1 << INPUT_BITS) as f32,
                    y: ((place - first) as f64 / span) as f32,
                });
            }
        }
    }
    samples.sort_by(|one, other| one.x.total_cmp(&other.x));
    Some(Task {
        low,
        high,
        samples,
        first: first as f64,
        span,
    })
}

/// Scales weights from shares to places; adds half a place, since outputs are rounded down.
fn scaled(real: &Real, first: f64, span: f64) -> Real {
    Real {
        output: real.output.map(|output| (f64::from(output) * span) as f32),
        constant: first + real.constant * span,
        ..real.clone()
    }
}

/// A line through samples that are added one by one, each the furthest from the line so far.
fn furthest(samples: &[Sample]) -> Real {
    let mut knots = vec![0, samples.len() - 1];
    while knots.len() < UNITS + 1 {
        let pairs = knots.windows(2).map(|pair| (pair[0], pair[1]));
        let worst = pairs.flat_map(|(from, to)| {
            let (one, other) = (samples[from], samples[to]);
            let run = (other.x - one.x).max(f32::MIN_POSITIVE);
            let slope = (other.y - one.y) / run;
            let distance =
                move |at: usize| (samples[at].y - one.y - slope * (samples[at].x - one.x)).abs();
            (from + 1..to).map(move |at| (distance(at), at))
        });
        let Some((_, at)) = worst.max_by(|one, other| one.0.total_cmp(&other.0)) else {
            break;
        };
        let place = knots.partition_point(|&knot| knot < at);
        knots.insert(place, at);
    }
    line(knots.into_iter().map(|knot| samples[knot]))
}

/// A line through samples with equally many places between neighbours.
fn quantiles(samples: &[Sample]) -> Real {
    let last = samples.len() - 1;
    line((0..=UNITS).map(|knot| samples[knot * last / UNITS]))
}

/// The weights that make a line through up to nine samples.
fn line(knots: impl Iterator<Item = Sample>) -> Real {
    let knots: Vec<Sample> = knots.collect();
    let mut real = Real {
        input: [1.0; UNITS],
        bias: [-2.0; UNITS],
        output: [0.0; UNITS],
        constant: knots[0].y.into(),
    };
    let mut before = 0.0;
    for (unit, pair) in knots.windows(2).enumerate() {
        let run = pair[1].x - pair[0].x;
        let slope = if run > 0.0 {
            (pair[1].y - pair[0].y) / run
        } else {
            before
        };
        real.bias[unit] = -pair[0].x;
        real.output[unit] = slope - before;
        before = slope;
    }
    real
}

/// The largest error of the weights at any sample.
fn error(real: &Real, samples: &[Sample]) -> f32 {
    let errors = samples.iter().map(|sample| {
        let units = real.input.iter().zip(&real.bias).zip(&real.output);
        let terms =
            units.map(|((input, bias), output)| output * (input * sample.x + bias).max(0.0));
        (terms.sum::<f32>() + real.constant as f32 - sample.y).abs()
    });
    errors.fold(0.0, f32::max)
}

/// The moments of Adam for one kind of weight.
#[derive(Clone, Copy)]
struct Moments {
    first: [f32; UNITS],
    second: [f32; UNITS],
}

impl Moments {
    const ZERO: Moments = Moments {
        first: [0.0; UNITS],
        second: [0.0; UNITS],
    };

    /// Takes a step against the gradients; `rate` includes the corrections for the step count.
    #[inline(always)]
    fn step(&mut self, weights: &mut [f32; UNITS], gradients: &[f32; UNITS], rate: f32) {
        for unit in 0..UNITS {
            let gradient = gradients[unit];
            self.first[unit] = 0.9 * self.first[unit] + 0.1 * gradient;
            self.second[unit] = 0.999 * self.second[unit] + 0.001 * gradient * gradient;
            let size = self.second[unit].sqrt() + 1e-8;
            // In proportion to the weight: the outputs of steep parts are in the thousands.
            let scale = weights[unit].abs().max(1e-3);
            weights[unit] -= rate * scale * self.first[unit] / size;
        }
    }
}

/// Improves the weights by the squared error, batch by batch.
fn adam(mut real: Real, samples: &[Sample]) -> Real {
    let (mut inputs, mut biases, mut outputs) = (Moments::ZERO, Moments::ZERO, Moments::ZERO);
    let mut steps = 0;
    let batches = samples.len().div_ceil(BATCH);
    for _ in 0..EPOCHS {
        for batch in 0..batches {
            // Every n-th sample, so that a batch covers the whole line.
            let chosen = samples.iter().skip(batch).step_by(batches);
            let mut gradient = [[0.0f32; UNITS]; 3];
            let (mut of_constant, mut count) = (0.0, 0.0);
            for sample in chosen {
                let mut hidden = [0.0; UNITS];
                let mut sum = real.constant as f32;
                for (unit, hidden) in hidden.iter_mut().enumerate() {
                    *hidden = (real.input[unit] * sample.x + real.bias[unit]).max(0.0);
                    sum += real.output[unit] * *hidden;
                }
                let error = sum - sample.y;
                of_constant += error;
                count += 1.0;
                for (unit, &hidden) in hidden.iter().enumerate() {
                    let is_on = if hidden > 0.0 { 1.0 } else { 0.0 };
                    let through = error * real.output[unit] * is_on;
                    gradient[0][unit] += through * sample.x;
                    gradient[1][unit] += through;
                    gradient[2][unit] += error * hidden;
                }
            }
            steps += 1;
            let correction = (1.0 - 0.999f32.powi(steps)).sqrt() / (1.0 - 0.9f32.powi(steps));
            let rate = RATE * correction;
            inputs.step(&mut real.input, &gradient[0], rate);
            biases.step(&mut real.bias, &gradient[1], rate);
            outputs.step(&mut real.output, &gradient[2], rate);
            real.constant -= f64::from(RATE * 0.1 * of_constant / count);
        }
    }
    real
}
