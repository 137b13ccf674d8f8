//! A cache of which nothing is found looks less often.
//!
//! ```text
//!   awake    every packet is looked up; after 4,096 of which fewer than 128 were found:
//!   resting  3,840 packets go their way; 256 are looked up; were 8 of these found, it wakes
//! ```
//!
//! A lookup in vain costs a packet a tenth of a short walk, and a hit spares more than half of it: a
//! cache pays where one packet in ten or so is found. Under one in 32 it does not, whatever the
//! program; so a scan, or a flood from addresses that were made up, costs a sixteenth of the lookups.
//! What can be remembered is found within a burst if it comes often, as recording and detection go
//! on in bursts: a cache that could be of use is awake again after some of them.
//!
//! 1. Of any 4,096 packets in a row, at least 256 are looked up.
//! 2. No clock and no chance: it depends on the packets and nothing else.

/// Packets over which an awake cache is judged, and of which a burst is looked up.
const PERIOD: u64 = 4_096;

/// Packets that are looked up in a row while the cache rests.
const BURST: u64 = 256;

/// It rests unless it has found one in so many.
const WORTH_ONE_IN: u64 = 32;

/// Whether a cache looks at all.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// Packets that go their way before the next is looked up.
    skip: u64,
    /// Lookups until the next judgement, and of how many it is.
    left: u64,
    judged: u64,
    found: u64,
}

impl Rest {
    /// Of a cache that is awake; one that is not to rest is never judged.
    pub(crate) fn new(rests: bool) -> Rest {
        let judged = if rests { PERIOD } else { u64::MAX };
        Rest {
            skip: 0,
            left: judged,
            judged,
            found: 0,
        }
    }

    /// Whether this packet is looked up.
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

    /// The packet that was looked up last was found.
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

    /// So many packets, of which one in `one_in` would be found; how many were looked up.
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
        // Then it is judged by a whole period again.
        assert_eq!(pass(&mut rest, PERIOD, 33), PERIOD);
        assert_eq!(pass(&mut rest, PERIOD, 33), BURST);
    }
}
