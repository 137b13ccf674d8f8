//! Whether an exact-match cache is worth filling: by what its entries come to.
//!
//! To remember the answer to a flow takes as long as answering some packets by the rules, and a change
//! of any rule ends it. Where rules change a thousand times a second and flows are many, most entries
//! would be gone before their next packet. So hits and insertions are counted:
//!
//! ```text
//!   window over:  hits < WORTH * insertions    a flow is let in with chance 1/2N, 1/64 at least
//!                 else                         with chance 2/N, 1 at most
//! ```
//!
//! Hits of an entry do not depend on how many others there are, as long as there is room: what is seen
//! of one flow in 64 holds for all, so that the cache is filled again soon after changes have ended.

/// Hits that an entry must have to be worth it: to insert one takes some 300 ns, and a hit saves
/// some 100.
const WORTH: u64 = 3;
/// Insertions, or lookups, of a window.
const INSERTIONS: u64 = 1_024;
const LOOKUPS: u64 = 65_536;
/// The least chance, inverted.
const ONE_IN_MAX: u32 = 64;

/// What an exact-match cache has been worth lately.
#[derive(Clone, Debug)]
pub(crate) struct Thrift {
    lookups: u64,
    hits: u64,
    insertions: u64,
    one_in: u32,
    /// Flows that came since the last that was let in.
    waited: u32,
}

impl Default for Thrift {
    fn default() -> Thrift {
        Thrift {
            lookups: 0,
            hits: 0,
            insertions: 0,
            one_in: 1,
            waited: 0,
        }
    }
}

impl Thrift {
    /// Lookups, and how many of them were hits.
    pub(crate) fn note_lookups(&mut self, lookups: u64, hits: u64) {
        self.lookups += lookups;
        self.hits += hits;
        if self.insertions < INSERTIONS && self.lookups < LOOKUPS {
            return;
        }
        self.one_in = match self.hits < WORTH * self.insertions {
            true => (2 * self.one_in).min(ONE_IN_MAX),
            false => (self.one_in / 2).max(1),
        };
        (self.lookups, self.hits, self.insertions) = (0, 0, 0);
    }

    /// Whether the next flow is to be let in.
    pub(crate) fn lets_in(&mut self) -> bool {
        self.waited += 1;
        let is_turn = self.waited >= self.one_in;
        if is_turn {
            self.waited = 0;
        }
        is_turn
    }

    /// A flow was let in.
    pub(crate) fn note_insertion(&mut self) {
        self.insertions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows that come in `windows` windows, with so many hits for each that was let in; says how
    /// many of 6,400 are let in afterwards.
    fn let_in_after(thrift: &mut Thrift, windows: usize, hits: u64) -> usize {
        for _ in 0..windows {
            (0..INSERTIONS).for_each(|_| thrift.note_insertion());
            thrift.note_lookups(INSERTIONS, INSERTIONS * hits);
        }
        (0..6_400).filter(|_| thrift.lets_in()).count()
    }

    #[test]
    fn entries_without_hits_become_rare_and_come_back_with_them() {
        let mut thrift = Thrift::default();
        assert_eq!(let_in_after(&mut thrift, 0, 0), 6_400);
        assert_eq!(let_in_after(&mut thrift, 3, WORTH), 6_400);
        assert_eq!(let_in_after(&mut thrift, 1, WORTH - 1), 3_200);
        assert_eq!(let_in_after(&mut thrift, 20, 0), 100);
        assert_eq!(let_in_after(&mut thrift, 2, WORTH), 400);
        assert_eq!(let_in_after(&mut thrift, 4, WORTH), 6_400);
    }

    #[test]
    fn a_window_without_insertions_ends_too() {
        let mut thrift = Thrift::default();
        assert_eq!(let_in_after(&mut thrift, 20, 0), 100);
        // Whoever is in is hit, and nobody comes.
        (0..6).for_each(|_| thrift.note_lookups(LOOKUPS, 1));
        assert_eq!((0..6_400).filter(|_| thrift.lets_in()).count(), 6_400);
    }
}
