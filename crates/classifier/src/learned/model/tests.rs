//! Tests of the bound: every number there is, hard lists, and both ends of wide ranges.

use super::*;
use crate::hash::hash_words;
use crate::simd::Plain;

fn models<N: Number>(starts: &[N], bits: u32) -> [Model; 2] {
    [
        Model::Pieces(Pieces::new(starts, bits)),
        Model::Perceptrons(Perceptrons::new(starts, bits, 2_000)),
    ]
}

/// Checks that the window of a number has its place, and that the search finds it.
fn check_number<N: Number>(model: &Model, starts: &[N], number: N) {
    let place = starts.partition_point(|&start| start <= number) - 1;
    let mut first = [0];
    model.predict(&[number], &mut first);
    let first = first[0] as usize;
    let window = first..first + model.window();
    assert!(window.end <= starts.len());
    assert!(
        window.contains(&place),
        "{number:?}: {window:?} misses {place}"
    );
    let found = search(Plain, starts, first as u32, model.window(), number);
    assert_eq!(found, place);
}

fn sorted(mut starts: Vec<u64>) -> Vec<u64> {
    starts.push(0);
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Starts among 16-bit numbers: even spacing, clusters, a gap, powers, every number.
fn lists() -> Vec<Vec<u64>> {
    let random = |seed: u64, index: u64| hash_words(seed, &[index]);
    let clusters = (0..1_500).map(|index| {
        let base = random(1, index / 60) & 0xffff;
        (base + random(2, index) % 90) & 0xffff
    });
    vec![
        vec![0],
        vec![0, 0xffff],
        sorted((0..0x1_0000).collect()),
        sorted((0..1_000).map(|index| index * 61).collect()),
        sorted((0..300).map(|index| random(3, index) & 0xffff).collect()),
        sorted((0..9_000).map(|index| random(4, index) & 0xffff).collect()),
        sorted(clusters.collect()),
        sorted(
            (0..500)
                .chain((0..500).map(|index| 0xffff - index))
                .collect(),
        ),
        sorted(
            (0..16)
                .flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])
                .collect(),
        ),
        sorted((0..250).map(|index| index * index).collect()),
    ]
}

#[test]
fn every_number_of_16_bits_is_in_its_window() {
    for starts in lists() {
        for model in models(&starts, 16) {
            (0..=0xffff).for_each(|number| check_number(&model, &starts, number));
        }
    }
}

/// The same lists in the highest bits, the lowest bits, and both, of 64 and of 128 bits.
#[test]
fn wide_numbers_are_in_their_windows() {
    for starts in lists() {
        let high: Vec<u64> = starts.iter().map(|start| start << 48).collect();
        check_ends(&high, 64);
        let both: Vec<u128> = starts
            .iter()
            .map(|&start| u128::from(start) << 112 | u128::from(start))
            .collect();
        check_ends(&both, 128);
        let low: Vec<u128> = std::iter::once(0)
            .chain(
                starts
                    .iter()
                    .map(|&start| u128::MAX - 0xffff + u128::from(start)),
            )
            .collect();
        check_ends(&low, 128);
        let amid: Vec<u128> = std::iter::once(0)
            .chain(starts.iter().map(|&start| (1 << 100) + u128::from(start)))
            .collect();
        check_ends(&amid, 128);
    }
}

fn check_ends<N: Number>(starts: &[N], bits: u32) {
    let highest = u128::MAX >> (128 - bits);
    for model in models(starts, bits) {
        check(&model, starts, bits);
        for (index, start) in starts.iter().enumerate() {
            let wide = start.to_wide();
            let noise = u128::from(hash_words(7, &[index as u64])) << (bits - 64);
            for number in [wide, wide.saturating_sub(1), wide.saturating_add(1), noise] {
                check_number(&model, starts, N::from_wide(number.min(highest)));
            }
        }
        check_number(&model, starts, N::from_wide(highest));
    }
}

#[test]
fn levels_agree_bit_for_bit() {
    use crate::simd::{Level, Simd, Work};

    struct Predict<'a>(&'a Model, &'a [u64], &'a mut [u32]);

    impl Work for Predict<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, _: S) {
            self.0.predict(self.1, self.2);
        }
    }

    for starts in lists() {
        let numbers: Vec<u64> = (0..0x1_0000).collect();
        for model in models(&starts, 16) {
            let all = Level::available().into_iter().map(|level| {
                let mut places = vec![0; numbers.len()];
                level.run(Predict(&model, &numbers, &mut places));
                places
            });
            let all: Vec<Vec<u32>> = all.collect();
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }
}

/// Training works: a nearly straight line has short windows.
#[test]
fn windows_are_short_where_lists_are_easy() {
    let starts: Vec<u64> = (0..20_000).map(|index| index * 1_000 + index % 7).collect();
    for model in models(&starts, 32) {
        assert!(model.window() <= 32, "{}", model.window());
    }
}
