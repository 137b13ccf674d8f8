//! Random texts: none makes the parser panic, and every parsed value prints as text that reads
//! back.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use thalweg_packet::Instant;
use thalweg_pipeline::text::{parse_changes, parse_flow, parse_groups, parse_match, parse_rules};
use thalweg_pipeline::{Change, ChangeError, Config, Pipeline};

/// Words for the packet's type.
const TYPES: &[&str] = &[
    "",
    "ip",
    "ipv6",
    "arp",
    "rarp",
    "mpls",
    "tcp",
    "tcp6",
    "udp",
    "udp6",
    "sctp",
    "sctp6",
    "icmp",
    "icmp6",
    "icmp6,icmp_type=135,icmp_code=0",
    "icmp6,icmp_type=136,icmp_code=0",
    "dl_type=0x9000",
    "ip,nw_proto=47",
    "ip,ip_frag=later,nw_proto=6",
    "mplsm",
];

/// Names of conditions; each is tried with values of all kinds.
const FIELDS: &[&str] = &[
    "in_port",
    "recirc_id",
    "tun_id",
    "tun_src",
    "tun_dst",
    "metadata",
    "conj_id",
    "dl_src",
    "eth_dst",
    "vlan_tci",
    "dl_vlan",
    "vlan_vid",
    "dl_vlan_pcp",
    "vlan_pcp",
    "mpls_label",
    "mpls_tc",
    "mpls_bos",
    "mpls_ttl",
    "nw_src",
    "ip_dst",
    "ipv6_src",
    "ipv6_dst",
    "ipv6_label",
    "nw_proto",
    "ip_dscp",
    "nw_tos",
    "nw_ecn",
    "nw_ttl",
    "ip_frag",
    "arp_op",
    "arp_spa",
    "arp_tpa",
    "arp_sha",
    "arp_tha",
    "tp_src",
    "tp_dst",
    "tcp_src",
    "udp_dst",
    "sctp_src",
    "tcp_flags",
    "icmp_type",
    "icmpv6_code",
    "nd_target",
    "nd_sll",
    "nd_tll",
    "reg0",
    "reg15",
    "xreg0",
    "xreg7",
    "xxreg0",
    "xxreg3",
    "in_port_oxm",
    "priority",
    "cookie",
    "table",
    "idle_timeout",
    "NXM_NX_IP_FRAG",
    "NXM_OF_VLAN_TCI",
    "NXM_OF_IP_TOS",
    "NXM_OF_IN_PORT",
    "OXM_OF_VLAN_VID",
    "NXM_NX_XXREG1",
    "NXM_NX_IP_TTL",
    "NXM_OF_ETH_SRC",
    "OXM_OF_TCP_FLAGS",
    "NXM_NX_REG3",
    "send_flow_rem",
    "reset_counts",
];

const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "5",
    "8",
    "64",
    "135",
    "136",
    "255",
    "0x1005",
    "0xffff",
    "0x1000/0x1000",
    "0/0x1fff",
    "0x3/0x7",
    "0xff00/0xff00",
    "0x123456789abcdef",
    "0xff/0xff",
    "LOCAL",
    "ANY",
    "10.0.0.1",
    "10.0.0.0/8",
    "10.0.0.1/255.0.0.255",
    "fe80::1",
    "2001:db8::/32",
    "::/0",
    "ff00::/fff0:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "02:00:00:00:00:01",
    "01:00:00:00:00:00/01:00:00:00:00:00",
    "+syn-ack",
    "syn|ack",
    "no",
    "yes",
    "first",
    "later",
    "not_later",
    "*",
    "0x5/0xf0f0f0f0f0f0f0f0",
    "0x80000000000000000000000000000001",
];

const RANGES: &[&str] = &[
    "", "", "", "[]", "[0]", "[1]", "[0..1]", "[2..7]", "[0..15]", "[16..79]",
];

const PLAIN_ACTIONS: &[&str] = &[
    "drop",
    "1",
    "output:2",
    "NORMAL",
    "in_port",
    "flood",
    "all",
    "LOCAL",
    "CONTROLLER:96",
    "controller(userdata=00.01,max_len=3)",
    "controller(pause)",
    "controller",
    "goto_table:9",
    "resubmit(,3)",
    "resubmit(2,3)",
    "resubmit:5",
    "resubmit(ANY,3)",
    "group:4",
    "note:00.ff",
    "conjunction(5,1/2)",
    "exit",
    "pop_vlan",
    "push_vlan:0x8100",
    "push_vlan:0x88a8",
    "push_mpls:0x8847",
    "pop_mpls:0x0800",
    "pop_mpls:0x86dd",
    "dec_ttl",
    "dec_mpls_ttl",
    "clear_actions",
    "write_metadata:5/7",
    "mod_vlan_vid:5",
    "mod_vlan_pcp:3",
    "set_vlan_vid:5",
    "set_vlan_pcp:3",
    "mod_nw_src:10.0.0.1",
    "mod_nw_tos:8",
    "mod_nw_ecn:2",
    "mod_nw_ttl:3",
    "mod_tp_src:80",
    "mod_tp_dst:81",
    "set_mpls_label:3",
    "set_mpls_tc:2",
    "set_mpls_ttl:3",
    "set_tunnel:7",
    "mod_dl_dst:02:00:00:00:00:05",
    "output:NXM_NX_REG0[0..15]",
    "output:in_port",
];

fn condition() -> impl Strategy<Value = String> {
    (select(FIELDS), select(RANGES), select(VALUES))
        .prop_map(|(field, range, value)| format!("{field}{range}={value}"))
}

fn subfield() -> impl Strategy<Value = String> {
    (select(FIELDS), select(RANGES)).prop_map(|(field, range)| format!("{field}{range}"))
}

fn action() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(PLAIN_ACTIONS).prop_map(str::to_string),
        (select(FIELDS), select(VALUES))
            .prop_map(|(field, value)| format!("set_field:{value}->{field}")),
        (subfield(), select(VALUES)).prop_map(|(field, value)| format!("load:{value}->{field}")),
        (subfield(), subfield()).prop_map(|(from, to)| format!("move:{from}->{to}")),
        subfield().prop_map(|field| format!("push:{field}")),
        subfield().prop_map(|field| format!("pop:{field}")),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let list = prop::collection::vec(inner, 0..3).prop_map(|list| list.join(","));
        prop_oneof![
            list.clone().prop_map(|list| format!("clone({list})")),
            list.prop_map(|list| format!("write_actions({list})")),
        ]
    })
}

fn rule() -> impl Strategy<Value = String> {
    let conditions = prop::collection::vec(condition(), 0..3);
    let actions = prop::collection::vec(action(), 0..3);
    (select(TYPES), conditions, actions).prop_map(|(kind, conditions, actions)| {
        format!(
            "{kind},{} actions={}",
            conditions.join(","),
            actions.join(",")
        )
    })
}

/// Lines to corrupt.
const LINES: &[&str] = &[
    " cookie=0x5adc15c0, duration=11.389s, table=1, n_packets=1, n_bytes=70, priority=4096,in_port=1,vlan_tci=0x0000/0x1fff actions=push_vlan:0x8100,set_field:4196->vlan_vid,goto_table:2",
    "table=27,priority=50,icmp6,metadata=0x1,ipv6_dst=fe80::200:ff:fe00:ff01,nw_ttl=255,icmp_type=135,icmp_code=0,nd_target=fe80::1,actions=controller(userdata=00.00.00.0c),move:NXM_NX_XXREG0[]->NXM_NX_XXREG1[]",
    "tcp,tcp_flags=+syn-ack,NXM_NX_REG0[0..15]=5,ip_frag=not_later,actions=clone(ct_clear,load:1->NXM_NX_REG0[3..5],resubmit(1,8)),write_actions(group:3)",
    "group_id=1,type=select,selection_method=hash,fields(ip_dst,tcp_dst=0xff),bucket=bucket_id:5,weight:100,watch_port:1,actions=output:2,bucket=output:3",
    "@17 delete_strict table=60,priority=1000,tcp,nw_src=192.0.2.1/24,cookie=1/-1",
    "@18 bundle {",
];

/// A line with some bytes replaced, doubled or removed.
fn spoiled() -> impl Strategy<Value = String> {
    let edit = (
        any::<Index>(),
        0..4_u8,
        select(&b"0x/:[](),=-> @{}#.*\"+\xc3\xa4abz9"[..]),
    );
    (select(LINES), prop::collection::vec(edit, 1..6)).prop_map(|(line, edits)| {
        let mut bytes = line.as_bytes().to_vec();
        for (place, kind, byte) in edits {
            let index = place.index(bytes.len());
            match kind {
                0 => bytes[index] = byte,
                1 => bytes.insert(index, byte),
                2 => drop(bytes.drain(index..(index + 7).min(bytes.len()))),
                _ => bytes.extend_from_within(index..),
            }
            if bytes.is_empty() {
                bytes.push(byte);
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn assert_reads_back(text: &str) -> Result<(), TestCaseError> {
    if let Ok(flow) = parse_flow(text) {
        // The pipeline accepts what the parser accepts, except for a missing group.
        let applied = Pipeline::new(Config::default())
            .apply(&Change::adding([flow.clone()]), Instant::ZERO)
            .map(|_| ());
        let is_in_form = matches!(applied, Ok(()) | Err(ChangeError::UnknownGroup { .. }));
        prop_assert!(is_in_form, "{}: {:?}", text, applied);
        for printed in [flow.to_string(), format!("{flow:#}")] {
            let again = parse_flow(&printed);
            prop_assert_eq!(again, Ok(flow.clone()), "{}\n{}", text, printed);
        }
    }
    if let Ok(groups) = parse_groups("groups", text) {
        let printed: Vec<String> = groups.iter().map(ToString::to_string).collect();
        let printed = printed.join("\n");
        prop_assert_eq!(
            parse_groups("again", &printed),
            Ok(groups),
            "{}\n{}",
            text,
            printed
        );
    }
    if let Ok(matching) = parse_match(text) {
        let printed = matching.to_string();
        prop_assert_eq!(parse_match(&printed), Ok(matching), "{}\n{}", text, printed);
    }
    let _ = parse_rules("rules", text);
    let _ = parse_changes("changes", text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_read_reads_back(text in rule()) {
        assert_reads_back(&text)?;
    }

    #[test]
    fn buckets_read_back(list in prop::collection::vec(action(), 0..3)) {
        assert_reads_back(&format!("group_id=1,type=all,bucket=actions={}", list.join(",")))?;
    }

    #[test]
    fn spoiled_lines_do_not_panic(text in spoiled()) {
        assert_reads_back(&text)?;
    }

    #[test]
    fn any_text_does_not_panic(text in any::<String>()) {
        assert_reads_back(&text)?;
        assert_reads_back(&format!("actions={text}"))?;
    }
}

/// Every name with every value, as a condition and as an action, in packets of every type.
#[test]
fn every_name_and_value_reads_back() {
    let mut accepted = 0;
    for field in FIELDS {
        for value in VALUES {
            for range in &RANGES[2..] {
                let condition = format!("{field}{range}={value}");
                let load = format!("load:{value}->{field}{range}");
                let set = format!("set_field:{value}->{field}{range}");
                for kind in TYPES {
                    for text in [
                        format!("{kind},{condition} actions="),
                        format!("{kind} actions={load}"),
                        format!("{kind} actions={set}"),
                    ] {
                        let Ok(flow) = parse_flow(&text) else {
                            continue;
                        };
                        accepted += 1;
                        let printed = flow.to_string();
                        assert_eq!(parse_flow(&printed), Ok(flow), "{text}\n{printed}");
                    }
                }
            }
        }
    }
    assert!(accepted > 10_000, "only {accepted} texts are rules");
}

#[test]
fn enough_random_rules_are_rules() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut accepted = 0;
    for _ in 0..2000 {
        let text = rule().new_tree(&mut runner).expect("a rule").current();
        accepted += usize::from(parse_flow(&text).is_ok());
    }
    assert!(
        accepted > 100,
        "only {accepted} of 2000 random texts are rules"
    );
}
