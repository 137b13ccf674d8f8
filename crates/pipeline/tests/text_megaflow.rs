//! Cache entries and their effects, in both spellings of Open vSwitch.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, Layout, PortId};
use thalweg_pipeline::text::{MegaflowStyle, parse_match, print_effects, print_megaflow};
use thalweg_pipeline::{Effect, Match, MeterPlace, PacketInReason};

/// A layout of all fields, and a match in words of it.
fn entry(matching: &Match) -> (Layout, Vec<u64>, Vec<u64>) {
    let all: BTreeSet<FieldId> = f::all_but_options().collect();
    let layout = Layout::new(Arc::new(f::fields()), &all).expect("fits");
    let (mut key, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
    for term in matching.terms() {
        layout.set(&mut key, term.field, term.value);
        layout.set(&mut mask, term.field, term.mask);
    }
    (layout, key, mask)
}

fn styles(matching: &Match) -> (String, String) {
    let (layout, key, mask) = entry(matching);
    (
        print_megaflow(&layout, &key, &mask, MegaflowStyle::OpenFlow),
        print_megaflow(&layout, &key, &mask, MegaflowStyle::Datapath),
    )
}

#[test]
fn entries_are_printed_in_both_styles() {
    let entries = [
        (
            "ip,in_port=1,nw_dst=10.0.0.0/8,nw_frag=no",
            "recirc_id=0,eth,ip,in_port=1,nw_dst=10.0.0.0/8,nw_frag=no",
            "recirc_id(0),in_port(1),eth_type(0x0800),ipv4(dst=10.0.0.0/255.0.0.0,frag=no)",
        ),
        (
            "recirc_id=2,tcp6,dl_dst=02:00:00:00:00:01,ipv6_src=2001:db8::/32,nw_ttl=64,tp_src=0x400/0xfc00,tcp_flags=+syn-ack",
            "recirc_id=0x2,eth,tcp6,dl_dst=02:00:00:00:00:01,ipv6_src=2001:db8::/32,nw_ttl=64,tp_src=0x400/0xfc00,tcp_flags=+syn-ack",
            "recirc_id(0x2),eth(dst=02:00:00:00:00:01),eth_type(0x86dd),ipv6(src=2001:db8::/ffff:ffff::,proto=6,hlimit=64),tcp(src=1024/0xfc00),tcp_flags(+syn-ack)",
        ),
        (
            "dl_vlan=100,dl_vlan_pcp=0,arp,arp_op=1,arp_tpa=10.0.0.1",
            "recirc_id=0,eth,arp,dl_vlan=100,dl_vlan_pcp=0,arp_tpa=10.0.0.1,arp_op=1",
            "recirc_id(0),eth_type(0x8100),vlan(vid=100,pcp=0),encap(eth_type(0x0806),arp(tip=10.0.0.1,op=1))",
        ),
        (
            "ip,nw_tos=184,nw_ecn=1,vlan_tci=0",
            "recirc_id=0,eth,ip,vlan_tci=0x0000,nw_tos=184,nw_ecn=1",
            "recirc_id(0),eth_type(0x0800),ipv4(tos=0xb9)",
        ),
    ];
    for (text, openflow, datapath) in entries {
        let matching = parse_match(text).expect(text);
        assert_eq!(
            styles(&matching),
            (openflow.to_string(), datapath.to_string())
        );
        let again = parse_match(openflow).expect(openflow);
        let again = again
            .terms()
            .iter()
            .filter(|term| term.field != f::RECIRC_ID);
        let first = matching
            .terms()
            .iter()
            .filter(|term| term.field != f::RECIRC_ID);
        assert!(again.eq(first), "{openflow}");
    }
}

#[test]
fn presence_is_shown_where_it_is_no_matter_of_course() {
    let mut matching = parse_match("tcp").expect("a match");
    matching.add(f::PRESENT_IPV4, 1, 1).expect("new");
    matching.add(f::PRESENT_ARP, 0, 1).expect("new");
    assert_eq!(styles(&matching).0, "recirc_id=0,eth,tcp");
    // The TCP header is cut off.
    matching.add(f::PRESENT_TCP, 0, 1).expect("new");
    assert_eq!(styles(&matching).0, "recirc_id=0,eth,tcp,present:tcp=0x0");
    assert_eq!(
        styles(&matching).1,
        "recirc_id(0),eth_type(0x0800),ipv4(proto=6),present:tcp(0)"
    );
}

#[test]
fn effects_are_printed_as_datapath_actions() {
    let (layout, key, mask) = entry(&parse_match("tcp").expect("a match"));
    let set = |field, value, width: u16| Effect::Set {
        field,
        value,
        mask: (1 << width) - 1,
    };
    let effects = [
        set(f::ETH_SRC, 1, 48),
        set(f::ETH_DST, 2, 48),
        set(f::IP_DST, 0x0a00_0001, 32),
        Effect::Set {
            field: f::TP_DST,
            value: 0x50,
            mask: 0xff,
        },
        Effect::DecTtl,
        Effect::PushVlan {
            tpid: 0x8100,
            tci: 0x7064,
        },
        Effect::Output(PortId(2)),
        Effect::Clone(Box::new([Effect::PopVlan, Effect::Output(PortId(3))])),
        Effect::Controller {
            reason: PacketInReason::Action,
            max_len_bytes: 96,
            controller_id: 0,
            userdata: Box::default(),
            sender: None,
            meter: None,
        },
        Effect::Meter(MeterPlace(3)),
        Effect::PushMpls {
            ether_type: 0x8847,
            entry: 0x0000_7140,
        },
        set(f::MPLS_LABEL, 9, 20),
        Effect::Recirculate(1),
    ];
    assert_eq!(
        print_effects(&effects, &layout, &key, &mask),
        "set(eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02)),set(ipv4(dst=10.0.0.1)),\
         set(tcp(dst=80/0xff)),dec_ttl,push_vlan(vid=100,pcp=3),2,clone(pop_vlan,3),\
         userspace(pid=0,controller(reason=1,max_len=96)),meter(3),\
         push_mpls(label=7,tc=0,ttl=64,bos=1,eth_type=0x8847),set(mpls(label=9)),recirc(0x1)"
    );
    assert_eq!(print_effects(&[], &layout, &key, &mask), "drop");
}
