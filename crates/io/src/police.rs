//! A port wrapper that limits the bits and packets that it receives a second.
//!
//! Each rate is a bucket of tokens, which holds the burst and is full at first. A packet that finds
//! too few tokens in one of the two buckets is dropped, and takes none. A packet that stands for
//! segments goes as one, as in the kernel's policer; one that is larger than a bucket passes when
//! the bucket is full, and leaves it in debt. So the rate holds, and small bursts do not stop whole
//! frames.
//!
//! ```text
//!   tokens = min(burst, tokens + rate * time since the last packet)
//!   passes: tokens >= min(volume, burst), then tokens -= volume
//! ```
//!
//! 1. A packet that is dropped is counted as [`DropReason::Policed`], and as nothing else.
//! 2. New rates begin with full buckets, at the first call of the port after [`Policing::set`].
//!
//! Reference: ovs-vswitchd.conf.db(5), table Interface, "Ingress Policing".

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_packet::{Instant, Packet, PacketPool};

use crate::{DropReason, Port, PortCounters, PortStatus};

/// Tokens of a bit or a packet: then a rate in thousands a second is one in tokens a nanosecond.
const TOKENS: i64 = 1_000_000;

/// A rate and its burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicingRate {
    /// Thousands of bits or packets a second.
    pub thousands: u32,
    /// Thousands of bits or packets that may come at once.
    pub burst_thousands: u32,
}

/// What a port may receive; `None` is without limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicingRates {
    /// Bits of packets, without preamble and frame check sequence.
    pub bits: Option<PolicingRate>,
    /// Packets.
    pub packets: Option<PolicingRate>,
}

/// Sets the rates of a [`PolicePort`], from any thread.
#[derive(Clone, Debug, Default)]
pub struct Policing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Counts the calls of [`Policing::set`].
    changes: AtomicU32,
    rates: Mutex<PolicingRates>,
}

impl Policing {
    /// Sets the rates.
    pub fn set(&self, rates: PolicingRates) {
        *self.0.rates.lock().unwrap_or_else(PoisonError::into_inner) = rates;
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    fn rates(&self) -> PolicingRates {
        *self.0.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tokens of a rate.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens_per_ns: i64,
    capacity: i64,
    /// Below zero is debt.
    tokens: i64,
}

impl Bucket {
    fn full(rate: PolicingRate) -> Bucket {
        let capacity = i64::from(rate.burst_thousands) * 1_000 * TOKENS;
        Bucket {
            tokens_per_ns: rate.thousands.into(),
            capacity,
            tokens: capacity,
        }
    }

    fn fill(&mut self, elapsed_ns: i64) {
        let gain = elapsed_ns.saturating_mul(self.tokens_per_ns);
        self.tokens = self.tokens.saturating_add(gain).min(self.capacity);
    }

    fn has(&self, volume: u64) -> bool {
        self.tokens >= tokens_of(volume).min(self.capacity)
    }

    fn take(&mut self, volume: u64) {
        self.tokens -= tokens_of(volume);
    }
}

fn tokens_of(volume: u64) -> i64 {
    i64::try_from(volume)
        .unwrap_or(i64::MAX)
        .saturating_mul(TOKENS)
}

/// A port that receives what its [`Policing`] allows.
///
/// ```
/// use thalweg_io::{DropReason, MemoryPort, PolicePort, PolicingRate, PolicingRates, Port};
/// use thalweg_packet::{Instant, PacketPool, PortId};
///
/// let (inner, handle) = MemoryPort::new(PortId(1), 8);
/// let (mut port, policing) = PolicePort::new(inner);
/// // A megabit a second, a kilobit at once: one packet of 64 bytes and a bit.
/// let bits = PolicingRate { thousands: 1_000, burst_thousands: 1 };
/// policing.set(PolicingRates { bits: Some(bits), packets: None });
/// let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
/// for _ in 0..3 {
///     handle.inject(&[0; 64]);
/// }
/// port.receive(&mut pool, &mut burst, Instant::ZERO);
/// assert_eq!(burst.len(), 1);
/// assert_eq!(port.counters().drops.count(DropReason::Policed), 2);
/// ```
#[derive(Debug)]
pub struct PolicePort<P> {
    inner: P,
    policing: Policing,
    /// The changes that the buckets follow.
    seen: u32,
    /// Of bits and of packets.
    buckets: [Option<Bucket>; 2],
    filled_at: Instant,
    /// Packets and bytes that were dropped.
    dropped: (u64, u64),
}

impl<P: Port> PolicePort<P> {
    /// Wraps `inner`, which has no limit at first.
    pub fn new(inner: P) -> (PolicePort<P>, Policing) {
        let policing = Policing::default();
        let port = PolicePort {
            inner,
            policing: policing.clone(),
            seen: 0,
            buckets: [None; 2],
            filled_at: Instant::ZERO,
            dropped: (0, 0),
        };
        (port, policing)
    }

    /// Takes new rates over, if there are.
    fn follow(&mut self) {
        let changes = self.policing.0.changes.load(Ordering::Acquire);
        if changes != self.seen {
            self.seen = changes;
            let rates = self.policing.rates();
            self.buckets = [rates.bits, rates.packets].map(|rate| rate.map(Bucket::full));
        }
    }

    /// Drops packets of `burst` from `first` on.
    #[cold]
    fn police(
        &mut self,
        pool: &mut PacketPool,
        (burst, first): (&mut Vec<Packet>, usize),
        now: Instant,
    ) {
        let elapsed = now - self.filled_at;
        self.filled_at = self.filled_at.max(now);
        let elapsed_ns = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
        let buckets = self.buckets.iter_mut().flatten();
        buckets.for_each(|bucket| bucket.fill(elapsed_ns));
        let mut kept = first;
        for index in first..burst.len() {
            let (packets, bytes) = burst[index].wire_counts();
            let volumes = [bytes * 8, packets];
            let both = || self.buckets.iter().zip(volumes);
            if both().all(|(bucket, volume)| bucket.is_none_or(|bucket| bucket.has(volume))) {
                for (bucket, volume) in self.buckets.iter_mut().zip(volumes) {
                    if let Some(bucket) = bucket {
                        bucket.take(volume);
                    }
                }
                burst.swap(kept, index);
                kept += 1;
            } else {
                self.dropped.0 += packets;
                self.dropped.1 += bytes;
            }
        }
        burst.drain(kept..).for_each(|packet| pool.put(packet));
    }
}

impl<P: Port> Port for PolicePort<P> {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let first = burst.len();
        self.inner.receive(pool, burst, now);
        self.follow();
        let is_limited = self.buckets.iter().any(Option::is_some);
        if is_limited && burst.len() > first {
            self.police(pool, (burst, first), now);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.inner.send(pool, burst);
    }

    fn keep_whole(&mut self) {
        self.inner.keep_whole();
    }

    fn takes_whole(&self) -> bool {
        self.inner.takes_whole()
    }

    fn status(&mut self) -> PortStatus {
        self.inner.status()
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.inner.counters();
        let (packets, bytes) = self.dropped;
        // Inner ports may count other bytes of a packet, such as those that a capture lacks.
        counters.received_packets = counters.received_packets.saturating_sub(packets);
        counters.received_bytes = counters.received_bytes.saturating_sub(bytes);
        counters.drops.add(DropReason::Policed, packets);
        counters
    }

    fn close(&mut self, pool: &mut PacketPool) {
        self.inner.close(pool);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

#[cfg(test)]
mod tests;
