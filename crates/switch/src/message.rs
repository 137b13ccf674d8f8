//! Messages between control side and workers.
//!
//! Commands go to every worker, and each command but one has one answer. One command is
//! outstanding at a time, so their channels need little room. A change has two answers: one
//! when the worker has moved to the new version, and one when its caches are repaired. The
//! next report waits for the second, and so does the change after the next. News are sent
//! unasked. Their channel is bounded; the worker counts news that do not fit, and sends them
//! again later.

use std::sync::Arc;
use std::time::Duration;

use thalweg_datapath::{
    BuiltIndex, CacheChoice, CacheOwner, EntrySlice, EntryView, Findings, HandFlows, IndexJob,
    Ledger, Requests, Statistics, UpcallReport, Walks, WatchedUpcalls, Work,
};
use thalweg_io::{PortCounters, PortStatus};
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{Delta, LearnedRule, Notice, RuleId, Station, Version};

use crate::ports::{Attached, Routes};
use crate::worker_counters::WorkerCounters;

/// A command to a worker, handled between two bursts.
#[derive(Debug)]
pub(crate) enum Command {
    /// Follow the change just published; with the findings of its search, if the worker keeps
    /// a record.
    Advance(Arc<Delta>, Option<Arc<Findings>>),
    /// Continue repairing with the requested walks. The only answer is that all entries are
    /// right.
    Walked(Box<Walks>),
    /// Wait for the next command, without using the pipeline.
    Hold,
    /// Continue after a hold.
    Release,
    /// Send what other workers have left.
    Drain,
    /// Report all counts, of caches and ports.
    Report,
    /// Empty the caches, and report what they counted.
    Flush,
    /// Put these flows in front of the caches.
    PutByHand(Option<Arc<HandFlows>>),
    /// Change how the caches work.
    Set(CacheSetting),
    /// Report the counts for these rules.
    Count(Arc<Vec<RuleId>>),
    /// Report the entries of its wildcard cache, at most this number.
    Megaflows(usize),
    /// Report a slice of its caches: from this number on, this many numbers.
    EntrySlice(u32, u32),
    /// Report whether these rules were used after these times.
    Uses(Arc<Vec<(RuleId, Instant)>>),
    /// Take over ports, each at its place.
    Attach(Vec<(usize, Attached)>),
    /// Hand back the ports at these places.
    Detach(Vec<usize>),
    /// Send by these routes from now on.
    Route(Arc<Routes>),
    /// Install a training of its caches.
    Install(Arc<BuiltIndex<CacheOwner>>),
    /// Send what others have left, report, and end.
    Stop,
}

/// A setting of a worker's caches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CacheSetting {
    /// Whether entries compare whole keys; empties the caches, and reports what they counted.
    Exact(bool),
    /// The most entries of the wildcard cache.
    Limit(usize),
    /// How long an entry of the wildcard cache may go without a packet.
    Idle(Option<Duration>),
    /// Which upcalls are reported.
    Watch(WatchedUpcalls),
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Its packets are answered at the change's version. If it has many entries to repair: its
    /// number, and the walks it requests.
    Advanced(Option<(usize, Box<Requests>)>),
    /// All its entries are right; includes the counts of entries that were evicted or
    /// repaired.
    Settled(Settled),
    /// The command is done.
    Done,
    /// The ports handed back.
    Detached(Vec<Attached>),
    /// All its counts.
    Report(Box<Report>),
    /// The requested counts.
    Counted(Ledger),
    /// The worker's number, and the requested entries.
    Megaflows(usize, Vec<EntryView>),
    /// The worker's number, and the requested slice.
    EntrySlice(usize, EntrySlice),
    /// For each rule: a use, if there was one.
    Used(Vec<Option<Instant>>),
}

/// The work of following a change, and the counts at the previous version.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The version of the change.
    pub(crate) version: Version,
    pub(crate) work: Work,
    pub(crate) ledger: Ledger,
}

/// A worker's counts since it started; the ledger is since the last report.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ports: Vec<(PortId, PortStatus, PortCounters)>,
    pub(crate) statistics: Statistics,
    pub(crate) counters: WorkerCounters,
    pub(crate) ledger: Ledger,
    pub(crate) spare_packets: usize,
    pub(crate) microflows: usize,
    pub(crate) megaflows: usize,
    pub(crate) masks: usize,
    pub(crate) choice: CacheChoice,
}

/// What a worker sends unasked.
#[derive(Debug)]
pub(crate) enum News {
    /// Stations were seen.
    Learned(Vec<(Station, PortId)>),
    /// Packets taught rules.
    Taught(Vec<Arc<LearnedRule>>),
    /// TCP connections ended at rules: their longest idle and hard timeouts, in seconds.
    FinTimeouts(Vec<(RuleId, u16, u16)>),
    /// A port's state changed; the second field tells apart ports that had the same number.
    Port(PortId, u64, PortStatus),
    /// Upcalls, and the number of those without a report.
    Upcalls(Vec<UpcallReport>, u64),
    /// The worker's caches have a long job, to be done elsewhere.
    IndexJob(usize, Box<IndexJob<CacheOwner>>),
    /// Something needs attention: packets for the controller, or something known to a caller.
    Attention,
}

/// A packet for the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketIn {
    /// Why it was sent, its length, and the data to send along.
    pub notice: Notice,
    /// The port that received it.
    pub in_port: PortId,
    /// When it was received.
    pub received_at: Instant,
    /// The packet, or as much of it as requested.
    pub bytes: Vec<u8>,
}
