//! The audit: every packet is answered twice, by the caches and by the interpreter.
//!
//! For each packet, the caches' answer is compared byte by byte with the reference's at the
//! same version: the same copies to the same ports in the same order, the same messages to the
//! controller. A packet for which any of it differs is *stale*; so is one whose burst taught
//! other stations.
//!
//! The burst goes through the caches as a whole, as without an audit. To tell its answers
//! apart, every packet carries its number instead of its receive time; copies inherit it, and
//! no code on the way reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{
    Connections, Delta, Drops, ExistingMeter, LearnedCounts, LearnedRule, MeterPlace, Meters,
    Notice, Outbox, Pipeline, Station, Version, forward,
};

/// Compares the caches' answers with the interpreter's.
#[derive(Debug, Default)]
pub struct Audit {
    expected: Vec<Expected>,
    /// Packets compared so far.
    pub checked: u64,
    /// Packets whose answers differed.
    pub stale: u64,
    /// Drops of the reference, over all packets; the caches' statistics must agree.
    pub drops: Drops,
    /// The reference's rules of bounded `learn` actions.
    learned: Arc<LearnedCounts>,
    /// The reference's connections.
    connections: Arc<Connections>,
    /// The reference's meters.
    meters: Arc<Meters>,
    /// By place: the meters whose buckets were filled.
    filled: BTreeMap<MeterPlace, Arc<ExistingMeter>>,
    /// As [`Outbox::chance`]: the reference draws what the caches draw.
    chance: u64,
}

/// The reference's answer to a packet.
#[derive(Debug)]
struct Expected {
    received_at: Instant,
    sent: Vec<(PortId, Packet)>,
    to_controller: Vec<(Notice, Packet)>,
    stations_seen: Vec<(Station, PortId)>,
    rules_taught: Vec<Arc<LearnedRule>>,
}

impl Audit {
    /// Creates an audit without comparisons.
    pub fn new() -> Audit {
        Audit::default()
    }

    /// Numbers the packets of a burst, and records the reference's answer to each.
    pub(crate) fn expect(
        &mut self,
        burst: &mut [Packet],
        pipeline: &Pipeline,
        version: Version,
        now: Instant,
    ) {
        self.fill_meters(pipeline);
        for (number, packet) in burst.iter_mut().enumerate() {
            let received_at = packet.received_at();
            packet.set_received(packet.in_port(), Instant::from_nanos(number as u64));
            let pool = PacketPool::with_capacity(0, 0);
            let mut outbox = Outbox::with_connections(pool, self.connections.clone())
                .with_meters(self.meters.clone());
            outbox.grows = true;
            outbox.learned = self.learned.clone();
            (outbox.now, outbox.chance) = (now, self.chance);
            // Both drop an invalid frame.
            let _ = forward(pipeline, version, packet.clone(), &mut outbox);
            self.chance = outbox.chance;
            self.drops.add(&outbox.drops);
            self.expected.push(Expected {
                received_at,
                sent: outbox.sent,
                to_controller: outbox.to_controller,
                stations_seen: outbox.stations_seen,
                rules_taught: outbox.rules_taught,
            });
        }
    }

    /// Follows a change of the pipeline.
    pub(crate) fn follow(&self, pipeline: &Pipeline, delta: &Delta) {
        self.learned.follow(pipeline, delta);
    }

    /// Makes room again for a rule that was refused.
    pub(crate) fn withdraw(&self, pipeline: &Pipeline, rule: &LearnedRule) {
        self.learned.withdraw(pipeline, rule);
    }

    /// Fills the buckets of meters that were added or modified, as publication did.
    fn fill_meters(&mut self, pipeline: &Pipeline) {
        for known in pipeline.all_meters(pipeline.version()) {
            let filled = self.filled.get(&known.place);
            if !filled.is_some_and(|filled| Arc::ptr_eq(filled, known)) {
                self.meters.set(known.place, &known.meter, known.set_at);
                self.filled.insert(known.place, known.clone());
            }
        }
    }

    /// Compares the caches' answers to the burst, and restores the packets' receive times.
    pub(crate) fn compare(&mut self, answers: &mut Outbox) {
        let expected = std::mem::take(&mut self.expected);
        let mut sent: Vec<_> = expected
            .iter()
            .map(|expected| expected.sent.iter())
            .collect();
        let mut to_controller: Vec<_> = expected
            .iter()
            .map(|expected| expected.to_controller.iter())
            .collect();
        let mut is_right = vec![true; expected.len()];
        for answer in &mut answers.sent {
            let number = number_of(&answer.1);
            is_right[number] &= sent[number].next() == Some(&*answer);
            restore(&mut answer.1, &expected[number]);
        }
        for answer in &mut answers.to_controller {
            let number = number_of(&answer.1);
            is_right[number] &= to_controller[number].next() == Some(&*answer);
            restore(&mut answer.1, &expected[number]);
        }
        for (number, is_right) in is_right.iter_mut().enumerate() {
            *is_right &= sent[number].next().is_none() && to_controller[number].next().is_none();
        }
        let stale = is_right.iter().filter(|is_right| !**is_right).count() as u64;
        self.checked += expected.len() as u64;
        let has_taught = has_taught_the_same(&expected, &answers.stations_seen)
            && has_taught_the_rules(&expected, &answers.rules_taught);
        self.stale += stale.max(u64::from(!has_taught));
    }
}

fn number_of(packet: &Packet) -> usize {
    packet.received_at().as_nanos() as usize
}

fn restore(packet: &mut Packet, expected: &Expected) {
    packet.set_received(packet.in_port(), expected.received_at);
}

/// Whether the burst taught what its packets should have, in any order.
fn has_taught_the_same(expected: &[Expected], learned: &[(Station, PortId)]) -> bool {
    let mut expected: Vec<_> = expected
        .iter()
        .flat_map(|expected| expected.stations_seen.iter().copied())
        .collect();
    let mut learned = learned.to_vec();
    expected.sort_unstable();
    learned.sort_unstable();
    expected == learned
}

/// The same for rules.
fn has_taught_the_rules(expected: &[Expected], taught: &[Arc<LearnedRule>]) -> bool {
    let expected = expected.iter().flat_map(|expected| &expected.rules_taught);
    let mut expected: Vec<u64> = expected.map(|rule| rule.whole_hash).collect();
    let mut taught: Vec<u64> = taught.iter().map(|rule| rule.whole_hash).collect();
    expected.sort_unstable();
    taught.sort_unstable();
    expected == taught
}
