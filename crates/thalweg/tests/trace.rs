//! Tests `thalweg trace` through its command line: explanations as golden text, and error
//! messages.

mod command;

use command::Scene;
use expect_test::{Expect, expect};

/// The rules of a small campus network.
const CAMPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/campus.rules");

fn explained(flow: &[&str], expected: &Expect) {
    let scene = Scene::new();
    let mut arguments = vec!["trace", "--rules", CAMPUS];
    arguments.extend(flow);
    expected.assert_eq(&scene.says(&arguments));
}

#[test]
fn a_routed_packet() {
    let flow = "in_port=1,tcp,dl_src=02:00:00:00:01:01,dl_dst=02:00:00:00:00:fe,nw_src=10.0.1.1,\
                nw_dst=10.0.2.1,tp_src=1000,tp_dst=80";
    explained(
        &[flow],
        &expect![[r#"
             0. table=0,priority=10,in_port=1,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
                examined: in_port=0x1,recirc_id=0x0,vlan_tci=0x0/0x1fff,ip_frag=0x0,tp_dst=0x40/0xffc0
             1. table=1,priority=30,ip,dl_dst=02:00:00:00:00:fe,actions=goto_table:2
                examined: eth_dst=02:00:00:00:00:fe,eth_type=0x800
             2. cookie=0x24,table=2,priority=124,ip,dl_vlan=101,nw_dst=10.0.2.0/24,actions=set_field:4297->vlan_vid,set_field:02:00:00:00:00:fe->eth_src,set_field:02:00:00:00:02:01->eth_dst,dec_ttl,goto_table:3
                examined: nw_dst=10.0.2.0/24,nw_ttl_above_1=0x1,present:ipv4=0x1
             3. table=3,priority=10,dl_vlan=201,dl_dst=02:00:00:00:02:01,actions=pop_vlan,output:2

            Megaflow: recirc_id=0,eth,ip,in_port=1,vlan_tci=0x0000/0x1fff,dl_dst=02:00:00:00:00:fe,nw_dst=10.0.2.0/24,nw_frag=no,tp_dst=0x40/0xffc0,nw_ttl_above_1=0x1
            Datapath actions: push_vlan(vid=0,pcp=0),set(eth(src=02:00:00:00:00:fe,dst=02:00:00:00:02:01)),set(vlan(vid=201)),dec_ttl,pop_vlan,2

        "#]],
    );
}

#[test]
fn a_packet_that_is_dropped() {
    explained(
        &["in_port=1,tcp,nw_dst=10.0.2.1,tp_dst=23"],
        &expect![[r#"
             0. table=0,priority=20,tcp,in_port=1,tp_dst=23,actions=drop
                examined: in_port=0x1,recirc_id=0x0,eth_type=0x800,nw_proto=0x6,ip_frag=0x0,tp_dst=0x17

            Megaflow: recirc_id=0,eth,tcp,in_port=1,nw_frag=no,tp_dst=23
            Datapath actions: drop
            Drop reason: action

        "#]],
    );
}

#[test]
fn a_packet_for_the_controller() {
    let flow = "in_port=1,arp,arp_op=1,arp_spa=10.0.1.1,arp_tpa=10.0.1.254";
    explained(
        &[flow],
        &expect![[r#"
             0. table=0,priority=10,in_port=1,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
                examined: in_port=0x1,recirc_id=0x0,eth_type=0x806,vlan_tci=0x0/0x1fff,ip_frag=0x0
             1. table=1,priority=20,arp,arp_tpa=10.0.1.254,arp_op=1,actions=CONTROLLER:96
                examined: eth_dst=00:00:00:00:00:00/fe:00:00:00:00:00,arp_op=0x1,arp_tpa=10.0.1.254

            Megaflow: recirc_id=0,eth,arp,in_port=1,vlan_tci=0x0000/0x1fff,dl_dst=00:00:00:00:00:00/fe:00:00:00:00:00,arp_tpa=10.0.1.254,arp_op=1,nw_frag=no
            Datapath actions: push_vlan(vid=0,pcp=0),set(vlan(vid=101)),userspace(pid=0,controller(reason=1,max_len=96))

        "#]],
    );
}

#[test]
fn a_label_is_popped_and_the_packet_parsed_anew() {
    explained(
        &["in_port=4,mpls,mpls_label=16"],
        &expect![[r#"
             0. table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2
                examined: in_port=0x4,recirc_id=0x0,eth_type=0x8847,mpls_bos=0x1,ip_frag=0x0,present:mpls=0x1

            Megaflow: recirc_id=0,eth,mpls,in_port=4,mpls_bos=1,nw_frag=no
            Datapath actions: pop_mpls(eth_type=0x800),recirc(0x0)

              . resumed
                examined: recirc_id=0x1
             2. table=2,priority=100,ip,actions=output:3
                examined: in_port=0x4,eth_type=0x800,vlan_tci=0x0/0x1fff,ip_frag=0x0

            Megaflow: recirc_id=0x1,eth,ip,in_port=4,vlan_tci=0x0000/0x1fff,nw_frag=no
            Datapath actions: 3

        "#]],
    );
}

#[test]
fn a_packet_given_as_bytes() {
    let bytes = "0200 0000 0101 0200 0000 0201 8100 0065 88b5 00";
    explained(
        &["in_port=3", "--packet", bytes],
        &expect![[r#"
             0. table=0,priority=10,in_port=3,vlan_tci=0x1000/0x1000,actions=goto_table:1
                examined: in_port=0x3,recirc_id=0x0,vlan_tci=0x1000/0x1000,ip_frag=0x0
             1. table=1,priority=0,actions=goto_table:3
                examined: eth_dst=02:00:00:00:01:00/ff:ff:ff:ff:ff:00,eth_type=0x88b5
             3. table=3,priority=10,dl_vlan=101,dl_dst=02:00:00:00:01:01,actions=pop_vlan,output:1
                examined: eth_dst=00:00:00:00:00:01/00:00:00:00:00:ff,vlan_tci=0x65/0xfff,vlan_tci_inner=0x0/0x1000

            Megaflow: recirc_id=0,eth,in_port=3,dl_vlan=101,vlan_tci1=0x0000/0x1000,dl_dst=02:00:00:00:01:01,dl_type=0x88b5,nw_frag=no
            Datapath actions: pop_vlan,1

        "#]],
    );
}

#[test]
fn a_traversal_is_the_tables_in_order() {
    let scene = Scene::new();
    let flow = "in_port=4,mpls,mpls_label=16";
    let arguments = ["trace", "--rules", CAMPUS, "--traversals", flow];
    let text = scene.says(&arguments);
    let lines = text.lines().filter(|line| line.starts_with("traversal"));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["traversal: 0", "traversal: 2"],
        "{text}"
    );
    let report = scene.json(&arguments);
    assert_eq!(report["traversal"], serde_json::json!([0]));
    assert_eq!(
        report["recirculated"][0]["traversal"],
        serde_json::json!([2])
    );
    let report = scene.json(&["trace", "--rules", CAMPUS, flow]);
    assert!(report.get("traversal").is_none(), "{report}");
    let routed = "in_port=1,ip,dl_dst=02:00:00:00:00:fe,nw_dst=10.0.2.1";
    let text = scene.says(&["trace", "--rules", CAMPUS, "--traversals", routed]);
    assert!(text.contains("\ntraversal: 0 -> 1 -> 2 -> 3\n"), "{text}");
}

#[test]
fn json_has_the_keys_that_stay() {
    let scene = Scene::new();
    let flow = "in_port=4,mpls,mpls_label=16";
    let report = scene.json(&["trace", "--rules", CAMPUS, flow]);
    let first = &report["steps"][0];
    assert_eq!(first["table"], 0);
    assert_eq!(
        first["rule"],
        "table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2"
    );
    assert!(
        first["examined"]
            .as_str()
            .unwrap()
            .contains("eth_type=0x8847"),
        "{first}"
    );
    assert!(
        report["megaflow"].as_str().unwrap().contains("mpls"),
        "{report}"
    );
    assert!(
        report["actions"].as_str().unwrap().contains("pop_mpls"),
        "{report}"
    );
    let second = &report["recirculated"][0];
    assert_eq!(second["steps"].as_array().unwrap().len(), 2);
    assert_eq!(second["actions"], "3");
    assert!(
        report["packet"]
            .as_str()
            .unwrap()
            .starts_with("000000000000")
    );
}

#[test]
fn a_packet_is_asked_for_and_what_is_missing_is_counted() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "actions=drop\n");
    scene.refuses(
        &["trace", "--rules", &rules, ""],
        &["FLOW says nothing", "in_port=1"],
    );
    let rules = scene.write("r.rules", "ip,actions=dec_ttl(7)\n".repeat(200));
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1"],
        &[
            "r.rules:1:20: `dec_ttl(CONTROLLER_IDS)` is not supported; 200 lines use it, this \
             one first\n",
        ],
    );
}

/// The actions of a packet.
fn actions(arguments: &[&str]) -> String {
    let report = Scene::new().json(&[&["trace"], arguments].concat());
    report["actions"].as_str().expect("a text").to_owned()
}

#[test]
fn a_packet_begins_with_registers_metadata_and_a_tunnel() {
    let scene = Scene::new();
    let rules = "table=0,reg0=5,reg15=0x70000/0xf0000,metadata=9,actions=resubmit(,1)\n\
                 table=0,tun_id=7,tun_src=1.2.3.4,actions=output:4\n\
                 table=1,reg0=5,actions=output:2,set_field:0->reg0,resubmit(,2)\n\
                 table=2,reg0=0,actions=output:3\n\
                 table=2,reg0=5,actions=output:5\n\
                 table=0,priority=1,mpls,actions=pop_mpls:0x0800,resubmit(,3)\n\
                 table=3,ip,tun_id=8,reg1=1,actions=output:6\n";
    let rules = scene.write("r.rules", rules);
    for (flow, expected) in [
        ("in_port=1,reg0=5,reg15=0x7ffff,metadata=9", "2,3"),
        (
            "in_port=1,xreg0=0x500000000,reg15=0x70000,metadata=9",
            "2,3",
        ),
        ("in_port=1,reg0=5,metadata=9", "drop"),
        ("in_port=1,reg0=5,reg15=0x70000", "drop"),
        ("in_port=1,tun_id=7,tun_src=1.2.3.4,tun_dst=1.1.1.1", "4"),
        ("in_port=1,tun_id=7,tun_src=1.2.3.5", "drop"),
    ] {
        assert_eq!(actions(&["--rules", &rules, flow]), expected, "{flow}");
    }
    // Initial values remain in later passes, and apply beside given bytes.
    let flow = "in_port=1,mpls,mpls_label=16,tun_id=8,reg1=1";
    let report = scene.json(&["trace", "--rules", &rules, flow]);
    assert_eq!(report["recirculated"][0]["actions"], "6", "{report}");
    let bytes = "02000000000102000000000288b5";
    let flow = "tun_id=7,tun_src=1.2.3.4";
    assert_eq!(actions(&["--rules", &rules, flow, bytes]), "4");
    let report = scene.json(&["explain", "--rules", &rules, flow, bytes]);
    assert_eq!(report["actions"], "4", "{report}");
}

#[test]
fn an_entry_that_was_printed_can_be_asked_about() {
    let scene = Scene::new();
    let rules = "table=0,in_port=1,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=output:2\n\
                 table=0,in_port=1,dl_vlan=5,ip,nw_dst=11.0.0.0/8,actions=dec_ttl,output:3\n\
                 table=0,in_port=1,ipv6,ipv6_dst=2001:db8::/32,actions=output:4\n\
                 table=0,in_port=2,arp,arp_tpa=10.0.0.1,actions=output:5\n\
                 table=0,tun_id=7,actions=output:6\n";
    let rules = scene.write("r.rules", rules);
    for flow in [
        "in_port=1,tcp,nw_dst=10.1.2.3,tp_dst=80",
        "in_port=1,dl_vlan=5,udp,nw_dst=11.1.2.3,tp_dst=80",
        "in_port=1,dl_vlan=5,udp,nw_dst=11.1.2.3,nw_ttl=1",
        "in_port=1,icmp6,ipv6_dst=2001:db8::1",
        "in_port=2,arp,arp_tpa=10.0.0.1",
        "in_port=2,tun_id=7,ip",
        "in_port=9",
    ] {
        let first = scene.json(&["trace", "--rules", &rules, flow]);
        for key in ["megaflow", "datapath_megaflow"] {
            let entry = first[key].as_str().unwrap();
            let second = scene.json(&["trace", "--rules", &rules, entry]);
            for key in ["actions", "megaflow", "datapath_megaflow"] {
                assert_eq!(first[key], second[key], "{flow}: {entry}");
            }
        }
    }
    scene.refuses(
        &[
            "trace",
            "--rules",
            &rules,
            "recirc_id(0x1),in_port(1),eth_type(0x0800)",
        ],
        &["FLOW: an entry of a later pass", "as it came in"],
    );
    scene.refuses(
        &[
            "trace",
            "--rules",
            &rules,
            "in_port(1),eth_type(0x0800),present:ipv4(0)",
        ],
        &["FLOW: the packet does not have present:ipv4=0x0/0x1; give the bytes"],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "in_port(1),eht_type(0x0800)"],
        &[
            "FLOW:1:12: unknown attribute `eht_type`",
            "\n             ^\n",
        ],
    );
}

#[test]
fn bytes_stand_alone_or_behind_the_flow() {
    let scene = Scene::new();
    let rules = "in_port=1,dl_dst=02:00:00:00:00:01,actions=output:2\n\
                 in_port=7,dl_dst=02:00:00:00:00:01,actions=output:8\n";
    let rules = scene.write("r.rules", rules);
    let bytes = "02000000000102000000000288b5";
    assert_eq!(actions(&["--rules", &rules, bytes]), "2");
    assert_eq!(
        actions(&["--rules", &rules, "0200 0000 0001 0200 0000 0002 88b5"]),
        "2"
    );
    assert_eq!(actions(&["--rules", &rules, "in_port=7", bytes]), "8");
    assert_eq!(
        actions(&["--rules", &rules, "in_port(7)", "--packet", bytes]),
        "8"
    );
    let report = scene.json(&["explain", "--rules", &rules, bytes]);
    assert_eq!(report["actions"], "2");
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=7", "ip"],
        &["HEX:1:1: 'i' is no hexadecimal digit"],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "0200000"],
        &["HEX: 7 is no even number of digits"],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "0200"],
        &["the packet's bytes: shorter than an Ethernet header"],
    );
}

#[test]
fn ports_have_names() {
    let scene = Scene::new();
    let rules = "in_port=up,actions=down,output:\"third\"\nin_port=2,actions=flood\n";
    let rules = scene.write("r.rules", rules);
    let names = scene.write("ports", "up=1\nthird 3\n");
    let trace = ["--rules", &rules, "--ports", &names, "--ports", "down=2"];
    let of = |flow: &str| actions(&[&trace[..], &[flow]].concat());
    assert_eq!(of("in_port=up"), "2,3");
    assert_eq!(of("in_port=1"), "2,3");
    assert_eq!(of("in_port(up),eth_type(0x0800)"), "2,3");
    // A port with a name exists.
    assert_eq!(of("in_port=down"), "1,3");
    let report = scene.json(&[&["explain"], &trace[..], &["in_port=up"]].concat());
    assert_eq!(report["actions"], "2,3");
    scene.refuses(
        &[&["trace"], &trace[..], &["in_port=upp"]].concat(),
        &[
            "FLOW:1:9: unknown port `upp`; give its number, or the name of a port that exists: \
           down, third, up\n",
        ],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "--ports", "up=1", "in_port=1"],
        &[
            "r.rules:1:20: unknown action or port `down`",
            "exists: up\n",
        ],
    );
    scene.refuses(
        &[&["trace"], &trace[..], &["--ports", "up=4", "in_port=1"]].concat(),
        &["--ports: `up` is port 1 already; give port 4 another name"],
    );
}

#[test]
fn bad_input_ends_with_2_and_says_where_and_what_to_do() {
    let scene = Scene::new();
    let rules = scene.write(
        "r.rules",
        "arp actions=drop\nip,tp_dst=80 actions=ouput:2\n",
    );
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1"],
        &["r.rules:2:4", "`tcp`"],
    );
    let rules = scene.write("r.rules", "actions=ouput:2\n");
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1"],
        &["r.rules:1:9", "ouput"],
    );
    let missing = scene.path("none.rules");
    scene.refuses(
        &["trace", "--rules", &missing, "in_port=1"],
        &["none.rules: No such file", "check the path"],
    );
    let rules = scene.write("r.rules", "table=1,actions=goto_table:1\n");
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1"],
        &["r.rules:1:17: goto_table:1", "resubmit"],
    );
    let rules = scene.write("r.rules", "actions=group:7\n");
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1"],
        &["group 7 does not exist"],
    );
    let rules = scene.write("r.rules", "");
    scene.refuses(
        &["trace", "--rules", &rules, "in_prot=1"],
        &["FLOW:1:1: unknown field `in_prot`", "\n  in_prot=1\n  ^\n"],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1", "--packet", "00f"],
        &["--packet: 3 is no even number of digits; give two"],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1", "--packet", "0011"],
        &["packet's bytes: shorter than an Ethernet header; give all bytes"],
    );
    scene.refuses(
        &["trace", "--rules", &rules, "in_port=1", "--packet", "00 0x"],
        &["--packet:1:5: 'x' is no hexadecimal digit"],
    );
    let binary = scene.write("b.rules", [0xff, 0xfe]);
    scene.refuses(
        &["trace", "--rules", &binary, "in_port=1"],
        &["b.rules: ", "give rules as text"],
    );
    let folder = scene.path("");
    scene.refuses(
        &["trace", "--rules", &folder, "in_port=1"],
        &["Is a directory", "name a file in it"],
    );
    scene.refuses(&["trace", "in_port=1"], &["--rules"]);
}

/// Rules that Faucet, a controller, gave to a switch, as printed by `ovs-ofctl dump-flows`.
#[cfg(feature = "shared-data")]
#[test]
fn the_dump_of_a_faucet_network() {
    let shared = std::env::var("THALWEG_SHARED").expect("THALWEG_SHARED names the shared data");
    let dump = format!("{shared}/data/flows/faucet.dump");
    let scene = Scene::new();
    let report = scene.json(&["trace", "--rules", &dump, "in_port=1,tcp,tp_dst=23"]);
    assert_eq!(report["steps"].as_array().unwrap().len(), 1);
    assert_eq!(report["actions"], "drop");
    let report = scene.json(&["trace", "--rules", &dump, "in_port=1,arp,arp_op=1"]);
    assert!(report["steps"].as_array().unwrap().len() > 2, "{report}");
}
