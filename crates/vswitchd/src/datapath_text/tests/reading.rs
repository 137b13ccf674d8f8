//! Texts become fields, or are refused with a reason.

use proptest::prelude::*;
use thalweg_packet::{FieldId, PortId, standard as f};

use crate::datapath_text::{DatapathFlow, DatapathPort, DatapathTextError, FlowReader};

/// Port 1 of bridge 3 is number 7, and is called `p1`; other numbers are their own.
pub(super) fn ports(port: DatapathPort<'_>) -> Option<PortId> {
    match port {
        DatapathPort::Number(7) | DatapathPort::Name("p1") => Some(PortId(0x0003_0001)),
        DatapathPort::Number(number) => Some(PortId(number)),
        DatapathPort::Name(_) => None,
    }
}

pub(super) fn read(text: &str) -> DatapathFlow {
    let flow = FlowReader::new(&ports).with_masks().read(text);
    flow.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    let flow = FlowReader::new(&ports).with_masks().read(text);
    flow.expect_err(text).to_string()
}

fn assert_fields(text: &str, expected: &[(FieldId, u128, u128)]) {
    let flow = read(text);
    let fields = f::fields();
    for (field, value, mask) in expected {
        let name = &fields[field.index()].name;
        let found = (flow.key.get(*field), flow.mask.get(*field));
        assert_eq!(found, (*value, *mask), "{name} of {text}");
    }
    // Nothing else is compared.
    let named = flow.mask.iter().map(|(field, _)| field);
    let is_expected = |field: &FieldId| {
        expected
            .iter()
            .any(|expected| expected.0 == *field && expected.2 != 0)
    };
    let others: Vec<_> = named.filter(|field| !is_expected(field)).collect();
    assert_eq!(others, [], "{text}");
}

const WHOLE: u128 = u128::MAX;

const fn ones(width: u32) -> u128 {
    WHOLE >> (128 - width)
}

#[test]
fn an_ipv4_flow_is_read() {
    assert_fields(
        "recirc_id(0x2),in_port(7),eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),\
         eth_type(0x0800),ipv4(src=35.8.2.41/255.255.255.0,dst=172.16.0.20,proto=6/0xf0,tos=0x81/0x83,\
         ttl=128,frag=first),tcp(src=80/0xff00,dst=8080),tcp_flags(+syn-ack)",
        &[
            (f::RECIRC_ID, 2, ones(32)),
            (f::IN_PORT, 0x0003_0001, ones(32)),
            (f::ETH_SRC, 0x0001_0203_0405, ones(48)),
            (f::ETH_DST, 0x1011_1213_1415, ones(48)),
            (f::ETH_TYPE, 0x0800, ones(16)),
            (f::IP_SRC, 0x2308_0229, 0xffff_ff00),
            (f::IP_DST, 0xac10_0014, ones(32)),
            (f::IP_PROTO, 6, 0xf0),
            (f::IP_DSCP, 0x20, 0x20),
            (f::IP_ECN, 1, 3),
            (f::IP_TTL, 128, ones(8)),
            (f::IP_FRAG, 1, 3),
            (f::TP_SRC, 80, 0xff00),
            (f::TP_DST, 8080, ones(16)),
            (f::TCP_FLAGS, 2, 0x12),
            (f::PRESENT_IPV4, 1, 0),
            (f::PRESENT_TCP, 1, 0),
            (f::PRESENT_UDP, 0, 0),
            (f::IP_TTL_ABOVE_1, 1, 0),
        ],
    );
}

#[test]
fn other_headers_are_read() {
    assert_fields(
        "in_port(p1),eth(),eth_type(0x86dd),ipv6(src=::1/::255,dst=::2,label=0x1f/0xf0,proto=58,\
         tclass=0x70,hlimit=1,frag=no),icmpv6(type=136,code=0),\
         nd(target=::3,tll=00:0a:0b:0c:0d:0e/ff:ff:ff:ff:ff:00)",
        &[
            (f::IN_PORT, 0x0003_0001, ones(32)),
            (f::ETH_TYPE, 0x86dd, ones(16)),
            (f::IPV6_SRC, 1, 0x255),
            (f::IPV6_DST, 2, WHOLE),
            (f::IPV6_LABEL, 0x1f, 0xf0),
            (f::IP_PROTO, 58, ones(8)),
            (f::IP_DSCP, 0x1c, ones(6)),
            (f::IP_ECN, 0, ones(2)),
            (f::IP_TTL, 1, ones(8)),
            (f::IP_FRAG, 0, 3),
            (f::ICMP_TYPE, 136, ones(8)),
            (f::ICMP_CODE, 0, ones(8)),
            (f::ND_TARGET, 3, WHOLE),
            (f::ND_TLL, 0x000a_0b0c_0d0e, 0xffff_ffff_ff00),
            (f::PRESENT_ND, 1, 0),
            (f::PRESENT_ND_SLL, 0, 0),
            (f::PRESENT_ND_TLL, 1, 0),
            (f::IP_TTL_ABOVE_1, 0, 0),
        ],
    );
    assert_fields(
        "eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8/255.255.255.250,op=1/0xf0,\
         sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)",
        &[
            (f::ETH_TYPE, 0x0806, ones(16)),
            (f::ARP_SPA, 0x0102_0304, ones(32)),
            (f::ARP_TPA, 0x0506_0708, 0xffff_fffa),
            (f::ARP_OP, 1, 0xf0),
            (f::ARP_SHA, 0x000f_1011_1213, ones(48)),
            (f::ARP_THA, 0x0014_1516_1718, ones(48)),
            (f::PRESENT_ARP, 1, 0),
        ],
    );
    assert_fields(
        "tunnel(ipv6_src=::1,ipv6_dst=::2/::ff,tos=0x5,ttl=64,flags(-df+csum+oam)),in_port(2)",
        &[
            (f::TUN_IPV6_SRC, 1, ones(128)),
            (f::TUN_IPV6_DST, 2, 0xff),
            (f::TUN_TOS, 5, ones(8)),
            (f::TUN_TTL, 64, ones(8)),
            (f::TUN_FLAGS, 1, 1),
            (f::IN_PORT, 2, ones(32)),
        ],
    );
    assert_fields(
        "tunnel(tun_id=0x7f10354/0xff,src=10.10.10.10/255.255.255.0,dst=20.20.20.20,flags(key)),\
         eth_type(0x8847),mpls(label=100/0xff,tc=7,ttl=64/0xf,bos=0,label=5,tc=0,ttl=3,bos=1)",
        &[
            (f::TUN_ID, 0x07f1_0354, 0xff),
            (f::TUN_SRC, 0x0a0a_0a0a, 0xffff_ff00),
            (f::TUN_DST, 0x1414_1414, ones(32)),
            (f::TUN_FLAGS, 0, 1),
            (f::ETH_TYPE, 0x8847, ones(16)),
            (f::MPLS_LABEL, 100, 0xff),
            (f::MPLS_TC, 7, 7),
            (f::MPLS_TTL, 64, 0xf),
            (f::MPLS_BOS, 0, 1),
            (f::MPLS_LSE1, 5 << 12 | 1 << 8 | 3, ones(32)),
            (f::PRESENT_MPLS, 1, 0),
        ],
    );
}

#[test]
fn tags_nest() {
    let text = "eth_type(0x88a8),vlan(vid=99,pcp=7),encap(eth_type(0x8100),vlan(vid=4/0xff0),\
                encap(eth_type(0x0800),ipv4(proto=17),udp(src=6630,dst=22)))";
    assert_fields(
        text,
        &[
            (f::VLAN_TCI, 0xf063, ones(16)),
            (f::VLAN_TCI_INNER, 0x1004, 0x1ff0),
            (f::ETH_TYPE, 0x0800, ones(16)),
            (f::IP_PROTO, 17, ones(8)),
            (f::TP_SRC, 6630, ones(16)),
            (f::TP_DST, 22, ones(16)),
        ],
    );
    assert_eq!(read(text).tag_types, [0x88a8, 0x8100]);
    // A tag that is cut off, and one with nothing behind it.
    let cut_off = read("eth_type(0x8100),vlan(vid=0,pcp=0,cfi=0),encap()");
    assert_eq!(
        (cut_off.key.get(f::VLAN_TCI), cut_off.key.get(f::ETH_TYPE)),
        (0, 0)
    );
    let alone = read("eth_type(0x8100),vlan(vid=9,pcp=0),ipv4(proto=6)");
    assert_eq!(
        (alone.key.get(f::VLAN_TCI), alone.key.get(f::IP_PROTO)),
        (0x1009, 0)
    );
}

/// Open vSwitch takes them and does not use them.
#[test]
fn attributes_of_other_packets_are_not_used() {
    for (text, field) in [
        ("eth_type(0x86dd),ipv4(src=1.2.3.4)", f::IP_SRC),
        (
            "eth_type(0x0800),ipv4(proto=17),tcp(src=1,dst=2)",
            f::TP_SRC,
        ),
        (
            "eth_type(0x0800),ipv4(proto=17,frag=later),udp(src=1,dst=2)",
            f::TP_SRC,
        ),
        ("eth_type(0x0806),ipv4(proto=6)", f::IP_PROTO),
        ("eth_type(0x1234),vlan(vid=3)", f::VLAN_TCI),
        ("eth_type(0x0800),encap(eth_type(0x86dd))", f::VLAN_TCI),
    ] {
        let flow = read(text);
        assert_eq!(
            (flow.key.get(field), flow.mask.get(field)),
            (0, 0),
            "{text}"
        );
    }
}

#[test]
fn a_type_may_be_implied() {
    for (text, ether_type) in [
        ("in_port(1),eth()", f::ETHER_TYPE_NONE),
        ("in_port(1),ipv4(proto=6)", 0x0800),
        ("ipv6(proto=6)", 0x86dd),
        ("mpls(label=3)", 0x8847),
        ("eth_type(0x8100),vlan(vid=1),encap(ipv4(proto=1))", 0x0800),
        ("eth_type(0x8100),vlan(vid=1),encap()", f::ETHER_TYPE_NONE),
    ] {
        assert_eq!(read(text).key.get(f::ETH_TYPE), ether_type.into(), "{text}");
    }
}

/// Those of a packet that no connection tracker and no tunnel has seen.
#[test]
fn attributes_without_a_field_may_be_zero() {
    let text = "ufid:01234567-89ab-cdef-0123-456789abcdef, skb_priority(0/0),tunnel(tun_id=0x1,\
                tos=0,ttl=0,tp_dst=0,flags(-df-csum+key)),skb_mark(0),ct_state(0/0),ct_zone(0x0),\
                ct_mark(0),ct_label(0/0),dp_hash(0),packet_type(ns=0,id=0),in_port(2)";
    let text = text.replace(",flags(-df-csum+key)", "");
    assert_eq!(read(&text).key.get(f::IN_PORT), 2);
    assert_eq!(read("ct_state(-trk),eth()").mask.get(f::IN_PORT), 0);
}

#[test]
fn a_mark_and_a_hash_are_read() {
    let flow = read("skb_mark(0x1/0x3),dp_hash(7),eth()");
    assert_eq!(
        (flow.key.get(f::PKT_MARK), flow.mask.get(f::PKT_MARK)),
        (1, 3)
    );
    assert_eq!(
        (flow.key.get(f::DP_HASH), flow.mask.get(f::DP_HASH)),
        (7, u32::MAX.into())
    );
}

#[test]
fn what_a_tracker_said_is_read() {
    let flow = read("ct_state(+trk-new),ct_zone(5),ct_mark(0x3),ct_label(0x12),eth()");
    assert_eq!(
        (flow.key.get(f::CT_STATE), flow.mask.get(f::CT_STATE)),
        (0x20, 0x21)
    );
    assert_eq!(flow.key.get(f::CT_ZONE), 5);
    assert_eq!(flow.key.get(f::CT_MARK), 3);
    assert_eq!(flow.key.get(f::CT_LABEL), 0x12);
    assert_eq!(read("ct_state(new|trk),eth()").key.get(f::CT_STATE), 0x21);
    let flow = read("ct_tuple4(src=10.0.0.1,dst=10.0.0.2,proto=17,tp_src=1,tp_dst=2),eth()");
    assert_eq!(flow.key.get(f::CT_NW_SRC), 0x0a00_0001);
    assert_eq!(flow.key.get(f::CT_TP_DST), 2);
}

#[test]
fn what_no_key_holds_is_refused_by_name() {
    for (text, expected) in [
        (
            "skb_priority(0x1234)",
            "`skb_priority=0x1234` is not supported",
        ),
        ("nd_ext(nd_reserved=0x0,nd_options_type=2)", "`nd_ext="),
        ("tunnel(tun_id=0x1,tp_dst=4789)", "`tunnel.tp_dst=4789`"),
        (
            "tunnel(geneve({class=0,type=0,len=125,0xa}))",
            "syntax error at tunnel(geneve(",
        ),
        ("in_port(1/0xff)", "`in_port=1/0xff`"),
        ("in_port(p9)", "there is no port `p9`"),
    ] {
        let said = refused(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn malformed_texts_are_refused_where_open_vswitch_does() {
    for (text, expected) in [
        ("in_port(1),eht(src=1)", "syntax error at eht(src=1)"),
        (
            "eth_type(0x0800),ipv4(src=1.2.3)",
            "syntax error at ipv4(src=1.2.3)",
        ),
        ("ipv4(colour=3)", "syntax error at ipv4(colour=3)"),
        ("ipv4(proto=256)", "syntax error at ipv4(proto=256)"),
        ("ipv4(src=1.2.3.4", "syntax error at ipv4(src=1.2.3.4"),
        ("ipv4(frag=maybe)", "syntax error at ipv4(frag=maybe)"),
        ("eth(src=00:01)", "syntax error at eth(src=00:01)"),
        ("in_port", "syntax error at in_port"),
        ("in_port(1x)", "syntax error at in_port(1x)"),
        ("recirc_id(1/3)", "syntax error at recirc_id(1/3)"),
        (
            "eth_type(0x8100),vlan(vid=4096)",
            "syntax error at vlan(vid=4096)",
        ),
        (
            "eth_type(0x8100),encap(eth(),x())",
            "syntax error at encap(eth(),x())",
        ),
        (
            "mpls(label=1,label=2,label=3,label=4)",
            "syntax error at mpls(",
        ),
        ("tcp_flags(+syn+syn)", "syntax error at tcp_flags(+syn+syn)"),
        ("tunnel(flags(red))", "syntax error at tunnel(flags(red))"),
        ("tunnel(colour=1)", "syntax error at tunnel(colour=1)"),
        ("eth(),eth()", "duplicate eth attribute in flow key"),
        ("eth_type(0x0400)", "invalid Ethertype 1024 in flow key"),
        ("eth_type(0x0806),arp(op=257)", "unsupported ARP opcode 257"),
        (
            "eth_type(0x8100),vlan(vid=3,cfi=0),encap()",
            "OVS_KEY_ATTR_VLAN 0x0003 is nonzero but CFI bit is not set",
        ),
        (
            "eth_type(0x8847),mpls(label=1,bos=1,label=2,bos=1)",
            "MPLS BOS set in non-innermost label",
        ),
    ] {
        let said = refused(text);
        assert!(said.starts_with(expected), "{text}: {said}");
    }
    // Without masks, a slash is no part of a member's value, and still one of an attribute's.
    let reader = FlowReader::new(&ports);
    let expected = DatapathTextError::Syntax("ipv4(proto=6/0xff)".into());
    assert_eq!(reader.read("ipv4(proto=6/0xff)"), Err(expected));
    let flow = reader.read("eth_type(0x0800/0xff00)").expect("it is read");
    assert_eq!(flow.mask.get(f::ETH_TYPE), 0xff00);
    let deep = "encap(".repeat(100_000);
    assert!(refused(&deep).starts_with("syntax error"));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4000)
    })]

    #[test]
    fn no_text_makes_the_reader_panic(
        text in "(in_port|eth|eth_type|vlan|encap|ipv4|mpls|tunnel|tcp_flags|ct_label|[a-z_0-9=:/(),.+|-]){0,20}",
    ) {
        let _ = FlowReader::new(&ports).with_masks().read(&text);
        let _ = FlowReader::new(&ports).read(&text);
    }
}
