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

use std::cell::RefCell;

use smallvec::SmallVec;
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
    /// By lookup so far: whether it was known, and where that still is all there is to say of it,
    /// the node that said so.
    known: RefCell<Known>,
}

/// What of a walk's lookups was known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// By lookup: its node, if that is the same as before.
    pub(crate) nodes: SmallVec<[Option<NodeId>; 16]>,
    /// Lookups that were answered.
    pub(crate) recalled: u32,
    /// Whether a walk that knew more was given up for this one.
    pub(crate) is_anew: bool,
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
            known: RefCell::default(),
        }
    }

    /// What was known of the walk's lookups.
    pub(crate) fn into_known(self) -> Known {
        self.known.into_inner()
    }

    /// The rule that wins, and the node if it is all there is to say.
    fn answer(
        &self,
        place: usize,
        table: TableId,
        words: &[u64],
        examined: &mut [u64],
    ) -> Option<(Option<RuleId>, Option<NodeId>)> {
        // Most walks look things up in the order in which they did before.
        let (before, from) = self.path.split_at(place.min(self.path.len()));
        let mut edges = from.iter().chain(before);
        edges.find_map(|edge| self.answer_by(edge.node, table, words, examined))
    }

    fn answer_by(
        &self,
        node: NodeId,
        table: TableId,
        words: &[u64],
        examined: &mut [u64],
    ) -> Option<(Option<RuleId>, Option<NodeId>)> {
        let certificate = self.nodes.certificate(node, table, words)?;
        let mut above: SmallVec<[(usize, u64); 8]> = SmallVec::new();
        let mut best = None;
        if !certificate.is_certain {
            // Else those that met a node which is gone would be taken to have met the next of its
            // number.
            if !certificate.is_doubted {
                return None;
            }
            let arrivals = self.arrivals.of(node)?;
            if arrivals.len() > ARRIVALS_MAX {
                return None;
            }
            for arrival in arrivals {
                let Some(difference) = arrival.difference(words) else {
                    best = Some(arrival);
                    break;
                };
                above.push(difference);
            }
        }
        let winner = match (best, certificate.winner) {
            (Some(arrival), _) => Some(arrival.id),
            (None, Some(rule)) => Some(self.pipeline.heir_of(rule, self.version)?),
            (None, None) => None,
        };
        let is_same = certificate.is_certain && winner == certificate.winner;
        certificate
            .words
            .add_to(0..certificate.words.len(), examined);
        for (word, bit) in above {
            examined[word] |= bit;
        }
        if let Some(arrival) = best {
            let masks = examined.iter_mut().zip(&arrival.mask);
            masks.for_each(|(examined, mask)| *examined |= mask);
        }
        Some((winner, is_same.then_some(node)))
    }
}

impl Memory for Recollection<'_> {
    fn recall(
        &self,
        table: TableId,
        words: &[u64],
        examined: &mut [u64],
    ) -> Option<Option<RuleId>> {
        let mut known = self.known.borrow_mut();
        let answer = self.answer(known.nodes.len(), table, words, examined);
        known.nodes.push(answer.and_then(|(_, node)| node));
        known.recalled += u32::from(answer.is_some());
        answer.map(|(winner, _)| winner)
    }
}
