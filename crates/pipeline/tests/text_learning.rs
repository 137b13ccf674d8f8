//! `learn` and `fin_timeout` in texts: read, printed as Open vSwitch prints them, refused.

use thalweg_pipeline::text::{TextError, parse_flow};

fn printed(rule: &str) -> String {
    let flow = parse_flow(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    let text = flow.to_string();
    assert_eq!(parse_flow(&text), Ok(flow), "{rule}");
    text.split_once("actions=")
        .expect("it has actions")
        .1
        .to_owned()
}

/// What `ovs-ofctl parse-flows` of Open vSwitch 3.1 prints for the same texts (`learn.at`).
#[test]
fn texts_are_those_of_open_vswitch() {
    let cases = [
        ("actions=learn()", "learn(table=1)"),
        (
            "actions=learn(send_flow_rem)",
            "learn(table=1,send_flow_rem)",
        ),
        (
            "actions=learn(delete_learned)",
            "learn(table=1,delete_learned)",
        ),
        (
            "actions=learn(delete_learned,send_flow_rem)",
            "learn(table=1,send_flow_rem,delete_learned)",
        ),
        (
            "actions=learn(NXM_OF_VLAN_TCI[0..11], NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[], \
             NXM_NX_REG3[3..19]=0x10011, output:NXM_OF_IN_PORT[], load:10->NXM_NX_REG0[5..10])",
            "learn(table=1,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
             NXM_NX_REG3[3..19]=0x10011,output:NXM_OF_IN_PORT[],load:0xa->NXM_NX_REG0[5..10])",
        ),
        (
            "actions=learn(table=1,idle_timeout=10, hard_timeout=20, fin_idle_timeout=5, \
             fin_hard_timeout=10, priority=10, cookie=0xfedcba9876543210, \
             in_port=99,eth_dst=eth_src,load:in_port->reg1[16..31])",
            "learn(table=1,idle_timeout=10,hard_timeout=20,fin_idle_timeout=5,\
             fin_hard_timeout=10,priority=10,cookie=0xfedcba9876543210,in_port=99,\
             NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:NXM_OF_IN_PORT[]->NXM_NX_REG1[16..31])",
        ),
        ("actions=learn(limit=4096)", "learn(table=1,limit=4096)"),
        (
            "actions=learn(limit=4096,result_dst=reg0[0])",
            "learn(table=1,limit=4096,result_dst=NXM_NX_REG0[0])",
        ),
        (
            "actions=learn(eth_type=0x800,load:5->NXM_OF_IP_DST[])",
            "learn(table=1,eth_type=0x800,load:0x5->NXM_OF_IP_DST[])",
        ),
        (
            "tcp6,actions=learn(eth_type=0x86dd,nw_proto=6,ipv6_dst=2001:db8::1,tcp_src=tcp_dst)",
            "learn(table=1,eth_type=0x86dd,nw_proto=6,ipv6_dst=2001:db8::1,\
             NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[])",
        ),
        (
            "tcp,actions=fin_timeout(idle_timeout=5)",
            "fin_timeout(idle_timeout=5)",
        ),
        (
            "tcp,actions=fin_timeout(hard_timeout=9,idle_timeout=5)",
            "fin_timeout(idle_timeout=5,hard_timeout=9)",
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(printed(rule), expected, "{rule}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let prerequisite = [
        "actions=learn(load:5->NXM_OF_IP_DST[])",
        "actions=learn(load:NXM_OF_IP_DST[]->NXM_NX_REG1[])",
        "ip,actions=learn(NXM_OF_IP_DST[])",
        "actions=fin_timeout(idle_timeout=5)",
    ];
    for rule in prerequisite {
        let error = parse_flow(rule);
        assert!(
            matches!(error, Err(TextError::Prerequisite { .. })),
            "{rule}: {error:?}"
        );
    }
    let others = [
        "actions=learn(NXM_OF_ETH_DST[]=NXM_NX_REG0[])",
        "actions=learn(NXM_NX_REG0[0..3]=0x10)",
        "actions=learn(load:1->NXM_OF_ETH_TYPE[])",
        "actions=learn(result_dst=reg0[0..1])",
        "actions=learn(table=255)",
        "actions=learn(nonsense=1)",
        "actions=learn(output:nonsense)",
        "actions=write_actions(learn())",
        "actions=fin_timeout(nonsense=1)",
    ];
    for rule in others {
        assert!(parse_flow(rule).is_err(), "{rule}");
    }
}
