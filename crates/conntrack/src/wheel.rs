//! A timer wheel over the slots of a table: which connections may be over.
//!
//! ```text
//!   place(slot, deadline):  level = the finest whose 64 buckets reach the deadline
//!                           bucket = (due tick >> 6 * level) & 63
//!   advance(now):           for each tick up to now, coarse levels first:
//!                               take each slot out of the tick's bucket and ask the table:
//!                                   over -> gone; else place it again
//! ```
//!
//! The wheel is lazy. A packet that extends a connection's life changes the deadline only; the
//! slot stays in its bucket until that tick comes, and is then placed again. So a packet costs
//! nothing here, and a slot is visited at most once per level and per extended time-out.
//! After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987),
//! scheme 7.
//!
//! 1. A slot is in at most one bucket, and that bucket's tick is not after its deadline's
//!    tick: a deadline that moves forward must be placed again.
//! 2. `advance` does at most `budget` steps; a tick, and a slot taken out, is a step each.
//!    Ticks whose buckets must be empty, because the finer levels are, are passed over.
//! 3. A slot whose deadline is a tick ago is reported by an `advance` that reaches `now`.

use thalweg_packet::Instant;

use crate::chain::Chains;

/// The length of a tick in nanoseconds: 250 ms.
const TICK_NANOS: u64 = 250_000_000;
/// Buckets of one level, as a power of 2.
const LEVEL_BITS: u32 = 6;
const BUCKETS: u64 = 1 << LEVEL_BITS;
/// Levels: 16 s, 17 min, 18 h and 48 days.
const LEVELS: u32 = 4;

/// The wheel; see the module's essay.
#[derive(Debug)]
pub(crate) struct Wheel {
    chains: Chains,
    /// The tick whose buckets are taken out next, or now.
    current: u64,
    /// The level of each slot that is in a bucket.
    levels: Vec<u8>,
    /// Slots in the buckets of each level.
    counts: [u32; LEVELS as usize],
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel {
            chains: Chains::new(LEVELS * BUCKETS as u32),
            current: 0,
            levels: Vec::new(),
            counts: [0; LEVELS as usize],
        }
    }

    /// Makes room for one more slot, the next in number.
    pub(crate) fn add_slot(&mut self) {
        self.chains.add_slot();
        self.levels.push(0);
    }

    /// Puts a slot where its deadline says; it may be in a bucket already.
    pub(crate) fn place(&mut self, slot: u32, deadline: Instant, now: Instant) {
        self.remove(slot);
        if self.counts == [0; LEVELS as usize] {
            // No bucket has to be looked at before now.
            self.current = self.current.max(tick(now));
        }
        self.link(slot, deadline);
    }

    /// Takes a slot out, if it is in a bucket.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.chains.unlink(slot) {
            self.counts[usize::from(self.levels[slot as usize])] -= 1;
        }
    }

    /// Moves on to `now` with at most `budget` steps, and pays for them.
    ///
    /// Returns the next slot that may be over, already taken out; the caller ends the
    /// connection or places the slot again. `None` if `now` is reached or the budget is spent.
    pub(crate) fn advance(&mut self, now: Instant, budget: &mut usize) -> Option<u32> {
        let target = tick(now);
        while *budget > 0 {
            if let Some(slot) = self.take() {
                *budget -= 1;
                return Some(slot);
            }
            if self.current >= target {
                return None;
            }
            self.current = self.next_tick().min(target);
            *budget -= 1;
        }
        None
    }

    /// The next tick that may have a slot in its buckets.
    fn next_tick(&self) -> u64 {
        match self.counts.iter().position(|count| *count > 0) {
            Some(level) => {
                let shift = LEVEL_BITS * level as u32;
                ((self.current >> shift) + 1) << shift
            }
            None => u64::MAX,
        }
    }

    /// Whether a slot is in a bucket.
    #[cfg(test)]
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.chains.has(slot)
    }

    /// The first slot of the current tick's buckets.
    fn take(&mut self) -> Option<u32> {
        for level in (0..LEVELS).rev() {
            let shift = LEVEL_BITS * level;
            if self.current & ((1 << shift) - 1) != 0 {
                continue;
            }
            if let Some(slot) = self.chains.front(head(level, self.current >> shift)) {
                self.remove(slot);
                return Some(slot);
            }
        }
        None
    }

    fn link(&mut self, slot: u32, deadline: Instant) {
        let farthest = self.current + (BUCKETS - 1) * (1 << (LEVEL_BITS * (LEVELS - 1)));
        let due = deadline
            .as_nanos()
            .div_ceil(TICK_NANOS)
            .clamp(self.current + 1, farthest);
        let level = (0..LEVELS)
            .find(|level| {
                let shift = LEVEL_BITS * level;
                (due >> shift) - (self.current >> shift) < BUCKETS
            })
            .unwrap_or(LEVELS - 1);
        self.chains
            .push_back(head(level, due >> (LEVEL_BITS * level)), slot);
        self.levels[slot as usize] = level as u8;
        self.counts[level as usize] += 1;
    }
}

/// The list of a bucket.
fn head(level: u32, bucket: u64) -> u32 {
    level * BUCKETS as u32 + (bucket % BUCKETS) as u32
}

fn tick(now: Instant) -> u64 {
    now.as_nanos() / TICK_NANOS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Place(u32, u64),
        Extend(u32, u64),
        Remove(u32),
        Advance(u64, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let wait = prop_oneof![0..2_000_u64, 0..100_000_u64, 0..100_000_000_u64];
        let time = prop_oneof![
            10 => 0..1_000_u64,
            5 => 0..100_000_u64,
            1 => 0..70_000_000_u64,
        ];
        prop_oneof![
            3 => (0..8_u32, wait.clone()).prop_map(|(slot, wait)| Step::Place(slot, wait)),
            1 => (0..8_u32, wait).prop_map(|(slot, wait)| Step::Extend(slot, wait)),
            1 => (0..8_u32).prop_map(Step::Remove),
            3 => (time, 0..100_usize).prop_map(|(time, budget)| Step::Advance(time, budget)),
        ]
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Advances until `now` is reached, with `budget` first, and takes out slots that are over.
    fn advance(wheel: &mut Wheel, twin: &mut BTreeMap<u32, u64>, now: u64, mut budget: usize) {
        let given = budget;
        let mut steps = 0;
        while let Some(slot) = wheel.advance(at(now), &mut budget) {
            steps += 1;
            match twin[&slot] {
                deadline if deadline <= now => drop(twin.remove(&slot)),
                deadline => wheel.place(slot, at(deadline), at(now)),
            }
        }
        assert!(steps <= given, "invariant 2");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The twin is a map from slots to deadlines, in milliseconds.
        #[test]
        fn a_wheel_reports_what_is_over(steps in prop::collection::vec(step(), 1..60)) {
            let (mut wheel, mut twin, mut now) = (Wheel::new(), BTreeMap::new(), 1_700_000_000_000);
            (0..8).for_each(|_| wheel.add_slot());
            for step in steps {
                match step {
                    Step::Place(slot, wait) => {
                        wheel.place(slot, at(now + wait), at(now));
                        twin.insert(slot, now + wait);
                    }
                    Step::Extend(slot, wait) => {
                        if let Some(deadline) = twin.get_mut(&slot) {
                            *deadline += wait;
                        }
                    }
                    Step::Remove(slot) => {
                        wheel.remove(slot);
                        twin.remove(&slot);
                    }
                    Step::Advance(time, budget) => {
                        now += time;
                        advance(&mut wheel, &mut twin, now, budget);
                    }
                }
                prop_assert_eq!(wheel.counts.iter().sum::<u32>() as usize, twin.len());
            }
            advance(&mut wheel, &mut twin, now, usize::MAX);
            prop_assert!(twin.values().all(|deadline| *deadline + 250 > now), "invariant 3");
            advance(&mut wheel, &mut twin, now + 250, usize::MAX);
            prop_assert!(twin.values().all(|deadline| *deadline > now), "invariant 3");
        }
    }

    #[test]
    fn an_empty_wheel_begins_at_any_time() {
        let mut wheel = Wheel::new();
        wheel.add_slot();
        for now in [1_700_000_000_000, 1_800_000_000_000] {
            wheel.place(0, at(now + 1_000), at(now));
            let mut budget = 10;
            assert_eq!(wheel.advance(at(now + 999), &mut budget), None);
            assert_eq!(wheel.advance(at(now + 1_000), &mut budget), Some(0));
        }
    }

    #[test]
    fn ticks_without_slots_are_passed_over() {
        let mut wheel = Wheel::new();
        wheel.add_slot();
        wheel.place(0, at(86_400_000), at(0));
        let mut budget = 1_000;
        assert_eq!(
            wheel.advance(at(80_000_000), &mut budget),
            Some(0),
            "a coarse bucket"
        );
        wheel.place(0, at(86_400_000), at(80_000_000));
        assert_eq!(
            wheel.advance(at(86_100_000), &mut budget),
            Some(0),
            "a finer one"
        );
        wheel.place(0, at(86_400_000), at(86_100_000));
        assert_eq!(wheel.advance(at(86_100_000), &mut budget), None);
        assert!(budget > 900, "{budget} of 1,000 steps are left");
    }
}
