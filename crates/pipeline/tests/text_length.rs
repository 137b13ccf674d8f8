//! `check_pkt_larger` in texts: read, printed as Open vSwitch prints it, refused.

use thalweg_pipeline::text::{TextError, parse_flow};

fn printed(rule: &str) -> String {
    let flow = parse_flow(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    let text = flow.to_string();
    assert_eq!(parse_flow(&text), Ok(flow), "{rule}");
    let actions = text.split_once("actions=").expect("it has actions").1;
    actions.to_owned()
}

/// What `ovs-ofctl parse-flows` of Open vSwitch 3.1 prints for the same texts, but for the names
/// of bits of wide registers.
#[test]
fn texts_are_those_of_open_vswitch() {
    let cases = [
        (
            "actions=check_pkt_larger(1500)->reg0[0]",
            "check_pkt_larger(1500)->NXM_NX_REG0[0]",
        ),
        (
            "actions=check_pkt_larger(0x40)->NXM_NX_REG7[31],resubmit(,3)",
            "check_pkt_larger(64)->NXM_NX_REG7[31],resubmit(,3)",
        ),
        (
            "actions=check_pkt_larger(9)->xxreg0[127],clone(check_pkt_larger(65535)->xreg1[2])",
            "check_pkt_larger(9)->NXM_NX_REG0[31],\
             clone(check_pkt_larger(65535)->NXM_NX_REG3[2])",
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(printed(rule), expected, "{rule}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for rule in [
        "actions=check_pkt_larger(1500)",
        "actions=check_pkt_larger(1500)->reg0",
        "actions=check_pkt_larger(1500)->reg0[0..1]",
        "actions=check_pkt_larger(65536)->reg0[0]",
        "actions=check_pkt_larger()->reg0[0]",
        "actions=check_pkt_larger(1)->eth_type[0]",
        "actions=write_actions(check_pkt_larger(1)->reg0[0])",
    ] {
        assert!(parse_flow(rule).is_err(), "{rule}");
    }
    let error = parse_flow("actions=check_pkt_larger(1)->ip_src[0]");
    assert!(
        matches!(error, Err(TextError::Prerequisite { .. })),
        "{error:?}"
    );
}
