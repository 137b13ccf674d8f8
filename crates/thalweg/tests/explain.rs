//! Tests `thalweg explain` through its command line, with golden text.

mod command;

use std::path::Path;

use command::Scene;
use expect_test::{Expect, expect};
use thalweg_io::CaptureWriter;
use thalweg_packet::Instant;
use thalweg_packet::wire::{MacAddress, PacketBuilder};

/// The rules of a small campus network.
const CAMPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/campus.rules");

fn explained(scene: &Scene, arguments: &[&str], expected: &Expect) {
    expected.assert_eq(&scene.says(&[&["explain"], arguments].concat()));
}

#[test]
fn a_routed_packet() {
    let flow = "in_port=1,tcp,dl_src=02:00:00:00:01:01,dl_dst=02:00:00:00:00:fe,nw_src=10.0.1.1,\
                nw_dst=10.0.2.1,tp_src=1000,tp_dst=80";
    explained(
        &Scene::new(),
        &["--rules", CAMPUS, flow],
        &expect![[r#"
            Megaflow: recirc_id=0,eth,ip,in_port=1,vlan_tci=0x0000/0x1fff,dl_dst=02:00:00:00:00:fe,nw_dst=10.0.2.0/24,nw_frag=no,tp_dst=0x40/0xffc0,nw_ttl_above_1=0x1
            Datapath actions: push_vlan(vid=0,pcp=0),set(eth(src=02:00:00:00:00:fe,dst=02:00:00:00:02:01)),set(vlan(vid=201)),dec_ttl,pop_vlan,2

            Why its mask has
              in_port=0x1/0xffffffff
                  0. lookup: table=0,priority=10,in_port=1,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
                  3. actions: table=3,priority=10,dl_vlan=201,dl_dst=02:00:00:00:02:01,actions=pop_vlan,output:2
              recirc_id=0x0/0xffffffff
                     pass: each pass of a packet has entries of its own
              eth_dst=02:00:00:00:00:fe
                  1. lookup: table=1,priority=30,ip,dl_dst=02:00:00:00:00:fe,actions=goto_table:2
              eth_type=0x800/0xffff
                  1. lookup: table=1,priority=30,ip,dl_dst=02:00:00:00:00:fe,actions=goto_table:2
              vlan_tci=0x0/0x1fff
                  0. lookup: table=0,priority=10,in_port=1,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
              nw_dst=10.0.2.0/24
                  2. lookup: cookie=0x24,table=2,priority=124,ip,dl_vlan=101,nw_dst=10.0.2.0/24,actions=set_field:4297->vlan_vid,set_field:02:00:00:00:00:fe->eth_src,set_field:02:00:00:00:02:01->eth_dst,dec_ttl,goto_table:3
              nw_ttl_above_1=0x1/0x1
                  2. actions: cookie=0x24,table=2,priority=124,ip,dl_vlan=101,nw_dst=10.0.2.0/24,actions=set_field:4297->vlan_vid,set_field:02:00:00:00:00:fe->eth_src,set_field:02:00:00:00:02:01->eth_dst,dec_ttl,goto_table:3
              ip_frag=0x0/0x3
                  0. lookup: table=0,priority=10,in_port=1,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
              tp_dst=0x40/0xffc0
                  0. lookup: table=0,priority=10,in_port=1,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4197->vlan_vid,goto_table:1
              present:ipv4=0x1/0x1
                  2. actions: cookie=0x24,table=2,priority=124,ip,dl_vlan=101,nw_dst=10.0.2.0/24,actions=set_field:4297->vlan_vid,set_field:02:00:00:00:00:fe->eth_src,set_field:02:00:00:00:02:01->eth_dst,dec_ttl,goto_table:3

            What would touch it
              table 0: a rule above priority 10 that meets in_port=1,vlan_tci=0x0000/0x1fff,tp_dst=0x40/0xffc0; deleting or modifying priority=10,in_port=1,vlan_tci=0x0000/0x1fff
              table 1: a rule above priority 30 that meets ip,dl_dst=02:00:00:00:00:fe; deleting or modifying priority=30,ip,dl_dst=02:00:00:00:00:fe
              table 2: a rule above priority 124 that meets ip,dl_vlan=101,nw_dst=10.0.2.0/24; deleting or modifying priority=124,ip,dl_vlan=101,nw_dst=10.0.2.0/24
              table 3: a rule above priority 10 that meets dl_vlan=201,dl_dst=02:00:00:00:02:01; deleting or modifying priority=10,dl_vlan=201,dl_dst=02:00:00:00:02:01
              port 2 comes or goes, or its link does, or its VLANs change
              any table: a rule about a field that no rule has been about; all entries go

        "#]],
    );
}

#[test]
fn each_pass_is_a_part() {
    let flow = "in_port=4,mpls,mpls_label=16";
    explained(
        &Scene::new(),
        &["--rules", CAMPUS, flow],
        &expect![[r#"
            Megaflow: recirc_id=0,eth,mpls,in_port=4,mpls_bos=1,nw_frag=no
            Datapath actions: pop_mpls(eth_type=0x800),recirc(0x0)

            Why its mask has
              in_port=0x4/0xffffffff
                  0. lookup: table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2
              recirc_id=0x0/0xffffffff
                     pass: each pass of a packet has entries of its own
              eth_type=0x8847/0xffff
                  0. lookup: table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2
              mpls_bos=0x1/0x1
                  0. actions: table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2
              ip_frag=0x0/0x3
                  0. lookup: table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2
              present:mpls=0x1/0x1
                  0. actions: table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2

            What would touch it
              table 0: a rule above priority 5 that meets mpls,in_port=4; deleting or modifying priority=5,mpls
              any table: a rule about a field that no rule has been about; all entries go

            Megaflow: recirc_id=0x1,eth,ip,in_port=4,vlan_tci=0x0000/0x1fff,nw_frag=no
            Datapath actions: 3

            Why its mask has
              in_port=0x4/0xffffffff
                  2. actions: table=2,priority=100,ip,actions=output:3
              recirc_id=0x1/0xffffffff
                     pass: each pass of a packet has entries of its own
              eth_type=0x800/0xffff
                  2. lookup: table=2,priority=100,ip,actions=output:3
              vlan_tci=0x0/0x1fff
                  2. lookup: table=2,priority=100,ip,actions=output:3
              ip_frag=0x0/0x3
                  2. lookup: table=2,priority=100,ip,actions=output:3

            What would touch it
              table 2: a rule above priority 100 that meets ip,vlan_tci=0x0000/0x1fff; deleting or modifying priority=100,ip
              port 3 comes or goes, or its link does, or its VLANs change
              any table: a rule about a field that no rule has been about; all entries go

        "#]],
    );
}

/// Explains a flow under rules with a group, resubmits, and the table of stations.
fn explained_by_others(flow: &str, expected: &Expect) {
    let scene = Scene::new();
    let rules = "priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,group:5\n\
                 priority=65535,arp,actions=resubmit(,2),resubmit(,2)\n\
                 priority=5,actions=move:eth_dst[0..31]->reg0[],resubmit(,1)\n\
                 table=1,reg0=2,actions=normal\n";
    let rules = scene.write("r.rules", rules);
    let groups = "group_id=5,type=select,selection_method=hash,fields(ip_src),\
                  bucket=output:2,bucket=watch_port:3,output:3\n";
    let groups = scene.write("r.groups", groups);
    let arguments = ["--rules", &rules, "--groups", &groups, flow];
    explained(&scene, &arguments, expected);
}

#[test]
fn groups_and_ports_touch_entries() {
    explained_by_others(
        "in_port=1,ip,nw_src=10.0.0.2,nw_dst=10.0.0.1",
        &expect![[r#"
            Megaflow: recirc_id=0,eth,ip,in_port=1,nw_src=10.0.0.2,nw_dst=10.0.0.0/8,nw_ttl_above_1=0x1
            Datapath actions: dec_ttl,3

            Why its mask has
              in_port=0x1/0xffffffff
                     group: group 5: bucket 1
              eth_type=0x800/0xffff
                  0. lookup: table=0,priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,group:5
              nw_src=10.0.0.2
                  0. actions: table=0,priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,group:5
              nw_dst=10.0.0.0/8
                  0. lookup: table=0,priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,group:5
              nw_ttl_above_1=0x1/0x1
                  0. actions: table=0,priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,group:5
              present:ipv4=0x1/0x1
                  0. actions: table=0,priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,group:5

            What would touch it
              table 0: a rule above priority 10 that meets ip,nw_dst=10.0.0.0/8; deleting or modifying priority=10,ip,nw_dst=10.0.0.0/8
              group 5 changes
              port 3 comes or goes, or its link does, or its VLANs change
              any table: a rule about a field that no rule has been about; all entries go

        "#]],
    );
}

#[test]
fn what_is_asked_twice_is_said_once() {
    explained_by_others(
        "in_port=1,arp",
        &expect![[r#"
        Megaflow: recirc_id=0,eth,arp
        Datapath actions: drop

        Why its mask has
          eth_type=0x806/0xffff
              0. lookup: table=0,priority=65535,arp,actions=resubmit(,2),resubmit(,2)

        What would touch it
          table 0: deleting or modifying priority=65535,arp
          table 2: any rule
          any table: a rule about a field that no rule has been about; all entries go

    "#]],
    );
}

#[test]
fn stations_and_the_list_of_ports_touch_entries() {
    explained_by_others(
        "in_port=1,dl_dst=00:00:00:00:00:02",
        &expect![[r#"
            Megaflow: recirc_id=0,eth,in_port=1,vlan_tci=0x0000/0x1fff,dl_src=00:00:00:00:00:00,dl_dst=00:00:00:00:00:02,dl_type=0x88b5
            Datapath actions: 2,3

            Why its mask has
              in_port=0x1/0xffffffff
                  1. actions: table=1,reg0=0x2,actions=NORMAL
                     normal: station 000000000002 in VLAN 0: unknown, flooded
              eth_dst=00:00:00:00:00:02
                  1. actions: table=1,reg0=0x2,actions=NORMAL
              eth_src=00:00:00:00:00:00
                  1. actions: table=1,reg0=0x2,actions=NORMAL
              eth_type=0x88b5/0xffff
                  0. lookup: table=0,priority=5,actions=move:NXM_OF_ETH_DST[0..31]->NXM_NX_REG0[],resubmit(,1)
              vlan_tci=0x0/0x1fff
                  1. actions: table=1,reg0=0x2,actions=NORMAL

            What would touch it
              table 0: a rule above priority 5 that meets dl_type=0x88b5; deleting or modifying priority=5
              table 1: a rule above priority 32768 that meets reg0=0x2; deleting or modifying priority=32768,reg0=0x2
              station 00:00:00:00:00:02 in VLAN 0 is seen
              port 1 comes or goes, or its link does, or its VLANs change
              the list of ports changes, or their VLANs
              any table: a rule about a field that no rule has been about; all entries go

        "#]],
    );
}

#[test]
fn json_has_the_keys_that_stay() {
    let scene = Scene::new();
    let flow = "in_port=4,mpls,mpls_label=16";
    let report = scene.json(&["explain", "--rules", CAMPUS, flow]);
    let field = &report["fields"][0];
    assert_eq!(field["field"], "in_port");
    assert_eq!(
        (&field["value"], &field["mask"]),
        (&"0x4".into(), &"0xffffffff".into())
    );
    assert_eq!(
        field["needed_by"][0],
        serde_json::json!({
            "table": 0,
            "by": "lookup",
            "rule": "table=0,priority=5,mpls,actions=pop_mpls:0x0800,goto_table:2",
            "what": "matched",
            "mask": "0xffffffff",
        })
    );
    let touch = &report["touched_by"][0];
    assert_eq!(
        (&touch["kind"], &touch["table"], &touch["above_priority"]),
        (&"table".into(), &0.into(), &5.into())
    );
    let second = &report["recirculated"][0];
    assert!(
        second["megaflow"]
            .as_str()
            .unwrap()
            .contains("recirc_id=0x1"),
        "{report}"
    );
}

/// Two hosts that send packets, and changes between them: to a route's next hop, and to
/// another rule.
struct Town {
    scene: Scene,
    rules: String,
    capture: String,
    changes: String,
}

impl Town {
    fn new() -> Town {
        let scene = Scene::new();
        let rules = "table=0,priority=10,ip,actions=goto_table:1\n\
                     table=1,priority=124,ip,nw_dst=10.0.2.0/24,actions=dec_ttl,output:2\n\
                     table=1,priority=108,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,output:3\n";
        let rules = scene.write("r.rules", rules);
        let changes = "@2 modify_strict table=1,priority=124,ip,nw_dst=10.0.2.0/24,\
                       actions=dec_ttl,output:4\n\
                       @3 add table=1,priority=128,ip,nw_dst=10.0.2.64/28,actions=drop\n";
        let changes = scene.write("c.changes", changes);
        let capture = scene.path("in.pcap");
        let mut writer = CaptureWriter::create(Path::new(&capture)).unwrap();
        for (ms, to) in [(0, [10, 0, 2, 1]), (1, [10, 9, 9, 9]), (2, [10, 0, 2, 1])] {
            let ethernet = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
            let packet = ethernet
                .ipv4([10, 0, 1, 1].into(), to.into())
                .udp(1, 2)
                .pad_to(60);
            let at = Instant::ZERO + std::time::Duration::from_millis(ms);
            writer.write(&packet.build(), at).unwrap();
        }
        writer.flush().unwrap();
        Town {
            scene,
            rules,
            capture,
            changes,
        }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let with = ["explain", "--rules", &self.rules, "--pcap", &self.capture];
        [&with[..], &["--changes", &self.changes], more].concat()
    }
}

#[test]
fn an_entry_says_which_change_it_was_repaired_for() {
    let town = Town::new();
    let text = town.scene.says(&town.arguments(&["ip,nw_dst=10.0.2.1"]));
    expect![[r#"
        2 entries after 3 packets and 2 changes, at version 7

        Entry 0, 0 packets
        Last repaired at version 7 (change 2, before packet 3: add table=1,priority=128,ip,nw_dst=10.0.2.64/28,actions=drop): narrowed, 2 lookups of which 2 were still known
        Megaflow: recirc_id=0,eth,ip,in_port=1,nw_dst=10.0.2.0/255.255.255.64,nw_ttl_above_1=0x1
        Datapath actions: dec_ttl,4

        Why its mask has
          in_port=0x1/0xffffffff
              1. actions: table=1,priority=124,ip,nw_dst=10.0.2.0/24,actions=dec_ttl,output:4
          eth_type=0x800/0xffff
              0. lookup: table=0,priority=10,ip,actions=goto_table:1
              1. lookup: table=1,priority=124,ip,nw_dst=10.0.2.0/24,actions=dec_ttl,output:4
          nw_dst=10.0.2.0/255.255.255.64
              1. lookup: table=1,priority=124,ip,nw_dst=10.0.2.0/24,actions=dec_ttl,output:4
          nw_ttl_above_1=0x1/0x1
              1. actions: table=1,priority=124,ip,nw_dst=10.0.2.0/24,actions=dec_ttl,output:4
          present:ipv4=0x1/0x1
              1. actions: table=1,priority=124,ip,nw_dst=10.0.2.0/24,actions=dec_ttl,output:4

        What would touch it
          table 0: a rule above priority 10 that meets ip; deleting or modifying priority=10,ip
          table 1: a rule above priority 124 that meets ip,nw_dst=10.0.2.0/255.255.255.64; deleting or modifying priority=124,ip,nw_dst=10.0.2.0/24
          port 4 comes or goes, or its link does, or its VLANs change
          any table: a rule about a field that no rule has been about; all entries go
    "#]]
    .assert_eq(&text);
}

#[test]
fn what_is_said_to_touch_a_repaired_entry_does() {
    let mut town = Town::new();
    // It meets nw_dst=10.0.2.0/255.255.255.64, but not the /26 that a search would read.
    let more = "@3 add table=1,priority=200,ip,nw_dst=10.0.2.128/26,actions=drop\n\
                @3 add table=1,priority=201,ip,nw_dst=10.0.2.192/26,actions=drop\n";
    let changes = std::fs::read_to_string(&town.changes).unwrap() + more;
    town.changes = town.scene.write("more.changes", changes);
    let report = town.scene.json(&town.arguments(&[]));
    let affected = |place: usize| &report["changes"][place]["affected"];
    assert_eq!((affected(2), affected(3)), (&1.into(), &0.into()));
}

#[test]
fn entries_in_json_have_the_keys_that_stay() {
    let town = Town::new();
    let report = town.scene.json(&town.arguments(&[]));
    assert_eq!(
        (&report["packets"], &report["entries"]),
        (&3.into(), &2.into())
    );
    assert_eq!(report["changes"][0]["position"], 2);
    let entries = report["explained"].as_array().expect("a list");
    assert_eq!(entries.len(), 2);
    let repaired = entries.iter().find(|entry| !entry["last_repair"].is_null());
    let repaired = repaired.expect("one was repaired");
    assert_eq!(repaired["last_repair"]["change"], 2);
    assert_eq!(
        repaired["last_repair"]["version"],
        report["changes"][1]["version"]
    );
    assert!(
        repaired["fields"]
            .as_array()
            .is_some_and(|fields| !fields.is_empty())
    );
    let number = repaired["entry"].to_string();
    let alone = town.scene.json(&town.arguments(&["--entry", &number]));
    assert_eq!(alone["explained"], serde_json::json!([repaired]));
    town.scene.refuses(
        &town.arguments(&["--entry", "7"]),
        &["--entry 7", "no such entry"],
    );
}

#[test]
fn maintainers_that_evict_leave_entries_that_were_never_repaired() {
    let town = Town::new();
    let report = town
        .scene
        .json(&town.arguments(&["--maintainer", "barrier"]));
    let entries = report["explained"].as_array().expect("a list");
    assert!(
        entries.iter().all(|entry| entry["last_repair"].is_null()),
        "{report}"
    );
    let affected = |place: usize| &report["changes"][place]["affected"];
    assert_eq!((affected(0), affected(1)), (&1.into(), &1.into()));
}

#[test]
fn bad_input_is_refused_as_trace_does() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "");
    scene.refuses(
        &["explain", "--rules", &rules, "in_prot=1"],
        &["FLOW:1:1: unknown field `in_prot`"],
    );
    scene.refuses(&["explain", "in_port=1"], &["--rules"]);
    scene.refuses(&["explain", "--rules", &rules], &["FLOW"]);
    let with = ["explain", "--rules", &rules, "in_port=1", "--entry", "3"];
    scene.refuses(&with, &["--pcap"]);
}
