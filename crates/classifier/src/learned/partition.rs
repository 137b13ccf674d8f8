//! Puts rules into buckets: which rules an iSet has, and where its buckets begin.
//!
//! The blocks of the rules are nested or disjoint, so they form a forest. It is walked once,
//! from low numbers to high ones, with one open bucket:
//!
//! ```text
//!   place(node, above):                            above: rules of wider blocks, kept
//!       the rules from here down fit into the open bucket: put them there
//!       they fit into a bucket of one line group beside `above`: open a new one
//!       the node's own rules are few, and buckets below are few: keep them, with a copy in
//!           each bucket below; place the children with them above
//!       all fit into a bucket of `bucket_max`: open a new one
//!       else the node's own rules are left over; place the children
//! ```
//!
//! Rules left over go to the next iSet, which is sorted by other fields, or to the remainder.
//! NuevoMatch takes the largest set of ranges that do not overlap (interval scheduling), and
//! NuevoMatchUP lets up to `l` overlap in a bucket. Copies of wide rules in several buckets
//! are our addition. They let the narrow rules below be divided further, and the wide rules
//! need no iSet of their own.
//!
//! 1. Starts strictly ascend; the first is zero. A bucket extends to the next start.
//! 2. A kept rule is in every bucket that has a number of its block, and in no other.
//! 3. Within a bucket rules are sorted by number, best first, without duplicates.
//! 4. A bucket has at most `bucket_max` rules.

use super::composite::{Block, Composite};

/// The number of rules in a group of lines, which are compared at once.
pub(super) const LANES: usize = crate::simd::lanes::Lanes::COUNT;

/// The limits for putting rules into buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The most rules of a bucket.
    pub(super) bucket_max: usize,
    /// The most buckets with copies of a rule; 1 for no copies.
    pub(super) copies_max: usize,
}

/// The buckets of an iSet.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// The lowest number of each bucket.
    pub(super) starts: Vec<u128>,
    /// One past the last rule of each bucket, in `rules`.
    pub(super) ends: Vec<u32>,
    /// The rules of all buckets, by number.
    pub(super) rules: Vec<u32>,
    /// The rules in no bucket.
    pub(super) left: Vec<u32>,
}

impl Buckets {
    /// The rules of a bucket, best first.
    pub(super) fn bucket(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.rules[start as usize..self.ends[index] as usize]
    }
}

/// A rule's number and block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranged {
    pub(super) block: Block,
    pub(super) rule: u32,
}

/// Puts rules into buckets.
pub(super) fn partition(mut rules: Vec<Ranged>, composite: &Composite, limits: Limits) -> Buckets {
    rules.sort_unstable_by_key(|ranged| (ranged.block.low, ranged.block.length, ranged.rule));
    let nodes = forest(&rules, composite);
    let mut walk = Walk {
        limits,
        rules: &rules,
        nodes: &nodes,
        spare: rules.len(),
        open: Vec::new(),
        open_start: 0,
        buckets: Buckets::default(),
    };
    let mut above = Vec::new();
    walk.place_children(0, rules.len(), &mut above);
    walk.close();
    walk.buckets
}

/// A block that begins at an index of the sorted rules.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// One past the last rule with exactly this block.
    own_end: u32,
    /// One past the last rule within this block.
    end: u32,
}

/// The node that begins at each rule, if any.
fn forest(rules: &[Ranged], composite: &Composite) -> Vec<Node> {
    let mut nodes = vec![Node::default(); rules.len()];
    let mut open: Vec<(usize, u128)> = Vec::new();
    let mut start = 0;
    while start < rules.len() {
        let block = rules[start].block;
        while let Some(&(node, high)) = open.last()
            && high < block.low
        {
            nodes[node].end = start as u32;
            open.pop();
        }
        let own = rules[start..]
            .iter()
            .take_while(|other| other.block == block);
        let own_end = start + own.count();
        nodes[start].own_end = own_end as u32;
        open.push((start, composite.high(block)));
        start = own_end;
    }
    for (node, _) in open {
        nodes[node].end = rules.len() as u32;
    }
    nodes
}

struct Walk<'a> {
    limits: Limits,
    rules: &'a [Ranged],
    nodes: &'a [Node],
    /// The number of copies that may still be made.
    spare: usize,
    open: Vec<u32>,
    open_start: u128,
    buckets: Buckets,
}

impl Walk<'_> {
    /// Places the nodes that begin in `start..end`.
    fn place_children(&mut self, mut start: usize, end: usize, above: &mut Vec<u32>) {
        while start < end {
            self.place(start, above);
            start = self.nodes[start].end as usize;
        }
    }

    fn place(&mut self, start: usize, above: &mut Vec<u32>) {
        let (own_end, end) = (
            self.nodes[start].own_end as usize,
            self.nodes[start].end as usize,
        );
        let (own, all) = (own_end - start, end - start);
        let room = room(above.len()).min(self.limits.bucket_max);
        if self.open.len() + all <= room {
            self.append(start..end);
            return;
        }
        if above.len() + all <= room {
            self.reopen(start, above);
            self.append(start..end);
            return;
        }
        if own_end < end && self.is_worth_copies(own, all - own, above.len()) {
            // The open bucket extends to the first child that does not fit. It has numbers of
            // this block only if that child begins later.
            let is_first_at_low = self.rules[own_end].block.low == self.rules[start].block.low;
            if is_first_at_low || self.open.len() + own > room {
                self.reopen(start, above);
            }
            self.append(start..own_end);
            let before = above.len();
            above.extend(self.rules[start..own_end].iter().map(|ranged| ranged.rule));
            let buckets = self.buckets.starts.len();
            self.place_children(own_end, end, above);
            let copies = own * (self.buckets.starts.len() - buckets);
            self.spare = self.spare.saturating_sub(copies);
            above.truncate(before);
            return;
        }
        if above.len() + all <= self.limits.bucket_max {
            self.reopen(start, above);
            self.append(start..end);
            return;
        }
        if own_end == end {
            self.place_best(start, end, above);
            return;
        }
        let left = self.rules[start..own_end].iter().map(|ranged| ranged.rule);
        self.buckets.left.extend(left);
        self.place_children(own_end, end, above);
    }

    /// Whether `own` rules may be copied into the buckets of the `below` rules within their
    /// block.
    fn is_worth_copies(&self, own: usize, below: usize, above: usize) -> bool {
        let fixed = above + own;
        let room = room(fixed);
        if room > self.limits.bucket_max || self.limits.copies_max < 2 {
            return false;
        }
        let buckets = below.div_ceil(room - fixed);
        buckets <= self.limits.copies_max && own * buckets <= self.spare
    }

    /// Keeps the best rules of a block with too many, as many as fit.
    fn place_best(&mut self, start: usize, end: usize, above: &[u32]) {
        let room = self.limits.bucket_max.saturating_sub(above.len());
        // The rules of a block are sorted.
        let kept = start + room.min(end - start);
        if kept > start {
            self.reopen(start, above);
            self.append(start..kept);
        }
        let left = self.rules[kept..end].iter().map(|ranged| ranged.rule);
        self.buckets.left.extend(left);
    }

    fn append(&mut self, range: std::ops::Range<usize>) {
        let rules = self.rules[range].iter().map(|ranged| ranged.rule);
        self.open.extend(rules);
    }

    /// Closes the open bucket, and opens one where a node's block begins.
    fn reopen(&mut self, node: usize, above: &[u32]) {
        let low = self.rules[node].block.low;
        if low != self.open_start {
            self.close();
            self.open_start = low;
        }
        // A bucket that would begin at the same number has only the rules of `above`.
        self.open.clear();
        self.open.extend_from_slice(above);
    }

    fn close(&mut self) {
        let mut rules = std::mem::take(&mut self.open);
        rules.sort_unstable();
        self.buckets.starts.push(self.open_start);
        self.buckets.rules.append(&mut rules);
        self.buckets.ends.push(self.buckets.rules.len() as u32);
        self.open = rules;
    }
}

/// The number of rules up to which a bucket with `fixed` given rules is filled.
///
/// At least four more, in whole groups.
fn room(fixed: usize) -> usize {
    (fixed + LANES / 2).next_multiple_of(LANES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_packet::Slot;

    use crate::hash::hash_words;

    /// Checks all invariants over random forests and limits.
    ///
    /// Also checks that few rules are left over where all could be kept.
    #[test]
    fn buckets_have_what_they_must() {
        let composite = Composite::new([Slot {
            word: 0,
            shift: 0,
            width_bits: 16,
        }]);
        for seed in 0..400u64 {
            let random = |number: u64, index: u64| hash_words(seed, &[number, index]);
            let limits = Limits {
                bucket_max: [1, 4, 8, 9, 16, 40][(random(1, 0) % 6) as usize],
                copies_max: [1, 3, 100][(random(2, 0) % 3) as usize],
            };
            let count = random(3, 0) % 300;
            let dense = 6 + random(4, 0) % 11;
            let rule = |index: u64| {
                let length = (random(5, index) % 17) as u32;
                let low = u128::from(random(6, index) % (1 << dense)) << (16 - dense);
                let low = low & !(0xffff >> length);
                Ranged {
                    block: Block { low, length },
                    rule: index as u32,
                }
            };
            let rules: Vec<Ranged> = (0..count).map(rule).collect();
            let buckets = partition(rules.clone(), &composite, limits);
            check(&rules, &composite, &buckets, limits);
        }
    }

    fn check(rules: &[Ranged], composite: &Composite, buckets: &Buckets, limits: Limits) {
        assert_eq!(buckets.starts[0], 0);
        assert!(buckets.starts.is_sorted_by(|one, other| one < other));
        let mut copies = vec![0; rules.len()];
        for bucket in 0..buckets.starts.len() {
            let (low, kept) = (buckets.starts[bucket], buckets.bucket(bucket));
            let high = buckets
                .starts
                .get(bucket + 1)
                .map_or(0xffff, |next| next - 1);
            assert!(kept.len() <= limits.bucket_max);
            assert!(kept.is_sorted_by(|one, other| one < other));
            for &rule in kept {
                copies[rule as usize] += 1;
            }
            for rule in rules {
                let meets = rule.block.low <= high && composite.high(rule.block) >= low;
                let is_left = buckets.left.contains(&rule.rule);
                let is_here = kept.binary_search(&rule.rule).is_ok();
                assert_eq!(is_here, meets && !is_left, "{rule:?} in {low:x}..={high:x}");
            }
        }
        for rule in rules {
            let is_left = buckets.left.contains(&rule.rule);
            assert_eq!(copies[rule.rule as usize] == 0, is_left);
            assert!(limits.copies_max > 1 || copies[rule.rule as usize] < 2);
        }
    }

    #[test]
    fn rules_apart_fill_their_buckets() {
        let composite = Composite::new([Slot {
            word: 0,
            shift: 0,
            width_bits: 16,
        }]);
        let point = |index: u32| Ranged {
            block: Block {
                low: u128::from(index) * 5,
                length: 16,
            },
            rule: index,
        };
        let limits = Limits {
            bucket_max: 64,
            copies_max: 1,
        };
        let buckets = partition((0..800).map(point).collect(), &composite, limits);
        assert_eq!((buckets.starts.len(), buckets.left.len()), (100, 0));
    }
}
