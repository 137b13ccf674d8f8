//! Keys become frames that have them.

use thalweg_packet::{Headers, Layout, Receipt, standard as f};

use super::reading::read;
use crate::datapath_text::{
    DatapathFlow, FieldBits, FrameArgumentError, FramePayload, compose, compose_exactly, frames_of,
};

fn whole_layout() -> Layout {
    let all = f::all_but_options().collect();
    Layout::new(std::sync::Arc::new(f::fields()), &all).expect("all fields fit")
}

/// The key of a frame that port 0 receives.
fn key_of(frame: &[u8]) -> FieldBits {
    let layout = whole_layout();
    let mut words = vec![0; layout.words()];
    let headers = Headers::parse(frame).expect("a frame");
    layout.extract(frame, &headers, &Receipt::default(), &mut words);
    FieldBits::read_words(&layout, &words)
}

/// Flows, and the lengths of their frames in Open vSwitch.
const FLOWS: [(&str, usize); 22] = [
    (
        "eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x1234)",
        14,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)",
        106,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,ttl=64),icmp(type=3,code=1)",
        42,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,tos=0x81,ttl=1),tcp(src=8,dst=9),tcp_flags(ack)",
        118,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6),tcp(src=8,dst=9),tcp_flags(syn|ns|[800])",
        54,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17),udp(src=8,dst=9)",
        106,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=132),sctp(src=8,dst=9)",
        46,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=2)",
        42,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=89)",
        34,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,frag=first),tcp(src=8,dst=9)",
        118,
    ),
    (
        "eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,frag=later)",
        34,
    ),
    (
        "eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0xfedcb,proto=6,tclass=0x71,hlimit=9),tcp(src=8,dst=9)",
        138,
    ),
    (
        "eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,proto=17),udp(src=8,dst=9)",
        126,
    ),
    (
        "eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,proto=58),icmpv6(type=128,code=0)",
        126,
    ),
    (
        "eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,proto=58),icmpv6(type=1,code=2)",
        62,
    ),
    (
        "eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,proto=58),icmpv6(type=135,code=0),nd(target=fe80::3)",
        78,
    ),
    (
        "eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,proto=58),icmpv6(type=136,code=0),nd(target=::3,sll=00:05:06:07:08:09,tll=00:0a:0b:0c:0d:0e)",
        94,
    ),
    (
        "eth(),eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8,op=1,sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)",
        42,
    ),
    ("eth(),eth_type(0x8035),arp(op=3)", 42),
    (
        "eth(),eth_type(0x8847),mpls(label=100,tc=3,ttl=64,bos=0,label=5,tc=1,ttl=2,bos=1)",
        22,
    ),
    (
        "eth(),eth_type(0x88a8),vlan(vid=99,pcp=7),encap(eth_type(0x8100),vlan(vid=3,pcp=0),encap(eth_type(0x0800),ipv4(proto=17),udp(src=1,dst=2)))",
        114,
    ),
    ("eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15)", 14),
];

/// The frame has the key that the text says, presence of headers included.
#[test]
fn a_frame_has_the_key_of_its_flow() {
    for (text, len) in FLOWS {
        let flow = read(text);
        let frame = compose(&flow, FramePayload::default());
        assert_eq!(frame.len(), len, "{text}");
        let found = key_of(&frame);
        assert_eq!(found, flow.key, "{text}\n{frame:02x?}");
    }
}

#[test]
fn the_payload_is_chosen_by_the_caller() {
    let flow = read("eth(),eth_type(0x0800),ipv4(proto=17),udp(src=1,dst=2)");
    assert_eq!(compose(&flow, FramePayload::Counted(0)).len(), 42);
    let frame = compose(&flow, FramePayload::Bytes(b"four"));
    assert_eq!((&frame[42..], &frame[38..40]), (&b"four"[..], &[0, 12][..]));
    let counted = compose(&flow, FramePayload::Counted(300));
    assert_eq!((counted[42 + 255], counted[42 + 256]), (255, 0));
    // More than IP's length can say does not panic.
    assert_eq!(compose(&flow, FramePayload::Counted(70_000)).len(), 70_042);
}

#[test]
fn a_frame_may_have_a_length() {
    for (text, headers) in
        FLOWS.map(|(text, _)| (text, compose(&read(text), FramePayload::Counted(0))))
    {
        let flow: DatapathFlow = read(text);
        let frame = compose_exactly(&flow, 200).expect("there is room");
        assert_eq!(frame.len(), 200, "{text}");
        let needed = headers.len();
        assert_eq!(compose_exactly(&flow, needed), Ok(headers), "{text}");
        let refused = compose_exactly(&flow, needed - 1);
        let asked = needed - 1;
        assert_eq!(
            refused,
            Err(FrameArgumentError::NoRoom { asked, needed }),
            "{text}"
        );
    }
}

#[test]
fn arguments_are_bytes_or_flows() {
    let flow = "in_port(1),eth(),eth_type(0x0800),ipv4(proto=1),icmp(type=8,code=0)";
    let bytes = "50540000000a50540000000908064 2 0 0";
    let frames = frames_of(&[flow, bytes, flow, "--len", "60"]).expect("three frames");
    let lengths: Vec<usize> = frames.iter().map(Vec::len).collect();
    assert_eq!(lengths, [106, 16, 60]);
    assert_eq!(frames[1][14..], [0x42, 0x00]);
    for (arguments, expected) in [
        (&[flow, "--len", "59"][..], "too small packet len"),
        (&[flow, "--len"], "`` is not a length of 60 to 65534 bytes"),
        (&[flow, "--len", "65535"], "`65535` is not a length"),
        (&[flow, "--len", "x"], "`x` is not a length"),
        (&["50540000000a5054000000"], "syntax error at 50540000000a"),
        (&["in_port(p1),eth()"], "there is no port `p1`"),
        (
            &[flow, "ipv4(proto=6/0xff)"],
            "syntax error at ipv4(proto=6/0xff)",
        ),
        (&["--len", "60"], "syntax error at --len"),
    ] {
        let said = frames_of(arguments).expect_err("refused").to_string();
        assert!(said.starts_with(expected), "{arguments:?}: {said}");
    }
    let long = "eth(),eth_type(0x86dd),ipv6(proto=58),icmpv6(type=136,code=0),\
                nd(target=::3,sll=00:05:06:07:08:09)";
    let said = frames_of(&[long, "--len", "60"])
        .expect_err("refused")
        .to_string();
    assert_eq!(
        said,
        "a frame of 60 bytes has no room for the flow's 86 bytes of headers"
    );
    assert_eq!(frames_of::<&str>(&[]), Ok(Vec::new()));
}
