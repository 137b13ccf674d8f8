//! Differences from Open vSwitch that are known and meant: see
//! `docs/differences-from-open-vswitch.md`, which has an example of each under the same name.
//!
//! A difference is explained only by something seen in the case itself, so that another one does
//! not hide behind it. All are counted.

use super::answer::Answer;
use super::switches::Observation;

/// The datapath's number of the local port, which the dummy datapath gives to `br0`.
pub(super) const LOCAL: u32 = 100;

/// A known difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Explanation {
    /// Flooding leaves out the local port.
    LocalPort,
}

impl Explanation {
    /// The title in the document.
    pub(super) fn title(self) -> &'static str {
        match self {
            Explanation::LocalPort => "flooding leaves out the local port",
        }
    }
}

/// What of `observation` is explained; empty if the answers differ for no known reason.
pub(super) fn explain(observation: &Observation) -> Vec<Explanation> {
    let mut explanations = Vec::new();
    let theirs = without_local(&observation.theirs);
    if theirs.sent.len() != observation.theirs.sent.len() {
        explanations.push(Explanation::LocalPort);
    }
    if theirs == observation.ours {
        return explanations;
    }
    Vec::new()
}

fn without_local(answer: &Answer) -> Answer {
    let mut answer = answer.clone();
    answer.sent.retain(|(port, _)| *port != LOCAL);
    answer
}
