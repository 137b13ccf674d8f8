//! Fair shares of a worker's time for its ports.
//!
//! Packets of new flows cost about a hundred times what others cost. So a port that sends nothing
//! else would leave the other ports a hundredth of the time, and packets of known flows would be
//! lost in their queues. Therefore each port has an account of what its packets have cost, in
//! packets that a cache answers, and a port that is too far ahead of those with packets waits. This
//! is start-time fair queueing, a burst at a time (Goyal, Vin, Cheng: SIGCOMM 1996).
//!
//! ```text
//!   may_receive: spent <= floor + ALLOWANCE
//!   note:        spent = max(spent, floor) + cost       (nothing is saved up while idle)
//!   end_round:   floor = the least of those that received, or if none did, of those that waited
//! ```
//!
//! 1. No time is lost: ports wait in a round only if another port may have packets, and after a
//!    round without packets the one that is least ahead goes on.
//! 2. Of two ports that always have packets, neither gets ahead of the other by more than
//!    [`ALLOWANCE`] and the cost of a burst.
//!
//! Packets of a port that waits are in its queue, which is bounded and counts what it drops.

use thalweg_io::BURST;

/// What an upcall costs, in packets that a cache answers.
pub(crate) const UPCALL_COST: u64 = 64;

/// How far a port may be ahead: some bursts of known flows, and less than one of new flows.
const ALLOWANCE: u64 = 32 * BURST as u64;

/// The accounts of a worker's ports, by place.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    spent: Vec<u64>,
    /// What a port has spent that begins to receive.
    floor: u64,
    /// The least of the ports that received in this round.
    least_served: Option<u64>,
    /// The least of the ports that waited in this round.
    least_waiting: Option<u64>,
}

impl Shares {
    /// Whether the port at a place has its turn in this round.
    #[inline]
    pub(crate) fn may_receive(&mut self, place: usize) -> bool {
        if self.spent.len() <= place {
            self.spent.resize(place + 1, self.floor);
        }
        let spent = self.spent[place];
        let is_ahead = spent > self.floor + ALLOWANCE;
        if is_ahead {
            let least = self.least_waiting.unwrap_or(spent);
            self.least_waiting = Some(least.min(spent));
        }
        !is_ahead
    }

    /// Notes what packets from the port at a place have cost.
    #[inline]
    pub(crate) fn note(&mut self, place: usize, cost: u64) {
        let spent = self.spent[place].max(self.floor) + cost;
        self.spent[place] = spent;
        let least = self.least_served.unwrap_or(spent);
        self.least_served = Some(least.min(spent));
    }

    /// Ends a round.
    #[inline]
    pub(crate) fn end_round(&mut self) {
        let (served, waiting) = (self.least_served.take(), self.least_waiting.take());
        // Invariant 1.
        let least = served.or(waiting).unwrap_or(self.floor);
        self.floor = self.floor.max(least);
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Rounds over ports; each has a cost of its bursts, and may have none in a round.
    fn run(costs: &[u64], rounds: &[Vec<bool>]) -> (Vec<u64>, u64) {
        let mut shares = Shares::default();
        let (mut spent, mut idle_rounds) = (vec![0; costs.len()], 0);
        for has_packets in rounds {
            let mut has_served = false;
            for (place, cost) in costs.iter().enumerate() {
                if shares.may_receive(place) && has_packets[place] {
                    shares.note(place, *cost);
                    spent[place] += cost;
                    has_served = true;
                }
            }
            shares.end_round();
            idle_rounds += u64::from(!has_served && has_packets.contains(&true));
        }
        (spent, idle_rounds)
    }

    #[test]
    fn a_port_of_new_flows_leaves_the_others_their_share() {
        let new = UPCALL_COST * BURST as u64;
        let rounds = vec![vec![true; 3]; 100_000];
        let (spent, idle) = run(&[new, BURST as u64, BURST as u64], &rounds);
        assert_eq!(idle, 0);
        let most = spent.iter().max().unwrap();
        let least = spent.iter().min().unwrap();
        assert!(most - least <= ALLOWANCE + new, "{spent:?}");
    }

    #[test]
    fn a_port_alone_never_waits() {
        let rounds = vec![vec![true, false]; 1_000];
        let (spent, idle) = run(&[5_000, 1], &rounds);
        assert_eq!((spent[0], idle), (5_000_000, 0));
    }

    #[test]
    fn nothing_is_saved_up_while_idle() {
        let mut rounds = vec![vec![true, false]; 1_000];
        rounds.extend(vec![vec![true, true]; 1_000]);
        let (spent, _) = run(&[100, 100], &rounds);
        // In the second half both get the same.
        assert!(
            spent[0].abs_diff(100_000 + spent[1]) <= ALLOWANCE + 100,
            "{spent:?}"
        );
    }

    /// However ports are busy: a round is lost only to find that those with a turn have nothing.
    #[test]
    fn no_round_is_lost_while_all_ports_have_packets() {
        let mut random = Pcg64Mcg::seed_from_u64(11);
        for _ in 0..500 {
            let costs: Vec<u64> = (0..4).map(|_| random.random_range(1..5_000)).collect();
            let mut shares = Shares::default();
            for _ in 0..200 {
                let is_full = random.random();
                let has_packets = [0; 4].map(|_| is_full || random.random());
                let mut lost = 0;
                // Each port that waited may turn out to have nothing.
                while lost <= has_packets.iter().filter(|has| !**has).count() {
                    let mut has_served = false;
                    for (place, cost) in costs.iter().enumerate() {
                        if shares.may_receive(place) && has_packets[place] {
                            shares.note(place, *cost);
                            has_served = true;
                        }
                    }
                    shares.end_round();
                    match has_served || !has_packets.contains(&true) {
                        true => break,
                        false => lost += 1,
                    }
                }
                assert!(lost == 0 || !is_full, "{shares:?}");
                let empty = has_packets.iter().filter(|has| !**has).count();
                assert!(
                    lost <= empty,
                    "{lost} rounds lost for {empty} empty ports: {shares:?}"
                );
            }
        }
    }
}
