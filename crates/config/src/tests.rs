//! Tests of the configuration: accepted texts, and the errors of refused ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_conntrack::Timeout;
use thalweg_control::openflow::{FailMode, ListenAddress, Version};
use thalweg_io::XdpMode;
use thalweg_switch::OpenFlowTable;

use super::*;

const EVERYTHING: &str = r#"
[switch]
name = "br0"
workers = 2
rules = ["acl.rules", "/srv/nat.rules"]
groups = ["all.groups"]
maintainer = "revalidate"
mode = "computational-flows"
classifier = "learned"
seed = 7
allow_empty_rules = true
end_when_finished = true
[cache.microflow]
entries = 1024
admit_one_in = 1
[cache.megaflow]
entries = 5000
bytes = 1000000
masks = 64
max_idle_ms = 2500
classifier = "bloom"
[limits]
rules = 10
groups = 11
stations = 12
packets_per_worker = 1300
packet_bytes = 1400
[conntrack]
max_connections = 100
zone_connections = 50
max_fragments = 20
min_fragment_bytes = 500
min_fragment6_bytes = 600
tcp_sequence_checks = false
follow_rules = true
[conntrack.timeouts]
tcp_syn_sent_s = 1
tcp_syn_recv_s = 2
tcp_established_s = 3
tcp_fin_wait_s = 4
tcp_time_wait_s = 5
tcp_close_s = 6
udp_first_s = 7
udp_single_s = 8
udp_multiple_s = 9
icmp_first_s = 10
icmp_reply_s = 11
[v2p]
role = "gateway-tor"
address = "10.0.0.1"
map = "fabric.map"
profile = "paper"
cache_entries = 100
learning_probability = 0.5
[v2p.attached]
p1 = "10.9.0.1"
[openflow]
listen = ["punix:br0.mgmt", "ptcp:6653:0.0.0.0"]
snoop = ["unix:br0.snoop"]
controllers = ["tcp:10.0.0.9", "ssl:ctl.example:6640", "unix:ctl.sock"]
fail_mode = "standalone"
protocols = ["OpenFlow10", "OpenFlow13"]
datapath_id = "00000000000000ab"
certificate = "sw.pem"
key = "sw.key"
authorities = "ca.pem"
insecure = true
probe_interval_us = "2s"
max_backoff_us = "4s"
packet_in_rate = 1000
change_rate = 50
max_connections = 9
[[openflow.tables]]
id = 3
name = "acl"
limit = 100
overflow = "evict"
groups = ["NXM_OF_IN_PORT[]", "ip_src[8..31]"]
[[openflow.tables]]
id = 0
[[port]]
number = 1
name = "p1"
kind = "af_packet"
interface = "veth1"
receive = "ring"
[[port]]
number = 2
kind = "tap"
mtu_bytes = 1400
[[port]]
number = 3
kind = "pcap"
read = "in.pcap"
write = "out.pcap"
[[port]]
number = 4
kind = "af_xdp"
xdp_mode = "native"
queues = 2
busy_poll_us = 20
"#;

const PORT: &str = "[[port]]\nnumber = 1\n";

fn parse(text: &str) -> Result<Configuration> {
    Configuration::parse("br0.toml", Path::new("etc"), text)
}

fn error(text: &str) -> String {
    parse(text).expect_err("it is wrong").to_string()
}

#[test]
fn a_seed_is_taken_where_none_is_said() {
    let config = parse(PORT).expect("it is right").or_seed(8);
    let pipeline = &config.switch.pipeline;
    // The bucket that a flow takes must not depend on the run.
    assert_eq!(
        (pipeline.seed, pipeline.index_seed, config.seed()),
        (0, 8, 8)
    );
}

#[test]
fn entries_stay_without_packets_if_the_time_is_zero() {
    let config = parse(&format!("cache.megaflow.max_idle_ms = 0\n{PORT}")).unwrap();
    assert_eq!(config.switch.datapath.megaflow.max_idle, None);
}

#[test]
fn what_a_port_of_af_xdp_is_asked_for_can_be_said() {
    let config = parse(EVERYTHING).expect("it is right");
    let [first, .., last] = &config.ports[..] else {
        panic!("several ports");
    };
    let xdp = XdpSettings {
        mode: XdpMode::Native,
        queues: Some(2),
        busy_poll_us: Some(20),
    };
    assert_eq!((last.kind, last.xdp), (PortKind::AfXdp, xdp));
    assert_eq!(first.xdp, XdpSettings::default());
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
    assert!(config.allows_empty_rules);
    let switch = &config.switch;
    assert_eq!(switch.datapath.mode, Mode::ComputationalFlows);
    assert_eq!(switch.pipeline.classifier, ClassifierKind::Learned);
    let megaflows = switch.datapath.megaflow.classifier;
    assert_eq!(megaflows, MegaflowClassifier::Bloom);
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
    let limits = (megaflow.entries, megaflow.bytes, megaflow.masks);
    assert_eq!(limits, (5000, 1_000_000, 64));
    assert_eq!(megaflow.max_idle, Some(Duration::from_millis(2500)));
    assert_eq!((pipeline.seed, pipeline.index_seed), (7, 7));
    let [first, second, third, _] = &config.ports[..] else {
        panic!("four ports");
    };
    assert_eq!(
        (first.kind, first.interface(), first.receive),
        (PortKind::AfPacket, "veth1", Some(ReceiveMethod::Ring))
    );
    assert_eq!(second.receive, None);
    assert_eq!(
        (second.name.as_str(), second.mtu_bytes),
        ("port2", Some(1400))
    );
    assert_eq!(third.read, Some(PathBuf::from("etc/in.pcap")));
    let config = config.or_seed(8);
    assert_eq!(config.seed(), 7);
    let v2p = config.v2p.expect("it was said");
    assert_eq!(v2p.map, PathBuf::from("etc/fabric.map"));
    assert_eq!(
        (v2p.role_name(), v2p.profile_name()),
        ("gateway-tor", "paper")
    );
    let part = &v2p.config;
    assert_eq!(part.address.to_string(), "10.0.0.1");
    assert_eq!((part.cache_entries, part.learning_probability), (100, 0.5));
    let attached: Vec<_> = part
        .attached
        .iter()
        .map(|(port, at)| (port.0, at.to_string()))
        .collect();
    assert_eq!(attached, [(1, "10.9.0.1".to_owned())]);
    assert_eq!(part.seed, 7);
}

#[test]
fn everything_of_connections_can_be_said() {
    let tracking = parse(EVERYTHING).expect("it is right").switch.tracking;
    let (tracker, fragments) = (&tracking.tracker, &tracking.fragments);
    assert_eq!(
        (tracker.max_connections, tracker.zone_connections),
        (100, 50)
    );
    assert!(!tracker.tcp_sequence_checks && tracking.follows_rules);
    let sizes = (fragments.min_ipv4_bytes, fragments.min_ipv6_bytes);
    assert_eq!((fragments.max_fragments, sizes), (20, (500, 600)));
    let seconds = Timeout::ALL.map(|timeout| tracker.timeouts.seconds(timeout));
    assert_eq!(seconds, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let error = parse("[conntrack]\nmax_connections = 0\n[[port]]\nnumber = 1\n");
    let error = error
        .expect_err("a tracker without connections")
        .to_string();
    assert!(
        error.contains("2:19") && error.contains("max_connections"),
        "{error}"
    );
    let error = parse("[conntrack.timeouts]\nudp_s = 3\n[[port]]\nnumber = 1\n");
    let error = error.expect_err("no such state").to_string();
    assert!(error.contains("udp_s"), "{error}");
}

#[test]
fn everything_of_openflow_can_be_said() {
    let settings = parse(EVERYTHING).expect("it is right").openflow;
    let settings = settings.expect("it was said");
    assert_eq!(settings.datapath_id, 0xab);
    let server = &settings.server;
    let texts = |list: &[ListenAddress]| {
        list.iter()
            .map(ListenAddress::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        texts(&server.listen),
        ["unix:etc/br0.mgmt", "tcp:0.0.0.0:6653"]
    );
    assert_eq!(texts(&server.snoop), ["unix:etc/br0.snoop"]);
    let controllers: Vec<_> = server
        .controllers
        .iter()
        .map(|target| target.address.to_string())
        .collect();
    assert_eq!(
        controllers,
        [
            "tcp:10.0.0.9:6653",
            "tls:ctl.example:6640",
            "unix:etc/ctl.sock"
        ]
    );
    assert_eq!(server.fail_mode, FailMode::Standalone);
    let versions: Vec<Version> = server.versions.iter().collect();
    assert_eq!(versions, [Version::V10, Version::V13]);
    let tls = server.tls.as_ref().expect("its files were said");
    assert_eq!(tls.client_authorities, PathBuf::from("etc/ca.pem"));
    assert!(server.allows_remote);
    assert_eq!(server.probe_interval, Some(Duration::from_secs(2)));
    assert_eq!(server.max_backoff, Duration::from_secs(4));
    assert_eq!((server.packet_rate, server.connections), (Some(1000), 9));
    assert_eq!(server.change_rate, Some(50));
    let tables: Vec<u8> = settings.tables.keys().copied().collect();
    assert_eq!(tables, [0, 3]);
    assert_eq!(settings.tables[&0], OpenFlowTable::default());
    let table = &settings.tables[&3];
    let limit = &table.limit;
    assert_eq!(
        (table.name.as_str(), limit.rules, limit.evicts),
        ("acl", Some(100), true)
    );
    let widths: Vec<u16> = limit.groups.iter().map(|bits| bits.width_bits()).collect();
    assert_eq!(widths, [16, 24]);
}

#[test]
fn openflow_has_safe_defaults() {
    let config = parse(&format!("{PORT}[openflow]")).expect("it is right");
    let settings = config.openflow.expect("it was said");
    let listen: Vec<_> = settings
        .server
        .listen
        .iter()
        .map(ListenAddress::to_string)
        .collect();
    assert_eq!(listen, [format!("unix:etc/{}.mgmt", config.name)]);
    assert!(!settings.server.allows_remote && settings.datapath_id != 0);
    assert!(parse(PORT).expect("it is right").openflow.is_none());
    let remote =
        format!("{PORT}[openflow]\ncontrollers = [\"tcp:10.0.0.1\"]\nprobe_interval_us = 0");
    let server = parse(&remote)
        .expect("it is right")
        .openflow
        .expect("it was said")
        .server;
    // A switch that has controllers listens where it is told to.
    assert_eq!((server.listen.len(), server.probe_interval), (0, None));
}

#[test]
fn faults_in_openflow_have_a_place_and_advice() {
    for (said_wrong, advice) in [
        ("listen = [\"x\"]", "write punix:PATH"),
        ("controllers = [\"http://x\"]", "write"),
        ("fail_mode = \"open\"", "write \"secure\" or \"standalone\""),
        ("protocols = [\"OpenFlow16\"]", "OpenFlow15"),
        ("datapath_id = \"ab\"", "write 16 hexadecimal digits"),
        ("key = \"k\"", "give all three"),
        ("max_connections = 0", "must be"),
        ("in_band = true", "expected"),
        ("[[openflow.tables]]\nid = 254", "must be"),
        ("[[openflow.tables]]\nlimit = 1", "missing field `id`"),
        (
            "[[openflow.tables]]\nid = 1\n[[openflow.tables]]\nid = 1",
            "described twice",
        ),
        (
            "[[openflow.tables]]\nid = 1\noverflow = \"drop\"",
            "write \"refuse\" or \"evict\"",
        ),
        (
            "[[openflow.tables]]\nid = 1\ngroups = [\"in_prt\"]",
            "ovs-fields(7)",
        ),
        (
            "[[openflow.tables]]\nid = 1\nname = \"a name of more than thirty-one bytes\"",
            "shorten it",
        ),
    ] {
        let said = error(&format!("{PORT}[openflow]\n{said_wrong}"));
        assert!(
            said.starts_with("br0.toml:") && said.contains(advice),
            "{said_wrong}: {said}"
        );
    }
}

#[test]
fn a_change_of_openflow_waits_for_the_next_start() {
    let running = parse(&format!("{PORT}[openflow]")).expect("it is right");
    let said = format!("{PORT}[openflow]\nfail_mode = \"standalone\"");
    let mut next = parse(&said).expect("it is right");
    assert_eq!(next.keep_what_is_fixed(&running), ["[openflow]"]);
    assert_eq!(next.openflow, running.openflow);
}

#[test]
fn a_port_is_enough() {
    let config = parse(PORT).expect("it is right");
    assert_eq!(
        (config.name.as_str(), config.switch.workers),
        ("thalweg", 1)
    );
    assert_eq!(config.ports[0].kind, PortKind::Auto);
    assert!(!config.allows_empty_rules);
}

#[test]
fn sizes_may_have_units() {
    let bytes = |value: &str| {
        let config = parse(&format!("cache.megaflow.bytes = {value}\n{PORT}"));
        config.map(|config| config.switch.datapath.megaflow.bytes)
    };
    for (value, expected) in [
        ("1000", 1_000),
        ("\"1000\"", 1_000),
        ("\"64 MiB\"", 64 << 20),
        ("\"64MiB\"", 64 << 20),
        ("\"1.5 GiB\"", 3 << 29),
        ("\"2 kB\"", 2_000),
    ] {
        assert_eq!(bytes(value).expect(value), expected, "{value}");
    }
    for value in [
        "\"64 MiBs\"",
        "\"\"",
        "\"much\"",
        "\"-1 kB\"",
        "true",
        "1.5",
    ] {
        let said = bytes(value).expect_err(value).to_string();
        let expected = "expected a whole number of bytes, or a size such as \"64 MiB\"";
        assert!(
            said.starts_with("br0.toml:1:24: ") && said.ends_with(expected),
            "{said}"
        );
    }
    let said = bytes("\"2 TiB\"").expect_err("it is too much").to_string();
    assert!(
        said.contains("must be 0 to 1099511627776, not 2199023255552"),
        "{said}"
    );
    let text =
        format!("limits.packet_bytes = \"9 kB\"\n{PORT}kind = \"tap\"\nmtu_bytes = \"1.4kB\"");
    let config = parse(&text).expect("they are sizes");
    assert_eq!(config.switch.packet_bytes, 9_000);
    assert_eq!(config.ports[0].mtu_bytes, Some(1_400));
}

#[test]
fn kinds_are_spelt_with_either_sign() {
    for kind in ["af_packet", "af-packet"] {
        let config = parse(&format!("{PORT}kind = \"{kind}\"")).expect(kind);
        assert_eq!(config.ports[0].kind, PortKind::AfPacket);
    }
}

#[test]
fn what_a_port_has_for_itself_is_not_given_twice() {
    let ports = |first: &str, second: &str| {
        error(&format!("{PORT}{first}\n[[port]]\nnumber = 2\n{second}"))
    };
    for (first, second, place) in [
        (
            "interface = \"e0\"",
            "interface = \"e0\"",
            "6:13: ports 1 and 2",
        ),
        ("interface = \"e0\"", "name = \"e0\"", "5:10: ports 1 and 2"),
        (
            "kind = \"tap\"\ninterface = \"e0\"",
            "kind = \"af_packet\"\ninterface = \"e0\"",
            "8:13: ports 1 and 2",
        ),
    ] {
        let said = ports(first, second);
        let told = "are both on interface \"e0\"";
        assert!(said.contains(place) && said.contains(told), "{said}");
    }
    let pcap = |keys: &str| format!("kind = \"pcap\"\n{keys}");
    for (first, second, told) in [
        (
            "write = \"a\"",
            "write = \"a\"",
            "8:9: another port or direction has",
        ),
        (
            "read = \"a\"",
            "write = \"a\"",
            "8:9: another port or direction has",
        ),
        (
            "write = \"a\"",
            "read = \"a\"",
            "8:8: capture etc/a is written by another",
        ),
        (
            "read = \"b\"",
            "read = \"a\"\nwrite = \"a\"",
            "9:9: another port or direction",
        ),
    ] {
        let said = ports(&pcap(first), &pcap(second));
        assert!(said.contains(told), "{said}");
    }
    let both = format!("{PORT}kind = \"pcap\"\nread = \"a\"\n[[port]]\nnumber = 2\n");
    let config = parse(&format!(
        "{both}kind = \"pcap\"\nread = \"a\"\nwrite = \"b\""
    ));
    config.expect("both may read it");
    // A name is not an interface for kinds without interfaces.
    let text = "name = \"e0\"\nkind = \"memory\"\n[[port]]\nnumber = 2\ninterface = \"e0\"";
    parse(&format!("{PORT}{text}")).expect("one of them is on it");
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
        ("[switch]\nname = \"a\"", "br0.toml:2:11: ", "add [[port]]"),
        ("port = []", "br0.toml:1:8: ", "add [[port]]"),
        (
            "[[port]]\nname = \"a\"",
            "br0.toml:1:1: ",
            "missing field `number`; add it",
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
            "[[port]]\nnumber = 1\nkind = \"af_xdp\"\nxdp_mode = \"fast\"",
            "br0.toml:4:12: ",
            "use one of `best-effort`",
        ),
        (
            "[[port]]\nnumber = 1\nkind = \"af_xdp\"\nqueues = 65",
            "br0.toml:4:10: ",
            "queues must be 1 to 64, not 65",
        ),
        (
            "[[port]]\nnumber = 1\nqueues = 2",
            "br0.toml:3:10: ",
            "has no use for queues; remove it, or set kind to \"af_xdp\"",
        ),
        (
            "[[port]]\nnumber = 1\nreceive = \"poll\"",
            "br0.toml:3:11: ",
            "use one of `messages`, `ring`",
        ),
        (
            "[[port]]\nnumber = 1\nkind = \"tap\"\nreceive = \"ring\"",
            "br0.toml:4:11: ",
            "has no use for receive; remove it, or set kind to \"auto\" or \"af_packet\"",
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
fn values_of_another_type_are_told_what_is_wanted() {
    for (key, place, advice) in [
        (
            "switch.workers = 1.5",
            "1:18: ",
            "expected a whole number from 0",
        ),
        (
            "switch.seed = -1",
            "1:15: ",
            "`-1`, expected a whole number from 0",
        ),
        (
            "limits.rules = 99999999999999999999",
            "1:16: ",
            "99999999999999999999, expected a whole number from 0",
        ),
        (
            "switch.rules = \"a.rules\"",
            "1:16: ",
            "such as [\"my.rules\"]",
        ),
        (
            "switch.rules = \"a\"\nswitch.rules = \"b\"",
            "2:8: ",
            "duplicate key; remove one",
        ),
        ("name =", "1:", "expected"),
    ] {
        let said = error(&format!("{key}\n{PORT}"));
        let place = format!("br0.toml:{place}");
        assert!(said.starts_with(&place) && said.contains(advice), "{said}");
    }
    let said = error("[port]\nnumber = 1");
    assert!(said.contains("write [[port]], with two brackets"), "{said}");
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for (key, limits) in [
        ("cache.microflow.entries", "0 to 268435456"),
        ("cache.megaflow.entries", "0 to 16777215"),
        ("cache.megaflow.bytes", "0 to 1099511627776"),
        ("limits.rules", "0 to 8388607"),
        ("limits.groups", "0 to 268435456"),
        ("limits.stations", "0 to 268435456"),
        ("limits.packets_per_worker", "1 to 65536"),
        ("limits.packet_bytes", "60 to 131072"),
        ("switch.workers", "1 to 256"),
    ] {
        let said = error(&format!("{key} = 9223372036854775807\n{PORT}"));
        let name = key.rsplit('.').next().expect("there is a last part");
        let expected = format!("{name} must be {limits}, not 9223372036854775807");
        assert!(
            said.starts_with("br0.toml:1:") && said.ends_with(&expected),
            "{said}"
        );
    }
    for key in ["cache.microflow.admit_one_in", "cache.megaflow.masks"] {
        let said = error(&format!("{key} = 0\n{PORT}"));
        assert!(said.contains(" must be 1 to 268435456, not 0"), "{said}");
    }
}

#[test]
fn keys_that_a_kind_would_ignore_are_refused() {
    for (keys, advice) in [
        (
            "kind = \"pcap\"",
            "3:8: a port of kind \"pcap\" needs a file; set read, write, or both",
        ),
        (
            "read = \"a\"",
            "3:8: a port of kind \"auto\" has no use for read; remove it, or set kind",
        ),
        (
            "kind = \"tap\"\nwrite = \"a\"",
            "4:9: a port of kind \"tap\" has no use for write",
        ),
        (
            "kind = \"memory\"\ninterface = \"a\"",
            "or set kind to \"auto\" or \"af_packet\" or",
        ),
        (
            "kind = \"af_packet\"\nmtu_bytes = 1500",
            "remove it, or set kind to \"tap\"",
        ),
        (
            "mtu_bytes = 1500",
            "3:13: a port of kind \"auto\" has no use for mtu_bytes; remove it, or set kind to",
        ),
        (
            "kind = \"tap\"\nmtu_bytes = 67",
            "4:13: mtu_bytes must be 68 to 65535, not 67",
        ),
    ] {
        let said = error(&format!("{PORT}{keys}"));
        assert!(said.contains(advice), "{said}");
    }
}

#[test]
fn errors_are_one_line_that_terminals_can_be_given() {
    let said = error(&format!("{PORT}kind = \"a\\n\\u001B[2J\""));
    assert!(said.contains("`a\\n\\u{1b}[2J`"), "{said}");
}

#[test]
fn a_file_that_is_no_text_is_told_so() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let path = folder.path().join("br0.toml");
    let said = || {
        Configuration::read(&path)
            .expect_err("it cannot be used")
            .to_string()
    };
    assert!(said().contains("br0.toml: No such file") && said().ends_with("check the path"));
    std::fs::write(&path, [0xff, 0xfe]).expect("the folder is ours");
    assert!(
        said().ends_with("give a configuration, which is TOML in UTF-8"),
        "{}",
        said()
    );
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    for (key, advice) in [
        (
            "switch.classifier = \"magic\"",
            "there is no classifier \"magic\"; choose",
        ),
        ("switch.mode = \"flows\"", "there is no mode \"flows\""),
        (
            "v2p = { role = \"leaf\", address = \"10.0.0.1\", map = \"m\" }",
            "there is no role \"leaf\"; choose one of \"tor\"",
        ),
        (
            "v2p = { role = \"tor\", address = \"::\", map = \"m\" }",
            "\"::\" is no IP address",
        ),
        (
            "v2p = { role = \"tor\", address = \"10.0.0.1\", map = \"m\", attached = { p9 = \"10.0.0.2\" } }",
            "there is no port \"p9\"",
        ),
        (
            "v2p = { role = \"tor\", address = \"10.0.0.1\", map = \"m\", learning_probability = 1.5 }",
            "learning_probability must be from 0 to 1",
        ),
        (
            "switch.maintainer = \"idle\"",
            "there is no maintainer \"idle\"; choose",
        ),
        ("switch.workers = 0", "workers must be 1 to 256"),
        (
            "cache.megaflow.classifier = \"magic\"",
            "there is no classifier \"magic\" for megaflows; choose \"auto\"",
        ),
    ] {
        let said = error(&format!("{key}\n{PORT}"));
        assert!(
            said.starts_with("br0.toml:1:") && said.contains(advice),
            "{said}"
        );
    }
}

const P4: &str = r#"
[switch]
name = "p4/0"
[p4]
cache = "traversal"
cache_entries = 4096
program = "l2l3.json"
p4info = "/srv/l2l3.p4info.txtpb"
entries = "l2l3.cmds"
keep_going = true
cpu_port = 510
drop_port = 509
[p4runtime]
listen = "tls:127.0.0.1:9559"
device_id = 7
certificate = "switch.pem"
key = "switch.key"
client_authorities = "clients.pem"
max_handshakes = 8
handshake_timeout_us = "2s"
max_reads_per_peer = 3
max_connections = 20
max_connections_per_peer = 5
max_streams = 40
max_streams_per_peer = 10
max_message_bytes = "1 MiB"
message_bytes = "8 MiB"
message_bytes_per_peer = 4000000
answer_bytes = "6 MiB"
answer_bytes_per_peer = "3 MiB"
stream_queue_bytes = "256 KiB"
[[port]]
number = 1
"#;

#[test]
fn a_p4_program_and_its_controller() {
    let config = parse(P4).expect("it is right");
    let p4 = config.p4.expect("there is a program");
    let expected = P4Program {
        program: PathBuf::from("etc/l2l3.json"),
        p4info: Some(PathBuf::from("/srv/l2l3.p4info.txtpb")),
        entries: Some(PathBuf::from("etc/l2l3.cmds")),
        keep_going: true,
    };
    assert_eq!(p4.program, Some(expected));
    assert_eq!(
        (p4.cpu_port, p4.drop_port, p4.device_id),
        (Some(510), 509, 7)
    );
    assert_eq!(p4.cache, P4Cache::Traversal);
    assert_eq!((p4.cache_entries, p4.threshold), (Some(4096), None));
    assert_eq!(p4.listen.to_string(), "tls:127.0.0.1:9559");
    let tls = p4.tls.expect("it listens with TLS");
    assert_eq!(tls.client_authorities, Path::new("etc/clients.pem"));
    let limits = (p4.limits.max_handshakes, p4.limits.max_reads_per_peer);
    assert_eq!(limits, (8, 3));
    let l = &p4.limits;
    let places = (l.max_connections, l.max_connections_per_peer);
    assert_eq!(places, (20, 5));
    assert_eq!((l.max_streams, l.max_streams_per_peer), (40, 10));
    let messages = (l.message_bytes, l.message_bytes_per_peer);
    assert_eq!(messages, (8 << 20, 4_000_000));
    let answers = (l.answer_bytes, l.answer_bytes_per_peer);
    assert_eq!(answers, (6 << 20, 3 << 20));
    let sizes = (l.max_message_bytes, l.stream_queue_bytes);
    assert_eq!(sizes, (1 << 20, 256 << 10));
    assert_eq!(p4.limits.handshake_timeout.as_secs(), 2);
    let least = parse(&format!("{PORT}[switch]\nname = \"a/b\"\n[p4]"));
    let p4 = least.expect("it is right").p4.expect("it is there");
    assert_eq!(p4.listen.to_string(), "unix:etc/a_b.p4rt");
    assert_eq!(p4.limits, thalweg_control::ServerLimits::default());
    assert_eq!(p4.cache, P4Cache::Off);
    assert_eq!((p4.program, p4.cpu_port, p4.drop_port), (None, None, 511));
    assert!(parse(PORT).expect("it is right").p4.is_none());
}

#[test]
fn what_a_p4_switch_cannot_do_is_refused() {
    let hot = "p4 = { cache = \"behavior\", cache_entries = 9, threshold = 0 }";
    let p4 = parse(&format!("{hot}\n{PORT}")).expect("it is right").p4;
    let sizes = p4.map(|p4| (p4.cache_entries, p4.threshold));
    assert_eq!(sizes, Some((Some(9), Some(0))));
    let tcp = "p4 = {}\np4runtime = { listen = \"tcp:127.0.0.1:1\"";
    for (text, advice) in [
        ("p4runtime = {}", "add [p4]"),
        ("p4 = { p4info = \"x\" }", "set program"),
        ("p4 = { cache = \"magic\" }", "set cache to \"traversal\""),
        ("p4 = { entries = \"x\" }", "set program"),
        ("p4 = { program = \"x\", keep_going = true }", "set entries"),
        ("p4 = { cache_entries = 5 }", "set cache"),
        (
            "p4 = { cache = \"behavior\", cache_entries = 0 }",
            "cache_entries must be 1 to",
        ),
        (
            "p4 = { cache = \"traversal\", threshold = 1 }",
            "set cache to \"behavior\"",
        ),
        (
            "p4 = { cache = \"behavior\", threshold = 65536 }",
            "threshold must be 0 to 65535",
        ),
        ("p4 = { cpu_port = 512 }", "cpu_port must be 0 to 511"),
        ("p4 = { cpu_port = 511 }", "give another"),
        (
            "p4 = {}\nswitch = { rules = [\"x\"] }",
            "has no use for rules",
        ),
        ("p4 = {}\nswitch = { workers = 2 }", "set workers to 1"),
        (
            "p4 = {}\np4runtime = { device_id = 0 }",
            "device_id must be 1",
        ),
        (
            "p4 = {}\np4runtime = { message_bytes = 1 }",
            "message_bytes must be 65536",
        ),
        (
            "p4 = {}\np4runtime = { max_reads = 0 }",
            "max_reads must be 1",
        ),
        (
            "p4 = {}\np4runtime = { listen = \"x\" }",
            "write `unix:PATH`",
        ),
        (
            "p4 = {}\np4runtime = { listen = \"tls:127.0.0.1:1\" }",
            "set certificate",
        ),
        (&format!("{tcp} }}"), "set insecure to true"),
        (
            &format!("{tcp}, insecure = true, key = \"x\" }}"),
            "remove them",
        ),
    ] {
        let said = error(&format!("{text}\n{PORT}"));
        assert!(said.contains(advice), "{text}: {said}");
    }
    let config = parse(&format!("{tcp}, insecure = true }}\n{PORT}")).expect("it is meant");
    assert_eq!(
        config.p4.expect("it is there").listen.to_string(),
        "tcp:127.0.0.1:1"
    );
}

#[test]
fn metrics_are_read_at_an_address_with_a_port() {
    let listen = |section: &str| {
        parse(&format!("{PORT}[metrics]\n{section}"))
            .unwrap()
            .metrics
    };
    assert_eq!(listen("").unwrap().to_string(), "127.0.0.1:9200");
    let said = "listen = \"[::]:80\"";
    assert_eq!(listen(said).unwrap().to_string(), "[::]:80");
    assert!(parse(PORT).unwrap().metrics.is_none());
    let said = error(&format!("{PORT}[metrics]\nlisten = \"127.0.0.1\""));
    assert!(
        said.starts_with("br0.toml:4:10: `127.0.0.1` is not an address with a port"),
        "{said}"
    );
    let said = error(&format!("{PORT}[metrics]\n[p4]\n"));
    assert!(said.ends_with("remove [metrics] or [p4]"), "{said}");
}

#[test]
fn snapshots_are_beside_the_configuration() {
    let parsed = |section: &str| {
        let text = format!("{PORT}[switch]\nname = \"a/b\"\n[snapshot]\n{section}");
        parse(&text)
            .unwrap()
            .snapshot
            .expect("the section is there")
    };
    let usual = parsed("");
    assert_eq!(usual.file.path(), Path::new("etc/a_b.snapshot"));
    assert_eq!(usual.interval, Duration::from_secs(10));
    let given = parsed("file = \"kept\"\ninterval_ms = 250\n");
    assert_eq!(given.file.path(), Path::new("etc/kept"));
    assert_eq!(given.interval, Duration::from_millis(250));
    assert!(parse(PORT).unwrap().snapshot.is_none());
    let said = error(&format!("{PORT}[snapshot]\ninterval_ms = 9"));
    assert!(
        said.ends_with("interval_ms must be 100 to 86400000, not 9"),
        "{said}"
    );
    let said = error(&format!("{PORT}[snapshot]\n[p4]\n"));
    assert!(said.ends_with("remove one of them"), "{said}");
}

#[test]
fn the_control_socket_is_beside_the_configuration() {
    let socket = |section: &str| {
        let name = "[switch]\nname = \"a/b\"";
        let parsed = parse(&format!("{PORT}{section}\n{name}"));
        parsed.expect("it is right").control
    };
    assert_eq!(socket(""), None);
    assert_eq!(socket("[control]"), Some("etc/a_b.ctl".into()));
    let relative = "[control]\nsocket = \"run/c\"";
    assert_eq!(socket(relative), Some("etc/run/c".into()));
    let absolute = "[control]\nsocket = \"/run/c\"";
    assert_eq!(socket(absolute), Some("/run/c".into()));
    let said = error(&format!("{PORT}[control]\n[p4]\n"));
    assert!(said.contains("[control] asks about rules"), "{said}");
    let said = error(&format!("{PORT}[control]\nsockets = 1\n"));
    assert!(said.contains("unknown field `sockets`"), "{said}");
}

#[test]
fn rights_are_kept_only_if_that_is_asked_for() {
    let keeps = |section: &str| {
        let parsed = parse(&format!("{PORT}{section}\n"));
        let process = parsed.expect("it is right").process;
        (process.keeps_capabilities, process.keeps_system_calls)
    };
    assert_eq!(keeps(""), (false, false));
    assert_eq!(keeps("[process]"), (false, false));
    assert_eq!(keeps("[process]\nkeep_capabilities = true"), (true, false));
    assert_eq!(keeps("[process]\nkeep_system_calls = true"), (false, true));
    let said = error(&format!("{PORT}[process]\nkeeps = true\n"));
    assert!(said.contains("unknown field `keeps`"), "{said}");
}

#[test]
fn the_dashboard_listens_on_loopback_unless_others_are_allowed() {
    let settings = |text: &str| {
        let parsed = parse(&format!("{PORT}{text}"));
        parsed.expect("it is right").dashboard
    };
    assert_eq!(settings(""), None);
    let known = settings("[dashboard]").expect("it is there");
    assert_eq!(known.listen.to_string(), "127.0.0.1:8080");
    assert!(!known.allows_remote);
    let known = settings("[dashboard]\nlisten = \"[::1]:0\"").expect("it is there");
    assert_eq!(known.listen.to_string(), "[::1]:0");
    let remote = "[dashboard]\nlisten = \"192.0.2.1:80\"\n";
    let said = error(&format!("{PORT}{remote}"));
    assert!(
        said.starts_with("br0.toml:4:10: 192.0.2.1:80 is not a loopback address")
            && said.ends_with("or set allow_remote = true"),
        "{said}"
    );
    let known = settings(&format!("{remote}allow_remote = true")).expect("it is there");
    assert!(known.allows_remote);
    for (text, part) in [
        ("listen = \"x\"", "`x` is not an address with a port"),
        ("port = 1", "port"),
    ] {
        let said = error(&format!("{PORT}[dashboard]\n{text}"));
        assert!(said.contains(part), "{said}");
    }
    let said = error(&format!("{PORT}[dashboard]\n[p4]\nprogram = \"p\"\n"));
    assert!(
        said.contains("[dashboard] does not cover a P4 program"),
        "{said}"
    );
}
