//! Budgets of bytes for messages, of connections and of streams.
//!
//! Each peer has a share of each budget, so that no single peer exhausts one. A finished
//! message keeps its claim until it is dropped. A message still being received may lose its
//! claim when another finds no room. Then the peer that holds most loses its oldest unfinished
//! claim. So a peer that announces much and sends nothing does not delay others.
//!
//! 1. The total held never exceeds the budget, and no peer exceeds its share.
//! 2. A claim evicts only claims of peers that hold at least as much as its own peer will.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::slots::Peer;

/// A budget; all clones share it.
#[derive(Clone)]
pub(super) struct Budget {
    shared: Arc<Mutex<Shared>>,
}

/// A part of a budget; dropping it gives the part back.
pub(super) struct Claim {
    shared: Arc<Mutex<Shared>>,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

/// The error when a budget has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoRoom;

struct Shared {
    max: u64,
    max_per_peer: u64,
    /// Ordered by age.
    holders: BTreeMap<u64, Holder>,
    held: HashMap<Peer, u64>,
    total: u64,
    last: u64,
    evicted: u64,
    refused: u64,
}

struct Holder {
    peer: Peer,
    amount: u64,
    /// `None` when it is finished: it can no longer be evicted.
    unfinished: Option<oneshot::Sender<()>>,
}

impl Budget {
    pub(super) fn new(max: u64, max_per_peer: u64) -> Budget {
        let shared = Shared {
            max,
            max_per_peer,
            holders: BTreeMap::new(),
            held: HashMap::new(),
            total: 0,
            last: 0,
            evicted: 0,
            refused: 0,
        };
        Budget {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// Claims room for a message that is still being received.
    pub(super) fn claim(&self, peer: Peer, amount: u64) -> Result<Claim, NoRoom> {
        let mut shared = lock(&self.shared);
        shared.make_room(peer, amount, None)?;
        shared.last += 1;
        let number = shared.last;
        let (sender, evicted) = oneshot::channel();
        let holder = Holder {
            peer,
            amount: 0,
            unfinished: Some(sender),
        };
        shared.holders.insert(number, holder);
        shared.add(number, amount);
        Ok(Claim {
            shared: self.shared.clone(),
            number,
            evicted,
        })
    }

    /// Claims room that cannot be evicted.
    pub(super) fn take(&self, peer: Peer, amount: u64) -> Result<Claim, NoRoom> {
        let claim = self.claim(peer, amount)?;
        claim.finish();
        Ok(claim)
    }

    /// Number of evicted claims.
    pub(super) fn evicted(&self) -> u64 {
        lock(&self.shared).evicted
    }

    /// Number of claims that found no room.
    pub(super) fn refused(&self) -> u64 {
        lock(&self.shared).refused
    }

    /// The total held.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        lock(&self.shared).total
    }
}

impl Claim {
    /// Enlarges the claim.
    pub(super) fn grow(&self, amount: u64) -> Result<(), NoRoom> {
        let mut shared = lock(&self.shared);
        let holder = shared.holders.get(&self.number);
        let peer = holder.map(|holder| holder.peer).ok_or(NoRoom)?;
        shared.make_room(peer, amount, Some(self.number))?;
        shared.add(self.number, amount);
        Ok(())
    }

    /// Protects the claim from eviction from now on.
    pub(super) fn finish(&self) {
        if let Some(holder) = lock(&self.shared).holders.get_mut(&self.number) {
            holder.unfinished = None;
        }
    }

    /// Ready when the claim was evicted; poll it only before the claim is finished.
    pub(super) fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(context).map(|_| ())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.shared).release(self.number);
    }
}

impl Shared {
    /// Makes room, or counts a refusal.
    fn make_room(&mut self, peer: Peer, amount: u64, own: Option<u64>) -> Result<(), NoRoom> {
        let room = self.evict_for(peer, amount, own);
        self.refused += u64::from(room.is_err());
        room
    }

    fn evict_for(&mut self, peer: Peer, amount: u64, own: Option<u64>) -> Result<(), NoRoom> {
        if amount > self.max_per_peer.min(self.max) {
            return Err(NoRoom);
        }
        loop {
            let will_hold = self.held_by(peer) + amount;
            let is_over_share = will_hold > self.max_per_peer;
            if !is_over_share && self.total + amount <= self.max {
                return Ok(());
            }
            let rank = |of: Peer| match of == peer {
                true => will_hold,
                false => self.held_by(of),
            };
            let unfinished = self.holders.iter().filter(|(number, holder)| {
                holder.unfinished.is_some()
                    && Some(**number) != own
                    && (holder.peer == peer || !is_over_share)
            });
            let ranked = unfinished.map(|(number, holder)| (rank(holder.peer), Reverse(*number)));
            // Invariant 2.
            match ranked.max() {
                Some((rank, Reverse(number))) if rank >= will_hold => self.evict(number),
                _ => return Err(NoRoom),
            }
        }
    }

    fn held_by(&self, peer: Peer) -> u64 {
        self.held.get(&peer).copied().unwrap_or(0)
    }

    fn add(&mut self, number: u64, amount: u64) {
        let Some(holder) = self.holders.get_mut(&number) else {
            return;
        };
        holder.amount += amount;
        *self.held.entry(holder.peer).or_default() += amount;
        self.total += amount;
        debug_assert!(self.total <= self.max, "invariant 1");
    }

    fn evict(&mut self, number: u64) {
        if let Some(holder) = self.release(number) {
            self.evicted += 1;
            // The owner may be gone; then the notice is dropped.
            let _ = holder.unfinished.map(|unfinished| unfinished.send(()));
        }
    }

    fn release(&mut self, number: u64) -> Option<Holder> {
        let holder = self.holders.remove(&number)?;
        self.total -= holder.amount;
        if let Some(held) = self.held.get_mut(&holder.peer) {
            *held -= holder.amount;
            if *held == 0 {
                self.held.remove(&holder.peer);
            }
        }
        Some(holder)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::host(IpAddr::from([10, 0, 0, last]))
    }

    fn is_evicted(claim: &mut Claim) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        claim.poll_evicted(&mut context).is_ready()
    }

    #[test]
    fn the_peer_that_holds_most_loses_its_oldest() {
        let budget = Budget::new(100, 60);
        let mut small = budget.claim(peer(1), 20).unwrap();
        let mut large: Vec<Claim> = (0..3).map(|_| budget.claim(peer(2), 20).unwrap()).collect();
        let mut next = budget.claim(peer(3), 40).unwrap();
        let gone: Vec<bool> = large.iter_mut().map(is_evicted).collect();
        assert_eq!(gone, [true, false, false]);
        assert!(!is_evicted(&mut small) && !is_evicted(&mut next));
        assert_eq!(budget.held(), 100);
        drop((small, large, next));
        assert_eq!(budget.held(), 0);
        assert!(lock(&budget.shared).held.is_empty());
    }

    #[test]
    fn a_peer_above_its_share_loses_its_own_and_what_is_finished_stays() {
        let budget = Budget::new(100, 60);
        let mut other = budget.claim(peer(1), 30).unwrap();
        let mut first = budget.claim(peer(2), 30).unwrap();
        let second = budget.claim(peer(2), 40).unwrap();
        assert!(is_evicted(&mut first) && !is_evicted(&mut other));
        second.finish();
        assert!(budget.claim(peer(2), 30).is_err());
        assert!(budget.claim(peer(3), 61).is_err(), "more than a share");
        assert!(second.grow(20).is_ok());
        assert!(second.grow(20).is_err());
        assert!(first.grow(1).is_err(), "it was taken away");
        assert_eq!((budget.evicted(), budget.refused()), (1, 3));
    }

    #[test]
    fn a_large_claim_takes_nothing_from_peers_that_hold_less() {
        let budget = Budget::new(100, 90);
        let mut small = budget.claim(peer(1), 30).unwrap();
        assert!(budget.claim(peer(2), 80).is_err());
        assert!(!is_evicted(&mut small));
    }
}
