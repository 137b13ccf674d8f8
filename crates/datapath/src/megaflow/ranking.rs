//! In which sub-tables the packets of a port are looked for, and in which order.
//!
//! Most hits come first. And a packet that no sub-table has an entry for pays for all that are
//! searched, as does one whose entry is in the last. That is what *tuple space explosion* makes use of
//! (Csikor, Divakaran, Kang, Korosi, Sonkoly, Haja, Pezaros, Schmid, Retvari, *Tuple Space Explosion:
//! A Denial-of-Service Attack Against a Software Packet Classifier*, CoNEXT 2019; CVE-2019-25076): a
//! list of three rules that allow a port, an address and a port makes 16 * 32 * 16 masks, of which
//! chosen packets call up each; with IPv6 it is four times as many. So the search ends where it does
//! not pay any more:
//!
//! ```text
//!   reach(i) = lookups less the hits of those before i
//!   cost(n)  = CAUTION * (reach(0) + ... + reach(n - 1)) + WALK_PROBES * reach(n)
//!   searched = the n with the least cost, [`SEARCHED_MIN`] at the least
//! ```
//!
//! Packets behind the end are answered by a walk, which leads to their entry if there is one, and
//! counts as a hit there: a mask that is asked for again and again is searched soon. What one sender
//! calls up is a hit in a thousand of masks, none of which pays. Packets of other ports do not see
//! them, since hits are counted for each port apart; packets of the same port find their own masks
//! before those, and a new flow among them searches as many in vain as pay for others.
//!
//! 1. The ranking has every sub-table's number once, and numbers of some that are gone.
//! 2. `searched` is no more than there are, and what it leaves out has no more hits than what it has,
//!    as counted when it was last sorted.
//! 3. Between two sortings as many probes are made, or walks for as many, as [`SORT_PROBES`] for each
//!    sub-table: sorting is a small part of the cost of searching.

/// What a walk costs in probes, at the least: a table or two, and making the answer (0.9 to 1.5
/// microseconds where a probe takes 8 nanoseconds).
const WALK_PROBES: u64 = 100;

/// A probe counts twice: those in vain are others' loss.
const CAUTION: u64 = 2;

/// Sub-tables that are searched in any case.
const SEARCHED_MIN: usize = 16;

/// Probes for each sub-table, and probes in any case, between two sortings.
const SORT_PROBES: u64 = 32;
const SORT_PROBES_MIN: u64 = 8_192;

/// After so many lookups what was counted before counts half.
const LOOKUPS_MAX: u32 = 65_536;

/// The sub-tables as the packets of a port meet them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    order: Vec<u32>,
    /// By sub-table.
    hits: Vec<u32>,
    /// Keys that were looked for, halved when hits are.
    lookups: u32,
    /// How many, from the first, are searched.
    searched: usize,
    /// Probes, and walks that count for some, since it was last sorted.
    spent: u64,
}

impl Ranking {
    /// Adds a sub-table behind the others.
    pub(super) fn push(&mut self, number: u32) {
        let was_all = !self.is_cut();
        self.order.push(number);
        if self.hits.len() <= number as usize {
            self.hits.resize(number as usize + 1, 0);
        }
        if was_all || self.searched < SEARCHED_MIN {
            self.searched += 1;
        }
    }

    /// Sub-tables to be searched, and whether there are others.
    #[inline]
    pub(super) fn searched(&self) -> usize {
        self.searched
    }

    #[inline]
    pub(super) fn is_cut(&self) -> bool {
        self.searched < self.order.len()
    }

    /// The number of the sub-table at a rank.
    #[inline]
    pub(super) fn at(&self, rank: usize) -> u32 {
        self.order[rank]
    }

    /// Whether a sub-table is searched.
    pub(super) fn is_searched(&self, number: u32) -> bool {
        self.order[..self.searched].contains(&number)
    }

    /// Whether the port has had packets lately.
    pub(super) fn is_in_use(&self) -> bool {
        self.lookups > 0
    }

    /// What was found in a sub-table, the older the less it counts.
    pub(super) fn hits(&self, number: u32) -> u32 {
        self.hits[number as usize]
    }

    #[inline]
    pub(super) fn note_hit(&mut self, number: u32) {
        let hits = &mut self.hits[number as usize];
        *hits = hits.saturating_add(1);
    }

    /// A key was found in a sub-table without a search; what it would have cost counts all the same.
    #[inline]
    pub(super) fn note_found(&mut self, number: u32) {
        self.note_hit(number);
        self.note_search(1, 1);
    }

    /// Keys were looked for, in as many sub-tables all told.
    #[inline]
    pub(super) fn note_search(&mut self, keys: u32, probes: u64) {
        self.lookups = self.lookups.saturating_add(keys);
        self.spend(probes);
    }

    /// A walk found an entry of a sub-table that was not searched.
    pub(super) fn note_walk(&mut self, number: u32) {
        self.note_hit(number);
        self.spend(WALK_PROBES);
    }

    /// A sub-table has given way; the next with its number has its rank.
    pub(super) fn forget(&mut self, number: u32) {
        self.hits[number as usize] = 0;
    }

    /// Takes out the sub-tables that are not there any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        let searched = self.order[..self.searched].iter();
        self.searched = searched.filter(|number| is_there(**number)).count();
        let hits = &mut self.hits;
        self.order.retain(|&number| {
            let stays = is_there(number);
            if !stays {
                hits[number as usize] = 0;
            }
            stays
        });
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.order.capacity() + self.hits.capacity()) * size_of::<u32>()
    }

    #[inline]
    fn spend(&mut self, probes: u64) {
        self.spent += probes;
        // Invariant 3.
        if self.spent >= SORT_PROBES_MIN && self.spent >= SORT_PROBES * self.order.len() as u64 {
            self.sort();
        }
    }

    /// Sorts by hits, and finds out how many to search.
    fn sort(&mut self) {
        let hits = &self.hits;
        self.order
            .sort_by_key(|number| std::cmp::Reverse(hits[*number as usize]));
        self.spent = 0;
        self.searched = self.worth().max(SEARCHED_MIN).min(self.order.len());
        if self.lookups >= LOOKUPS_MAX {
            self.age();
        }
    }

    /// What was counted so far counts half.
    pub(super) fn age(&mut self) {
        self.lookups /= 2;
        self.hits.iter_mut().for_each(|hits| *hits /= 2);
    }

    /// The number of sub-tables, from the first, that cost the least.
    fn worth(&self) -> usize {
        let mut reach = u64::from(self.lookups);
        let (mut searching, mut count, mut least) = (0, 0, WALK_PROBES * reach);
        for (rank, &number) in self.order.iter().enumerate() {
            searching += CAUTION * reach;
            reach = reach.saturating_sub(self.hits(number).into());
            let cost = searching + WALK_PROBES * reach;
            if cost < least {
                (count, least) = (rank + 1, cost);
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ranking of `count` sub-tables.
    fn ranking(count: u32) -> Ranking {
        let mut ranking = Ranking::default();
        (0..count).for_each(|number| ranking.push(number));
        ranking
    }

    /// A packet whose entry is in a sub-table: found there, or by a walk.
    fn packet(ranking: &mut Ranking, number: u32) -> bool {
        let searched = &ranking.order[..ranking.searched];
        match searched.iter().position(|other| *other == number) {
            Some(rank) => {
                ranking.note_hit(number);
                ranking.note_search(1, rank as u64 + 1);
                true
            }
            None => {
                ranking.note_search(1, ranking.searched as u64);
                ranking.note_walk(number);
                false
            }
        }
    }

    /// The share of packets that are found without a walk, of 100,000.
    fn share_found(ranking: &mut Ranking, mut next: impl FnMut(u32) -> u32) -> f64 {
        let found = (0..100_000).filter(|&step| packet(ranking, next(step)));
        found.count() as f64 / 100_000.0
    }

    #[test]
    fn all_are_searched_where_that_pays() {
        // As many probes as a walk would cost at the most, and a search of half of them on average.
        let mut few = ranking(90);
        assert!(share_found(&mut few, |step| step * 37 % 90) > 0.99);
        assert_eq!(few.searched(), 90);
        // Many, most of them seldom: one in two hits is in the first, one in four in the next.
        let mut skewed = ranking(400);
        let rank = |step: u32| step.wrapping_mul(2_654_435_761).leading_zeros().min(12);
        assert!(share_found(&mut skewed, rank) > 0.99);
    }

    #[test]
    fn masks_that_are_called_up_once_each_are_not_searched() {
        let mut attacked = ranking(1_024);
        share_found(&mut attacked, |step| step % 1_024);
        assert_eq!(attacked.searched(), SEARCHED_MIN);
        // One that comes with every tenth packet is found at once, the first of all.
        let mixed = |step: u32| {
            if step.is_multiple_of(10) {
                1_000
            } else {
                step % 1_024
            }
        };
        share_found(&mut attacked, mixed);
        assert_eq!((attacked.at(0), attacked.searched()), (1_000, SEARCHED_MIN));
    }

    #[test]
    fn one_that_is_not_searched_is_when_its_packets_come() {
        let mut attacked = ranking(1_024);
        share_found(&mut attacked, |step| step % 1_024);
        let last = attacked.at(1_023);
        let walked = (0..10_000).filter(|_| !packet(&mut attacked, last)).count();
        assert!(walked < 400, "{walked} walks");
    }
}
