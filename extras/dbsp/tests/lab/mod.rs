//! The tests' lab: a pipeline and its view, changed by texts and compared with the
//! interpreter.

use thalweg_dbsp::{Answer, End, View, ViewError};
use thalweg_packet::{Headers, Instant, PortId, Receipt};
use thalweg_pipeline::{
    BridgeId, Change, Config, Delta, Effect, FragmentMode, Operation, Pipeline, PortState,
};
use thalweg_pipeline::{StepKind, text, translate};

/// A packet before it is recorded.
pub(crate) struct Frame {
    /// The input port.
    pub(crate) in_port: u32,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// A pipeline, a view of it, and the recorded packets: packet `n` has the number `n`.
pub(crate) struct Lab {
    /// The rules.
    pub(crate) pipeline: Pipeline,
    /// The view under test.
    pub(crate) view: View,
    frames: Vec<Frame>,
    keys: Vec<Vec<u64>>,
}

/// Counts of comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Answers with the same rules and effects.
    pub(crate) same: u64,
    /// Answers with the same rules up to a new parse.
    pub(crate) recirculated: u64,
    /// Answers with the same rules as far as the circuit goes.
    pub(crate) too_deep: u64,
    /// Packets that the view reported as changed.
    pub(crate) changed: u64,
    /// Changes that needed a new view, because keys had a new layout.
    pub(crate) new_layouts: u64,
}

/// A pipeline with these ports and rules.
pub(crate) fn pipeline(ports: impl IntoIterator<Item = u32>, rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        peer: None,
    };
    let ports = ports
        .into_iter()
        .map(|port| Operation::SetPort(PortId(port), state));
    // The query has no other mode.
    let mode = Operation::SetFragments(BridgeId::default(), FragmentMode::NxMatch);
    let change = Change {
        operations: ports.chain([mode]).collect(),
    };
    apply(&mut pipeline, &change);
    let rules = text::parse_rules("rules", rules).expect("generated rules are right");
    apply(&mut pipeline, &rules.into_change());
    pipeline
}

fn apply(pipeline: &mut Pipeline, change: &Change) -> Delta {
    let delta = pipeline.apply(change, Instant::ZERO);
    let delta = delta.expect("generated changes are right");
    // Rule numbers are reused, as in a running switch.
    pipeline.reclaim(delta.version);
    delta
}

/// The key of a packet; `None` if it is too malformed to have one.
pub(crate) fn key_of(pipeline: &Pipeline, frame: &Frame) -> Option<Vec<u64>> {
    let layout = pipeline.layout();
    let headers = Headers::parse(&frame.bytes).ok()?;
    let mut key = vec![0; layout.ingress_words()];
    let receipt = Receipt::from_port(frame.in_port);
    layout.extract(&frame.bytes, &headers, &receipt, &mut key);
    Some(key)
}

impl Lab {
    /// Records the packets over the rules; packets without headers are skipped.
    pub(crate) fn new(
        pipeline: Pipeline,
        frames: Vec<Frame>,
        steps: usize,
    ) -> Result<Lab, ViewError> {
        let mut frames = frames;
        frames.retain(|frame| key_of(&pipeline, frame).is_some());
        let mut lab = Lab {
            view: View::new(&pipeline, steps)?,
            pipeline,
            frames,
            keys: Vec::new(),
        };
        lab.record();
        Ok(lab)
    }

    fn record(&mut self) {
        let keys = self
            .frames
            .iter()
            .map(|frame| key_of(&self.pipeline, frame).expect("others are left out"));
        self.keys = keys.collect();
        let numbered = (0..).zip(self.keys.iter().map(|key| &key[..]));
        let changed = self.view.record(numbered).expect("the circuit runs");
        assert_eq!(changed.len(), self.keys.len());
    }

    /// Applies a change, lets the view follow, and compares every answer.
    pub(crate) fn change(&mut self, text: &str, counts: &mut Counts, context: &str) {
        let before: Vec<Answer> = self.answers();
        let changes = text::parse_changes("change", text);
        let changes = changes.unwrap_or_else(|errors| panic!("{context}: {errors:?}"));
        for placed in changes {
            let delta = apply(&mut self.pipeline, &placed.change);
            if delta.has_new_layout {
                assert!(self.view.follow(&self.pipeline, &delta).is_err());
                let steps = self.view.step_count();
                self.view = View::new(&self.pipeline, steps).expect("rules are modelled");
                self.record();
                counts.new_layouts += 1;
                continue;
            }
            let followed = self.view.follow(&self.pipeline, &delta);
            let changed = followed.unwrap_or_else(|error| panic!("{context}: {error}"));
            counts.changed += changed.len() as u64;
            for (entry, (before, after)) in (0_u32..).zip(before.iter().zip(self.answers())) {
                let is_told = changed.binary_search(&entry).is_ok();
                assert!(is_told || *before == after, "{context}: entry {entry}");
            }
        }
        self.compare(counts, context);
    }

    fn answers(&self) -> Vec<Answer> {
        let all = 0..self.keys.len() as u32;
        all.map(|entry| self.view.answer(entry).expect("it is recorded"))
            .collect()
    }

    /// Compares every answer with the interpreter's.
    pub(crate) fn compare(&self, counts: &mut Counts, context: &str) {
        for ((answer, key), frame) in self.answers().iter().zip(&self.keys).zip(&self.frames) {
            let translation = translate(&self.pipeline, key, self.pipeline.version());
            let lookups = translation.trace.kinds().map(|kind| match kind {
                StepKind::Lookup { table, rule } => (table, rule),
                other => panic!("{context}: {other:?} is not modelled"),
            });
            let lookups: Vec<_> = lookups.collect();
            let context = format!("{context}: {:x?}", frame.bytes);
            let shown = lookups.len().min(self.view.step_count());
            assert_eq!(answer.lookups, lookups[..shown], "{context}");
            let is_deeper = lookups.len() > shown;
            let recirculates = translation.effects.iter().any(Effect::recirculates);
            match &answer.end {
                End::TooDeep => {
                    assert!(is_deeper, "{context}");
                    counts.too_deep += 1;
                }
                End::Recirculates => {
                    assert!(!is_deeper && recirculates, "{context}");
                    counts.recirculated += 1;
                }
                End::Floods => assert!(!is_deeper && !recirculates, "{context}"),
                End::Effects(effects) => {
                    assert!(!is_deeper, "{context}");
                    assert_eq!(*effects, without_senders(translation.effects), "{context}");
                    counts.same += 1;
                }
            }
        }
    }
}

/// The effects as the query gives them: it does not say what sends a packet to the controller.
fn without_senders(mut effects: Vec<Effect>) -> Vec<Effect> {
    for effect in &mut effects {
        if let Effect::Controller { sender, .. } = effect {
            *sender = None;
        }
    }
    effects
}
