//! The reference of the keys of a configuration, as a page and as rows.
//!
//! Defaults and ranges come from the values that the reader itself uses, and a test asks the
//! reader which keys it knows, so that the reference names all of them and no others.

use std::fmt::Write;
use std::ops::RangeInclusive;

use thalweg_conntrack::Timeout;
use thalweg_control::ServerLimits;
use thalweg_control::openflow::OpenFlowConfig;
use thalweg_datapath::{MaintainerKind, MegaflowClassifier, Mode};
use thalweg_io::{PortKind, XdpMode};
use thalweg_pipeline::ClassifierKind;
use thalweg_switch::{SwitchConfig, TrackingConfig};
use thalweg_v2p::LEARNING_PROBABILITY;

use crate::reload::is_live;
use crate::{
    BUSY_POLL_US, BYTES, COUNT, ENTRIES, FLOWS, MTU_BYTES, PACKET_BYTES, PACKETS, PORT_NUMBERS,
    POSITIVE, RULES, WORKERS, XDP_QUEUES, conntrack, dashboard, metrics, openflow, p4, snapshot,
    v2p,
};

/// A key of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyReference {
    /// The section it stands in, as its heading is written.
    pub section: &'static str,
    /// The key.
    pub key: &'static str,
    /// The values it takes.
    pub values: String,
    /// The value without it; empty where there is none.
    pub default: String,
    /// Whether a running switch takes a new value on SIGHUP.
    pub is_live: bool,
    /// The effect of the key.
    pub text: &'static str,
}

/// The headings, each with a sentence on its section.
const SECTIONS: [(&str, &str); 17] = [
    ("[switch]", "The switch and its rules."),
    ("[cache.microflow]", "The exact-match cache of each worker."),
    ("[cache.megaflow]", "The wildcard cache of each worker."),
    (
        "[limits]",
        "Bounds. A size beyond them is refused or dropped, and counted by reason.",
    ),
    (
        "[conntrack]",
        "How `ct` tracks connections ([connection tracking](connection-tracking.md)).",
    ),
    (
        "[conntrack.timeouts]",
        "How long a connection lives without packets, by the state of its protocol.",
    ),
    ("[[port]]", "A port; repeat the section for each."),
    (
        "[v2p]",
        "The part of the switch in a fabric that caches virtual addresses.",
    ),
    (
        "[openflow]",
        "Where OpenFlow's clients and controllers drive the switch.",
    ),
    (
        "[[openflow.tables]]",
        "A table's name, and how many rules it may have; repeat the section for each.",
    ),
    (
        "[control]",
        "Where `thalweg ctl` asks the running switch and changes it \
         ([operating](operating.md#ask-and-change-a-running-switch)).",
    ),
    (
        "[metrics]",
        "Where Prometheus reads what the switch counts ([metrics](metrics.md)).",
    ),
    (
        "[dashboard]",
        "Where a browser looks at the switch ([operating](operating.md#dashboard)).",
    ),
    (
        "[snapshot]",
        "Where the switch keeps what it knows for its next start \
         ([operating](operating.md#come-back-after-a-restart)).",
    ),
    (
        "[process]",
        "What the process may do while it runs ([operating](operating.md#privileges)).",
    ),
    ("[p4]", "A P4 program that forwards in place of rules."),
    (
        "[p4runtime]",
        "The P4Runtime server of that program, and how much of it clients may take.",
    ),
];

/// All keys, in the order of a file.
pub fn key_references() -> Vec<KeyReference> {
    let mut rows = Vec::new();
    switch_keys(&mut rows);
    cache_keys(&mut rows);
    limit_keys(&mut rows);
    conntrack_keys(&mut rows);
    timeout_keys(&mut rows);
    port_keys(&mut rows);
    v2p_keys(&mut rows);
    openflow_keys(&mut rows);
    openflow_table_keys(&mut rows);
    add(
        &mut rows,
        ("[control]", "socket"),
        "a path",
        "NAME.ctl",
        "The socket of commands; only the owner of the process may use it.",
    );
    add(
        &mut rows,
        ("[metrics]", "listen"),
        "an address and a port, such as `[::1]:9200`",
        metrics::LISTEN,
        "Where metrics are read by HTTP, without encryption, at `/metrics`.",
    );
    snapshot_keys(&mut rows);
    add(
        &mut rows,
        ("[dashboard]", "listen"),
        "an address and a port, such as `[::1]:8080`",
        dashboard::LISTEN,
        "Where the dashboard is, by HTTP, without encryption or a password; a loopback address \
         unless `allow_remote` is set.",
    );
    add(
        &mut rows,
        ("[dashboard]", "allow_remote"),
        "`true`, `false`",
        "false",
        "Let `listen` be an address that other machines reach, and so read all that the dashboard \
         shows.",
    );
    add(
        &mut rows,
        ("[process]", "keep_capabilities"),
        "`true`, `false`",
        "false",
        "Keep all capabilities of the start, also those that no port needs.",
    );
    add(
        &mut rows,
        ("[process]", "keep_system_calls"),
        "`true`, `false`",
        "false",
        "Allow all system calls, also those that a switch never makes.",
    );
    p4_keys(&mut rows);
    p4runtime_keys(&mut rows);
    rows
}

/// The reference as a page of Markdown.
pub fn configuration_page() -> String {
    let rows = key_references();
    let mut page = String::from(
        "# Configuration\n\nEvery key of the file that `thalweg run` reads (TOML). Only `[[port]]` \
         is required. Unknown keys are errors, with line and column. A size (`_bytes`, `bytes`) is \
         a number of bytes or a text such as `\"64 MiB\"`; a time (`_us`) is a number of \
         microseconds or a text such as `\"10s\"`. Paths are relative to the file's folder. \
         \"Live\" means that SIGHUP applies a change; other keys wait for a restart. How to run a \
         switch: [operating.md](operating.md).\n",
    );
    for (heading, text) in SECTIONS {
        let _ = write!(
            page,
            "\n## `{heading}`\n{text}\n\n| key | values | default | live | effect |\n| --- | --- | --- | --- | --- |\n"
        );
        for row in rows.iter().filter(|row| row.section == heading) {
            let default = match row.default.as_str() {
                "" => "–".to_owned(),
                words if words.contains(' ') => words.to_owned(),
                default => format!("`{default}`"),
            };
            let live = if row.is_live { "yes" } else { "no" };
            let KeyReference {
                key, values, text, ..
            } = row;
            let _ = writeln!(page, "| `{key}` | {values} | {default} | {live} | {text} |");
        }
    }
    page
}

/// Adds a row.
fn add(
    rows: &mut Vec<KeyReference>,
    (section, key): (&'static str, &'static str),
    values: impl Into<String>,
    default: impl ToString,
    text: &'static str,
) {
    rows.push(KeyReference {
        section,
        key,
        values: values.into(),
        default: default.to_string(),
        is_live: is_live(section.trim_matches(['[', ']']), key),
        text,
    });
}

fn range(range: RangeInclusive<u64>) -> String {
    format!("{} to {}", range.start(), range.end())
}

fn size(of: RangeInclusive<u64>) -> String {
    format!("a size, {}", range(of))
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

const NONE: &str = "";

fn switch_keys(rows: &mut Vec<KeyReference>) {
    let default = SwitchConfig::default();
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[switch]", key), values, default, text);
    };
    key(
        "name",
        "text".into(),
        "thalweg".into(),
        "The name in logs and reports.",
    );
    key(
        "workers",
        range(WORKERS),
        default.workers.to_string(),
        "Threads that forward; ports are dealt to them in turn. A P4 program has one.",
    );
    key(
        "rules",
        "paths".into(),
        NONE.into(),
        "Files of flows, as `ovs-ofctl` writes them; also with groups and meters.",
    );
    key("groups", "paths".into(), NONE.into(), "Files of groups.");
    key(
        "allow_empty_rules",
        "`true`, `false`".into(),
        "false".into(),
        "Takes a file of rules or groups that is empty, and so removes all. Otherwise it is \
         refused: an editor that truncates first would remove every rule.",
    );
    key(
        "maintainer",
        names(MaintainerKind::ALL.map(MaintainerKind::name)),
        default.datapath.maintainer.name().into(),
        "How caches follow a change of the rules. `lazy` forwards stale packets while it sweeps, \
         and is for comparison.",
    );
    key(
        "mode",
        names(Mode::ALL.map(Mode::name)),
        default.datapath.mode.name().into(),
        "Whether packets that the exact-match cache does not know are answered by megaflows or by \
         the rules themselves.",
    );
    key(
        "classifier",
        names(ClassifierKind::ALL.map(ClassifierKind::name)),
        default.pipeline.classifier.name().into(),
        "How tables find their rules; of a P4 program, its tables too.",
    );
    key(
        "seed",
        "a number".into(),
        "drawn by the operating system".into(),
        "The seed of the hash tables that packets meet and of all chance; a given seed is that \
         of select groups too. Those who know it can choose packets that collide.",
    );
    key(
        "end_when_finished",
        "`true`, `false`".into(),
        "false".into(),
        "Ends the run when all captures have been read.",
    );
}

fn cache_keys(rows: &mut Vec<KeyReference>) {
    let default = SwitchConfig::default().datapath;
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[cache.microflow]", key), values, default, text);
    };
    key(
        "entries",
        range(FLOWS),
        default.microflow.entries.to_string(),
        "Flows that fit, rounded up to a power of two; 0 for no such cache.",
    );
    key(
        "admit_one_in",
        range(POSITIVE),
        default.microflow.admit_one_in.to_string(),
        "Where a flow would replace another, one new flow in this many is admitted.",
    );
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[cache.megaflow]", key), values, default, text);
    };
    let megaflow = default.megaflow;
    key(
        "entries",
        range(ENTRIES),
        megaflow.entries.to_string(),
        "Entries that fit; 0 for no such cache.",
    );
    key(
        "bytes",
        size(BYTES),
        megaflow.bytes.to_string(),
        "Memory that the entries and their index may take.",
    );
    key(
        "masks",
        range(POSITIVE),
        megaflow.masks.to_string(),
        "Masks, each with a table to search. Beyond them, rare masks give way.",
    );
    let max_idle = megaflow.max_idle.map_or(0, |limit| limit.as_millis());
    key(
        "max_idle_ms",
        range(COUNT),
        max_idle.to_string(),
        "An entry that no packet has used for this time is evicted; 0 to keep entries while there \
         is room.",
    );
    key(
        "classifier",
        names(MegaflowClassifier::ALL.map(MegaflowClassifier::name)),
        megaflow.classifier.name().into(),
        "How an entry is found.",
    );
}

fn snapshot_keys(rows: &mut Vec<KeyReference>) {
    add(
        rows,
        ("[snapshot]", "file"),
        "a path",
        "NAME.snapshot",
        "The file; each switch needs one of its own.",
    );
    add(
        rows,
        ("[snapshot]", "interval_ms"),
        range(snapshot::INTERVALS_MS),
        snapshot::INTERVAL_MS,
        "Time from the end of one snapshot to the beginning of the next.",
    );
}

fn limit_keys(rows: &mut Vec<KeyReference>) {
    let default = SwitchConfig::default();
    let mut key = |key, values: String, default: usize, text| {
        add(rows, ("[limits]", key), values, default, text);
    };
    key(
        "rules",
        range(RULES),
        default.pipeline.rules,
        "Rules in all tables.",
    );
    key("groups", range(COUNT), default.pipeline.groups, "Groups.");
    key(
        "stations",
        range(COUNT),
        default.pipeline.stations,
        "Stations that `normal` remembers.",
    );
    key(
        "packets_per_worker",
        range(PACKETS),
        default.packets_per_worker,
        "Packet buffers of a worker, made at the start.",
    );
    key(
        "packet_bytes",
        size(PACKET_BYTES),
        default.packet_bytes,
        "Room for each packet; a longer one makes its buffer grow.",
    );
}

fn conntrack_keys(rows: &mut Vec<KeyReference>) {
    let default = TrackingConfig::default();
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[conntrack]", key), values, default, text);
    };
    key(
        "max_connections",
        range(conntrack::CONNECTIONS),
        default.tracker.max_connections.to_string(),
        "Connections in all zones. A full table ends the oldest one without a reply.",
    );
    key(
        "zone_connections",
        range(conntrack::ZONE_CONNECTIONS),
        default.tracker.zone_connections.to_string(),
        "Connections in each zone; 0 for any number.",
    );
    key(
        "max_fragments",
        range(conntrack::FRAGMENTS),
        default.fragments.max_fragments.to_string(),
        "Fragments that wait until their packet is whole.",
    );
    key(
        "min_fragment_bytes",
        range(conntrack::FRAGMENT_BYTES),
        default.fragments.min_ipv4_bytes.to_string(),
        "The shortest IPv4 packet that may be a fragment before the last.",
    );
    key(
        "min_fragment6_bytes",
        range(conntrack::FRAGMENT_BYTES),
        default.fragments.min_ipv6_bytes.to_string(),
        "The same for IPv6.",
    );
    key(
        "tcp_sequence_checks",
        "`true`, `false`".into(),
        default.tracker.tcp_sequence_checks.to_string(),
        "Whether TCP segments outside of the windows are invalid.",
    );
    key(
        "follow_rules",
        "`true`, `false`".into(),
        default.follows_rules.to_string(),
        "Whether a connection ends with the rule that committed it, or with the group's bucket \
         that led to that. A rule that is modified has not ended, nor has a bucket whose id stays. \
         What a bucket committed ends with the rule that named the group, too.",
    );
}

fn timeout_keys(rows: &mut Vec<KeyReference>) {
    let default = TrackingConfig::default().tracker.timeouts;
    let texts = [
        "TCP, until the answer to the first segment.",
        "TCP, until both peers are established.",
        "TCP, established.",
        "TCP, after one FIN.",
        "TCP, after two FINs.",
        "TCP, after all was acknowledged, or a reset.",
        "UDP and others, after one packet.",
        "UDP and others, after several packets of one direction.",
        "UDP and others, after packets of both directions.",
        "ICMP, before a reply.",
        "ICMP, after a reply.",
    ];
    let keys = Timeout::ALL.into_iter().zip(conntrack::TIMEOUT_KEYS);
    for ((timeout, key), text) in keys.zip(texts) {
        let values = format!("seconds, {}", range(conntrack::SECONDS));
        let section = ("[conntrack.timeouts]", key);
        add(rows, section, values, default.seconds(timeout), text);
    }
}

fn port_keys(rows: &mut Vec<KeyReference>) {
    let mut key = |key, values: String, default: &str, text| {
        add(rows, ("[[port]]", key), values, default, text);
    };
    key(
        "number",
        range(PORT_NUMBERS),
        NONE,
        "The OpenFlow number. Required.",
    );
    key(
        "name",
        "text".into(),
        "portN",
        "The name in logs, reports and rules.",
    );
    key(
        "kind",
        PortKind::SUPPORTED.into(),
        "auto",
        "`auto` is an existing interface, by the better of `af_packet` and `af_xdp`; `tap` makes \
         one, `pcap` reads and writes captures, and `memory` counts and sends nowhere.",
    );
    key(
        "interface",
        "text".into(),
        "the port's name",
        "The Linux interface, of `auto`, `af_packet`, `af_xdp` and `tap`.",
    );
    key(
        "mtu_bytes",
        size(MTU_BYTES),
        NONE,
        "The MTU that a tap gets.",
    );
    key(
        "receive",
        "`ring`, `messages`".into(),
        NONE,
        "How a packet socket receives, of `auto` and `af_packet`; the better one by default.",
    );
    xdp_keys(rows);
    let mut key = |key, values: String, default: &str, text| {
        add(rows, ("[[port]]", key), values, default, text);
    };
    key(
        "read",
        "a path".into(),
        NONE,
        "The capture that a `pcap` port receives.",
    );
    key(
        "write",
        "a path".into(),
        NONE,
        "The capture that a `pcap` port writes.",
    );
}

/// The keys of a port of AF_XDP.
fn xdp_keys(rows: &mut Vec<KeyReference>) {
    let mut key = |key, values: String, default: &str, text| {
        add(rows, ("[[port]]", key), values, default, text);
    };
    key(
        "xdp_mode",
        XdpMode::SUPPORTED.into(),
        "best-effort",
        "Where an `af_xdp` port gets its frames; the first that the interface has by default.",
    );
    key(
        "queues",
        range(XDP_QUEUES),
        NONE,
        "The receive queues of an `af_xdp` port, from the first one on; all by default. Frames of \
         others stay the host's.",
    );
    key(
        "busy_poll_us",
        range(BUSY_POLL_US),
        NONE,
        "How long a call of an `af_xdp` port polls the driver; no polling by default.",
    );
}

fn v2p_keys(rows: &mut Vec<KeyReference>) {
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[v2p]", key), values, default, text);
    };
    let roles = names(v2p::ROLES.map(|(name, _)| name));
    let profiles = names(v2p::PROFILES.map(|(name, _)| name));
    key(
        "role",
        roles,
        NONE.into(),
        "The place in the fabric. Required.",
    );
    key(
        "address",
        "an IP address".into(),
        NONE.into(),
        "The physical address. Required.",
    );
    key(
        "map",
        "a path".into(),
        NONE.into(),
        "The file of the fabric's mappings. Required.",
    );
    key(
        "profile",
        profiles,
        "plus".into(),
        "Which version of SwitchV2P: the paper, its published code, or ours.",
    );
    key(
        "cache_entries",
        range(v2p::CACHE_ENTRIES),
        v2p::DEFAULT_ENTRIES.to_string(),
        "Mappings that the switch caches.",
    );
    key(
        "learning_probability",
        "0.0 to 1.0".into(),
        LEARNING_PROBABILITY.to_string(),
        "How often a resolved packet makes a gateway's ToR send a learning packet.",
    );
    key(
        "attached",
        "a table from port name to IP address".into(),
        NONE.into(),
        "The switches at the other ends of ports.",
    );
}

fn p4_keys(rows: &mut Vec<KeyReference>) {
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[p4]", key), values, default, text);
    };
    key(
        "program",
        "a path".into(),
        NONE.into(),
        "The JSON of p4c's back end for BMv2; without it, the controller brings the program.",
    );
    key(
        "p4info",
        "a path".into(),
        NONE.into(),
        "Its P4Info; derived from the program by default.",
    );
    key(
        "entries",
        "a path".into(),
        NONE.into(),
        "Commands as `simple_switch_CLI` takes them.",
    );
    key(
        "keep_going",
        "`true`, `false`".into(),
        "false".into(),
        "Reports the lines of `entries` that cannot be done, and does the others.",
    );
    let ports = range(p4::PROGRAM_PORTS);
    key(
        "cpu_port",
        ports.clone(),
        NONE.into(),
        "The port of packets to and from the controller.",
    );
    key(
        "drop_port",
        ports,
        p4::DROP_PORT.to_string(),
        "The port that `mark_to_drop` sends to.",
    );
    key(
        "cache",
        names(p4::P4Cache::ALL.map(p4::P4Cache::name)),
        p4::P4Cache::Off.name().into(),
        "What is remembered in front of the program: walks in segments, or hot behaviours.",
    );
    key(
        "cache_entries",
        range(p4::CACHE_ENTRIES),
        "by the kind of cache".into(),
        "Segments, or behaviours of each pipeline.",
    );
    key(
        "threshold",
        range(p4::THRESHOLDS),
        thalweg_p4::cache::behavior::BehaviorConfig::default()
            .threshold
            .to_string(),
        "A behaviour seen more often than this is remembered.",
    );
}

fn openflow_table_keys(rows: &mut Vec<KeyReference>) {
    let mut key = |key, values: String, default: &str, text| {
        add(rows, ("[[openflow.tables]]", key), values, default, text);
    };
    let (first, last) = (openflow::TABLES.start(), openflow::TABLES.end());
    key(
        "id",
        format!("{first} to {last}"),
        "",
        "The table's number; required.",
    );
    key(
        "name",
        format!("a text of at most {} bytes", openflow::TABLE_NAME_BYTES),
        NONE,
        "What `ovs-ofctl --names` calls it; controllers cannot change it.",
    );
    key(
        "limit",
        format!(
            "{} to {}",
            openflow::TABLE_RULES.start(),
            openflow::TABLE_RULES.end()
        ),
        NONE,
        "Most rules; without it only `rules` of `[limits]` holds.",
    );
    key(
        "overflow",
        "`refuse`, `evict`".into(),
        "refuse",
        "A full table refuses a new rule, or ends the least important rule with a timeout, and \
         of those the one that ends first.",
    );
    key(
        "groups",
        "a list of fields, `NXM_OF_IN_PORT[]` or `ip_src[8..31]`".into(),
        NONE,
        "Rules that agree on these bits are a group; the largest group loses a rule.",
    );
}

fn openflow_keys(rows: &mut Vec<KeyReference>) {
    let default = OpenFlowConfig::default();
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[openflow]", key), values, default, text);
    };
    let addresses = "a list of `punix:PATH`, `ptcp:PORT:IP`, `pssl:PORT:IP`";
    key(
        "listen",
        addresses.into(),
        "punix:NAME.mgmt".into(),
        "Where clients connect; the default holds without controllers, too.",
    );
    key(
        "snoop",
        addresses.into(),
        NONE.into(),
        "Where what switch and controllers say can be read.",
    );
    key(
        "controllers",
        "a list of `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH`".into(),
        NONE.into(),
        "The controllers that the switch connects to.",
    );
    key(
        "fail_mode",
        "`secure`, `standalone`".into(),
        "secure".into(),
        "Without a controller: keep the rules, or forward like a learning switch.",
    );
    key(
        "protocols",
        "a list of `OpenFlow10` to `OpenFlow15`".into(),
        "all".into(),
        "The versions that are spoken.",
    );
    key(
        "datapath_id",
        "16 hexadecimal digits".into(),
        "made of the name".into(),
        "The number by which controllers know the switch.",
    );
    key(
        "certificate",
        "a path".into(),
        NONE.into(),
        "The certificate for TLS (PEM).",
    );
    key("key", "a path".into(), NONE.into(), "Its key (PEM).");
    key(
        "authorities",
        "a path".into(),
        NONE.into(),
        "Who may sign the certificates of clients and controllers.",
    );
    key(
        "insecure",
        "`true`, `false`".into(),
        "false".into(),
        "Allows plain TCP beyond loopback.",
    );
    openflow_limits(rows, &default);
}

/// Times and limits of connections.
fn openflow_limits(rows: &mut Vec<KeyReference>, default: &OpenFlowConfig) {
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[openflow]", key), values, default, text);
    };
    let interval = default.probe_interval.unwrap_or_default();
    key(
        "probe_interval_us",
        range(openflow::TIMES_US),
        interval.as_micros().to_string(),
        "Silence after which a controller is asked for an echo; 0 never asks.",
    );
    key(
        "max_backoff_us",
        range(openflow::TIMES_US),
        default.max_backoff.as_micros().to_string(),
        "The longest time between two attempts to reach a controller.",
    );
    key(
        "packet_in_rate",
        range(openflow::RATES),
        "0".into(),
        "Packets a second for one connection; 0 for no limit.",
    );
    key(
        "change_rate",
        range(openflow::RATES),
        "0".into(),
        "Changes a second that one connection may ask for; others of its messages wait. 0 for no \
         limit.",
    );
    key(
        "max_connections",
        range(openflow::CONNECTIONS),
        default.connections.to_string(),
        "Connections at a time; those beyond are closed at once.",
    );
}

fn p4runtime_keys(rows: &mut Vec<KeyReference>) {
    let mut key = |key, values: String, default: String, text| {
        add(rows, ("[p4runtime]", key), values, default, text);
    };
    key(
        "listen",
        "`unix:PATH`, `tls:ADDRESS:PORT`, `tcp:ADDRESS:PORT`".into(),
        "unix:NAME.p4rt".into(),
        "Where the server listens; by default a socket beside the file, with the switch's name.",
    );
    key(
        "device_id",
        range(p4::DEVICES),
        "1".into(),
        "The number by which controllers know it.",
    );
    key(
        "certificate",
        "a path".into(),
        NONE.into(),
        "The certificate for TLS (PEM).",
    );
    key("key", "a path".into(), NONE.into(), "Its key (PEM).");
    key(
        "client_authorities",
        "a path".into(),
        NONE.into(),
        "Who may sign clients' certificates.",
    );
    key(
        "insecure",
        "`true`, `false`".into(),
        "false".into(),
        "Allows TCP without TLS.",
    );
    p4runtime_places(rows);
    p4runtime_memory(rows);
}

/// The places of peers, and the time that a handshake may take.
fn p4runtime_places(rows: &mut Vec<KeyReference>) {
    let limits = ServerLimits::default();
    let same = "The same of one peer.";
    for (key, default, text) in [
        (
            "max_handshakes",
            limits.max_handshakes,
            "TLS handshakes; the oldest gives way.",
        ),
        (
            "max_handshakes_per_peer",
            limits.max_handshakes_per_peer,
            same,
        ),
        (
            "max_reads",
            limits.max_reads,
            "Reads being answered; the oldest gives way.",
        ),
        ("max_reads_per_peer", limits.max_reads_per_peer, same),
        (
            "max_connections",
            limits.max_connections,
            "Connections; further ones are closed.",
        ),
        (
            "max_connections_per_peer",
            limits.max_connections_per_peer,
            same,
        ),
        (
            "max_streams",
            limits.max_streams,
            "Streams and calls; further ones are refused.",
        ),
        ("max_streams_per_peer", limits.max_streams_per_peer, same),
    ] {
        add(rows, ("[p4runtime]", key), range(p4::PLACES), default, text);
    }
    add(
        rows,
        ("[p4runtime]", "handshake_timeout_us"),
        format!("a time, {}", range(p4::TIMEOUTS_US)),
        limits.handshake_timeout.as_micros(),
        "The longest a handshake may take.",
    );
}

/// The memory of messages.
fn p4runtime_memory(rows: &mut Vec<KeyReference>) {
    let limits = ServerLimits::default();
    let same = "The same of one peer.";
    add(
        rows,
        ("[p4runtime]", "max_message_bytes"),
        size(p4::MAX_MESSAGE_BYTES),
        limits.max_message_bytes,
        "The largest message taken.",
    );
    for (key, default, text) in [
        (
            "message_bytes",
            limits.message_bytes,
            "Memory of all messages until handled.",
        ),
        (
            "message_bytes_per_peer",
            limits.message_bytes_per_peer,
            same,
        ),
        (
            "answer_bytes",
            limits.answer_bytes,
            "Memory of configurations being sent.",
        ),
        ("answer_bytes_per_peer", limits.answer_bytes_per_peer, same),
        (
            "stream_queue_bytes",
            limits.stream_queue_bytes as u64,
            "Memory of messages that wait on one stream for its controller.",
        ),
    ] {
        add(
            rows,
            ("[p4runtime]", key),
            size(p4::MESSAGE_BYTES),
            default,
            text,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::Configuration;

    /// The keys that the reader says it knows in a section.
    fn known(section: &str) -> BTreeSet<String> {
        let required = match section {
            "[[port]]" => "number = 1\n",
            "[[openflow.tables]]" => "id = 1\n",
            _ => "",
        };
        let text = format!("{section}\n{required}no_such_key = 1\n");
        let said = Configuration::parse("a.toml", Path::new(""), &text).unwrap_err();
        let said = said.to_string();
        let (_, list) = said.split_once("expected").expect("it names the keys");
        let words = list.split(['`', '"']).skip(1).step_by(2);
        // These are sections of their own.
        let sections = [("[openflow]", "tables"), ("[conntrack]", "timeouts")];
        let is_key = |word: &&str| !word.is_empty() && !sections.contains(&(section, *word));
        words.filter(is_key).map(str::to_owned).collect()
    }

    #[test]
    fn every_key_of_the_reader_is_in_the_reference_and_no_other() {
        for (section, _) in SECTIONS {
            let rows = key_references().into_iter();
            let rows = rows.filter(|row| row.section == section);
            let listed: BTreeSet<String> = rows.map(|row| row.key.to_owned()).collect();
            assert!(!listed.is_empty(), "{section}");
            assert_eq!(listed, known(section), "{section}");
        }
    }

    #[test]
    fn the_page_is_that_of_the_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        expect_test::expect_file![page].assert_eq(&configuration_page());
    }
}
