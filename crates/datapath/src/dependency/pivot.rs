//! Nodes by a prefix of one field: which of them can meet a rule that has a prefix of it too?
//!
//! A node knows some of the field's leading bits (none, if its mask leaves the first one open), and
//! so does the rule. Their regions can meet only if one prefix begins with the other. In the order
//! of prefixes, the node's prefixes that begin with the rule's are one range; those that the rule's
//! begins with are found length by length, of which few are in use.
//!
//! ```text
//!   rule 10.1.0.0/16:   ancestors  0.0.0.0/0, 10.0.0.0/8, ...      one search a length in use
//!                       subtree    10.1.0.0/16 .. 10.1.255.255/32  one range
//! ```
//!
//! 1. Every node of the table is in each of its pivots, under the empty prefix if need be: so each
//!    alone finds all that can meet the rule.

use std::collections::BTreeSet;

use super::node::NodeId;

/// Leading bits of a field that a pivot tells apart at most.
pub(super) const WIDTH_MAX: u32 = 56;

/// The bits that a pivot looks at: some of one word, the most significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bits {
    pub(super) word: usize,
    /// Of the least significant of them.
    pub(super) shift: u32,
    pub(super) width: u32,
}

impl Bits {
    /// How many leading bits a mask has.
    pub(super) fn length(self, mask: &[u64]) -> u32 {
        self.aligned(mask[self.word]).leading_ones().min(self.width)
    }

    /// The leading bits of a value.
    pub(super) fn prefix(self, value: &[u64], length: u32) -> Prefix {
        self.prefix_of_word(value[self.word], length)
    }

    /// The leading bits of the word that they are in.
    pub(super) fn prefix_of_word(self, word: u64, length: u32) -> Prefix {
        Prefix::new(self.aligned(word), length)
    }

    /// The bits at the top of a word.
    fn aligned(self, word: u64) -> u64 {
        word >> self.shift << (64 - self.width)
    }
}

/// Leading bits of a field, and how many: in this order, a prefix is followed by its extensions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Prefix(u64);

impl Prefix {
    fn new(aligned: u64, length: u32) -> Prefix {
        Prefix(aligned & upper(length) | u64::from(length))
    }

    fn length(self) -> u32 {
        self.0 as u8 as u32
    }

    /// This prefix's beginning of a length.
    fn ancestor(self, length: u32) -> Prefix {
        Prefix::new(self.0, length)
    }

    /// The last of those that begin with this one.
    fn last(self) -> Prefix {
        Prefix(self.0 & upper(self.length()) | !upper(self.length()))
    }
}

/// The uppermost bits of a word.
fn upper(bits: u32) -> u64 {
    // Never all 64: a length takes the lowest eight.
    !(u64::MAX >> bits)
}

/// The nodes of one table by their prefixes.
#[derive(Clone, Debug)]
pub(super) struct Pivot {
    nodes: BTreeSet<(Prefix, NodeId)>,
    /// How many nodes have a prefix of a length.
    lengths: [u32; WIDTH_MAX as usize + 1],
}

impl Pivot {
    pub(super) fn new() -> Pivot {
        Pivot {
            nodes: BTreeSet::new(),
            lengths: [0; WIDTH_MAX as usize + 1],
        }
    }

    pub(super) fn insert(&mut self, prefix: Prefix, node: NodeId) {
        self.nodes.insert((prefix, node));
        self.lengths[prefix.length() as usize] += 1;
    }

    pub(super) fn remove(&mut self, prefix: Prefix, node: NodeId) {
        let was_there = self.nodes.remove(&(prefix, node));
        debug_assert!(was_there, "every node is in each pivot of its table");
        self.lengths[prefix.length() as usize] -= 1;
    }

    pub(super) fn contains(&self, prefix: Prefix, node: NodeId) -> bool {
        self.nodes.contains(&(prefix, node))
    }

    /// The nodes whose prefix begins with this one, or the other way round.
    pub(super) fn meeting(&self, prefix: Prefix) -> impl Iterator<Item = NodeId> {
        let shorter = (0..prefix.length()).filter(|length| self.lengths[*length as usize] > 0);
        let ancestors = shorter.flat_map(move |length| {
            let ancestor = prefix.ancestor(length);
            self.nodes
                .range((ancestor, NodeId(0))..=(ancestor, NodeId(u32::MAX)))
        });
        let subtree = self
            .nodes
            .range((prefix, NodeId(0))..=(prefix.last(), NodeId(u32::MAX)));
        ancestors.chain(subtree).map(|(_, node)| *node)
    }

    /// Bytes of memory, about: the standard tree's nodes are some two thirds full.
    pub(super) fn memory_bytes(&self) -> usize {
        std::mem::size_of::<Pivot>() + self.nodes.len() * 24
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn what_meets_a_prefix_is_what_a_scan_finds() {
        let bits = Bits {
            word: 0,
            shift: 3,
            width: 16,
        };
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut pivot = Pivot::new();
        let mut all = Vec::new();
        let mut draw = || {
            let length = random.random_range(0..=16);
            // Few values, so that prefixes are each other's beginnings.
            let value = random.random::<u64>() & 0xc3c3 << 3;
            (bits.prefix(&[value], length), value, length)
        };
        for node in 0..500 {
            let (prefix, value, length) = draw();
            pivot.insert(prefix, NodeId(node));
            all.push((prefix, value, length));
        }
        for _ in 0..500 {
            let (prefix, value, length) = draw();
            let mut found: Vec<u32> = pivot.meeting(prefix).map(|node| node.0).collect();
            found.sort_unstable();
            let meets = |(_, other, other_length): &(Prefix, u64, u32)| {
                let common = length.min(*other_length);
                common == 0 || (value ^ other) >> 3 << 48 >> (64 - common) == 0
            };
            let expected: Vec<u32> = (0..500)
                .filter(|node| meets(&all[*node as usize]))
                .collect();
            assert_eq!(found, expected);
        }
        for (node, (prefix, ..)) in all.into_iter().enumerate() {
            pivot.remove(prefix, NodeId(node as u32));
        }
        assert!(pivot.nodes.is_empty() && pivot.lengths.iter().all(|count| *count == 0));
    }
}
