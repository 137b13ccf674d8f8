//! Connections that end with the rule or the bucket that committed them.

mod memory_ports;

use std::time::Duration;

use thalweg_io::MemoryHandle;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{BridgeId, Change, Operation, Selector, TableId};
use thalweg_switch::{Switch, SwitchConfig, TrackingConfig};

/// Each port's packets are committed in a zone of its own, by a group also.
const RULES: &str = "in_port=1,udp,actions=ct(commit,zone=1),output:3
    in_port=2,udp,actions=group:7
    group_id=7,type=indirect,bucket=actions=ct(commit,zone=2,table=1)
    table=1,actions=output:3
    in_port=3,udp,actions=ct(zone=3),output:1";

struct Bench {
    switch: Switch,
    handles: Vec<MemoryHandle>,
    ports: u16,
}

impl Bench {
    fn start(follows_rules: bool) -> Bench {
        let mut bench = Bench::empty(follows_rules);
        bench.add(RULES);
        bench
    }

    fn empty(follows_rules: bool) -> Bench {
        let config = SwitchConfig {
            workers: 2,
            tracking: TrackingConfig {
                follows_rules,
                ..TrackingConfig::default()
            },
            ..SwitchConfig::default()
        };
        let (switch, handles) = memory_ports::start(config);
        switch.clock().stop();
        Bench {
            switch,
            handles,
            ports: 1_000,
        }
    }

    fn add(&mut self, rules: &str) {
        let rules: Vec<&str> = rules.lines().map(str::trim).collect();
        let change = parse_rules("rules", &rules.join("\n")).expect("they are right");
        let applied = self.switch.apply(&change.into_change());
        applied.expect("they can be added");
    }

    fn delete(&mut self, port: u32) {
        let matching = parse_rules("rule", &format!("in_port={port},udp,actions=drop"));
        let matching = matching.expect("it is right").flows[0].matching.clone();
        let selector = Selector {
            bridge: BridgeId::default(),
            table: Some(TableId(0)),
            matching,
            strict_priority: None,
            cookie: None,
        };
        let change = Change::one(Operation::Delete(selector));
        let delta = self.switch.apply(&change).expect("rules can be deleted");
        assert_eq!(delta.removed.len(), 1);
    }

    /// New connections from a port; returns when all are committed.
    fn begin(&mut self, port: usize, count: u16) {
        let before = self.zone(port as u16);
        for _ in 0..count {
            self.ports += 1;
            let frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
                .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
                .udp(self.ports, 53)
                .pad_to(60)
                .build();
            while !self.handles[port - 1].inject(&frame) {
                std::thread::yield_now();
            }
        }
        while self.zone(port as u16) < before + u32::from(count) {
            self.switch.poll(Duration::ZERO);
        }
    }

    fn zone(&self, zone: u16) -> u32 {
        self.switch.tracker().zone_limit(zone).count
    }

    /// Lets the switch do what waits.
    fn settle(&mut self) -> (u32, u32, u64) {
        self.switch.settle();
        for _ in 0..3 {
            self.switch.poll(Duration::ZERO);
        }
        let orphaned = self.switch.tracker().counters().orphaned;
        (self.zone(1), self.zone(2), orphaned)
    }
}

#[test]
fn connections_end_with_their_rule() {
    let mut bench = Bench::start(true);
    bench.begin(1, 40);
    bench.begin(2, 30);
    assert_eq!(bench.settle(), (40, 30, 0));
    // Modified, a rule keeps its connections.
    bench.add("in_port=1,udp,actions=ct(commit,zone=1),output:2");
    bench.begin(1, 5);
    assert_eq!(bench.settle(), (45, 30, 0));
    bench.delete(3);
    assert_eq!(bench.settle(), (45, 30, 0));
    bench.delete(1);
    assert_eq!(bench.settle(), (0, 30, 45));
    // Another with the same match is another rule.
    bench.add("in_port=1,udp,actions=ct(commit,zone=1),output:3");
    bench.begin(1, 2);
    bench.delete(2);
    assert_eq!(bench.settle(), (2, 0, 75));
    bench.switch.stop();
}

/// Rules beside a group of two buckets.
const BESIDE: &str = "in_port=1,udp,actions=group:8
    table=2,udp,actions=ct(commit,zone=2),output:3";

#[test]
fn connections_end_with_their_bucket() {
    let both = "group_id=8,type=all,\
        bucket=bucket_id:1,actions=ct(commit,zone=1),bucket=bucket_id:2,actions=resubmit(,2)";
    let mut bench = Bench::empty(true);
    bench.add(&format!("{both}\n{BESIDE}"));
    bench.begin(1, 20);
    assert_eq!(bench.settle(), (20, 20, 0));
    // With other actions, a bucket with the same id is the same.
    bench.add(&both.replace("zone=1)", "zone=1),output:3"));
    assert_eq!(bench.settle(), (20, 20, 0));
    // The bucket whose list leads to a rule that commits.
    bench.add("group_id=8,type=all,bucket=bucket_id:1,actions=ct(commit,zone=1)");
    assert_eq!(bench.settle(), (20, 0, 20));
    // A bucket that comes again is another.
    bench.add(both);
    bench.begin(1, 5);
    assert_eq!(bench.settle(), (25, 5, 20));
    bench.add("group_id=8,type=all,bucket=bucket_id:2,actions=resubmit(,2)");
    assert_eq!(bench.settle(), (0, 5, 45));
    let gone = Operation::DeleteGroup(BridgeId::default().group(8));
    bench.switch.apply(&Change::one(gone)).expect("it is there");
    assert_eq!(bench.settle(), (0, 0, 50));
    // An output to TABLE leads to a rule, too.
    bench.add(
        "group_id=8,type=all,bucket=bucket_id:1,actions=ct(commit,zone=1),\
         bucket=bucket_id:2,actions=set_field:9->reg1,output:TABLE
         in_port=1,udp,actions=group:8
         priority=40000,reg1=9,udp,actions=ct(commit,zone=2),output:3",
    );
    bench.begin(1, 4);
    assert_eq!(bench.settle(), (4, 4, 50));
    bench.add("group_id=8,type=all,bucket=bucket_id:1,actions=ct(commit,zone=1)");
    assert_eq!(bench.settle(), (4, 0, 54));
    bench.switch.stop();
}

#[test]
fn connections_outlive_their_rule_unless_asked() {
    let mut bench = Bench::start(false);
    bench.begin(1, 3);
    bench.delete(1);
    assert_eq!(bench.settle(), (3, 0, 0));
    bench.switch.stop();
}
