//! Pivots: find nodes by a prefix of one field, for rules that have a prefix of it too.
//!
//! A node has some of the field's leading bits in its mask (none if the mask leaves the first
//! bit open), and so has the rule. Their regions can meet only if one prefix begins with the
//! other. In the order of prefixes, the nodes whose prefix begins with the rule's are one
//! range. The nodes whose prefix is a beginning of the rule's, its ancestors, lie before it
//! and are found from the longest on:
//!
//! ```text
//!   rule 10.1.0.0/16:   subtree    10.1.0.0/16 .. 10.1.255.255/32  one range
//!                       ancestors  the last prefix up to 10.0.0.0/15:
//!                         10.0.0.0/8   is one; go on from 8.0.0.0/7, the next shorter
//!                         9.64.0.0/10  is none, and differs in the 7th bit: had there been an
//!                                      ancestor of 7 bits or more, it would lie between the two;
//!                                      go on from 8.0.0.0/6
//! ```
//!
//! So the tree is searched once for each ancestor, and for each bit in which a neighbour
//! branches off, but not for each prefix length in the table.
//!
//! 1. Every node of the table is in each of its pivots, under the empty prefix if need be. So
//!    each pivot alone finds every node that can meet the rule.

use std::collections::BTreeSet;

use super::node_id::NodeId;

/// Most leading bits of a field that a pivot distinguishes.
pub(super) const WIDTH_MAX: u32 = 56;

/// The bits that a pivot uses: part of one word, the most significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bits {
    pub(super) word: usize,
    /// Position of the least significant of them.
    pub(super) shift: u32,
    pub(super) width: u32,
}

impl Bits {
    /// The number of leading bits in a mask.
    pub(super) fn length(self, mask: &[u64]) -> u32 {
        self.aligned(mask[self.word]).leading_ones().min(self.width)
    }

    /// The leading bits of a value.
    pub(super) fn prefix(self, value: &[u64], length: u32) -> Prefix {
        self.prefix_of_word(value[self.word], length)
    }

    /// The leading bits, taken from their word.
    pub(super) fn prefix_of_word(self, word: u64, length: u32) -> Prefix {
        Prefix::new(self.aligned(word), length)
    }

    /// The pivot's bits, moved to the top of the word.
    fn aligned(self, word: u64) -> u64 {
        word >> self.shift << (64 - self.width)
    }
}

/// Leading bits of a field, with their number; in this order, a prefix precedes its
/// extensions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Prefix(u64);

impl Prefix {
    fn new(aligned: u64, length: u32) -> Prefix {
        Prefix(aligned & upper(length) | u64::from(length))
    }

    fn length(self) -> u32 {
        self.0 as u8 as u32
    }

    /// The first `length` bits of this prefix.
    fn ancestor(self, length: u32) -> Prefix {
        Prefix::new(self.0, length)
    }

    /// The number of leading bits that both share, at most the shorter one's length.
    fn common(self, other: Prefix) -> u32 {
        // The lowest eight bits hold the length.
        let differing = (self.0 ^ other.0) & !0xff;
        differing
            .leading_zeros()
            .min(self.length())
            .min(other.length())
    }

    /// The last prefix that begins with this one.
    fn last(self) -> Prefix {
        Prefix(self.0 & upper(self.length()) | !upper(self.length()))
    }
}

/// A mask of the upper `bits` bits of a word.
fn upper(bits: u32) -> u64 {
    // Never all 64: the length takes the lowest eight.
    !(u64::MAX >> bits)
}

/// The nodes of one table, sorted by prefix.
#[derive(Clone, Debug)]
pub(super) struct Pivot {
    nodes: BTreeSet<(Prefix, NodeId)>,
}

impl Pivot {
    pub(super) fn new() -> Pivot {
        Pivot {
            nodes: BTreeSet::new(),
        }
    }

    pub(super) fn insert(&mut self, prefix: Prefix, node: NodeId) {
        self.nodes.insert((prefix, node));
    }

    pub(super) fn remove(&mut self, prefix: Prefix, node: NodeId) {
        let was_there = self.nodes.remove(&(prefix, node));
        debug_assert!(was_there, "every node is in each pivot of its table");
    }

    pub(super) fn contains(&self, prefix: Prefix, node: NodeId) -> bool {
        self.nodes.contains(&(prefix, node))
    }

    /// The nodes whose prefix begins with this one, or is a beginning of it.
    pub(super) fn meeting(&self, prefix: Prefix) -> impl Iterator<Item = NodeId> {
        let subtree = self
            .nodes
            .range((prefix, NodeId(0))..=(prefix.last(), NodeId(u32::MAX)));
        let subtree = subtree.map(|(_, node)| *node);
        self.ancestors(prefix).chain(subtree)
    }

    /// The nodes whose prefix is a shorter beginning of this one.
    fn ancestors(&self, prefix: Prefix) -> impl Iterator<Item = NodeId> {
        let mut up_to = prefix.length().checked_sub(1);
        let found = std::iter::from_fn(move || {
            loop {
                let longest = prefix.ancestor(up_to?);
                let mut before = self.nodes.range(..=(longest, NodeId(u32::MAX)));
                let (last, _) = *before.next_back()?;
                let common = prefix.common(last);
                if common == last.length() {
                    up_to = common.checked_sub(1);
                    return Some(last);
                }
                up_to = Some(common);
            }
        });
        let nodes_of = |found| {
            self.nodes
                .range((found, NodeId(0))..=(found, NodeId(u32::MAX)))
        };
        found.flat_map(nodes_of).map(|(_, node)| *node)
    }

    /// Approximate bytes of memory: the standard tree's nodes are about two thirds full.
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
            // Few values, so that many prefixes are beginnings of others.
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
        assert!(pivot.nodes.is_empty());
    }
}
