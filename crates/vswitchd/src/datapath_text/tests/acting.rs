//! Effects become actions, as Open vSwitch commits them.

use std::sync::Arc;

use thalweg_packet::{FieldId, PortId, standard as f};
use thalweg_pipeline::{Effect, MeterPlace, PacketInReason, Sender, TableId};

use super::reading::read;
use crate::datapath_text::{ActionWriter, DatapathFlow, FieldBits, FlowWriter, no_tunnels};

fn write(effects: &[Effect], flow: &DatapathFlow) -> String {
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number + 0x10,
        senders: &|sender| 1 + u32::from(sender.is_some()),
        tunnels: &no_tunnels,
    };
    writer.write(effects, flow).text
}

/// Checks the actions on packets of a flow, whose mask has only the named bits.
fn actions(flow: &str, effects: &[Effect], expected: &str) {
    let mut flow = read(flow);
    flow.mask = FieldBits::default();
    assert_eq!(write(effects, &flow), expected);
}

fn set(field: FieldId, value: u128) -> Effect {
    let mask = u128::MAX >> (128 - f::fields()[field.index()].width_bits);
    Effect::Set { field, value, mask }
}

fn output(port: u32) -> Effect {
    Effect::Output(PortId(port))
}

const UDP: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x0800),\
                   ipv4(src=1.2.3.4,dst=5.6.7.8,proto=17,tos=0x5,ttl=64,frag=no),udp(src=8,dst=9)";
const TAGGED: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),\
                      eth_type(0x8100),vlan(vid=9,pcp=3),encap(eth_type(0x0800),\
                      ipv4(src=1.2.3.4,dst=5.6.7.8,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9))";
const LABELLED: &str = "in_port(1),eth(),eth_type(0x8847),mpls(label=100,tc=7,ttl=64,bos=0,\
                        label=200,tc=0,ttl=3,bos=1)";

#[test]
fn what_sends_nothing_is_a_drop() {
    let drop = Effect::Drop {
        reason: thalweg_pipeline::DropReason::Action,
        copies: 1,
    };
    actions(UDP, &[], "drop");
    actions(UDP, &[set(f::ETH_SRC, 7), drop], "drop");
    actions(UDP, &[output(2), output(3)], "2,3");
}

#[test]
fn changes_are_written_by_header_before_they_matter() {
    let effects = [
        set(f::TP_DST, 80),
        set(f::IP_DST, 0x0a00_0001),
        Effect::DecTtl,
        set(f::ETH_DST, 0x5054_0000_000a),
        set(f::IP_SRC, 0x0102_0304),
        output(2),
        output(3),
        set(f::IP_DST, 0x0a00_0002),
        set(f::ETH_SRC, 0),
        output(4),
        set(f::ETH_SRC, 9),
    ];
    actions(
        UDP,
        &effects,
        "set(eth(dst=50:54:00:00:00:0a)),set(ipv4(dst=10.0.0.1,ttl=63)),set(udp(dst=80)),2,3,\
         set(eth(src=00:00:00:00:00:00)),set(ipv4(dst=10.0.0.2)),4",
    );
    // Back to what it was: nothing to do.
    actions(
        UDP,
        &[set(f::TP_DST, 80), set(f::TP_DST, 9), output(2)],
        "2",
    );
}

#[test]
fn a_write_has_the_bits_that_were_compared_or_set() {
    let low = |field, value| Effect::Set {
        field,
        value,
        mask: 0xff,
    };
    actions(
        UDP,
        &[low(f::IP_DST, 7), output(2)],
        "set(ipv4(dst=0.0.0.7/0.0.0.255)),2",
    );
    let mut flow = read(UDP);
    flow.mask = FieldBits::default();
    flow.mask.set(f::IP_DST, 0xff00_0000);
    flow.mask.set(f::IP_ECN, 3);
    assert_eq!(
        write(&[low(f::IP_DST, 7), set(f::IP_DSCP, 2), output(2)], &flow),
        "set(ipv4(dst=5.0.0.7/255.0.0.255,tos=0x9)),2"
    );
    actions(
        UDP,
        &[set(f::IP_DSCP, 2), output(2)],
        "set(ipv4(tos=0x8/0xfc)),2",
    );
    actions(
        UDP,
        &[set(f::IP_ECN, 2), output(2)],
        "set(ipv4(tos=0x2/0x3)),2",
    );
}

#[test]
fn tags_are_popped_and_pushed() {
    let push = |tpid, tci| Effect::PushVlan { tpid, tci };
    actions(
        UDP,
        &[push(0x8100, 0x6007), output(2)],
        "push_vlan(vid=7,pcp=3),2",
    );
    actions(
        UDP,
        &[
            push(0x8100, 0),
            set(f::VLAN_TCI, 5),
            push(0x88a8, 6),
            output(2),
            Effect::PopVlan,
            output(3),
        ],
        "push_vlan(vid=5,pcp=0),push_vlan(tpid=0x88a8,vid=6,pcp=0),2,pop_vlan,3",
    );
    let id = Effect::Set {
        field: f::VLAN_TCI,
        value: 10,
        mask: 0x0fff,
    };
    actions(
        TAGGED,
        &[id, output(2)],
        "pop_vlan,push_vlan(vid=10,pcp=3),2",
    );
    // Taken off, and put on again as it was.
    actions(
        TAGGED,
        &[Effect::PopVlan, push(0x8100, 0x6009), output(2)],
        "2",
    );
    actions(
        TAGGED,
        &[Effect::PopVlan, set(f::TP_SRC, 1), output(2)],
        "set(tcp(src=1)),pop_vlan,2",
    );
}

#[test]
fn labels_are_popped_pushed_and_set() {
    let push = |entry| Effect::PushMpls {
        ether_type: 0x8847,
        entry,
    };
    actions(
        UDP,
        &[
            set(f::IP_DST, 1),
            push(0x140),
            set(f::MPLS_LABEL, 10),
            output(2),
        ],
        "set(ipv4(dst=0.0.0.1)),push_mpls(label=10,tc=0,ttl=64,bos=1,eth_type=0x8847),2",
    );
    actions(
        LABELLED,
        &[Effect::DecMplsTtl, set(f::MPLS_TC, 1), output(2)],
        "set(mpls(label=100,tc=1,ttl=63,bos=0)),2",
    );
    actions(
        LABELLED,
        &[push(0x1f_0001), output(2)],
        "push_mpls(label=496,tc=0,ttl=1,bos=0,eth_type=0x8847),2",
    );
    let pop = |ether_type| Effect::PopMpls { ether_type };
    actions(
        LABELLED,
        &[pop(0x8847), output(2)],
        "pop_mpls(eth_type=0x8847),2",
    );
    // A type that is left behind.
    actions(
        UDP,
        &[push(0x140), pop(0x86dd), output(2)],
        "push_mpls(label=0,tc=0,ttl=64,bos=1,eth_type=0x8847),pop_mpls(eth_type=0x86dd),2",
    );
    actions(UDP, &[push(0x140), pop(0x0800), output(2)], "2");
    actions(
        LABELLED,
        &[pop(0x8847), pop(0x0800), Effect::Recirculate(1)],
        "pop_mpls(eth_type=0x8847),pop_mpls(eth_type=0x800),recirc(0x11)",
    );
}

#[test]
fn other_headers_are_set() {
    let arp = "in_port(1),eth(),eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8,op=1)";
    actions(
        arp,
        &[set(f::ARP_OP, 2), set(f::ARP_SHA, 7), output(2)],
        "set(arp(op=2,sha=00:00:00:00:00:07)),2",
    );
    let icmp = "in_port(1),eth(),eth_type(0x0800),ipv4(proto=1,ttl=9),icmp(type=8,code=3)";
    actions(
        icmp,
        &[set(f::ICMP_TYPE, 0), output(2)],
        "set(icmp(type=0,code=3)),2",
    );
    let neighbor = "in_port(1),eth(),eth_type(0x86dd),ipv6(src=::1,proto=58,hlimit=9),\
                    icmpv6(type=135,code=0),nd(target=::3)";
    actions(
        neighbor,
        &[
            set(f::ND_TARGET, 4),
            set(f::IPV6_SRC, 2),
            set(f::IPV6_LABEL, 0x1f),
            Effect::DecTtl,
            output(2),
        ],
        "set(ipv6(src=::2,label=0x1f,hlimit=8)),set(nd(target=::4)),2",
    );
}

#[test]
fn the_controller_is_told_who_sends() {
    let controller = |reason, sender| Effect::Controller {
        reason,
        max_len_bytes: 128,
        controller_id: 3,
        userdata: Box::default(),
        sender,
        meter: None,
    };
    let sender = Sender {
        table: TableId(4),
        has_connection: true,
        cookie: Some(0x1f),
        fields: Box::default(),
        continuation: None,
    };
    actions(
        UDP,
        &[
            set(f::ETH_SRC, 9),
            controller(PacketInReason::Action, Some(Box::new(sender))),
            output(2),
        ],
        "set(eth(src=00:00:00:00:00:09)),\
         userspace(pid=0,controller(reason=1,dont_send=0,continuation=0,recirc_id=2,\
         rule_cookie=0x1f,controller_id=3,max_len=128)),2",
    );
    for (reason, expected) in [
        (
            PacketInReason::TableMiss,
            "reason=7,dont_send=0,continuation=0,recirc_id=1,rule_cookie=0,",
        ),
        (
            PacketInReason::PacketOut,
            "reason=5,dont_send=0,continuation=0,recirc_id=1,rule_cookie=0xffffffffffffffff,",
        ),
    ] {
        let text = write(&[controller(reason, None)], &read(UDP));
        assert!(text.contains(expected), "{text}");
    }
}

fn nested(effects: &[Effect]) -> Effect {
    Effect::Clone(effects.into())
}

#[test]
fn a_list_within_a_list_is_changed_back() {
    let effects = [
        nested(&[set(f::ETH_DST, 7), output(2)]),
        nested(&[set(f::ETH_DST, 8), Effect::PopVlan, output(3)]),
        output(4),
    ];
    actions(
        TAGGED,
        &effects,
        "set(eth(dst=00:00:00:00:00:07)),2,set(eth(dst=00:00:00:00:00:08)),pop_vlan,3,\
         set(eth(dst=00:00:00:00:00:02)),push_vlan(vid=9,pcp=3),4",
    );
    // Nothing follows that needs it.
    actions(TAGGED, &effects[..1], "set(eth(dst=00:00:00:00:00:07)),2");
    actions(UDP, &[nested(&[set(f::ETH_DST, 7)]), output(4)], "4");
}

#[test]
fn what_cannot_be_changed_back_is_a_clone() {
    let layout = thalweg_packet::Layout::new(
        Arc::new(f::fields()),
        &[f::IN_PORT, f::ETH_TYPE].into_iter().collect(),
    );
    let layout = layout.expect("it fits");
    let mut key = vec![0; layout.words()];
    read(UDP).key.write_words(&layout, &mut key);
    let flow = DatapathFlow::of_entry(&layout, &key, &vec![0; key.len()]);
    let list = nested(&[set(f::ETH_DST, 7), output(2)]);
    assert_eq!(
        write(&[list.clone(), output(4)], &flow),
        "clone(set(eth(dst=00:00:00:00:00:07)),2),4"
    );
    assert_eq!(
        write(std::slice::from_ref(&list), &flow),
        "set(eth(dst=00:00:00:00:00:07)),2"
    );
    // Once it is set, it is known.
    assert_eq!(
        write(&[set(f::ETH_DST, 1), list, output(4), output(5)], &flow),
        "set(eth(dst=00:00:00:00:00:07)),2,set(eth(dst=00:00:00:00:00:01)),4,5"
    );
}

#[test]
fn meters_have_the_datapaths_numbers() {
    let meter = |place| Effect::Meter(MeterPlace(place));
    // What a meter drops does not come back, so the packet is copied if something follows.
    let copy = nested(&[set(f::ETH_DST, 7), meter(3), output(2)]);
    let set_and_measured = "meter(3),set(eth(dst=00:00:00:00:00:07)),2";
    actions(UDP, std::slice::from_ref(&copy), set_and_measured);
    actions(
        UDP,
        &[copy, output(4)],
        &format!("clone({set_and_measured}),4"),
    );
    actions(UDP, &[meter(0)], "meter(0)");
    let controller = Effect::Controller {
        reason: PacketInReason::Action,
        max_len_bytes: 9,
        controller_id: 0,
        userdata: Box::default(),
        sender: None,
        meter: Some(MeterPlace(5)),
    };
    actions(
        UDP,
        &[controller],
        "sample(sample=100.0%,actions(meter(5),userspace(pid=0,controller(reason=1,dont_send=0,\
         continuation=0,recirc_id=1,rule_cookie=0xffffffffffffffff,controller_id=0,max_len=9))))",
    );
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &no_tunnels,
    };
    let slow = |meter| writer.write(&[Effect::Slow { meter }, output(2)], &read(UDP));
    let handed_over = "userspace(pid=0,slow_path(action))";
    assert_eq!(slow(None).installed(), handed_over);
    let metered = slow(Some(MeterPlace(1)));
    assert_eq!(metered.text, "2");
    assert_eq!(
        metered.installed(),
        format!("sample(sample=100.0%,actions(meter(1),{handed_over}))")
    );
}

/// A queue is set where the packet next leaves, and then the flow compares that it had none.
#[test]
fn a_queue_is_set_before_the_packet_leaves() {
    let queue = Effect::Queue;
    let copy = Effect::Clone([queue(1), output(3)].into());
    let effects = [queue(9), queue(7), copy, output(2), queue(0), output(4)];
    let expected = "set(skb_priority(0x1)),3,set(skb_priority(0x7)),2,set(skb_priority(0)),4";
    actions(UDP, &effects, expected);
    actions(UDP, &[queue(7), queue(0), output(2)], "2");
    let writer = ActionWriter {
        ports: &|port| port.0.to_string(),
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &no_tunnels,
    };
    let shown = |effects: &[Effect]| {
        let mut flow = read(UDP);
        flow.mask = FieldBits::default();
        writer.write_covering(effects, &mut flow);
        FlowWriter::new(&|port| port.0.to_string()).write(&flow)
    };
    assert!(shown(&effects).starts_with("skb_priority(0),recirc_id(0),"));
    assert!(shown(&[output(2)]).starts_with("recirc_id(0),"));
}

/// As in Open vSwitch's own tests of `encap` and `decap`.
#[test]
fn headers_in_front_are_written_when_the_packet_leaves() {
    let front = |ether_type, header: &[u8]| Effect::Encapsulate {
        ether_type,
        header: header.into(),
    };
    let again = [
        Effect::Decapsulate { packet_type: 0 },
        Effect::Recirculate(1),
    ];
    let [decapsulate, recirculate] = again;
    actions(
        UDP,
        &[
            front(0x8847, &[0, 0, 1, 64]),
            set(f::MPLS_LABEL, 7),
            Effect::PushEthernet,
            set(f::ETH_DST, 9),
            output(2),
            Effect::PopEthernet,
            decapsulate.clone(),
            recirculate.clone(),
        ],
        "add_mpls(label=7,tc=0,ttl=64,bos=1,eth_type=0x8847),\
         push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:09),2,pop_eth,\
         pop_mpls(eth_type=0x6558),recirc(0x11)",
    );
    actions(
        UDP,
        &[
            front(0x894f, &[0x0f, 0xc6, 1, 3, 0, 0, 0, 255]),
            set(f::NSH_C2, 5),
            output(2),
            decapsulate,
            recirculate,
        ],
        "push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x0,si=255,c1=0x0,c2=0x5,c3=0x0,c4=0x0),2,\
         pop_nsh(),recirc(0x11)",
    );
    actions(
        UDP,
        &[
            Effect::PopEthernet,
            output(2),
            Effect::PushEthernet,
            output(3),
        ],
        "pop_eth,2,push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),3",
    );
    // A label that goes again has come before.
    actions(
        UDP,
        &[
            Effect::PopEthernet,
            Effect::PushMpls {
                ether_type: 0x8847,
                entry: 64,
            },
            Effect::PopMpls { ether_type: 0x0800 },
            output(2),
        ],
        "pop_eth,add_mpls(label=0,tc=0,ttl=64,bos=0,eth_type=0x8847),pop_mpls(eth_type=0x800),2",
    );
}
