//! Lays out axes and their ticks.
//!
//! On a logarithmic axis, positions are decimal logarithms; only [`Axis::position`] knows
//! that.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use super::number::Unit;

/// How values map to positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Linear, from zero.
    Linear,
    /// Logarithmic; values that are not above zero are not drawn.
    Logarithmic,
}

/// One axis of a picture.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What the values are.
    pub(super) label: String,
    /// The unit of the values.
    pub(super) unit: Unit,
    /// The scale.
    pub(super) scale: Scale,
    /// A value that is always shown, even without data there.
    pub(super) reaches: Option<f64>,
}

/// The shown part of an axis, in positions. `low` may be larger than `high`, which flips the
/// axis.
pub(super) struct Extent {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Ranged for Extent {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl Axis {
    /// A linear axis from zero.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Axis {
        Axis {
            label: label.into(),
            unit,
            scale: Scale::Linear,
            reaches: None,
        }
    }

    /// A logarithmic axis.
    pub fn logarithmic(label: impl Into<String>, unit: Unit) -> Axis {
        Axis {
            label: label.into(),
            unit,
            scale: Scale::Logarithmic,
            reaches: None,
        }
    }

    /// Always shows this value, so that pictures can be compared.
    pub fn reaching(mut self, value: f64) -> Axis {
        self.reaches = Some(value);
        self
    }

    /// The position of a value; `None` if it has no place on the axis.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        let position = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        };
        position.is_finite().then_some(position)
    }

    /// The label of a tick.
    pub(super) fn tick_label(&self, position: f64) -> String {
        let value = match self.scale {
            Scale::Linear => position,
            Scale::Logarithmic => 10_f64.powf(position),
        };
        self.unit.format_tick(value)
    }

    /// The part of the axis that has room for all values.
    pub(super) fn extent(&self, values: impl Iterator<Item = f64>) -> Extent {
        let positions = values
            .chain(self.reaches)
            .filter_map(|value| self.position(value));
        let (low, high) = positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
            (low.min(at), high.max(at))
        });
        match (self.scale, low.is_finite()) {
            (Scale::Linear, false) => linear_extent(1.0),
            (Scale::Linear, true) if self.unit == Unit::Share => linear_extent(high.max(1.0)),
            (Scale::Linear, true) => linear_extent(high),
            (Scale::Logarithmic, false) => logarithmic_extent(0.0, 1.0),
            (Scale::Logarithmic, true) => logarithmic_extent(low, high),
        }
    }
}

/// From zero to `high`, with ticks at ones, twos or fives.
fn linear_extent(high: f64) -> Extent {
    let high = if high > 0.0 { high } else { 1.0 };
    let rough = high / 5.0;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    // A little tolerance, so that 1.0 is cut into fifths.
    let step = steps.into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * magnitude);
    let count = (high / step - 1e-6).ceil() as usize;
    Extent {
        low: 0.0,
        high: high.max(step * count as f64 * 0.9999),
        ticks: (0..=count).map(|index| index as f64 * step).collect(),
    }
}

/// Ticks at whole decades, or at ones, twos and fives for a small range.
fn logarithmic_extent(low: f64, high: f64) -> Extent {
    let is_narrow = high.ceil() - low.floor() <= 3.0;
    let factors: &[f64] = if is_narrow { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.floor() as i32..=high.ceil() as i32;
    let ticks = decades.flat_map(|decade| {
        let at = move |factor: &f64| f64::from(decade) + factor.log10();
        factors.iter().map(at)
    });
    let ticks: Vec<f64> = ticks.collect();
    // The last tick not above the lowest value, and the first above the highest.
    let below = ticks.iter().copied().rfind(|tick| *tick <= low);
    let above = ticks.iter().copied().find(|tick| *tick > high);
    let (low, high) = (below.unwrap_or(low), above.unwrap_or(high));
    let is_shown = |tick: &f64| (low..=high).contains(tick);
    Extent {
        low,
        high,
        ticks: ticks.into_iter().filter(is_shown).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let extent = axis.extent(values.iter().copied());
        let ticks = extent.ticks.iter();
        ticks.map(|tick| axis.tick_label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_that_enclose_the_values() {
        let share = Axis::linear("hits", Unit::Share);
        let percents = ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"];
        assert_eq!(labels(&share, &[0.3, 0.97]), percents);
        let packets = Axis::linear("packets", Unit::Count);
        let thousands = ["0", "100k", "200k", "300k"];
        assert_eq!(labels(&packets, &[7.0, 300_000.0]), thousands);
        let time = Axis::logarithmic("time", Unit::Nanoseconds);
        let decades = ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"];
        assert_eq!(labels(&time, &[2e3, 5.2e8]), decades);
        assert_eq!(labels(&time, &[1.2e3, 3e3]), ["1 µs", "2 µs", "5 µs"]);
    }

    #[test]
    fn odd_values_make_an_axis_too() {
        let time = Axis::logarithmic("time", Unit::Nanoseconds);
        assert_eq!(time.position(0.0), None);
        assert!(!labels(&time, &[]).is_empty());
        assert!(!labels(&time, &[0.0, 100.0, 100.0]).is_empty());
        let count = Axis::linear("count", Unit::Count);
        assert!(!labels(&count, &[0.0]).is_empty());
    }
}
