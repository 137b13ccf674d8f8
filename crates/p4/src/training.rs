//! Builds better indexes for tables and segments while packets continue.
//!
//! A classifier that may choose or train its index
//! ([`ClassifierKind`](thalweg_classifier::ClassifierKind)) says what must be done
//! ([`Classifier::tend`]). This is either a slice of copying or updating, which runs between
//! packets, or a long job that needs only its own input. A long job of few rules runs at once.
//! A larger one is a value, [`IndexJob`]: the owner of the target takes it, runs it where there
//! is time, and brings the result back. Answers are the same before, during and after, so the
//! timing does not matter.

use std::sync::Arc;

use thalweg_classifier::{BuiltIndex, Classifier, IndexJob, Tending};

/// Approximate number of rules that a slice looks at.
const STEPS: usize = 4_096;
/// A job of more rules than this is handed out.
const RULES_IN_PLACE: usize = 4_096;

/// A classifier of a target.
pub(crate) type Any = dyn Classifier + Send + Sync;

/// The target that an index is built for: [`Target::take_training`](crate::Target::take_training).
#[derive(Clone, Debug)]
pub struct TargetOwner(Arc<()>);

/// Maintenance of several classifiers, identified by their order.
///
/// It hands out one long job at a time; while one is out or waiting, it starts nothing else.
#[derive(Debug, Default)]
pub(crate) struct Trainer {
    /// Identifies the jobs that it handed out.
    own: Arc<()>,
    /// The classifier for which a job was handed out.
    given: Option<usize>,
    waiting: Option<IndexJob>,
}

impl Trainer {
    /// Does a slice for each classifier that needs one.
    pub(crate) fn tend<'c>(&mut self, classifiers: impl Iterator<Item = &'c mut Any>) {
        for (number, classifier) in classifiers.enumerate() {
            if self.given.is_some() {
                return;
            }
            match classifier.tend(STEPS) {
                Tending::Idle | Tending::More => {}
                Tending::Job(job) if job.rule_count() <= RULES_IN_PLACE => {
                    classifier.install(job.run());
                }
                Tending::Job(job) => (self.given, self.waiting) = (Some(number), Some(job)),
            }
        }
    }

    /// Takes the waiting job.
    pub(crate) fn take(&mut self) -> Option<IndexJob<TargetOwner>> {
        let owner = TargetOwner(self.own.clone());
        Some(self.waiting.take()?.for_owner(owner))
    }

    /// Installs the result of its own job; returns any other result.
    pub(crate) fn install<'c>(
        &mut self,
        index: BuiltIndex<TargetOwner>,
        mut classifiers: impl Iterator<Item = &'c mut Any>,
    ) -> Option<BuiltIndex<TargetOwner>> {
        if !Arc::ptr_eq(&index.owner().0, &self.own) {
            return Some(index);
        }
        if let Some(classifier) = self.given.take().and_then(|place| classifiers.nth(place)) {
            classifier.install(index.without_owner());
        }
        None
    }

    /// Reports that a taken job will not come back, so that it is offered again.
    pub(crate) fn forget<'c>(&mut self, mut classifiers: impl Iterator<Item = &'c mut Any>) {
        let taken = self.given.take_if(|_| self.waiting.is_none());
        if let Some(classifier) = taken.and_then(|place| classifiers.nth(place)) {
            classifier.forget_job();
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_classifier::{
        ClassifierKind, IndexKind, LearnedConfig, Pattern, Precedence, RuleId, Version,
    };

    use super::*;

    fn insert(classifier: &mut Any, numbers: std::ops::Range<u32>) {
        let version = Version(1 + u64::from(numbers.start));
        for number in numbers {
            let (value, mask) = (&[u64::from(number) << 40], &[u64::MAX]);
            let precedence = Precedence::new(1, number.into());
            let id = RuleId(number);
            classifier.insert(Pattern { value, mask }, precedence, id, version);
        }
        classifier.reclaim(version);
    }

    /// The job that is offered within some slices.
    fn next(trainer: &mut Trainer, classifier: &mut Any) -> Option<IndexJob<TargetOwner>> {
        (0..100).find_map(|_| {
            trainer.tend(std::iter::once(&mut *classifier));
            trainer.take()
        })
    }

    #[test]
    fn long_work_is_given_once_and_known_again() {
        let LearnedConfig { tuples, fields, .. } = LearnedConfig::flat(1, 1);
        let mut classifier = ClassifierKind::Learned.build(tuples, fields, 16);
        insert(&mut *classifier, 0..10_000);
        let mut trainer = Trainer::default();
        let lost = next(&mut trainer, &mut *classifier).expect("a training");
        assert!(lost.rule_count() > RULES_IN_PLACE);
        assert!(
            next(&mut trainer, &mut *classifier).is_none(),
            "one is away"
        );
        let mut other = Trainer::default();
        let foreign = other.install(lost.run(), std::iter::empty());
        assert!(foreign.is_some(), "it is someone else's");
        trainer.forget(std::iter::once(&mut *classifier));
        assert!(next(&mut trainer, &mut *classifier).is_none(), "too soon");
        insert(&mut *classifier, 10_000..11_000);
        let index = next(&mut trainer, &mut *classifier)
            .expect("it is given again")
            .run();
        let rest = trainer.install(index, std::iter::once(&mut *classifier));
        assert!(rest.is_none());
        while trainer.take().is_none() && !matches!(classifier.tend(STEPS), Tending::Idle) {}
        let choice = classifier.choice().expect("it is trained");
        assert_eq!(choice.kind, IndexKind::Learned);
    }
}
