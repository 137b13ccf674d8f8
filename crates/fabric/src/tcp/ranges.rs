//! A set of numbers, as sorted ranges that do not touch.
//!
//! It holds the segments that a receiver has behind a gap, and those that a sender knows to be
//! there. Both are few ranges, so a sorted list suffices: lookup is a binary search, adding
//! moves the later ranges. The list keeps its memory when emptied.

use super::segment::Block;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<Block>);

impl Ranges {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[Block] {
        &self.0
    }

    /// The range that contains a number.
    pub(crate) fn containing(&self, number: u32) -> Option<Block> {
        let index = self.0.partition_point(|block| block.end <= number);
        self.0
            .get(index)
            .copied()
            .filter(|block| block.start <= number)
    }

    /// Adds a range; calls `fresh` with each part of it that is new.
    pub(crate) fn add(&mut self, added: Block, mut fresh: impl FnMut(Block)) {
        if added.start >= added.end {
            return;
        }
        // The ranges from `first` to before `last` touch the new one.
        let first = self.0.partition_point(|block| block.end < added.start);
        let last = self.0.partition_point(|block| block.start <= added.end);
        let mut at = added.start;
        for block in &self.0[first..last] {
            if at < block.start {
                fresh(Block {
                    start: at,
                    end: block.start,
                });
            }
            at = at.max(block.end);
        }
        if at < added.end {
            fresh(Block {
                start: at,
                end: added.end,
            });
        }
        if first == last {
            return self.0.insert(first, added);
        }
        let merged = Block {
            start: added.start.min(self.0[first].start),
            end: added.end.max(self.0[last - 1].end),
        };
        self.0[first] = merged;
        self.0.drain(first + 1..last);
    }

    /// Removes all numbers below `number`.
    pub(crate) fn remove_below(&mut self, number: u32) {
        let gone = self.0.partition_point(|block| block.end <= number);
        if gone > 0 {
            self.0.drain(..gone);
        }
        if let Some(block) = self.0.first_mut() {
            block.start = block.start.max(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_a_set(
            steps in prop::collection::vec((0..60_u32, 0..12_u32, prop::bool::weighted(0.2)), 1..80)
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, len, removes) in steps {
                if removes {
                    ranges.remove_below(start);
                    set.retain(|&number| number >= start);
                } else {
                    let (mut fresh, end) = (Vec::new(), start + len);
                    ranges.add(Block { start, end }, |part| fresh.extend(part.start..part.end));
                    let expected: Vec<u32> = (start..end).filter(|n| !set.contains(n)).collect();
                    prop_assert_eq!(fresh, expected);
                    set.extend(start..end);
                }
                let held = ranges.as_slice();
                prop_assert!(held.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!(held.iter().all(|block| block.start < block.end));
                let numbers = held.iter().flat_map(|block| block.start..block.end);
                prop_assert!(numbers.eq(set.iter().copied()));
                for number in 0..80 {
                    let found = ranges.containing(number);
                    prop_assert_eq!(found.is_some(), set.contains(&number));
                }
            }
        }
    }
}
