//! Measures lookups on several threads while rules change, as in a switch.
//!
//! The classifier is behind a lock, like the tables of a pipeline. A reader holds the lock for
//! a burst and looks up at the newest version, as a worker does. The writer reads what it will
//! change while readers continue. Then it takes the lock, makes a version of up to 32 changes,
//! publishes it and frees dead rules: a step of the control side (`switch::steps`). The lock
//! lets the writer go first ([`Gate`]). Changes come at a wall-clock rate. Evenly drawn rules
//! of the set are removed, and return about a thousand changes later as the youngest of their
//! priority.
//!
//! A classifier replaces its index in slices under the lock; the longest one is reported
//! (processor time). It builds the new index on another thread.
//!
//! The cost of a lookup is the readers' processor time, without waiting for the lock. Lookups
//! per second are by the wall clock and include waiting. Each reader keeps some of its answers
//! with their versions, and the oracle checks them afterwards.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::{IndexJob, Precedence, RuleId, Tending, Version};
use thalweg_datapath::Gate;

use super::lookups::burst;
use super::oracle::{Event, Oracle};
use super::set::RuleSet;
use super::subject::Subject;
use super::traffic::Trace;
use crate::clock::processor_time_ns;

/// Most changes in a version.
const VERSION_MAX: usize = 32;
/// Most rules that are removed at a time.
const AWAY_MAX: usize = 500;
/// Approximate number of rules in a slice of a training.
const SLICE: usize = 64;
/// The writer's sleep if no change is due.
const NAP: Duration = Duration::from_micros(200);

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) batch: usize,
    pub(super) threads: usize,
    /// Changes per second.
    pub(super) rate: u64,
    /// Length of a sample.
    pub(super) sample: Duration,
    pub(super) seed: u64,
}

/// The results of one sample.
#[derive(Default, Debug)]
pub(super) struct Outcome {
    pub(super) ns_per_lookup: f64,
    pub(super) lookups_per_second: f64,
    pub(super) updates_per_second: f64,
    /// The writer's processor time per change; 0 without changes.
    pub(super) update_ns: f64,
    /// Finished trainings of a model.
    pub(super) trainings: usize,
    /// The longest time that a slice of a training held the lock, in microseconds of processor
    /// time. Wall-clock time would include other threads' turns.
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

/// One reader's results.
struct Read {
    lookups: usize,
    time_ns: u64,
    kept: Vec<Kept>,
}

/// Answers that a reader keeps per sample.
const KEPT_MAX: usize = 64;

/// Looks up and changes rules for one sample; returns the classifier with all its rules.
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
        let train = |job: IndexJob| {
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

/// A reader: looks up bursts until the sample is over.
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
        // The clock is read once in sixteen bursts.
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

/// The writer's results.
#[derive(Default)]
struct Changes {
    done: usize,
    /// Processor time, including slices of trainings.
    time_ns: u64,
    longest_slice: Duration,
}

/// The writer: makes changes at their rate until the sample is over, and does slices of
/// trainings.
fn change(
    shared: &Gate<Subject>,
    set: &RuleSet,
    setting: &Setting,
    start: Instant,
    train: impl Fn(IndexJob),
) -> Changes {
    let mut random = Pcg64Mcg::seed_from_u64(setting.seed);
    let mut away = Away {
        queue: VecDeque::new(),
        is_away: vec![false; set.len()],
        // Later than all ages so far.
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
        has_more = !matches!(tended, Tending::Idle);
        if let Tending::Job(job) = tended {
            train(job);
        }
        changes.time_ns += processor_time_ns() - before;
    }
}

/// A change of one rule.
#[derive(Clone, Copy, Debug)]
enum Step {
    Go(u32),
    /// With a new precedence.
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

/// Removed rules with the version of their removal, oldest first.
struct Away {
    queue: VecDeque<(u32, Version)>,
    is_away: Vec<bool>,
    /// Age of the last rule that returned.
    age: u64,
}

impl Away {
    /// Draws the next changes: each removes a rule, or returns the one removed longest ago.
    /// There are at most `count`, and one fewer for each draw that allows neither.
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
            // A rule removed at this very version is not reclaimed yet, so its id is still in
            // use.
            if let Some((rule, _)) = self.queue.pop_front_if(|(_, since)| *since < next) {
                self.is_away[rule as usize] = false;
                steps.push(self.come(rule, set));
            }
        }
        steps
    }

    /// Returns a rule as the youngest of its priority.
    fn come(&mut self, rule: u32, set: &RuleSet) -> Step {
        self.age += 1;
        let priority = set.precedence(rule as usize).priority();
        Step::Come(rule, Precedence::new(priority, self.age))
    }
}

/// Makes a version the newest; older ones are not read from now on.
fn publish(subject: &mut Subject, next: Version) {
    subject.classifier_mut().reclaim(next);
    subject.version = next;
}

/// Returns all rules.
fn restore(shared: &Gate<Subject>, set: &RuleSet, away: &mut Away) {
    let mut subject = shared.write();
    let next = subject.version.next();
    while let Some((rule, _)) = away.queue.pop_front() {
        away.come(rule, set).perform(&mut subject, set, next);
    }
    publish(&mut subject, next);
}

/// Checks the readers' kept answers with the oracle; returns the number of answers and of
/// wrong ones.
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
