//! Flows that were put into the datapath by hand, and which of them has a packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_packet::{Headers, Instant, Layout, Packet, Receipt};
use thalweg_pipeline::{Counters, Effect};

/// A flow that was put by hand, and what its packets have counted in all workers.
#[derive(Debug)]
pub struct HandFlow {
    key: Vec<u64>,
    mask: Vec<u64>,
    pub(crate) effects: Vec<Effect>,
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Nanoseconds of the last use.
    used_at: AtomicU64,
}

impl HandFlow {
    /// A flow of packets that agree with `key` on `mask`, both in words of the flows' layout.
    pub fn new(key: Vec<u64>, mask: Vec<u64>, effects: Vec<Effect>) -> HandFlow {
        HandFlow {
            key,
            mask,
            effects,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            used_at: AtomicU64::new(0),
        }
    }

    /// Whether it is for the same packets as another.
    pub fn has_region_of(&self, other: &HandFlow) -> bool {
        self.mask == other.mask && self.has(&other.key)
    }

    /// What its packets have counted, and when the last was; `None` if there was none.
    pub fn counters(&self) -> (Counters, Option<Instant>) {
        let counters = Counters {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        };
        let used_at = Instant::from_nanos(self.used_at.load(Ordering::Relaxed));
        (counters, (counters.packets > 0).then_some(used_at))
    }

    fn has(&self, key: &[u64]) -> bool {
        let mut words = self.key.iter().zip(&self.mask).zip(key);
        words.all(|((own, mask), other)| (own ^ other) & mask == 0)
    }

    /// Counts a packet.
    pub(crate) fn count(&self, packet: &Packet, now: Instant) {
        let (packets, bytes) = packet.wire_counts();
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used_at.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }
}

/// Flows that were put by hand, in the order in which they are tried.
#[derive(Debug)]
pub struct HandFlows {
    layout: Arc<Layout>,
    flows: Vec<Arc<HandFlow>>,
}

impl HandFlows {
    /// Flows whose keys and masks have the ingress words of `layout`.
    pub fn new(layout: Arc<Layout>, flows: Vec<Arc<HandFlow>>) -> HandFlows {
        HandFlows { layout, flows }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// The flow that answers a packet, and the packet's headers.
    pub(crate) fn find(&self, packet: &Packet) -> Option<(&HandFlow, Headers)> {
        let headers = Headers::parse(packet.bytes()).ok()?;
        let receipt = Receipt {
            in_port: packet.in_port().0,
            packet_type: packet.packet_type(),
            tunnel: packet.tunnel(),
            ..Receipt::default()
        };
        let mut key = vec![0; self.layout.words()];
        self.layout
            .extract(packet.bytes(), &headers, &receipt, &mut key);
        let found = self.flows.iter().find(|flow| flow.has(&key))?;
        Some((found, headers))
    }
}
