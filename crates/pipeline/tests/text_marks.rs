//! `pkt_mark`, `dp_hash`, `actset_output` and `sample` in texts: read, printed as Open vSwitch
//! prints them, refused.

use thalweg_pipeline::text::parse_flow;

fn printed(rule: &str) -> String {
    let flow = parse_flow(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    let text = flow.to_string();
    assert_eq!(parse_flow(&text), Ok(flow), "{rule}");
    let text = text.trim_start_matches("table=0");
    text.trim_start_matches([',', ' ']).to_owned()
}

/// What `ovs-ofctl parse-flows` of Open vSwitch 3.1 prints for the same texts.
#[test]
fn texts_are_those_of_open_vswitch() {
    let cases = [
        (
            "actset_output=unset,actions=drop",
            "actset_output=UNSET actions=drop",
        ),
        (
            "actset_output=2,actions=drop",
            "actset_output=2 actions=drop",
        ),
        (
            "actset_output=in_port,actions=drop",
            "actset_output=IN_PORT actions=drop",
        ),
        (
            "actset_output=local,actions=drop",
            "actset_output=LOCAL actions=drop",
        ),
        (
            "pkt_mark=0x5/0xf,dp_hash=0x3,actions=set_field:7->pkt_mark,set_field:1/3->pkt_mark",
            "pkt_mark=0x5/0xf,dp_hash=0x3 \
             actions=set_field:0x7->pkt_mark,set_field:0x1/0x3->pkt_mark",
        ),
        (
            "dp_hash=2/6,actions=move:NXM_NX_PKT_MARK[0..3]->NXM_NX_REG0[4..7],\
             move:NXM_NX_DP_HASH[]->NXM_NX_PKT_MARK[],push:pkt_mark,pop:NXM_NX_PKT_MARK[0..7]",
            "dp_hash=0x2/0x6 actions=move:NXM_NX_PKT_MARK[0..3]->NXM_NX_REG0[4..7],\
             move:NXM_NX_DP_HASH[]->NXM_NX_PKT_MARK[],push:NXM_NX_PKT_MARK[],\
             pop:NXM_NX_PKT_MARK[0..7]",
        ),
        (
            "actions=move:ONFOXM_ET_ACTSET_OUTPUT[]->NXM_NX_REG1[]",
            "actions=move:ONFOXM_ET_ACTSET_OUTPUT[]->NXM_NX_REG1[]",
        ),
        (
            "ip,pkt_mark=7,recirc_id=3,dp_hash=9,conj_id=2,actset_output=7,ct_mark=1,reg0=2,\
             metadata=4,in_port=4,actions=drop",
            "pkt_mark=0x7,recirc_id=0x3,dp_hash=0x9,conj_id=2,actset_output=7,ct_mark=0x1,ip,\
             reg0=0x2,metadata=0x4,in_port=4 actions=drop",
        ),
        (
            "actions=sample(probability=5)",
            "actions=sample(probability=5,collector_set_id=0,obs_domain_id=0,obs_point_id=0)",
        ),
        (
            "actions=sample(probability=7,collector_set_id=3,obs_domain_id=4,obs_point_id=9,\
             sampling_port=3,egress),clone(sample(probability=65535,sampling_port=in_port,\
             ingress))",
            "actions=sample(probability=7,collector_set_id=3,obs_domain_id=4,obs_point_id=9,\
             sampling_port=3,egress),clone(sample(probability=65535,collector_set_id=0,\
             obs_domain_id=0,obs_point_id=0,sampling_port=IN_PORT,ingress))",
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(printed(rule), expected, "{rule}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for rule in [
        "actset_output=2/3,actions=drop",
        "actset_output=nonsense,actions=drop",
        "actions=set_field:1->actset_output",
        "actions=set_field:1->dp_hash",
        "actions=load:1->NXM_NX_DP_HASH[0]",
        "actions=pop:ONFOXM_ET_ACTSET_OUTPUT[]",
        "pkt_mark=0x100000000,actions=drop",
        "actions=sample()",
        "actions=sample(probability=0)",
        "actions=sample(probability=65536)",
        "actions=sample(probability=3,nonsense=2)",
        "actions=sample(probability=3,sampling_port=nonsense)",
        "actions=write_actions(sample(probability=3))",
        "actions=delete_field:reg0",
    ] {
        assert!(parse_flow(rule).is_err(), "{rule}");
    }
}
