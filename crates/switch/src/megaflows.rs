//! The entries of all workers' wildcard caches, for those who look at the datapath.
//!
//! 1. Entries of the same region are one: workers answer the same, each for its ports.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use thalweg_datapath::EntryView;
use thalweg_packet::{Instant, Layout};
use thalweg_pipeline::{Counters, Effect};

use crate::message::{Answer, Command};
use crate::switch::Switch;

/// The entries of the wildcard caches, at one version.
#[derive(Clone, Debug)]
pub struct Megaflows {
    /// The layout of the entries' keys and masks.
    pub layout: Arc<Layout>,
    /// When the entries were asked for, in the time of their uses.
    pub now: Instant,
    /// The entries, in the order of workers and their entries' numbers.
    pub entries: Vec<MegaflowReport>,
    /// Whether there may be more than were asked for.
    pub is_cut: bool,
}

/// An entry of the wildcard caches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MegaflowReport {
    /// The key of a packet for which it was made.
    pub key: Vec<u64>,
    /// The bits on which its packets agree.
    pub mask: Vec<u64>,
    /// The effects on its packets.
    pub effects: Vec<Effect>,
    /// Counts of its packets since it was made, without the packets for which it was made: as in
    /// Open vSwitch, whose flow comes after its first packet.
    pub counters: Counters,
    /// The last of these packets; `None` if there was none.
    pub used_at: Option<Instant>,
    /// The beginning of the packet for which it was made; empty if none is kept.
    pub sample: Vec<u8>,
    /// The length of that packet, of all its segments if it was a frame that stands for some.
    pub sample_length: usize,
}

impl MegaflowReport {
    pub(crate) fn of(view: EntryView) -> MegaflowReport {
        let counters = Counters {
            packets: view.lifetime.packets.saturating_sub(view.first.packets),
            bytes: view.lifetime.bytes.saturating_sub(view.first.bytes),
        };
        MegaflowReport {
            key: view.key,
            mask: view.mask,
            effects: view.effects,
            sample: view.sample,
            sample_length: view.first.bytes as usize,
            used_at: (counters.packets > 0).then_some(view.used_at),
            counters,
        }
    }

    /// A number of its region.
    pub fn identifier(&self) -> u128 {
        megaflow_identifier(&self.key, &self.mask)
    }

    /// Adds the counts of another worker's entry. The packet for which that was made would have
    /// met this one.
    fn merge(&mut self, view: &EntryView) {
        self.counters.add(view.lifetime);
        if view.lifetime.packets > 0 {
            self.used_at = self.used_at.max(Some(view.used_at));
        }
    }
}

/// A number of the region of an entry with this key and mask, the same in all workers.
pub fn megaflow_identifier(key: &[u64], mask: &[u64]) -> u128 {
    let halves = [1_u64, 2].map(|half| {
        let mut hasher = DefaultHasher::new();
        half.hash(&mut hasher);
        for (key, mask) in key.iter().zip(mask) {
            (key & mask, mask).hash(&mut hasher);
        }
        u128::from(hasher.finish())
    });
    halves[0] << 64 | halves[1]
}

/// The bits of the key that are compared, and the mask.
fn region(view: &EntryView) -> (Vec<u64>, Vec<u64>) {
    let masked = view.key.iter().zip(&view.mask);
    (
        masked.map(|(key, mask)| key & mask).collect(),
        view.mask.clone(),
    )
}

impl Switch {
    /// The entries of all wildcard caches, at most `limit` of each worker.
    ///
    /// Waits until the caches are repaired after the last change.
    pub fn megaflows(&mut self, limit: usize) -> Megaflows {
        self.settle();
        let mut answers = BTreeMap::new();
        for answer in self.ask(|| Command::Megaflows(limit)) {
            if let Answer::Megaflows(worker, views) = answer {
                answers.insert(worker, views);
            }
        }
        let mut entries: Vec<MegaflowReport> = Vec::new();
        let mut places = HashMap::new();
        let mut is_cut = false;
        for views in answers.into_values() {
            is_cut |= views.len() == limit;
            for view in views {
                // Invariant 1.
                let place = *places.entry(region(&view)).or_insert(entries.len());
                match entries.get_mut(place) {
                    Some(known) => known.merge(&view),
                    None => entries.push(MegaflowReport::of(view)),
                }
            }
        }
        Megaflows {
            layout: self.pipeline().layout().clone(),
            now: self.now(),
            entries,
            is_cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thalweg_io::{MemoryHandle, MemoryPort};
    use thalweg_packet::{PortId, standard as f};
    use thalweg_pipeline::{Change, text};

    use super::*;
    use crate::{SwitchConfig, SwitchPort, Totals};

    #[test]
    fn entries_of_all_workers_are_told_with_all_that_they_counted() {
        let (one, first) = MemoryPort::new(PortId(1), 64);
        let (two, second) = MemoryPort::new(PortId(2), 64);
        let (three, sink) = MemoryPort::new(PortId(3), 64);
        let ports = [(1, one), (2, two), (3, three)];
        let ports = ports.map(|(number, port)| SwitchPort::new(PortId(number), Box::new(port)));
        let config = SwitchConfig {
            workers: 2,
            ..SwitchConfig::default()
        };
        let mut switch = Switch::start(config, ports.into()).unwrap();
        let rules = ["dl_type=0x1234,actions=3", "dl_type=0x1235,actions=drop"];
        let rules = rules.map(|rule| text::parse_flow(rule).unwrap());
        switch.apply(&Change::adding(rules)).unwrap();
        assert!(switch.megaflows(10).entries.is_empty());
        let mut frame = [0; 100];
        let mut forwarded = 0;
        let mut forward = |switch: &mut Switch, port: &MemoryHandle, kind: u8, len: usize| {
            (frame[12], frame[13]) = (0x12, kind);
            assert!(port.inject(&frame[..len]));
            forwarded += 1;
            let received = |totals: Totals| -> u64 {
                totals
                    .ports
                    .iter()
                    .map(|port| port.counters.received_packets)
                    .sum()
            };
            while received(switch.totals()) < forwarded {
                switch.poll(Duration::from_millis(1));
            }
        };
        for (port, kind, len) in [
            (&first, 0x34, 60),
            (&first, 0x34, 70),
            (&first, 0x34, 80),
            (&second, 0x34, 60),
            (&first, 0x35, 60),
            (&second, 0x35, 64),
            (&second, 0x35, 90),
        ] {
            forward(&mut switch, port, kind, len);
        }
        let known = switch.megaflows(10);
        assert!(!known.is_cut);
        let get = |words: &[u64], field| known.layout.get(words, field).unwrap();
        let mut told: Vec<_> = known
            .entries
            .iter()
            .map(|entry| {
                let in_port = get(&entry.key, f::IN_PORT) & get(&entry.mask, f::IN_PORT);
                let counters = (entry.counters.packets, entry.counters.bytes);
                let is_used = entry.used_at.is_some_and(|used_at| used_at <= known.now);
                (get(&entry.key, f::ETH_TYPE), in_port, counters, is_used)
            })
            .collect();
        told.sort_unstable();
        // Those of the second rule are one: it does not matter where their packets come from.
        assert_eq!(
            told,
            [
                (0x1234, 1, (2, 150), true),
                (0x1234, 2, (0, 0), false),
                (0x1235, 0, (2, 154), true),
            ]
        );
        assert_eq!(sink.collect().len(), 4);
        let some = switch.megaflows(1);
        assert!(some.is_cut && some.entries.len() == 2);
    }
}
