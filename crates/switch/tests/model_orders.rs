//! Every order of the steps of one change and of two upcalls.
//!
//! `model.rs` draws random orders of a whole switch; here are few enough steps to try all
//! orders. The pipeline, the caches and the dependency record are the real ones. Control side
//! and worker are reduced to what they do with these three:
//!
//! ```text
//!   control: change and publish under the lock; search the record
//!   worker:  two packets, of flows that no cache knows
//!            then, when control has done that, follow the change, with packets
//! ```
//!
//! 1. Until the caches have moved, packets get the answers of the previous version; from then
//!    on, those of the next.
//! 2. When the change is settled, the record matches the entries.
//!
//! Needs the separate build described in `model.rs`; in any other this file is empty. Prints
//! the number of orders of each case: if it were small, the test would check little.
#![cfg(thalweg_model)]

#[path = "lab/stamps.rs"]
mod stamps;

use std::sync::Arc;

use shuttle::scheduler::DfsScheduler;
use shuttle::{Config, Runner};
use stamps::{FlowKey, Kind, Program, Seen, VALUES};
use thalweg_datapath::{Datapath, Findings, Gate, MaintainerKind, Progress};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{Change, Delta, Operation, Outbox, Pipeline, PortState};

/// Flows in the caches before the change.
const WARM: [FlowKey; 2] = [FlowKey(0, 0), FlowKey(1, 1)];

/// Flows that arrive during the change. The first one meets only rules that the warm flows met;
/// the second meets none of them.
const MEANWHILE: [FlowKey; 2] = [FlowKey(0, 1), FlowKey(2, 2)];

/// A worker: caches, and the rules before and after the change.
struct Worker {
    datapath: Datapath,
    pipeline: Arc<Gate<Pipeline>>,
    outbox: Outbox,
    before: Program,
    after: Program,
}

impl Worker {
    /// Forwards packets of these flows in one burst, and checks property 1.
    fn forward(&mut self, flows: &[FlowKey], program: &Program) {
        let packet = |flow: &FlowKey| {
            let mut packet = Packet::from_bytes(&stamps::frame(*flow, 1, 0));
            packet.set_received(PortId(1), Instant::ZERO);
            packet
        };
        let mut packets: Vec<Packet> = flows.iter().map(packet).collect();
        let (pipeline, outbox) = (&self.pipeline, &mut self.outbox);
        self.datapath
            .process(&mut packets, Instant::ZERO, pipeline, outbox);
        assert_eq!(self.outbox.sent.len(), flows.len());
        for (port, packet) in &self.outbox.sent {
            let seen = Seen::read(packet.bytes(), port.0);
            assert!(seen.is_of(program), "{seen:?} is not of {program:?}");
        }
        self.outbox.recycle();
    }

    /// Follows the change to its end, with packets after each slice.
    fn follow(&mut self, delta: Arc<Delta>, findings: Arc<Findings>) {
        let flows: Vec<FlowKey> = WARM.into_iter().chain(MEANWHILE).collect();
        let (before, after) = (self.before.clone(), self.after.clone());
        self.datapath.begin(delta, Some(findings));
        loop {
            match self.datapath.step(&self.pipeline) {
                Progress::Preparing => self.forward(&flows[..1], &before),
                Progress::Repairing => self.forward(&flows, &after),
                Progress::Settled { .. } => break,
            }
        }
        self.forward(&flows, &after);
        let all = (0..VALUES * VALUES).map(|flow| FlowKey(flow / VALUES, flow % VALUES));
        self.forward(&all.collect::<Vec<_>>(), &after);
        // Property 2.
        assert_eq!(self.datapath.verify(), Ok(()));
    }
}

/// A pipeline with these rules, and caches.
fn set_out(maintainer: MaintainerKind, rules: &Change) -> (Pipeline, Datapath) {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = stamps::SINKS.map(|port| Operation::SetPort(PortId(port), state));
    let ports = Change {
        operations: ports.into(),
    };
    for change in [&ports, rules] {
        let delta = pipeline.apply(change, Instant::ZERO);
        pipeline.reclaim(delta.expect("it is right").version);
    }
    let mut config = thalweg_datapath::Config {
        maintainer,
        slice: 1,
        ..thalweg_datapath::Config::default()
    };
    config.microflow.entries = 16;
    let datapath = Datapath::new(config, &pipeline);
    (pipeline, datapath.expect("it is right"))
}

/// The part shared by all orders of a change; made once, as there are many orders.
struct Case {
    maintainer: MaintainerKind,
    before: Program,
    load: Change,
    after: Program,
    change: Change,
}

impl Case {
    fn new(maintainer: MaintainerKind, first: Kind, kind: Kind) -> Case {
        let (before, _) = Program::new(1).changed(first, 2);
        let (after, change) = before.changed(kind, 3);
        Case {
            maintainer,
            load: before.load(),
            before,
            after,
            change,
        }
    }
}

/// One order of the steps of a change.
fn execution(case: &Case) {
    let (pipeline, datapath) = set_out(case.maintainer, &case.load);
    let index = datapath.index().expect("there is one");
    let pipeline = Arc::new(Gate::new(pipeline));
    let change = case.change.clone();
    let mut worker = Worker {
        datapath,
        pipeline: pipeline.clone(),
        outbox: Outbox::new(PacketPool::with_capacity(32, 64)),
        before: case.before.clone(),
        after: case.after.clone(),
    };
    worker.forward(&WARM, &case.before);
    let control = shuttle::thread::spawn(move || {
        let delta = pipeline.write().apply(&change, Instant::ZERO);
        let delta = delta.expect("it is right");
        let findings = index.search(&pipeline.read(), &delta);
        (Arc::new(delta), Arc::new(findings))
    });
    for flow in MEANWHILE {
        worker.forward(&[flow], &case.before);
    }
    let (delta, findings) = control.join().expect("it has not panicked");
    worker.follow(delta, findings);
}

/// All orders of the changes that a test covers.
fn all_orders(maintainer: MaintainerKind, first: Kind, kinds: &[Kind]) {
    for kind in kinds.iter().copied() {
        let case = Case::new(maintainer, first, kind);
        let mut config = Config::default();
        config.stack_size = 1 << 20;
        config
            .ungraceful_shutdown_config
            .immediately_return_on_panic = true;
        let runner = Runner::new(DfsScheduler::new(None, false), config);
        let orders = runner.run(move || execution(&case));
        println!("{} {kind:?}: {orders} orders", maintainer.name());
        assert!(orders > 100, "{orders} orders are too few to say anything");
    }
}

#[test]
fn two_upcalls_and_a_rule_that_comes() {
    let kinds = [Kind::Cover { table: 1 }];
    all_orders(MaintainerKind::Incremental, Kind::Group, &kinds);
}

#[test]
fn an_upcall_and_any_change() {
    let kinds = [
        Kind::Everything,
        Kind::Group,
        Kind::Replace { table: 1, value: 2 },
        Kind::Single { table: 1, value: 2 },
        Kind::Swap { table: 0, value: 2 },
        Kind::Uncover { table: 0 },
    ];
    let first = Kind::Cover { table: 0 };
    all_orders(MaintainerKind::Incremental, first, &kinds);
    all_orders(MaintainerKind::Barrier, first, &kinds);
}
