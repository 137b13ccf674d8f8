//! Reports of upcalls, for those who watch the datapath.
//!
//! 1. Reports that are not taken do not grow without bound: those beyond [`REPORTS_MAX`], or
//!    beyond the first if failures alone are watched, are counted and not made.
//! 2. Without a watch, an upcall costs one comparison more.

use std::sync::Arc;

use thalweg_packet::{Layout, PortId, TunnelValues};
use thalweg_pipeline::{DropReason, Effect};

/// Most reports that wait.
const REPORTS_MAX: usize = 1_024;

/// Most bytes of a packet in a report.
pub(crate) const FRAME_BYTES_MAX: usize = 256;

/// Which upcalls are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchedUpcalls {
    /// None.
    #[default]
    None,
    /// Those whose walk met a bound and made an entry, or none.
    Failed,
    /// All.
    All,
}

impl WatchedUpcalls {
    /// Most reports that wait.
    fn room(self) -> usize {
        match self {
            WatchedUpcalls::None => 0,
            WatchedUpcalls::Failed => 1,
            WatchedUpcalls::All => REPORTS_MAX,
        }
    }
}

/// An upcall: a packet that no cache could answer.
#[derive(Clone, Debug)]
pub struct UpcallReport {
    /// The layout of keys and masks.
    pub layout: Arc<Layout>,
    /// The port by which the packet came in.
    pub in_port: PortId,
    /// The packet, or its beginning.
    pub frame: Vec<u8>,
    /// The length of the whole packet.
    pub length: usize,
    /// The type of the packet; zero for Ethernet.
    pub packet_type: u32,
    /// The values of its tunnel, if it is from one.
    pub tunnel: Option<Box<TunnelValues>>,
    /// Its key.
    pub key: Vec<u64>,
    /// The entry that was made or found; `None` if the answer is not remembered.
    pub entry: Option<UpcallEntry>,
    /// Whether its walk met a bound, so that the packet was dropped.
    pub has_failed: bool,
}

/// Whether packets are dropped for this reason because a walk met a bound of work. A stack that
/// is too deep is not told, as in Open vSwitch.
pub(crate) fn is_failure(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::TooManyLookups
            | DropReason::RecursionTooDeep
            | DropReason::TooMuchWork
            | DropReason::TooManyEffects
    )
}

/// The entry of an upcall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpcallEntry {
    /// The bits on which its packets agree.
    pub mask: Vec<u64>,
    /// The effects that run on these packets.
    pub effects: Vec<Effect>,
    /// Whether the upcall made it.
    pub is_new: bool,
}

/// Reports that wait to be taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpcallWatch {
    watched: WatchedUpcalls,
    reports: Vec<UpcallReport>,
    lost: u64,
}

impl UpcallWatch {
    /// Sets which upcalls are watched. Without a watch no reports wait.
    pub(crate) fn set(&mut self, watched: WatchedUpcalls) {
        if watched == WatchedUpcalls::None {
            *self = UpcallWatch::default();
        }
        self.watched = watched;
    }

    /// Whether an upcall is reported.
    pub(crate) fn wants(&self, has_failed: bool) -> bool {
        match self.watched {
            WatchedUpcalls::None => false,
            WatchedUpcalls::Failed => has_failed,
            WatchedUpcalls::All => true,
        }
    }

    /// Whether anything is watched.
    pub(crate) fn is_on(&self) -> bool {
        self.watched != WatchedUpcalls::None
    }

    /// Whether another report has room; counts it as lost if it has none.
    pub(crate) fn has_room(&mut self) -> bool {
        let has_room = self.reports.len() < self.watched.room();
        self.lost += u64::from(!has_room);
        has_room
    }

    /// Adds a report, which has room (invariant 1).
    pub(crate) fn add(&mut self, report: UpcallReport) {
        debug_assert!(self.reports.len() < self.watched.room());
        self.reports.push(report);
    }

    /// Takes the reports since the last call, and the number of those that had no room.
    pub(crate) fn take(&mut self) -> (Vec<UpcallReport>, u64) {
        (
            std::mem::take(&mut self.reports),
            std::mem::take(&mut self.lost),
        )
    }
}
