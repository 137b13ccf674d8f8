//! Computes exactly which numbers reach a submodel, and its error for any of them.
//!
//! The function of a submodel is linear between the inputs at which a hidden unit begins or
//! ends. So its output, rounded down, rises or falls there and does not turn. It turns at no
//! more than eight inputs. Between two of these:
//!
//! - the inputs of one output are an interval, whose end is found by bisection;
//! - the difference between a place and the output is greatest at the ends of the place's
//!   numbers.
//!
//! This is the transition set of NuevoMatch (section 3.4), on integers: finite, and a proof.

use super::{INPUT_BITS, Submodel, UNITS};
use crate::learned::number::Number;

/// The numbers from `low` to `high`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interval {
    pub(super) low: u128,
    pub(super) high: u128,
}

impl Submodel {
    /// The parts of an interval in which the function does not turn, as inputs.
    fn pieces(&self, interval: Interval) -> Vec<(u64, u64)> {
        let (first, last) = (self.input(interval.low), self.input(interval.high));
        debug_assert!(first <= last && last < 1 << INPUT_BITS);
        let mut cuts = Vec::with_capacity(UNITS);
        for (&input, &bias) in self.input.iter().zip(&self.bias) {
            if input != 0.0 {
                // The function is linear up to this input and again from the next one on.
                let cut = (-bias / f64::from(input)).floor();
                if cut >= first as f64 && cut < last as f64 {
                    cuts.push(cut as u64);
                }
            }
        }
        cuts.push(last);
        cuts.sort_unstable();
        cuts.dedup();
        let mut start = first;
        let piece = |cut: u64| (std::mem::replace(&mut start, cut + 1), cut);
        cuts.into_iter().map(piece).collect()
    }

    /// The numbers of an interval whose inputs are in `from..=to`.
    fn numbers(&self, interval: Interval, from: u64, to: u64) -> Interval {
        // The first and the last input may also represent numbers outside the line.
        let low = match from == self.input(interval.low) {
            true => interval.low,
            false => self.low + (u128::from(from) << self.shift),
        };
        let high = match to == self.input(interval.high) {
            true => interval.high,
            false => self.low + (u128::from(to + 1) << self.shift) - 1,
        };
        Interval { low, high }
    }
}

/// Distributes the numbers of some intervals among the submodels of the next stage.
pub(super) fn route(submodel: &Submodel, intervals: &[Interval], below: &mut [Vec<Interval>]) {
    let last = below.len() as i64 - 1;
    let chosen = |input: u64| submodel.output(input).clamp(0, last);
    for &interval in intervals {
        for (mut from, to) in submodel.pieces(interval) {
            while from <= to {
                let own = chosen(from);
                let (mut end, mut above) = (from, to + 1);
                while above - end > 1 {
                    let middle = end + (above - end) / 2;
                    if chosen(middle) == own {
                        end = middle;
                    } else {
                        above = middle;
                    }
                }
                add(
                    &mut below[own as usize],
                    submodel.numbers(interval, from, end),
                );
                from = end + 1;
            }
        }
    }
}

fn add(intervals: &mut Vec<Interval>, interval: Interval) {
    match intervals.last_mut() {
        Some(last) if last.high.checked_add(1) == Some(interval.low) => last.high = interval.high,
        _ => intervals.push(interval),
    }
}

/// The least and the greatest difference between a place and the output.
///
/// It covers all numbers of the intervals.
pub(super) fn distances<N: Number>(
    submodel: &Submodel,
    starts: &[N],
    intervals: &[Interval],
) -> (i64, i64) {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    for &interval in intervals {
        for (from, to) in submodel.pieces(interval) {
            let piece = submodel.numbers(interval, from, to);
            let low = N::from_wide(piece.low);
            let mut place = starts.partition_point(|&start| start <= low) - 1;
            loop {
                let next = starts.get(place + 1).map(|next| next.to_wide());
                let end = next.map_or(piece.high, |next| piece.high.min(next - 1));
                let start = starts[place].to_wide().max(piece.low);
                for number in [start, end] {
                    let output = submodel.output(submodel.input(N::from_wide(number)));
                    let distance = place as i64 - output;
                    least = least.min(distance);
                    greatest = greatest.max(distance);
                }
                if end == piece.high {
                    break;
                }
                place += 1;
            }
        }
    }
    (least, greatest)
}
