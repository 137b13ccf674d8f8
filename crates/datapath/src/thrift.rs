//! Decides whether filling an exact-match cache pays off, by the hits of its entries.
//!
//! Remembering the answer to a flow takes as long as answering some packets by the rules, and
//! any change of the rules invalidates it. If rules change a thousand times a second and flows
//! are many, most entries would be invalid before their next packet. So hits and insertions
//! are counted:
//!
//! ```text
//!   window over:  hits < WORTH * insertions    a flow is let in with chance 1/2N, 1/64 at least
//!                 else                         with chance 2/N, 1 at most
//! ```
//!
//! Hits of an entry do not depend on the number of other entries, as long as there is room. So
//! one flow in 64 is a sample of all flows, and the cache fills again soon after changes end.

/// Hits that an entry must have to pay off: an insertion takes about as long as three hits
/// save.
const WORTH: u64 = 3;
/// Insertions, or lookups, in a window.
const INSERTIONS: u64 = 1_024;
const LOOKUPS: u64 = 65_536;
/// The least chance, inverted.
const ONE_IN_MAX: u32 = 64;

/// The recent worth of an exact-match cache.
#[derive(Clone, Debug)]
pub(crate) struct Thrift {
    lookups: u64,
    hits: u64,
    insertions: u64,
    one_in: u32,
    /// Flows since the last one admitted.
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
    /// Counts lookups, and how many of them were hits.
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

    /// Whether to admit the next flow.
    pub(crate) fn lets_in(&mut self) -> bool {
        self.waited += 1;
        let is_turn = self.waited >= self.one_in;
        if is_turn {
            self.waited = 0;
        }
        is_turn
    }

    /// Counts an admitted flow.
    pub(crate) fn note_insertion(&mut self) {
        self.insertions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits flows for `windows` windows, with `hits` hits for each; returns how many of the
    /// next 6,400 are admitted.
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
        // Flows in the cache get hits, and no new flows come.
        (0..6).for_each(|_| thrift.note_lookups(LOOKUPS, 1));
        assert_eq!((0..6_400).filter(|_| thrift.lets_in()).count(), 6_400);
    }
}
