//! Gateways that move during a run: which ToRs' gateways are at work, and when that changes.
//!
//! The positions of gateways are fixed in a fabric. In a move, the gateways of one ToR become
//! idle and those of another start. A flow chooses among the gateways at work, and the ToR and
//! the spines of its pod change roles accordingly (section 4, "gateway migration": "the
//! switch's role can be dynamically adjusted through a control-plane operation"). Caches stay
//! as they are, except in schemes whose caches are at the gateways: there the new ToR's cache
//! begins empty.
//!
//! 1. The ToRs that gateways move to are idle at first; the number at work is constant.
//! 2. An idle gateway still answers the packets it receives, so a move loses nothing.

use crate::Time;
use crate::config::GatewayMove;
use crate::shape::FatTree;

/// The moves of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatewayMoves {
    /// Sorted by time.
    moves: Vec<GatewayMove>,
    next: usize,
    /// ToRs whose gateways are at work, ascending.
    at_work: Vec<u32>,
}

impl GatewayMoves {
    /// Checks the moves one after the other; returns the index of the first impossible one.
    pub(crate) fn new(shape: &FatTree, moves: &[GatewayMove]) -> Result<GatewayMoves, usize> {
        let mut order: Vec<(usize, GatewayMove)> = moves.iter().copied().enumerate().collect();
        order.sort_by_key(|(_, moved)| moved.at);
        let is_to_come = |tor: &u32| {
            let mut about = order.iter().map(|(_, moved)| moved);
            let first = about.find(|moved| [moved.from_tor, moved.to_tor].contains(tor));
            first.is_some_and(|moved| moved.to_tor == *tor)
        };
        let all = &shape.gateway_tors;
        let at_work = all.iter().copied().filter(|tor| !is_to_come(tor)).collect();
        let made = GatewayMoves {
            moves: order.iter().map(|(_, moved)| *moved).collect(),
            next: 0,
            at_work,
        };
        let mut trial = made.clone();
        for (index, moved) in order {
            let has_gateways = shape.gateways_per_tor > 0 && all.contains(&moved.to_tor);
            let is_idle = !trial.at_work.contains(&moved.to_tor);
            if !(has_gateways && is_idle && trial.at_work.contains(&moved.from_tor)) {
                return Err(index);
            }
            trial.take();
        }
        Ok(made)
    }

    /// The time of the next move.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.moves.get(self.next).map(|moved| moved.at)
    }

    /// The ToRs whose gateways are at work.
    pub(crate) fn at_work(&self) -> &[u32] {
        &self.at_work
    }

    /// Applies the next move.
    pub(crate) fn take(&mut self) {
        let Some(moved) = self.moves.get(self.next) else {
            return;
        };
        self.next += 1;
        for tor in &mut self.at_work {
            if *tor == moved.from_tor {
                *tor = moved.to_tor;
            }
        }
        self.at_work.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_follow_each_other_and_impossible_ones_are_refused() {
        let shape = FatTree {
            gateway_tors: vec![0, 3, 5],
            ..FatTree::ft8_10k(2)
        };
        let moved = |at, from_tor, to_tor| GatewayMove {
            at: Time::from_micros(at),
            from_tor,
            to_tor,
        };
        // The later move is given first.
        let mut moves =
            GatewayMoves::new(&shape, &[moved(9, 3, 0), moved(4, 0, 5)]).expect("possible");
        assert_eq!(moves.at_work(), [0, 3]);
        moves.take();
        assert_eq!(
            (moves.at_work(), moves.next_time()),
            (&[3, 5][..], Some(Time::from_micros(9)))
        );
        moves.take();
        assert_eq!((moves.at_work(), moves.next_time()), (&[0, 5][..], None));
        let refused =
            |list: &[GatewayMove]| GatewayMoves::new(&shape, list).expect_err("impossible");
        assert_eq!(refused(&[moved(1, 0, 7)]), 0);
        assert_eq!(refused(&[moved(1, 7, 0)]), 0);
        assert_eq!(refused(&[moved(1, 0, 3), moved(2, 0, 5)]), 1);
        assert_eq!(refused(&[moved(2, 3, 3)]), 0);
    }
}
