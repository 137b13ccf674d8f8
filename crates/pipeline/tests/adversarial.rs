//! Rules in, packet in; cache entry and actions out: packets that have broken other switches.
//!
//! The lines are those of `ofproto/trace`, so that they can be compared with Open vSwitch's by
//! eye. `UPDATE_EXPECT=1` rewrites them.

use std::net::{Ipv4Addr, Ipv6Addr};

use expect_test::{Expect, expect};
mod loaded;

use loaded::pipeline;
use thalweg_packet::wire::{
    IpProtocol, MacAddress, NeighborMessage, NeighborRepr, PacketBuilder, TcpFlags,
};
use thalweg_packet::{Headers, Instant, Packet, PacketPool, PortId, Receipt};
use thalweg_pipeline::text::{MegaflowStyle, print_effects, print_megaflow};
use thalweg_pipeline::{Outbox, Pipeline};
use thalweg_pipeline::{Translation, forward, translate};

/// Translates a packet that comes in by port 1.
fn walk(pipeline: &Pipeline, packet: &[u8]) -> (Vec<u64>, Translation) {
    let layout = pipeline.layout();
    let headers = Headers::parse(packet).expect("a frame");
    let mut key = vec![0; layout.ingress_words()];
    layout.extract(packet, &headers, &Receipt::from_port(1), &mut key);
    let translation = translate(pipeline, &key, pipeline.version());
    (key, translation)
}

fn check(rules: &str, packets: &[Vec<u8>], expected: Expect) {
    let pipeline = pipeline(rules);
    let layout = pipeline.layout();
    let mut text = String::new();
    for packet in packets {
        let (key, walk) = walk(&pipeline, packet);
        let megaflow = print_megaflow(layout, &key, &walk.mask, MegaflowStyle::OpenFlow);
        let actions = print_effects(&walk.effects, layout, &key, &walk.mask);
        text += &format!("Megaflow: {megaflow}\nDatapath actions: {actions}\n");
    }
    expected.assert_eq(&text);
}

fn ethernet() -> PacketBuilder {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    PacketBuilder::ethernet(address(1), address(2))
}

fn ipv4(builder: PacketBuilder) -> PacketBuilder {
    builder.ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
}

fn ipv6(builder: PacketBuilder) -> PacketBuilder {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    builder.ipv6(address(1), address(2))
}

fn tcp(builder: PacketBuilder) -> PacketBuilder {
    ipv4(builder).tcp(1000, 80).tcp_flags(TcpFlags(2))
}

/// CVE-2020-35498: bytes after the IP packet are padding, not part of any header.
#[test]
fn padding_is_not_read_as_headers() {
    let whole = tcp(ethernet()).build();
    let mut padded = whole.clone();
    padded.extend([0xff; 20]);
    // An IP packet of 20 bytes, followed by what could be read as a TCP header.
    let mut cut = whole.clone();
    cut[16..18].copy_from_slice(&[0, 20]);
    check(
        "table=0,priority=10,tcp,tp_dst=80,actions=output:2\n\
         table=0,priority=0,actions=output:3",
        &[whole, padded, cut],
        expect![[r#"
            Megaflow: recirc_id=0,eth,tcp,in_port=1,nw_frag=no,tp_dst=80
            Datapath actions: 2
            Megaflow: recirc_id=0,eth,tcp,in_port=1,nw_frag=no,tp_dst=80
            Datapath actions: 2
            Megaflow: recirc_id=0,eth,in_port=1,nw_frag=no,tp_dst=0x0/0xffc0
            Datapath actions: 3
        "#]],
    );
}

/// CVE-2023-1668: protocol 0 is a protocol; its packets are rewritten like others, and the
/// entry does not answer other protocols.
#[test]
fn protocol_zero_is_a_protocol() {
    let zero = ipv4(ethernet())
        .protocol(IpProtocol(0))
        .payload(&[0; 8])
        .build();
    check(
        "table=0,priority=10,ip,nw_proto=0,actions=mod_nw_dst:10.9.9.9,output:2\n\
         table=0,priority=5,ip,actions=mod_nw_dst:10.9.9.9,output:3\n\
         table=0,priority=0,actions=drop",
        &[zero, tcp(ethernet()).build()],
        expect![[r#"
            Megaflow: recirc_id=0,eth,ip,in_port=1,nw_proto=0
            Datapath actions: set(ipv4(dst=10.9.9.9)),2
            Megaflow: recirc_id=0,eth,ip,in_port=1,nw_proto=0x4/0xfc
            Datapath actions: set(ipv4(dst=10.9.9.9)),3
        "#]],
    );
}

/// CVE-2023-5366: a match on the target of neighbour discovery holds only for such packets.
#[test]
fn neighbor_discovery_targets_are_matched_exactly() {
    let advertisement = |target: u16| {
        let message = NeighborMessage::Advertisement {
            router: false,
            solicited: true,
            overrides: true,
        };
        let repr = NeighborRepr {
            message,
            target: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, target),
            source_link_layer: None,
            target_link_layer: Some(MacAddress::from_u64(0x0200_0000_0007)),
        };
        ipv6(ethernet()).neighbor(repr)
    };
    let twice = advertisement(7).payload(&[2, 1, 2, 0, 0, 0, 0, 9]);
    let endless = advertisement(7).payload(&[2, 0, 2, 0, 0, 0, 0, 9]);
    check(
        "table=0,priority=10,icmp6,icmp_type=136,icmp_code=0,nd_target=2001:db8::7,\
         actions=output:2\n\
         table=0,priority=0,actions=drop",
        &[
            advertisement(7).build(),
            advertisement(8).build(),
            twice.build(),
            endless.build(),
        ],
        expect![[r#"
            Megaflow: recirc_id=0,eth,icmp6,in_port=1,nw_frag=no,icmp_type=136,icmp_code=0,nd_target=2001:db8::7
            Datapath actions: 2
            Megaflow: recirc_id=0,eth,icmp6,nw_frag=no,icmp_type=136,icmp_code=0,nd_target=2001:db8::8
            Datapath actions: drop
            Megaflow: recirc_id=0,eth,icmp6,nw_frag=no,icmp_type=136,icmp_code=0,nd_target=::
            Datapath actions: drop
            Megaflow: recirc_id=0,eth,icmp6,in_port=1,nw_frag=no,icmp_type=136,icmp_code=0,nd_target=2001:db8::7
            Datapath actions: 2
        "#]],
    );
}

#[test]
fn truncated_headers_are_absent_and_not_written() {
    let whole = tcp(ethernet()).build();
    let within_ipv4 = whole[..30].to_vec();
    // The IP length matches the cut, so that only TCP is incomplete.
    let mut within_tcp = whole[..46].to_vec();
    within_tcp[16..18].copy_from_slice(&[0, 32]);
    let mut options_cut = whole.clone();
    options_cut[46] = 0x60;
    check(
        "table=0,priority=10,tcp,tp_dst=80,actions=mod_tp_dst:8080,output:2\n\
         table=0,priority=5,tcp,actions=mod_tp_dst:8080,output:3\n\
         table=0,priority=4,ip,actions=dec_ttl,output:4\n\
         table=0,priority=0,actions=drop",
        &[whole, within_ipv4, within_tcp, options_cut],
        expect![[r#"
            Megaflow: recirc_id=0,eth,tcp,in_port=1,nw_frag=no,tp_dst=80
            Datapath actions: set(tcp(dst=8080)),2
            Megaflow: recirc_id=0,eth,ip,in_port=1,nw_proto=0,nw_frag=no,present:ipv4=0x0
            Datapath actions: 4
            Megaflow: recirc_id=0,eth,tcp,in_port=1,nw_frag=no,tp_dst=0x0/0xffc0,present:tcp=0x0
            Datapath actions: 3
            Megaflow: recirc_id=0,eth,tcp,in_port=1,nw_frag=no,tp_dst=0x0/0xffc0,present:tcp=0x0
            Datapath actions: 3
        "#]],
    );
}

#[test]
fn rules_see_no_ports_in_fragments() {
    let fragment = |offset: u16, more: bool| {
        let builder = ipv4(ethernet()).fragment(7, offset, more);
        match offset {
            0 => builder.udp(1000, 53).payload(b"12345678").build(),
            _ => builder
                .protocol(IpProtocol::UDP)
                .payload(&[0, 53, 0, 53, 0, 8, 0, 0])
                .build(),
        }
    };
    check(
        "table=0,priority=10,udp,tp_dst=53,actions=output:2\n\
         table=0,priority=9,ip,ip_frag=later,actions=output:3\n\
         table=0,priority=0,actions=drop",
        &[
            ipv4(ethernet()).udp(1000, 53).build(),
            fragment(0, true),
            fragment(8, false),
        ],
        expect![[r#"
            Megaflow: recirc_id=0,eth,udp,in_port=1,nw_frag=no,tp_dst=53
            Datapath actions: 2
            Megaflow: recirc_id=0,eth,nw_frag=first
            Datapath actions: drop
            Megaflow: recirc_id=0,eth,ip,in_port=1,nw_frag=later
            Datapath actions: 3
        "#]],
    );
}

#[test]
fn a_tag_is_matched_present_or_absent() {
    check(
        "table=0,priority=10,vlan_tci=0,actions=mod_vlan_vid:7,output:2\n\
         table=0,priority=9,dl_vlan=7,actions=strip_vlan,output:3\n\
         table=0,priority=0,actions=drop",
        &[
            tcp(ethernet()).build(),
            tcp(ethernet().vlan(7, 3)).build(),
            tcp(ethernet().vlan(0, 0)).build(),
        ],
        expect![[r#"
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000
            Datapath actions: push_vlan(vid=7,pcp=0),2
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x5007/0xdfff,vlan_tci1=0x0000/0x1000
            Datapath actions: pop_vlan,3
            Megaflow: recirc_id=0,eth,vlan_tci=0x1000/0xfffc
            Datapath actions: drop
        "#]],
    );
}

/// Checks actions before an output, for packets with no tag, one tag and two tags.
fn write(actions: &str, expected: Expect) {
    let packets = [
        tcp(ethernet()).build(),
        tcp(ethernet().vlan(7, 3)).build(),
        tcp(ethernet().service_vlan(100, 1).vlan(7, 3)).build(),
    ];
    check(&format!("actions={actions},output:2"), &packets, expected);
}

/// Bit 12 of the field says whether there is a tag, both in writes and in matches.
#[test]
fn writing_a_tags_field_adds_or_removes_the_tag() {
    write(
        "set_field:0->vlan_tci",
        expect![[r#"
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000
        Datapath actions: 2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x0000/0x1000
        Datapath actions: pop_vlan,2
        Megaflow: recirc_id=0,eth,ip,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x1000/0x1000
        Datapath actions: pop_vlan,pop_vlan,2
    "#]],
    );
    write(
        "set_field:0xb005->vlan_tci",
        expect![[r#"
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000
        Datapath actions: push_vlan(vid=5,pcp=5),2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: set(vlan(vid=5,pcp=5)),2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: set(vlan(vid=5,pcp=5)),2
    "#]],
    );
    write(
        "load:0->NXM_OF_VLAN_TCI[12]",
        expect![[r#"
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000
        Datapath actions: 2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x0000/0x1000
        Datapath actions: pop_vlan,2
        Megaflow: recirc_id=0,eth,ip,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x1000/0x1000
        Datapath actions: pop_vlan,pop_vlan,2
    "#]],
    );
}

#[test]
fn writing_parts_of_a_tags_field() {
    write(
        "load:1->NXM_OF_VLAN_TCI[12]",
        expect![[r#"
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000
        Datapath actions: push_vlan(vid=0,pcp=0),2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: 2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: 2
    "#]],
    );
    write(
        "load:5->NXM_OF_VLAN_TCI[0..11]",
        expect![[r#"
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000
        Datapath actions: 2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: set(vlan(vid=5)),2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: set(vlan(vid=5)),2
    "#]],
    );
    write(
        "load:5->NXM_OF_VLAN_TCI[0..11],load:1->NXM_OF_VLAN_TCI[12]",
        expect![[r#"
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0xf000
            Datapath actions: push_vlan(vid=5,pcp=0),2
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
            Datapath actions: set(vlan(vid=5)),2
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
            Datapath actions: set(vlan(vid=5)),2
        "#]],
    );
    write(
        "move:NXM_OF_ETH_SRC[0..15]->NXM_OF_VLAN_TCI[]",
        expect![[r#"
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000,dl_src=00:00:00:00:00:01/00:00:00:00:ff:ff
            Datapath actions: 2
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x0000/0x1000,dl_src=00:00:00:00:00:01/00:00:00:00:ff:ff
            Datapath actions: pop_vlan,2
            Megaflow: recirc_id=0,eth,ip,in_port=1,vlan_tci=0x1000/0x1000,vlan_tci1=0x1000/0x1000,dl_src=00:00:00:00:00:01/00:00:00:00:ff:ff
            Datapath actions: pop_vlan,pop_vlan,2
        "#]],
    );
    write(
        "set_vlan_vid:5",
        expect![[r#"
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000
        Datapath actions: 2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: set(vlan(vid=5)),2
        Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1000/0x1000
        Datapath actions: set(vlan(vid=5)),2
    "#]],
    );
}

/// Bits written to an absent tag can be matched, and become part of a tag added later.
#[test]
fn the_rest_of_a_tags_field_is_kept_without_a_tag() {
    check(
        "table=0,vlan_tci=0/0x1000,actions=load:5->NXM_OF_VLAN_TCI[0..11],goto_table:1\n\
         table=0,priority=1,actions=load:0->NXM_OF_VLAN_TCI[12],goto_table:1\n\
         table=1,vlan_tci=0x0005/0x1fff,actions=mod_vlan_pcp:3,output:2\n\
         table=1,vlan_tci=0x0007/0x1fff,actions=normal\n\
         table=1,priority=1,actions=output:3",
        &[
            tcp(ethernet()).build(),
            tcp(ethernet().vlan(7, 3)).build(),
            tcp(ethernet().vlan(8, 3)).build(),
        ],
        expect![[r#"
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1000
            Datapath actions: push_vlan(vid=5,pcp=3),2
            Megaflow: recirc_id=0,eth,in_port=1,dl_vlan=7,vlan_tci1=0x0000/0x1000,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02
            Datapath actions: pop_vlan,2,3,4
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x1008/0x1ff8,vlan_tci1=0x0000/0x1000
            Datapath actions: pop_vlan,3
        "#]],
    );
}

#[test]
fn of_two_tags_the_outer_one_is_matched_first() {
    let double = || tcp(ethernet().service_vlan(100, 1).vlan(7, 2)).build();
    check(
        "table=0,priority=10,dl_vlan=100,actions=strip_vlan,goto_table:1\n\
         table=0,priority=0,actions=drop\n\
         table=1,priority=10,dl_vlan=7,tcp,actions=push_vlan:0x88a8,mod_vlan_vid:9,output:2\n\
         table=1,priority=0,actions=output:3",
        &[double(), tcp(ethernet().vlan(100, 0)).build()],
        expect![[r#"
            Megaflow: recirc_id=0,eth,tcp,in_port=1,dl_vlan=100,dl_vlan1=7
            Datapath actions: pop_vlan,push_vlan(tpid=0x88a8,vid=0,pcp=0),set(vlan(vid=9)),2
            Megaflow: recirc_id=0,eth,ip,in_port=1,dl_vlan=100,vlan_tci1=0x0000/0x1000
            Datapath actions: pop_vlan,3
        "#]],
    );
}

#[test]
fn labels_hide_what_is_behind_them() {
    let labelled = |builder: PacketBuilder| ipv4(builder).udp(1000, 53).build();
    check(
        "table=0,priority=10,mpls,mpls_label=16,mpls_bos=1,\
         actions=pop_mpls:0x0800,dec_ttl,output:2\n\
         table=0,priority=9,mpls,mpls_bos=0,actions=pop_mpls:0x8847,output:3\n\
         table=0,priority=8,udp,actions=push_mpls:0x8847,set_field:16->mpls_label,output:4\n\
         table=0,priority=0,actions=drop",
        &[
            labelled(ethernet().mpls(16, 0, 64)),
            labelled(ethernet().mpls(17, 0, 64).mpls(16, 0, 64)),
            labelled(ethernet()),
        ],
        expect![[r#"
            Megaflow: recirc_id=0,eth,mpls,mpls_label=16,mpls_bos=1
            Datapath actions: pop_mpls(eth_type=0x800),recirc(0x0)
            Megaflow: recirc_id=0,eth,mpls,in_port=1,mpls_label=17,mpls_bos=0
            Datapath actions: pop_mpls(eth_type=0x8847),3
            Megaflow: recirc_id=0,eth,udp,in_port=1,nw_tos=0,nw_ttl=64,mpls_label=0x0/0xffff0
            Datapath actions: push_mpls(label=0,tc=0,ttl=64,bos=1,eth_type=0x8847),set(mpls(label=16)),4
        "#]],
    );
}

#[test]
fn a_resubmit_changes_the_port_for_its_lookup_alone() {
    check(
        "table=0,actions=resubmit(3,1),output:4\n\
         table=1,in_port=3,actions=output:1,output:3,in_port\n\
         table=1,priority=0,actions=output:2",
        &[tcp(ethernet()).build()],
        expect![[r#"
            Megaflow: recirc_id=0,eth,in_port=1
            Datapath actions: 3,1,4
        "#]],
    );
}

#[test]
fn a_clone_executes_the_action_set_and_its_exit_ends_the_walk() {
    check(
        "table=0,actions=write_actions(output:2),goto_table:1\n\
         table=1,priority=10,tcp,actions=clone(push_vlan:0x8100),output:3\n\
         table=1,priority=0,actions=clone(exit),output:3",
        &[tcp(ethernet()).build(), ipv4(ethernet()).udp(1, 2).build()],
        expect![[r#"
            Megaflow: recirc_id=0,eth,tcp,in_port=1,vlan_tci=0x0000/0x1000
            Datapath actions: clone(push_vlan(vid=0,pcp=0),2),3,2
            Megaflow: recirc_id=0,eth,nw_proto=0x10/0xf0
            Datapath actions: drop
        "#]],
    );
}

/// A goto reached by a resubmit returns to the resubmitting list, even after another parse.
#[test]
fn a_resubmit_is_returned_to_after_another_parse() {
    let pipeline = pipeline(
        "table=0,actions=resubmit(,1),goto_table:2\n\
         table=1,ip,actions=push_mpls:0x8847,pop_mpls:0x0800,dec_ttl,goto_table:2\n\
         table=2,actions=output:3",
    );
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let mut packet = Packet::from_bytes(&tcp(ethernet()).build());
    packet.set_received(PortId(1), Instant::ZERO);
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    assert_eq!((passes.len(), outbox.sent.len()), (2, 2));
}
