//! Predicts the place of a number in a sorted list, within a proven bound.
//!
//! A list of `starts` divides all numbers: number `x` belongs to the last place whose start is
//! not above `x`. A model returns a *window* of places, always of the same length, that
//! contains this place. A binary search in the window finds it. Both models are exact
//! functions of the number, so the proof covers the running code:
//!
//! - [`Pieces`]: linear pieces under a radix tree;
//! - [`Perceptrons`]: the RQ-RMI of NuevoMatch.
//!
//! 1. For every number that an iSet may look up, the place is in the window.

use crate::simd::Simd;

use super::number::Number;
use super::perceptrons::Perceptrons;
use super::pieces::Pieces;

/// One of the models.
#[derive(Clone, Debug)]
pub(super) enum Model {
    Pieces(Pieces),
    Perceptrons(Perceptrons),
}

impl Model {
    /// The length of a window.
    #[inline(always)]
    pub(super) fn window(&self) -> usize {
        match self {
            Model::Pieces(pieces) => pieces.window(),
            Model::Perceptrons(perceptrons) => perceptrons.window(),
        }
    }

    /// The first place of each number's window.
    #[inline(always)]
    pub(super) fn predict<N: Number>(&self, numbers: &[N], places: &mut [u32]) {
        match self {
            Model::Pieces(pieces) => {
                for (place, &number) in places.iter_mut().zip(numbers) {
                    *place = pieces.predict(number);
                }
            }
            Model::Perceptrons(perceptrons) => perceptrons.predict(numbers, places),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Model::Pieces(pieces) => pieces.heap_bytes(),
            Model::Perceptrons(perceptrons) => perceptrons.heap_bytes(),
        }
    }
}

/// The place of a number in the window of length `window` at `place`.
#[inline(always)]
pub(super) fn search<S: Simd, N: Number>(
    simd: S,
    starts: &[N],
    place: u32,
    window: usize,
    number: N,
) -> usize {
    let place = place as usize;
    place + number.place_among(simd, &starts[place..place + window])
}

/// Checks invariant 1 at both ends of each place's numbers.
///
/// For a model that is monotone between them, that is a proof.
///
/// # Panics
/// If a window misses a place.
pub(super) fn check<N: Number>(model: &Model, starts: &[N], bits: u32) {
    let highest = u128::MAX >> (128 - bits);
    for (place, &start) in starts.iter().enumerate() {
        let next = starts.get(place + 1).map(|next| next.to_wide() - 1);
        let last = N::from_wide(next.unwrap_or(highest));
        let numbers = [start, last];
        let mut places = [0; 2];
        model.predict(&numbers, &mut places);
        for first in places {
            let window = first as usize..first as usize + model.window();
            assert!(window.end <= starts.len(), "a window past the end");
            assert!(window.contains(&place), "{window:?} misses {place}");
        }
    }
}

#[cfg(test)]
mod tests;
