//! The parts of one packet.
//!
//! 1. Parts are sorted by offset and do not overlap.
//! 2. No part ends behind the packet's end, once that is known.
//!
//! With both, the lengths add up to the end exactly if nothing is missing.

use thalweg_packet::Instant;

use super::piece::{Key, Piece};
use super::{Fragment, FragmentList, FragmentListState, FragmentRefusal};

/// A fragment that is held.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) fragment: Fragment<T>,
    pub(super) piece: Piece,
}

impl<T> Part<T> {
    /// The bytes of the packet that it has.
    pub(super) fn data(&self) -> &[u8] {
        &self.fragment.frame[self.piece.data_at..self.piece.data_end]
    }
}

/// Why a part does not fit the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Clash {
    /// The list has the same bytes in the same place.
    Duplicate,
    /// It shares bytes with another part, and is no copy of it.
    Overlap,
    /// It ends the packet before another part ends, or lies behind the packet's end.
    Ends,
}

/// The parts of one packet.
#[derive(Debug)]
pub(super) struct List<T> {
    pub(super) key: Key,
    pub(super) deadline: Instant,
    /// Set once the packet is refused; there are no parts then.
    pub(super) refusal: Option<FragmentRefusal>,
    parts: Vec<Part<T>>,
    /// Where the part that came last stands.
    newest: usize,
    /// Bytes of data in all parts.
    len: usize,
    /// The packet's length, once the last fragment is known.
    end: Option<usize>,
}

impl<T> List<T> {
    pub(super) fn new(key: Key, deadline: Instant) -> List<T> {
        List {
            key,
            deadline,
            refusal: None,
            parts: Vec::new(),
            newest: 0,
            len: 0,
            end: None,
        }
    }

    /// The parts, sorted by offset.
    pub(super) fn parts(&self) -> &[Part<T>] {
        &self.parts
    }

    /// Adds a part, or gives it back.
    pub(super) fn insert(&mut self, part: Part<T>) -> Result<(), (Clash, Part<T>)> {
        let piece = part.piece;
        let at = self
            .parts
            .partition_point(|other| other.piece.start < piece.start);
        let next = self.parts.get(at);
        if next.is_some_and(|next| self.is_copy(next, &part)) {
            return Err((Clash::Duplicate, part));
        }
        // Invariant 1: only the neighbours can overlap.
        let before = at
            .checked_sub(1)
            .map(|before| self.parts[before].piece.end());
        if next.is_some_and(|next| next.piece.start < piece.end())
            || before.is_some_and(|end| end > piece.start)
        {
            return Err((Clash::Overlap, part));
        }
        // Invariant 2.
        let furthest = self.parts.last().map_or(0, |last| last.piece.end());
        let is_behind = self.end.is_some_and(|end| piece.end() > end);
        let is_short = piece.is_last && (self.end.is_some() || furthest > piece.end());
        if is_behind || is_short {
            return Err((Clash::Ends, part));
        }
        if piece.is_last {
            self.end = Some(piece.end());
        }
        self.len += piece.len();
        self.parts.insert(at, part);
        self.newest = at;
        Ok(())
    }

    /// Whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.end == Some(self.len)
    }

    /// Removes up to `count` parts from the front. The list takes no more parts afterwards.
    pub(super) fn take(&mut self, count: usize) -> Vec<Part<T>> {
        let count = count.min(self.parts.len());
        self.parts.drain(..count).collect()
    }

    /// Removes the part that [`List::insert`] added last.
    pub(super) fn take_newest(&mut self) -> Part<T> {
        self.parts.remove(self.newest)
    }

    /// What a dump shows.
    pub(super) fn describe(&self) -> FragmentList {
        let has_first = self.parts.first().is_some_and(|part| part.piece.start == 0);
        let state = match (has_first, self.end.is_some()) {
            _ if self.refusal.is_some() => FragmentListState::Refused,
            (false, false) => FragmentListState::Other,
            (true, false) => FragmentListState::First,
            (false, true) => FragmentListState::Last,
            (true, true) => FragmentListState::FirstAndLast,
        };
        FragmentList {
            source: self.key.source,
            destination: self.key.destination,
            context: self.key.context,
            identification: self.key.identification,
            is_ipv6: self.key.is_ipv6,
            protocol: self.key.protocol,
            fragments: self.parts.len() as u32,
            state,
        }
    }

    fn is_copy(&self, old: &Part<T>, new: &Part<T>) -> bool {
        old.piece.start == new.piece.start
            && old.piece.is_last == new.piece.is_last
            && old.data() == new.data()
    }
}
