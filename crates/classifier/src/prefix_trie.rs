//! A binary trie of prefixes: finds the lengths that match a value, and the few bits that show
//! it.
//!
//! ```text
//!   node: up to 32 bits of the prefix, how many prefixes end behind them, a child for 0 and for 1
//!   lookup(value): follow the value's bits from the root
//!       every node passed at which prefixes end:  that length can match
//!       bit i differs inside a node:              bits 0..=i show that no longer prefix matches
//!       the child is missing, but not its twin:   the same
//!       a leaf is passed in full:                 the bits so far show it
//! ```
//!
//! Values and prefixes are left-aligned in 128 bits: bit 0 is the most significant. The idea
//! and the rule for examined bits are those of Open vSwitch's `trie_lookup`. Nodes here are
//! indexes into one array, 16 bytes each.
//!
//! 1. A prefix is kept as long as it was inserted more often than removed.
//! 2. Every node but the root has at least one bit. A node at which no prefix ends has two
//!    children, or holds 32 bits.
//! 3. Free nodes never exceed half of the array (beyond a small minimum): then the trie is
//!    copied without them, in depth-first order. It is also copied whenever it has doubled,
//!    for the order alone: neighbours in a large trie then are neighbours in memory, which
//!    clearly speeds up lookups with examined bits.
//!
//! Costs: a lookup visits at most one node for each branching of the prefixes that agree with
//! the value so far. There are at most two nodes for each prefix of up to 32 bits.

/// The widest value in bits.
pub(crate) const BITS_MAX: u32 = 128;

const NONE: u32 = u32::MAX;
const FREE_MAX_ALWAYS: usize = 16;
/// The number of nodes from which their order matters; small in tests, so that they cover
/// copies.
const COPY_MIN: usize = if cfg!(test) { 64 } else { 1 << 14 };

/// The prefixes of a trie that match a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PrefixMatch {
    /// Bit `length - 1` is set if a prefix of that length matches.
    lengths: u128,
    /// The number of the value's leading bits that decide `lengths`.
    pub(crate) examined_bits: u32,
}

impl PrefixMatch {
    /// Whether a prefix of this non-zero length matches.
    #[inline]
    pub(crate) fn has_length(self, length: u32) -> bool {
        self.lengths >> (length - 1) & 1 == 1
    }

    /// Whether a prefix of any of these lengths matches; bit `length - 1` stands for a length.
    #[inline]
    pub(crate) fn has_any(self, lengths: u128) -> bool {
        self.lengths & lengths != 0
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The node's bits, left-aligned with zeros behind.
    bits: u32,
    children: [u32; 2],
    /// The low six bits are the number of bits (0 to 32), the rest the prefixes that end here.
    length_and_count: u32,
}

impl Node {
    fn new(bits: u32, length: u32, count: u32) -> Node {
        Node {
            bits,
            children: [NONE; 2],
            length_and_count: count << 6 | length,
        }
    }

    #[inline]
    fn length(&self) -> u32 {
        self.length_and_count & 63
    }

    #[inline]
    fn count(&self) -> u32 {
        self.length_and_count >> 6
    }

    fn set_length(&mut self, length: u32) {
        self.length_and_count = self.length_and_count & !63 | length;
    }

    #[inline]
    fn is_leaf(&self) -> bool {
        self.children == [NONE; 2]
    }

    /// The number of the node's first bits, at most `limit`, that equal those of `value` from
    /// `offset`.
    #[inline]
    fn equal_bits(&self, value: u128, offset: u32, limit: u32) -> u32 {
        let difference = self.bits ^ bits_at(value, offset);
        difference.leading_zeros().min(self.length()).min(limit)
    }
}

/// The field that holds a node's number: the root or a child link.
#[derive(Clone, Copy)]
enum Edge {
    Root,
    Child(u32, usize),
}

/// A multiset of prefixes of values of up to 128 bits.
#[derive(Clone, Debug)]
pub(crate) struct PrefixTrie {
    nodes: Vec<Node>,
    root: u32,
    /// The first free node; each free node links to the next through its first child.
    free: u32,
    free_count: usize,
    /// The number of nodes at which the trie is next copied for the order alone.
    copy_at: usize,
}

impl PrefixTrie {
    pub(crate) fn new() -> PrefixTrie {
        PrefixTrie {
            nodes: Vec::new(),
            root: NONE,
            free: NONE,
            free_count: 0,
            copy_at: COPY_MIN,
        }
    }

    /// Finds the prefixes that match the value.
    pub(crate) fn lookup(&self, value: u128) -> PrefixMatch {
        let mut lengths = 0u128;
        let mut offset = 0;
        let mut number = self.root;
        let mut is_at_leaf = true;
        while number != NONE {
            let node = &self.nodes[number as usize];
            let equal = node.equal_bits(value, offset, 32);
            offset += equal;
            if equal < node.length() {
                is_at_leaf = false;
                break;
            }
            if node.count() > 0 {
                lengths |= 1 << (offset - 1);
            }
            is_at_leaf = node.is_leaf();
            if is_at_leaf {
                break;
            }
            number = node.children[bit_at(value, offset)];
        }
        PrefixMatch {
            lengths,
            examined_bits: offset + u32::from(!is_at_leaf),
        }
    }

    /// Adds the prefix of the first `length` bits of `value`.
    ///
    /// # Panics
    /// If `length` is zero or above [`BITS_MAX`].
    pub(crate) fn insert(&mut self, value: u128, length: u32) {
        assert!(
            (1..=BITS_MAX).contains(&length),
            "prefix length out of range"
        );
        if self.nodes.len() >= self.copy_at {
            self.compact();
        }
        let mut edge = Edge::Root;
        let mut offset = 0;
        loop {
            let number = self.follow(edge);
            if number == NONE {
                let branch = self.new_branch(value, offset, length);
                self.set(edge, branch);
                return;
            }
            let node = self.nodes[number as usize];
            let equal = node.equal_bits(value, offset, length - offset);
            offset += equal;
            if equal < node.length() {
                let parent = self.split(number, equal);
                if offset == length {
                    self.nodes[parent as usize].length_and_count += 1 << 6;
                } else {
                    let branch = self.new_branch(value, offset, length);
                    self.set(Edge::Child(parent, bit_at(value, offset)), branch);
                }
                self.set(edge, parent);
                return;
            }
            if offset == length {
                self.nodes[number as usize].length_and_count += 1 << 6;
                return;
            }
            edge = Edge::Child(number, bit_at(value, offset));
        }
    }

    /// Removes one occurrence of a prefix.
    ///
    /// # Panics
    /// If it is not present.
    pub(crate) fn remove(&mut self, value: u128, length: u32) {
        let mut path = [Edge::Root; BITS_MAX as usize + 1];
        let mut depth = 0;
        let mut offset = 0;
        loop {
            let number = self.follow(path[depth]);
            assert!(number != NONE, "a prefix that was never inserted");
            let node = &mut self.nodes[number as usize];
            let equal = node.equal_bits(value, offset, length - offset);
            assert!(equal == node.length(), "a prefix that was never inserted");
            offset += equal;
            if offset == length {
                assert!(node.count() > 0, "a prefix that was never inserted");
                node.length_and_count -= 1 << 6;
                break;
            }
            depth += 1;
            path[depth] = Edge::Child(number, bit_at(value, offset));
        }
        self.prune(&path[..=depth]);
        if self.free_count > FREE_MAX_ALWAYS && self.free_count * 2 > self.nodes.len() {
            self.compact();
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    fn follow(&self, edge: Edge) -> u32 {
        match edge {
            Edge::Root => self.root,
            Edge::Child(parent, bit) => self.nodes[parent as usize].children[bit],
        }
    }

    fn set(&mut self, edge: Edge, number: u32) {
        match edge {
            Edge::Root => self.root = number,
            Edge::Child(parent, bit) => self.nodes[parent as usize].children[bit] = number,
        }
    }

    fn allocate(&mut self, node: Node) -> u32 {
        if self.free == NONE {
            crate::capacity::grow(&mut self.nodes, 1);
            self.nodes.push(node);
            return (self.nodes.len() - 1) as u32;
        }
        let number = self.free;
        self.free = self.nodes[number as usize].children[0];
        self.free_count -= 1;
        self.nodes[number as usize] = node;
        number
    }

    fn release(&mut self, number: u32) {
        self.nodes[number as usize].children[0] = self.free;
        self.free = number;
        self.free_count += 1;
    }

    /// Creates nodes for the bits of a value from `offset` to `length`; the last counts one
    /// prefix.
    fn new_branch(&mut self, value: u128, offset: u32, length: u32) -> u32 {
        let mut start = offset + (length - offset - 1) / 32 * 32;
        let mut child = self.allocate(node_of(value, start, length - start, 1));
        while start > offset {
            let bit = bit_at(value, start);
            start -= 32;
            let mut node = node_of(value, start, 32, 0);
            node.children[bit] = child;
            child = self.allocate(node);
        }
        child
    }

    /// Inserts a node with a node's first `length` bits above it; returns the new one.
    fn split(&mut self, number: u32, length: u32) -> u32 {
        let node = &mut self.nodes[number as usize];
        let mut parent = Node::new(leading(node.bits, length), length, 0);
        parent.children[(node.bits << length >> 31) as usize] = number;
        node.bits <<= length;
        node.set_length(node.length() - length);
        self.allocate(parent)
    }

    /// Removes nodes at the end of a path that are no longer needed (invariant 2).
    fn prune(&mut self, path: &[Edge]) {
        for &edge in path.iter().rev() {
            let number = self.follow(edge);
            let node = self.nodes[number as usize];
            let child = match node.children {
                _ if node.count() > 0 => return,
                [NONE, NONE] => {
                    self.set(edge, NONE);
                    self.release(number);
                    continue;
                }
                [child, NONE] | [NONE, child] => child,
                _ => return,
            };
            let below = &mut self.nodes[child as usize];
            if node.length() + below.length() <= 32 {
                below.bits = node.bits | below.bits.checked_shr(node.length()).unwrap_or(0);
                below.set_length(node.length() + below.length());
                self.set(edge, child);
                self.release(number);
            }
            return;
        }
    }

    /// Copies the used nodes to a new array.
    fn compact(&mut self) {
        let mut copy = Vec::with_capacity(self.nodes.len() - self.free_count);
        let mut pending = Vec::new();
        if self.root != NONE {
            pending.push((self.root, Edge::Root));
        }
        self.root = NONE;
        while let Some((number, edge)) = pending.pop() {
            let node = self.nodes[number as usize];
            let place = copy.len() as u32;
            match edge {
                Edge::Root => self.root = place,
                Edge::Child(parent, bit) => {
                    let parent: &mut Node = &mut copy[parent as usize];
                    parent.children[bit] = place;
                }
            }
            copy.push(node);
            for (bit, &child) in node.children.iter().enumerate() {
                if child != NONE {
                    pending.push((child, Edge::Child(place, bit)));
                }
            }
        }
        self.nodes = copy;
        self.free = NONE;
        self.free_count = 0;
        self.copy_at = COPY_MIN.max(2 * self.nodes.len());
    }
}

fn node_of(value: u128, offset: u32, length: u32, count: u32) -> Node {
    Node::new(leading(bits_at(value, offset), length), length, count)
}

/// The 32 bits of a value from `offset` on, with zeros behind its end.
#[inline]
fn bits_at(value: u128, offset: u32) -> u32 {
    (value.checked_shl(offset).unwrap_or(0) >> 96) as u32
}

#[inline]
fn bit_at(value: u128, offset: u32) -> usize {
    (bits_at(value, offset) >> 31) as usize
}

/// The first `length` of 32 bits.
fn leading(bits: u32, length: u32) -> u32 {
    bits & !u32::MAX.checked_shr(length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;

    fn common_bits(a: u128, b: u128) -> u32 {
        (a ^ b).leading_zeros()
    }

    /// The expected result of `lookup`, by a scan of all prefixes.
    fn expected(prefixes: &[(u128, u32)], value: u128) -> PrefixMatch {
        let common = |&(prefix, length): &(u128, u32)| common_bits(prefix, value).min(length);
        let deepest = prefixes.iter().map(common).max().unwrap_or(0);
        let is_longer = |prefix: &&(u128, u32)| common(prefix) == deepest && prefix.1 > deepest;
        let is_open = prefixes.iter().any(|prefix| is_longer(&prefix));
        let matching = prefixes.iter().filter(|prefix| common(prefix) == prefix.1);
        PrefixMatch {
            lengths: matching.fold(0, |lengths, prefix| lengths | 1 << (prefix.1 - 1)),
            examined_bits: deepest + u32::from(is_open),
        }
    }

    #[test]
    fn it_answers_as_a_list_does() {
        let mut trie = PrefixTrie::new();
        let mut prefixes: Vec<(u128, u32)> = Vec::new();
        for step in 0..40_000u64 {
            let random = |salt: u64| hash_words(salt, &[step]);
            // Values with few distinct halves, some sharing 70 bits, so that nodes split and
            // merge.
            let half = |salt| {
                [0, u64::MAX, 0xf0f0 << 48, random(salt) & 0xff << 50][random(salt) as usize % 4]
            };
            let value = u128::from(half(1)) << 64 | u128::from(half(2));
            let is_removal = random(3) % 40 < prefixes.len() as u64 || step > 39_900;
            if is_removal && !prefixes.is_empty() {
                let gone = prefixes.swap_remove(random(4) as usize % prefixes.len());
                trie.remove(gone.0, gone.1);
            } else {
                let length = random(5) as u32 % BITS_MAX + 1;
                let prefix = value & !u128::MAX.checked_shr(length).unwrap_or(0);
                prefixes.push((prefix, length));
                trie.insert(prefix, length);
            }
            let flipped = value ^ 1 << (random(6) % 128);
            for value in [value, flipped] {
                assert_eq!(
                    trie.lookup(value),
                    expected(&prefixes, value),
                    "step {step}"
                );
            }
        }
        for (prefix, length) in prefixes.drain(..) {
            trie.remove(prefix, length);
        }
        assert_eq!((trie.root, trie.nodes.len()), (NONE, trie.free_count));
        assert!(trie.free_count <= FREE_MAX_ALWAYS);
    }
}
