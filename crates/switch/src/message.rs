//! What control and workers tell each other.
//!
//! Commands go to every worker, and each but one gives one answer; one command is outstanding at a time,
//! so their channels need little room. A change that was followed is answered twice: when the
//! worker has moved to the new version, and when its caches are repaired, which the next report
//! waits for, and the change after the next. News are what workers say unasked: their channel is
//! bounded, and what does not fit is counted by the worker and said again later.

use std::sync::Arc;

use thalweg_datapath::{
    CacheChoice, Findings, Learnt, Ledger, Requests, Statistics, Training, Walks, Work,
};
use thalweg_io::{PortCounters, PortStatus};
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{Delta, Notice, RuleId, Station, Version};

use crate::ports::{Attached, Routes};
use crate::totals::WorkerCounters;

/// What a worker is asked between two bursts.
#[derive(Debug)]
pub(crate) enum Command {
    /// To follow the change that was just published; what it affects has been searched for, if
    /// the worker keeps a record of that.
    Advance(Arc<Delta>, Option<Arc<Findings>>),
    /// To go on repairing with the walks that it has asked for. No answer follows but that all
    /// entries are right.
    Walked(Box<Walks>),
    /// To wait for the next command, and to ask the pipeline nothing until then.
    Hold,
    /// To go on after a hold.
    Release,
    /// To send what other workers have left.
    Drain,
    /// To say what it has counted, caches and ports and all.
    Report,
    /// To say what it has counted for these rules.
    Count(Arc<Vec<RuleId>>),
    /// To say whether these rules were used after these times.
    Uses(Arc<Vec<(RuleId, Instant)>>),
    /// To take a port over, at this place.
    Attach(usize, Box<Attached>),
    /// To hand out the port at this place.
    Detach(usize),
    /// To send by these routes from now on.
    Route(Arc<Routes>),
    /// To put a training of its caches to use.
    Install(Arc<Learnt>),
    /// To send what others have left, to report, and to end.
    Stop,
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Its packets are answered at the version that the change has made. If it has many entries to
    /// repair: by worker, those that it asks to be walked.
    Advanced(Option<(usize, Box<Requests>)>),
    /// All its entries are right; what those had counted that were evicted or repaired comes with
    /// that.
    Settled(Settled),
    /// It has done as it was told.
    Done,
    /// The port that was to be handed out.
    Detached(Box<Attached>),
    /// What it has counted.
    Report(Box<Report>),
    /// What was asked to be counted.
    Counted(Ledger),
    /// By rule: a use, if there was one.
    Used(Vec<Option<Instant>>),
}

/// What it took to follow a change, and what was counted at the version before.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The version that the change made.
    pub(crate) version: Version,
    pub(crate) work: Work,
    pub(crate) ledger: Ledger,
}

/// What a worker has counted since it started; the ledger since the last report.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ports: Vec<(PortId, PortStatus, PortCounters)>,
    pub(crate) statistics: Statistics,
    pub(crate) counters: WorkerCounters,
    pub(crate) ledger: Ledger,
    pub(crate) microflows: usize,
    pub(crate) megaflows: usize,
    pub(crate) masks: usize,
    pub(crate) choice: CacheChoice,
}

/// What a worker says unasked.
#[derive(Debug)]
pub(crate) enum News {
    /// Stations were seen.
    Learned(Vec<(Station, PortId)>),
    /// A port is in another state; which of those that had the number, one after the other.
    Port(PortId, u64, PortStatus),
    /// Caches of this worker have long work, which is to be done elsewhere.
    Training(usize, Box<Training>),
    /// There is something to look after: packets for the controller, or what a caller knows.
    Attention,
}

/// A packet for the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketIn {
    /// Why it was sent there, how long it was, and what was asked to be sent along.
    pub notice: Notice,
    /// The port that received it.
    pub in_port: PortId,
    /// When that was.
    pub received_at: Instant,
    /// The packet, or as much of it as was asked for.
    pub bytes: Vec<u8>,
}
