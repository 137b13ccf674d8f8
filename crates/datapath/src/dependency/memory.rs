//! What an entry's walk still knows after a change, so that its repair need not search anew.
//!
//! A certificate says that whatever agrees with a value under a mask meets a rule, and none above
//! it. After a change:
//!
//! - no new rule has met it, and its rule is there (or one that has its place): it holds;
//! - new rules above its rule have met it: of those that the packet matches the best wins, and the
//!   certificate narrows by that rule's mask; of those above that the packet does not match, one
//!   bit in which the packet differs is enough to keep each out;
//! - else, the table must be searched.
//!
//! So tables that a change has not touched are not searched, unless a packet looks otherwise there
//! now than it did; nor is the table of a few new rules.

use std::cell::Cell;

use thalweg_classifier::{Precedence, RuleId, Version};
use thalweg_pipeline::{Memory, Pipeline, TableId};

use super::node::{NodeId, Nodes};
use super::paths::Edge;

/// New rules that are compared with a packet one by one; a search is cheaper than more.
const ARRIVALS_MAX: usize = 32;

/// A new rule that has met certificates.
#[derive(Clone, Debug)]
struct Arrival {
    id: RuleId,
    precedence: Precedence,
    value: Vec<u64>,
    mask: Vec<u64>,
}

/// The new rules of a change, and the nodes that they met.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    arrivals: Vec<Arrival>,
    /// By node, then the best first; and whether the node was certain when the first met it.
    meetings: Vec<Meeting>,
}

#[derive(Clone, Copy, Debug)]
struct Meeting {
    node: NodeId,
    arrival: u32,
    was_certain: bool,
}

impl Arrivals {
    pub(super) fn clear(&mut self) {
        self.arrivals.clear();
        self.meetings.clear();
    }

    pub(super) fn add(
        &mut self,
        id: RuleId,
        precedence: Precedence,
        value: Vec<u64>,
        mask: Vec<u64>,
    ) -> u32 {
        self.arrivals.push(Arrival {
            id,
            precedence,
            value,
            mask,
        });
        self.arrivals.len() as u32 - 1
    }

    pub(super) fn meet(&mut self, node: NodeId, arrival: u32, was_certain: bool) {
        self.meetings.push(Meeting {
            node,
            arrival,
            was_certain,
        });
    }

    /// Puts all in order, when no more will come.
    pub(super) fn sort(&mut self) {
        let arrivals = &self.arrivals;
        self.meetings.sort_by_key(|meeting| {
            let precedence = arrivals[meeting.arrival as usize].precedence;
            (meeting.node, std::cmp::Reverse(precedence))
        });
    }

    /// The new rules that met a node, the best first, if it was certain before them.
    fn of(&self, node: NodeId) -> Option<impl ExactSizeIterator<Item = &Arrival>> {
        let first = self.meetings.partition_point(|meeting| meeting.node < node);
        let meetings = &self.meetings[first..];
        let count = meetings.partition_point(|meeting| meeting.node == node);
        let meetings = &meetings[..count];
        let was_certain = meetings.iter().any(|meeting| meeting.was_certain);
        let arrivals = meetings
            .iter()
            .map(|meeting| &self.arrivals[meeting.arrival as usize]);
        was_certain.then_some(arrivals)
    }
}

impl Arrival {
    /// A bit that the rule cares for and in which the words differ from it; `None` if it matches.
    fn difference(&self, words: &[u64]) -> Option<(usize, u64)> {
        let pairs = words
            .iter()
            .zip(self.value.iter().zip(&self.mask))
            .enumerate();
        let mut differing = pairs.map(|(word, (is, (want, mask)))| (word, (is ^ want) & mask));
        let (word, bits) = differing.find(|(_, bits)| *bits != 0)?;
        // The most significant: masks stay prefixes where rules have prefixes.
        Some((word, 1 << (63 - bits.leading_zeros())))
    }
}

/// The lookups of an entry's walk, as far as they are known at a version.
pub(crate) struct Recollection<'a> {
    nodes: &'a Nodes,
    arrivals: &'a Arrivals,
    path: &'a [Edge],
    pipeline: &'a Pipeline,
    version: Version,
    recalled: Cell<u32>,
}

impl<'a> Recollection<'a> {
    pub(super) fn new(
        nodes: &'a Nodes,
        arrivals: &'a Arrivals,
        path: &'a [Edge],
        pipeline: &'a Pipeline,
        version: Version,
    ) -> Recollection<'a> {
        Recollection {
            nodes,
            arrivals,
            path,
            pipeline,
            version,
            recalled: Cell::new(0),
        }
    }

    /// How many lookups were answered.
    pub(crate) fn recalled(&self) -> u32 {
        self.recalled.get()
    }
}

impl Memory for Recollection<'_> {
    fn recall(
        &self,
        table: TableId,
        words: &[u64],
        examined: &mut [u64],
    ) -> Option<Option<RuleId>> {
        let known = |edge: &Edge| {
            let certificate = self.nodes.certificate(edge.node, table, words)?;
            let mut above = Vec::new();
            if !certificate.is_certain {
                let arrivals = self.arrivals.of(edge.node)?;
                if arrivals.len() > ARRIVALS_MAX {
                    return None;
                }
                for arrival in arrivals {
                    let Some(difference) = arrival.difference(words) else {
                        return Some((certificate, above, Some(arrival)));
                    };
                    above.push(difference);
                }
            }
            Some((certificate, above, None))
        };
        let mut found = self.path.iter().filter_map(known);
        let (certificate, above, arrival, winner) =
            found.find_map(|(certificate, above, arrival)| {
                let winner = match (arrival, certificate.winner) {
                    (Some(arrival), _) => Some(arrival.id),
                    (None, Some(rule)) => Some(self.pipeline.heir_of(rule, self.version)?),
                    (None, None) => None,
                };
                Some((certificate, above, arrival, winner))
            })?;
        certificate
            .words
            .add_to(0..certificate.words.len(), examined);
        for (word, bit) in above {
            examined[word] |= bit;
        }
        if let Some(arrival) = arrival {
            let masks = examined.iter_mut().zip(&arrival.mask);
            masks.for_each(|(examined, mask)| *examined |= mask);
        }
        self.recalled.set(self.recalled.get() + 1);
        Some(winner)
    }
}
