//! Lookups on several threads while rules come and go, as in a switch.
//!
//! The classifier is behind a lock, as the tables of a pipeline are: a reader holds it for a burst
//! and looks up at the newest version, as a worker does; the writer looks at what it will change
//! while readers go on, and then takes the lock for a version of up to 32 changes, publishes it and
//! frees what died, before it lets go: a step of the control side (`switch::steps`). The lock lets
//! the writer go first ([`Gate`]). Changes come at a rate by the wall clock: rules of the set that are drawn evenly
//! go, and come back a thousand changes later or so, as the youngest of their priority.
//!
//! A classifier that replaces its index does so in slices under the lock, of which the longest is
//! reported (processor time), and builds the new one on a thread of its own.
//!
//! The cost of a lookup is the readers' processor time, waiting for the lock not included;
//! lookups a second are by the wall clock, with it. Each reader keeps some of its answers with
//! their versions; the oracle is asked about them afterwards.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::{Job, Precedence, RuleId, Tended, Version};
use thalweg_datapath::Gate;

use super::lookups::burst;
use super::oracle::{Event, Oracle};
use super::set::RuleSet;
use super::subject::Subject;
use super::traffic::Trace;
use crate::bench::clock::processor_time_ns;

/// Changes of one version, at most.
const VERSION_MAX: usize = 32;
/// Rules that are away at a time.
const AWAY_MAX: usize = 500;
/// Rules of a slice of a training, or so.
const SLICE: usize = 64;
/// How long the writer sleeps if nothing is due.
const NAP: Duration = Duration::from_micros(200);

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) batch: usize,
    pub(super) threads: usize,
    /// Changes a second.
    pub(super) rate: u64,
    /// How long a sample takes.
    pub(super) sample: Duration,
    pub(super) seed: u64,
}

/// What one sample has shown.
#[derive(Default, Debug)]
pub(super) struct Outcome {
    pub(super) ns_per_lookup: f64,
    pub(super) lookups_per_second: f64,
    pub(super) updates_per_second: f64,
    /// The writer's processor time for a change; 0 without changes.
    pub(super) update_ns: f64,
    /// Trainings of a model that came to an end.
    pub(super) trainings: usize,
    /// The longest time that a slice of a training has held the lock, in microseconds of the
    /// processor: how long others are let run meanwhile is the machine's.
    pub(super) longest_slice_us: f64,
    kept: Vec<Kept>,
}

/// An answer to be checked.
#[derive(Clone, Copy, Debug)]
struct Kept {
    version: Version,
    place: usize,
    answer: Option<RuleId>,
}

/// One reader's account.
struct Read {
    lookups: usize,
    time_ns: u64,
    kept: Vec<Kept>,
}

/// Answers that a reader keeps of one sample.
const KEPT_MAX: usize = 64;

/// Looks up and changes for one sample; gives the classifier back with all its rules.
pub(super) fn sample(
    subject: Subject,
    set: &RuleSet,
    trace: &Trace,
    setting: &Setting,
) -> (Subject, Outcome) {
    let shared = Gate::new(subject);
    let is_over = AtomicBool::new(false);
    let trainings = AtomicUsize::new(0);
    let start = Instant::now();
    let (reads, changes, wall) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..setting.threads)
            .map(|reader| {
                let (shared, is_over) = (&shared, &is_over);
                scope.spawn(move || read(shared, trace, setting, reader, is_over))
            })
            .collect();
        let train = |job: Job| {
            let (shared, trainings) = (&shared, &trainings);
            scope.spawn(move || {
                let is_training = job.rule_count() > 0;
                let outcome = job.run();
                let mut subject = shared.write();
                subject.classifier_mut().install(outcome);
                trainings.fetch_add(usize::from(is_training), Ordering::Relaxed);
            });
        };
        let changes = change(&shared, set, setting, start, train);
        is_over.store(true, Ordering::Relaxed);
        let reads: Vec<Read> = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader does not panic"))
            .collect();
        (reads, changes, start.elapsed())
    });
    let subject = shared.into_inner();
    let lookups: usize = reads.iter().map(|read| read.lookups).sum();
    let time_ns: u64 = reads.iter().map(|read| read.time_ns).sum();
    let per_second = |count: usize| count as f64 / wall.as_secs_f64();
    let outcome = Outcome {
        ns_per_lookup: time_ns as f64 / lookups.max(1) as f64,
        lookups_per_second: per_second(lookups),
        updates_per_second: per_second(changes.done),
        update_ns: changes.time_ns as f64 / changes.done.max(1) as f64,
        longest_slice_us: changes.longest_slice.as_secs_f64() * 1e6,
        trainings: trainings.into_inner(),
        kept: reads.into_iter().flat_map(|read| read.kept).collect(),
    };
    (subject, outcome)
}

/// A reader: bursts until it is over.
fn read(
    shared: &Gate<Subject>,
    trace: &Trace,
    setting: &Setting,
    reader: usize,
    is_over: &AtomicBool,
) -> Read {
    let mut place = reader * trace.len() / setting.threads;
    let mut answers = vec![None; setting.batch];
    let mut read = Read {
        lookups: 0,
        time_ns: 0,
        kept: Vec::new(),
    };
    let mut next_kept = Instant::now();
    let start = processor_time_ns();
    while !is_over.load(Ordering::Relaxed) {
        // The clock is looked at once in sixteen bursts.
        for _ in 0..16 {
            let subject = shared.read();
            let version = subject.version;
            burst(
                subject.classifier(),
                version,
                trace,
                &mut place,
                &mut answers,
            );
            drop(subject);
            read.lookups += answers.len();
            if read.kept.len() < KEPT_MAX && Instant::now() >= next_kept {
                next_kept += setting.sample / KEPT_MAX as u32;
                let nth = read.kept.len() % answers.len();
                read.kept.push(Kept {
                    version,
                    place: place - answers.len() + nth,
                    answer: answers[nth],
                });
            }
        }
    }
    read.time_ns = processor_time_ns() - start;
    read
}

/// What the writer did.
#[derive(Default)]
struct Changes {
    done: usize,
    /// Of the processor, slices of trainings included.
    time_ns: u64,
    longest_slice: Duration,
}

/// The writer: changes at their rate until the time is over, and slices of what trains.
fn change(
    shared: &Gate<Subject>,
    set: &RuleSet,
    setting: &Setting,
    start: Instant,
    train: impl Fn(Job),
) -> Changes {
    let mut random = Pcg64Mcg::seed_from_u64(setting.seed);
    let mut away = Away {
        queue: VecDeque::new(),
        is_away: vec![false; set.len()],
        // Later than all that there were.
        age: shared.read().version.0 << 20 | set.len() as u64,
    };
    let (mut changes, mut has_more) = (Changes::default(), false);
    loop {
        let elapsed = start.elapsed();
        if elapsed >= setting.sample {
            restore(shared, set, &mut away);
            return changes;
        }
        let due = (elapsed.as_secs_f64() * setting.rate as f64) as usize;
        let count = due.saturating_sub(changes.done).min(VERSION_MAX);
        if count == 0 && !has_more {
            std::thread::sleep(NAP.min(setting.sample - elapsed));
            continue;
        }
        let before = processor_time_ns();
        let subject = shared.read();
        let next = subject.version.next();
        let steps = away.draw(count, set, next, &mut random);
        steps.iter().for_each(|step| step.foresee(&subject, set));
        drop(subject);
        changes.done += steps.len();
        let mut subject = shared.write();
        if !steps.is_empty() {
            steps
                .iter()
                .for_each(|step| step.perform(&mut subject, set, next));
            publish(&mut subject, next);
        }
        let slice = processor_time_ns();
        let tended = subject.classifier_mut().tend(SLICE);
        drop(subject);
        let slice = Duration::from_nanos(processor_time_ns() - slice);
        changes.longest_slice = changes.longest_slice.max(slice);
        has_more = !matches!(tended, Tended::Idle);
        if let Tended::Job(job) = tended {
            train(job);
        }
        changes.time_ns += processor_time_ns() - before;
    }
}

/// A change of one rule.
#[derive(Clone, Copy, Debug)]
enum Step {
    Go(u32),
    /// With a precedence that is its own.
    Come(u32, Precedence),
}

impl Step {
    fn foresee(self, subject: &Subject, set: &RuleSet) {
        let classifier = subject.classifier();
        match self {
            Step::Go(rule) => classifier.foresee_removal(RuleId(rule)),
            Step::Come(rule, precedence) => {
                classifier.foresee(set.pattern(rule as usize), precedence);
            }
        }
    }

    fn perform(self, subject: &mut Subject, set: &RuleSet, next: Version) {
        let classifier = subject.classifier_mut();
        let (rule, precedence) = match self {
            Step::Go(rule) => {
                classifier.remove(RuleId(rule), next);
                (rule, None)
            }
            Step::Come(rule, precedence) => {
                let pattern = set.pattern(rule as usize);
                classifier.insert(pattern, precedence, RuleId(rule), next);
                (rule, Some(precedence))
            }
        };
        subject.events.push(Event {
            version: next,
            rule,
            precedence,
        });
    }
}

/// Rules that are not there, since a version; who went first is first.
struct Away {
    queue: VecDeque<(u32, Version)>,
    is_away: Vec<bool>,
    /// Of the last rule that came.
    age: u64,
}

impl Away {
    /// The next changes, so many or one less each time that none is possible: a rule goes, or the
    /// one that went first comes back.
    fn draw(
        &mut self,
        count: usize,
        set: &RuleSet,
        next: Version,
        random: &mut Pcg64Mcg,
    ) -> Vec<Step> {
        let mut steps = Vec::with_capacity(count);
        for _ in 0..count {
            let rule = random.random_range(0..set.len() as u32);
            let has_room = self.queue.len() < AWAY_MAX.min(set.len() / 2);
            if has_room && !self.is_away[rule as usize] {
                self.queue.push_back((rule, next));
                self.is_away[rule as usize] = true;
                steps.push(Step::Go(rule));
                continue;
            }
            // Whoever went at this very version is not reclaimed, so that its id is in use.
            if let Some((rule, _)) = self.queue.pop_front_if(|(_, since)| *since < next) {
                self.is_away[rule as usize] = false;
                steps.push(self.come(rule, set));
            }
        }
        steps
    }

    /// The youngest of its priority comes.
    fn come(&mut self, rule: u32, set: &RuleSet) -> Step {
        self.age += 1;
        let priority = set.precedence(rule as usize).priority();
        Step::Come(rule, Precedence::new(priority, self.age))
    }
}

/// Makes a version the newest; none older is read from now on.
fn publish(subject: &mut Subject, next: Version) {
    subject.classifier_mut().reclaim(next);
    subject.version = next;
}

/// Brings all rules back.
fn restore(shared: &Gate<Subject>, set: &RuleSet, away: &mut Away) {
    let mut subject = shared.write();
    let next = subject.version.next();
    while let Some((rule, _)) = away.queue.pop_front() {
        away.come(rule, set).perform(&mut subject, set, next);
    }
    publish(&mut subject, next);
}

/// Compares what readers have kept with the oracle: how many answers, and how many wrong ones.
pub(super) fn check(
    outcomes: &[Outcome],
    subject: &Subject,
    set: &RuleSet,
    trace: &Trace,
) -> (usize, usize) {
    let mut oracle = Oracle::new(set);
    oracle.follow(&subject.events);
    let kept: Vec<&Kept> = outcomes.iter().flat_map(|outcome| &outcome.kept).collect();
    let is_wrong =
        |kept: &&&Kept| oracle.answer(trace.keys(kept.place, 1), kept.version) != kept.answer;
    (kept.len(), kept.iter().filter(is_wrong).count())
}
