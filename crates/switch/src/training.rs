//! Training of tables, on a thread of its own.
//!
//! Tables that learn have work after many changes of their rules. The control side asks for it after
//! a change, has a thread do it, and puts the outcome to use; workers go on meanwhile, except while
//! rules are copied for it, and while its outcome is installed.
//!
//! 1. One table is trained at a time.
//! 2. Training takes a bounded share of a processor: the next begins no sooner than
//!    [`PAUSES`] times as long as the last one took after its end.

use thalweg_packet::Instant;
use thalweg_pipeline::{Learnt, Pipeline};

use crate::steps;
use crate::sync::{JoinHandle, RwLock, spawn};

/// Invariant 2.
const PAUSES: u32 = 4;

/// Who trains.
#[derive(Default)]
pub(crate) struct Trainer {
    /// Rules have changed since a table was asked.
    is_asked_for: bool,
    running: Option<(Instant, JoinHandle<Learnt>)>,
    /// Not before.
    next: Instant,
    /// Trainings that were put to use.
    pub(crate) count: u64,
}

impl Trainer {
    /// Says that rules have changed.
    pub(crate) fn note_change(&mut self) {
        self.is_asked_for = true;
    }

    /// Takes what has been trained, and begins what is due; without waiting for either.
    pub(crate) fn tend(&mut self, pipeline: &RwLock<Pipeline>, now: Instant) {
        if let Some((start, thread)) = self.running.take_if(|(_, thread)| thread.is_finished()) {
            match thread.join() {
                Ok(learnt) => steps::write(pipeline).install(learnt),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            self.count += 1;
            // Other tables may be waiting.
            self.is_asked_for = true;
            self.next = now + (now - start) * PAUSES;
        }
        if self.running.is_some() || !self.is_asked_for || now < self.next {
            return;
        }
        self.is_asked_for = false;
        let Some(training) = steps::write(pipeline).training() else {
            return;
        };
        // Without a thread, tables stay as they are: as right, and slower.
        let thread = spawn("training".to_owned(), move || training.run());
        self.running = thread.ok().map(|thread| (now, thread));
    }
}
