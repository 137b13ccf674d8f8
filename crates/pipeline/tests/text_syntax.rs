//! Rules in, rules out: how each spelling is read and printed, and the message for each fault.

use std::io::{BufReader, Read};

use thalweg_packet::standard::{IN_PORT, IP_DST, REG0, REG1, VLAN_TCI};
use thalweg_packet::{FieldId, PortId};
use thalweg_pipeline::text::{
    self, LOCAL_PORT, MAX_LINE_BYTES, NO_PORT, Parser, ReadError, TextError, parse_changes,
    parse_flow, parse_groups, parse_match, parse_rules,
};
use thalweg_pipeline::{Action, GroupId, Operation, Output, Selector, TableId, Target, Write};

fn printed(text: &str) -> String {
    let flow = parse_flow(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let printed = flow.to_string();
    assert_eq!(parse_flow(&printed).as_ref(), Ok(&flow), "{printed}");
    let compact = format!("{flow:#}");
    assert_eq!(parse_flow(&compact).as_ref(), Ok(&flow), "{compact}");
    printed
}

/// The printed form of a match.
fn conditions(text: &str) -> String {
    let printed = printed(&format!("{text},actions=drop"));
    let conditions = printed.strip_prefix("table=0, ").expect("table 0");
    let end = conditions.find("actions=").expect("actions");
    conditions[..end].trim_end().to_string()
}

/// The printed form of actions, in a rule with this match.
fn actions(matching: &str, text: &str) -> String {
    let printed = printed(&format!("{matching} actions={text}"));
    let start = printed.find("actions=").expect("actions");
    printed[start + "actions=".len()..].to_string()
}

fn fault(text: &str) -> String {
    match parse_flow(text) {
        Ok(flow) => panic!("{text} is accepted as {flow}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn matches_are_printed_as_open_vswitch_does() {
    let same = [
        "",
        "in_port=1",
        "in_port=LOCAL",
        "ip",
        "ipv6",
        "tcp,nw_src=10.0.0.0/8,tp_dst=80",
        "udp6,ipv6_dst=2001:db8::/32,tp_src=0x400/0xfc00",
        "sctp,nw_dst=10.0.0.1/255.0.0.255,tp_dst=7",
        "icmp,icmp_type=8,icmp_code=0",
        "icmp6,nw_ttl=255,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01",
        "icmp6,icmp_type=136,icmp_code=0,nd_tll=00:00:00:00:00:00",
        "arp,arp_spa=10.0.0.0/24,arp_tpa=10.0.0.1,arp_op=1,arp_sha=02:00:00:00:00:01",
        "rarp",
        "mpls,mpls_label=100,mpls_tc=3,mpls_ttl=64,mpls_bos=1",
        "mplsm",
        "dl_type=0x9000",
        "priority=65532,ipv6,nw_proto=0",
        "ip,nw_proto=47",
        "reg0=0,metadata=0x2",
        "reg0=0/0x1,reg15=0xffffffff,tun_id=0x5/0xff,tun_src=10.0.0.1,tun_dst=10.0.0.0/8",
        "dl_vlan=100",
        "dl_vlan=100,dl_vlan_pcp=3",
        "dl_vlan_pcp=3",
        "vlan_tci=0x0000",
        "vlan_tci=0x0000/0x1fff",
        "vlan_tci=0x1000/0x1000",
        "dl_src=02:00:00:00:00:01,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
        "ip,nw_tos=184,nw_ecn=2,nw_ttl=64",
        "ip,nw_frag=no",
        "ip,nw_frag=yes",
        "ip,nw_frag=first",
        "ip,nw_frag=later",
        "ip,nw_frag=not_later",
        "tcp,tcp_flags=+syn-ack",
        "tcp,tcp_flags=syn|ack",
        "tcp,tcp_flags=0",
        "ipv6,ipv6_label=0x00005/0x0000f",
        "ipv6,ipv6_dst=ff00::/fff0:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ];
    for text in same {
        assert_eq!(conditions(text), text);
    }
}

#[test]
fn spellings_of_one_match_are_one_match() {
    let pairs = [
        ("dl_type=0x0800", "ip"),
        ("eth_type=0x86dd,ip_proto=6", "tcp6"),
        ("dl_type=2048,nw_proto=17", "udp"),
        ("ip4", "ip"),
        ("ip6", "ipv6"),
        ("in_port=65534", "in_port=LOCAL"),
        ("in_port=0xfffffffe", "in_port=LOCAL"),
        ("NXM_OF_IN_PORT[]=3", "in_port=3"),
        ("tcp,tcp_dst=80", "tcp,tp_dst=80"),
        ("udp6,OXM_OF_UDP_SRC[]=53", "udp6,tp_src=53"),
        ("icmp6,icmpv6_type=135", "icmp6,icmp_type=135"),
        (
            "arp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_proto=1",
            "arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_op=1",
        ),
        ("dl_vlan=0xffff", "vlan_tci=0x0000"),
        ("vlan_vid=0x1064", "dl_vlan=100"),
        ("vlan_vid=0x1000/0x1000", "vlan_tci=0x1000/0x1000"),
        ("vlan_vid=0", "vlan_tci=0x0000/0x1fff"),
        ("dl_vlan=10,vlan_pcp=7", "dl_vlan=10,dl_vlan_pcp=7"),
        ("NXM_OF_VLAN_TCI[12]=1", "vlan_tci=0x1000/0x1000"),
        ("OXM_OF_VLAN_VID[]=64", "vlan_tci=0x0040/0x0fff"),
        ("ip,ip_dscp=46", "ip,nw_tos=184"),
        ("ip,ip_ecn=1", "ip,nw_ecn=1"),
        ("NXM_NX_REG0[0..15]=0x1234", "reg0=0x1234/0xffff"),
        ("xreg0=0x100000002", "reg0=0x1,reg1=0x2"),
        ("xxreg0=0x4", "reg0=0,reg1=0,reg2=0,reg3=0x4"),
        ("xxreg1=0x4/0xff", "reg7=0x4/0xff"),
        ("tunnel_id=010", "tun_id=0x8"),
        ("metadata=*", ""),
        ("ip,nw_src=10.1.2.3/0", "ip"),
        ("ip,nw_src=10.1.2.3/16", "ip,nw_src=10.1.0.0/16"),
        ("tcp,tcp_flags=0x2/0x12", "tcp,tcp_flags=+syn-ack"),
        ("eth,ip", "ip"),
        (" tp_dst=80  tcp\t", "tcp,tp_dst=80"),
    ];
    for (spelling, usual) in pairs {
        assert_eq!(conditions(spelling), usual, "{spelling}");
    }
}

/// A rule's match, and its actions in their printed form.
const ACTIONS: &[(&str, &str)] = &[
    ("", "drop"),
    ("", "output:1,output:2"),
    ("", "IN_PORT,ALL,FLOOD,NORMAL,LOCAL"),
    ("", "CONTROLLER:96"),
    ("", "controller(max_len=64,userdata=00.01.ff)"),
    ("", "controller(id=7,pause)"),
    ("", "controller(reason=packet_out,userdata=07,pause)"),
    ("", "controller(reason=action_set)"),
    ("", "controller(reason=group)"),
    ("", "output:NXM_NX_REG0[0..15]"),
    ("", "goto_table:2"),
    ("", "resubmit(,15)"),
    ("", "resubmit(3,15)"),
    ("", "resubmit:3"),
    ("", "group:7,note:00.11.22,exit"),
    ("", "clone(set_field:0x5->reg11,resubmit(,8)),output:1"),
    (
        "",
        "clear_actions,write_actions(set_field:0x1->reg0,output:1),write_metadata:0x1/0xff,\
              goto_table:3",
    ),
    ("", "push_vlan:0x8100,set_field:4196->vlan_vid,goto_table:2"),
    ("", "push_vlan:0x88a8,set_field:5->vlan_pcp,pop_vlan"),
    ("", "mod_vlan_vid:10,mod_vlan_pcp:3,pop_vlan"),
    (
        "",
        "set_field:02:00:00:00:00:01->eth_src,set_field:01:00:00:00:00:00/01:00:00:00:00:00->eth_dst",
    ),
    (
        "",
        "set_field:0->reg0,set_field:0x1000/0x1000->reg10,set_field:0x5->tun_id",
    ),
    (
        "",
        "push:NXM_OF_IN_PORT[],set_field:ANY->in_port,resubmit(,65),pop:NXM_OF_IN_PORT[]",
    ),
    ("", "move:NXM_NX_XXREG0[]->NXM_NX_XXREG1[]"),
    ("", "move:NXM_NX_XXREG0[16..79]->OXM_OF_PKT_REG2[]"),
    (
        "ip",
        "set_field:10.0.0.1->ip_src,set_field:10.0.0.0/8->ip_dst,dec_ttl",
    ),
    (
        "ip",
        "set_field:46->ip_dscp,set_field:1->nw_ecn,set_field:64->nw_ttl",
    ),
    (
        "",
        "mod_nw_src:10.0.0.1,mod_nw_tos:184,mod_nw_ttl:64,mod_tp_dst:80",
    ),
    ("tcp", "set_field:80->tcp_dst,set_field:80/0xff->tcp_src"),
    (
        "udp6",
        "set_field:2001:db8::1->ipv6_dst,set_field:53->udp_dst",
    ),
    (
        "icmp6,icmp_type=135,icmp_code=0",
        "set_field:136->icmpv6_type,set_field:fe80::1->nd_target",
    ),
    (
        "arp",
        "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:2->arp_op",
    ),
    (
        "ip",
        "push_mpls:0x8847,set_field:7->mpls_label,set_field:1->mpls_tc,dec_mpls_ttl",
    ),
    ("mpls", "pop_mpls:0x0800,set_field:10.0.0.1->ip_dst"),
    ("", "set_mpls_label:7,set_mpls_ttl:3"),
    (
        "",
        "set_queue:7,pop_queue,enqueue:3:9,enqueue:LOCAL:0,enqueue:IN_PORT:4294967295",
    ),
    ("", "write_actions(set_queue:7,output:2)"),
    (
        "",
        "output(port=3,max_len=14),output(port=LOCAL,max_len=4294967295)",
    ),
    ("", "output(port=IN_PORT,max_len=100)"),
    ("", "debug_slow,debug_recirc,output:2"),
    (
        "",
        "multipath(eth_src,50,hrw,12,0,NXM_NX_REG0[0..3]),
         multipath(symmetric_l4,1024,iter_hash,5000,5050,NXM_NX_REG0[0..12]),
         multipath(nw_dst,0,modulo_n,65536,1,NXM_NX_REG0[0..15]),
         multipath(symmetric_l3l4+udp,0,hash_threshold,1,0,NXM_NX_REG0[3])",
    ),
    (
        "",
        "bundle(symmetric_l4,60,hrw,ofport,members:1,2,LOCAL,IN_PORT,NORMAL,ANY),
         bundle(nw_src,0,active_backup,ofport,members:),
         bundle_load(symmetric_l3,65535,hrw,ofport,NXM_NX_REG0[16..31],members:7,8)",
    ),
];

#[test]
fn actions_are_printed_as_open_vswitch_does() {
    for (matching, text) in ACTIONS {
        let text: String = text.split_whitespace().collect();
        assert_eq!(actions(matching, &text), text, "{matching}");
    }
}

/// A rule's match, actions, and their printed form.
const ACTION_SPELLINGS: &[(&str, &str, &str)] = &[
    ("", "1,NORMAL", "output:1,NORMAL"),
    (
        "",
        "output:normal,output:local,in_port",
        "NORMAL,LOCAL,IN_PORT",
    ),
    ("", "controller", "CONTROLLER:65535"),
    (
        "",
        "output:CONTROLLER:12,CONTROLLER:13",
        "CONTROLLER:12,CONTROLLER:13",
    ),
    ("", "controller(reason=action,id=0)", "CONTROLLER:65535"),
    (
        "",
        "load:0x5->NXM_NX_REG0[8..15]",
        "set_field:0x500/0xff00->reg0",
    ),
    ("", "load:0x5->NXM_NX_XXREG0[64..95]", "set_field:0x5->reg1"),
    (
        "",
        "set_field:0x5/0xffff->xxreg0",
        "set_field:0x5/0xffff->reg3",
    ),
    (
        "",
        "set_field:0x100000002->xreg0",
        "set_field:0x100000002->xreg0",
    ),
    (
        "",
        "load:0->NXM_OF_IN_PORT[],load:0xffff->in_port",
        "set_field:0->in_port,set_field:ANY->in_port",
    ),
    (
        "",
        "set_field:10->dl_vlan,strip_vlan",
        "mod_vlan_vid:10,pop_vlan",
    ),
    (
        "dl_vlan=1",
        "load:10->OXM_OF_VLAN_VID[]",
        "set_field:0xa/0xfff->vlan_tci",
    ),
    (
        "dl_vlan=1",
        "load:10->NXM_OF_VLAN_TCI[0..11]",
        "set_field:0xa/0xfff->vlan_tci",
    ),
    ("", "set_vlan_pcp:3", "set_vlan_pcp:3"),
    ("", "set_vlan_vid:3", "set_vlan_vid:3"),
    (
        "",
        "load:3->NXM_OF_VLAN_TCI[13..15],load:1->vlan_tci[12]",
        "set_field:0x6000/0xe000->vlan_tci,set_field:0x1000/0x1000->vlan_tci",
    ),
    (
        "ip",
        "mod_nw_dst:10.0.0.1,set_field:184->nw_tos",
        "set_field:10.0.0.1->ip_dst,set_field:46->ip_dscp",
    ),
    ("ip", "load:2->NXM_OF_IP_TOS[2..7]", "set_field:2->ip_dscp"),
    (
        "ip",
        "load:3->NXM_NX_IP_TTL[0..3]",
        "load:0x3->NXM_NX_IP_TTL[0..3]",
    ),
    (
        "",
        "mod_dl_src:2:0:0:0:0:1",
        "set_field:02:00:00:00:00:01->eth_src",
    ),
    ("", "dec_ttl(0),DEC_TTL", "dec_ttl,dec_ttl"),
    (
        "",
        "set_tunnel:5,set_tunnel64:0x1ffffffff",
        "set_field:0x5->tun_id,set_field:0x1ffffffff->tun_id",
    ),
    (
        "",
        "enqueue(3,9),enqueue:3q9,enqueue:0xfffe:1",
        "enqueue:3:9,enqueue:3:9,enqueue:LOCAL:1",
    ),
    (
        "",
        "multipath(eth_src, 50, modulo_n, 1, 0, reg0)",
        "multipath(eth_src,50,modulo_n,1,0,NXM_NX_REG0[])",
    ),
    (
        "",
        "bundle(nw_src,0,hrw,ofport,slaves:[1,2]),bundle_load(ETH_SRC,0,HRW,ofport,reg0,members:1)",
        "bundle(nw_src,0,hrw,ofport,members:1,2),
         bundle_load(eth_src,0,hrw,ofport,NXM_NX_REG0[],members:1)",
    ),
    ("", "resubmit(IN_PORT,3)", "resubmit(,3)"),
    ("", "note:001122", "note:00.11.22"),
    ("", "clone()", "clone(drop)"),
    ("", "output:reg0", "output:NXM_NX_REG0[]"),
    ("", "write_metadata:5", "write_metadata:0x5"),
    ("", "", "drop"),
];

#[test]
fn spellings_of_one_action_are_one_action() {
    for (matching, spelling, usual) in ACTION_SPELLINGS {
        let usual: String = usual.split_whitespace().collect();
        assert_eq!(actions(matching, spelling), usual, "{spelling}");
    }
}

#[test]
fn values_land_where_they_should() {
    let flow = parse_flow(
        "table=3,ip,in_port=LOCAL,nw_dst=10.1.0.0/16,dl_vlan=5,actions=\
                           set_field:0x1/0x3->xreg0,set_field:ANY->in_port,goto_table:4",
    )
    .expect("a rule");
    let term = |field: FieldId| {
        let term = flow.matching.term(field).expect("matched");
        (term.value, term.mask)
    };
    assert_eq!(flow.table, TableId(3));
    assert_eq!(term(IN_PORT), (LOCAL_PORT.0.into(), 0xffff_ffff));
    assert_eq!(term(IP_DST), (0x0a01_0000, 0xffff_0000));
    assert_eq!(term(VLAN_TCI), (0x1005, 0x1fff));
    let write = |field, value, mask| Action::SetField(Box::new([Write { field, value, mask }]));
    assert_eq!(
        flow.actions[..],
        [
            write(REG1, 1, 3),
            write(IN_PORT, NO_PORT.0.into(), 0xffff_ffff),
            Action::Goto(TableId(4)),
        ]
    );
    let flow = parse_flow("actions=move:NXM_NX_XXREG0[16..79]->xreg2").expect("a rule");
    let Action::Move { source, .. } = &flow.actions[0] else {
        panic!("a move");
    };
    let slices: Vec<_> = source
        .slices
        .iter()
        .map(|slice| (slice.field.0 - REG0.0, slice.offset, slice.width_bits))
        .collect();
    assert_eq!(slices, [(3, 16, 16), (2, 0, 32), (1, 0, 16)]);
}

/// Invalid rules, and the messages for them.
const FAULTS: &[(&str, &str)] = &[
    (
        "tp_dst=80 actions=1",
        "flow:1:1: `tp_dst` needs `tcp`, `udp` or `sctp` (or tcp6, udp6, sctp6); say so in the rule's match",
    ),
    (
        "ip,nw_src=10.0.0.256,actions=1",
        "flow:1:11: `10.0.0.256` is not an IPv4 address (10.0.0.1)",
    ),
    (
        "ipv6,nw_src=10.0.0.1 actions=1",
        "flow:1:6: `nw_src` needs `ip`; say so in the rule's match",
    ),
    (
        "ip",
        "flow:1:3: the rule has no actions; end it with actions=... (actions=drop for none)",
    ),
    (
        "in_prt=1 actions=1",
        "flow:1:1: unknown field or keyword `in_prt`; see ovs-fields(7) for fields and ovs-ofctl(8) for keywords",
    ),
    (
        "ip,arp actions=1",
        "flow:1:4: `arp` contradicts an earlier condition; remove one of them",
    ),
    (
        "in_port=eth0 actions=1",
        "flow:1:9: unknown port `eth0`; give its number, or the name of a port that exists",
    ),
    (
        "dl_vlan=5000 actions=1",
        "flow:1:9: `5000` is not a number of at most 12 bits",
    ),
    (
        "reg0=0x100000000 actions=1",
        "flow:1:6: `0x100000000` is not a number of at most 32 bits",
    ),
    (
        "ip,nw_ttl=1/1 actions=1",
        "flow:1:11: `1/1` is not a value for `nw_ttl`, which takes no mask",
    ),
    (
        "nd_reserved=1 actions=1",
        "flow:1:1: `nd_reserved` is not supported; 1 line uses it",
    ),
    (
        "nsh_spi=1 actions=1",
        "flow:1:1: `nsh_spi` needs `eth_type=0x894f`; say so in the rule's match",
    ),
    (
        "eth_type=0x894f,nsh_ttl=64 actions=1",
        "flow:1:25: `64` is not a number of at most 6 bits",
    ),
    (
        "actions=meter:0",
        "flow:1:15: `0` is not a meter (1 to 4294901760)",
    ),
    (
        "actions=write_actions(meter:1)",
        "flow:1:23: an action set cannot hold this; use it outside",
    ),
    (
        "actions=fly",
        "flow:1:9: unknown action or port `fly`; give its number, or the name of a port that exists",
    ),
    (
        "actions=set_field:1->tcp_dst",
        "flow:1:22: `tcp_dst` needs `tcp` or `tcp6`; say so in the rule's match",
    ),
    (
        "actions=set_field:4196->vlan_vid",
        "flow:1:25: `vlan_vid` needs a VLAN tag (dl_vlan=N, or push_vlan before it); say so in the rule's match",
    ),
    (
        "actions=set_field:6->nw_proto",
        "flow:1:22: `nw_proto` is not a field that can be written",
    ),
    (
        "actions=move:reg0->reg1[0..3]",
        "flow:1:20: `reg1[0..3]` is not as wide as the 32 bits it gets",
    ),
    (
        "actions=goto_table:1,output:1",
        "flow:1:22: instructions come in this order, each once: actions, clear_actions, write_actions, write_metadata, goto_table",
    ),
    (
        "actions=clone(goto_table:1)",
        "flow:1:15: an instruction stands only in a rule's own list",
    ),
    (
        "actions=write_actions(exit)",
        "flow:1:23: an action set cannot hold this; use it outside",
    ),
    (
        "actions=drop,1",
        "flow:1:9: `drop` stands alone; remove it or the other actions",
    ),
    (
        "actions=clone(1",
        "flow:1:15: this parenthesis is not closed; write `)`",
    ),
    (
        "actions=resubmit(,)",
        "flow:1:9: this would look up the same rule again; name a port or a table",
    ),
    (
        "actions=enqueue:flood:1",
        "flow:1:17: `flood` is not a port's number or name, LOCAL or IN_PORT",
    ),
    (
        "actions=multipath(eth_src,50,modulo_n,1,0)",
        "flow:1:9: write multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARGUMENT,FIELD[FIRST..LAST])",
    ),
    (
        "actions=multipath(eth_src,50,fubar,1,0,reg0)",
        "flow:1:30: `fubar` is not one of modulo_n, hash_threshold, hrw and iter_hash",
    ),
    (
        "actions=multipath(eth_src,50,hrw,65537,0,reg0)",
        "flow:1:34: `65537` is not a number of links (1 to 65536)",
    ),
    (
        "actions=multipath(eth_src,50,hrw,1024,0,reg0[0..7])",
        "flow:1:41: `reg0[0..7]` is not wide enough for 1024 links",
    ),
    (
        "actions=bundle(eth_src,50,hrw,ofport,1,2)",
        "flow:1:9: write bundle(FIELDS,BASIS,ALGORITHM,ofport,members:PORT,...)",
    ),
    (
        "actions=bundle(eth_src,50,hrw,robot,members:1)",
        "flow:1:31: `robot` is not the type of members, ofport",
    ),
    (
        "actions=bundle(eth_src,50,hrw,ofport,members:1,controller)",
        "flow:1:48: `controller` is not a port; a controller cannot be a member",
    ),
    (
        "actions=bundle_load(eth_src,50,hrw,ofport,reg0[0..14],members:1)",
        "flow:1:43: `reg0[0..14]` is not wide enough for a port's 16 bits",
    ),
    (
        "actions=output(port=3,max_len=13)",
        "flow:1:31: `13` is not a length of at least 14 bytes",
    ),
    (
        "actions=output(port=flood,max_len=14)",
        "flow:1:21: `flood` is not a port's number or name, LOCAL or IN_PORT",
    ),
    (
        "actions=output(port=3)",
        "flow:1:9: write output(port=PORT,max_len=BYTES)",
    ),
    (
        "actions=output(port=3,len=14)",
        "flow:1:23: unknown option of `output` `len`; there are port and max_len",
    ),
    ("actions=enqueue:3", "flow:1:9: write enqueue:PORT:QUEUE"),
    (
        "actions=set_queue:4294967296",
        "flow:1:19: `4294967296` is not a number of at most 32 bits",
    ),
    (
        "actions=write_actions(enqueue:3:1)",
        "flow:1:23: an action set cannot hold this; use it outside",
    ),
    (
        "table=255 actions=1",
        "flow:1:7: `255` is not a table (0 to 254)",
    ),
    (
        "actions=reg0[3..1]=5",
        "flow:1:9: unknown action `reg0[3..1]`; see ovs-actions(7) for their names",
    ),
    (
        "cookie=1/1 actions=1",
        "flow:1:8: a rule's own cookie has no mask; remove it",
    ),
    (
        "äö=1 actions=1",
        "flow:1:1: unknown field or keyword `äö`; see ovs-fields(7) for fields and ovs-ofctl(8) for keywords",
    ),
];

#[test]
fn faults_say_where_and_what_to_do() {
    for (text, message) in FAULTS {
        assert_eq!(fault(text), *message);
    }
}

#[test]
fn limits_hold() {
    let nested = |depth: usize| format!("actions={}1{}", "clone(".repeat(depth), ")".repeat(depth));
    assert!(parse_flow(&nested(31)).is_ok());
    assert!(matches!(
        parse_flow(&nested(32)),
        Err(TextError::Limit { limit: 32, .. })
    ));
    assert!(matches!(
        parse_flow(&nested(100_000)),
        Err(TextError::Limit { .. })
    ));
    let long = format!("actions={}", "1,".repeat(1 << 20));
    assert!(matches!(parse_flow(&long), Err(TextError::Limit { .. })));
    let many = "nonsense\n".repeat(1000);
    assert_eq!(parse_rules("many", &many).expect_err("faults").len(), 100);
}

#[test]
fn what_is_missing_is_counted_by_name() {
    let text = format!(
        "arp,actions=drop\n{}nd_reserved=1,actions=drop\nactions=fly\n{}",
        "ip,actions=dec_ttl(7)\n".repeat(300),
        "actions=dec_ttl(7)\nskb_priority=1,actions=drop\n".repeat(2)
    );
    let errors = parse_rules("r", &text).expect_err("faults");
    let said: Vec<String> = errors.iter().map(TextError::to_string).collect();
    assert_eq!(
        said,
        [
            "r:2:20: `dec_ttl(CONTROLLER_IDS)` is not supported; 302 lines use it, this one first",
            "r:302:1: `nd_reserved` is not supported; 1 line uses it",
            "r:303:9: unknown action or port `fly`; give its number, or the name of a port that \
             exists",
            "r:305:1: `skb_priority` is not supported; 2 lines use it, this one first",
        ]
    );
}

#[test]
fn a_goto_leads_to_later_tables_only() {
    for (text, message) in [
        (
            "actions=goto_table:0",
            "1:9: goto_table:0 in table 0; a rule can only go to a later",
        ),
        (
            "table=3,ip actions=dec_ttl,goto_table:2",
            "1:28: goto_table:2 in table 3",
        ),
        (
            "table=1 actions=2,GOTO_TABLE:1",
            "1:19: goto_table:1 in table 1",
        ),
    ] {
        let said = parse_flow(text).expect_err(text).to_string();
        assert!(said.contains(message), "{said}");
    }
    assert!(parse_flow("table=3,actions=goto_table:4").is_ok());
    let changes = |text| text::parse_changes("c", text).map_err(|errors| errors[0].to_string());
    let said = changes("modify table=2,ip actions=goto_table:1").expect_err("it leads back");
    assert!(said.contains("c:1:27: goto_table:1 in table 2"), "{said}");
    // The rules' tables are checked only when the modification is performed.
    assert!(changes("modify ip actions=goto_table:1").is_ok());
}

/// Reads a text as a stream, a few bytes at a time.
fn streamed(text: &[u8], limit: usize) -> Result<text::Rules, ReadError> {
    let stream = BufReader::with_capacity(7, text);
    Parser::new().read_rules("r", stream, limit)
}

#[test]
fn a_stream_is_read_as_its_text_is() {
    let texts = [
        "",
        "\n\n# nothing\n",
        "arp,actions=drop\r\nip,actions=output:1",
        "group_id=1,type=all,bucket=output:1\nip,actions=group:1\n",
        "nonsense\nip,actions=encap()\n\nactions=ct()\n äö",
        "table=1\r\ntable=1\r",
        "NXST_FLOW reply (xid=0x4):\n cookie=0x0, priority=1 actions=drop\n",
    ];
    for text in texts {
        match (
            parse_rules("r", text),
            streamed(text.as_bytes(), usize::MAX),
        ) {
            (Ok(rules), Ok(read)) => assert_eq!(read, rules, "{text}"),
            (Err(errors), Err(ReadError::Text(read))) => assert_eq!(read, errors, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_stream_ends_where_a_limit_is_met() {
    let faults = |text: &[u8], limit| match streamed(text, limit) {
        Err(ReadError::Text(errors)) => errors.iter().map(TextError::to_string).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let rules = "ip,actions=drop\n".repeat(3);
    assert!(streamed(rules.as_bytes(), 3).is_ok());
    let said = faults(format!("{rules}{rules}nonsense").as_bytes(), 3);
    let limit = "the text has more rules than the limit of 3; leave some out, or raise the limit";
    assert_eq!(said, [format!("r:4:1: {limit}")]);
    // Reading stops before the end of an endless line.
    let line = vec![b'a'; MAX_LINE_BYTES + 1];
    let endless = line.as_slice().chain(std::io::repeat(b'a'));
    let read = Parser::new().read_rules("r", BufReader::new(endless), 3);
    let Err(ReadError::Text(errors)) = read else {
        panic!("{read:?}");
    };
    assert!(
        matches!(
            &errors[..],
            [TextError::Limit {
                limit: MAX_LINE_BYTES,
                ..
            }]
        ),
        "{errors:?}"
    );
    assert!(matches!(streamed(&line, 3), Err(ReadError::Text(_))));
    let longest = [b"#".as_slice(), &line[2..], b"\r\narp,actions=drop"].concat();
    assert_eq!(
        streamed(&longest, 3)
            .expect("a line of the longest length")
            .flows
            .len(),
        1
    );
    assert!(matches!(streamed(b"arp\xff", 3), Err(ReadError::Io(_))));
}

#[test]
fn dumps_are_read_as_they_are() {
    let text = "OFPST_FLOW reply (OF1.3) (xid=0x2): flags=[more]\n\
        \x20cookie=0x5adc15c0, duration=11.389s, table=1, n_packets=1, n_bytes=70, idle_age=3, \
        send_flow_rem check_overlap importance=3, priority=4096,in_port=1,vlan_tci=0x0000/0x1fff \
        actions=push_vlan:0x8100,set_field:4196->vlan_vid,goto_table:2\r\n\
        NXST_FLOW reply (xid=0x4):\n\
        # a comment\n\n\
        \x20cookie=0x1, duration=3.2s, table=0, n_packets=0, n_bytes=0, idle_timeout=10, \
        hard_timeout=20, hard_age=1, actions=drop # nothing\n\
        group_id=1,type=all,bucket=output:1\n";
    let rules = parse_rules("dump", text).expect("a dump");
    let printed: Vec<String> = rules.flows.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "cookie=0x5adc15c0, table=1, send_flow_rem, priority=4096,in_port=1,\
             vlan_tci=0x0000/0x1fff actions=push_vlan:0x8100,set_field:4196->vlan_vid,goto_table:2",
            "cookie=0x1, table=0, idle_timeout=10, hard_timeout=20, actions=drop",
        ]
    );
    assert_eq!(rules.groups.len(), 1);
    let errors = parse_rules(
        "bad",
        "actions=1\n\nip,actions=encap()\n  tp_dst=1 actions=1",
    )
    .expect_err("faults");
    let places: Vec<String> = errors
        .iter()
        .map(|error| error.place().to_string())
        .collect();
    assert_eq!(places, ["bad:3:12", "bad:4:3"]);
}

#[test]
fn names_of_ports_are_the_callers() {
    let ports = |name: &str| (name == "br-int" || name == "p1").then_some(PortId(9));
    let mut parser = Parser::new().with_ports(&ports);
    let flow = parser
        .parse_flow("in_port=\"br-int\" actions=output:\"br-int\",p1,resubmit(p1,2)")
        .expect("a rule");
    assert_eq!(
        flow.to_string(),
        "table=0, in_port=9 actions=output:9,output:9,resubmit(9,2)"
    );
    assert!(parse_flow("actions=p1").is_err());
}

#[test]
fn groups_are_read_and_printed() {
    let text = "OFPST_GROUP_DESC reply (OF1.5) (xid=0x2):\n\
        \x20group_id=1,type=select,selection_method=hash,fields(ip_dst,tcp_dst=0xff),bucket=bucket_id:5,weight:100,\
        watch_port:1,actions=output:2,bucket=output:3,dec_ttl\n\
        group_id=2,type=ff,bucket=watch_group:1,actions=drop,bucket=watch_port:2,actions=2\n\
        group_id=3,type=indirect,bucket=actions=set_field:80->tcp_dst,group:1\n\
        group_id=4,type=all\n";
    let groups = parse_groups("groups", text).expect("groups");
    let printed: Vec<String> = groups.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        [
            "group_id=1,type=select,selection_method=hash,fields(ip_dst,tcp_dst=255),\
             bucket=bucket_id:5,weight:100,watch_port:1,actions=output:2,\
             bucket=bucket_id:0,actions=output:3,dec_ttl",
            "group_id=2,type=ff,bucket=bucket_id:0,watch_group:1,actions=drop,\
             bucket=bucket_id:1,watch_port:2,actions=output:2",
            "group_id=3,type=indirect,bucket=bucket_id:0,actions=mod_tp_dst:80,group:1",
            "group_id=4,type=all",
        ]
    );
    assert_eq!(parse_groups("again", &printed.join("\n")), Ok(groups));
    for (text, what) in [
        ("type=all", "number"),
        ("group_id=1", "type"),
        ("group_id=1,type=all,bucket=weight:1,actions=1", "weight"),
        ("group_id=1,type=ff,bucket=actions=1", "watch"),
        ("group_id=1,type=indirect,bucket=1,bucket=2", "one bucket"),
        (
            "group_id=1,type=all,bucket=bucket_id:1,1,bucket=bucket_id:1,2",
            "bucket_id",
        ),
        ("group_id=1,type=all,fields(ip_dst)", "select"),
        ("group_id=1,type=all,selection_method=hash", "select"),
        (
            "group_id=1,type=select,selection_method_param=3,bucket=1",
            "needs a selection_method",
        ),
        (
            "group_id=1,type=select,selection_method=l4,bucket=1",
            "hash or dp_hash",
        ),
        (
            "group_id=1,type=select,selection_method=dp_hash,fields(ip_dst),bucket=1",
            "selection_method=hash",
        ),
        (
            "group_id=1,type=select,selection_method=hash,fields(tcp_dst,tcp_dst=7),bucket=1",
            "named only once",
        ),
        ("group_id=1,type=all,bucket=encap()", "encap(HEADER)"),
        ("group_id=1,type=all,bucket=encap(gre)", "`gre`"),
        ("group_id=1,type=all,bucket=goto_table:1", "instruction"),
    ] {
        let errors = parse_groups("g", text).expect_err(text);
        assert!(errors[0].to_string().contains(what), "{}", errors[0]);
    }
}

/// The expected answers come from Open vSwitch's `ovs-ofctl parse-flow`.
#[test]
fn dumps_of_openflow_1_0_are_read() {
    for (text, expected) in [
        ("arp,nw_tos=0,tp_src=2,actions=drop", "arp actions=drop"),
        (
            "rarp,nw_proto=2,nw_tos=4,tp_src=2,tp_dst=5,actions=drop",
            "rarp,arp_op=2 actions=drop",
        ),
        (
            "dl_type=0x88cc,nw_tos=0,tp_src=2,actions=drop",
            "dl_type=0x88cc actions=drop",
        ),
        (
            "icmp,tp_src=8,tp_dst=0,actions=drop",
            "icmp,icmp_type=8,icmp_code=0 actions=drop",
        ),
        (
            "tp_src=128,icmp6,actions=drop",
            "icmp6,icmp_type=128 actions=drop",
        ),
        (
            "actions=set_tunnel:0x123456789,set_tunnel:5",
            "actions=set_field:0x123456789->tun_id,set_field:0x5->tun_id",
        ),
    ] {
        let flow = parse_flow(text).expect(text);
        assert_eq!(flow.to_string(), format!("table=0, {expected}"));
    }
    for (text, what) in [
        ("ip,tp_src=2,actions=drop", "needs `tcp`"),
        ("icmp,tp_src=256,actions=drop", "8 bits"),
        ("arp,tcp_src=2,actions=drop", "needs `tcp`"),
        ("nw_tos=0,actions=drop", "needs `ip`"),
    ] {
        let error = parse_flow(text).expect_err(text).to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn what_a_group_selects_by_is_kept() {
    for text in [
        "type=select,selection_method=dp_hash,selection_method_param=4294967297",
        "type=select,selection_method=hash",
        "type=select,selection_method=hash,selection_method_param=7,fields(ip_src,tcp_dst,udp_dst)",
        "type=select,selection_method=hash,fields(icmp_type,icmpv6_type,sctp_src=255,reg1)",
        "type=select,selection_method=hash,fields(tp_src,ipv6_dst=ffff::)",
    ] {
        let text = format!("group_id=1,{text},bucket=bucket_id:0,actions=output:1");
        let groups = parse_groups("groups", &text).expect("a group");
        assert_eq!(groups[0].to_string(), text);
    }
    let parts = "group_id=1,type=select,selection_method=hash,fields(vlan_vid,vlan_pcp),bucket=1";
    assert!(parse_groups("groups", parts).is_ok());
}

#[test]
fn changes_are_read() {
    let text = "# changes\n\
        table=0,priority=10,actions=drop\n\
        @1000 modify_strict table=50,priority=100,dl_vlan=5,actions=2\n\
        delete\n\
        @2500 bundle {\n\
          delete_strict table=60,priority=1000,tcp,nw_src=192.0.2.1\n\
          add table=60,priority=1000,tcp,nw_src=192.0.2.2,actions=drop\n\
          group add group_id=1,type=all,bucket=1\n\
          delete cookie=0x1/-1,table=255\n\
          delete group_id=1\n\
        }\n";
    let changes = parse_changes("changes", text).expect("changes");
    let shape: Vec<_> = changes
        .iter()
        .map(|placed| (placed.position, placed.change.operations.len()))
        .collect();
    assert_eq!(shape, [(0, 1), (1000, 1), (1000, 1), (2500, 5)]);
    let Operation::Modify(selector, actions) = &changes[1].change.operations[0] else {
        panic!("a modification");
    };
    assert_eq!(
        (selector.table, selector.strict_priority),
        (Some(TableId(50)), Some(100))
    );
    assert_eq!(actions[..], [Action::Output(Output::Port(PortId(2)))]);
    assert_eq!(changes[2].change.operations, [Operation::DeleteAll]);
    let Operation::Delete(selector) = &changes[3].change.operations[3] else {
        panic!("a deletion");
    };
    assert_eq!(
        (selector.table, selector.cookie),
        (None, Some((1, u64::MAX)))
    );
    for (text, what) in [
        ("@5 delete\n@4 delete", "go back"),
        ("bundle {\n@5 delete\n}", "one position"),
        ("bundle {\nbundle {\n}", "nest"),
        ("bundle {\ndelete", "not closed"),
        ("}", "no bundle"),
        ("@7", "without a change"),
        ("delete actions=1", "no actions"),
        ("delete priority=1", "delete_strict"),
        ("delete cookie=1", "mask"),
        ("modify out_port=1,actions=1", "only a deletion"),
        ("add out_group=1,actions=1", "only a deletion"),
        ("delete out_port=uplink", "uplink"),
        ("insert_bucket group_id=1", "insert_bucket"),
    ] {
        let errors = parse_changes("c", text).expect_err(text);
        assert!(errors[0].to_string().contains(what), "{}", errors[0]);
    }
    let errors = parse_rules("r", "delete ip").expect_err("a rules file only adds");
    assert!(errors[0].to_string().contains("only adds"), "{}", errors[0]);
}

#[test]
fn what_a_request_asks_beside_the_rule_is_read() {
    let mut parser = Parser::new();
    let mut read = |text: &str| parser.parse_operation(text).expect(text);
    let leading = |output, group| {
        let target = Target {
            output,
            group: Option::map(group, GroupId),
        };
        Operation::DeleteLeading(Selector::default(), target)
    };
    let port = |number| Some(Output::Port(PortId(number)));
    assert_eq!(read("delete out_port=7"), leading(port(7), None));
    assert_eq!(read("delete out_group=9"), leading(None, Some(9)));
    assert_eq!(
        read("delete out_group=9,out_port=in_port"),
        leading(Some(Output::InPort), Some(9))
    );
    assert_eq!(
        read("delete out_port=ANY,out_group=any"),
        Operation::DeleteAll
    );
    let strict = read("delete_strict table=1,priority=2,ip,out_port=3");
    let Operation::DeleteLeading(selector, _) = strict else {
        panic!("a deletion of what leads to a port");
    };
    assert_eq!(selector.strict_priority, Some(2));
    let flow = parse_flow("table=3,tcp,actions=output:1").expect("a rule");
    assert_eq!(
        read("add check_overlap,table=3,tcp,actions=output:1"),
        Operation::AddChecked(flow.clone())
    );
    let rules = parse_rules("dump", "table=3,tcp check_overlap actions=output:1");
    assert_eq!(rules.expect("a rule").flows, [flow]);
}

#[test]
fn packets_for_a_trace_are_read() {
    let matching = parse_match("in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80").expect("a packet");
    assert_eq!(
        matching.to_string(),
        "tcp,in_port=1,nw_dst=10.0.0.1,tp_dst=80"
    );
    assert!(parse_match("tcp,table=3").is_err());
}
