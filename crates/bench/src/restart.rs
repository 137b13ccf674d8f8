//! `thalweg bench restart`: how soon a switch that was killed forwards again as before.
//!
//! ```text
//!   a switch with rules and connections --> a snapshot --> another switch --> a packet of a
//!                                                                             known connection
//! ```
//!
//! Each sample makes a switch, writes its snapshot, drops it, and starts another from the file,
//! as `thalweg run` does: packets are held from the start on, and one waits at a port. Then
//! packets of other connections, in both directions, must all arrive where the rules say.
//!
//! | row | figure |
//! | --- | --- |
//! | capture | what the thread that owns the switch spends on a snapshot |
//! | write | what the thread of snapshots takes to write it, by the clock |
//! | file | bytes of the file |
//! | read | from the opened file to all its records |
//! | restore | from a running switch without rules to one with all |
//! | forwarding again | from before the file is opened until the packet that waits has arrived |
//!
//! The start of a process and the opening of its ports are in none of these.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant as Wall};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use thalweg_command::console::Console;
use thalweg_command::number::number;
use thalweg_command::report::{Table, format_count};
use thalweg_conntrack::{Previous, TrackRequest};
use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Headers, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{BridgeId, Change};
use thalweg_switch::{
    SNAPSHOT_FORMAT, SavedSwitch, SnapshotFile, Switch, SwitchConfig, SwitchNames, SwitchPort,
};

use super::spread::Spread;

/// Connections whose packets are sent after each restart.
const CHECKED: usize = 1_000;

/// How long a packet may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Rules that match connections
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number::<u32>(1..=900_000))]
    rules: u32,
    /// Established connections
    #[arg(
        long, value_name = "N", default_value_t = 100_000, value_parser = number::<u32>(1..=2_000_000)
    )]
    connections: u32,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<usize>(1..=1_000))]
    samples: usize,
}

/// The measured quantities, with their units.
const FIGURES: [(&str, &str); 6] = [
    ("capture", "ms"),
    ("write", "ms"),
    ("file", "MB"),
    ("read", "ms"),
    ("restore", "ms"),
    ("forwarding again", "ms"),
];

/// One figure.
#[derive(Serialize, Debug)]
struct Row {
    what: &'static str,
    unit: &'static str,
    rules: u32,
    connections: u32,
    value: Spread,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    samples: usize,
    rows: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// If a file cannot be written, or a packet does not arrive after a restart.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let progress = console.progress(arguments.samples as u64);
    let mut samples: [Vec<f64>; FIGURES.len()] = Default::default();
    for _ in 0..arguments.samples {
        for (known, value) in samples.iter_mut().zip(measure(arguments)?) {
            known.push(value);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    let rows = FIGURES.into_iter().zip(&samples);
    let rows = rows.map(|((what, unit), samples)| Row {
        what,
        unit,
        rules: arguments.rules,
        connections: arguments.connections,
        value: Spread::of(samples),
    });
    let rows: Vec<Row> = rows.collect();
    console.headline("How soon a switch that was killed forwards again")?;
    console.print(&table(&rows).to_text())?;
    console.print_json(&Report {
        command: "bench restart",
        samples: arguments.samples,
        rows,
    })
}

/// A switch with two ports.
struct Stage {
    switch: Switch,
    source: MemoryHandle,
    sink: MemoryHandle,
}

fn start(arguments: &Arguments, holds_packets: bool) -> Result<Stage> {
    let (one, source) = MemoryPort::new(PortId(1), 64);
    let (two, sink) = MemoryPort::new(PortId(2), 64);
    let ports = vec![
        SwitchPort::new(PortId(1), Box::new(one)),
        SwitchPort::new(PortId(2), Box::new(two)),
    ];
    let mut config = SwitchConfig {
        holds_packets,
        ..SwitchConfig::default()
    };
    let rules = &mut config.pipeline.rules;
    *rules = (*rules).max(arguments.rules as usize + 2);
    let switch = Switch::start(config, ports)?;
    Ok(Stage {
        switch,
        source,
        sink,
    })
}

/// The one bridge and its ports.
fn names() -> SwitchNames {
    SwitchNames {
        bridges: vec![(BridgeId::default(), "measured".to_owned())],
        ports: vec![
            (PortId(1), "source".to_owned()),
            (PortId(2), "sink".to_owned()),
        ],
    }
}

/// The figures of one sample, in the order of [`FIGURES`].
fn measure(arguments: &Arguments) -> Result<[f64; FIGURES.len()]> {
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let file = SnapshotFile::new(folder.path().join("measured.snapshot"), SNAPSHOT_FORMAT);
    let mut former = start(arguments, false)?;
    fill(&mut former.switch, arguments)?;
    let begun = Wall::now();
    let capture = former.switch.capture(&names(), 0);
    let capture_ms = ms_since(begun);
    let begun = Wall::now();
    let contents = capture.write(&file)?;
    let write_ms = ms_since(begun);
    ensure!(
        contents.connections == arguments.connections as usize,
        "the snapshot has {} connections",
        contents.connections
    );
    drop(former);
    let bytes = std::fs::metadata(file.path())?.len();
    let begun = Wall::now();
    let saved = SavedSwitch::read(&file)?.context("the snapshot is gone")?;
    let read_ms = ms_since(begun);
    let mut next = start(arguments, true)?;
    let restoring = Wall::now();
    let restored = next.switch.restore(saved, &names());
    let restore_ms = ms_since(restoring);
    ensure!(
        restored.contents == contents && restored.left_out_count() == 0,
        "it came back as: {restored}"
    );
    next.switch.hold_packets(false);
    forward(&mut next, &packet(arguments, 0, false))?;
    let again_ms = ms_since(begun);
    let step = (arguments.connections as usize / CHECKED).max(1);
    for connection in (0..arguments.connections).step_by(step) {
        for is_reply in [false, true] {
            forward(&mut next, &packet(arguments, connection, is_reply))?;
        }
    }
    next.switch.stop();
    Ok([
        capture_ms,
        write_ms,
        bytes as f64 / 1e6,
        read_ms,
        restore_ms,
        again_ms,
    ])
}

fn ms_since(begun: Wall) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// Adds rules, each for the established connections of one host, and makes connections.
fn fill(switch: &mut Switch, arguments: &Arguments) -> Result<()> {
    let mut text = String::from("table=0,priority=1,ip,actions=ct(table=1)\n");
    for rule in 0..arguments.rules {
        let host = host(rule);
        let line = format!(
            "table=1,priority=10,cookie={rule:#x},ct_state=+trk+est-new,ip,nw_src={host},\
             actions=dec_ttl,output:2\n"
        );
        text.push_str(&line);
    }
    // Answers come from the one server.
    text.push_str("table=1,priority=20,ct_state=+trk+est+rpl,ip,actions=output:2\n");
    let rules = parse_rules("measured", &text).map_err(|error| anyhow::anyhow!("{error}"))?;
    switch.apply(&Change::adding(rules.flows))?;
    let commit = TrackRequest {
        is_commit: true,
        ..TrackRequest::default()
    };
    for connection in 0..arguments.connections {
        for (is_reply, request) in [(false, &commit), (true, &TrackRequest::default())] {
            let mut frame = packet(arguments, connection, is_reply);
            let headers = Headers::parse(&frame)?;
            let (tracker, now) = (switch.tracker(), switch.now());
            let previous = Previous::default();
            tracker.track(
                &mut frame,
                &headers,
                request,
                previous,
                now,
                connection.into(),
            );
        }
    }
    Ok(())
}

fn host(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + number)
}

/// A packet of a connection between a host that has a rule and a server.
fn packet(arguments: &Arguments, connection: u32, is_reply: bool) -> Vec<u8> {
    let client = (
        host(connection % arguments.rules),
        1_024 + (connection / arguments.rules) as u16,
    );
    let server = (Ipv4Addr::new(192, 0, 2, 1), 53);
    let (from, to) = if is_reply {
        (server, client)
    } else {
        (client, server)
    };
    PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
        .ipv4(from.0, to.0)
        .udp(from.1, to.1)
        .build()
}

/// Sends a packet until it is forwarded.
fn forward(stage: &mut Stage, frame: &[u8]) -> Result<()> {
    let begun = Wall::now();
    ensure!(stage.source.inject(frame), "the port has no room");
    loop {
        if !stage.sink.collect().is_empty() {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "a packet of a connection did not arrive after the restart"
        );
        std::thread::yield_now();
    }
}

fn table(rows: &[Row]) -> Table {
    let caption = "Median, least and most of the samples.";
    let table = Table::new(caption).with_words("what").with_words("unit");
    let numbers = ["rules", "connections", "median", "least", "most"];
    let table = numbers.into_iter().fold(table, Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        let digits = |value: f64| format!("{value:.1}");
        table.push(vec![
            row.what.to_owned(),
            row.unit.to_owned(),
            format_count(row.rules.into()),
            format_count(row.connections.into()),
            digits(row.value.median),
            digits(row.value.min),
            digits(row.value.max),
        ]);
        table
    })
}
