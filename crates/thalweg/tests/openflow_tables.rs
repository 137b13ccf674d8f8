//! Limits, eviction, vacancy and names of tables, by `ovs-ofctl` on `thalweg run`. Needs Open
//! vSwitch's programs, no privileges. Rules and answers are those of Open vSwitch's own tests
//! (`tests/ofproto.at`).

mod ofctl;
mod program;

use ofctl::{Monitor, Switch, VERSIONS, lines};

/// A table 0 of four rules.
const FOUR: &str = "[[openflow.tables]]\nid = 0\nname = \"main\"\nlimit = 4\n";

fn evicting() -> Switch {
    Switch::start(&format!("{FOUR}overflow = \"evict\""))
}

#[test]
fn a_full_table_refuses_rules() {
    let switch = Switch::start(FOUR);
    for version in VERSIONS {
        switch.ok("OpenFlow13", &["del-flows"], &[]);
        let add = |flow: &str| switch.ask(version, &["add-flow"], &[flow]);
        for port in 1..=4 {
            let flow = format!("idle_timeout=10,in_port={port},actions=drop");
            assert!(add(&flow).0, "{version}");
        }
        let before = switch.flows(version);
        let error = switch.error(version, &["add-flow"], &["in_port=5,actions=drop"]);
        assert_eq!(error, "OFPFMFC_TABLE_FULL", "{version}");
        // What takes another's place needs no room, and other tables have no limit.
        assert!(add("in_port=4,actions=output:2").0);
        assert!(add("in_port=4,idle_timeout=10,actions=drop").0);
        assert!(add("table=1,in_port=4,actions=drop").0 || version == "OpenFlow10");
        switch.ok("OpenFlow13", &["del-flows"], &["table=1"]);
        assert_eq!(switch.flows(version), before, "{version}");
        let tables = switch.ok(version, &["dump-tables"], &[]);
        assert!(tables.contains("active=4"), "{version}: {tables}");
        let is_told = tables.contains("max_entries=4") && tables.contains("(\"main\")");
        let is_old = version < "OpenFlow13";
        assert_eq!(is_told, is_old, "{version}: {tables}");
    }
    let (is_done, error) = switch.ask("OpenFlow10", &["mod-flows"], &["in_port=9,actions=drop"]);
    assert!(!is_done && error.contains("OFPFMFC_TABLE_FULL"), "{error}");
    switch.stop();
}

#[test]
fn a_full_table_that_evicts_ends_the_rule_that_ends_first() {
    let switch = evicting();
    for version in VERSIONS {
        switch.ok("OpenFlow13", &["del-flows"], &[]);
        let add = |flow: &str| switch.ok(version, &["add-flow"], &[flow]);
        for port in [4, 3, 2, 1] {
            add(&format!("idle_timeout={port}0,in_port={port},actions=drop"));
        }
        add("in_port=5,actions=drop");
        add("in_port=6,actions=drop");
        add("in_port=4,actions=NORMAL");
        switch.ok(version, &["mod-flows"], &["in_port=3,actions=output:1"]);
        assert_eq!(
            switch.flows(version),
            [
                "idle_timeout=30, in_port=3 actions=output:1",
                "in_port=4 actions=NORMAL",
                "in_port=5 actions=drop",
                "in_port=6 actions=drop",
            ],
            "{version}"
        );
        add("in_port=7,actions=NORMAL");
        // Rules without a timeout stay.
        let error = switch.error(version, &["add-flow"], &["in_port=8,actions=drop"]);
        assert_eq!(error, "OFPFMFC_TABLE_FULL", "{version}");
        assert_eq!(switch.flows(version).len(), 4);
    }
    switch.stop();
}

#[test]
fn a_controller_turns_eviction_by_importance_on_and_off() {
    let switch = Switch::start(FOUR);
    for version in ["OpenFlow14", "OpenFlow15"] {
        switch.ok(version, &["del-flows"], &[]);
        switch.ok(version, &["mod-table"], &["0", "evict"]);
        let add = |flow: &str| switch.ok(version, &["add-flow"], &[flow]);
        for number in [4, 3, 2, 1] {
            let (importance, priority, timeout) = (number + 30, number + 5, 510 - number);
            add(&format!(
                "importance={importance},priority={priority},hard_timeout={timeout},actions=drop"
            ));
        }
        let monitor = Monitor::start(&switch, version);
        add("send_flow_rem,cookie=0x5,hard_timeout=505,importance=20,priority=10,actions=drop");
        let told = monitor.wait_for("event=DELETED reason=eviction");
        assert!(!told.contains("OFPT_FLOW_REMOVED"), "{told}");
        add("hard_timeout=505,importance=35,priority=11,in_port=2,actions=drop");
        let told = monitor.wait_for("OFPT_FLOW_REMOVED");
        let is_such = told.contains("reason=eviction") && told.contains("cookie:0x5");
        assert!(is_such, "{told}");
        let expected = [
            "hard_timeout=505, importance=35, priority=11,in_port=2 actions=drop",
            "hard_timeout=506, importance=34, priority=9 actions=drop",
            "hard_timeout=507, importance=33, priority=8 actions=drop",
            "hard_timeout=508, importance=32, priority=7 actions=drop",
        ];
        assert_eq!(switch.flows(version), expected);
        switch.ok(version, &["mod-table"], &["0", "noevict"]);
        let flow = "hard_timeout=506,importance=36,priority=12,actions=drop";
        let error = switch.error(version, &["add-flow"], &[flow]);
        assert_eq!(error, "OFPFMFC_TABLE_FULL");
        assert_eq!(switch.flows(version), expected);
    }
    switch.stop();
}

#[test]
fn the_largest_group_loses_a_rule() {
    let groups = "overflow = \"evict\"\ngroups = [\"NXM_OF_IN_PORT[]\"]";
    let switch = Switch::start(&format!("{FOUR}{groups}"));
    let rules = "\
idle_timeout=10 in_port=2 dl_src=00:44:55:66:77:88 actions=drop
idle_timeout=20 in_port=1 dl_src=00:11:22:33:44:55 actions=drop
idle_timeout=30 in_port=1 dl_src=00:22:33:44:55:66 actions=drop
idle_timeout=40 in_port=1 dl_src=00:33:44:55:66:77 actions=drop
";
    let file = switch.write("rules", rules);
    for version in VERSIONS {
        switch.ok("OpenFlow13", &["del-flows"], &[]);
        switch.ok(version, &["add-flows"], &[&file]);
        let flow = "in_port=2,dl_src=00:55:66:77:88:99,actions=drop";
        switch.ok(version, &["add-flow"], &[flow]);
        assert_eq!(
            switch.flows(version),
            [
                "idle_timeout=10, in_port=2,dl_src=00:44:55:66:77:88 actions=drop",
                "idle_timeout=30, in_port=1,dl_src=00:22:33:44:55:66 actions=drop",
                "idle_timeout=40, in_port=1,dl_src=00:33:44:55:66:77 actions=drop",
                "in_port=2,dl_src=00:55:66:77:88:99 actions=drop",
            ],
            "{version}"
        );
    }
    switch.stop();
}

#[test]
fn a_bundle_that_overflows_a_table_changes_nothing() {
    let switch = evicting();
    for version in ["OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        switch.ok(version, &["del-flows"], &[]);
        for port in 1..=4 {
            let flow = format!("idle_timeout={port}0,in_port={port},actions=drop");
            switch.ok(version, &["add-flow"], &[&flow]);
        }
        let before = switch.flows(version);
        let rules = |count: u32| -> String {
            let flow = |number| format!("flow add in_port={number},actions=drop\n");
            (11..11 + count).map(flow).collect()
        };
        let bad = switch.write("bad", &rules(5));
        let (is_done, text) = switch.ask(version, &["bundle"], &[&bad]);
        assert!(
            !is_done && text.contains("OFPFMFC_TABLE_FULL") && text.contains("OFPBFC_MSG_FAILED"),
            "{text}"
        );
        assert_eq!(switch.flows(version), before);
        let good = switch.write("good", &rules(3));
        switch.ok(version, &["bundle"], &[&good]);
        let after = switch.flows(version);
        assert_eq!(after.len(), 4, "{after:?}");
        assert!(after[0].starts_with("idle_timeout=40"), "{after:?}");
    }
    switch.stop();
}

#[test]
fn a_table_tells_that_its_room_is_short_or_back() {
    let switch = Switch::start("[[openflow.tables]]\nid = 1\nlimit = 10\n");
    let version = "OpenFlow14";
    let table = |number: usize| {
        let told = switch.ok(version, &["dump-table-desc"], &[]);
        let mut entries = told.split("\n\n").skip(number);
        let entry = entries.next().expect("254 tables");
        entry
            .trim()
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let off = "eviction=off eviction_flags=OTHER|IMPORTANCE|LIFETIME\nvacancy=off";
    assert!(table(0).ends_with(off), "{}", table(0));
    switch.ok(version, &["mod-table"], &["0", "evict"]);
    switch.ok(version, &["mod-table"], &["0", "vacancy:20,80"]);
    let on = "eviction=on eviction_flags=OTHER|IMPORTANCE|LIFETIME\n\
              vacancy=on vacancy_down=20% vacancy_up=80% vacancy=100%";
    assert!(table(0).ends_with(on), "{}", table(0));

    let monitor = Monitor::start(&switch, version);
    // Table-status messages for both reasons.
    monitor.send("051c0010000000020009000800000018");
    switch.ok(version, &["mod-table"], &["1", "vacancy:20,80"]);
    let add = |number: u32| {
        let flow = format!("table=1,in_port={number},actions=drop");
        switch.ok(version, &["add-flow"], &[&flow]);
    };
    let status = |reason: &str, vacancy: u8| {
        format!(
            "OFPT_TABLE_STATUS (OF1.4) (xid=0x0): reason={reason}\n\
             table_desc:-\n  table 1:\n   \
             eviction=off eviction_flags=OTHER|IMPORTANCE|LIFETIME\n   \
             vacancy=on vacancy_down=20% vacancy_up=80% vacancy={vacancy}%"
        )
    };
    (1..=10).for_each(add);
    let told = monitor.wait_for(&status("VACANCY_DOWN", 10));
    assert_eq!(told.matches("OFPT_TABLE_STATUS").count(), 1, "{told}");
    for number in 1..=10 {
        switch.ok(
            version,
            &["del-flows"],
            &[&format!("table=1,in_port={number}")],
        );
    }
    let told = monitor.wait_for(&status("VACANCY_UP", 90));
    assert_eq!(told.matches("OFPT_TABLE_STATUS").count(), 2, "{told}");
    // Rules that come at once, and go because their time is over.
    let rules: String = (1..=10)
        .map(|number| format!("table=1,hard_timeout=1,in_port={number},actions=drop\n"))
        .collect();
    let file = switch.write("rules", &rules);
    switch.ok(version, &["--bundle", "add-flows"], &[&file]);
    monitor.wait_for(&status("VACANCY_DOWN", 0));
    monitor.wait_for(&status("VACANCY_UP", 100));
    switch.ok(version, &["mod-table"], &["1", "novacancy"]);
    assert!(table(1).ends_with(off), "{}", table(1));
    let error = switch.error(version, &["mod-table"], &["254", "evict"]);
    assert_eq!(error, "OFPTMFC_EPERM");
    switch.stop();
}

#[test]
fn controllers_name_tables_that_the_configuration_does_not() {
    let switch = Switch::start(FOUR);
    switch.ok("OpenFlow13", &["add-flow"], &["table=2,actions=drop"]);
    switch.ok("OpenFlow13", &["add-flow"], &["table=0,actions=drop"]);
    let flows =
        |version: &str| lines(&switch.ok(version, &["--names", "--no-stats", "dump-flows"], &[]));
    for version in ["OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let name = format!("acl{version}");
        switch.ok(version, &["mod-table"], &["2", &format!("name:{name}")]);
        assert_eq!(
            flows(version),
            [
                format!("table={name}, actions=drop"),
                "table=main, actions=drop".to_owned()
            ]
        );
        let error = switch.error(version, &["mod-table"], &["0", "name:other"]);
        assert_eq!(error, "OFPTFFC_EPERM", "{version}");
        let tables = switch.ok(version, &["dump-table-features"], &[]);
        assert!(
            tables.contains(&format!("table 2 (\"{name}\")")),
            "{tables}"
        );
    }
    switch.ok("OpenFlow13", &["mod-table"], &["2", "name:"]);
    assert_eq!(flows("OpenFlow13")[0], "table=2, actions=drop");
    switch.stop();
}
