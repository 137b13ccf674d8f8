//! `ovs-ofctl` drives `thalweg run`. Needs Open vSwitch's programs, no privileges.
//!
//! Ports are sinks, so that packets come from packet-outs only, and counts are exact.

mod ofctl;
mod program;

use ofctl::{Monitor, PACKET, Switch, VERSIONS, lines};

/// Rules that every version can say.
const COMMON: &str = "\
priority=10,tcp,nw_src=10.0.0.0/8,nw_dst=10.1.2.3,tp_dst=80,actions=mod_nw_dst:1.2.3.4,output:2
priority=11,in_port=1,dl_vlan=5,actions=strip_vlan,NORMAL
priority=12,in_port=1,dl_vlan=5,dl_vlan_pcp=3,actions=IN_PORT
priority=13,dl_src=00:11:22:33:44:55,dl_dst=ff:ff:ff:ff:ff:ff,actions=FLOOD
priority=14,arp,arp_tpa=10.0.0.1,arp_op=1,actions=CONTROLLER:65535
priority=15,icmp,icmp_type=8,icmp_code=0,actions=LOCAL
priority=16,udp,nw_tos=32,tp_src=53,actions=mod_dl_src:00:00:00:00:00:01,ALL
cookie=0x123456789abcdef0,idle_timeout=60,hard_timeout=70,priority=18,sctp,actions=output:1
";

/// Rules that need fields as a list: NXM or OXM.
const LISTED: &str = "\
table=1,priority=1,ipv6,ipv6_src=fe80::/64,ipv6_dst=2001:db8::1,actions=output:1
table=1,priority=2,tcp6,tp_dst=0x100/0xff00,actions=dec_ttl,output:2
table=1,priority=3,icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=00:00:00:00:00:01,actions=output:1
table=2,reg0=0x5/0xff,metadata=0x7,actions=move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31],resubmit(,3)
table=2,tun_id=0x77,actions=push:NXM_NX_REG0[],pop:NXM_NX_REG2[],output:NXM_NX_REG3[0..15]
table=10,priority=3,conj_id=7,ip,actions=output:1
table=10,priority=3,ip,nw_src=10.0.0.1,actions=conjunction(7,1/2),note:01.00.00.00.00.00
table=10,priority=3,ip,nw_dst=10.0.0.2,actions=conjunction(7,2/2),conjunction(4294967295,64/64)
table=3,ip,ip_frag=later,actions=note:01.02.03.04.05.06,exit
table=3,priority=4,tcp,tcp_flags=+syn-ack,actions=clone(mod_dl_dst:00:00:00:00:00:05,output:1),output:2
table=253,actions=controller(reason=no_match,max_len=100,id=3)
table=9,send_flow_rem,ip,nw_ttl=1,nw_ecn=2,actions=controller(userdata=01.02.03)
";

#[test]
fn what_is_loaded_is_what_is_dumped_in_every_version() {
    let switch = Switch::start("");
    for version in VERSIONS {
        let mut rules = COMMON.to_owned();
        if version != "OpenFlow10" {
            // The same action, which `ovs-ofctl` names otherwise.
            rules = rules.replace("strip_vlan", "pop_vlan");
        }
        if version == "OpenFlow10" {
            // `ovs-ofctl` reads its own later forms of this match back as another one.
            rules.push_str("priority=17,vlan_tci=0x0000,actions=drop\n");
        }
        if version != "OpenFlow11" {
            rules.push_str(LISTED);
        }
        if !matches!(version, "OpenFlow10" | "OpenFlow11") {
            // From 1.2 on there is one action for all fields.
            for (name, field, value) in [
                ("mod_dl_src", "eth_src", "00:00:00:00:00:01"),
                ("mod_dl_dst", "eth_dst", "00:00:00:00:00:05"),
                ("mod_nw_dst", "ip_dst", "1.2.3.4"),
            ] {
                let set_field = format!("set_field:{value}->{field}");
                rules = rules.replace(&format!("{name}:{value}"), &set_field);
            }
        }
        if matches!(version, "OpenFlow13" | "OpenFlow14" | "OpenFlow15") {
            rules.push_str("table=4,mpls,mpls_label=7,mpls_bos=1,actions=pop_mpls:0x0800\n");
            rules.push_str(
                "table=5,ip,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:1\n",
            );
            rules.push_str("table=6,ip,actions=write_actions(output:2),goto_table:7\n");
            rules.push_str("table=7,actions=write_metadata:0x1/0xff,goto_table:8\n");
            rules.push_str("table=8,actions=output:1,clear_actions,goto_table:9\n");
        }
        let file = switch.write("rules", &rules);
        // OpenFlow 1.1 has no number for all tables.
        switch.ok("OpenFlow13", &["del-flows"], &[]);
        switch.ok(version, &["add-flows"], &[&file]);
        let count = rules.lines().count();
        assert_eq!(switch.flows(version).len(), count, "{version}");
        let diff = switch.ok(version, &["diff-flows"], &[&file]);
        assert_eq!(diff, "", "{version}");
        let aggregate = switch.ok(version, &["dump-aggregate"], &[]);
        assert!(
            aggregate.contains(&format!("flow_count={count}")),
            "{aggregate}"
        );
    }
    switch.stop();
}

#[test]
fn rules_are_modified_and_deleted_strictly_and_loosely() {
    let switch = Switch::start("");
    let add = |flow: &str| switch.ok("OpenFlow13", &["add-flow"], &[flow]);
    add("cookie=0x1,priority=5,ip,actions=output:1");
    add("cookie=0x12,priority=6,tcp,actions=output:1");
    add("cookie=0x3,priority=7,arp,actions=output:2");
    add("table=1,cookie=0x3,priority=7,arp,actions=output:2");
    let mod_flows = |options: &[&str], flow: &str| {
        let command = [options, &["mod-flows"]].concat();
        switch.ok("OpenFlow13", &command, &[flow])
    };
    mod_flows(&[], "ip,actions=output:2");
    mod_flows(&["--strict"], "priority=7,arp,actions=NORMAL");
    // A modification of OpenFlow 1.3 that finds nothing does nothing.
    mod_flows(&["--strict"], "priority=8,arp,actions=FLOOD");
    assert_eq!(
        switch.flows("OpenFlow13"),
        [
            "cookie=0x1, priority=5,ip actions=output:2",
            "cookie=0x12, priority=6,tcp actions=output:2",
            "cookie=0x3, priority=7,arp actions=NORMAL",
            "cookie=0x3, table=1, priority=7,arp actions=output:2",
        ]
    );
    // One of OpenFlow 1.0 adds it.
    switch.ok(
        "OpenFlow10",
        &["--strict", "mod-flows"],
        &["priority=8,arp,actions=FLOOD"],
    );
    let dump =
        |filter: &str| lines(&switch.ok("OpenFlow13", &["--no-stats", "dump-flows"], &[filter]));
    assert_eq!(dump("cookie=0x2/0x2").len(), 3);
    assert_eq!(dump("out_port=2").len(), 3);
    assert_eq!(dump("table=1").len(), 1);
    assert_eq!(dump("tcp").len(), 1);
    switch.ok("OpenFlow13", &["del-flows"], &["cookie=0x2/0x2,table=0"]);
    assert_eq!(switch.flows("OpenFlow13").len(), 3);
    switch.ok(
        "OpenFlow13",
        &["--strict", "del-flows"],
        &["priority=1,arp"],
    );
    switch.ok(
        "OpenFlow13",
        &["--strict", "del-flows"],
        &["priority=8,arp"],
    );
    switch.ok("OpenFlow13", &["del-flows"], &["out_port=1"]);
    assert_eq!(switch.flows("OpenFlow13").len(), 2);
    switch.ok("OpenFlow10", &["del-flows"], &[]);
    assert!(switch.flows("OpenFlow13").is_empty());
    switch.stop();
}

#[test]
fn a_bundle_is_done_whole_or_not_at_all() {
    let switch = Switch::start("");
    for version in ["OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let first = switch.write(
            "first",
            "priority=1,ip,actions=output:1\npriority=2,arp,actions=output:2\n",
        );
        switch.ok(version, &["--bundle", "replace-flows"], &[&first]);
        let before = switch.flows(version);
        assert_eq!(before.len(), 2);
        // The third message names a group that does not exist.
        let bad = switch.write(
            "bad",
            "flow delete\nflow add priority=3,tcp,actions=output:1\nflow add priority=4,udp,actions=group:77\n\
             flow add priority=5,ip,actions=output:1\n",
        );
        let (is_done, text) = switch.ask(version, &["bundle"], &[&bad]);
        assert!(!is_done, "{text}");
        assert!(
            text.contains("OFPBAC_BAD_OUT_GROUP") && text.contains("OFPBFC_MSG_FAILED"),
            "{text}"
        );
        assert_eq!(switch.flows(version), before);
        // A group and the rule that uses it come together.
        let good = switch.write(
            "good",
            "group delete\ngroup add group_id=77,type=all,bucket=output:1\n\
             flow add priority=4,udp,actions=group:77\n",
        );
        switch.ok(version, &["bundle"], &[&good]);
        assert_eq!(switch.flows(version).len(), 3);
        switch.ok(version, &["del-groups"], &[]);
        assert_eq!(switch.flows(version), before);
    }
    switch.stop();
}

#[test]
fn groups_and_their_buckets_are_read_back() {
    let switch = Switch::start("");
    for version in VERSIONS {
        switch.ok(version, &["del-groups"], &[]);
        let groups = [
            "group_id=1,type=select,bucket=weight:5,output:1,bucket=weight:7,output:2",
            "group_id=2,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2",
            "group_id=3,type=indirect,bucket=output:1",
            "group_id=4,type=all,bucket=output:1,bucket=output:2",
        ];
        for group in groups {
            switch.ok(version, &["add-group"], &[group]);
        }
        let error = switch.error(version, &["add-group"], &[groups[0]]);
        assert_eq!(error, "OFPGMFC_GROUP_EXISTS");
        let told = lines(&switch.ok(version, &["dump-groups"], &[]));
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains("weight:5,actions=output:1"), "{told:?}");
        assert!(
            told[1].contains("watch_port:2,actions=output:2"),
            "{told:?}"
        );
        switch.ok(
            version,
            &["mod-group"],
            &["group_id=3,type=all,bucket=output:2"],
        );
        let error = switch.error(
            version,
            &["mod-group"],
            &["group_id=9,type=all,bucket=output:2"],
        );
        assert_eq!(error, "OFPGMFC_UNKNOWN_GROUP");
        let stats = switch.ok(version, &["dump-group-stats"], &[]);
        assert!(
            stats.contains("group_id=1") && stats.contains("bucket1:"),
            "{stats}"
        );
    }
    let hashed = "group_id=5,type=select,selection_method=hash,fields(ip_src,tcp_dst),\
                  bucket=bucket_id:1,weight:5,output:1";
    switch.ok("OpenFlow15", &["add-group"], &[hashed]);
    let insert = "group_id=5,command_bucket_id=last,bucket=bucket_id=7,weight:3,output:2";
    switch.ok("OpenFlow15", &["insert-buckets"], &[insert]);
    let error = switch.error("OpenFlow15", &["insert-buckets"], &[insert]);
    assert_eq!(error, "OFPGMFC_BUCKET_EXISTS");
    switch.ok(
        "OpenFlow15",
        &["remove-buckets"],
        &["group_id=5,command_bucket_id=1"],
    );
    let told = switch.ok("OpenFlow15", &["dump-groups"], &["5"]);
    let expected = "group_id=5,type=select,selection_method=hash,fields(ip_src,tcp_dst),\
                    bucket=bucket_id:7,weight:3,actions=output:2";
    assert!(told.contains(expected), "{told}");
    switch.stop();
}

#[test]
fn meters_tables_and_ports_are_set_and_read_back() {
    let switch = Switch::start("");
    let version = "OpenFlow14";
    let meter = "meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=10";
    switch.ok(version, &["add-meter"], &[meter]);
    let error = switch.error(version, &["add-meter"], &[meter]);
    assert_eq!(error, "OFPMMFC_METER_EXISTS");
    let told = switch.ok(version, &["dump-meters"], &[]);
    assert!(told.contains("type=drop rate=1000 burst_size=10"), "{told}");
    assert!(
        switch
            .ok(version, &["meter-stats"], &[])
            .contains("meter:1")
    );
    switch.ok(version, &["del-meters"], &[]);
    assert!(
        !switch
            .ok(version, &["dump-meters"], &[])
            .contains("meter=1")
    );
    switch.ok(version, &["mod-table"], &["0", "evict"]);
    assert!(
        switch
            .ok(version, &["dump-table-desc"], &[])
            .contains("eviction=on")
    );
    assert!(
        switch
            .ok(version, &["dump-table-features"], &[])
            .contains("table 253")
    );
    switch.ok("OpenFlow10", &["mod-port"], &["p1", "no-flood"]);
    switch.ok(version, &["mod-port"], &["2", "down"]);
    let told = switch.ok("OpenFlow10", &["show"], &[]);
    assert!(
        told.contains("NO_FLOOD") && told.contains("PORT_DOWN"),
        "{told}"
    );
    assert!(told.contains("n_tables:254"), "{told}");
    let ports = switch.ok(version, &["dump-ports"], &[]);
    assert!(ports.contains("2 ports"), "{ports}");
    switch.stop();
}

#[test]
fn a_port_that_is_down_or_forwards_nothing_sends_nothing() {
    let switch = Switch::start("");
    let version = "OpenFlow13";
    switch.ok(
        version,
        &["add-flow"],
        &["priority=1,actions=output:1,output:2"],
    );
    let out = format!("in_port=LOCAL,packet={PACKET},actions=resubmit(,0)");
    for (port, setting, gain) in [
        ("1", "forward", 1),
        ("1", "no-forward", 0),
        ("1", "forward", 1),
        ("2", "down", 0),
        ("2", "up", 1),
    ] {
        switch.ok(version, &["mod-port"], &[port, setting]);
        let before = switch.packets_sent_by(port);
        switch.ok(version, &["packet-out"], &[&out]);
        assert_eq!(
            switch.packets_sent_by(port) - before,
            gain,
            "{port} {setting}"
        );
    }
    switch.stop();
}

#[test]
fn fragments_are_treated_as_set_frags_says() {
    let switch = Switch::start("");
    let version = "OpenFlow13";
    for flow in [
        "udp,tp_dst=53,actions=output:1",
        "priority=1,actions=output:2",
    ] {
        switch.ok(version, &["add-flow"], &[flow]);
    }
    // The first fragment of a datagram to port 53, and a later one.
    let header = |flags: &str| {
        format!("02000000000202000000000108004500001c0007{flags}401100000a0000010a000002")
    };
    let first = header("2000") + "03e8003500080000";
    let later = header("0001") + "0035003500000000";
    let expect = |version: &str, mode: &str, expected: [[u64; 2]; 2]| {
        let told = switch.ok(version, &["get-frags"], &[]);
        assert_eq!(told.trim(), mode);
        for (packet, expected) in [&first, &later].into_iter().zip(expected) {
            let ports = ["1", "2"];
            let before = ports.map(|port| switch.packets_sent_by(port));
            let out = format!("in_port=LOCAL,packet={packet},actions=resubmit(,0)");
            switch.ok("OpenFlow13", &["packet-out"], &[&out]);
            let after = ports.map(|port| switch.packets_sent_by(port));
            let sent = [after[0] - before[0], after[1] - before[1]];
            assert_eq!(sent, expected, "{mode}, {packet}");
        }
    };
    expect(version, "normal", [[0, 1], [0, 1]]);
    for version in VERSIONS {
        for (mode, expected) in [
            ("nx-match", [[1, 0], [0, 1]]),
            ("drop", [[0, 0], [0, 0]]),
            ("normal", [[0, 1], [0, 1]]),
        ] {
            switch.ok(version, &["set-frags"], &[mode]);
            expect(version, mode, expected);
        }
        let (is_done, told) = switch.ask(version, &["set-frags"], &["reassemble"]);
        assert!(!is_done, "{told}");
        expect(version, "normal", [[0, 1], [0, 1]]);
    }
    switch.stop();
}

#[test]
fn what_the_switch_cannot_do_has_the_standards_error() {
    let switch = Switch::start("");
    let cases = [
        ("dp_hash=1,actions=output:1", "OFPBRC_EPERM"),
        (
            "icmp6,icmp_type=135,icmp_code=0,nd_reserved=1,actions=output:1",
            "OFPBMC_BAD_FIELD",
        ),
        ("actions=meter:1,output:1", "OFPMMFC_INVALID_METER"),
        ("actions=group:5", "OFPBAC_BAD_OUT_GROUP"),
        ("table=254,actions=output:1", "OFPBRC_EPERM"),
    ];
    for (flow, expected) in cases {
        assert_eq!(
            switch.error("OpenFlow13", &["add-flow"], &[flow]),
            expected,
            "{flow}"
        );
    }
    switch.ok(
        "OpenFlow13",
        &["add-flow"],
        &["priority=5,ip,actions=output:1"],
    );
    let overlap = "check_overlap,priority=5,ip,nw_dst=10.0.0.1,actions=output:1";
    assert_eq!(
        switch.error("OpenFlow13", &["add-flow"], &[overlap]),
        "OFPFMFC_OVERLAP"
    );
    assert_eq!(switch.flows("OpenFlow13").len(), 1);
    switch.stop();
}

#[test]
fn controllers_hear_of_packets_rules_and_ports() {
    let switch = Switch::start("");
    for version in VERSIONS {
        switch.ok("OpenFlow13", &["del-flows"], &[]);
        let monitor = Monitor::start(&switch, version);
        let add = |flow: &str| switch.ok("OpenFlow13", &["add-flow"], &[flow]);
        add("cookie=0x9,priority=3,udp,actions=load:5->NXM_NX_REG3[],controller(userdata=0a.0b)");
        // A register is told if some rule reads it.
        add("table=1,reg3=5,actions=drop");
        let out = format!("in_port=1,packet={PACKET},actions=resubmit(,0)");
        switch.ok("OpenFlow13", &["packet-out"], &[&out]);
        let told = monitor.wait_for("PACKET_IN");
        assert!(
            told.contains("in_port=1 (via action) data_len=59"),
            "{version}: {told}"
        );
        assert!(told.contains("cookie=0x9"), "{version}: {told}");
        assert!(told.contains("reg3=0x5"), "{version}: {told}");
        assert!(told.contains("userdata=0a.0b"), "{version}: {told}");
        let dump = switch.ok("OpenFlow13", &["dump-flows"], &[]);
        assert!(dump.contains("n_packets=1, n_bytes=59"), "{dump}");
        switch.ok("OpenFlow13", &["mod-flows"], &["udp,actions=output:2"]);
        switch.ok("OpenFlow13", &["del-flows"], &["udp"]);
        let told = monitor.wait_for("reason=delete");
        for event in ["event=ADDED", "event=MODIFIED"] {
            assert!(told.contains(event), "{version}: no {event} in {told}");
        }
        switch.ok("OpenFlow10", &["mod-port"], &["1", "no-flood"]);
        monitor.wait_for("OFPT_PORT_STATUS");
        switch.ok("OpenFlow10", &["mod-port"], &["1", "flood"]);
    }
    switch.stop();
}

/// Programs of Open vSwitch's own test of continuations (`ofproto-dpif.at`), and others that it
/// cannot resume; each sends one packet to each of the ports from 2 to this one.
const PAUSED: [(u32, &str); 9] = [
    (2, "actions=2,pause"),
    (
        7,
        "in_port=1,actions=pause,2,pause,3,pause,4,pause,5,pause,6,pause,7",
    ),
    (
        10,
        "table=0,in_port=1,actions=pause,2,pause,resubmit(,1),pause,10,pause
         table=1,in_port=1,actions=pause,3,pause,resubmit(,2),pause,9,pause
         table=2,in_port=1,actions=pause,4,pause,resubmit(,3),pause,8,pause
         table=3,in_port=1,actions=pause,5,pause,resubmit:55,pause,7,pause
         table=3,in_port=55,actions=pause,6,pause",
    ),
    (
        3,
        "in_port=1,actions=1,pause,resubmit(,1),pause,2
         table=1,actions=write_actions(3)",
    ),
    (
        6,
        "table=0,in_port=1,actions=pause,2,pause,goto_table:1
         table=1,in_port=1,actions=pause,3,pause,goto_table:2
         table=2,in_port=1,actions=pause,4,pause,goto_table:3
         table=3,in_port=1,actions=pause,5,pause,goto_table:4
         table=4,in_port=1,actions=pause,6,pause",
    ),
    (
        6,
        "table=0,in_port=1,actions=pause,2,pause,write_metadata:1/1,goto_table:1
         table=1,in_port=1,metadata=1,actions=pause,3,pause,write_metadata:2/2,goto_table:2
         table=2,in_port=1,metadata=3,actions=pause,4,pause,write_metadata:4/4,goto_table:3
         table=3,in_port=1,metadata=7,actions=pause,5,pause,write_metadata:8/8,goto_table:4
         table=4,in_port=1,metadata=15,actions=pause,6,pause",
    ),
    (
        3,
        "in_port=1,actions=pause,set_field:1->reg0,pause,set_field:2->reg1,pause,\
         output:NXM_NX_REG0[],pause,push:NXM_NX_REG1[],pop:NXM_NX_REG2[],pause,\
         output:NXM_NX_REG2[],pause,3",
    ),
    // Open vSwitch cannot read its own bytes of these instructions.
    (
        4,
        "in_port=1,actions=write_actions(2),goto_table:1
         table=1,actions=pause,3,pause,clear_actions,write_actions(output:4),goto_table:2
         table=2,actions=pause,2,pause",
    ),
    // A copy that pauses goes on by itself.
    (
        3,
        "in_port=1,actions=set_field:1->reg1,clone(set_field:5->reg1,pause,resubmit(,1)),\
         resubmit(,1)
         table=1,reg1=5,actions=2
         table=1,reg1=1,actions=3",
    ),
];

#[test]
fn paused_packets_go_on_where_they_stopped() {
    let switch = Switch::with_ports(10, "");
    let mut expected = vec![0; 9];
    for version in VERSIONS {
        let monitor = Monitor::resuming(&switch, version);
        let mut resumed = 0;
        for (ports, program) in PAUSED {
            // Without its first pause, without its second, and so on.
            let mut program: String = program.replace("\n         ", "\n");
            loop {
                let pauses = program.matches("pause").count();
                let rules = switch.write("rules", &program.replace("pause", "controller(pause)"));
                switch.ok("OpenFlow13", &["del-flows"], &[]);
                switch.ok("OpenFlow13", &["add-flows"], &[&rules]);
                let out = format!("in_port=1,packet={PACKET},actions=resubmit(,0)");
                switch.ok("OpenFlow13", &["packet-out"], &[&out]);
                resumed += pauses;
                let told = monitor.wait_for_count("send: NXT_RESUME", resumed);
                assert!(!told.contains("OFPT_ERROR"), "{version} {program}: {told}");
                (0..ports as usize - 1).for_each(|port| expected[port] += 1);
                switch.wait_for(&expected, &format!("{version} {program}"));
                // The other versions differ in the bytes only.
                if pauses == 0 || version != "OpenFlow13" {
                    break;
                }
                program = without_first_pause(&program);
            }
        }
    }
    switch.stop();
}

fn without_first_pause(program: &str) -> String {
    let fewer = program.replacen("pause,", "", 1);
    match fewer == program {
        true => program.replacen(",pause", "", 1),
        false => fewer,
    }
}

#[test]
fn a_paused_packet_says_what_it_has_and_what_is_left() {
    let switch = Switch::start("");
    let monitor = Monitor::resuming(&switch, "OpenFlow13");
    let rules = "cookie=0x11,actions=push:NXM_OF_IN_PORT[],set_field:5->metadata,goto_table:1\n\
                 table=1,cookie=0x22,actions=write_actions(output:2),goto_table:2\n\
                 table=2,cookie=0x33,metadata=5,\
                 actions=set_field:7->in_port,controller(pause,userdata=01.02,max_len=20),\
                 note:01.02.03.04.05.06,write_metadata:9,goto_table:3\n\
                 table=3,metadata=9,in_port=7,actions=output:2\n";
    let rules = switch.write("rules", rules);
    switch.ok("OpenFlow13", &["add-flows"], &[&rules]);
    let out = format!("in_port=1,packet={PACKET},actions=resubmit(,0)");
    switch.ok("OpenFlow13", &["packet-out"], &[&out]);
    let told = monitor.wait_for("send: NXT_RESUME");
    for text in [
        "table_id=2 cookie=0x33 total_len=59 metadata=0x5,in_port=7 (via action) data_len=59",
        " userdata=01.02\n",
        " continuation.stack=(top) 0x1 (bottom)\n",
        "unroll_xlate(table=2, cookie=51),note:01.02.03.04.05.06,set_field:0x9->metadata,\
         resubmit(,3),unroll_xlate(table=0, cookie=18446744073709551615)\n",
        " continuation.action_set=output:2\n",
    ] {
        assert!(told.contains(text), "no {text} in {told}");
    }
    // By table 3 and by the action set.
    switch.wait_for(&[2], "the packet goes on");
    switch.stop();
}

#[test]
fn packets_without_a_rule_go_where_the_version_or_the_table_says() {
    let switch = Switch::start("");
    let out = |from: u8| {
        let out = format!("in_port={from},packet={PACKET},actions=TABLE");
        switch.ok("OpenFlow13", &["packet-out"], &[&out]);
    };
    let new = Monitor::start(&switch, "OpenFlow13");
    out(1);
    let old = Monitor::start(&switch, "OpenFlow10");
    out(2);
    let told = old.wait_for("PACKET_IN");
    assert!(told.contains("in_port=2 (via no_match)"), "{told}");
    assert!(!told.contains("in_port=1"), "{told}");
    // A resubmit that finds no rule sends no packet.
    let resubmit = format!("in_port=3,packet={PACKET},actions=resubmit(,7)");
    switch.ok("OpenFlow13", &["packet-out"], &[&resubmit]);
    switch.ok("OpenFlow13", &["add-flow"], &["actions=goto_table:5"]);
    out(4);
    let told = old.wait_for("in_port=4");
    assert!(!told.contains("in_port=3"), "{told}");

    let table = |version, table, what| switch.ok(version, &["mod-table"], &[table, what]);
    table("OpenFlow11", "all", "continue");
    switch.ok("OpenFlow13", &["add-flow"], &["table=9,actions=output:2"]);
    out(1);
    let dump = || switch.ok("OpenFlow13", &["dump-flows"], &[]);
    assert!(dump().contains("table=9, n_packets=1,"), "{}", dump());
    table("OpenFlow12", "7", "drop");
    out(5);
    assert!(dump().contains("table=9, n_packets=1,"), "{}", dump());
    table("OpenFlow12", "7", "controller");
    out(6);
    let told = old.wait_for("in_port=6");
    assert!(!told.contains("in_port=5"), "{told}");
    let told = new.wait_for("FLOW_MONITOR");
    assert!(!told.contains("PACKET_IN"), "{told}");
    switch.stop();
}

#[test]
fn the_hidden_table_counts_what_no_rule_took() {
    let switch = Switch::start("");
    let out = |from: u8, packet: &str| {
        let out = format!("in_port={from},packet={packet},actions=TABLE");
        switch.ok("OpenFlow13", &["packet-out"], &[&out]);
    };
    let hidden = |version: &str, filter: &str| {
        let told = switch.ok(version, &["dump-flows"], &[&format!("table=254{filter}")]);
        let entries = told.lines().filter(|line| line.contains("table=254"));
        let entries = entries.map(|line| {
            let (_, counts) = line.split_once("n_packets=").expect("it is counted");
            let (count, _) = counts.split_once(',').expect("bytes follow");
            let (_, entry) = line.split_once(" priority=").expect("it has one");
            format!("{count}: {entry}")
        });
        entries.collect::<Vec<_>>()
    };
    out(1, PACKET);
    switch.ok("OpenFlow13", &["set-frags"], &["drop"]);
    out(1, &format!("{}2000{}", &PACKET[..40], &PACKET[44..]));
    switch.ok("OpenFlow13", &["set-frags"], &["normal"]);
    switch.ok("OpenFlow11", &["mod-table"], &["0", "controller"]);
    out(2, PACKET);
    out(3, PACKET);
    // As Open vSwitch shows them.
    let expected = [
        "0: 2,recirc_id=0 actions=drop",
        "2: 0,reg0=0x1 actions=controller(reason=)",
        "1: 0,reg0=0x2 actions=drop",
        "1: 0,reg0=0x3 actions=drop",
    ];
    for version in VERSIONS {
        assert_eq!(hidden(version, ""), expected, "{version}");
        // OpenFlow 1.1 has no word for a register.
        if version != "OpenFlow11" {
            assert_eq!(hidden(version, ",reg0=2"), expected[2..3], "{version}");
        }
        assert_eq!(
            hidden(version, ",out_port=CONTROLLER"),
            expected[1..2],
            "{version}"
        );
        let sums = switch.ok(version, &["dump-aggregate"], &["table=254"]);
        assert!(sums.contains("packet_count=4"), "{version}: {sums}");
        assert!(sums.contains("flow_count=4"), "{version}: {sums}");
        assert!(switch.flows(version).is_empty(), "{version}");
        let refused = switch.error(version, &["del-flows"], &["table=254"]);
        assert_eq!(refused, "OFPBRC_EPERM", "{version}");
    }
    switch.stop();
}

#[test]
fn a_switch_that_stands_alone_forwards_until_a_controller_is_back() {
    let switch = Switch::start("fail_mode = \"standalone\"");
    assert_eq!(switch.flows("OpenFlow13"), ["priority=0 actions=NORMAL"]);
    switch.ok("OpenFlow13", &["del-flows"], &[]);
    assert_eq!(switch.flows("OpenFlow13"), [""; 0]);
    switch.stop();

    // The controller's address exists, and no program answers there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let switch = Switch::start(&format!(
        "fail_mode = \"standalone\"\nlisten = [\"punix:br0.mgmt\"]\n\
         controllers = [\"tcp:{address}\"]\nprobe_interval_us = 100_000\n\
         max_backoff_us = 1_000_000"
    ));
    switch.ok("OpenFlow13", &["add-flow"], &["priority=7,actions=drop"]);
    let own = "cookie=0x7468616c77656700, priority=0 actions=NORMAL";
    let theirs = "priority=7 actions=drop";
    switch.wait_for_flows(&[own, theirs]);
    let listener = std::net::TcpListener::bind(address).expect("the address is free again");
    let (mut controller, _) = listener.accept().expect("the switch connects");
    // A hello of OpenFlow 1.3, and nothing more.
    let hello = [4, 0, 0, 8, 0, 0, 0, 1];
    std::io::Write::write_all(&mut controller, &hello).expect("the switch reads");
    switch.wait_for_flows(&[theirs]);
    drop((controller, listener));
    switch.wait_for_flows(&[own, theirs]);
    switch.stop();
}

#[test]
fn a_rule_that_ends_is_reported_with_its_counts() {
    let switch = Switch::start("");
    let monitor = Monitor::start(&switch, "OpenFlow13");
    switch.ok(
        "OpenFlow13",
        &["add-flow"],
        &["cookie=0x77,send_flow_rem,hard_timeout=1,udp,actions=output:2"],
    );
    let out = format!("in_port=1,packet={PACKET},actions=resubmit(,0)");
    switch.ok("OpenFlow13", &["packet-out"], &[&out]);
    let told = monitor.wait_for("OFPT_FLOW_REMOVED");
    assert!(
        told.contains("reason=hard") && told.contains("cookie:0x77"),
        "{told}"
    );
    assert!(told.contains("pkts1 bytes59"), "{told}");
    switch.ok(
        "OpenFlow13",
        &["add-group"],
        &["group_id=5,type=all,bucket=output:1"],
    );
    let flow = "cookie=0x78,send_flow_rem,tcp,actions=group:5";
    switch.ok("OpenFlow13", &["add-flow"], &[flow]);
    switch.ok("OpenFlow13", &["del-groups"], &["group_id=5"]);
    let told = monitor.wait_for("reason=group_delete");
    assert!(told.contains("cookie:0x78"), "{told}");
    switch.stop();
}

#[test]
fn a_socket_is_its_owners_and_only_named_versions_are_spoken() {
    use std::os::unix::fs::PermissionsExt;
    let switch = Switch::start("protocols = [\"OpenFlow13\"]\ndatapath_id = \"00000000000000ab\"");
    let socket = switch.folder.path().join("br0.mgmt");
    let mode = std::fs::metadata(&socket)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let (is_done, text) = switch.ask("OpenFlow10", &["show"], &[]);
    assert!(
        !is_done && text.contains("version negotiation failed"),
        "{text}"
    );
    assert!(
        switch
            .ok("OpenFlow13", &["show"], &[])
            .contains("dpid:00000000000000ab")
    );
    let path = socket.clone();
    switch.stop();
    assert!(!path.exists());
}
