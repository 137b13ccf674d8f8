//! `ct(...)`, `nat(...)`, `ct_clear` and the fields of connections: how each spelling is read
//! and printed, and the message for each fault.

use thalweg_pipeline::text::parse_flow;

/// The printed form of actions, in a rule with this match.
fn actions(matching: &str, text: &str) -> String {
    let text = format!("{matching} actions={text}");
    let flow = parse_flow(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for printed in [flow.to_string(), format!("{flow:#}")] {
        assert_eq!(parse_flow(&printed).as_ref(), Ok(&flow), "{printed}");
    }
    let printed = flow.to_string();
    let start = printed.find("actions=").expect("actions");
    printed[start + "actions=".len()..].to_string()
}

/// The printed form of a match.
fn conditions(text: &str) -> String {
    let flow = parse_flow(&format!("{text},actions=drop"));
    let printed = flow.unwrap_or_else(|error| panic!("{text}: {error}"));
    let printed = printed.to_string();
    assert_eq!(
        parse_flow(&printed).expect("it reads back").to_string(),
        printed
    );
    let conditions = printed.strip_prefix("table=0, ").expect("table 0");
    let end = conditions.find("actions=").expect("actions");
    conditions[..end].trim_end().to_string()
}

#[test]
fn actions_are_printed_as_open_vswitch_does() {
    let same = [
        ("ip", "ct()"),
        ("ip", "ct(commit)"),
        ("ip", "ct(commit,force)"),
        ("ip", "ct(table=3)"),
        ("ip", "ct(commit,force,table=254,zone=65535)"),
        ("ip", "ct(zone=NXM_NX_REG0[0..15])"),
        ("ip", "ct(zone=NXM_NX_REG3[16..31],nat)"),
        ("ip", "ct(commit,nat(src))"),
        ("ip", "ct(commit,nat(dst))"),
        ("ip", "ct(commit,nat(src=10.0.0.1))"),
        ("ip", "ct(commit,nat(dst=10.0.0.1:80))"),
        ("ip", "ct(commit,nat(src=10.0.0.1-10.0.0.255:1024-65535))"),
        ("ip", "ct(commit,nat(src=10.0.0.1-10.0.0.2,hash))"),
        ("ip", "ct(commit,nat(src=10.0.0.1-10.0.0.2,random))"),
        (
            "ip",
            "ct(commit,nat(src=10.0.0.1-10.0.0.2,persistent,random))",
        ),
        ("ipv6", "ct(commit,nat(src=2001:db8::1))"),
        ("ipv6", "ct(commit,nat(src=2001:db8::1-2001:db8::ff))"),
        ("ipv6", "ct(commit,nat(dst=[2001:db8::1]:80-89))"),
        ("ipv6", "ct(commit,nat(dst=[2001:db8::1]-[2001:db8::2]:80))"),
        ("tcp", "ct(commit,alg=ftp)"),
        ("udp", "ct(commit,alg=tftp)"),
        ("ip", "ct(commit,exec(set_field:0x1->ct_mark))"),
        ("ip", "ct(commit,exec(set_field:0x1/0xf->ct_mark))"),
        ("ip", "ct(commit,exec(set_field:0x1/0x3->ct_label))"),
        (
            "ip",
            "ct(commit,exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[]))",
        ),
        (
            "ip",
            "ct(commit,exec(move:NXM_OF_IP_SRC[]->NXM_NX_CT_LABEL[64..95]))",
        ),
        (
            "tcp",
            "ct(commit,table=1,zone=7,nat(src=10.0.0.1),exec(set_field:0x1->ct_mark),alg=ftp)",
        ),
        ("ip", "ct(table=1),output:2,ct(zone=2)"),
        ("ip", "clone(ct(commit),output:1),output:2"),
        ("", "ct_clear"),
        ("ip", "write_actions(ct(table=1))"),
        ("ip", "write_actions(ct_clear)"),
        ("ip", "ct_clear,ct(table=2)"),
        ("", "resubmit(,2,ct)"),
        ("", "resubmit(3,2,ct)"),
    ];
    for (matching, text) in same {
        assert_eq!(actions(matching, text), text);
    }
}

#[test]
fn spellings_of_one_action_are_one_action() {
    let pairs = [
        ("ct(zone=0)", "ct()"),
        ("ct(zone=reg0[0..15])", "ct(zone=NXM_NX_REG0[0..15])"),
        (
            "ct(table=1,force,zone=2,commit)",
            "ct(commit,force,table=1,zone=2)",
        ),
        ("ct(commit,nat())", "ct(commit,nat)"),
        (
            "ct(commit,nat(src=10.0.0.1-10.0.0.1))",
            "ct(commit,nat(src=10.0.0.1))",
        ),
        (
            "ct(commit,nat(src=10.0.0.1:80-80))",
            "ct(commit,nat(src=10.0.0.1:80))",
        ),
        (
            "ct(commit,nat(random,src=10.0.0.1,persistent))",
            "ct(commit,nat(src=10.0.0.1,persistent,random))",
        ),
        (
            "ct(commit,exec(load:1->NXM_NX_CT_MARK[]))",
            "ct(commit,exec(set_field:0x1->ct_mark))",
        ),
        ("ct( commit , table=1 )", "ct(commit,table=1)"),
    ];
    for (one, other) in pairs {
        assert_eq!(actions("ip", one), actions("ip", other), "{one}");
    }
}

#[test]
fn conditions_on_connections_are_printed_as_open_vswitch_does() {
    let same = [
        "ct_state=+trk",
        "ct_state=-trk",
        "ct_state=+new-est+trk",
        "ct_state=+est+rpl+trk+snat+dnat",
        "ct_state=+rel-inv+trk",
        "ct_zone=5",
        "ct_mark=0x5",
        "ct_mark=0x5/0xf",
        "ct_label=0x5",
        "ct_label=0x10000000000000000/0x30000000000000000",
        "ip,ct_nw_src=10.0.0.0/8,ct_nw_dst=10.0.0.1",
        "ipv6,ct_ipv6_src=2001:db8::/32,ct_ipv6_dst=2001:db8::1",
        "ip,ct_nw_proto=6,ct_tp_src=1000,ct_tp_dst=0x50/0xfff0",
    ];
    for text in same {
        let printed = conditions(text);
        let sorted = |text: &str| {
            let mut terms: Vec<String> = text.split(',').map(str::to_owned).collect();
            terms.sort();
            terms
        };
        assert_eq!(sorted(&printed), sorted(text));
    }
    let pairs = [
        ("ct_state=0x20/0x20", "ct_state=+trk"),
        ("ct_state=+trk+new", "ct_state=+new+trk"),
        ("ct_state=trk|new", "ct_state=0x21"),
        ("ct_mark=5/0xffffffff", "ct_mark=0x5"),
    ];
    for (one, other) in pairs {
        assert_eq!(conditions(one), conditions(other), "{one}");
    }
}

const FAULTS: &[(&str, &str)] = &[
    ("actions=ct(commit)", "1:9: `ct` needs `ip` or `ipv6`"),
    ("arp,actions=ct()", "`ct` needs `ip` or `ipv6`"),
    (
        "udp,actions=ct(commit,alg=ftp)",
        "`ct` needs `tcp` or `tcp6`",
    ),
    (
        "tcp,actions=ct(commit,alg=tftp)",
        "`ct` needs `udp` or `udp6`",
    ),
    ("ip,actions=ct(commit,alg=sip)", "`sip` is not ftp or tftp"),
    ("ip,actions=ct(comit)", "unknown option of `ct` `comit`"),
    ("ip,actions=ct(table=255)", "`255` is not a table"),
    (
        "ip,actions=ct(zone=65536)",
        "`65536` is not a number of at most 16 bits",
    ),
    (
        "ip,actions=ct(zone=reg0)",
        "`reg0` is not 16 bits of a field",
    ),
    ("ip,actions=ct(zone=reg0[0..14])", "16 bits of a field"),
    ("ip,actions=ct(force)", "need `commit` beside them"),
    (
        "ip,actions=ct(nat(src=10.0.0.1))",
        "need `commit` beside them",
    ),
    (
        "ip,actions=ct(exec(set_field:1->ct_mark))",
        "need `commit` beside them",
    ),
    (
        "ip,actions=ct(commit,nat(src,dst))",
        "one of `src` and `dst`",
    ),
    ("ip,actions=ct(commit,nat(random))", "need `src` or `dst`"),
    (
        "ip,actions=ct(commit,nat(src,hash,random))",
        "one of `hash` and `random`",
    ),
    (
        "ip,actions=ct(commit,nat(sorc=10.0.0.1))",
        "unknown option of `nat` `sorc`",
    ),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.256))",
        "is not addresses",
    ),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.2-10.0.0.1))",
        "is not addresses",
    ),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.1-2001:db8::1))",
        "is not addresses",
    ),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.1:0))",
        "is not addresses",
    ),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.1:9-8))",
        "is not addresses",
    ),
    (
        "ip,actions=ct(commit,nat(src=10.0.0.1:65536))",
        "is not addresses",
    ),
    (
        "ip,actions=ct(commit,exec(output:1))",
        "an exec only writes ct_mark and ct_label",
    ),
    (
        "ip,actions=ct(commit,exec(set_field:1->reg0))",
        "an exec only writes",
    ),
    ("ip,actions=ct(commit,exec(ct()))", "an exec only writes"),
    (
        "ip,actions=ct(commit,exec(set_field:1->ct_zone))",
        "is not a field that can be written",
    ),
    (
        "ip,actions=set_field:1->ct_mark",
        "only the exec of a ct writes ct_mark and ct_label",
    ),
    (
        "ip,actions=move:reg0->ct_mark",
        "only the exec of a ct writes",
    ),
    (
        "ip,actions=write_actions(clone(ct()))",
        "an action set cannot hold this",
    ),
    ("ip,actions=nat", "`nat` stands inside of `ct(...)`"),
    ("actions=resubmit(,2,conn)", "write resubmit(PORT,TABLE)"),
    ("ct_nw_src=10.0.0.1,actions=1", "`ct_nw_src` needs `ip`"),
    ("ip,ct_ipv6_src=::1,actions=1", "`ct_ipv6_src` needs `ipv6`"),
    ("ct_tp_src=1,actions=1", "`ct_tp_src` needs `ip` or `ipv6`"),
    (
        "ct_state=+tracked,actions=1",
        "`tracked` is not bits of a connection's state",
    ),
];

#[test]
fn faults_say_where_and_what_to_do() {
    for (text, expected) in FAULTS {
        let error = parse_flow(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
