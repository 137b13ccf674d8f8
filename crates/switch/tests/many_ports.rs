//! Ports that come and go many at once: all or none, and every one is told.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_control::openflow::target::{Event, Target};
use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_openflow::message::port::PortReason;
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, text};
use thalweg_switch::{OpenFlowIdentity, Switch, SwitchConfig, SwitchError, SwitchPort};

fn port(number: u32) -> (SwitchPort, MemoryHandle) {
    let (port, handle) = MemoryPort::new(PortId(number), 4);
    (SwitchPort::new(PortId(number), Box::new(port)), handle)
}

fn ports(numbers: impl IntoIterator<Item = u32>) -> Vec<SwitchPort> {
    let ports = numbers.into_iter().map(|number| port(number).0);
    ports.collect()
}

fn start(workers: usize) -> Switch {
    let config = SwitchConfig {
        workers,
        ..SwitchConfig::default()
    };
    Switch::start(config, Vec::new()).expect("it starts")
}

/// The numbers of the ports that are there.
fn present(switch: &mut Switch) -> BTreeSet<u32> {
    let ports = switch.totals().ports.into_iter();
    let ports = ports.map(|port| port.number.0);
    ports
        .filter(|number| switch.has_port(PortId(*number)))
        .collect()
}

#[test]
fn batches_of_ports_are_added_whole_or_not_at_all() {
    let mut switch = start(2);
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let mut model = BTreeSet::new();
    for _ in 0..60 {
        let count = random.random_range(0..20);
        let numbers: Vec<u32> = (0..count).map(|_| random.random_range(1..60)).collect();
        let distinct: BTreeSet<u32> = numbers.iter().copied().collect();
        if random.random_ratio(1, 2) {
            let fits = distinct.len() == numbers.len() && distinct.is_disjoint(&model);
            match switch.attach_all(ports(numbers)) {
                Ok(()) => {
                    assert!(fits);
                    model.extend(distinct);
                }
                Err(error) => {
                    assert!(!fits);
                    assert!(matches!(error, SwitchError::DuplicatePort { .. }));
                }
            }
        } else {
            let gone = numbers.into_iter().map(PortId).collect();
            let known = model.intersection(&distinct).count();
            assert_eq!(switch.detach_all(&gone), known);
            model.retain(|number| !distinct.contains(number));
        }
        assert_eq!(present(&mut switch), model);
    }
    // Packets find the ports at their places.
    switch.detach_all(&model.into_iter().map(PortId).collect());
    let (arrivals, wires): (Vec<_>, Vec<_>) = (1..=40).map(port).unzip();
    switch.attach_all(arrivals).expect("all are gone");
    let across = (1..=40).map(|port| format!("in_port={port},actions=output:{}\n", 41 - port));
    let rules = text::parse_rules("test", &across.collect::<String>()).expect("rules");
    switch.apply(&rules.into_change()).expect("they fit");
    for (place, wire) in wires.iter().enumerate() {
        assert!(wire.inject(&[place as u8; 60]));
    }
    for (place, wire) in wires.iter().rev().enumerate() {
        let mut got = wire.collect();
        let begun = std::time::Instant::now();
        while got.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is lost");
            switch.poll(Duration::from_millis(1));
            got = wire.collect();
        }
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].bytes(), [place as u8; 60]);
    }
}

/// More than a plane has room for at once.
#[test]
fn every_port_of_a_large_batch_is_told() {
    const COUNT: u32 = 20_000;
    let mut switch = start(1);
    let mut plane = switch.open_flow(BridgeId(0), OpenFlowIdentity::new(1, "many"));
    let mut tell = |switch: &mut Switch, reason| {
        let mut told = BTreeSet::new();
        loop {
            switch.poll(Duration::ZERO);
            let events = plane.events();
            if events.is_empty() {
                return told;
            }
            for event in events {
                if let Event::Port(status, _) = event
                    && status.reason == reason
                {
                    assert!(told.insert(status.desc.number.0), "it is told once");
                }
            }
        }
    };
    let all: BTreeSet<u32> = (1..=COUNT).collect();
    switch
        .attach_all(ports(1..=COUNT))
        .expect("there are no others");
    assert_eq!(tell(&mut switch, PortReason::Add), all);
    switch.detach_all(&(1..=COUNT).map(PortId).collect());
    assert_eq!(tell(&mut switch, PortReason::Delete), all);
}
