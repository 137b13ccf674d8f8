//! Statistics of queues, ports and meters, by `ovs-ofctl` on `thalweg run`. Needs Open
//! vSwitch's programs, no privileges. The expected answers are those of `ovs-vswitchd` 3.1 for
//! ports that have no queues.

mod ofctl;
mod program;

use ofctl::{Switch, VERSIONS};

/// What a command prints, without the transaction's number.
fn told(switch: &Switch, version: &str, command: &str, arguments: &[&str]) -> String {
    let (_, text) = switch.ask(version, &[command], arguments);
    let lines = text.lines().map(|line| match line.split_once(" (xid=") {
        Some((start, end)) => match end.split_once(')') {
            Some((_, end)) => format!("{start}{end}"),
            None => line.to_owned(),
        },
        None => line.to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// How `ovs-ofctl` marks a message of a version.
fn mark(version: &str) -> &'static str {
    match version {
        "OpenFlow10" => "",
        "OpenFlow11" => " (OF1.1)",
        "OpenFlow12" => " (OF1.2)",
        "OpenFlow13" => " (OF1.3)",
        "OpenFlow14" => " (OF1.4)",
        _ => " (OF1.5)",
    }
}

#[test]
fn ports_have_no_queues() {
    let switch = Switch::start("");
    for version in VERSIONS {
        let of = mark(version);
        let none = format!("OFPST_QUEUE reply{of}: 0 queues");
        let bad_queue = format!("OFPT_ERROR{of}: OFPQOFC_BAD_QUEUE");
        let bad_port = format!("OFPT_ERROR{of}: OFPQOFC_BAD_PORT");
        let begins = |arguments: &[&str], expected: &str| {
            let told = told(&switch, version, "queue-stats", arguments);
            assert!(
                told.starts_with(expected),
                "{version} {arguments:?}: {told}"
            );
        };
        begins(&[], &none);
        begins(&["1"], &none);
        begins(&["1", "2"], &bad_queue);
        begins(&["ANY", "3"], &bad_queue);
        begins(&["9"], &bad_port);
        let begins = |arguments: &[&str], expected: &str| {
            let told = told(&switch, version, "queue-get-config", arguments);
            assert!(
                told.starts_with(expected),
                "{version} {arguments:?}: {told}"
            );
        };
        let none = match version {
            "OpenFlow14" | "OpenFlow15" => format!("OFPST_QUEUE_DESC reply{of}:"),
            _ => format!("OFPT_QUEUE_GET_CONFIG_REPLY{of}:"),
        };
        begins(&["1"], &none);
        begins(&["9"], &bad_port);
        if version >= "OpenFlow14" {
            begins(&["1", "2"], &bad_queue);
            begins(&["ANY", "2"], &bad_queue);
        }
    }
    switch.stop();
}

#[test]
fn a_port_that_is_not_there_is_left_out() {
    let switch = Switch::start("");
    for version in VERSIONS {
        let of = mark(version);
        let stats = told(&switch, version, "dump-ports", &["9"]);
        assert_eq!(stats, format!("OFPST_PORT reply{of}: 0 ports"), "{version}");
        let ports = told(&switch, version, "dump-ports-desc", &[]);
        let live = ports.matches("state:      LIVE").count();
        assert_eq!(live, if version == "OpenFlow10" { 0 } else { 2 }, "{ports}");
    }
    let ports = told(&switch, "OpenFlow15", "dump-ports-desc", &["9"]);
    assert_eq!(ports, "OFPST_PORT_DESC reply (OF1.5):");
    let ports = told(&switch, "OpenFlow15", "dump-ports-desc", &["2"]);
    assert!(
        ports.contains(" 2(p2): addr:") && !ports.contains("p1"),
        "{ports}"
    );
    switch.ok("OpenFlow15", &["mod-port"], &["2", "down"]);
    let ports = told(&switch, "OpenFlow15", "dump-ports-desc", &["2"]);
    assert!(
        ports.contains("PORT_DOWN") && !ports.contains("LIVE"),
        "{ports}"
    );
    switch.stop();
}

#[test]
fn stored_meters_are_told() {
    let switch = Switch::start("");
    for version in ["OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let of = mark(version);
        let ask = |command: &str, arguments: &[&str]| told(&switch, version, command, arguments);
        let features = ask("meter-features", &[]);
        let bands = "band_types: drop dscp_remark\ncapabilities: kbps pktps burst stats";
        assert!(features.contains("max_bands:8 max_color:0"), "{features}");
        assert!(features.contains(bands), "{features}");
        let unknown = format!("OFPT_ERROR{of}: OFPMMFC_UNKNOWN_METER");
        for command in ["dump-meter", "meter-stats"] {
            let told = ask(command, &["meter=1"]);
            assert!(told.starts_with(&unknown), "{told}");
        }
        let meter = "meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=7";
        switch.ok(version, &["add-meter"], &[meter]);
        let slow = "meter=slowpath,pktps,bands=type=dscp_remark,rate=5,prec_level=1";
        let error = switch.error(version, &["add-meter"], &[slow]);
        assert_eq!(error, "OFPMMFC_BAD_BAND");
        let second =
            "meter=2,pktps,stats,bands=type=drop,rate=10,type=dscp_remark,rate=5,prec_level=1";
        switch.ok(version, &["add-meter"], &[second]);
        let error = switch.error(version, &["add-meter"], &[meter]);
        assert_eq!(error, "OFPMMFC_METER_EXISTS");
        let error = switch.error(
            version,
            &["mod-meter"],
            &["meter=9,kbps,band=type=drop,rate=1"],
        );
        assert_eq!(error, "OFPMMFC_UNKNOWN_METER");
        let meters = ask("dump-meters", &[]);
        let first = "meter=1 kbps burst bands=\ntype=drop rate=1000 burst_size=7";
        assert!(meters.contains(first), "{meters}");
        let second =
            "meter=2 pktps stats bands=\ntype=drop rate=10\ntype=dscp_remark rate=5 prec_level=1";
        assert!(meters.contains(second), "{meters}");
        let one = ask("dump-meter", &["meter=1"]);
        assert_eq!(one, format!("OFPST_METER_CONFIG reply{of}:\n{first}"));
        let stats = ask("meter-stats", &["meter=2"]);
        let counts = "meter:2 flow_count:0 packet_in_count:0 byte_in_count:0 duration:";
        assert!(stats.contains(counts), "{stats}");
        assert!(stats.contains("1: packet_count:0 byte_count:0"), "{stats}");
        switch.ok(version, &["del-meters"], &[]);
        assert_eq!(
            ask("dump-meters", &[]),
            format!("OFPST_METER_CONFIG reply{of}:")
        );
    }
    switch.stop();
}

#[test]
fn descriptions_of_many_ports_come_in_pieces() {
    // More than one message of any version can hold.
    let switch = Switch::with_ports(1_500, "");
    for version in VERSIONS {
        for command in ["show", "dump-ports-desc"] {
            let told = switch.ok(version, &[command], &[]);
            for port in 1..=1_500 {
                let described = format!(" {port}(p{port}): addr:");
                assert!(
                    told.contains(&described),
                    "{version}, {command}: {described}"
                );
            }
        }
        let told = switch.ok(version, &["dump-ports"], &[]);
        assert_eq!(told.matches("rx pkts=").count(), 1_500, "{version}");
    }
    switch.stop();
}
