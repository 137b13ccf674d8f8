//! The totals of a running switch, over all workers.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_datapath::{CacheChoice, Statistics, Work};
use thalweg_io::{PortCounters, PortStatus};
use thalweg_packet::PortId;
use thalweg_pipeline::Version;

use crate::learning::LearningCounters;
use crate::message::Report;
use crate::stations::StationCounters;
use crate::training::TrainingCounters;
use crate::v2p::V2pCounters;
use crate::worker_counters::WorkerCounters;

/// Ports added and removed while the switch ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlugCounters {
    /// Attached after the start.
    pub attached: u64,
    /// Detached, including those that were gone.
    pub detached: u64,
    /// Of these: detached because their interface was deleted.
    pub gone: u64,
}

/// Changes, and the time until all workers followed them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChangeCounters {
    /// Changes that were made; refused ones are not among them.
    pub made: u64,
    /// The sum of their times, each from the call until no packet is answered by the old version.
    pub time: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

impl ChangeCounters {
    pub(crate) fn count(&mut self, time: Duration) {
        self.made += 1;
        self.time += time;
        self.longest = self.longest.max(time);
    }
}

/// A port and its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortTotals {
    /// Its number.
    pub number: PortId,
    /// Whether it can carry packets.
    pub status: PortStatus,
    /// Its counters.
    pub counters: PortCounters,
}

/// All counts of a switch since it started.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// The ports, by number, ends of patches among them; removed ones too, as gone.
    pub ports: Vec<PortTotals>,
    /// Ports added and removed.
    pub plugs: PlugCounters,
    /// Counters of the caches.
    pub datapath: Statistics,
    /// Flows in the exact-match caches.
    pub microflows: usize,
    /// Entries in the wildcard caches.
    pub megaflows: usize,
    /// Masks in the wildcard caches.
    pub masks: usize,
    /// How the wildcard caches are searched, and why; one per worker, in any order.
    pub caches: Vec<CacheChoice>,
    /// Changes of rules, groups, ports and what else the pipeline has.
    pub changes: ChangeCounters,
    /// The work of following changes.
    pub maintenance: Work,
    /// Training of tables' indexes, and how long readers waited.
    pub training: TrainingCounters,
    /// Counters of the workers.
    pub workers: WorkerCounters,
    /// Packets that wait in the workers' pools to be used again.
    pub spare_packets: usize,
    /// Counters of the V2P node; empty without one.
    pub v2p: V2pCounters,
    /// Packets that the node dropped, by reason.
    pub v2p_drops: V2pCounters,
    /// What happened to stations.
    pub stations: StationCounters,
    /// What became of rules that packets taught.
    pub learning: LearningCounters,
    /// Stations not remembered for lack of room.
    pub stations_refused: u64,
    /// Reports of ended rules that were not collected in time.
    pub removals_refused: u64,
    /// Changes made for stations, ports and timeouts.
    pub own_changes: u64,
    /// The pipeline's version.
    pub version: Version,
    /// Number of rules at that version.
    pub rules: usize,
}

impl Totals {
    pub(crate) fn add(&mut self, report: &Report) {
        let ports = report.ports.iter();
        self.ports
            .extend(ports.map(|&(number, status, counters)| PortTotals {
                number,
                status,
                counters,
            }));
        self.ports.sort_unstable_by_key(|port| port.number);
        self.datapath.add(&report.statistics);
        self.microflows += report.microflows;
        self.megaflows += report.megaflows;
        self.masks += report.masks;
        self.caches.push(report.choice);
        self.workers.add(report.counters);
        self.spare_packets += report.spare_packets;
    }

    /// Dropped packets, by reason: by rules, workers and ports.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        let workers = [
            ("no_such_port", self.workers.no_such_port),
            ("not_ready", self.workers.held),
            ("exchange_full", self.workers.exchange_refused),
            ("pool_empty", self.workers.copies_refused),
            ("controller_queue_full", self.workers.packet_ins_refused),
        ];
        let ports = self.ports.iter().flat_map(|port| {
            let drops: Vec<_> = port.counters.drops.iter().collect();
            drops.into_iter()
        });
        let ports = ports.map(|(reason, count)| (reason.name(), count));
        let mut drops = BTreeMap::new();
        let node = self
            .v2p_drops
            .iter()
            .map(|(reason, count)| (*reason, *count));
        let all = self
            .datapath
            .drops()
            .chain(workers)
            .chain(ports)
            .chain(node);
        for (reason, count) in all {
            if count > 0 {
                *drops.entry(reason).or_default() += count;
            }
        }
        drops
    }
}
