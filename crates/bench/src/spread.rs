//! The median of some measurements, with the smallest and the largest.

use serde::{Deserialize, Serialize};

/// `{median, min, max}` of some measurements.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Spread {
    /// Half of the measurements are at most this.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) min: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of some measurements.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn of(measurements: &[f64]) -> Spread {
        let mut sorted = measurements.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            panic!("a spread of no measurements");
        };
        Spread {
            median: sorted[(sorted.len() - 1) / 2],
            min: *min,
            max: *max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_the_measurements() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 9.0]);
        assert_eq!(
            spread,
            Spread {
                median: 2.0,
                min: 1.0,
                max: 9.0
            }
        );
    }
}
