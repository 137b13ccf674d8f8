//! Spreads runs over threads; each thread takes the next run when it has finished one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};
use thalweg_fabric::{Simulation, Time};

use super::files::Traffic;
use super::ledger::{Found, Ledger};
use super::placing;
use super::row::Row;
use super::runs::Run;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::interrupt::say_at_end;

/// Steps of the progress bar for a run.
const RUN_STEPS: u64 = 1_000;

/// Events between two updates of the progress bar.
const EVENTS_A_LOOK: u32 = 1 << 16;

/// The results of all runs.
pub(super) struct Outcome {
    /// The rows, in the order of the runs.
    pub(super) rows: Vec<Row>,
    /// Number of runs found in the ledger.
    pub(super) kept: usize,
    /// Damaged files of the ledger, which have been replaced.
    pub(super) damaged: Vec<PathBuf>,
}

/// Does all runs that are not in the ledger.
///
/// # Errors
/// If a run cannot begin or cannot be kept; reports the first such run.
pub(super) fn run_all(
    runs: &[&Run],
    traffic: &Traffic,
    jobs: usize,
    ledger: Option<&Ledger>,
    console: &Console,
) -> Result<Outcome> {
    let mut rows: Vec<Option<Row>> = Vec::new();
    let mut damaged = Vec::new();
    for run in runs {
        let found = ledger.map_or(Found::Nothing, |ledger| ledger.find(run, traffic));
        rows.push(match found {
            Found::Row(row) => Some(*row),
            Found::Nothing => None,
            Found::Damaged(path) => {
                damaged.push(path);
                None
            }
        });
    }
    let left: Vec<usize> = (0..runs.len())
        .filter(|&index| rows[index].is_none())
        .collect();
    let kept = runs.len() - left.len();
    let done = Arc::new(AtomicUsize::new(kept));
    say_what_is_kept(&done, runs.len(), ledger);
    let progress = console.progress_with_estimate(left.len() as u64 * RUN_STEPS);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<(usize, Result<Row>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(&index) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let row = run_one(runs[index], traffic, ledger, &progress);
                    done.fetch_add(row.is_ok().into(), Ordering::Relaxed);
                    failed.fetch_or(row.is_err(), Ordering::Relaxed);
                    let mut results = results.lock().expect("no thread panics with it");
                    results.push((index, row));
                }
            });
        }
    });
    progress.finish_and_clear();
    let mut results = results.into_inner().expect("no thread panics with it");
    results.sort_by_key(|(index, _)| *index);
    for (index, row) in results {
        rows[index] = Some(row?);
    }
    Ok(Outcome {
        rows: rows.into_iter().flatten().collect(),
        kept,
        damaged,
    })
}

/// Sets the message for an interruption: how many runs are kept, and where.
fn say_what_is_kept(done: &Arc<AtomicUsize>, all: usize, ledger: Option<&Ledger>) {
    let folder = ledger.map(|ledger| ledger.folder().display().to_string());
    let done = Arc::clone(done);
    say_at_end(move || {
        let done = done.load(Ordering::Relaxed);
        match &folder {
            Some(folder) => format!(
                "{done} of {all} runs are done and kept in {folder}; the same command goes on there"
            ),
            None => format!(
                "{done} of {all} runs were done, and none is kept; without --no-ledger they are"
            ),
        }
    });
}

fn run_one(
    run: &Run,
    traffic: &Traffic,
    ledger: Option<&Ledger>,
    progress: &ProgressBar,
) -> Result<Row> {
    progress.set_message(run.text());
    let start = thread_seconds();
    let config = placing::placed(run, traffic)?;
    let simulation = Simulation::new(&config, &traffic.trace);
    let mut simulation = simulation.map_err(bad_input)?;
    let last = traffic.trace.iter().map(|line| line.start).max();
    let mut meter = Meter {
        end: last.unwrap_or(Time::ZERO),
        told: 0,
        progress,
    };
    loop {
        let steps = (0..EVENTS_A_LOOK).take_while(|_| simulation.step()).count();
        meter.tell(simulation.now());
        if steps < EVENTS_A_LOOK as usize {
            break;
        }
    }
    meter.finish();
    let row = Row::new(run, &config, &simulation, thread_seconds() - start);
    if let Some(ledger) = ledger {
        ledger.keep(run, traffic, &row)?;
    }
    Ok(row)
}

/// The progress of a run: its time relative to the start of the trace's last line.
struct Meter<'a> {
    end: Time,
    told: u64,
    progress: &'a ProgressBar,
}

impl Meter<'_> {
    fn tell(&mut self, now: Time) {
        let share = now.as_micros_f64() / self.end.as_micros_f64().max(1e-6);
        let steps = (share * RUN_STEPS as f64) as u64;
        self.advance(steps.min(RUN_STEPS - 1));
    }

    fn advance(&mut self, steps: u64) {
        self.progress.inc(steps.saturating_sub(self.told));
        self.told = self.told.max(steps);
    }

    fn finish(mut self) {
        self.advance(RUN_STEPS);
    }
}

/// Processor seconds of this thread.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
