//! What control and workers tell each other.
//!
//! Commands go to every worker, and each gives one answer; one command is outstanding at a time,
//! so their channels need little room. News are what workers say unasked: their channel is
//! bounded, and what does not fit is counted by the worker and said again later.

use std::sync::Arc;

use thalweg_datapath::{Ledger, Statistics, Work};
use thalweg_io::{PortCounters, PortStatus};
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{Delta, Notice, Station};

use crate::totals::WorkerCounters;

/// What a worker is asked between two bursts.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// To follow the change that was just published.
    Advance(Arc<Delta>),
    /// To wait for the next command, and to ask the pipeline nothing until then.
    Hold,
    /// To go on after a hold.
    Release,
    /// To send what other workers have left.
    Drain,
    /// To say what it has counted.
    Report,
    /// To send what others have left, to report, and to end.
    Stop,
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It has followed the change; the counts of what was evicted or repaired come with that.
    Advanced { work: Work, ledger: Ledger },
    /// It has done as it was told.
    Done,
    /// What it has counted.
    Report(Box<Report>),
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
}

/// What a worker says unasked.
#[derive(Debug)]
pub(crate) enum News {
    /// Stations were seen.
    Learned(Vec<(Station, PortId)>),
    /// A port is in another state.
    Port(PortId, PortStatus),
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
