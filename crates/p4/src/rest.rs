//! Lets a cache that finds almost nothing rest, so that it looks up fewer packets.
//!
//! ```text
//!   awake    every packet is looked up; after 4,096 of which fewer than 128 were found:
//!   resting  3,840 packets go their way; 256 are looked up; were 8 of these found, it wakes
//! ```
//!
//! A failed lookup costs about a tenth of a short walk, and a hit saves more than half of one.
//! So a cache pays off if about one packet in ten is found. Below one in 32 it does not pay off
//! for any program. So a scan, or a flood from invented addresses, costs a sixteenth of the
//! lookups. Recording and detection also work in bursts, so behaviours that occur often are
//! found within a burst. A useful cache therefore wakes after some bursts.
//!
//! 1. Of any 4,096 packets in a row, at least 256 are looked up.
//! 2. No clock and no chance: it depends on the packets and nothing else.

/// Packets over which an awake cache is judged; a resting one looks up one burst of them.
const PERIOD: u64 = 4_096;

/// Packets that a resting cache looks up in a row.
const BURST: u64 = 256;

/// The cache rests unless one in this many is found.
const WORTH_ONE_IN: u64 = 32;

/// Decides which packets a cache looks up.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// Packets to let pass before the next lookup.
    skip: u64,
    /// Lookups left until the next judgement, and lookups of this judgement in all.
    left: u64,
    judged: u64,
    found: u64,
}

impl Rest {
    /// Starts awake; with `rests` false it is never judged.
    pub(crate) fn new(rests: bool) -> Rest {
        let judged = if rests { PERIOD } else { u64::MAX };
        Rest {
            skip: 0,
            left: judged,
            judged,
            found: 0,
        }
    }

    /// Whether to look this packet up.
    #[inline]
    pub(crate) fn looks(&mut self) -> bool {
        if self.left == 0 {
            self.judge();
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left -= 1;
        true
    }

    /// Notes that the packet looked up last was found.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.found += 1;
    }

    #[cold]
    fn judge(&mut self) {
        let is_worth = self.found * WORTH_ONE_IN >= self.judged;
        (self.skip, self.judged) = match is_worth {
            true => (0, PERIOD),
            false => (PERIOD - BURST, BURST),
        };
        (self.left, self.found) = (self.judged, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes `packets` packets, of which one in `one_in` would be found; returns the lookups.
    fn pass(rest: &mut Rest, packets: u64, one_in: u64) -> u64 {
        let mut looked = 0;
        for packet in 0..packets {
            if rest.looks() {
                looked += 1;
                if packet % one_in == 0 {
                    rest.found();
                }
            }
        }
        looked
    }

    #[test]
    fn a_cache_of_which_enough_is_found_never_rests() {
        let mut rest = Rest::new(true);
        assert_eq!(pass(&mut rest, 100 * PERIOD, 32), 100 * PERIOD);
    }

    #[test]
    fn one_that_is_not_to_rest_looks_at_all() {
        let mut rest = Rest::new(false);
        assert_eq!(pass(&mut rest, 20 * PERIOD, u64::MAX), 20 * PERIOD);
    }

    #[test]
    fn one_of_which_nothing_is_found_looks_at_a_sixteenth() {
        let mut rest = Rest::new(true);
        assert_eq!(pass(&mut rest, PERIOD, u64::MAX), PERIOD);
        for _ in 0..20 {
            assert_eq!(pass(&mut rest, PERIOD, u64::MAX), BURST);
        }
    }

    #[test]
    fn it_wakes_with_the_first_burst_in_which_enough_is_found() {
        let mut rest = Rest::new(true);
        pass(&mut rest, 3 * PERIOD, 100);
        assert_eq!(pass(&mut rest, PERIOD, 1), BURST);
        assert_eq!(pass(&mut rest, 3 * PERIOD, 1), 3 * PERIOD);
        // Once awake, it is judged over a whole period again.
        assert_eq!(pass(&mut rest, PERIOD, 33), PERIOD);
        assert_eq!(pass(&mut rest, PERIOD, 33), BURST);
    }
}
