//! Better indexes for tables and for segments, while packets go on.
//!
//! A classifier that may choose or train its index ([`ClassifierKind`](thalweg_classifier::ClassifierKind))
//! says what is to be done ([`Classifier::tend`]): a slice of copying or bringing up to date, which
//! is done between packets, or a long part, which needs nothing but what it was given. A long part
//! of few rules is done at once, of more on a thread. Answers are the same before, meanwhile, and
//! after, so that it does not matter when a thread is done.

use std::thread::JoinHandle;

use thalweg_classifier::{Classifier, Job, Outcome, Tended};

/// Rules that a slice looks at, or so.
const STEPS: usize = 4_096;
/// A job of more rules is done on a thread.
const RULES_IN_PLACE: usize = 4_096;

/// What is being done for some classifiers, which are known by their order.
#[derive(Debug, Default)]
pub(crate) struct Trainer {
    /// For which one, and by whom.
    under_way: Option<(usize, JoinHandle<Outcome>)>,
}

impl Trainer {
    /// Does a slice for each classifier that has something to do.
    pub(crate) fn tend<'c>(
        &mut self,
        classifiers: impl Iterator<Item = &'c mut (dyn Classifier + Send + Sync)>,
    ) {
        for (number, classifier) in classifiers.enumerate() {
            if let Some((_, thread)) = self.under_way.take_if(|(of, _)| *of == number) {
                if !thread.is_finished() {
                    self.under_way = Some((number, thread));
                    continue;
                }
                match thread.join() {
                    Ok(outcome) => classifier.install(outcome),
                    Err(_) => classifier.forget_job(),
                }
            }
            // One at a time.
            if self.under_way.is_some() {
                continue;
            }
            match classifier.tend(STEPS) {
                Tended::Idle | Tended::More => {}
                Tended::Job(job) if job.rule_count() <= RULES_IN_PLACE => {
                    classifier.install(job.run());
                }
                Tended::Job(job) => self.start(number, job, classifier),
            }
        }
    }

    fn start(&mut self, number: usize, job: Job, classifier: &mut dyn Classifier) {
        let thread = std::thread::Builder::new().name("p4-training".to_owned());
        match thread.spawn(move || job.run()) {
            Ok(thread) => self.under_way = Some((number, thread)),
            Err(_) => classifier.forget_job(),
        }
    }
}
