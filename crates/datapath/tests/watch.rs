//! Upcalls are reported, and entries may compare whole keys.

use thalweg_datapath::{Config, Datapath, Gate, Progress, WatchedUpcalls};
use thalweg_packet::{Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{Change, Effect, Operation, Outbox, Pipeline, PortState};

fn pipeline(rules: &str) -> Gate<Pipeline> {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=3).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = ports.chain(rules.into_change().operations).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    Gate::new(pipeline)
}

fn forward(datapath: &mut Datapath, pipeline: &Gate<Pipeline>, last: u8, length: usize) {
    let mut frame = vec![0; length];
    (frame[11], frame[12], frame[13]) = (last, 0x12, 0x34);
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    datapath.process(&mut vec![packet], Instant::ZERO, pipeline, &mut outbox);
}

#[test]
fn each_upcall_is_reported_once_with_what_it_made() {
    let pipeline =
        pipeline("dl_type=0x1234,actions=output:2\ndl_src=00:00:00:00:00:07,actions=drop");
    let mut config = Config::default();
    config.megaflow.sample_bytes = 20;
    let mut datapath = Datapath::new(config, &pipeline.read()).unwrap();
    forward(&mut datapath, &pipeline, 1, 60);
    assert!(datapath.take_upcalls().0.is_empty(), "they are not watched");
    datapath.flush(&pipeline.read());
    datapath.watch_upcalls(WatchedUpcalls::All);
    forward(&mut datapath, &pipeline, 1, 400);
    forward(&mut datapath, &pipeline, 1, 60);
    let (reports, lost) = datapath.take_upcalls();
    assert_eq!((reports.len(), lost), (1, 0));
    let report = &reports[0];
    assert_eq!(
        (report.in_port, report.length, report.frame.len()),
        (PortId(1), 400, 256)
    );
    assert_eq!(report.layout.get(&report.key, f::ETH_TYPE), Some(0x1234));
    let entry = report.entry.as_ref().unwrap();
    assert_eq!(
        (&entry.effects[..], entry.is_new),
        (&[Effect::Output(PortId(2))][..], true)
    );
    let kept = &datapath.entries()[0];
    assert_eq!((&kept.mask, kept.sample.len()), (&entry.mask, 20));
    assert_eq!(kept.sample, report.frame[..20]);
    // Caches that are emptied are watched still; without a watch nothing waits.
    datapath.flush(&pipeline.read());
    forward(&mut datapath, &pipeline, 1, 60);
    assert_eq!(datapath.take_upcalls().0.len(), 1);
    datapath.flush(&pipeline.read());
    forward(&mut datapath, &pipeline, 1, 60);
    datapath.watch_upcalls(WatchedUpcalls::None);
    assert!(datapath.take_upcalls().0.is_empty());
}

#[test]
fn reports_that_are_not_taken_are_bounded_and_counted() {
    let pipeline = pipeline("actions=output:2");
    let mut config = Config::default();
    config.megaflow.entries = 0;
    let mut datapath = Datapath::new(config, &pipeline.read()).unwrap();
    datapath.watch_upcalls(WatchedUpcalls::All);
    for _ in 0..1_100 {
        forward(&mut datapath, &pipeline, 1, 60);
    }
    let (reports, lost) = datapath.take_upcalls();
    assert_eq!((reports.len(), lost), (1_024, 76));
    assert!(reports.iter().all(|report| report.entry.is_none()));
}

#[test]
fn exact_entries_compare_whole_keys_also_after_a_repair() {
    let pipeline = pipeline("dl_src=00:00:00:00:00:10/00:00:00:00:00:10,actions=output:2");
    let mut datapath = Datapath::new(Config::default(), &pipeline.read()).unwrap();
    let entries = |datapath: &mut Datapath| {
        for last in 1..=4 {
            forward(datapath, &pipeline, last, 60);
        }
        datapath.megaflow_count()
    };
    assert_eq!(entries(&mut datapath), 1);
    datapath.set_exact(true, &pipeline.read());
    assert_eq!(entries(&mut datapath), 4);
    let change = parse_rules(
        "rules",
        "dl_src=00:00:00:00:00:02/00:00:00:00:00:02,actions=output:3",
    );
    let change = change.unwrap().into_change();
    let delta = pipeline.write().apply(&change, Instant::ZERO).unwrap();
    let index = datapath.index();
    let findings = index.map(|index| index.search(&pipeline.read(), &delta).into());
    datapath.begin(delta.into(), findings);
    while !matches!(datapath.step(&pipeline), Progress::Settled { .. }) {}
    assert_eq!(entries(&mut datapath), 4);
    let whole =
        |entry: &thalweg_datapath::EntryView| entry.mask.iter().all(|word| *word == u64::MAX);
    assert!(datapath.entries().iter().all(whole));
    datapath.verify().unwrap();
    datapath.set_exact(false, &pipeline.read());
    assert_eq!(entries(&mut datapath), 2);
    datapath.limit_megaflows(1);
    assert_eq!(entries(&mut datapath), 1);
}

#[test]
fn failures_alone_are_reported_one_at_a_time() {
    let deep = |table: u32| format!("table={table},actions=resubmit(,{})\n", table - 1);
    let deep: String = (2..=90).map(deep).collect();
    let rules = format!(
        "dl_src=00:00:00:00:00:07,actions=output:2\nactions=resubmit(,90)\n{deep}\
         table=1,actions=output:2"
    );
    let pipeline = pipeline(&rules);
    let mut datapath = Datapath::new(Config::default(), &pipeline.read()).unwrap();
    datapath.watch_upcalls(WatchedUpcalls::Failed);
    forward(&mut datapath, &pipeline, 7, 60);
    assert!(datapath.take_upcalls().0.is_empty(), "it is sent");
    forward(&mut datapath, &pipeline, 8, 60);
    forward(&mut datapath, &pipeline, 8, 60);
    let (reports, lost) = datapath.take_upcalls();
    assert_eq!((reports.len(), lost), (1, 0));
    assert!(reports[0].has_failed);
    assert_eq!(reports[0].frame[11], 8);
    datapath.flush(&pipeline.read());
    forward(&mut datapath, &pipeline, 8, 60);
    datapath.flush(&pipeline.read());
    forward(&mut datapath, &pipeline, 8, 60);
    let (reports, lost) = datapath.take_upcalls();
    assert_eq!((reports.len(), lost), (1, 1));
}
