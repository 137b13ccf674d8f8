//! Times lookups on one thread, and compares some lookups with the oracle's answers.
//!
//! A sample is as many bursts as fit into its processor time. It begins in the trace where the
//! previous sample ended. Otherwise, slow classifiers would see the same small part of the
//! trace each time.

use std::hint::black_box;

use thalweg_classifier::{Classifier, RuleId, Version};

use super::oracle::Oracle;
use super::traffic::{Flows, Trace};
use crate::clock::processor_time_ns;

/// Approximate nanoseconds between two readings of the clock.
const CHUNK_NS: u64 = 200_000;

/// Looks up the trace in bursts from `place` on, within a time budget; returns nanoseconds per
/// lookup.
pub(super) fn sample(
    classifier: &dyn Classifier,
    version: Version,
    trace: &Trace,
    batch: usize,
    place: &mut usize,
    budget_ns: u64,
) -> f64 {
    let mut answers = vec![None; batch];
    let (mut lookups, mut chunk) = (0, 1);
    let start = processor_time_ns();
    let mut now = start;
    while now - start < budget_ns {
        for _ in 0..chunk {
            burst(classifier, version, trace, place, &mut answers);
        }
        lookups += chunk * batch;
        let before = std::mem::replace(&mut now, processor_time_ns());
        if now - before < CHUNK_NS / 2 {
            chunk *= 2;
        }
    }
    (now - start) as f64 / lookups as f64
}

/// Looks up one burst; a burst of one key is a plain lookup.
#[inline]
pub(super) fn burst(
    classifier: &dyn Classifier,
    version: Version,
    trace: &Trace,
    place: &mut usize,
    answers: &mut [Option<RuleId>],
) {
    if *place + answers.len() > trace.len() {
        *place = 0;
    }
    let keys = trace.keys(*place, answers.len());
    match answers {
        [answer] => *answer = classifier.lookup(keys, version),
        _ => classifier.lookup_batch(keys, version, answers),
    }
    black_box(&answers);
    *place += answers.len();
}

/// Some flows with their correct answers.
pub(super) struct Checks {
    keys: Vec<u64>,
    expected: Vec<Option<RuleId>>,
}

impl Checks {
    /// Asks the oracle about evenly spaced flows.
    pub(super) fn new(oracle: &Oracle<'_>, flows: &Flows, version: Version) -> Checks {
        let count = oracle.affordable().min(flows.len());
        let chosen = (0..count).map(|place| place * flows.len() / count);
        let (mut keys, mut expected) = (Vec::new(), Vec::new());
        for flow in chosen {
            keys.extend_from_slice(flows.key(flow));
            expected.push(oracle.answer(flows.key(flow), version));
        }
        Checks { keys, expected }
    }

    /// Number of answers.
    pub(super) fn len(&self) -> usize {
        self.expected.len()
    }

    /// Number of wrong answers of a classifier, one by one or in bursts.
    pub(super) fn wrong(&self, classifier: &dyn Classifier, version: Version) -> usize {
        let words = self.keys.len() / self.len();
        let mut in_bursts = vec![None; self.len()];
        let keys = self.keys.chunks(32 * words);
        for (keys, answers) in keys.zip(in_bursts.chunks_mut(32)) {
            classifier.lookup_batch(keys, version, answers);
        }
        let one_by_one = self.keys.chunks_exact(words);
        let one_by_one = one_by_one.map(|key| classifier.lookup(key, version));
        let answers = one_by_one.zip(in_bursts).zip(&self.expected);
        let is_wrong = |((one, other), right): &((_, _), &_)| one != *right || other != *right;
        answers.filter(is_wrong).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::set::RuleSet;
    use super::super::subject::{Kind, Subject};
    use super::*;

    #[test]
    fn a_classifier_that_lacks_a_rule_is_found_out() {
        let set = RuleSet::read("fw1-400", None, 1).expect("a set");
        let flows = Flows::draw(&set, 2_000, 1);
        let mut subject = Subject::build(Kind::MergedTuples, &set, 2_000, 1);
        let version = subject.version;
        let checks = Checks::new(&Oracle::new(&set), &flows, version);
        assert_eq!(checks.wrong(subject.classifier(), version), 0);
        let met = checks.expected.iter().flatten().next();
        let met = *met.expect("flows meet rules");
        subject.classifier_mut().remove(met, version.next());
        assert_eq!(checks.wrong(subject.classifier(), version), 0);
        let wrong = checks.wrong(subject.classifier(), version.next());
        let of_it = checks.expected.iter().filter(|rule| **rule == Some(met));
        assert_eq!(wrong, of_it.count());
    }
}
