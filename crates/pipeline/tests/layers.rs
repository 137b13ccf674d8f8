//! Headers put in front of packets and taken off: the bytes that leave, and what rules see.

mod loaded;

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{Outbox, forward};

fn frame() -> Vec<u8> {
    let [one, two] = [1, 2].map(|last| MacAddress([2, 0, 0, 0, 0, last]));
    PacketBuilder::ethernet(one, two)
        .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        .udp(1, 2)
        .build()
}

/// What becomes of a frame: the port and the bytes of each that leaves, and the reasons of drops.
fn outcome(rules: &str, frame: &[u8]) -> (Vec<(u32, Vec<u8>)>, Vec<&'static str>) {
    let pipeline = loaded::pipeline(rules);
    let mut packet = Packet::from_bytes(frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let sent = outbox.sent.iter();
    let sent = sent.map(|(port, packet)| (port.0, packet.bytes().to_vec()));
    (
        sent.collect(),
        outbox.drops.iter().map(|(name, _)| name).collect(),
    )
}

/// The one frame that leaves by port 2.
fn sent(actions: &str, frame: &[u8]) -> Vec<u8> {
    let (sent, drops) = outcome(&format!("actions={actions},2"), frame);
    assert!(drops.is_empty(), "{actions}: {drops:?}");
    match &sent[..] {
        [(2, bytes)] => bytes.clone(),
        other => panic!("{actions}: {other:?}"),
    }
}

#[test]
fn added_headers_are_those_of_the_standards() {
    let inner = frame();
    let zeros = [0; 12];
    let label = [0, 0, 0x41, 64];
    let cases: [(&str, Vec<u8>); 9] = [
        (
            "encap(mpls)",
            [&zeros[..], &[0x88, 0x47, 0, 0, 1, 64], &inner].concat(),
        ),
        (
            "encap(mpls_mc),set_field:4->mpls_label,encap(mpls)",
            [
                &zeros[..],
                &[0x88, 0x47, 0, 0, 0x40, 64, 0, 0],
                &label[2..],
                &inner,
            ]
            .concat(),
        ),
        (
            "encap(nsh),set_field:0x123456->nsh_spi,set_field:2->nsh_flags,set_field:7->nsh_c4",
            [
                &zeros[..],
                &[0x89, 0x4f, 0x2f, 0xc6, 1, 3, 0x12, 0x34, 0x56, 255],
                &zeros,
                &[0, 0, 0, 7],
                &inner,
            ]
            .concat(),
        ),
        (
            "encap(nsh(md_type=2,tlv(0x1000,10,0x1234567890))),dec_nsh_ttl",
            [
                &zeros[..],
                &[0x89, 0x4f, 0x0f, 0x85, 2, 3, 0, 0, 0, 255],
                &[0x10, 0, 10, 5, 0x12, 0x34, 0x56, 0x78, 0x90, 0, 0, 0],
                &inner,
            ]
            .concat(),
        ),
        ("decap(),encap(ethernet),mod_dl_dst:02:00:00:00:00:09", {
            let mut bytes = inner.clone();
            bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
            bytes
        }),
        ("decap(),encap(nsh)", {
            let header = [0x89, 0x4f, 0x0f, 0xc6, 1, 1, 0, 0, 0, 255];
            [&zeros[..], &header, &[0; 16], &inner[14..]].concat()
        }),
        // The packet behind Ethernet has the type that it was given.
        (
            "push_mpls:0x8847,decap()",
            [&zeros[..], &[0x88, 0x47, 0, 0, 1, inner[22]], &inner[14..]].concat(),
        ),
        (
            "push_mpls:0x8847,pop_mpls:0x1234,decap()",
            [&zeros[..], &[0x12, 0x34], &inner[14..]].concat(),
        ),
        // A tag belongs to Ethernet.
        (
            "push_mpls:0x8847,decap(),pop_mpls:0x8100,pop_vlan",
            [&zeros[..], &[0x81, 0x00], &inner[14..]].concat(),
        ),
    ];
    for (actions, expected) in cases {
        assert_eq!(sent(actions, &inner), expected, "{actions}");
    }
}

#[test]
fn what_is_put_in_front_comes_off_again() {
    let inner = frame();
    for actions in [
        "encap(nsh),decap()",
        "encap(nsh),encap(nsh),encap(ethernet),decap(),decap(),decap()",
        "encap(mpls),decap(packet_type(ns=0,type=0))",
        "encap(mpls),encap(mpls),decap(packet_type(ns=1,type=0x8847)),\
         decap(packet_type(ns=0,type=0))",
        "encap(mpls),encap(mpls),decap(packet_type(ns=0,type=0))",
        "encap(nsh(md_type=2,tlv(1,2,0x03))),encap(ethernet),decap(),decap()",
    ] {
        assert_eq!(sent(actions, &inner), inner, "{actions}");
    }
}

#[test]
fn rules_that_name_no_type_match_ethernet() {
    let rules = "table=0,priority=1,actions=decap(),goto_table:1\n\
                 table=1,priority=9,ip,actions=2\n\
                 table=1,priority=8,actions=2\n\
                 table=1,priority=7,packet_type=(1,0x86dd),actions=2\n\
                 table=1,priority=6,packet_type=(1,0x800),nw_dst=10.0.0.2,actions=3\n";
    let (sent, _) = outcome(rules, &frame());
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, 3);
    let (sent, _) = outcome(&format!("{rules}table=0,priority=2,ip,actions=4"), &frame());
    assert_eq!(sent, [(4, frame())]);
}

#[test]
fn what_cannot_be_done_sends_nothing() {
    for (actions, reason) in [
        ("2,encap(ethernet)", "unsupported_packet_type"),
        ("2,push_vlan:0x8100,decap()", "unsupported_packet_type"),
        ("2,decap(),decap()", "unsupported_packet_type"),
        (
            "encap(mpls),encap(mpls),encap(mpls),encap(mpls)",
            "too_many_labels",
        ),
        ("encap(mpls),encap(nsh)", "unsupported_packet_type"),
    ] {
        let (sent, drops) = outcome(&format!("actions={actions},2"), &frame());
        assert_eq!((sent, drops), (vec![], vec![reason]), "{actions}");
    }
    // A label, and less than an Ethernet header behind it.
    let short = [&[0; 12][..], &[0x88, 0x47, 0, 0, 1, 64], &[0; 10]].concat();
    let rules = "actions=decap(),decap(packet_type(ns=0,type=0)),2";
    assert_eq!(outcome(rules, &short), (vec![], vec!["too_short"]));
    // A service header of an unknown type that is shorter than its base.
    let service = [0, 1, 9, 1, 0, 0, 0, 255];
    let short = [&[0; 12][..], &[0x89, 0x4f], &service, &[0; 30]].concat();
    assert_eq!(
        outcome("actions=decap(),decap(),2", &short),
        (vec![], vec!["too_short"])
    );
}
