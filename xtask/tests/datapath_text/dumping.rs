//! Flows and actions of the same packets under the same rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_packet::{FieldId, Headers, Instant, Layout, PortId, Receipt, standard as f};
use thalweg_pipeline::{Change, Config, Effect, Operation, Pipeline, PortState, text, translate};
use thalweg_vswitchd::datapath_text::{
    ActionWriter, DatapathFlow, DatapathPort, FieldBits, FlowReader, FlowWriter, frames_of,
    no_tunnels,
};
use xtask::ovs::DummySwitch;

const PORTS: u16 = 4;

fn number(port: PortId) -> String {
    port.0.to_string()
}

/// The lines of `dpctl/dump-flows`, without the first.
fn dump(switch: &mut DummySwitch, options: &[&str]) -> Vec<String> {
    let said = switch.call("dpctl/dump-flows", options).expect("a dump");
    let lines = said.lines().skip(1).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

fn receive(switch: &mut DummySwitch, packets: &[&str]) {
    let arguments = [&["p1"], packets].concat();
    switch
        .call("netdev-dummy/receive", &arguments)
        .expect("they are frames");
    // The datapath is served before a new connection is.
    switch.call("revalidator/wait", &[]).expect("it waits");
}

const UDP: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),\
                   ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0x5,ttl=64,frag=no),udp(src=8,dst=9)";
const TCP: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),\
                   ipv4(src=10.0.0.2,dst=10.0.0.1,proto=6,tos=0,ttl=64,frag=no),tcp(src=8,dst=9),\
                   tcp_flags(syn)";
const ICMP: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),\
                    ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),\
                    icmp(type=8,code=0)";
const LATER: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),\
                     ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=later)";
const ARP: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),\
                   arp(sip=10.0.0.2,tip=10.0.0.1,op=1,sha=50:54:00:00:00:09,\
                   tha=00:00:00:00:00:00)";
const NEIGHBOR: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),\
                        eth_type(0x86dd),ipv6(src=fe80::2,dst=fe80::1,label=0,proto=58,tclass=0,\
                        hlimit=255,frag=no),icmpv6(type=135,code=0),nd(target=fe80::1,\
                        sll=50:54:00:00:00:09)";
const TAGGED: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),\
                      eth_type(0x8100),vlan(vid=9,pcp=3),encap(eth_type(0x0800),\
                      ipv4(src=10.0.0.2,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=no),\
                      udp(src=8,dst=9))";
const TWICE_TAGGED: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),\
                            eth_type(0x88a8),vlan(vid=9,pcp=0),encap(eth_type(0x8100),\
                            vlan(vid=5,pcp=1),encap(eth_type(0x0806),arp(op=1)))";
const LABELLED: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),\
                        eth_type(0x8847),mpls(label=100,tc=7,ttl=64,bos=0,label=200,tc=1,ttl=3,\
                        bos=1)";
const LENGTH: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a)";
const OTHER: &str = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x1234)";

const PACKETS: [&str; 11] = [
    UDP,
    TCP,
    ICMP,
    LATER,
    ARP,
    NEIGHBOR,
    TAGGED,
    TWICE_TAGGED,
    LABELLED,
    LENGTH,
    OTHER,
];

/// What Open vSwitch dumps is read, and written as it was, in both forms.
#[test]
fn what_open_vswitch_dumps_comes_back() {
    let mut switch = DummySwitch::start(PORTS).expect("Open vSwitch is installed");
    let rules = "table=0,priority=9,tcp,tcp_flags=+syn-ack,tp_dst=0x8/0xfff8,actions=2\n\
                 table=0,priority=8,udp,tp_src=8,nw_dst=10.0.0.0/8,actions=dec_ttl,2\n\
                 table=0,priority=8,icmp,icmp_type=8,actions=2\n\
                 table=0,priority=8,arp,arp_tpa=10.0.0.0/24,arp_op=1,actions=2\n\
                 table=0,priority=8,icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::/16,actions=2\n\
                 table=0,priority=8,dl_vlan=9,dl_vlan_pcp=3,actions=2\n\
                 table=0,priority=8,mpls,mpls_label=100,actions=2\n\
                 table=0,priority=1,dl_src=50:54:00:00:00:09/ff:ff:00:00:00:0f,actions=2\n";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), rules).expect("it is written");
    switch.load_rules(file.path()).expect("they are rules");
    receive(&mut switch, &PACKETS);
    let same = |port: DatapathPort<'_>| match port {
        DatapathPort::Number(number) => Some(PortId(number)),
        DatapathPort::Name(name) => name.strip_prefix('p')?.parse().ok().map(PortId),
    };
    let reader = FlowReader::new(&same).with_masks();
    let named = |port: PortId| format!("p{}", port.0);
    let (numbers, names) = (FlowWriter::new(&number), FlowWriter::new(&named));
    for (options, writer) in [
        (&["--no-names"][..], numbers),
        (&["--names"], names),
        (&["-m", "--no-names"], numbers.verbose()),
        (&["-m", "--names"], names.verbose()),
    ] {
        let lines = dump(&mut switch, options);
        assert_eq!(lines.len(), PACKETS.len(), "{lines:#?}");
        for line in lines {
            let line = line
                .strip_prefix("ufid:")
                .map_or(&*line, |rest| rest.split_once(' ').expect("a flow").1);
            let (flow, _) = line.split_once(", packets:").expect("statistics");
            // It says that there is no type, and does not read that.
            let readable = flow.replace(",eth_type(0/0xffff)", "");
            let mut read = reader
                .read(&readable)
                .unwrap_or_else(|error| panic!("{flow}: {error}"));
            if readable != flow {
                read.mask.set(f::ETH_TYPE, 0xffff);
            }
            assert_eq!(writer.write(&read), flow);
        }
    }
}

/// Our switch with the same ports and rules.
struct Ours {
    pipeline: Pipeline,
    layout: Layout,
}

impl Ours {
    fn load(rules: &str, groups: &str) -> Ours {
        let mut pipeline = Pipeline::new(Config::default());
        let state = PortState {
            is_up: true,
            floods: true,
            forwards: true,
            peer: None,
        };
        let ports = (1..=u32::from(PORTS)).map(|port| Operation::SetPort(PortId(port), state));
        let mut parsed = text::parse_rules("rules", rules).expect("they are rules");
        parsed.groups = text::parse_groups("groups", groups).expect("they are groups");
        let operations = ports.chain(parsed.into_change().operations).collect();
        pipeline
            .apply(&Change { operations }, Instant::ZERO)
            .expect("they are loaded");
        let all: BTreeSet<FieldId> = f::all_but_options().collect();
        let layout = Layout::new(Arc::new(f::fields()), &all).expect("all fields fit");
        Ours { pipeline, layout }
    }

    /// The flow and the actions of a packet: with all fields of the packet, as a trace has
    /// them, and with those of a cache.
    fn answers(&self, frame: &[u8]) -> [(String, String); 2] {
        let headers = Headers::parse(frame).expect("a frame");
        let receipt = Receipt::from_port(1);
        let narrow = self.pipeline.layout();
        let words = |layout: &Layout| {
            let mut key = vec![0; layout.ingress_words()];
            layout.extract(frame, &headers, &receipt, &mut key);
            key
        };
        let (key, wide_key) = (words(narrow), words(&self.layout));
        let walk = translate(&self.pipeline, &key, self.pipeline.version());
        let mut wide_mask = vec![0; self.layout.words()];
        FieldBits::read_words(narrow, &walk.mask).write_words(&self.layout, &mut wide_mask);
        wide_mask.truncate(wide_key.len());
        [
            written(
                (&self.layout, frame),
                (&wide_key, &wide_mask),
                &walk.effects,
            ),
            written((narrow, frame), (&key, &walk.mask), &walk.effects),
        ]
    }
}

fn written(
    (layout, frame): (&Layout, &[u8]),
    (key, mask): (&[u64], &[u64]),
    effects: &[Effect],
) -> (String, String) {
    let mut flow = DatapathFlow::of_entry(layout, key, mask).with_tags_of(frame);
    let writer = ActionWriter {
        ports: &number,
        recirculations: &|_| 1,
        senders: &|_| 1,
        tunnels: &no_tunnels,
    };
    let actions = writer.write_covering(effects, &mut flow);
    let flow = FlowWriter::new(&number).write(&flow);
    (flow, actions.installed().to_owned())
}

/// Rules, groups, and the packets that they meet.
const CASES: &[(&str, &str, &[&str])] = &[
    ("table=0,actions=2,3\n", "", &PACKETS),
    ("table=0,priority=0,actions=drop\n", "", &[UDP, ARP]),
    (
        "table=0,udp,nw_dst=10.0.0.0/24,actions=mod_nw_dst:1.2.3.4,mod_tp_dst:80,\
         mod_dl_dst:50:54:00:00:00:0b,dec_ttl,2,mod_nw_src:1.2.3.5,3\n",
        "",
        &[UDP, TCP, LATER],
    ),
    (
        "table=0,udp,actions=set_field:0.0.0.7/0.0.0.255->ip_dst,set_field:8->ip_dscp,\
         set_field:00:00:00:00:00:07/00:00:00:00:00:ff->eth_src,2\n",
        "",
        &[UDP, TAGGED],
    ),
    (
        "table=0,udp,nw_tos=4,actions=mod_nw_tos:16,2\ntable=0,priority=1,ip,nw_ecn=0,actions=mod_nw_tos:16,2\n",
        "",
        &[UDP, TCP],
    ),
    (
        "table=0,dl_vlan=9,actions=mod_vlan_vid:10,2,strip_vlan,3\n",
        "",
        &[TAGGED],
    ),
    (
        "table=0,actions=push_vlan:0x88a8,set_field:4106->vlan_vid,2\n",
        "",
        &[UDP, TAGGED],
    ),
    (
        "table=0,dl_vlan=9,udp,actions=strip_vlan,mod_nw_ttl:9,2\n",
        "",
        &[TAGGED],
    ),
    (
        "table=0,dl_vlan=9,actions=mod_vlan_pcp:3,mod_vlan_vid:9,2\n",
        "",
        &[TAGGED],
    ),
    (
        "table=0,ip,actions=mod_nw_dst:1.1.1.1,push_mpls:0x8847,set_field:10->mpls_label,2\n",
        "",
        &[UDP],
    ),
    (
        "table=0,mpls,actions=dec_mpls_ttl,2,push_mpls:0x8847,3\n",
        "",
        &[LABELLED],
    ),
    (
        "table=0,mpls,actions=set_field:3->mpls_tc,2\n",
        "",
        &[LABELLED],
    ),
    (
        "table=0,arp,actions=set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],2\n",
        "",
        &[ARP],
    ),
    (
        "table=0,icmp,actions=set_field:0->icmp_type,2\n",
        "",
        &[ICMP],
    ),
    (
        "table=0,icmp6,icmp_type=135,icmp_code=0,actions=set_field:fe80::9->nd_target,2\n",
        "",
        &[NEIGHBOR],
    ),
    (
        "table=0,ipv6,actions=set_field:fe80::9->ipv6_dst,dec_ttl,2\n",
        "",
        &[NEIGHBOR],
    ),
    (
        "table=0,actions=clone(mod_dl_dst:50:54:00:00:00:0b,2),3,4\n",
        "",
        &[UDP, ARP],
    ),
    (
        "table=0,ip,actions=mod_nw_dst:1.1.1.1,group:1,4\n",
        "group_id=1,type=all,bucket=mod_nw_dst:1.2.3.4,mod_dl_src:00:00:00:00:00:05,output:2,\
         bucket=mod_vlan_vid:7,output:3\n",
        &[UDP, TCP],
    ),
    (
        "table=0,tcp,tcp_flags=+syn-ack,tp_dst=0x8/0xfff8,actions=resubmit(,1)\n\
         table=1,tcp,tp_src=8,actions=mod_tp_src:99,2\n",
        "",
        &[TCP],
    ),
    ("table=0,udp,cookie=0x1f,actions=controller,2\n", "", &[UDP]),
    (
        "table=0,ip,cookie=0x1f,actions=mod_nw_dst:1.1.1.1,controller(id=3,max_len=77),2\n",
        "",
        &[UDP],
    ),
    ("table=0,priority=0,actions=controller\n", "", &[UDP]),
];

/// The numbers of frozen states are those of each switch.
fn comparable(flow: &str, actions: &str) -> (String, String) {
    let mut parts = actions.split(",recirc_id=");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        text += ",recirc_id=N";
        text += rest;
    }
    (flow.to_owned(), text)
}

/// What this switch would cache is written as what Open vSwitch does cache.
#[test]
fn entries_are_written_as_those_of_open_vswitch() {
    let mut switch = DummySwitch::start(PORTS).expect("Open vSwitch is installed");
    let mut wrong = String::new();
    for (rules, groups, packets) in CASES {
        let ours = Ours::load(rules, groups);
        load(&mut switch, rules, groups);
        let theirs = cached(&mut switch, packets);
        let frames = frames_of(packets).expect("they are frames");
        let answers = frames.iter().map(|frame| {
            let [(flow, actions), _] = ours.answers(frame);
            comparable(&flow, &actions)
        });
        let ours: BTreeSet<_> = answers.collect();
        if theirs != ours {
            wrong += &format!("{rules}theirs: {theirs:#?}\nours: {ours:#?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn load(switch: &mut DummySwitch, rules: &str, groups: &str) {
    let file = |text: &str| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("it is written");
        file
    };
    switch.clear().expect("it is cleared");
    let (rules, groups) = (file(rules), file(groups));
    switch.load_groups(groups.path()).expect("they are groups");
    switch.load_rules(rules.path()).expect("they are rules");
}

/// The flows after these packets, with their actions.
fn cached(switch: &mut DummySwitch, packets: &[&str]) -> BTreeSet<(String, String)> {
    switch.call("revalidator/purge", &[]).expect("it is empty");
    receive(switch, packets);
    let lines = dump(switch, &["--no-names"]).into_iter().map(|line| {
        let (flow, rest) = line.split_once(", packets:").expect("statistics");
        let (_, actions) = rest.split_once(", actions:").expect("actions");
        comparable(flow, actions)
    });
    lines.collect()
}

/// A cache holds the fields that its rules read. Unknown fields are not written as known.
#[test]
fn what_a_cache_does_not_hold_is_not_made_up() {
    for (rules, packet, expected) in [
        (
            "table=0,actions=2,3\n",
            TAGGED,
            "recirc_id(0),in_port(1),packet_type(ns=0,id=0) 2,3",
        ),
        (
            "table=0,mpls,actions=set_field:3->mpls_tc,2\n",
            LABELLED,
            "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x8847) \
             set(mpls(label=0/0x0,tc=3/7,ttl=0/0x0,bos=0/0)),2",
        ),
        (
            "table=0,actions=clone(mod_dl_dst:50:54:00:00:00:0b,2),3,4\n",
            UDP,
            "recirc_id(0),in_port(1),packet_type(ns=0,id=0) \
             clone(set(eth(dst=50:54:00:00:00:0b)),2),3,4",
        ),
    ] {
        let frame = &frames_of(&[packet]).expect("a frame")[0];
        let [_, (flow, actions)] = Ours::load(rules, "").answers(frame);
        assert_eq!(format!("{flow} {actions}"), expected);
    }
}
