//! A pipeline with four ports and some rules.

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{Change, Config, Operation, Pipeline, PortState};

/// The pipeline; its ports 1 to 4 are up and flood.
pub(crate) fn pipeline(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=4).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", rules).expect("right rules");
    let operations = ports.chain(rules.into_change().operations).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the rules can be loaded");
    pipeline
}
