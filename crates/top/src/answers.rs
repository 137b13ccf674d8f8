//! What the switch answers to `thalweg/live` and `thalweg/talkers`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The counts of a switch since it started.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct LiveCounts {
    /// When they were taken, in the switch's time.
    pub(crate) seconds: f64,
    pub(crate) version: u64,
    pub(crate) rules: u64,
    pub(crate) packets: u64,
    pub(crate) recirculations: u64,
    pub(crate) computed: u64,
    pub(crate) upcalls: u64,
    pub(crate) probes: u64,
    pub(crate) microflow: LayerCounts,
    pub(crate) megaflow: LayerCounts,
    pub(crate) masks: u64,
    pub(crate) evictions: BTreeMap<String, u64>,
    pub(crate) refusals: BTreeMap<String, u64>,
    pub(crate) drops: BTreeMap<String, u64>,
    pub(crate) changes: u64,
    pub(crate) change_seconds: f64,
    /// Entries that were looked at after changes, by what became of them.
    pub(crate) repairs: BTreeMap<String, u64>,
    pub(crate) repair_seconds: f64,
    pub(crate) connections: u64,
    pub(crate) ports: Vec<PortCounts>,
}

/// The counts of a cache.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct LayerCounts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) entries: u64,
}

/// The counts of a port.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct PortCounts {
    pub(crate) bridge: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) drops: u64,
}

/// Busy entries, and which packets make entries.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct TalkersAnswer {
    /// When the entries were copied, in the switch's time.
    pub(crate) seconds: f64,
    pub(crate) talkers: Vec<EntryCounts>,
    pub(crate) makers: Vec<MakerCounts>,
}

/// An entry that packets use now.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct EntryCounts {
    pub(crate) id: String,
    pub(crate) port: Option<String>,
    pub(crate) flow: String,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) unused_seconds: f64,
    pub(crate) actions: String,
}

/// Entries of a port and a mask.
#[derive(Clone, Deserialize, Debug)]
pub(crate) struct MakerCounts {
    pub(crate) port: Option<String>,
    pub(crate) entries: u64,
    /// Those that met no second packet.
    pub(crate) single: u64,
    pub(crate) example: String,
    pub(crate) rules: Vec<String>,
}
