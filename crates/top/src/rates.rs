//! What happened between two looks at the counts, as rates.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answers::{
    EntryCounts, LayerCounts, LiveCounts, MakerCounts, PortCounts, TalkersAnswer,
};

/// The rates between two looks; all of them are per second.
#[derive(Clone, Serialize, Debug)]
pub(crate) struct Rates {
    /// The time between the looks.
    pub(crate) seconds: f64,
    pub(crate) packets: f64,
    pub(crate) recirculations: f64,
    pub(crate) computed: f64,
    pub(crate) upcalls: f64,
    /// Masks searched for a lookup in the megaflow cache; `None` without lookups.
    pub(crate) probes_per_lookup: Option<f64>,
    /// Parts of the lookups in each cache that found an entry; `None` without lookups.
    pub(crate) microflow_hit_rate: Option<f64>,
    pub(crate) megaflow_hit_rate: Option<f64>,
    pub(crate) microflow_lookups: f64,
    pub(crate) megaflow_lookups: f64,
    /// By reason; those without a count since the start are left out.
    pub(crate) evictions: BTreeMap<String, f64>,
    pub(crate) refusals: BTreeMap<String, f64>,
    pub(crate) drops: BTreeMap<String, f64>,
    pub(crate) changes: f64,
    /// The mean time until all workers followed a change; `None` without a change.
    pub(crate) seconds_per_change: Option<f64>,
    pub(crate) repairs: BTreeMap<String, f64>,
    /// The part of the time that workers spent on changes, over all workers.
    pub(crate) repairing: f64,
    pub(crate) ports: Vec<PortRates>,
}

/// The rates of a port.
#[derive(Clone, Serialize, Debug)]
pub(crate) struct PortRates {
    pub(crate) bridge: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) received_packets: f64,
    pub(crate) received_bits: f64,
    pub(crate) sent_packets: f64,
    pub(crate) sent_bits: f64,
    pub(crate) drops: f64,
}

impl PortRates {
    /// Packets in both directions.
    pub(crate) fn packets(&self) -> f64 {
        self.received_packets + self.sent_packets
    }
}

/// Rates of counts over a time, in seconds.
struct Per(f64);

impl Per {
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.0
    }

    fn each(
        &self,
        before: &BTreeMap<String, u64>,
        now: &BTreeMap<String, u64>,
    ) -> BTreeMap<String, f64> {
        let rates = now.iter().map(|(name, count)| {
            let known = before.get(name).copied().unwrap_or(0);
            (name.clone(), self.rate(known, *count))
        });
        rates.collect()
    }

    fn port(&self, before: Option<&PortCounts>, now: &PortCounts) -> PortRates {
        let rate = |of: fn(&PortCounts) -> u64| self.rate(before.map_or(of(now), of), of(now));
        PortRates {
            bridge: now.bridge.clone(),
            name: now.name.clone(),
            status: now.status.clone(),
            received_packets: rate(|port| port.received_packets),
            received_bits: 8.0 * rate(|port| port.received_bytes),
            sent_packets: rate(|port| port.sent_packets),
            sent_bits: 8.0 * rate(|port| port.sent_bytes),
            drops: rate(|port| port.drops),
        }
    }
}

/// A part of a whole; `None` if there is no whole.
fn part(of: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| of as f64 / whole as f64)
}

impl Rates {
    /// The rates from one look to a later one; `None` if it is not later, or of another process.
    pub(crate) fn between(before: &LiveCounts, now: &LiveCounts) -> Option<Rates> {
        let seconds = now.seconds - before.seconds;
        if seconds <= 0.0 || now.packets < before.packets || now.version < before.version {
            return None;
        }
        let per = Per(seconds);
        let layer = |of: fn(&LiveCounts) -> &LayerCounts| {
            let hits = of(now).hits.saturating_sub(of(before).hits);
            let misses = of(now).misses.saturating_sub(of(before).misses);
            (hits, hits + misses)
        };
        let (microflow_hits, microflow) = layer(|counts| &counts.microflow);
        let (megaflow_hits, megaflow) = layer(|counts| &counts.megaflow);
        let changes = now.changes.saturating_sub(before.changes);
        let change_seconds = now.change_seconds - before.change_seconds;
        let ports = now.ports.iter().map(|port| {
            let is_it =
                |known: &&PortCounts| known.bridge == port.bridge && known.name == port.name;
            per.port(before.ports.iter().find(is_it), port)
        });
        Some(Rates {
            seconds,
            packets: per.rate(before.packets, now.packets),
            recirculations: per.rate(before.recirculations, now.recirculations),
            computed: per.rate(before.computed, now.computed),
            upcalls: per.rate(before.upcalls, now.upcalls),
            probes_per_lookup: part(now.probes.saturating_sub(before.probes), megaflow),
            microflow_hit_rate: part(microflow_hits, microflow),
            megaflow_hit_rate: part(megaflow_hits, megaflow),
            microflow_lookups: per.rate(0, microflow),
            megaflow_lookups: per.rate(0, megaflow),
            evictions: per.each(&before.evictions, &now.evictions),
            refusals: per.each(&before.refusals, &now.refusals),
            drops: per.each(&before.drops, &now.drops),
            changes: per.rate(before.changes, now.changes),
            seconds_per_change: (changes > 0).then(|| change_seconds / changes as f64),
            repairs: per.each(&before.repairs, &now.repairs),
            repairing: (now.repair_seconds - before.repair_seconds).max(0.0) / seconds,
            ports: ports.collect(),
        })
    }
}

/// An entry with its rates.
#[derive(Clone, Serialize, Debug)]
pub(crate) struct TalkerRates {
    pub(crate) port: String,
    pub(crate) flow: String,
    pub(crate) actions: String,
    /// Packets and bits a second; `None` at the first look at the entry.
    pub(crate) packets: Option<f64>,
    pub(crate) bits: Option<f64>,
    /// Packets since it was made.
    pub(crate) packets_total: u64,
    pub(crate) unused_seconds: f64,
}

/// A port and a mask with many entries.
#[derive(Clone, Serialize, Debug)]
pub(crate) struct MakerRates {
    pub(crate) port: String,
    pub(crate) entries: u64,
    /// Those that met no second packet.
    pub(crate) single: u64,
    pub(crate) example: String,
    /// The rules that the example met.
    pub(crate) rules: Vec<String>,
}

/// What a port without a name is called.
const NO_PORT: &str = "-";

/// The rates of entries from one look to a later one.
pub(crate) fn talkers(before: Option<&TalkersAnswer>, now: &TalkersAnswer) -> Vec<TalkerRates> {
    let known: BTreeMap<&str, &EntryCounts> = before
        .iter()
        .flat_map(|answer| &answer.talkers)
        .map(|entry| (entry.id.as_str(), entry))
        .collect();
    let seconds = before.map(|before| now.seconds - before.seconds);
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    let rates = now.talkers.iter().map(|entry| {
        let known = known.get(entry.id.as_str());
        // An entry that was made again counts from zero.
        let known = known.filter(|known| known.packets <= entry.packets);
        let rate = |of: fn(&EntryCounts) -> u64| {
            let since = of(entry).saturating_sub(of(known?));
            Some(since as f64 / seconds?)
        };
        TalkerRates {
            port: entry.port.clone().unwrap_or_else(|| NO_PORT.to_owned()),
            flow: entry.flow.clone(),
            actions: entry.actions.clone(),
            packets: rate(|entry| entry.packets),
            bits: rate(|entry| entry.bytes).map(|bytes| 8.0 * bytes),
            packets_total: entry.packets,
            unused_seconds: entry.unused_seconds,
        }
    });
    rates.collect()
}

/// Ports and masks with many entries.
pub(crate) fn makers(answer: &TalkersAnswer) -> Vec<MakerRates> {
    let of = |maker: &MakerCounts| MakerRates {
        port: maker.port.clone().unwrap_or_else(|| NO_PORT.to_owned()),
        entries: maker.entries,
        single: maker.single,
        example: maker.example.clone(),
        rules: maker.rules.clone(),
    };
    answer.makers.iter().map(of).collect()
}
