//! The shared table under a model check: the checker chooses which thread runs next.
//!
//! A build with `--cfg thalweg_model` takes the locks from shuttle (Burckhardt and others, A
//! Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010): all threads
//! are one, and at each lock the checker chooses the next. `cargo xtask test` makes that build.
//!
//! ```text
//!   RUSTFLAGS="--cfg thalweg_model" cargo test --profile tested \
//!       --target-dir target/model -p thalweg-conntrack --lib model
//! ```
//!
//! 1. What the threads are answered is what the twin (`reference.rs`) answers if the calls come
//!    one after another, in some order in which each call comes after those that had returned
//!    when it began. So are the bytes that leave, and the connections that are there at the end.
//! 2. At the end each index has its tuples, and every admitted connection was released or is
//!    there, also where the table was full and connections turned around.
//! 3. No thread waits for ever: the checker knows what each waits for.
//!
//! These tests can fail: they find a reply tuple that is not looked up again under both locks,
//! locks taken in another order, and a stale reference that is taken for a connection.
//!
//! `force` and a full table are not under 1: there a connection ends before the next one enters,
//! and a lookup in between finds none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{MaxSteps, Runner, thread};

use super::translation::{DESTINATION, SOURCE, fight};
use super::*;
use crate::ConnectionEntry;
use crate::reference::Reference;
use crate::tests::{commit_nat, nat, packet};

/// Executions of each kind.
const EXECUTIONS: usize = 3_000;
/// Threads of an execution.
const THREADS: usize = 3;
/// Calls of each thread.
const CALLS: usize = 3;

/// A call of the tracker.
#[derive(Clone, Debug)]
enum Call {
    Track(Vec<u8>, TrackRequest),
    FlushTuple(Tuple),
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Tracked(Tracked, Vec<u8>),
    Flushed(bool),
}

/// A call that has returned.
#[derive(Clone, Debug)]
struct Returned {
    call: Call,
    outcome: Outcome,
    /// Moments at which it began and returned.
    span: (usize, usize),
}

fn draw(end: usize) -> usize {
    thread_rng().gen_range(0..end)
}

impl Call {
    /// A call about one of a few connections, whose translated tuples are in many shards.
    fn random() -> Call {
        let client = ["10.0.0.1", "10.0.0.2"][draw(2)];
        let port = [1_024, 1_025][draw(2)];
        let outside = "192.0.2.1";
        let inside = tuple(client, port, "10.0.0.9", 80);
        let about = match draw(5) {
            0 => tuple("10.0.0.9", 80, outside, port),
            1 => inside.reversed(),
            _ => inside,
        };
        let public = Some((outside, outside));
        let request = match draw(6) {
            0 => return Call::FlushTuple(about),
            1 => commit_nat(SOURCE, public, Some((1_024, 1_025))),
            2 => commit_nat(SOURCE, public, None),
            3 => commit_nat(DESTINATION, Some(("10.0.0.8", "10.0.0.9")), None),
            4 => commit(0),
            _ => nat(),
        };
        Call::Track(packet(&about).build(), request)
    }

    fn of_tracker(&self, stage: &Stage) -> Outcome {
        match self {
            Call::Track(frame, request) => {
                let mut frame = frame.clone();
                let tracked = stage.pass(&mut frame, request, Previous::default());
                Outcome::Tracked(tracked, frame)
            }
            Call::FlushTuple(tuple) => {
                Outcome::Flushed(stage.tracker.flush_tuple(tuple, stage.now))
            }
        }
    }

    fn of_twin(&self, twin: &mut Reference, now: Instant) -> Outcome {
        match self {
            Call::Track(frame, request) => {
                let mut frame = frame.clone();
                let tracked = twin.track(&mut frame, request, Previous::default(), now, 1);
                Outcome::Tracked(tracked, frame)
            }
            Call::FlushTuple(tuple) => Outcome::Flushed(twin.flush_tuple(tuple, now)),
        }
    }
}

/// Whether the twin answers `left` as the tracker did, in some order after those of `made`, and
/// has `entries` then.
fn is_explained(
    config: Config,
    stage: &Stage,
    made: &mut Vec<Returned>,
    left: &[Returned],
    entries: &[ConnectionEntry],
) -> bool {
    let mut twin = Reference::new(config);
    for returned in made.iter() {
        if returned.call.of_twin(&mut twin, stage.now) != returned.outcome {
            return false;
        }
    }
    if left.is_empty() {
        return twin.entries(stage.now) == entries;
    }
    (0..left.len()).any(|at| {
        let next = &left[at];
        // A call that had returned before this one began comes first.
        if left.iter().any(|other| other.span.1 < next.span.0) {
            return false;
        }
        let rest: Vec<Returned> = [&left[..at], &left[at + 1..]].concat();
        made.push(next.clone());
        let is_explained = is_explained(config, stage, made, &rest, entries);
        made.pop();
        is_explained
    })
}

/// Calls of some threads at once, which some order of the twin explains.
fn execution() {
    let config = Config {
        shard_count: 4,
        seed: draw(4) as u64,
        ..Config::default()
    };
    let stage = Arc::new(Stage::with(config));
    let returned: Arc<Mutex<Vec<Returned>>> = Arc::default();
    let moments = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (stage, returned, moments) = (stage.clone(), returned.clone(), moments.clone());
            let calls: Vec<Call> = (0..CALLS).map(|_| Call::random()).collect();
            thread::spawn(move || {
                for call in calls {
                    let begin = moments.fetch_add(1, Ordering::SeqCst);
                    let outcome = call.of_tracker(&stage);
                    let end = moments.fetch_add(1, Ordering::SeqCst);
                    let span = (begin, end);
                    // Held over no lock of the tracker, so the checker does not see it.
                    let mut returned = returned.lock().expect("no thread panics with it");
                    returned.push(Returned {
                        call,
                        outcome,
                        span,
                    });
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("it has not panicked");
    }
    stage.tracker.assert_whole();
    let returned = returned.lock().expect("no thread panics with it");
    let overlaps = returned.iter().filter(|one| one.span.1 > one.span.0 + 1);
    OVERLAPS.fetch_add(overlaps.count(), Ordering::SeqCst);
    let entries = stage.entries();
    assert!(
        is_explained(config, &stage, &mut Vec::new(), &returned, &entries),
        "no order explains {returned:#?}"
    );
}

/// Calls that began or returned during another, in all executions.
static OVERLAPS: AtomicUsize = AtomicUsize::new(0);

/// Threads that commit, turn around, translate, flush and expire in a full table.
fn execution_of_a_fight() {
    let stage = Arc::new(Stage::with(Config {
        shard_count: 4,
        max_connections: 3,
        ..Config::default()
    }));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (stage, seed) = (stage.clone(), thread_rng().gen_range(0..u64::MAX));
            thread::spawn(move || fight(&stage, seed, 12))
        })
        .collect();
    for thread in threads {
        thread.join().expect("it has not panicked");
    }
    stage.tracker.assert_whole();
    let counters = stage.tracker.counters();
    let ended = counters.expired + counters.evicted + counters.replaced + counters.flushed;
    let left = stage.tracker.connection_count();
    assert_eq!(counters.committed, ended + u64::from(left), "invariant 7");
    assert!(left <= 3);
}

fn run(scheduler: impl Scheduler + 'static, work: fn()) {
    let mut config = shuttle::Config::default();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    // Property 3, for a thread that tries again for ever.
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(scheduler, config).run(work);
}

#[test]
fn some_order_explains_any_choice_of_threads() {
    let before = OVERLAPS.load(Ordering::SeqCst);
    run(RandomScheduler::new_from_seed(1, EXECUTIONS), execution);
    let overlaps = OVERLAPS.load(Ordering::SeqCst) - before;
    assert!(overlaps > EXECUTIONS, "only {overlaps} calls overlapped");
}

#[test]
fn some_order_explains_few_changes_of_priority() {
    for depth in [2, 3, 5] {
        let scheduler = PctScheduler::new_from_seed(depth as u64, depth, EXECUTIONS / 3);
        run(scheduler, execution);
    }
}

#[test]
fn a_fight_leaves_a_whole_table() {
    let random = RandomScheduler::new_from_seed(2, EXECUTIONS / 3);
    run(random, execution_of_a_fight);
    let scheduler = PctScheduler::new_from_seed(4, 4, EXECUTIONS / 3);
    run(scheduler, execution_of_a_fight);
}
