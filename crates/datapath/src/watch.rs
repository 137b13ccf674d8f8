//! Reports of upcalls, for those who watch the datapath.
//!
//! 1. Reports that are not taken do not grow without bound: those beyond [`REPORTS_MAX`] are
//!    counted and not made.
//! 2. Without a watch, an upcall costs one comparison more.

use std::sync::Arc;

use thalweg_packet::{Layout, PortId};
use thalweg_pipeline::Effect;

/// Most reports that wait.
const REPORTS_MAX: usize = 1_024;

/// Most bytes of a packet in a report.
pub(crate) const FRAME_BYTES_MAX: usize = 256;

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
    /// Its key.
    pub key: Vec<u64>,
    /// The entry that was made or found; `None` if the answer is not remembered.
    pub entry: Option<UpcallEntry>,
}

/// The entry of an upcall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpcallEntry {
    /// The bits on which its packets agree.
    pub mask: Vec<u64>,
    /// What is done with them.
    pub effects: Vec<Effect>,
    /// Whether the upcall made it.
    pub is_new: bool,
}

/// Reports that wait to be taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpcallWatch {
    reports: Vec<UpcallReport>,
    lost: u64,
}

impl UpcallWatch {
    /// Adds a report.
    pub(crate) fn add(&mut self, report: UpcallReport) {
        // Invariant 1.
        match self.reports.len() < REPORTS_MAX {
            true => self.reports.push(report),
            false => self.lost += 1,
        }
    }

    /// Takes the reports since the last call, and the number of those that had no room.
    pub(crate) fn take(&mut self) -> (Vec<UpcallReport>, u64) {
        (
            std::mem::take(&mut self.reports),
            std::mem::take(&mut self.lost),
        )
    }
}
