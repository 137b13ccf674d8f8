//! The input of every pass of the demonstration: rules, packets, and changes between them.
//!
//! ```text
//!   packets  0% ......... 30% ........ 50% ......... 60% ........ 80% ........ 100%
//!               quiet         routes       quiet         access       quiet
//!                             flap                       list grows
//! ```

use std::ops::Range;

use anyhow::{Result, anyhow};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::text::{PlacedChange, parse_changes, parse_rules};
use thalweg_workload::{
    ChangeMix, ChangeSource, FlowConfig, OfdConfig, Pipeline, Sequence, WorkloadError,
    changes_text, draw_flows,
};

use super::Arguments;
use thalweg_command::workload::refused;

/// When the changes of each kind happen, in percent of the packets.
const ROUTE_FLAPS: Range<u64> = 30..50;
const ACL_INSERTS: Range<u64> = 60..80;

/// Divisor that shortens the generator's access list.
///
/// Its rules match many fields, so the number of masks grows with its length. At the
/// generator's share (two rules in five) there are more masks than a cache admits, and the
/// demonstration would show mainly that.
const ACL_SHARE: usize = 16;

/// A workload, ready for an engine.
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) ports: Vec<PortId>,
    /// The change that loads the rules.
    pub(super) rules: thalweg_pipeline::Change,
    pub(super) rule_count: usize,
    pub(super) table_count: usize,
    /// One packet per flow, with its ingress port.
    pub(super) flows: Vec<Packet>,
    /// The flow of each packet, in order.
    pub(super) sequence: Vec<u32>,
    /// Number of different flows in the sequence.
    pub(super) flows_seen: usize,
    /// Changes, sorted by position.
    pub(super) changes: Vec<PlacedChange>,
    /// The phases of changes.
    pub(super) phases: Vec<Phase>,
}

/// A range of packets in which the rules change.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) packets: Range<u64>,
}

impl Scenario {
    /// Generates everything.
    ///
    /// # Errors
    /// If no workload of the requested sizes exists.
    pub(super) fn generate(arguments: &Arguments) -> Result<Scenario> {
        let seed = arguments.seed;
        let pipeline = generate_pipeline(arguments.rules, seed);
        let pipeline = pipeline.map_err(|error| refused("--rules", &error))?;
        let drawn = draw_flows(&pipeline, &FlowConfig::new(arguments.flows, seed));
        let drawn = drawn.map_err(|error| refused("--flows", &error))?;
        let flows = drawn.iter().map(|(flow, _)| {
            let mut packet = Packet::from_bytes(&flow.packet(arguments.length.into()));
            packet.set_received(PortId(flow.in_port), Instant::ZERO);
            packet
        });
        let flows: Vec<Packet> = flows.collect();
        let kind = arguments.locality.sequence_kind();
        let sequence = Sequence::new(kind, flows.len(), seed);
        let sequence = sequence.map_err(|error| refused("--flows or --exponent", &error))?;
        let sequence: Vec<u32> = sequence
            .take(arguments.packets)
            .map(|flow| flow as u32)
            .collect();
        let rules = parse_rules("the generated pipeline", &pipeline.rules_text());
        let phases = phases(arguments.packets as u64);
        Ok(Scenario {
            seed,
            ports: pipeline.ports.iter().copied().map(PortId).collect(),
            rules: rules.map_err(first_of)?.into_change(),
            rule_count: pipeline.rules.len(),
            table_count: pipeline.tables.len(),
            flows_seen: count_seen(&sequence, flows.len()),
            flows,
            sequence,
            changes: draw_changes(&pipeline, arguments, &phases)?,
            phases,
        })
    }
}

/// An OFD pipeline with few access-list rules beside its routes and hosts, as in a network's
/// core.
fn generate_pipeline(rules: usize, seed: u64) -> Result<Pipeline, WorkloadError> {
    let mut config = OfdConfig::with_rules(rules, seed)?;
    let acl_rules = config.acl_rules / ACL_SHARE;
    config.routes += config.acl_rules - acl_rules;
    config.acl_rules = acl_rules;
    config.generate()
}

fn phases(packets: u64) -> Vec<Phase> {
    let at = |percent: Range<u64>| packets * percent.start / 100..packets * percent.end / 100;
    vec![
        Phase {
            name: "routes flap",
            packets: at(ROUTE_FLAPS),
        },
        Phase {
            name: "access list grows",
            packets: at(ACL_INSERTS),
        },
    ]
}

/// Draws half of the changes for each phase, evenly spread over it.
fn draw_changes(
    pipeline: &Pipeline,
    arguments: &Arguments,
    phases: &[Phase],
) -> Result<Vec<PlacedChange>> {
    let mixes = [ChangeMix::RouteFlap, ChangeMix::AclInsert];
    let half = arguments.changes.div_ceil(2);
    let counts = [half, arguments.changes - half];
    let mut changes = Vec::new();
    for ((phase, mix), count) in phases.iter().zip(mixes).zip(counts) {
        let source = ChangeSource::new(pipeline, mix, arguments.seed);
        let source = source.map_err(|error| refused("--rules", &error))?;
        let length = phase.packets.end - phase.packets.start;
        for (place, mut change) in (0..).zip(source.take(count)) {
            change.position = Some(phase.packets.start + length * place / count as u64);
            changes.push(change);
        }
    }
    parse_changes("the generated changes", &changes_text(&changes)).map_err(first_of)
}

fn count_seen(sequence: &[u32], flows: usize) -> usize {
    let mut seen = vec![false; flows];
    for flow in sequence {
        seen[*flow as usize] = true;
    }
    seen.iter().filter(|seen| **seen).count()
}

/// The first error. Generated text that does not read back is a bug; one message is enough.
fn first_of(errors: thalweg_pipeline::text::TextErrors) -> anyhow::Error {
    let first = errors.first().map(ToString::to_string);
    anyhow!(
        "a generated text does not read back: {}",
        first.unwrap_or_default()
    )
}
