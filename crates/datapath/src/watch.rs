//! Reports of upcalls, for those who watch the datapath.
//!
//! 1. Reports that are not taken do not grow without bound: those beyond [`REPORTS_MAX`] are
//!    counted and not made.
//! 2. Without a watch, an upcall costs one comparison more.

use std::sync::Arc;

use thalweg_packet::{Layout, Packet, PortId};
use thalweg_pipeline::Effect;

use crate::core::{Answer, Core};
use crate::datapath::{Datapath, with_core};

/// Most reports that wait.
const REPORTS_MAX: usize = 1_024;

/// Most bytes of a packet in a report.
const FRAME_BYTES_MAX: usize = 256;

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

impl Datapath {
    /// Sets whether upcalls are reported.
    pub fn watch_upcalls(&mut self, is_watched: bool) {
        with_core!(&mut self.core, core => {
            let has_watch = core.watch.is_some();
            if is_watched != has_watch {
                core.watch = is_watched.then(UpcallWatch::default);
            }
        });
    }

    /// Takes the reports since the last call, and the number of those that had no room.
    pub fn take_upcalls(&mut self) -> (Vec<UpcallReport>, u64) {
        with_core!(&mut self.core, core => match &mut core.watch {
            Some(watch) => (std::mem::take(&mut watch.reports), std::mem::take(&mut watch.lost)),
            None => (Vec::new(), 0),
        })
    }
}

impl<const W: usize> Core<W> {
    /// Notes what became of a packet that no cache could answer.
    pub(crate) fn note_upcall(&mut self, packet: &Packet, key: &[u64; W], answer: &Answer) {
        let id = match answer {
            Answer::Entry(id) => Some(*id),
            Answer::Once(..) => None,
        };
        let bytes = packet.bytes();
        let is_new = id.is_some_and(|id| self.entries.is_unused(id));
        let sample_bytes = self.config.megaflow.sample_bytes;
        if let Some(id) = id.filter(|_| is_new && sample_bytes > 0) {
            self.entries
                .keep_sample(id, &bytes[..bytes.len().min(sample_bytes)]);
        }
        if self.watch.is_none() {
            return;
        }
        let ingress = self.layout.ingress_words();
        let entry = id.map(|id| {
            let entry = self.entries.get(id);
            UpcallEntry {
                mask: self.megaflow.mask(entry.subtable)[..ingress].to_vec(),
                effects: entry.program.effects(),
                is_new,
            }
        });
        let report = UpcallReport {
            layout: self.layout.clone(),
            in_port: packet.in_port(),
            frame: bytes[..bytes.len().min(FRAME_BYTES_MAX)].to_vec(),
            length: packet.original_len(),
            key: key[..ingress].to_vec(),
            entry,
        };
        let Some(watch) = &mut self.watch else {
            return;
        };
        // Invariant 1.
        match watch.reports.len() < REPORTS_MAX {
            true => watch.reports.push(report),
            false => watch.lost += 1,
        }
    }
}
