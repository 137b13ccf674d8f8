//! What a P4 switch and its worker share, and what the worker counts.

use std::collections::BTreeMap;

use thalweg_io::{PortCounters, PortStatus};
use thalweg_p4::CacheStatistics;
use thalweg_p4::cache::behavior::BehaviorCounts;
use thalweg_packet::PortId;

use crate::doorbell::Doorbell;
use crate::sync::{AtomicBool, Mutex};
use crate::totals::PlugCounters;

/// What the worker is told, and how it is woken.
#[derive(Debug)]
pub(super) struct Flags {
    pub(super) doorbell: Doorbell,
    pub(super) is_stopping: AtomicBool,
    pub(super) is_finished: AtomicBool,
    /// Ports whose interface was deleted, for the thread that attached them.
    pub(super) gone: Mutex<Vec<PortId>>,
}

/// Counters of a P4 switch.
#[derive(Clone, Debug, Default)]
pub struct P4Totals {
    /// Packets that the program processed, including those from the controller.
    pub packets: u64,
    /// Packets from the controller.
    pub from_controller: u64,
    /// Packets for the controller.
    pub to_controller: u64,
    /// Dropped packets, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Counters of the cache of the program's traversals, if there is one.
    pub traversals: Option<CacheStatistics>,
    /// Counters of its behaviours, and how many are remembered, if they are.
    pub behaviors: Option<(BehaviorCounts, usize)>,
    /// Ports, in the order given; removed ones too, as gone.
    pub ports: Vec<(PortId, PortStatus, PortCounters)>,
    /// Ports added and removed.
    pub plugs: PlugCounters,
}
