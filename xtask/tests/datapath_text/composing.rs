//! Frames of flows, byte by byte.

use thalweg_vswitchd::datapath_text::frames_of;
use xtask::ovs::DummySwitch;

/// The fields behind `in_port(1),`; each flow is composed as it is, and at some lengths.
const FLOWS: &str = "\
eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15)
eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x1234)
eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15),eth_type(0x0800)
eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0x81,ttl=1,frag=no),icmp(type=0,code=0)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=1)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),icmp(type=3,code=1)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=2,tos=0,ttl=64,frag=no)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9),tcp_flags(ack|psh)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9),tcp_flags(syn)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9),tcp_flags(0x812)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=no),udp(src=8,dst=9)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=first),udp(src=8,dst=9)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=later)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=later),udp(src=8,dst=9)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17),tcp(src=8,dst=9)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=132,tos=0,ttl=64,frag=no),sctp(src=8,dst=9)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=58,tos=0,ttl=64,frag=no)
eth(),eth_type(0x0800),ipv4(src=10.0.0.2,dst=10.0.0.1,proto=89,tos=0,ttl=64,frag=no)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0xfedcb,proto=6,tclass=0x71,hlimit=128,frag=no),tcp(src=80,dst=8080)
eth(),eth_type(0x86dd),ipv6(src=fe80::1,dst=fe80::2,label=0,proto=17,tclass=0,hlimit=128,frag=no),udp(src=6630,dst=22)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=17,tclass=0,hlimit=128,frag=first),udp(src=6630,dst=22)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=10,tclass=0x70,hlimit=128,frag=later)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=132,tclass=0,hlimit=128,frag=no),sctp(src=1,dst=2)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=1,tclass=0,hlimit=128,frag=no)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=58,tclass=0,hlimit=128,frag=no),icmpv6(type=128,code=0)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=58,tclass=0,hlimit=128,frag=no),icmpv6(type=1,code=2)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=58,tclass=0,hlimit=255,frag=no),icmpv6(type=135,code=0),nd(target=::3)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=58,tclass=0,hlimit=255,frag=no),icmpv6(type=136,code=0),nd(target=::3,tll=00:0a:0b:0c:0d:0e)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=58,tclass=0,hlimit=255,frag=no),icmpv6(type=136,code=0),nd(target=::3,sll=00:05:06:07:08:09,tll=00:0a:0b:0c:0d:0e)
eth(),eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=58,tclass=0,hlimit=255,frag=no),icmpv6(type=136,code=1),nd(target=::3)
eth(src=00:01:02:03:04:05,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8,op=1,sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)
eth(),eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8,op=3,sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)
eth(),eth_type(0x8035),arp(sip=1.2.3.4,tip=5.6.7.8,op=2,sha=00:0f:10:11:12:13,tha=00:14:15:16:17:18)
eth(),eth_type(0x8847),mpls(label=100,tc=3,ttl=64,bos=1)
eth(),eth_type(0x8848),mpls(label=1000,tc=4,ttl=200,bos=0)
eth(),eth_type(0x8847),mpls(label=100,tc=7,ttl=64,bos=0,label=200,tc=7,ttl=64,bos=0,label=300,tc=7,ttl=64,bos=1)
eth(),eth_type(0x8100),vlan(vid=99,pcp=7),encap(eth_type(0x0800),ipv4(src=1.2.3.4,dst=5.6.7.8,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2))
eth(),eth_type(0x88a8),vlan(vid=99,pcp=7),encap(eth_type(0x8100),vlan(vid=0,pcp=0),encap(eth_type(0x86dd),ipv6(src=::1,dst=::2,label=0,proto=6,tclass=0,hlimit=1,frag=no),tcp(src=1,dst=2)))
eth(),eth_type(0x8100),vlan(vid=99,pcp=7),encap(eth_type(0x8847),mpls(label=1,tc=0,ttl=1,bos=1))
eth(),eth_type(0x8100),vlan(vid=99,pcp=7)
eth(),eth_type(0x8100),vlan(vid=99,pcp=7),encap()
eth(),eth_type(0x8100),vlan(vid=0,pcp=0,cfi=0),encap()
eth(),ipv4(src=1.2.3.4,dst=5.6.7.8,proto=17),udp(src=1,dst=2)
eth_type(0x0800),ipv4(src=1.2.3.4,dst=5.6.7.8,proto=17),udp(src=1,dst=2)
";

#[test]
fn frames_are_those_of_open_vswitch() {
    let mut switch = DummySwitch::start(2).expect("Open vSwitch is installed");
    let rules = switch.bridge_command("add-flow", &["actions=output:2"]);
    rules.expect("the rule is added");
    let mut count = 0;
    for flow in FLOWS.lines() {
        let flow = format!("in_port(1),{flow}");
        for length in ["", "60", "61", "100", "107", "1500"] {
            let arguments = match length {
                "" => vec![&*flow],
                _ => vec![&*flow, "--len", length],
            };
            let theirs = switch.forward_described(1, &arguments);
            let ours = frames_of(&arguments);
            match (theirs, ours) {
                (Ok(theirs), Ok(ours)) => {
                    let theirs: Vec<Vec<u8>> = theirs.into_iter().map(|sent| sent.1).collect();
                    assert_eq!(theirs, ours, "{arguments:?}");
                    count += 1;
                }
                (Err(_), Err(_)) => {}
                (theirs, ours) => panic!("{arguments:?}: {theirs:?} and {ours:?}"),
            }
        }
    }
    assert!(count > 200, "only {count} flows were compared");
}

/// Both refuse them, if not in the same words.
#[test]
fn what_open_vswitch_refuses_is_refused() {
    let mut switch = DummySwitch::start(1).expect("Open vSwitch is installed");
    for text in [
        "eht(src=1)",
        "in_port(p1),eth()",
        "eth(src=00:01)",
        "ipv4(proto=6",
        "eth_type(0x0400)",
        "recirc_id(1/0xff)",
        "ipv4(proto=6/0xff)",
        "eth(),eth()",
        "eth(),eth_type(0x0806),arp(op=257)",
        "eth(),eth_type(0x8100),vlan(vid=3,pcp=0,cfi=0),encap()",
        "eth(),eth_type(0x8847),mpls(label=1,bos=1,label=2,bos=1)",
        "50540000000a",
    ] {
        assert!(switch.forward_described(1, &[text]).is_err(), "{text}");
        assert!(frames_of(&[text]).is_err(), "{text}");
    }
}
