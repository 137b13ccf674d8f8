//! Distributes cache lines among switches by their miss-ratio curves, for the most hits.
//!
//! ```text
//!   hits                      each switch: hits of its cache by its lines (`thalweg_v2p::Demand`)
//!    |        ___----x        the curve's upper hull: straight pieces, each less steep than the last
//!    |   __x--                 all pieces of all switches, the steepest first, until memory is gone
//!    | x
//!    +------------- lines
//! ```
//!
//! A curve may have steps: if a loop has 11 keys, 10 lines hit nothing. So whole pieces of the
//! hull are assigned; assigning line by line would stop before a step.
//!
//! The best division for the hulls is near the best for the switches, no more. A curve is
//! measured under some division of memory, and under another one a switch receives more or
//! fewer lookups.
//!
//! 1. The lines assigned are `total`, less those that no switch can use: only whole sets, and
//!    at most 2^28 lines per switch.
//! 2. No other division has more hits by the hulls, except that the last piece may be partial.
//!
//! Cost: a sort of all pieces.

use thalweg_v2p::Demand;

/// The greatest number of lines of a cache.
const MOST_ENTRIES: u64 = 1 << 28;

/// A straight piece of a switch's hull.
#[derive(Clone, Copy, Debug)]
struct Piece {
    switch: usize,
    entries: u64,
    hits: u64,
}

impl Piece {
    /// Whether it has fewer hits per line than another.
    fn is_less_steep(&self, other: &Piece) -> bool {
        let product = |hits: u64, entries: u64| u128::from(hits) * u128::from(entries);
        product(self.hits, other.entries) < product(other.hits, self.entries)
    }
}

/// Divides `total` lines among the switches, by number, for the most hits as measured.
///
/// Each gets a multiple of `set_entries`, the lines of a set. Lines without demand are spread
/// evenly.
///
/// # Panics
/// If `set_entries` is 0.
pub fn place_memory<'a>(
    demands: impl IntoIterator<Item = &'a Demand>,
    total: u64,
    set_entries: u32,
) -> Vec<u32> {
    assert!(set_entries > 0, "a set has a line at least");
    let curves = demands.into_iter().map(Demand::questions_by_place);
    let mut hulls: Vec<Vec<Piece>> = Vec::new();
    for (switch, places) in curves.enumerate() {
        hulls.push(hull_of(switch, places));
    }
    let mut pieces: Vec<Piece> = hulls.iter().flatten().copied().collect();
    // The sort is stable, so a switch's pieces stay in order, and among equals the first
    // switch's lead.
    pieces.sort_by(|one, other| match () {
        () if other.is_less_steep(one) => std::cmp::Ordering::Less,
        () if one.is_less_steep(other) => std::cmp::Ordering::Greater,
        () => std::cmp::Ordering::Equal,
    });
    let mut shares = vec![0_u64; hulls.len()];
    let mut left = total;
    for piece in pieces {
        let entries = piece.entries.min(left);
        shares[piece.switch] += entries;
        left -= entries;
    }
    in_sets(&mut shares, left, u64::from(set_entries));
    shares.iter().map(|entries| *entries as u32).collect()
}

/// Rounds shares down to whole sets, and assigns the remaining lines evenly.
fn in_sets(shares: &mut [u64], mut left: u64, set: u64) {
    let most = MOST_ENTRIES / set * set;
    for share in &mut *shares {
        let whole = (*share / set * set).min(most);
        left += *share - whole;
        *share = whole;
    }
    while left >= set {
        let open: Vec<usize> = (0..shares.len())
            .filter(|&switch| shares[switch] < most)
            .collect();
        if open.is_empty() {
            return;
        }
        let each = (left / open.len() as u64 / set * set).max(set);
        for switch in open {
            let more = each.min(left / set * set).min(most - shares[switch]);
            shares[switch] += more;
            left -= more;
        }
    }
}

/// The pieces of the upper hull of a switch's curve, starting at zero lines.
fn hull_of(switch: usize, places: &[u64]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for &hits in places {
        let mut piece = Piece {
            switch,
            entries: 1,
            hits,
        };
        // A piece at least as steep as the one before it is merged with it.
        while let Some(last) = pieces.pop_if(|last| !piece.is_less_steep(last)) {
            piece.entries += last.entries;
            piece.hits += last.hits;
        }
        pieces.push(piece);
    }
    pieces.retain(|piece| piece.hits > 0);
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thalweg_v2p::{Address, Key, Vni};

    use super::*;

    /// A switch whose cache of `n` lines gets the sum of the first `n` numbers as hits.
    fn demand(places: &[u8]) -> Demand {
        let key = |number: usize| Key {
            vni: Vni::default(),
            address: Address::from_ipv4((number as u32 + 1).into()),
        };
        let mut demand = Demand::new(64);
        // The key offered last is in the first place.
        (0..places.len())
            .rev()
            .for_each(|place| demand.note_offer(key(place)));
        for (place, &count) in places.iter().enumerate() {
            (0..count).for_each(|_| demand.note_question(key(place)));
        }
        demand
    }

    /// The height of the least concave curve above another, at each number of lines.
    fn concave(places: &[u8]) -> Vec<f64> {
        let mut sums = vec![0.0];
        for &count in places {
            sums.push(sums[sums.len() - 1] + f64::from(count));
        }
        let height = |at: usize| {
            let mut highest = sums[at];
            for before in 0..=at {
                for after in at..sums.len() {
                    if before < after {
                        let part = (at - before) as f64 / (after - before) as f64;
                        let between = sums[before] + part * (sums[after] - sums[before]);
                        highest = highest.max(between);
                    }
                }
            }
            highest
        };
        (0..sums.len()).map(height).collect()
    }

    /// The slow twin: the most hits of any division.
    fn best(curves: &[Vec<f64>], total: usize) -> f64 {
        let Some((first, rest)) = curves.split_first() else {
            return 0.0;
        };
        let with = |entries: usize| first[entries] + best(rest, total - entries);
        (0..first.len().min(total + 1))
            .map(with)
            .fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn no_division_is_better_by_the_hulls(
            places in prop::collection::vec(prop::collection::vec(0..9_u8, 0..7), 1..4),
            total in 0..20_usize,
        ) {
            let demands: Vec<Demand> = places.iter().map(|places| demand(places)).collect();
            let curves: Vec<Vec<f64>> = places.iter().map(|places| concave(places)).collect();
            let shares = place_memory(&demands, total as u64, 1);
            prop_assert_eq!(shares.iter().map(|share| *share as usize).sum::<usize>(), total);
            let reached = shares.iter().zip(&curves).map(|(share, curve)| {
                curve[(*share as usize).min(curve.len() - 1)]
            });
            let reached: f64 = reached.sum();
            prop_assert!((reached - best(&curves, total)).abs() < 1e-9, "{shares:?}");
        }

        #[test]
        fn sets_are_whole(
            places in prop::collection::vec(prop::collection::vec(0..9_u8, 0..7), 1..5),
            total in 0..60_u64,
            set in 1..5_u32,
        ) {
            let demands: Vec<Demand> = places.iter().map(|places| demand(places)).collect();
            let shares = place_memory(&demands, total, set);
            prop_assert!(shares.iter().all(|share| share % set == 0));
            let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
            prop_assert_eq!(sum, total / u64::from(set) * u64::from(set));
        }
    }

    #[test]
    fn who_is_asked_gets_the_lines() {
        let (busy, idle) = (demand(&[9, 7, 5]), demand(&[]));
        assert_eq!(place_memory([&busy, &idle], 2, 1), [2, 0]);
        // Lines without demand are spread.
        assert_eq!(place_memory([&busy, &idle], 7, 1), [5, 2]);
        // Nine lines with 80 hits come after one with nine hits, and before one with seven.
        let loops = demand(&[0, 0, 0, 0, 0, 0, 0, 0, 80]);
        assert_eq!(place_memory([&loops, &busy], 10, 1), [9, 1]);
        assert_eq!(place_memory([], 9, 1), [0_u32; 0]);
    }
}
