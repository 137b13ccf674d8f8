//! Flows become texts, and texts of Open vSwitch come back as they were.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use thalweg_packet::{FieldId, Layout, PortId, Receipt, standard as f};

use super::reading::read;
use crate::datapath_text::{
    DatapathFlow, DatapathPort, FlowReader, FlowStatistics, FlowWriter, dump_line,
};

fn number(port: PortId) -> String {
    port.0.to_string()
}

fn write(flow: &DatapathFlow) -> String {
    FlowWriter::new(&number).write(flow)
}

fn write_verbosely(flow: &DatapathFlow) -> String {
    FlowWriter::new(&number).verbose().write(flow)
}

/// Without `packet_type(ns=0,id=0)`, which is always written.
const FLOWS: &str = "\
in_port(1),eth(src=00:01:02:03:04:05/ff:ff:ff:ff:ff:f0,dst=10:11:12:13:14:15/ff:ff:ff:ff:ff:f0)
in_port(1),eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x1234/0xfff0)
in_port(1),eth(dst=10:11:12:13:14:15),eth_type(0x0800),ipv4(src=35.8.2.41/255.255.255.0,dst=172.16.0.20/255.255.255.0,proto=5/0xf0,tos=0x80/0xf0,ttl=128/0xf0,frag=no)
recirc_id(0),in_port(1),eth_type(0x0800),ipv4(src=35.8.2.41,dst=172.16.0.20,proto=6,tos=0,ttl=128,frag=no),tcp(src=80/0xff00,dst=8080/0xff),tcp_flags(+syn-ack)
recirc_id(0x1f),in_port(1),eth_type(0x0800),ipv4(proto=6,frag=first),tcp(dst=8080),tcp_flags(syn|ack|[800])
recirc_id(0),in_port(1),eth_type(0x0800),ipv4(proto=6,frag=no),tcp_flags(0)
recirc_id(0),in_port(1),eth_type(0x0800),ipv4(proto=6,frag=later)
in_port(1),eth_type(0x0800),ipv4(proto=17,frag=no),udp(src=81/0xff,dst=6632/0xff00)
in_port(1),eth_type(0x0800),ipv4(proto=132,frag=no),sctp(src=81)
in_port(1),eth_type(0x0800),ipv4(src=35.8.2.41,proto=1,tos=0x1/0x3,frag=no),icmp(type=1/0xf0,code=2)
in_port(1),eth_type(0x86dd),ipv6(src=::1/::255,dst=::2/::255,label=0/0xf0,proto=10/0xf0,tclass=0x70/0xf0,hlimit=128/0xf0,frag=no)
in_port(1),eth_type(0x86dd),ipv6(src=::1.2.3.4,dst=::ffff:1.2.3.4,label=0xfedcb,proto=6,frag=no),tcp(src=80/0xff00)
in_port(1),eth_type(0x86dd),ipv6(proto=58,frag=no),icmpv6(type=135,code=0),nd(target=::3/::250)
in_port(1),eth_type(0x86dd),ipv6(proto=58,frag=no),icmpv6(type=136,code=0),nd(target=2001:db8::3,sll=00:05:06:07:08:09/ff:ff:ff:ff:ff:00,tll=00:0a:0b:0c:0d:0e)
in_port(1),eth_type(0x0806),arp(sip=1.2.3.4/255.255.255.250,tip=5.6.7.8,op=1/0xf0,sha=00:0f:10:11:12:13/ff:ff:ff:ff:ff:00,tha=00:14:15:16:17:18)
in_port(1),eth_type(0x8847),mpls(label=100,tc=7,ttl=100,bos=1)
in_port(1),eth_type(0x8848),mpls(label=100,tc=7,ttl=100,bos=0,label=5,tc=0,ttl=3,bos=1)
in_port(1),eth_type(0x8847),mpls(label=100/0xfffff,tc=7/7,ttl=64/0x0,bos=1/1)
in_port(1),eth_type(0x8100),vlan(vid=99,pcp=7),encap(eth_type(0x0800),ipv4(frag=no))
in_port(1),eth_type(0x894f),nsh(flags=1,ttl=63,mdtype=1,np=3,spi=0x1234,si=0,c1=0x0,c2=0x1/0x3)
in_port(1),eth_type(0x8100),vlan(vid=99/0xff0,pcp=7/0x6),encap(eth_type(0x0806))
in_port(1),eth_type(0x88a8),vlan(vid=99),encap(eth_type(0x8100),vlan(vid=0,pcp=3),encap(eth_type(0x86dd),ipv6(proto=17,frag=no),udp(src=1)))
tunnel(tun_id=0x7f10354/0xff,src=10.10.10.10/255.255.255.0,dst=20.20.20.20,flags(+key)),in_port(1),eth_type(0x1234)
tunnel(src=10.10.10.10,dst=20.20.20.20),in_port(1),eth_type(0x1234)
tunnel(tun_id=0x5,ipv6_src=::1,ipv6_dst=::2/::ff,tos=0x4,ttl=64,flags(-oam+key)),in_port(1),eth_type(0x1234)
";

#[test]
fn a_packet_without_ethernet_has_no_addresses() {
    for text in [
        "recirc_id(0x3),in_port(1),packet_type(ns=1,id=0x894f),eth_type(0x894f),nsh(np=3,spi=0x0)",
        "recirc_id(0),in_port(1),packet_type(ns=1,id=0x800),eth_type(0x0800),ipv4(frag=no)",
    ] {
        let flow = read(text);
        assert_eq!(flow.key.get(f::PACKET_TYPE) >> 16, 1);
        assert_eq!(write(&flow), text);
        assert!(!write_verbosely(&flow).contains(",eth("), "{text}");
    }
}

#[test]
fn texts_come_back() {
    for text in FLOWS.lines() {
        let expected = text.replacen("in_port(1)", "in_port(1),packet_type(ns=0,id=0)", 1);
        assert_eq!(write(&read(text)), expected);
    }
}

#[test]
fn the_verbose_form_shows_what_is_not_compared() {
    let mut flow = read("recirc_id(0),in_port(1),eth_type(0x0800),ipv4(proto=6,frag=no)");
    for (field, value) in [
        (f::ETH_SRC, 0x5054_0000_0009),
        (f::IP_DST, 0x0a00_0001),
        (f::IP_TTL, 64),
        (f::TP_SRC, 8),
        (f::TCP_FLAGS, 2),
    ] {
        flow.key.set(field, value);
    }
    assert_eq!(
        write_verbosely(&flow),
        "skb_priority(0/0),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),\
         recirc_id(0),dp_hash(0/0),in_port(1),packet_type(ns=0,id=0),\
         eth(src=50:54:00:00:00:09/00:00:00:00:00:00,dst=00:00:00:00:00:00/00:00:00:00:00:00),\
         eth_type(0x0800),ipv4(src=0.0.0.0/0.0.0.0,dst=10.0.0.1/0.0.0.0,proto=6,tos=0/0,ttl=64/0,\
         frag=no),tcp(src=8/0,dst=0/0),tcp_flags(0/0)"
    );
    flow.key.set(f::TCP_FLAGS, 0);
    assert!(write_verbosely(&flow).ends_with("tcp(src=8/0,dst=0/0)"));
    let untyped = read("in_port(1),eth(),eth_type(0x8100),vlan(vid=3),encap(eth_type(0x0806))");
    assert!(write_verbosely(&untyped).contains(",eth_type(0x8100),vlan(vid=3,pcp=0/0x0),encap("));
}

#[test]
fn a_frame_without_a_type_says_so() {
    let mut flow = read("in_port(1),eth(src=00:00:00:00:00:01)");
    flow.mask.set(f::ETH_TYPE, 0xffff);
    assert_eq!(
        write(&flow),
        "in_port(1),packet_type(ns=0,id=0),eth(src=00:00:00:00:00:01),eth_type(0/0xffff)"
    );
}

#[test]
fn ports_may_have_names() {
    let names = |port: PortId| format!("p{}", port.0);
    let flow = read("in_port(2),eth_type(0x0806)");
    let text = FlowWriter::new(&names).write(&flow);
    assert_eq!(text, "in_port(p2),packet_type(ns=0,id=0),eth_type(0x0806)");
}

#[test]
fn a_line_has_statistics() {
    let flow = read("recirc_id(0),in_port(1),eth_type(0x0800),ipv4(frag=no)");
    let (ports, start) = (
        number,
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no), ",
    );
    let writer = FlowWriter::new(&ports);
    for (unused_for, tcp_flags, expected) in [
        (None, 0, "packets:2, bytes:120, used:never, actions:2"),
        (
            Some(Duration::from_millis(60_017)),
            0x01f,
            "packets:2, bytes:120, used:60.017s, flags:SFPR., actions:2",
        ),
        (
            Some(Duration::from_micros(999)),
            0xfe0,
            "packets:2, bytes:120, used:0.000s, flags:UECN[200][400][800], actions:2",
        ),
    ] {
        let statistics = FlowStatistics {
            packets: 2,
            bytes: 120,
            unused_for,
            tcp_flags,
        };
        let line = dump_line(&writer, &flow, &statistics, "2");
        assert_eq!(line, format!("{start}{expected}"));
    }
}

fn layout_of(fields: &[FieldId]) -> Layout {
    let fields = fields.iter().copied().collect();
    Layout::new(std::sync::Arc::new(f::fields()), &fields).expect("they fit")
}

/// What the dump shows of an entry with this key, whose mask has the bits of these fields.
fn entry(layout: &Layout, text: &str, compared: &[(FieldId, u128)]) -> String {
    let flow = read(text);
    let (mut key, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
    flow.key.write_words(layout, &mut key);
    compared
        .iter()
        .for_each(|(field, bits)| layout.set(&mut mask, *field, *bits));
    write(&DatapathFlow::of_entry(layout, &key, &mask))
}

const TCP: &str = "in_port(7),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x0800),\
                   ipv4(src=1.2.3.4,dst=5.6.7.8,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9)";

#[test]
fn an_entry_shows_what_open_vswitch_always_compares() {
    let all: Vec<FieldId> = f::all_but_options().collect();
    let all = layout_of(&all);
    let shown = |text: &str, compared: &[(FieldId, u128)]| entry(&all, text, compared);
    let start = "recirc_id(0),in_port(196609),packet_type(ns=0,id=0)";
    assert_eq!(
        shown(TCP, &[(f::IP_DST, 0xffff_ff00)]),
        format!("{start},eth_type(0x0800),ipv4(dst=5.6.7.8/255.255.255.0,frag=no)")
    );
    // A header that is there, and a time to live that can be decremented.
    assert_eq!(
        shown(
            TCP,
            &[
                (f::PRESENT_TCP, 1),
                (f::IP_TTL_ABOVE_1, 1),
                (f::PRESENT_IPV4, 1)
            ]
        ),
        format!("{start},eth_type(0x0800),ipv4(proto=6,ttl=64,frag=no)")
    );
    // Of a tag, its number, or what the walk compared.
    let tagged = |tag| format!("in_port(7),eth(),eth_type(0x8100),{tag},encap(eth_type(0x0806))");
    assert_eq!(
        shown(&tagged("vlan(vid=9,pcp=3)"), &[]),
        format!("{start},eth_type(0x8100),vlan(vid=9,pcp=3/0x0),encap(eth_type(0x0806))")
    );
    assert_eq!(
        shown(&tagged("vlan(vid=9,pcp=0)"), &[(f::VLAN_TCI, 0xf000)]),
        format!("{start},eth_type(0x8100),vlan(vid=9/0x0,pcp=0),encap(eth_type(0x0806))")
    );
    // Behind a later fragment's header is nothing to compare.
    let later = "in_port(7),eth(),eth_type(0x0800),ipv4(proto=17,frag=later)";
    assert_eq!(
        shown(later, &[(f::TP_DST, 0xffff), (f::IP_PROTO, 0xff)]),
        format!("{start},eth_type(0x0800),ipv4(proto=17,frag=later)")
    );
    assert_eq!(
        shown("in_port(7),eth()", &[]),
        format!("{start},eth_type(0/0xffff)")
    );
}

#[test]
fn the_types_of_tags_are_those_of_a_packet() {
    let frame = [&[0; 12][..], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 3, 8, 6]].concat();
    assert_eq!(
        read("eth()").with_tags_of(&frame).tag_types,
        [0x88a8, 0x8100]
    );
    assert_eq!(
        read("eth()").with_tags_of(&frame[..17]).tag_types,
        [0x88a8, 0]
    );
    assert_eq!(read("eth()").with_tags_of(&[0; 60]).tag_types, [0, 0]);
}

#[test]
fn what_a_layout_lacks_is_not_shown() {
    let layout = layout_of(&[f::IN_PORT, f::ETH_DST]);
    let shown = entry(&layout, TCP, &[(f::ETH_DST, 0xffff_ffff_ffff)]);
    assert_eq!(
        shown,
        "recirc_id(0),in_port(196609),packet_type(ns=0,id=0),eth(dst=00:00:00:00:00:02)"
    );
    let layout = layout_of(&[f::IN_PORT, f::ETH_TYPE]);
    assert_eq!(
        entry(&layout, TCP, &[]),
        "recirc_id(0),in_port(196609),packet_type(ns=0,id=0),eth_type(0x0800)"
    );
}

/// The fields of packets of each kind: EtherType, protocol, and what they have besides.
const KINDS: [(u128, u128, &[FieldId]); 9] = [
    (0x1234, 0, &[]),
    (
        0x0806,
        0,
        &[f::ARP_SPA, f::ARP_TPA, f::ARP_OP, f::ARP_SHA, f::ARP_THA],
    ),
    (0x8847, 0, &[f::MPLS_LABEL, f::MPLS_TC, f::MPLS_TTL]),
    (
        0x0800,
        6,
        &[f::IP_SRC, f::IP_DST, f::TP_SRC, f::TP_DST, f::TCP_FLAGS],
    ),
    (
        0x0800,
        17,
        &[
            f::IP_SRC,
            f::IP_DST,
            f::IP_TTL,
            f::IP_DSCP,
            f::IP_ECN,
            f::TP_SRC,
        ],
    ),
    (0x0800, 1, &[f::IP_SRC, f::ICMP_TYPE, f::ICMP_CODE]),
    (
        0x86dd,
        132,
        &[
            f::IPV6_SRC,
            f::IPV6_DST,
            f::IPV6_LABEL,
            f::TP_SRC,
            f::TP_DST,
        ],
    ),
    (
        0x86dd,
        58,
        &[
            f::IPV6_SRC,
            f::IP_TTL,
            f::IP_DSCP,
            f::IP_ECN,
            f::ICMP_TYPE,
            f::ICMP_CODE,
        ],
    ),
    (0x86dd, 99, &[f::IPV6_DST]),
];

type Bits = Vec<(FieldId, u128, u128)>;

/// Any flow of one of the kinds; of a field that is not compared, nothing is known.
fn flows() -> impl Strategy<Value = DatapathFlow> {
    let everywhere = [f::ETH_SRC, f::ETH_DST, f::TUN_ID, f::TUN_SRC, f::TUN_DST];
    let kind = prop::sample::select(KINDS.to_vec());
    let tags = prop::collection::vec((any::<u16>(), any::<bool>(), any::<u16>()), 0..3);
    kind.prop_flat_map(move |kind| {
        let fields: Vec<FieldId> = everywhere.iter().chain(kind.2).copied().collect();
        let bits = fields.into_iter().map(|field| {
            let mask = prop_oneof![Just(0), Just(u128::MAX), any::<u128>()];
            (Just(field), any::<u128>(), mask)
        });
        let bits: Vec<_> = bits.collect();
        (Just(kind), bits, tags.clone(), any::<u32>(), any::<bool>())
    })
    .prop_map(|(kind, mut bits, tags, port, is_fragment)| {
        bits.push((f::RECIRC_ID, u128::from(port >> 3), u128::MAX));
        bits.push((f::IN_PORT, u128::from(port | 8), u128::MAX));
        bits.push((f::PACKET_TYPE, 0, u128::MAX));
        bits.push((f::ETH_TYPE, kind.0, 0xffff));
        match kind.0 {
            0x8847 => bits.push((f::MPLS_BOS, 1, 1)),
            0x0800 | 0x86dd => {
                bits.push((f::IP_PROTO, kind.1, 0xff));
                bits.push((f::IP_FRAG, is_fragment.into(), 3));
            }
            _ => {}
        }
        flow_of(&bits, &tags)
    })
}

fn flow_of(bits: &Bits, tags: &[(u16, bool, u16)]) -> DatapathFlow {
    let widths = f::fields();
    let mut flow = DatapathFlow::default();
    for (field, value, mask) in bits {
        // An ARP operation has eight bits.
        let width = if *field == f::ARP_OP {
            8
        } else {
            widths[field.index()].width_bits
        };
        let (value, mask) = (value & (u128::MAX >> (128 - width)), *mask);
        let mask = mask & (u128::MAX >> (128 - widths[field.index()].width_bits));
        // Of TCP flags, those that are not compared are not written.
        let written = if *field == f::TCP_FLAGS {
            mask
        } else {
            u128::MAX
        };
        flow.key
            .set(*field, if mask == 0 { 0 } else { value & written });
        flow.mask.set(*field, mask);
    }
    // Without an address, there is no tunnel.
    if flow.key.get(f::TUN_SRC) == 0 && flow.key.get(f::TUN_DST) == 0 {
        for field in [f::TUN_ID, f::TUN_SRC, f::TUN_DST] {
            flow.key.set(field, 0);
            flow.mask.set(field, 0);
        }
    }
    let fields = [f::VLAN_TCI, f::VLAN_TCI_INNER].into_iter();
    for ((place, (tag, is_service, mask)), field) in tags.iter().enumerate().zip(fields) {
        flow.key.set(field, (tag | f::VLAN_PRESENT).into());
        flow.mask.set(field, (mask | f::VLAN_PRESENT).into());
        flow.tag_types[place] = if *is_service { 0x88a8 } else { 0x8100 };
    }
    flow.key.derive();
    flow
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4000)
    })]

    #[test]
    fn what_is_written_is_read(flow in flows()) {
        let same = |port: DatapathPort<'_>| match port {
            DatapathPort::Number(number) => Some(PortId(number)),
            DatapathPort::Name(_) => None,
        };
        let text = write(&flow);
        let read = FlowReader::new(&same).with_masks().read(&text);
        let read = read.map(|read| DatapathFlow { tunnel_flags: 0, ..read });
        prop_assert_eq!(read.as_ref(), Ok(&flow), "{}", text);
        // Fields that are shown and not compared are known, so the verbose form says more.
        let verbose = write_verbosely(&flow);
        let read = FlowReader::new(&same).with_masks().read(&verbose);
        prop_assert_eq!(read.map(|read| write(&read)), Ok(text), "{}", verbose);
    }
}

/// A TCP segment of 1,010 bytes, of which the headers are here.
fn segment() -> Vec<u8> {
    let mut frame = vec![0; 54];
    frame[..12].copy_from_slice(&[0x50, 0x54, 0, 0, 0, 2, 0x50, 0x54, 0, 0, 0, 1]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0x03, 0xe4, 0, 0, 0, 0, 64, 6]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0, 8, 0, 9]);
    (frame[46], frame[47]) = (0x50, 0x10);
    frame
}

fn all_fields() -> Layout {
    let all = f::all_but_options().collect();
    Layout::new(Arc::new(f::fields()), &all).unwrap()
}

#[test]
fn packets_are_written_without_masks_and_exact_flows_compare_all() {
    let receipt = Receipt {
        in_port: 1,
        ..Receipt::default()
    };
    let flow = DatapathFlow::of_packet(&all_fields(), &segment(), 1_010, &receipt).unwrap();
    let headers = "eth(src=50:54:00:00:00:01,dst=50:54:00:00:00:02),eth_type(0x0800),\
                   ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0,ttl=64,frag=no),\
                   tcp(src=8,dst=9),tcp_flags(ack)";
    let text = |state: &str| {
        format!(
            "skb_priority(0),skb_mark(0),ct_state({state}),ct_zone(0),ct_mark(0),ct_label(0),\
             recirc_id(0),dp_hash(0),in_port(1),packet_type(ns=0,id=0),{headers}"
        )
    };
    let packet = FlowWriter::new(&number).packet().write(&flow);
    assert_eq!(packet, text("0"));
    assert_eq!(write(&flow), text("-new-est-rel-rpl-inv-trk-snat-dnat"));
    assert_eq!(write_verbosely(&flow), text("0/0xff"));
}

#[test]
fn what_a_key_lacks_is_shown_of_the_packet_and_not_compared() {
    let used = BTreeSet::from([f::IN_PORT, f::ETH_TYPE, f::IP_FRAG]);
    let layout = Layout::new(Arc::new(f::fields()), &used).unwrap();
    let mut key = vec![0; layout.words()];
    layout.set(&mut key, f::IN_PORT, 1);
    layout.set(&mut key, f::ETH_TYPE, 0x0800);
    let mask = vec![u64::MAX; layout.words()];
    let flow = DatapathFlow::of_entry(&layout, &key, &mask);
    let shown = flow
        .clone()
        .with_values_of(&all_fields(), &segment(), 1_010);
    assert_eq!(write(&shown), write(&flow));
    let text = write_verbosely(&shown);
    assert!(text.contains("src=10.0.0.1/0.0.0.0,"), "{text}");
    assert!(
        text.ends_with("tcp(src=8/0,dst=9/0),tcp_flags(0/0)"),
        "{text}"
    );
    // Bytes that are no frame add nothing.
    assert_eq!(flow.clone().with_values_of(&all_fields(), &[0; 3], 3), flow);
}

#[test]
fn white_space_before_a_number_is_skipped() {
    let text = "in_port(1),eth_type(0x0800),ipv4(proto=\n1,frag=no),icmp(type= 8)";
    assert_eq!(read(text), read(&text.replace(['\n', ' '], "")));
}
