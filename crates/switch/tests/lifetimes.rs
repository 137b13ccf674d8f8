//! Timeouts, reports of ended rules, groups, and packets that are parsed again.

mod lab;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use lab::{Lab, datagram};
use thalweg_datapath::Mode;
use thalweg_packet::PortId;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_switch::{Config, RemovalReason};

const SECOND: Duration = Duration::from_secs(1);

/// With microflows, without, without any cache, and by the rules alone: all see activity.
fn cachings() -> [Config; 6] {
    let (megaflows, computational) = (Mode::Megaflows, Mode::ComputationalFlows);
    let sizes = [
        (megaflows, 8_192, 1_000),
        (megaflows, 0, 1_000),
        (megaflows, 16, 1),
        (megaflows, 0, 0),
        (computational, 8_192, 1_000),
        (computational, 0, 1_000),
    ];
    sizes.map(|(mode, microflows, megaflows)| {
        let mut config = Config::default();
        config.datapath.mode = mode;
        config.datapath.microflow.entries = microflows;
        config.datapath.microflow.admit_one_in = 1;
        config.datapath.megaflow.entries = megaflows;
        config
    })
}

#[test]
fn i5_a_rule_in_use_never_idles_out_and_a_silent_one_does() {
    for config in cachings() {
        let rules = "priority=5,idle_timeout=3,ip,nw_dst=10.0.0.1,actions=2\n\
                     priority=5,idle_timeout=3,ip,nw_dst=10.0.0.2,actions=3\n\
                     priority=1,actions=4\n";
        let mut lab = Lab::new(config, rules);
        assert_eq!(lab.send(&datagram(9, 2, 7)), [3]);
        for _ in 0..20 {
            assert_eq!(lab.send(&datagram(9, 1, 7)), [2]);
            lab.wait(SECOND * 5 / 2);
        }
        assert_eq!(lab.send(&datagram(9, 2, 7)), [4]);
        lab.wait(SECOND * 4);
        assert_eq!(lab.send(&datagram(9, 1, 7)), [4]);
    }
}

#[test]
fn a_hard_timeout_ends_a_rule_in_use() {
    for config in cachings() {
        let rules =
            "priority=5,idle_timeout=2,hard_timeout=10,ip,actions=2\npriority=1,actions=4\n";
        let mut lab = Lab::new(config, rules);
        for second in 0..15 {
            // The last instant of its time is still its own.
            let expected = if second <= 10 { 2 } else { 4 };
            assert_eq!(
                lab.send(&datagram(9, 1, 7)),
                [expected],
                "in second {second}"
            );
            lab.wait(SECOND);
        }
    }
}

#[test]
fn the_longest_timeouts_are_timeouts() {
    let rules = "priority=5,idle_timeout=65535,hard_timeout=1,ip,actions=2\npriority=1,actions=4\n";
    let mut lab = Lab::new(Config::default(), rules);
    assert_eq!(lab.send(&datagram(9, 1, 7)), [2]);
    lab.wait(SECOND * 2);
    assert_eq!(lab.send(&datagram(9, 1, 7)), [4]);
}

#[test]
fn i5_reports_have_final_counts_and_reasons() {
    for config in cachings() {
        let rules = "priority=5,idle_timeout=3,send_flow_rem,cookie=1,ip,nw_dst=10.0.0.1,actions=2\n\
                     priority=5,hard_timeout=9,send_flow_rem,cookie=2,ip,nw_dst=10.0.0.2,actions=2\n\
                     priority=5,send_flow_rem,cookie=3,ip,nw_dst=10.0.0.3,actions=2\n\
                     priority=5,idle_timeout=3,cookie=4,ip,nw_dst=10.0.0.4,actions=2\n\
                     priority=1,actions=4\n";
        let mut lab = Lab::new(config, rules);
        for round in 0..10 {
            for host in 1..=4 {
                // The first stops after two rounds.
                if host != 1 || round < 2 {
                    lab.send(&datagram(9, host, 7));
                }
            }
            if round == 4 {
                // Modified rules live on, and keep their counts.
                lab.change("modify ip,nw_dst=10.0.0.3,actions=3");
            }
            lab.wait(SECOND);
        }
        lab.change("delete ip,nw_dst=10.0.0.3");
        let mut removals = lab.engine.take_removals();
        removals.sort_by_key(|removal| removal.flow.cookie);
        let told: Vec<_> = removals
            .iter()
            .map(|removal| {
                let counters = (removal.counters.packets, removal.counters.bytes);
                (
                    removal.flow.cookie,
                    removal.reason,
                    counters,
                    removal.duration.as_secs(),
                )
            })
            .collect();
        let expected = [
            (1, RemovalReason::IdleTimeout, (2, 120), 4),
            (2, RemovalReason::HardTimeout, (10, 600), 10),
            (3, RemovalReason::Deleted, (10, 600), 10),
        ];
        assert_eq!(told, expected);
    }
}

fn spread(lab: &mut Lab) -> BTreeMap<u32, Vec<u32>> {
    let mut flows = BTreeMap::<u32, Vec<u32>>::new();
    for flow in 0..3_000 {
        let ports = lab.send(&datagram(flow, 1, 7));
        let [port] = ports[..] else {
            panic!("one bucket is chosen, not {ports:?}")
        };
        flows.entry(port).or_default().push(flow);
    }
    flows
}

#[test]
fn a_select_group_spreads_and_is_stable() {
    let rules = "group_id=1,type=select,bucket=bucket_id:1,watch_port:2,actions=2,\
                 bucket=bucket_id:2,watch_port:3,actions=3,bucket=bucket_id:3,watch_port:4,actions=4\n\
                 actions=group:1\n";
    let mut lab = Lab::new(Config::default(), rules);
    let first = spread(&mut lab);
    assert!(
        first
            .values()
            .all(|flows| (800..1_200).contains(&flows.len())),
        "{first:?}"
    );
    assert_eq!(spread(&mut lab), first);
    lab.engine.set_port_up(PortId(3), false, lab.now);
    let without = spread(&mut lab);
    assert_eq!(without.keys().copied().collect::<Vec<_>>(), [2, 4]);
    for port in [2, 4] {
        // Flows of live buckets stay where they were.
        let stayed = first[&port]
            .iter()
            .filter(|flow| without[&port].contains(flow));
        assert_eq!(stayed.count(), first[&port].len());
    }
    lab.engine.set_port_up(PortId(3), true, lab.now);
    assert_eq!(spread(&mut lab), first);
}

#[test]
fn buckets_count_what_they_were_chosen_for() {
    let mut config = Config::default();
    config.datapath.megaflow.entries = 10;
    let group = "group_id=1,type=select,bucket=bucket_id:1,actions=2,bucket=bucket_id:2,actions=3";
    let mut lab = Lab::new(config, &format!("{group}\nactions=group:1\n"));
    for round in 0..3 {
        let flows = spread(&mut lab);
        lab.engine.settle();
        let pipeline = lab.engine.pipeline();
        let counters = pipeline
            .group_counters(thalweg_pipeline::GroupId(1))
            .unwrap();
        let counted: Vec<u64> = counters
            .buckets
            .iter()
            .map(|bucket| bucket.packets)
            .collect();
        assert_eq!(
            counted,
            [flows[&2].len() as u64, flows[&3].len() as u64],
            "round {round}"
        );
        assert_eq!(
            (counters.group.packets, counters.group.bytes),
            (3_000, 180_000)
        );
        drop(pipeline);
        // A group that is set again counts from zero, whatever entries had counted for it
        // before.
        lab.send(&datagram(1, 1, 7));
        lab.change(&format!("group add {group}"));
    }
}

#[test]
fn fast_failover_follows_the_state_of_ports() {
    let rules = "group_id=2,type=ff,bucket=watch_port:3,actions=3,bucket=watch_port:4,actions=4\n\
                 group_id=1,type=ff,bucket=watch_port:2,actions=2,bucket=watch_group:2,actions=group:2\n\
                 actions=group:1\n";
    let mut lab = Lab::new(Config::default(), rules);
    let packet = datagram(9, 1, 7);
    let mut expect = |port: u32, is_up: bool, expected: &[u32]| {
        lab.engine.set_port_up(PortId(port), is_up, lab.now);
        for _ in 0..3 {
            assert_eq!(lab.send(&packet), expected, "port {port} up: {is_up}");
        }
    };
    expect(2, true, &[2]);
    expect(2, false, &[3]);
    expect(3, false, &[4]);
    expect(4, false, &[]);
    expect(3, true, &[3]);
    expect(2, true, &[2]);
}

#[test]
fn what_is_under_a_label_is_matched_after_another_parse() {
    for config in cachings() {
        let rules = "mpls,actions=pop_mpls:0x0800,resubmit(,1)\n\
                     table=1,priority=9,ip,nw_dst=10.0.0.1,actions=2\n\
                     table=1,priority=8,ip,nw_dst=10.0.0.0/24,actions=dec_ttl,3\n\
                     table=1,priority=1,actions=4\n";
        let mut lab = Lab::new(config, rules);
        let frame = |last, label| {
            let ethernet = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
            let address = Ipv4Addr::new(10, 0, 0, last);
            let far = if last == 9 {
                Ipv4Addr::new(192, 0, 2, 1)
            } else {
                address
            };
            ethernet
                .mpls(label, 0, 64)
                .ipv4(address, far)
                .udp(1, 2)
                .pad_to(64)
                .build()
        };
        for round in 0..6 {
            for (last, port) in [(1, 2), (2, 3), (9, 4)] {
                assert_eq!(
                    lab.send(&frame(last, 16 + round % 2)),
                    [port],
                    "round {round}"
                );
            }
            lab.change(&format!("add table=2,priority={round},arp,actions=1"));
        }
        let statistics = lab.engine.datapath().statistics();
        assert_eq!((statistics.recirculations, statistics.packets), (18, 18));
    }
}

#[test]
fn copies_that_are_parsed_anew_share_one_bound() {
    for config in cachings() {
        let bucket = "bucket=actions=pop_mpls:0x0800,resubmit(,1)";
        let buckets = vec![bucket; 20].join(",");
        let rules =
            format!("group_id=1,type=all,{buckets}\nmpls,actions=group:1\ntable=1,actions=2\n");
        let mut lab = Lab::new(config, &rules);
        let ethernet = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
        let host = Ipv4Addr::new(10, 0, 0, 1);
        let frame = ethernet
            .mpls(16, 0, 64)
            .ipv4(host, host)
            .udp(1, 2)
            .pad_to(64)
            .build();
        for _ in 0..3 {
            // The packet itself was the first of sixteen.
            assert_eq!(lab.send(&frame).len(), 15);
        }
        let mut burst: Vec<_> = (0..40).map(|_| lab.packet(1, &frame)).collect();
        lab.engine.forward(&mut burst, lab.now);
        assert_eq!(lab.engine.audit().expect("audited").stale, 0);
    }
}
