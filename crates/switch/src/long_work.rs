//! Builds and trains the indexes of an engine, between two packets or on a thread.
//!
//! Caches and tables hand out long work as a value that owns what it needs. A running switch
//! does it on a thread ([`crate::training`]); an engine does it where [`LongWork`] says. With
//! a thread, forwarding continues meanwhile:
//!
//! ```text
//!   every SLICE_EVERY bursts:  install what the thread has finished
//!                              do SLICE_STEPS steps of the caches' work, and of the tables'
//!                              start a thread for the next job, if it may start
//! ```
//!
//! 1. One job is done at a time.
//! 2. After a job, the next begins no sooner than [`PAUSES`] times as many bursts later as
//!    passed during that job. So long work takes a bounded share of a processor.
//! 3. The answer to a packet does not depend on where the work is done. If several entries
//!    give that answer, the one used may depend on it.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::sync::{JoinHandle, spawn};
use crate::training::{Long, Outcome};

/// Bursts between two checks of long work on a thread.
pub(crate) const SLICE_EVERY: u64 = 4;
/// Approximate entries or rules in a slice.
pub(crate) const SLICE_STEPS: usize = 256;
/// Invariant 2.
const PAUSES: u64 = 4;

/// Where an engine builds and trains indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LongWork {
    /// Between two packets: two runs of the same packets take exactly the same steps.
    #[default]
    Inline,
    /// On a thread, while forwarding continues, as in a running switch.
    Thread,
}

/// The cost of long work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LongWorkStatistics {
    /// Finished jobs.
    pub jobs: u64,
    /// Processor time of these jobs.
    pub processor_time: Duration,
}

/// The job in progress on a thread.
struct Running {
    started_at: u64,
    thread: JoinHandle<(Outcome, Duration)>,
}

/// Does the long work of one engine.
#[derive(Default)]
pub(crate) struct LongWorker {
    waiting: VecDeque<Long>,
    running: Option<Running>,
    /// No job starts before this burst.
    next_start: u64,
    statistics: LongWorkStatistics,
}

impl LongWorker {
    /// The cost so far.
    pub(crate) fn statistics(&self) -> LongWorkStatistics {
        self.statistics
    }

    /// Does a job at once.
    pub(crate) fn run(&mut self, long: Long) -> Outcome {
        let (outcome, time) = measured(long);
        self.note(time);
        outcome
    }

    /// Queues a job for the thread.
    pub(crate) fn push(&mut self, long: Long) {
        self.waiting.push_back(long);
    }

    /// Starts the next job at this burst, if allowed; if no thread can be started, does the
    /// job and returns its outcome.
    pub(crate) fn start(&mut self, burst: u64) -> Option<Outcome> {
        // Invariants 1 and 2.
        if self.running.is_some() || burst < self.next_start {
            return None;
        }
        let long = self.waiting.pop_front()?;
        let (give, take) = std::sync::mpsc::channel();
        match spawn("long work".to_owned(), move || {
            let long = take.recv().expect("the starter gives one");
            measured(long)
        }) {
            Ok(thread) => {
                let sent = give.send(long);
                sent.expect("the thread waits for it");
                self.running = Some(Running {
                    started_at: burst,
                    thread,
                });
                None
            }
            // The engine cannot retry later, so its caller waits.
            Err(_) => Some(self.run(long)),
        }
    }

    /// Takes the thread's outcome, if it is finished.
    pub(crate) fn take_finished(&mut self, burst: u64) -> Option<Outcome> {
        let is_finished = |running: &mut Running| running.thread.is_finished();
        let running = self.running.take_if(is_finished)?;
        Some(self.join(running, burst))
    }

    /// Waits for the thread, if there is one.
    pub(crate) fn wait(&mut self, burst: u64) -> Option<Outcome> {
        let running = self.running.take()?;
        Some(self.join(running, burst))
    }

    fn join(&mut self, running: Running, burst: u64) -> Outcome {
        let passed = burst.saturating_sub(running.started_at);
        self.next_start = burst.saturating_add(passed.saturating_mul(PAUSES));
        match running.thread.join() {
            Ok((outcome, time)) => {
                self.note(time);
                outcome
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn note(&mut self, time: Duration) {
        self.statistics.jobs += 1;
        self.statistics.processor_time += time;
    }
}

impl Drop for LongWorker {
    /// Waits for the thread, so that it takes no time from later work.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Its outcome is not needed, and a panic in it no longer matters.
            let _ = running.thread.join();
        }
    }
}

/// Does a job, and measures its processor time on this thread.
fn measured(long: Long) -> (Outcome, Duration) {
    let start = processor_time();
    let outcome = long.run();
    (outcome, processor_time().saturating_sub(start))
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
