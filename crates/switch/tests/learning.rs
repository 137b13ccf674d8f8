//! Rules that packets teach: what they match and do, their time, their bounds and their end.
//!
//! Every answer is audited: the caches and the interpreter must teach the same rules.

mod lab;

use std::time::Duration;

use lab::{Lab, datagram};
use thalweg_packet::PortId;
use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};
use thalweg_switch::{Config, LearningCounters};

const SECOND: Duration = Duration::from_secs(1);

/// A learning switch of rules (`ovs-actions(7)`, "The learn action").
const SWITCH: &str = "table=0,actions=learn(table=1,hard_timeout=60,NXM_OF_VLAN_TCI[0..11],\
                      NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,1)\n\
                      table=1,priority=0,actions=flood\n";

fn lab(rules: &str) -> Lab {
    let mut config = Config::default();
    config.datapath.microflow.admit_one_in = 1;
    Lab::new(config, rules)
}

/// The rules of a table, without those of priority 0.
fn learned(lab: &mut Lab, table: &str) -> Vec<String> {
    let rules = lab.rules().into_iter().map(|(rule, _)| rule);
    let prefix = format!("table={table}, ");
    rules
        .filter(|rule| rule.contains(&prefix) && !rule.contains("priority=0"))
        .collect()
}

fn counters(lab: &Lab) -> LearningCounters {
    lab.engine.learning()
}

#[test]
fn a_switch_of_rules_learns_where_hosts_are() {
    let mut lab = lab(SWITCH);
    let flooded = vec![1, 2, 4, 5, 6, 7, 8];
    assert_eq!(lab.send_from(3, &datagram(5, 9, 7)), flooded);
    assert_eq!(
        learned(&mut lab, "1"),
        [
            "table=1, hard_timeout=60, vlan_tci=0x0000/0x0fff,dl_dst=02:00:00:00:00:05 \
          actions=output:3"
        ]
    );
    assert_eq!(lab.send_from(1, &datagram(6, 5, 7)), [3]);
    assert_eq!(lab.send_from(3, &datagram(5, 6, 7)), [1]);
    // The host moves: the answer that was remembered for it is repaired.
    lab.send_from(2, &datagram(5, 9, 7));
    assert_eq!(lab.send_from(1, &datagram(6, 5, 7)), [2]);
    assert_eq!(learned(&mut lab, "1").len(), 2);
    assert_eq!(counters(&lab).learned, 3);
}

#[test]
fn a_rule_that_is_there_costs_no_version_and_begins_its_hard_timeout_again() {
    let mut lab = lab(SWITCH);
    lab.send_from(3, &datagram(5, 9, 7));
    let version = lab.engine.version();
    for _ in 0..10 {
        lab.wait(SECOND * 20);
        lab.send_from(3, &datagram(5, 9, 7));
    }
    assert_eq!(lab.engine.version(), version);
    assert_eq!(counters(&lab).refreshed, 10);
    assert_eq!(learned(&mut lab, "1").len(), 1);
    lab.wait(SECOND * 61);
    assert_eq!(learned(&mut lab, "1"), Vec::<String>::new());
    // The next packet of the answer that is still remembered teaches it again.
    lab.send_from(3, &datagram(5, 9, 7));
    assert_eq!(learned(&mut lab, "1").len(), 1);
}

#[test]
fn what_is_learned_is_made_of_constants_and_bits_of_the_packet() {
    let rules = "udp,actions=set_field:0xab->reg3,learn(table=9,priority=7,cookie=0x12,\
                 idle_timeout=4,send_flow_rem,eth_type=0x800,nw_proto=17,\
                 NXM_OF_IP_SRC[]=NXM_OF_IP_DST[],NXM_OF_UDP_DST[]=NXM_OF_UDP_SRC[],\
                 NXM_NX_REG1[4..11]=NXM_NX_REG3[0..7],in_port=6,load:0x5->NXM_NX_REG0[3..10],\
                 load:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],output:NXM_NX_REG3[0..15])\n";
    let mut lab = lab(rules);
    lab.send(&datagram(1, 2, 1000));
    assert_eq!(
        learned(&mut lab, "9"),
        [
            "cookie=0x12, table=9, idle_timeout=4, send_flow_rem, priority=7,udp,\
             reg1=0xab0/0xff0,in_port=6,nw_src=10.0.0.2,tp_dst=1000 \
             actions=set_field:0x28/0x7f8->reg0,set_field:10.0.0.1->ip_dst,output:171"
        ]
    );
}

/// What a rule is made of decides which packets share an answer.
#[test]
fn packets_that_teach_other_rules_do_not_share_an_answer() {
    let mut lab = lab("actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),2\n");
    for host in 1..=40 {
        assert_eq!(lab.send(&datagram(host, 9, 7)), [2]);
        assert_eq!(lab.send(&datagram(host, 8, 7)), [2]);
    }
    assert_eq!(learned(&mut lab, "1").len(), 40);
    assert_eq!(lab.engine.datapath().megaflow_count(), 40);
}

#[test]
fn a_bound_counts_all_rules_of_the_cookie_and_makes_room_again() {
    let rules = "table=0,actions=learn(table=1,cookie=0x7,limit=3,\
                 NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],result_dst=reg0[0]),resubmit(,2)\n\
                 table=1,cookie=0x7,reg5=1,actions=drop\n\
                 table=2,reg0=1,actions=2\ntable=2,reg0=0,actions=3\n";
    let mut lab = lab(rules);
    let from = |lab: &mut Lab, host| lab.send(&datagram(host, 9, 7));
    let answers: Vec<_> = (1..=5).map(|host| from(&mut lab, host)).collect();
    assert_eq!(answers, [[2], [2], [3], [3], [3]]);
    assert_eq!(from(&mut lab, 1), [2], "it is there");
    assert_eq!(learned(&mut lab, "1").len(), 3);
    lab.change("delete table=1,dl_dst=02:00:00:00:00:01");
    assert_eq!(from(&mut lab, 5), [2]);
    assert_eq!(from(&mut lab, 1), [3]);
    lab.change("delete table=1,reg5=1");
    assert_eq!(from(&mut lab, 4), [2]);
    assert_eq!(from(&mut lab, 3), [3]);
}

#[test]
fn rules_go_with_the_last_that_learns_them() {
    let learn = "learn(table=1,delete_learned,cookie=0x9,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let rules = format!(
        "in_port=1,actions={learn}\nin_port=2,actions=clone({learn})\n\
         table=1,cookie=0x9,reg1=1,actions=learn(table=3,delete_learned,cookie=0xa)\n\
         table=3,cookie=0xa,actions=drop\ntable=3,cookie=0xb,reg1=2,actions=drop\n\
         table=1,cookie=0x8,reg1=3,actions=drop\n"
    );
    let mut lab = lab(&rules);
    lab.send_from(1, &datagram(5, 9, 7));
    lab.send_from(2, &datagram(6, 9, 7));
    assert_eq!(learned(&mut lab, "1").len(), 4);
    lab.change("delete table=0,in_port=1");
    assert_eq!(learned(&mut lab, "1").len(), 4, "another learns them");
    lab.change("modify_strict table=0,in_port=2,actions=drop");
    let left = [learned(&mut lab, "1"), learned(&mut lab, "3")].concat();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].starts_with("cookie=0x8"), "{left:?}");
    assert!(left[1].starts_with("cookie=0xb"), "{left:?}");
    assert_eq!(counters(&lab).forgotten, 2);
}

/// One change, however long the chain: a controller could else make the switch run out of stack.
#[test]
fn a_long_chain_of_learners_ends_at_once() {
    let rules: String = (0..20_000)
        .map(|number| {
            let next = number + 1;
            format!(
                "table=1,cookie={number:#x},reg1={number},\
                 actions=learn(table=1,delete_learned,cookie={next:#x})\n"
            )
        })
        .collect();
    let mut lab = lab(&rules);
    lab.change("delete table=1,reg1=1");
    assert_eq!(learned(&mut lab, "1").len(), 1);
    assert_eq!(counters(&lab).forgotten, 19_998);
}

/// Rules that keep each other are as in Open vSwitch: they stay.
#[test]
fn learners_in_a_circle_keep_each_other() {
    let rules = "table=1,cookie=0x1,reg1=1,actions=learn(table=1,delete_learned,cookie=0x2)\n\
                 table=1,cookie=0x2,reg1=2,actions=learn(table=1,delete_learned,cookie=0x1)\n\
                 table=0,actions=learn(table=1,delete_learned,cookie=0x1)\n";
    let mut lab = lab(rules);
    lab.change("delete table=0");
    assert_eq!(learned(&mut lab, "1").len(), 2);
    lab.change("delete table=1,reg1=1");
    assert_eq!(learned(&mut lab, "1").len(), 0);
}

#[test]
fn timeouts_are_shorter_once_tcp_ends() {
    let rules = "priority=5,tcp,idle_timeout=60,actions=fin_timeout(idle_timeout=5,\
                 hard_timeout=70),2\npriority=1,actions=4\n";
    let mut lab = lab(rules);
    let segment = |flags| {
        let mac = |host: u64| MacAddress::from_u64(0x0200_0000_0000 | host);
        let ethernet = PacketBuilder::ethernet(mac(1), mac(2));
        let ip = ethernet.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        ip.tcp(1, 2).tcp_flags(flags).pad_to(60).build()
    };
    assert_eq!(lab.send(&segment(TcpFlags::SYN)), [2]);
    lab.wait(SECOND * 50);
    assert_eq!(lab.send(&segment(TcpFlags::ACK)), [2]);
    assert_eq!(
        lab.send(&segment(TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0))),
        [2]
    );
    let rules = learned(&mut lab, "0");
    let is_shorter = |rule: &String| rule.contains("idle_timeout=5, hard_timeout=70");
    assert!(rules.iter().any(is_shorter), "{rules:?}");
    lab.wait(SECOND * 4);
    assert_eq!(lab.send(&segment(TcpFlags::ACK)), [2]);
    lab.wait(SECOND * 7);
    assert_eq!(lab.send(&segment(TcpFlags::ACK)), [4]);
}

/// The rules that a learned rule leads to are those of the bridge of the rule that learned it, and
/// a rule that learns itself is left as it is.
#[test]
fn a_rule_may_be_taught_into_its_own_table() {
    let rules = "priority=1,actions=load:3->NXM_NX_REG0[0..15],learn(table=0,priority=65535,\
                 NXM_OF_ETH_SRC[],NXM_OF_VLAN_TCI[0..11],output:NXM_NX_REG0[0..15]),output:2\n";
    let mut lab = lab(rules);
    assert_eq!(lab.send(&datagram(5, 7, 1)), [2]);
    for _ in 0..4 {
        assert_eq!(lab.send(&datagram(5, 7, 1)), [3]);
    }
    assert_eq!(lab.send_from(PortId(4).0, &datagram(6, 7, 1)), [2]);
    assert_eq!(lab.send_from(PortId(4).0, &datagram(6, 7, 1)), [3]);
}

/// Rules that do not fit are counted, and are taught again once there is room.
#[test]
fn a_full_pipeline_refuses_lessons() {
    let mut config = Config::default();
    config.pipeline.rules = 4;
    let rules = "actions=learn(table=1,limit=9,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])\n";
    let mut lab = Lab::new(config, rules);
    for host in 1..=6 {
        lab.send(&datagram(host, 9, 7));
    }
    assert_eq!(learned(&mut lab, "1").len(), 3);
    assert_eq!(counters(&lab).refused, 3);
    lab.change("delete table=1,dl_dst=02:00:00:00:00:02");
    lab.send(&datagram(6, 9, 7));
    assert!(learned(&mut lab, "1")[2].contains("00:06"));
}
