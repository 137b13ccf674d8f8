//! Texts of packet types, network service headers, `encap` and `decap`, as `ovs-ofctl` prints them.

use thalweg_pipeline::text::{TextError, parse_flow};

/// Texts that are read, and the texts that Open vSwitch 3.1 prints for them.
const LINES: [(&str, &str); 12] = [
    ("actions=encap(ethernet)", ""),
    (
        "actions=encap(mpls),set_mpls_label:4",
        "actions=encap(mpls),set_field:4->mpls_label",
    ),
    ("actions=encap(mpls_mc)", ""),
    (
        "actions=encap(nsh),set_field:7->nsh_spi",
        "actions=encap(nsh),set_field:0x7->nsh_spi",
    ),
    ("actions=encap(nsh(md_type=1))", ""),
    (
        "actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678),tlv(0x20,2,0xfe)))",
        "actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678),tlv(0x0020,2,0xfe)))",
    ),
    ("actions=decap", "actions=decap()"),
    ("actions=decap(packet_type(ns=0,type=0))", ""),
    ("actions=decap(packet_type(ns=1,type=0x8847))", ""),
    (
        "packet_type=(0,0),dl_type=0x894f,nsh_np=3 actions=drop",
        "dl_type=0x894f,nsh_np=3 actions=drop",
    ),
    (
        "packet_type=(1,0x894f),nsh_mdtype=1,nsh_spi=0x5678 actions=decap()",
        "",
    ),
    (
        "dl_type=0x894f,nsh_flags=2,nsh_ttl=63,nsh_si=1,nsh_c1=0,nsh_c2=0x1/0x3 actions=dec_nsh_ttl",
        "dl_type=0x894f,nsh_flags=2,nsh_ttl=63,nsh_si=1,nsh_c1=0x0,nsh_c2=0x1/0x3 actions=dec_nsh_ttl",
    ),
];

#[test]
fn what_is_read_prints_as_open_vswitch_prints_it() {
    for (text, printed) in LINES {
        let expected = if printed.is_empty() { text } else { printed };
        let flow = parse_flow(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let told = flow.to_string();
        assert!(told.ends_with(expected), "{told}\n{expected}");
        assert_eq!(
            parse_flow(&told).map_err(|error| error.to_string()),
            Ok(flow)
        );
    }
}

#[test]
fn what_is_wrong_is_refused() {
    for text in [
        "actions=encap",
        "actions=encap()",
        "actions=encap(vxlan)",
        "actions=encap(ethernet(md_type=1))",
        "actions=encap(nsh(md_type=3))",
        "actions=encap(nsh(tlv(1,2,0x123)))",
        "actions=encap(nsh(tlv(1,2)))",
        "actions=decap(packet_type(ns=0,kind=0))",
        "actions=decap(2)",
        "packet_type=(2,0) actions=drop",
        "packet_type=(1,0x10000) actions=drop",
        "packet_type=1 actions=drop",
        "packet_type=(1,0x800),nsh_np=3 actions=drop",
        "actions=encap(nsh),decap(),set_field:7->nsh_spi",
    ] {
        let read: Result<_, TextError> = parse_flow(text);
        assert!(read.is_err(), "{text}: {read:?}");
    }
}
