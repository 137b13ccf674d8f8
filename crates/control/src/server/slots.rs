//! A limited number of places, for handshakes in progress and for answers to reads.
//!
//! A newcomer gets a place at once. If there are then too many, the oldest holder is evicted:
//! of the same peer if that peer has used its share, else of all peers. So idle holders delay
//! no other peer, and a peer that takes many places evicts its own first.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// The other end of a connection, for the limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Peer {
    /// A program on this machine, through a Unix socket.
    Local,
    /// A host. For IPv6 this is the /64 network, since a host has all of its addresses.
    Host(IpAddr),
}

impl Peer {
    pub(super) fn host(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Peer::Host(Ipv6Addr::from_bits(network).into())
            }
            address => Peer::Host(address),
        }
    }
}

/// A set of places; all clones share it.
#[derive(Clone)]
pub(super) struct Slots {
    shared: Arc<Mutex<Shared>>,
}

/// A place. Dropping it gives it back.
pub(super) struct Slot {
    shared: Arc<Mutex<Shared>>,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

struct Shared {
    max: usize,
    max_per_peer: usize,
    /// Ordered by age.
    holders: BTreeMap<u64, (Peer, oneshot::Sender<()>)>,
    counts: HashMap<Peer, usize>,
    last: u64,
    evicted: u64,
}

impl Slots {
    pub(super) fn new(max: usize, max_per_peer: usize) -> Slots {
        let shared = Shared {
            max: max.max(1),
            max_per_peer: max_per_peer.max(1),
            holders: BTreeMap::new(),
            counts: HashMap::new(),
            last: 0,
            evicted: 0,
        };
        Slots {
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// Takes a place.
    pub(super) fn take(&self, peer: Peer) -> Slot {
        let mut shared = lock(&self.shared);
        if shared.counts.get(&peer).copied().unwrap_or(0) >= shared.max_per_peer {
            let own =
                |(number, (holder, _)): (&u64, &(Peer, _))| (*holder == peer).then_some(*number);
            let oldest = shared.holders.iter().find_map(own);
            shared.evict(oldest);
        } else if shared.holders.len() >= shared.max {
            let oldest = shared.holders.keys().next().copied();
            shared.evict(oldest);
        }
        shared.last += 1;
        let number = shared.last;
        let (sender, evicted) = oneshot::channel();
        shared.holders.insert(number, (peer, sender));
        *shared.counts.entry(peer).or_default() += 1;
        Slot {
            shared: self.shared.clone(),
            number,
            evicted,
        }
    }

    /// Number of evicted holders.
    pub(super) fn evicted(&self) -> u64 {
        lock(&self.shared).evicted
    }
}

impl Slot {
    /// Ready once the place has been evicted.
    pub(super) fn poll_evicted(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.evicted).poll(context).map(|_| ())
    }

    /// Waits until the place is evicted.
    pub(super) async fn evicted(&mut self) {
        std::future::poll_fn(|context| self.poll_evicted(context)).await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.shared).release(self.number);
    }
}

impl Shared {
    fn evict(&mut self, number: Option<u64>) {
        if let Some(number) = number
            && let Some(holder) = self.release(number)
        {
            self.evicted += 1;
            // The holder may be gone.
            let _ = holder.send(());
        }
    }

    fn release(&mut self, number: u64) -> Option<oneshot::Sender<()>> {
        let (peer, holder) = self.holders.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&peer);
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
    use super::*;

    fn is_evicted(slot: &mut Slot) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        slot.poll_evicted(&mut context).is_ready()
    }

    #[test]
    fn the_oldest_goes_first_and_a_peers_own_before_others() {
        let peer = |last| Peer::host(IpAddr::from([10, 0, 0, last]));
        let slots = Slots::new(4, 2);
        let mut other = slots.take(peer(9));
        let mut own: Vec<Slot> = (0..5).map(|_| slots.take(peer(1))).collect();
        let gone: Vec<bool> = own.iter_mut().map(is_evicted).collect();
        assert_eq!(gone, [true, true, true, false, false]);
        assert!(!is_evicted(&mut other));
        let mut third = slots.take(Peer::Local);
        assert!(!is_evicted(&mut other), "there are four places");
        let fourth = slots.take(peer(2));
        assert!(is_evicted(&mut other), "the oldest of all");
        drop((fourth, own));
        let last = slots.take(peer(3));
        assert!(!is_evicted(&mut third));
        assert_eq!(slots.evicted(), 4);
        drop((third, other, last));
        let shared = lock(&slots.shared);
        assert!(shared.holders.is_empty() && shared.counts.is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer = |text: &str| Peer::host(text.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:2"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }
}
