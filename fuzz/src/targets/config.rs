//! Configurations of `thalweg run`, which are TOML.
//!
//! 1. No text makes the reader panic.
//! 2. An error is one line, names a place in the text, and says what to do.
//! 3. An accepted configuration, written out in full, reads back as the same. A key that is
//!    added to the reader must also be added to `written` and to the corpus file
//!    `everything`.

use std::path::{Path, PathBuf};

use thalweg_config::{
    ConfigError, Configuration, OpenFlowSettings, P4Settings, ProcessSettings, V2pSettings,
};
use thalweg_conntrack::Timeout;
use thalweg_control::ServerLimits;
use thalweg_control::openflow::FailMode;
use thalweg_io::{PortConfig, PortKind};
use toml::{Table, Value};

/// Every error contains one of these words, because it must say what to do.
const ADVICE: [&str; 9] = [
    "add", "choose", "expected", "give", "must be", "remove", "set", "use", "write",
];

/// Runs one input.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match Configuration::parse("fuzz.toml", Path::new("etc"), &text) {
        Ok(config) => reads_back(&config),
        Err(error) => check_error(&text, &error),
    }
}

fn check_error(text: &str, error: &ConfigError) {
    let said = error.to_string();
    assert!(!said.contains(char::is_control), "{said:?}");
    let ConfigError::Refused {
        line, column, what, ..
    } = error
    else {
        panic!("no file was read: {said}");
    };
    let start = format!("fuzz.toml:{line}:{column}: ");
    assert!(said.starts_with(&start), "{said}");
    // An error at the end may be on the line after the last.
    let lines: Vec<&str> = text.split('\n').collect();
    let place = lines.get(*line - 1).expect("the line is there");
    assert!((1..=place.chars().count() + 1).contains(column), "{said}");
    assert!(ADVICE.iter().any(|word| what.contains(word)), "{said}");
}

fn reads_back(config: &Configuration) {
    let printed = written(config).to_string();
    // The first reading made the paths relative to the current folder.
    let again = Configuration::parse("again.toml", Path::new(""), &printed);
    let again = again.unwrap_or_else(|error| panic!("{error} in {printed}"));
    assert_eq!(format!("{again:?}"), format!("{config:?}"), "{printed}");
}

/// The configuration as TOML, with every key given.
fn written(config: &Configuration) -> Table {
    let (pipeline, datapath) = (&config.switch.pipeline, &config.switch.datapath);
    let paths = |paths: &[PathBuf]| Value::Array(paths.iter().map(|path| word(path)).collect());
    let mut switch = table([
        ("name", config.name.clone().into()),
        ("workers", number(config.switch.workers as u64)),
        ("rules", paths(&config.rules)),
        ("groups", paths(&config.groups)),
        ("maintainer", datapath.maintainer.name().into()),
        ("mode", datapath.mode.name().into()),
        ("classifier", pipeline.classifier.name().into()),
        ("allow_empty_rules", config.allows_empty_rules.into()),
        ("end_when_finished", config.ends_when_finished.into()),
    ]);
    if config.has_seed() {
        switch.extend(table([("seed", number(pipeline.seed))]));
    }
    let microflow = table([
        ("entries", number(datapath.microflow.entries as u64)),
        (
            "admit_one_in",
            number(datapath.microflow.admit_one_in.into()),
        ),
    ]);
    let megaflow = table([
        ("entries", number(datapath.megaflow.entries as u64)),
        ("bytes", number(datapath.megaflow.bytes as u64)),
        ("masks", number(datapath.megaflow.masks as u64)),
        ("max_idle_ms", {
            let max_idle = datapath.megaflow.max_idle;
            number(max_idle.map_or(0, |limit| limit.as_millis() as u64))
        }),
        ("classifier", datapath.megaflow.classifier.name().into()),
    ]);
    let limits = table([
        ("rules", number(pipeline.rules as u64)),
        ("groups", number(pipeline.groups as u64)),
        ("stations", number(pipeline.stations as u64)),
        (
            "packets_per_worker",
            number(config.switch.packets_per_worker as u64),
        ),
        ("packet_bytes", number(config.switch.packet_bytes as u64)),
    ]);
    let v2p = config.v2p.as_ref().map(|v2p| v2p_section(config, v2p));
    let ports = config
        .ports
        .iter()
        .map(|port| Value::Table(port_section(port)));
    let mut written = table([
        ("switch", switch.into()),
        (
            "cache",
            table([
                ("microflow", microflow.into()),
                ("megaflow", megaflow.into()),
            ])
            .into(),
        ),
        ("limits", limits.into()),
        ("conntrack", conntrack_section(config).into()),
        ("port", Value::Array(ports.collect())),
    ]);
    if let Some(p4) = &config.p4 {
        written.extend(p4_sections(p4));
    }
    written.extend(services(config));
    written.extend(v2p.map(|section| ("v2p".to_owned(), section.into())));
    written
}

/// The sections of what a run serves, beside P4Runtime.
fn services(config: &Configuration) -> Table {
    let sections = [
        ("openflow", config.openflow.as_ref().map(openflow_section)),
        ("control", config.control.as_deref().map(control_section)),
        ("metrics", config.metrics.map(metrics_section)),
        ("process", Some(process_section(config.process))),
    ];
    let given = sections.into_iter();
    let given = given.filter_map(|(name, section)| Some((name.to_owned(), section?.into())));
    given.collect()
}

fn control_section(socket: &Path) -> Table {
    table([("socket", word(socket))])
}

fn metrics_section(listen: std::net::SocketAddr) -> Table {
    table([("listen", Value::String(listen.to_string()))])
}

fn process_section(process: ProcessSettings) -> Table {
    table([
        ("keep_capabilities", process.keeps_capabilities.into()),
        ("keep_system_calls", process.keeps_system_calls.into()),
    ])
}

fn conntrack_section(config: &Configuration) -> Table {
    let tracking = &config.switch.tracking;
    let (tracker, fragments) = (&tracking.tracker, &tracking.fragments);
    let timeouts = Timeout::ALL.map(|timeout| {
        let seconds = tracker.timeouts.seconds(timeout);
        (format!("{}_s", timeout.name()), number(seconds.into()))
    });
    table([
        ("max_connections", number(tracker.max_connections.into())),
        ("zone_connections", number(tracker.zone_connections.into())),
        ("max_fragments", number(fragments.max_fragments.into())),
        (
            "min_fragment_bytes",
            number(fragments.min_ipv4_bytes.into()),
        ),
        (
            "min_fragment6_bytes",
            number(fragments.min_ipv6_bytes.into()),
        ),
        ("tcp_sequence_checks", tracker.tcp_sequence_checks.into()),
        ("follow_rules", tracking.follows_rules.into()),
        ("timeouts", Table::from_iter(timeouts).into()),
    ])
}

fn p4_sections(p4: &P4Settings) -> Table {
    let port = |port: u32| number(port.into());
    let cache = p4.cache.name();
    let mut program = table([("cache", cache.into()), ("drop_port", port(p4.drop_port))]);
    program.extend(
        p4.cpu_port
            .map(|cpu_port| ("cpu_port".to_owned(), port(cpu_port))),
    );
    if let Some(files) = &p4.program {
        program.extend(table([("program", word(&files.program))]));
        let others = [("p4info", &files.p4info), ("entries", &files.entries)];
        for (key, path) in others {
            program.extend(path.as_ref().map(|path| (key.to_owned(), word(path))));
        }
        if files.entries.is_some() {
            program.extend(table([("keep_going", files.keep_going.into())]));
        }
    }
    let optional = [
        ("cache_entries", p4.cache_entries.map(u64::from)),
        ("threshold", p4.threshold.map(u64::from)),
    ];
    for (key, said) in optional {
        program.extend(said.map(|said| (key.to_owned(), number(said))));
    }
    let mut runtime = table([
        ("listen", p4.listen.to_string().into()),
        ("device_id", number(p4.device_id)),
        ("insecure", true.into()),
    ]);
    runtime.extend(server_limits(&p4.limits));
    if let Some(tls) = &p4.tls {
        runtime.extend(table([
            ("certificate", word(&tls.certificate)),
            ("key", word(&tls.key)),
            ("client_authorities", word(&tls.client_authorities)),
        ]));
    }
    table([("p4", program.into()), ("p4runtime", runtime.into())])
}

fn server_limits(limits: &ServerLimits) -> Table {
    let count = |count: usize| number(count as u64);
    let timeout_us = limits.handshake_timeout.as_micros() as u64;
    table([
        ("max_handshakes", count(limits.max_handshakes)),
        (
            "max_handshakes_per_peer",
            count(limits.max_handshakes_per_peer),
        ),
        ("handshake_timeout_us", number(timeout_us)),
        ("max_reads", count(limits.max_reads)),
        ("max_reads_per_peer", count(limits.max_reads_per_peer)),
        ("max_connections", count(limits.max_connections)),
        (
            "max_connections_per_peer",
            count(limits.max_connections_per_peer),
        ),
        ("max_streams", count(limits.max_streams)),
        ("max_streams_per_peer", count(limits.max_streams_per_peer)),
        ("max_message_bytes", count(limits.max_message_bytes)),
        ("message_bytes", number(limits.message_bytes)),
        (
            "message_bytes_per_peer",
            number(limits.message_bytes_per_peer),
        ),
        ("answer_bytes", number(limits.answer_bytes)),
        (
            "answer_bytes_per_peer",
            number(limits.answer_bytes_per_peer),
        ),
        ("stream_queue_bytes", count(limits.stream_queue_bytes)),
    ])
}

fn openflow_section(settings: &OpenFlowSettings) -> Table {
    fn texts<T: ToString>(list: &[T]) -> Value {
        Value::Array(list.iter().map(|each| each.to_string().into()).collect())
    }
    let server = &settings.server;
    let versions: Vec<_> = server.versions.iter().collect();
    let controllers: Vec<_> = server.controllers.iter().map(|to| &to.address).collect();
    let interval_us = server
        .probe_interval
        .map_or(0, |interval| interval.as_micros());
    let mode = match server.fail_mode {
        FailMode::Secure => "secure",
        FailMode::Standalone => "standalone",
    };
    let mut section = table([
        ("listen", texts(&server.listen)),
        ("snoop", texts(&server.snoop)),
        ("controllers", texts(&controllers)),
        ("fail_mode", mode.into()),
        ("protocols", texts(&versions)),
        (
            "datapath_id",
            format!("{:016x}", settings.datapath_id).into(),
        ),
        ("insecure", server.allows_remote.into()),
        ("probe_interval_us", number(interval_us as u64)),
        (
            "max_backoff_us",
            number(server.max_backoff.as_micros() as u64),
        ),
        (
            "packet_in_rate",
            number(server.packet_rate.unwrap_or(0).into()),
        ),
        (
            "change_rate",
            number(server.change_rate.unwrap_or(0).into()),
        ),
        ("max_connections", number(server.connections as u64)),
    ]);
    if let Some(tls) = &server.tls {
        section.extend(table([
            ("certificate", word(&tls.certificate)),
            ("key", word(&tls.key)),
            ("authorities", word(&tls.client_authorities)),
        ]));
    }
    section
}

fn v2p_section(config: &Configuration, v2p: &V2pSettings) -> Table {
    let attached = v2p.config.attached.iter().map(|(number, address)| {
        let mut ports = config.ports.iter();
        let port = ports.find(|port| port.number == *number);
        let name = port.expect("the port is there").name.clone();
        (name, address.to_string().into())
    });
    table([
        ("role", v2p.role_name().into()),
        ("address", v2p.config.address.to_string().into()),
        ("map", word(&v2p.map)),
        ("profile", v2p.profile_name().into()),
        ("cache_entries", number(v2p.config.cache_entries.into())),
        (
            "learning_probability",
            v2p.config.learning_probability.into(),
        ),
        ("attached", attached.collect::<Table>().into()),
    ])
}

fn port_section(port: &PortConfig) -> Table {
    let mut section = table([
        ("number", number(port.number.0.into())),
        ("name", port.name.clone().into()),
        ("kind", port.kind.to_string().into()),
    ]);
    let is_xdp = port.kind == PortKind::AfXdp;
    let optional = [
        ("interface", port.interface.clone().map(Value::from)),
        ("mtu_bytes", port.mtu_bytes.map(|mtu| number(mtu.into()))),
        (
            "receive",
            port.receive.map(|method| method.to_string().into()),
        ),
        ("xdp_mode", is_xdp.then(|| port.xdp.mode.to_string().into())),
        (
            "queues",
            port.xdp.queues.map(|queues| number(queues.into())),
        ),
        (
            "busy_poll_us",
            port.xdp.busy_poll_us.map(|time| number(time.into())),
        ),
        ("read", port.read.as_deref().map(word)),
        ("write", port.write.as_deref().map(word)),
    ];
    for (key, value) in optional {
        section.extend(value.map(|value| (key.to_owned(), value)));
    }
    section
}

fn table<const N: usize>(pairs: [(&str, Value); N]) -> Table {
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Numbers that came from TOML fit into its integers.
fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number).expect("limits are less"))
}

fn word(path: &Path) -> Value {
    Value::String(path.to_str().expect("it was text").to_owned())
}
