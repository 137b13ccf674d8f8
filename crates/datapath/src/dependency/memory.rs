//! Reuses what an entry's earlier walk found, so that a repair need not repeat every search.
//!
//! A certificate says that every key that agrees with a value under a mask meets a rule, and
//! none above it. After a change there are three cases:
//!
//! - No new rule has met the certificate, and its rule is there (or one that has its place):
//!   it holds.
//! - New rules above its rule have met it. The best of those that match the packet wins, and
//!   the certificate narrows by that rule's mask. For each better new rule that does not
//!   match, one bit in which the packet differs is enough to exclude it.
//! - Otherwise the table must be searched. So must a table with clauses of conjunctive matches,
//!   where a change has met the certificate: the best new rule need not win there.
//!
//! So a table that a change has not touched is not searched, unless the packet now looks
//! different there; nor is a table with a few new rules.

use std::cell::RefCell;

use smallvec::SmallVec;
use thalweg_classifier::{Precedence, RuleId, Version};
use thalweg_pipeline::{Memory, Pipeline, TableId};

use super::node::Nodes;
use super::node_id::NodeId;
use super::paths::Edge;

/// At most this many new rules are compared with a packet one by one; beyond, a search is
/// cheaper.
const ARRIVALS_MAX: usize = 32;

/// A new rule that meets certificates.
#[derive(Clone, Debug)]
struct Arrival {
    id: RuleId,
    precedence: Precedence,
    value: Vec<u64>,
    mask: Vec<u64>,
    /// Whether it wins where it matches and no better rule does.
    is_decided: bool,
}

/// The new rules of a change, and the nodes that they met.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    arrivals: Vec<Arrival>,
    /// Sorted by node, then best rule first; each says whether the node was certain when the
    /// first new rule met it.
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
            is_decided: true,
        });
        self.arrivals.len() as u32 - 1
    }

    /// Adds a rule that need not win where it matches.
    pub(super) fn add_undecided(&mut self, id: RuleId, precedence: Precedence) -> u32 {
        let arrival = self.add(id, precedence, Vec::new(), Vec::new());
        self.arrivals[arrival as usize].is_decided = false;
        arrival
    }

    pub(super) fn meet(&mut self, node: NodeId, arrival: u32, was_certain: bool) {
        self.meetings.push(Meeting {
            node,
            arrival,
            was_certain,
        });
    }

    /// Sorts the meetings, when no more will come.
    pub(super) fn sort(&mut self) {
        let arrivals = &self.arrivals;
        self.meetings.sort_by_key(|meeting| {
            let precedence = arrivals[meeting.arrival as usize].precedence;
            (meeting.node, std::cmp::Reverse(precedence))
        });
    }

    /// The new rules that met a node, best first, if it was certain before them and they
    /// decide.
    fn of(&self, node: NodeId) -> Option<impl ExactSizeIterator<Item = &Arrival>> {
        let first = self.meetings.partition_point(|meeting| meeting.node < node);
        let meetings = &self.meetings[first..];
        let count = meetings.partition_point(|meeting| meeting.node == node);
        let meetings = &meetings[..count];
        let was_certain = meetings.iter().any(|meeting| meeting.was_certain);
        let arrivals = meetings
            .iter()
            .map(|meeting| &self.arrivals[meeting.arrival as usize]);
        let are_decided = arrivals.clone().all(|arrival| arrival.is_decided);
        (was_certain && are_decided).then_some(arrivals)
    }
}

impl Arrival {
    /// A bit of the rule's mask in which the words differ from the rule; `None` if they match.
    fn difference(&self, words: &[u64]) -> Option<(usize, u64)> {
        let pairs = words
            .iter()
            .zip(self.value.iter().zip(&self.mask))
            .enumerate();
        let mut differing = pairs.map(|(word, (is, (want, mask)))| (word, (is ^ want) & mask));
        let (word, bits) = differing.find(|(_, bits)| *bits != 0)?;
        // The most significant bit: masks stay prefixes where rules have prefixes.
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
    /// For each lookup so far: whether it was known, and its node if the certificate is
    /// unchanged.
    known: RefCell<Known>,
}

/// Which of a walk's lookups were known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// For each lookup: its node, if it is the same as before.
    pub(crate) nodes: SmallVec<[Option<NodeId>; 16]>,
    /// Number of lookups answered from memory.
    pub(crate) recalled: u32,
    /// Whether an earlier walk with memory was discarded for this one.
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

    /// Which of the walk's lookups were known.
    pub(crate) fn into_known(self) -> Known {
        self.known.into_inner()
    }

    /// The winning rule, and its node if the certificate is unchanged.
    fn answer(
        &self,
        place: usize,
        table: TableId,
        words: &[u64],
        examined: &mut [u64],
    ) -> Option<(Option<RuleId>, Option<NodeId>)> {
        // Most walks look things up in the same order as before.
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
            // Meetings may be of a former node with this number, which is gone.
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
