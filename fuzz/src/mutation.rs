//! Mutates inputs, from a seed.
//!
//! The mutations are those of general-purpose fuzzers: bits, bytes, edge values of integer
//! types, cuts, repeats, and pieces of other inputs. There is no feedback from coverage; the
//! corpus provides the structure.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Longest mutated input.
const LEN_MAX: usize = 4096;
/// Values at which integers, lengths and protocols change their meaning.
const EDGES: [u16; 14] = [
    0, 1, 4, 5, 6, 0x3c, 0x7f, 0x80, 0xff, 0x0800, 0x7fff, 0x8100, 0x86dd, 0xffff,
];

/// Generates inputs that resemble those of a corpus.
pub struct Mutator {
    random: StdRng,
}

impl Mutator {
    /// Creates a mutator; the same seed gives the same inputs.
    pub fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// An input of the corpus with one to eight mutations; an empty corpus gives noise.
    pub fn next_input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = match corpus.len() {
            0 => vec![0; self.random.random_range(0..256)],
            count => corpus[self.random.random_range(0..count)].clone(),
        };
        for _ in 0..self.random.random_range(1..=8) {
            self.change(&mut input, corpus);
        }
        input.truncate(LEN_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.random.random_range(0..=input.len());
        let span = at..input.len().min(at + self.random.random_range(1..=16));
        match self.random.random_range(0..8) {
            0 if at < input.len() => input[at] ^= 1 << self.random.random_range(0..8),
            1 if at < input.len() => input[at] = self.random.random(),
            2 => {
                let edge = EDGES[self.random.random_range(0..EDGES.len())].to_be_bytes();
                let edge = if self.random.random() {
                    &edge[..]
                } else {
                    &edge[1..]
                };
                for (byte, value) in input[at..].iter_mut().zip(edge) {
                    *byte = *value;
                }
            }
            3 => input.truncate(at),
            4 => drop(input.drain(span)),
            5 => {
                let piece = input[span].to_vec();
                input.splice(at..at, piece);
            }
            6 => {
                let count = self.random.random_range(1..=16);
                let noise: Vec<u8> = (0..count).map(|_| self.random.random()).collect();
                input.splice(at..at, noise);
            }
            _ if !corpus.is_empty() => {
                let other = &corpus[self.random.random_range(0..corpus.len())];
                let from = self.random.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        let corpus = [vec![1, 2, 3, 4], vec![5; 40]];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..200)
                .map(|_| mutator.next_input(&corpus))
                .collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().all(|input| input.len() <= LEN_MAX));
        assert_eq!(
            Mutator::new(1).next_input(&[]),
            Mutator::new(1).next_input(&[])
        );
    }
}
