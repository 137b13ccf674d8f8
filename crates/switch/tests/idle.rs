//! Entries that no packet uses leave the caches of running workers, with what they counted.

use std::time::{Duration, Instant};

use thalweg_datapath::EvictReason;
use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_packet::PortId;
use thalweg_pipeline::{Change, text};
use thalweg_switch::{Switch, SwitchConfig, SwitchPort, Totals};

const PATIENCE: Duration = Duration::from_secs(60);

/// A switch of two workers, and the ends of its ports 1 and 2.
fn start(max_idle: Option<Duration>) -> (Switch, [MemoryHandle; 2]) {
    let (one, first) = MemoryPort::new(PortId(1), 64);
    let (two, second) = MemoryPort::new(PortId(2), 64);
    let ports = [(1, one), (2, two)];
    let ports = ports.map(|(number, port)| SwitchPort::new(PortId(number), Box::new(port)));
    let mut config = SwitchConfig {
        workers: 2,
        ..SwitchConfig::default()
    };
    config.datapath.megaflow.max_idle = max_idle;
    let mut switch = Switch::start(config, ports.into()).expect("it starts");
    let rules = ["dl_type=0x1234,actions=2", "dl_type=0x1235,actions=1"];
    let rules = rules.map(|rule| text::parse_flow(rule).expect("the rule is right"));
    switch
        .apply(&Change::adding(rules))
        .expect("rules are added");
    switch.clock().stop();
    (switch, [first, second])
}

fn send(port: &MemoryHandle, kind: u8) {
    let mut frame = [0; 60];
    (frame[12], frame[13]) = (0x12, kind);
    assert!(port.inject(&frame));
}

fn idle(totals: &Totals) -> u64 {
    totals.datapath.evictions(EvictReason::Idle)
}

fn wait_until(switch: &mut Switch, holds: impl Fn(&Totals) -> bool) -> Totals {
    let start = Instant::now();
    loop {
        switch.poll(Duration::from_millis(1));
        let totals = switch.totals();
        if holds(&totals) {
            return totals;
        }
        assert!(start.elapsed() < PATIENCE, "{} entries", totals.megaflows);
    }
}

#[test]
fn entries_leave_after_their_time_and_come_again_with_packets() {
    let (mut switch, [first, second]) = start(Some(Duration::from_secs(10)));
    send(&first, 0x34);
    send(&second, 0x35);
    wait_until(&mut switch, |totals| totals.megaflows == 2);
    switch.clock().advance(Duration::from_secs(6));
    send(&first, 0x34);
    wait_until(&mut switch, |totals| totals.datapath.packets == 3);
    // Only the second worker's entry has gone ten seconds without a packet.
    switch.clock().advance(Duration::from_secs(6));
    let totals = wait_until(&mut switch, |totals| idle(totals) == 1);
    assert_eq!(totals.megaflows, 1);
    switch.clock().advance(Duration::from_secs(6));
    wait_until(&mut switch, |totals| {
        idle(totals) == 2 && totals.megaflows == 0
    });
    send(&second, 0x35);
    let totals = wait_until(&mut switch, |totals| totals.megaflows == 1);
    assert_eq!(totals.datapath.upcalls, 3);
    let counted: Vec<u64> = {
        let pipeline = switch.pipeline();
        let rules = pipeline.rules(pipeline.version());
        rules.map(|(_, rule)| rule.counters.packets).collect()
    };
    assert_eq!(counted, [2, 2]);
}

#[test]
fn entries_stay_without_a_limit_until_one_is_set() {
    let (mut switch, [first, _]) = start(None);
    send(&first, 0x34);
    wait_until(&mut switch, |totals| totals.megaflows == 1);
    switch.clock().advance(Duration::from_secs(1_000));
    let real = Instant::now();
    while real.elapsed() < Duration::from_millis(800) {
        let totals = switch.totals();
        assert_eq!((totals.megaflows, idle(&totals)), (1, 0));
        switch.poll(Duration::from_millis(20));
    }
    switch.set_max_idle(Some(Duration::from_secs(1_000)));
    send(&first, 0x34);
    wait_until(&mut switch, |totals| totals.datapath.packets == 2);
    switch.clock().advance(Duration::from_secs(999));
    let real = Instant::now();
    while real.elapsed() < Duration::from_millis(800) {
        assert_eq!(switch.totals().megaflows, 1);
        switch.poll(Duration::from_millis(20));
    }
    switch.clock().advance(Duration::from_secs(2));
    wait_until(&mut switch, |totals| idle(totals) == 1);
}
