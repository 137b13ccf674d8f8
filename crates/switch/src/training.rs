//! Training of tables and caches, on a thread of its own.
//!
//! Tables that learn have work after many changes of their rules. The control side asks for it after
//! a change, has a thread do it, and puts the outcome to use; workers go on meanwhile, except while
//! rules are copied for it, and while its outcome is installed.
//!
//! Caches of a worker that are in a learned index have such work too: the worker takes it from them
//! between two bursts and sends it here; its outcome goes back to the worker as a command.
//!
//! 1. One table, or the caches of one worker, is trained at a time; caches first.
//! 2. Training takes a bounded share of a processor: the next begins no sooner than
//!    [`PAUSES`] times as long as the last one took after its end.

use std::collections::VecDeque;

use thalweg_datapath as datapath;
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
    /// Of workers, which send none while one of theirs is waiting or under way.
    waiting: VecDeque<(usize, datapath::Training)>,
    running: Option<(Instant, JoinHandle<Outcome>)>,
    /// Not before.
    next: Instant,
    /// Trainings that were put to use.
    pub(crate) count: u64,
}

/// What was trained.
enum Outcome {
    Table(Learnt),
    /// Of this worker.
    Caches(usize, datapath::Learnt),
}

impl Trainer {
    /// Accepts work for the caches of a worker.
    pub(crate) fn take_on(&mut self, worker: usize, training: datapath::Training) {
        self.waiting.push_back((worker, training));
    }

    /// Says that rules have changed.
    pub(crate) fn note_change(&mut self) {
        self.is_asked_for = true;
    }

    /// Takes what has been trained, and begins what is due; without waiting for either. What is for
    /// the caches of a worker is the caller's to bring there.
    pub(crate) fn tend(
        &mut self,
        pipeline: &RwLock<Pipeline>,
        now: Instant,
    ) -> Option<(usize, datapath::Learnt)> {
        let mut for_worker = None;
        if let Some((start, thread)) = self.running.take_if(|(_, thread)| thread.is_finished()) {
            match thread.join() {
                Ok(Outcome::Table(learnt)) => {
                    steps::write(pipeline).install(learnt);
                    self.count += 1;
                    // Other tables may be waiting.
                    self.is_asked_for = true;
                }
                Ok(Outcome::Caches(worker, learnt)) => for_worker = Some((worker, learnt)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            self.next = now + (now - start) * PAUSES;
        }
        if self.running.is_none() && now >= self.next {
            self.begin(pipeline, now);
        }
        for_worker
    }

    fn begin(&mut self, pipeline: &RwLock<Pipeline>, now: Instant) {
        let name = || "training".to_owned();
        // Without a thread, tables and caches stay as they are: as right, and slower.
        let thread = if let Some((worker, training)) = self.waiting.pop_front() {
            spawn(name(), move || Outcome::Caches(worker, training.run()))
        } else if std::mem::take(&mut self.is_asked_for) {
            let Some(training) = steps::write(pipeline).training() else {
                return;
            };
            spawn(name(), move || Outcome::Table(training.run()))
        } else {
            return;
        };
        self.running = thread.ok().map(|thread| (now, thread));
    }
}
