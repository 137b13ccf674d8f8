//! Tests of the configuration: what is read, and what is said about what is not.

use std::path::{Path, PathBuf};

use super::*;

const EVERYTHING: &str = r#"
[switch]
name = "br0"
workers = 2
rules = ["acl.rules", "/srv/nat.rules"]
groups = ["all.groups"]
maintainer = "revalidate"
mode = "megaflows"
seed = 7
end_when_finished = true
[cache.microflow]
entries = 1024
admit_one_in = 1
[cache.megaflow]
entries = 5000
bytes = 1000000
masks = 64
classifier = "auto"
[limits]
rules = 10
groups = 11
stations = 12
packets_per_worker = 1300
packet_bytes = 1400
[[port]]
number = 1
name = "p1"
kind = "af_packet"
interface = "veth1"
[[port]]
number = 2
kind = "tap"
mtu_bytes = 1400
[[port]]
number = 3
kind = "pcap"
read = "in.pcap"
write = "out.pcap"
"#;

const PORT: &str = "[[port]]\nnumber = 1\n";

fn parse(text: &str) -> Result<Configuration> {
    Configuration::parse("br0.toml", Path::new("etc"), text)
}

fn error(text: &str) -> String {
    parse(text).expect_err("it is wrong").to_string()
}

#[test]
fn everything_can_be_said() {
    let config = parse(EVERYTHING).expect("it is right");
    assert_eq!(
        (config.name.as_str(), config.ends_when_finished),
        ("br0", true)
    );
    let rules = [
        PathBuf::from("etc/acl.rules"),
        PathBuf::from("/srv/nat.rules"),
    ];
    assert_eq!(config.rules, rules);
    assert_eq!(config.groups, [PathBuf::from("etc/all.groups")]);
    let switch = &config.switch;
    assert_eq!(
        (
            switch.workers,
            switch.packets_per_worker,
            switch.packet_bytes
        ),
        (2, 1300, 1400)
    );
    let pipeline = &switch.pipeline;
    assert_eq!(
        (pipeline.rules, pipeline.groups, pipeline.stations),
        (10, 11, 12)
    );
    let (microflow, megaflow) = (&switch.datapath.microflow, &switch.datapath.megaflow);
    assert_eq!((microflow.entries, microflow.admit_one_in), (1024, 1));
    assert_eq!(
        (megaflow.entries, megaflow.bytes, megaflow.masks),
        (5000, 1_000_000, 64)
    );
    assert_eq!((pipeline.seed, switch.datapath.seed), (7, 7));
    let [first, second, third] = &config.ports[..] else {
        panic!("three ports");
    };
    assert_eq!(
        (first.kind, first.interface()),
        (PortKind::AfPacket, "veth1")
    );
    assert_eq!(
        (second.name.as_str(), second.mtu_bytes),
        ("port2", Some(1400))
    );
    assert_eq!(third.read, Some(PathBuf::from("etc/in.pcap")));
}

#[test]
fn a_port_is_enough() {
    let config = parse(PORT).expect("it is right");
    assert_eq!(
        (config.name.as_str(), config.switch.workers),
        ("thalweg", 1)
    );
    assert_eq!(config.ports[0].kind, PortKind::Auto);
}

#[test]
fn slips_are_found_where_they_are() {
    for (text, place, advice) in [
        ("[switch]\nname = ", "br0.toml:2:", "string"),
        (
            "[switch]\nworkerz = 1\n[[port]]\nnumber = 1",
            "br0.toml:2:1: ",
            "expected one of",
        ),
        (
            "[swich]\n[[port]]\nnumber = 1",
            "br0.toml:1:2: ",
            "unknown field `swich`",
        ),
        (
            "[switch]\nname = \"a\"",
            "br0.toml:1:1: ",
            "missing field `port`",
        ),
        ("port = []", "br0.toml:1:8: ", "add [[port]]"),
        (
            "[[port]]\nname = \"a\"",
            "br0.toml:1:1: ",
            "missing field `number`",
        ),
        ("[[port]]\nnumber = -1", "br0.toml:2:10: ", "-1"),
        ("[[port]]\nnumber = 0", "br0.toml:2:10: ", "1 to 65279"),
        (
            "[[port]]\nnumber = 1\n[[port]]\nnumber = 1",
            "br0.toml:4:10: ",
            "two ports 1",
        ),
        (
            "[[port]]\nnumber = 1\nkind = \"dpdk\"",
            "br0.toml:3:8: ",
            "use one of `auto`",
        ),
        (
            "[[port]]\nnumber = 1\nkind = \"af_xdp\"",
            "br0.toml:3:8: ",
            "not supported yet",
        ),
        (
            "port = [{number = 1, name = \"a\"}, {number = 2, name = \"a\"}]",
            "br0.toml:1:45: ",
            "both called",
        ),
    ] {
        let said = error(text);
        assert!(
            said.starts_with(place) && said.contains(advice),
            "{text:?}: {said}"
        );
    }
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    for section in ["openflow", "p4", "p4runtime", "metrics", "dashboard", "v2p"] {
        let said = error(&format!("{PORT}[{section}]\nlisten = \"x\""));
        let expected = format!("[{section}] is not supported yet; remove the section");
        assert!(
            said.starts_with("br0.toml:3:") && said.ends_with(&expected),
            "{said}"
        );
    }
    for (key, advice) in [
        (
            "switch.mode = \"computational-flows\"",
            "is not supported yet; use \"megaflows\"",
        ),
        ("switch.mode = \"flows\"", "there is no mode \"flows\""),
        (
            "switch.maintainer = \"lazy\"",
            "there is no maintainer \"lazy\"; choose",
        ),
        ("switch.workers = 0", "workers must be 1 to 256"),
        (
            "cache.megaflow.classifier = \"learned\"",
            "not supported for megaflows yet",
        ),
        (
            "cache.megaflow.classifier = \"magic\"",
            "there is no classifier \"magic\"",
        ),
    ] {
        let said = error(&format!("{key}\n{PORT}"));
        assert!(
            said.starts_with("br0.toml:1:") && said.contains(advice),
            "{said}"
        );
    }
}
