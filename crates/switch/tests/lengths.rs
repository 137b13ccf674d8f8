//! Rules that ask for the length of packets: one remembered answer is right for all lengths.
//!
//! Every answer is audited: the caches and the interpreter must send the same bytes.

mod lab;

use lab::Lab;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_switch::Config;

fn lab(rules: &str) -> Lab {
    let mut config = Config::default();
    config.datapath.microflow.admit_one_in = 1;
    Lab::new(config, rules)
}

/// A datagram of this many bytes.
fn datagram(len_bytes: usize) -> PacketBuilder {
    let mac = |host: u64| MacAddress::from_u64(0x0200_0000_0000 | host);
    let address = |host: u8| [10, 0, 0, host].into();
    PacketBuilder::ethernet(mac(1), mac(2))
        .ipv4(address(1), address(2))
        .udp(7, 53)
        .payload(&vec![0; len_bytes - 42])
}

/// What `ports` gets of datagrams of all lengths.
fn by_length(rules: &str, expected: impl Fn(usize) -> Vec<u32>) {
    let mut lab = lab(rules);
    for len_bytes in (60..300).chain((60..300).rev()) {
        let bytes = datagram(len_bytes).build();
        assert_eq!(lab.send(&bytes), expected(len_bytes), "{len_bytes} bytes");
    }
    let statistics = lab.engine.datapath().statistics();
    assert_eq!(statistics.megaflow.insertions, 1, "one answer for all");
}

#[test]
fn one_answer_is_right_for_packets_of_all_lengths() {
    let rules = "actions=check_pkt_larger(100)->reg0[0],resubmit(,1)\n\
                 table=1,priority=2,reg0=1/1,actions=output:2\n\
                 table=1,priority=1,actions=check_pkt_larger(80)->NXM_NX_REG1[3],resubmit(,2)\n\
                 table=2,priority=2,ip,reg1=8/8,actions=set_field:9->nw_ttl,output:3\n\
                 table=2,priority=1,actions=output:4,output:5\n";
    by_length(rules, |len_bytes| match len_bytes {
        101.. => vec![2],
        81..=100 => vec![3],
        _ => vec![4, 5],
    });
}

#[test]
fn a_pushed_tag_counts() {
    let rules = "actions=push_vlan:0x8100,check_pkt_larger(100)->reg0[0],pop_vlan,resubmit(,1)\n\
                 table=1,priority=2,reg0=1/1,actions=output:2\n\
                 table=1,priority=1,actions=output:3\n";
    by_length(rules, |len_bytes| {
        vec![if len_bytes + 4 > 100 { 2 } else { 3 }]
    });
}

#[test]
fn what_comes_before_and_outside_is_sent_whatever_the_length() {
    let rules = "actions=output:2,resubmit(,1),output:3\n\
                 table=1,actions=check_pkt_larger(100)->reg0[0],resubmit(,2)\n\
                 table=2,priority=2,reg0=1/1,actions=set_field:02:00:00:00:00:09->eth_src,output:4\n\
                 table=2,priority=1,actions=output:5\n";
    by_length(rules, |len_bytes| match len_bytes {
        101.. => vec![2, 4, 3],
        _ => vec![2, 5, 3],
    });
}

#[test]
fn padding_behind_an_ip_packet_does_not_count() {
    let rules = "actions=check_pkt_larger(80)->reg0[0],resubmit(,1)\n\
                 table=1,priority=2,reg0=1/1,actions=output:2\n\
                 table=1,priority=1,actions=output:3\n";
    let mut lab = lab(rules);
    assert_eq!(lab.send(&datagram(80).pad_to(200).build()), [3]);
    assert_eq!(lab.send(&datagram(81).pad_to(200).build()), [2]);
    let mut bytes = datagram(80).pad_to(81).build();
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    assert_eq!(lab.send(&bytes), [2], "not IP: all bytes count");
}

#[test]
fn only_packets_of_the_branch_that_sends_nothing_are_drops() {
    let rules = "actions=check_pkt_larger(100)->reg0[0],resubmit(,1)\n\
                 table=1,reg0=0/1,actions=output:2\n";
    let mut lab = lab(rules);
    for len_bytes in [90, 110, 111, 112, 91] {
        lab.send(&datagram(len_bytes).build());
    }
    let statistics = lab.engine.datapath().statistics();
    let counted: Vec<_> = statistics.drops().collect();
    assert_eq!(counted, [("table_miss", 3)]);
}
