//! Ranks the sub-tables for a port: which are searched, and in which order.
//!
//! Most hits come first. A packet without an entry pays for all sub-tables searched, and so
//! does one whose entry is in the last. *Tuple space explosion* exploits this (Csikor,
//! Divakaran, Kang, Korosi, Sonkoly, Haja, Pezaros, Schmid, Retvari, *Tuple Space Explosion: A
//! Denial-of-Service Attack Against a Software Packet Classifier*, CoNEXT 2019;
//! CVE-2019-25076): a list of three rules that allow a port, an address and a port makes 16 *
//! 32 * 16 masks, and chosen packets can cause each of them; with IPv6 four times as many. So
//! the search ends where it no longer pays off:
//!
//! ```text
//!   reach(i) = lookups less the hits of those before i
//!   cost(n)  = CAUTION * (reach(0) + ... + reach(n - 1)) + WALK_PROBES * reach(n)
//!   searched = the n with the least cost, [`SEARCHED_MIN`] at the least
//! ```
//!
//! Packets beyond the end are answered by a walk, which finds their entry if there is one and
//! counts as a hit there; so a mask that is needed again and again is soon searched. One
//! sender's masks get a hit each among thousands, and none pays off. Packets of other ports
//! are not affected, since hits are counted separately for each port. Packets of the same port
//! find their own masks first, and a new flow among them searches in vain only the masks that
//! pay off for others.
//!
//! 1. The ranking has every sub-table's number once, and may have numbers of some that are
//!    gone.
//! 2. `searched` is at most the number of sub-tables, and those left out have no more hits
//!    than those searched, as counted when it was last sorted.
//! 3. Between two sortings there are at least [`SORT_PROBES`] probes, or walks that count as
//!    probes, for each sub-table: sorting is a small part of the cost of searching.

/// Least cost of a walk in probes: a table or two, and making the answer.
const WALK_PROBES: u64 = 100;

/// A probe counts twice: wasted probes are a loss to others.
const CAUTION: u64 = 2;

/// Sub-tables that are always searched.
const SEARCHED_MIN: usize = 16;

/// Probes between two sortings: for each sub-table, and at least.
const SORT_PROBES: u64 = 32;
const SORT_PROBES_MIN: u64 = 8_192;

/// After this many lookups, earlier counts are halved.
const LOOKUPS_MAX: u32 = 65_536;

/// The sub-tables in the order for one port's packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    order: Vec<u32>,
    /// Indexed by sub-table.
    hits: Vec<u32>,
    /// Keys looked up; halved when hits are.
    lookups: u32,
    /// How many are searched, from the first on.
    searched: usize,
    /// Probes since the last sorting; walks count as several.
    spent: u64,
}

impl Ranking {
    /// Adds a sub-table after the others.
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

    /// The number of sub-tables to search.
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

    /// Whether the port has had packets recently.
    pub(super) fn is_in_use(&self) -> bool {
        self.lookups > 0
    }

    /// Hits in a sub-table; older hits count less.
    pub(super) fn hits(&self, number: u32) -> u32 {
        self.hits[number as usize]
    }

    #[inline]
    pub(super) fn note_hit(&mut self, number: u32) {
        let hits = &mut self.hits[number as usize];
        *hits = hits.saturating_add(1);
    }

    /// Counts a key found without a search, including the cost that a search would have had.
    #[inline]
    pub(super) fn note_found(&mut self, number: u32) {
        self.note_hit(number);
        self.note_search(1, 1);
    }

    /// Counts `keys` lookups with `probes` probes in total.
    #[inline]
    pub(super) fn note_search(&mut self, keys: u32, probes: u64) {
        self.lookups = self.lookups.saturating_add(keys);
        self.spend(probes);
    }

    /// Counts an entry that a walk found in a sub-table that was not searched.
    pub(super) fn note_walk(&mut self, number: u32) {
        self.note_hit(number);
        self.spend(WALK_PROBES);
    }

    /// Clears the hits of a displaced sub-table; the next with its number has its rank.
    pub(super) fn forget(&mut self, number: u32) {
        self.hits[number as usize] = 0;
    }

    /// Removes sub-tables that no longer exist.
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

    /// Sorts by hits, and decides how many to search.
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

    /// Halves all counts.
    pub(super) fn age(&mut self) {
        self.lookups /= 2;
        self.hits.iter_mut().for_each(|hits| *hits /= 2);
    }

    /// The number of sub-tables, from the first, that minimises the cost.
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

    /// Creates a ranking of `count` sub-tables.
    fn ranking(count: u32) -> Ranking {
        let mut ranking = Ranking::default();
        (0..count).for_each(|number| ranking.push(number));
        ranking
    }

    /// Processes a packet whose entry is in a sub-table; returns whether a search found it.
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

    /// The share of 100,000 packets that are found without a walk.
    fn share_found(ranking: &mut Ranking, mut next: impl FnMut(u32) -> u32) -> f64 {
        let found = (0..100_000).filter(|&step| packet(ranking, next(step)));
        found.count() as f64 / 100_000.0
    }

    #[test]
    fn all_are_searched_where_that_pays() {
        // At most as many probes as a walk costs; an average search takes half of them.
        let mut few = ranking(90);
        assert!(share_found(&mut few, |step| step * 37 % 90) > 0.99);
        assert_eq!(few.searched(), 90);
        // Many sub-tables, most rarely used: half of the hits are in the first, a quarter in
        // the next.
        let mut skewed = ranking(400);
        let rank = |step: u32| step.wrapping_mul(2_654_435_761).leading_zeros().min(12);
        assert!(share_found(&mut skewed, rank) > 0.99);
    }

    #[test]
    fn masks_that_are_called_up_once_each_are_not_searched() {
        let mut attacked = ranking(1_024);
        share_found(&mut attacked, |step| step % 1_024);
        assert_eq!(attacked.searched(), SEARCHED_MIN);
        // The sub-table of every tenth packet is found at once, as the first.
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
