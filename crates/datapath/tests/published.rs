//! A slice of maintenance uses rules that include the change, or panics.
//!
//! A twin of the pipeline makes the change, and the datapath is told of it. The pipeline that
//! the datapath reads has not made it.

use std::sync::Arc;

use thalweg_datapath::{Config, Datapath, Gate, Progress};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::{parse_flow, parse_rules};
use thalweg_pipeline::{Change, Delta, Operation, Outbox, Pipeline, PortState};

/// A datapath, the pipeline that it reads, and the twin.
struct Twins {
    datapath: Datapath,
    early: Gate<Pipeline>,
    late: Gate<Pipeline>,
}

fn pipeline() -> Gate<Pipeline> {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=2).map(|port| Operation::SetPort(PortId(port), state));
    let rules = "ip,ip_dst=10.0.0.0/8,actions=output:2";
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = ports.chain(rules.into_change().operations).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    Gate::new(pipeline)
}

impl Twins {
    fn new() -> Twins {
        let (early, late) = (pipeline(), pipeline());
        let datapath = Datapath::new(Config::default(), &early.read()).unwrap();
        Twins {
            datapath,
            early,
            late,
        }
    }

    /// Forwards a packet to 10.0.0.0, which no cache knows at first.
    fn forward(&mut self) {
        let mut frame = vec![0; 34];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        (frame[17], frame[22], frame[30]) = (20, 64, 10);
        let mut packet = Packet::from_bytes(&frame);
        packet.set_received(PortId(1), Instant::ZERO);
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        let packets = &mut vec![packet];
        (self.datapath).process(packets, Instant::ZERO, &self.early, &mut outbox);
        assert_eq!(outbox.sent.len(), 1);
        assert_eq!(self.datapath.megaflow_count(), 1);
    }

    /// Adds a new rule in the twin, and begins to follow the change.
    fn begin(&mut self, rule: &str) -> Arc<Delta> {
        let rule = parse_flow(rule).expect("the test's rule is right");
        let change = Change::adding([rule]);
        let applied = self.late.write().apply(&change, Instant::ZERO);
        let delta = Arc::new(applied.expect("the test's rule can be added"));
        let index = self.datapath.index().filter(|_| !delta.has_new_layout);
        let findings = index.map(|index| index.search(&self.late.read(), &delta));
        self.datapath.begin(delta.clone(), findings.map(Arc::new));
        delta
    }

    fn follow(&mut self) {
        while !matches!(self.datapath.step(&self.early), Progress::Settled { .. }) {}
    }
}

#[test]
#[should_panic(expected = "a change is published before it is followed")]
fn an_entry_is_not_walked_by_the_rules_before() {
    let mut twins = Twins::new();
    twins.forward();
    twins.begin("priority=40000,ip,ip_dst=10.0.0.0/16,actions=output:1");
    twins.follow();
}

#[test]
#[should_panic(expected = "a change is published before it is followed")]
fn an_entry_that_was_made_meanwhile_is_not_compared_with_the_rules_before() {
    let mut twins = Twins::new();
    twins.begin("priority=40000,ip,ip_dst=10.0.0.0/16,actions=output:1");
    twins.forward();
    let _ = twins.datapath.step(&twins.early);
}

#[test]
#[should_panic(expected = "a change is published before it is followed")]
fn caches_do_not_start_over_by_the_layout_before() {
    let mut twins = Twins::new();
    let delta = twins.begin("priority=40000,tcp,tcp_dst=80,actions=output:1");
    assert!(delta.has_new_layout);
    let _ = twins.datapath.step(&twins.early);
}

/// A slice that reads no rules does not need the change.
#[test]
fn a_change_that_affects_nothing_is_followed_without_the_pipeline() {
    let mut twins = Twins::new();
    twins.forward();
    let delta = twins.begin("priority=40000,ip,ip_dst=11.0.0.0/8,actions=output:1");
    twins.follow();
    assert_eq!(twins.datapath.version(), delta.version);
}
