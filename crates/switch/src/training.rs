//! Trains indexes of tables and caches: slices between other work, long jobs on a thread.
//!
//! A table's index is replaced when another pays off, or when rules have changed much. The
//! control side does that in slices, while readers wait. A thread does the long part, building
//! the new index, and nothing waits for it. Caches of a worker do the same: the worker takes
//! the slices between two bursts, and sends the long part here; its outcome goes back as a
//! command.
//!
//! 1. One long job is done at a time; those of caches come first.
//! 2. They take a bounded share of a processor. After a job, the next begins no sooner than
//!    [`PAUSES`] times as long later as that job took. Slices take at most half of the time.
//! 3. A long job for which no thread can be started is kept, counted, and tried again after
//!    [`PATIENCE`].

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use thalweg_datapath::{CacheOwner, Gate};
use thalweg_packet::Instant;
use thalweg_pipeline::{BuiltIndex, IndexJob, Pipeline, TableOwner, Tending};

use crate::clock::Clock;
use crate::sync::{JoinHandle, Mutex, spawn};

/// Invariant 2.
const PAUSES: u32 = 4;

/// Approximate rules in a slice. One in a model check, whose tables are small.
const STEPS: usize = if cfg!(thalweg_model) { 1 } else { 64 };

/// How often tables are checked for a better index if their rules do not change.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Invariant 3.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counters of training.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrainingCounters {
    /// Finished long jobs of tables: indexes built, or compared.
    pub done: u64,
    /// Threads that could not be started; their jobs were tried again.
    pub refused: u64,
    /// Slices done.
    pub slices: u64,
    /// Longest time that readers of the pipeline waited for a slice.
    pub longest_slice: Duration,
}

/// Schedules index-training jobs on a background thread.
#[derive(Default)]
pub(crate) struct Trainer {
    /// Whether another slice is due, or rules have changed since tables were last checked.
    has_more: bool,
    /// No slice before this time.
    next_slice: Instant,
    next_look: Instant,
    next_thread: Instant,
    /// Long jobs; a worker sends none while one of its own waits or runs.
    waiting: VecDeque<Long>,
    running: Option<(Instant, JoinHandle<Option<Outcome>>)>,
    pub(crate) counters: TrainingCounters,
}

/// A thread for a long job, or the error from starting it.
type Started = std::io::Result<JoinHandle<Option<Outcome>>>;

/// A long job.
pub(crate) enum Long {
    Table(IndexJob<TableOwner>),
    /// For the caches of this worker.
    Caches(usize, IndexJob<CacheOwner>),
}

/// The outcome of a long job.
pub(crate) enum Outcome {
    /// Whether it did more than free memory, and the result.
    Table(bool, BuiltIndex<TableOwner>),
    /// For the caches of this worker.
    Caches(usize, BuiltIndex<CacheOwner>),
}

impl Long {
    /// Runs the job; takes long for many rules.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Long::Table(job) => Outcome::Table(job.rule_count() > 0, job.run()),
            Long::Caches(worker, job) => Outcome::Caches(worker, job.run()),
        }
    }
}

impl Trainer {
    /// Accepts a job for the caches of a worker.
    pub(crate) fn take_on(&mut self, worker: usize, job: IndexJob<CacheOwner>) {
        self.waiting.push_front(Long::Caches(worker, job));
    }

    /// Records that rules have changed.
    pub(crate) fn note_change(&mut self) {
        self.has_more = true;
    }

    /// How long no call of [`Trainer::tend`] is needed.
    pub(crate) fn rest(&self, now: Instant) -> Duration {
        match (self.has_more, &self.running) {
            (true, _) => self.next_slice - now,
            (false, Some(_)) => Duration::from_millis(10),
            (false, None) if self.waiting.is_empty() => LOOK_INTERVAL,
            (false, None) => self.next_thread - now,
        }
    }

    /// Takes a finished outcome, does a slice, and starts a due job, without waiting for any
    /// of it. Returns an outcome for a worker's caches, which the caller must send there.
    pub(crate) fn tend(
        &mut self,
        pipeline: &Gate<Pipeline>,
        clock: &Clock,
    ) -> Option<(usize, BuiltIndex<CacheOwner>)> {
        let now = clock.real_now();
        let for_worker = self.take_outcome(pipeline, now);
        if self.has_more || now >= self.next_look {
            self.slice(pipeline, clock, now);
        }
        if self.running.is_none() && now >= self.next_thread {
            self.begin(now, |work| spawn("training".to_owned(), work));
        }
        for_worker
    }

    fn take_outcome(
        &mut self,
        pipeline: &Gate<Pipeline>,
        now: Instant,
    ) -> Option<(usize, BuiltIndex<CacheOwner>)> {
        let (start, thread) = self.running.take_if(|(_, thread)| thread.is_finished())?;
        self.next_thread = now + (now - start) * PAUSES;
        match thread.join() {
            Ok(Some(Outcome::Table(is_built, index))) => {
                pipeline.write().install(index);
                self.counters.done += u64::from(is_built);
                self.has_more = true;
                None
            }
            Ok(Some(Outcome::Caches(worker, index))) => Some((worker, index)),
            Ok(None) => None,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Does a slice if it is due (invariant 2).
    fn slice(&mut self, pipeline: &Gate<Pipeline>, clock: &Clock, now: Instant) {
        if now < self.next_slice {
            return;
        }
        let mut pipeline = pipeline.write();
        let start = clock.real_now();
        let tended = pipeline.tend(STEPS);
        drop(pipeline);
        let end = clock.real_now();
        self.counters.slices += 1;
        self.counters.longest_slice = self.counters.longest_slice.max(end - start);
        self.next_slice = end + (end - start);
        self.next_look = end + LOOK_INTERVAL;
        match tended {
            Tending::Idle => self.has_more = false,
            Tending::More => self.has_more = true,
            Tending::Job(job) => {
                self.waiting.push_back(Long::Table(job));
                self.has_more = true;
            }
        }
    }

    /// Starts a due job (invariants 1 and 3); `start` starts a thread.
    fn begin(
        &mut self,
        now: Instant,
        start: impl FnOnce(Box<dyn FnOnce() -> Option<Outcome> + Send>) -> Started,
    ) {
        let Some(long) = self.waiting.pop_front() else {
            return;
        };
        // The thread takes the job out; if no thread started, the job is still there.
        let shared = Arc::new(Mutex::new(Some(long)));
        let theirs = shared.clone();
        let take =
            |long: &Mutex<Option<Long>>| long.lock().unwrap_or_else(PoisonError::into_inner).take();
        match start(Box::new(move || take(&theirs).map(Long::run))) {
            Ok(thread) => self.running = Some((now, thread)),
            Err(_) => {
                self.counters.refused += 1;
                self.next_thread = now + PATIENCE;
                self.waiting.extend(take(&shared));
            }
        }
    }
}

#[cfg(all(test, not(thalweg_model)))]
mod tests {
    use thalweg_pipeline::{Change, ClassifierKind, Config, Tending, text};

    use super::*;

    /// A pipeline whose only table needs training, and the long job for it.
    fn untrained() -> (Pipeline, IndexJob<TableOwner>) {
        let mut pipeline = Pipeline::new(Config {
            classifier: ClassifierKind::Learned,
            ..Config::default()
        });
        let rule = |number: u32| {
            let [_, b, c, d] = number.to_be_bytes();
            text::parse_flow(&format!("ip,nw_dst=10.{b}.{c}.{d},actions=1")).expect("a rule")
        };
        let rules = Change::adding((0..3_000).map(rule));
        pipeline.apply(&rules, Instant::ZERO).expect("plain rules");
        pipeline.reclaim(pipeline.version());
        loop {
            match pipeline.tend(STEPS) {
                Tending::Job(job) => return (pipeline, job),
                Tending::More => {}
                Tending::Idle => panic!("3,000 rules are enough to be trained"),
            }
        }
    }

    #[test]
    fn a_thread_that_cannot_start_is_counted_and_tried_again() {
        let (pipeline, training) = untrained();
        let (pipeline, clock) = (Gate::new(pipeline), Clock::start());
        let mut trainer = Trainer::default();
        trainer.waiting.push_back(Long::Table(training));
        let now = clock.real_now();
        let refused = |_| Err(std::io::Error::from(std::io::ErrorKind::WouldBlock));
        trainer.begin(now, refused);
        assert_eq!(trainer.counters.refused, 1);
        assert_eq!(trainer.waiting.len(), 1, "the work is kept");
        assert!(trainer.running.is_none());
        // It is not retried at once, and a poll that waits for news wakes in time.
        assert_eq!(trainer.next_thread, now + PATIENCE);
        assert_eq!(trainer.rest(now), PATIENCE);
        trainer.tend(&pipeline, &clock);
        assert!(trainer.running.is_none(), "it is not tried before");
        // As if the time had passed.
        trainer.next_thread = now;
        trainer.tend(&pipeline, &clock);
        assert!(trainer.running.is_some(), "it is tried again");
        while trainer.running.is_some() && trainer.counters.done == 0 {
            trainer.tend(&pipeline, &clock);
        }
        assert_eq!(trainer.counters.done, 1);
        assert_eq!(trainer.counters.refused, 1);
    }
}
