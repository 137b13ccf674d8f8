//! Tests of the real switch: they need its programs, as `cargo xtask test` arranges.

use super::*;

/// UDP from 10.0.0.1:1000 to 10.0.0.2:2000, 60 bytes.
const PACKET: &str = "020000000001020000000002080045000020000000004011\
                      66cb0a0000010a00000203e807d0000c000000000000\
                      0000000000000000000000000000";

fn rules_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn a_trace_names_the_bits_and_the_actions() {
    let mut switch = DummySwitch::start(3).unwrap();
    let rules = rules_file(
        "table=0,priority=10,ip,nw_dst=10.0.0.0/24,actions=dec_ttl,goto_table:1\n\
         table=1,priority=5,udp,tp_dst=2000,actions=output:3\n",
    );
    switch.load_rules(rules.path()).unwrap();
    let trace = switch.trace_with_metadata("in_port=1", PACKET).unwrap();
    assert_eq!(
        trace.megaflow,
        "recirc_id=0,eth,udp,in_port=1,nw_dst=10.0.0.0/24,nw_ttl=64,nw_frag=no,tp_dst=2000",
        "{}",
        trace.text
    );
    assert_eq!(trace.datapath_actions, "set(ipv4(ttl=63)),3");

    switch.clear().unwrap();
    let trace = switch.trace_with_metadata("in_port=2", PACKET).unwrap();
    assert_eq!(trace.datapath_actions, "drop");
    assert_eq!(trace.final_flow, "unchanged");
}

#[test]
fn refusals_carry_the_daemons_words() {
    let mut switch = DummySwitch::start(1).unwrap();
    let error = switch
        .call("ofproto/trace", &["br9", "in_port=1"])
        .unwrap_err();
    assert!(error.to_string().contains("br9"), "{error}");
    let rules = rules_file("table=0,nonsense=1,actions=drop\n");
    let error = switch.load_rules(rules.path()).unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
    assert!(
        switch
            .call("version", &[])
            .unwrap()
            .contains("Open vSwitch")
    );
    assert!(
        !switch
            .bridge_command("dump-flows", &[])
            .unwrap()
            .contains("actions=")
    );
}

#[test]
fn dropping_the_switch_ends_its_daemons() {
    let switch = DummySwitch::start(1).unwrap();
    let folder = switch.daemons.folder.path().to_owned();
    let ids: Vec<u32> = switch.daemons.children.iter().map(Child::id).collect();
    assert_eq!(ids.len(), 2);
    drop(switch);
    assert!(!folder.exists());
    assert!(
        ids.iter()
            .all(|id| !Path::new(&format!("/proc/{id}")).exists())
    );
}
