//! Runs a switch that forwards with a P4 program, and the server for its controllers.
//!
//! ```text
//!   load the program, if the configuration has one; open ports; start the worker and the server
//!   say `ready`; until a signal ends it: nothing, as both have threads of their own
//!   stop both; print totals
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use thalweg_binding::{Messages, derive, open_tables};
use thalweg_command::p4_entries::{Refused, write_entries};
use thalweg_config::{Configuration, P4Cache, P4Program, P4Settings};
use thalweg_control::proto::p4::config::v1::P4Info;
use thalweg_control::proto::p4::v1::ForwardingPipelineConfig;
use thalweg_control::{
    Catalog, Code, Device, DeviceConfig, DeviceCounters, Failure, Server, ServerConfig,
    ServerCounters, ServerError, Verdicts, Wire, read,
};
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::{CacheConfig, Program, commands};
use thalweg_packet::Instant;
use thalweg_switch::{
    P4Config, P4Forwarder, P4Plane, P4PlaneConfig, P4Switch, P4Totals, P4Waker, SwitchPort,
};

use super::logging::Logging;
use super::ports::{Following, open};
use super::privileges;
use super::reload::reload_ports;
use crate::p4::CacheReport;
use crate::signals::{Caught, CaughtSignals, Signal};
use thalweg_command::console::{Console, log};
use thalweg_command::failure::bad_input;
use thalweg_command::files;
use thalweg_command::number::counted;

/// Time between checks of signals.
const PATIENCE: Duration = Duration::from_millis(20);

/// Runs the switch.
///
/// # Errors
/// If the program, a port or the server cannot be used.
pub(super) fn execute(
    path: &Path,
    mut config: Configuration,
    logging: &Logging,
    signals: CaughtSignals,
    console: &Console,
) -> Result<()> {
    let start = Clock::now();
    let waker = P4Waker::new().context("cannot make a descriptor")?;
    let settings = config.p4.clone();
    let settings = &settings.context("who runs a P4 program has a section [p4]")?;
    let (device, forwarder) = device(&config, settings, &waker, start)?;
    let (ports, signals) = open_all(path, &config, signals)?;
    let wire = Wire::default();
    let limits = P4Config {
        packets: config.switch.packets_per_worker,
        packet_bytes: config.switch.packet_bytes,
    };
    let switch = P4Switch::start(limits, ports, waker, forwarder, wire.notices(), start);
    let mut switch = switch.context("cannot start the worker")?;
    let server = ServerConfig {
        listen: settings.listen.clone(),
        tls: settings.tls.clone(),
        start,
        limits: settings.limits,
    };
    let server = Server::start(&server, wire, device).map_err(|error| match error {
        ServerError::Tls(error) => bad_input(error),
        error => anyhow::Error::new(error),
    })?;
    let text = format!(
        "ready {} with {}, P4Runtime on {}, seed {}",
        config.name,
        counted(config.ports.len(), "port"),
        server.address(),
        config.seed()
    );
    console.announce(&text)?;
    let mut following = Following::start(None);
    loop {
        std::thread::sleep(PATIENCE);
        switch.look_after_ports();
        following.look(&config.ports, &mut switch);
        match signals.next() {
            Some(Signal::End) => break,
            Some(Signal::Reload) => {
                logging.reopen_or_say();
                reload_ports(path, &mut config, &mut switch);
            }
            Some(Signal::Report) => {
                let present = config.ports.iter();
                let present = present.filter(|port| switch.has_port(port.number)).count();
                let seconds = start.elapsed().as_secs_f64();
                let ports = counted(config.ports.len(), "port");
                let name = &config.name;
                log(&format!("{name} for {seconds:.1} s: {present} of {ports}"));
            }
            None if config.ends_when_finished && switch.is_finished() => break,
            None if switch.has_failed() => bail!("the worker has ended by itself"),
            None => {}
        }
    }
    let bounds = server.counters();
    let counters = server.stop();
    let totals = switch.stop();
    let mut report = Report::new(&config, start.elapsed(), &totals, &counters);
    report.p4runtime.extend(given_up(&bounds));
    console.print_json(&report)?;
    console.print(&report.text())
}

/// Opens the ports, drops what nothing needs any more, and looks at signals from then on.
fn open_all(
    path: &Path,
    config: &Configuration,
    signals: CaughtSignals,
) -> Result<(Vec<SwitchPort>, Caught)> {
    let ports = config.ports.iter().map(open).collect::<Result<_>>()?;
    privileges::drop_unneeded(path, config)?;
    Ok((ports, signals.watch()?))
}

/// Creates the session and its data plane, with the configured program.
fn device(
    config: &Configuration,
    settings: &P4Settings,
    waker: &P4Waker,
    start: Clock,
) -> Result<(Device<P4Plane>, P4Forwarder)> {
    let clock = move || Instant::ZERO + start.elapsed();
    let seed = config.seed();
    let classifier = config.switch.pipeline.classifier;
    let entries = settings.cache_entries.map(|entries| entries as usize);
    let plane = P4PlaneConfig {
        program: thalweg_p4::Config {
            drop_port: settings.drop_port,
            seed,
            index_seed: seed,
            classifier,
            ..thalweg_p4::Config::default()
        },
        traversals: (settings.cache == P4Cache::Traversal).then(|| CacheConfig {
            classifier,
            ..CacheConfig::sized(entries)
        }),
        behaviors: (settings.cache == P4Cache::Behavior)
            .then(|| BehaviorConfig::sized(entries, settings.threshold)),
        cpu_port: settings.cpu_port,
        clock: Arc::new(clock),
    };
    let own = waker.clone();
    let (plane, forwarder) = P4Plane::new(plane, move || own.wake());
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let epoch_ns = epoch.map_or(0, |since| since.as_nanos());
    let device = DeviceConfig {
        device_id: settings.device_id,
        epoch_ns: u64::try_from(epoch_ns).unwrap_or(0),
        ..DeviceConfig::default()
    };
    let mut device = Device::new(device, plane);
    // The program is loaded before anything is opened, so a mistake in it has no effects.
    if let Some(files) = &settings.program {
        start_with(&mut device, files, clock())?;
    }
    Ok((device, forwarder))
}

/// Loads the program and the entries that the switch starts with.
fn start_with(device: &mut Device<P4Plane>, files: &P4Program, now: Instant) -> Result<()> {
    let text = files::program(&files.program)?;
    let place = files.program.display();
    let refused = |what: String| bad_input(format!("{place}: {what}"));
    let own = || Program::from_json(&text).map_err(|error| refused(error.to_string()));
    let info = match &files.p4info {
        Some(path) => read_info(path)?,
        None => derive(&own()?),
    };
    let pipeline = ForwardingPipelineConfig {
        p4info: Some(info.clone()),
        p4_device_config: text.clone().into(),
        cookie: None,
    };
    let started = device.start_with(&pipeline, now);
    started.map_err(|problem| refused(problem.message))?;
    let Some(path) = &files.entries else {
        return Ok(());
    };
    let catalog = Catalog::new(&info).map_err(|error| bad_input(error.to_string()))?;
    let mut program = own()?;
    open_tables(&catalog, &mut program);
    let messages = Messages::new(&catalog, &program);
    let mut messages = messages.map_err(|problem| bad_input(problem.message))?;
    let mut reader = commands::Reader::new(&program);
    write_entries(path, files.keep_going, &mut reader, |commands| {
        let done = write(device, &mut messages, commands, now);
        match done {
            Ok(()) => messages.keep(),
            Err(_) => messages.take_back(),
        }
        done
    })
}

/// Writes commands as a controller would: all or none.
fn write(
    device: &mut Device<P4Plane>,
    messages: &mut Messages<'_>,
    commands: &[commands::Command],
    now: Instant,
) -> Result<(), Refused> {
    let mut updates = Vec::with_capacity(commands.len());
    for (index, command) in commands.iter().enumerate() {
        let update = messages.message(&command.update);
        updates.push(update.map_err(|problem| Refused::Command(index, problem.message))?);
    }
    let written = device.write_at_start(&updates, now);
    written.map_err(|failure| match failure {
        Failure::Call(problem) => Refused::All(bad_input(problem.message)),
        Failure::Parts(verdicts) => refused_one(verdicts),
    })
}

/// The command that was refused for its own sake, not because another was.
fn refused_one(verdicts: Verdicts) -> Refused {
    let mut refused = (0..).zip(verdicts).filter_map(|(index, verdict)| {
        let problem = verdict.err()?;
        (problem.code != Code::Aborted).then_some((index, problem.message))
    });
    match refused.next() {
        Some((index, what)) => Refused::Command(index, what),
        None => Refused::Command(0, "the entries were refused".to_owned()),
    }
}

fn read_info(path: &Path) -> Result<P4Info> {
    let info = read(&files::bytes(path)?);
    info.map_err(|error| bad_input(format!("{}: {error}", path.display())))
}

#[derive(Serialize)]
struct Report {
    name: String,
    seed: u64,
    seconds: f64,
    packets: u64,
    outputs: BTreeMap<u32, u64>,
    drops: BTreeMap<&'static str, u64>,
    from_controller: u64,
    to_controller: u64,
    ports: Vec<PortReport>,
    /// Ports that came and went during the run.
    ports_attached: u64,
    ports_detached: u64,
    ports_gone: u64,
    p4runtime: BTreeMap<&'static str, u64>,
    /// The caches by name; empty without a cache.
    caches: BTreeMap<&'static str, CacheReport>,
}

#[derive(Serialize)]
struct PortReport {
    number: u32,
    name: String,
    received_packets: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
    drops: BTreeMap<&'static str, u64>,
}

impl Report {
    fn new(
        config: &Configuration,
        time: Duration,
        totals: &P4Totals,
        counters: &DeviceCounters,
    ) -> Report {
        let ports = totals.ports.iter().map(|(number, _, counters)| {
            let mut configured = config.ports.iter();
            let known = configured.find(|known| known.number == *number);
            let drops = counters.drops.iter();
            PortReport {
                number: number.0,
                name: known.map(|known| known.name.clone()).unwrap_or_default(),
                received_packets: counters.received_packets,
                received_bytes: counters.received_bytes,
                sent_packets: counters.sent_packets,
                sent_bytes: counters.sent_bytes,
                drops: drops
                    .map(|(reason, count)| (reason.name(), count))
                    .collect(),
            }
        });
        let ports: Vec<PortReport> = ports.collect();
        let outputs = ports.iter().map(|port| (port.number, port.sent_packets));
        let behaviors = totals.behaviors.as_ref();
        let behaviors = behaviors.map(|(counts, entries)| (counts, *entries));
        Report {
            name: config.name.clone(),
            seed: config.seed(),
            seconds: time.as_secs_f64(),
            packets: totals.packets,
            outputs: outputs.collect(),
            drops: totals.drops.clone(),
            from_controller: totals.from_controller,
            to_controller: totals.to_controller,
            p4runtime: session_counts(counters),
            ports,
            ports_attached: totals.plugs.attached,
            ports_detached: totals.plugs.detached,
            ports_gone: totals.plugs.gone,
            caches: CacheReport::all(totals.traversals.as_ref(), behaviors),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let drops: u64 = self.drops.values().sum();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {} in {:.1} s, {drops} dropped",
            self.name,
            counted(self.packets, "packet"),
            self.seconds
        );
        for port in &self.ports {
            let _ = writeln!(
                text,
                "port {:>3} {:12}  received {:>12} packets {:>15} bytes  sent {:>12} packets \
                 {:>15} bytes",
                port.number,
                port.name,
                port.received_packets,
                port.received_bytes,
                port.sent_packets,
                port.sent_bytes
            );
        }
        for (reason, packets) in &self.drops {
            let _ = writeln!(text, "dropped {packets:>12} {reason}");
        }
        for cache in self.caches.values() {
            text += &cache.text();
        }
        for (name, count) in &self.p4runtime {
            let _ = writeln!(text, "p4runtime {name:24} {count:>12}");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// What the server gave up because of its limits, by name.
fn given_up(counters: &ServerCounters) -> [(&'static str, u64); 9] {
    [
        ("evicted_handshakes", counters.evicted_handshakes),
        ("failed_handshakes", counters.failed_handshakes),
        ("evicted_reads", counters.evicted_reads),
        ("unsent_details", counters.unsent_details),
        ("refused_connections", counters.refused_connections),
        ("refused_streams", counters.refused_streams),
        ("refused_messages", counters.refused_messages),
        ("evicted_messages", counters.evicted_messages),
        ("refused_answers", counters.refused_answers),
    ]
}

/// The session's counters, by name.
fn session_counts(counters: &DeviceCounters) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("writes", counters.writes),
        ("updates", counters.updates),
        ("refused_updates", counters.refused_updates),
        ("packets_in", counters.packets_in),
        ("packets_out", counters.packets_out),
        ("refused_packets_out", counters.refused_packets_out),
        ("packets_without_primary", counters.packets_without_primary),
        ("short_packets", counters.short_packets),
        ("digest_lists", counters.digest_lists),
        ("dropped_digests", counters.dropped_digests),
        ("odd_digests", counters.odd_digests),
        ("dropped_messages", counters.dropped_messages),
    ])
}
