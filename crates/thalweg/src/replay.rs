//! `thalweg replay`: sends captures through the switch.
//!
//! ```text
//!   packets of all captures, in the order of their times
//!     before packet N: the changes whose position is N
//!     caches and interpreter answer; the answers are compared
//!     what is sent is written to one capture a port
//! ```
//!
//! Output captures get their names only when the whole replay succeeds. The report ends with
//! the counters of rules, tables and groups, and the traversals that cache entries took.
//!
//! Rule timeouts and station ages follow the captures' time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde::Serialize;
use thalweg_classifier::RULES_MAX;
use thalweg_command::allocator::release_free_memory;
use thalweg_datapath::{MaintainerKind, TraversalView};
use thalweg_packet::{Instant, Packet};
use thalweg_pipeline::text::{Parser, PlacedChange};
use thalweg_switch::{Config, Engine, LongWork, Removal, RemovalReason};

use crate::captures::{CutsReport, Sources};
use crate::counters::CountersReport;
use crate::p4::{self, ProgramArguments};
use crate::trace::describe_traversal;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::follow::{acknowledge, follow, news, wall_ns};
use thalweg_command::input::{self, RulesArguments};
use thalweg_command::lookups::LookupsReport;
use thalweg_command::memory;
use thalweg_command::number::{PORTS, counted, number};
use thalweg_command::output::CaptureOutput;
use thalweg_command::seed;

/// Traversals in the text, most entries first.
const TRAVERSALS_SHOWN: usize = 10;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    program: ProgramArguments,
    /// A capture of received packets (pcap or pcapng): FILE, or PORT=FILE to give its port
    #[arg(long, value_name = "[PORT=]FILE", required = true)]
    pcap: Vec<String>,
    /// Fill packets that the capture cut with zeros, up to their original length
    #[arg(long)]
    padded: bool,
    /// The ingress port of captures given without one
    #[arg(long, value_name = "PORT", default_value = "1")]
    in_port: String,
    /// Write the packets sent by port N to DIR/N.pcap
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Rule changes, each at its packet position (`@N add ...`)
    #[arg(long, value_name = "FILE")]
    changes: Option<PathBuf>,
    /// How caches follow changes: incremental, barrier, revalidate or flush; or lazy, which
    /// forwards stale packets while it sweeps, to show the effect
    #[arg(long, value_name = "NAME", default_value = "incremental")]
    maintainer: MaintainerKind,
    /// Flows in the exact-match cache; 0 for none
    #[arg(
        long, value_name = "N", default_value_t = 8_192,
        value_parser = number::<usize>(..=1 << 28)
    )]
    microflows: usize,
    /// Entries in the wildcard cache; 0 for none
    #[arg(
        long, value_name = "N", default_value_t = 200_000,
        value_parser = number::<usize>(..=RULES_MAX as u64)
    )]
    megaflows: usize,
    /// Seed of the packet hash tables [default: drawn from the operating system]
    #[arg(long, value_name = "N", value_parser = number::<u64>(..))]
    seed: Option<u64>,
}

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    /// Seed of the packet hash tables.
    seed: u64,
    packets: u64,
    /// What the captures lack.
    #[serde(flatten)]
    cuts: CutsReport,
    outputs: BTreeMap<String, u64>,
    drops: BTreeMap<&'static str, u64>,
    caches: Caches,
    upcalls: u64,
    /// Most entries first; empty if the maintainer does not record what entries depend on.
    traversals: Vec<TraversalReport>,
    changes: Vec<ChangeReport>,
    stale_packets: u64,
    checked_packets: u64,
    /// How tables and caches are searched.
    lookups: LookupsReport,
    #[serde(flatten)]
    counters: CountersReport,
    /// Ended rules that were to report it (`send_flow_rem`).
    removed: Vec<RemovalReport>,
}

#[derive(Serialize)]
struct Caches {
    microflow: CacheReport,
    megaflow: CacheReport,
}

#[derive(Serialize)]
struct CacheReport {
    hits: u64,
    misses: u64,
    entries: usize,
}

/// A way through the tables, and the current entries that took it.
#[derive(Serialize)]
struct TraversalReport {
    tables: Vec<u8>,
    entries: u64,
    /// Packets that these entries have answered since their counts were last credited to
    /// rules. A repair and a rule's timeout credit them.
    packets: u64,
}

#[derive(Serialize)]
struct ChangeReport {
    position: u64,
    /// Time until no packet could be answered by older rules.
    time_to_update_us: f64,
    /// Time until every entry was right.
    time_to_repair_us: f64,
    affected: u64,
    #[serde(flatten)]
    work: WorkReport,
}

/// What happened to the entries.
#[derive(Serialize)]
struct WorkReport {
    examined: u64,
    repaired: u64,
    moved: u64,
    evicted: u64,
}

#[derive(Serialize)]
struct RemovalReport {
    rule: String,
    reason: &'static str,
    packets: u64,
    bytes: u64,
    duration_ms: u64,
}

/// Sends the captures through the switch.
///
/// # Errors
/// If a file cannot be read or written, or a rule is refused.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let names = arguments.rules.port_names()?;
    let in_port = names.port(&arguments.in_port, "--in-port")?.0;
    let ports = if arguments.program.is_given() {
        p4::PORTS
    } else {
        PORTS
    };
    let mut sources = Sources::open(&arguments.pcap, in_port, (ports, &names), arguments.padded)?;
    if let Some(target) = arguments.program.load(arguments.seed)? {
        return p4::replay(target, sources, arguments.out.as_deref(), console);
    }
    let mut changes = match &arguments.changes {
        Some(path) => input::read_changes(path, &names)?,
        None => Vec::new(),
    };
    changes.sort_by_key(|change| change.position);
    let rules = arguments.rules.read(&names)?;
    let config = config(arguments);
    memory::check(config.datapath.bytes_at_start(), "lower --microflows")?;
    let seed = config.datapath.seed;
    let mut engine = Engine::new(config)?;
    let others = changes.iter().map(|placed| &placed.change);
    // Rules begin to age at the first packet.
    let start = sources.start();
    let in_ports = sources.ports();
    input::load(
        &mut engine,
        (&arguments.rules, &names),
        &rules,
        others,
        in_ports,
        start,
    )?;
    drop(rules);
    release_free_memory();
    let mut replay = Replay {
        seed,
        engine,
        maintainer: arguments.maintainer,
        outputs: Outputs::new(arguments.out.as_deref())?,
        packets: 0,
        applied: Vec::new(),
    };
    let mut changes = changes.into_iter().peekable();
    let progress = console.progress(sources.size_bytes);
    while let Some(packet) = sources.next()? {
        while let Some(due) = changes.next_if(|change| change.position <= replay.packets) {
            replay.apply(&due, packet.received_at())?;
            progress.set_message(replay.news());
        }
        progress.set_position(sources.read_bytes);
        replay.forward(packet)?;
    }
    let end = sources.now;
    for late in changes {
        replay.apply(&late, end)?;
    }
    progress.finish_and_clear();
    sources.warn_of_cuts();
    replay.report(sources.cuts(), console)
}

fn config(arguments: &Arguments) -> Config {
    let mut config = Config {
        is_audited: true,
        long_work: LongWork::Thread,
        ..Config::default()
    };
    config.datapath.maintainer = arguments.maintainer;
    config.datapath.microflow.entries = arguments.microflows;
    config.datapath.megaflow.entries = arguments.megaflows;
    config.pipeline.seed = arguments.seed.unwrap_or(config.pipeline.seed);
    let seed = arguments.seed.unwrap_or_else(seed::drawn);
    (config.pipeline.index_seed, config.datapath.seed) = (seed, seed);
    config
}

/// A replay under way.
struct Replay {
    seed: u64,
    engine: Engine,
    maintainer: MaintainerKind,
    outputs: Outputs,
    packets: u64,
    applied: Vec<ChangeReport>,
}

impl ChangeReport {
    fn entries_in_words(&self) -> String {
        let (affected, work) = (self.affected, &self.work);
        format!(
            "{} affected ({} repaired, {} moved, {} evicted)",
            counted(affected, "entry"),
            work.repaired,
            work.moved,
            work.evicted
        )
    }
}

impl Replay {
    fn apply(&mut self, placed: &PlacedChange, now: Instant) -> Result<()> {
        let followed = match self.maintainer {
            MaintainerKind::Lazy => acknowledge(&mut self.engine, &placed.change, now, wall_ns),
            _ => follow(&mut self.engine, &placed.change, now, wall_ns, |_, _| ()),
        };
        let followed = followed.map_err(|error| {
            let place = format!("--changes: @{}", placed.position);
            input::refused(&placed.change, &error, [], &mut Parser::new()).context(place)
        })?;
        let work = followed.work;
        self.applied.push(ChangeReport {
            position: self.packets,
            time_to_update_us: followed.update_ns as f64 / 1e3,
            time_to_repair_us: followed.repair_ns as f64 / 1e3,
            affected: work.affected(),
            work: WorkReport {
                examined: work.examined,
                repaired: work.repaired,
                moved: work.moved,
                evicted: work.evicted,
            },
        });
        Ok(())
    }

    /// One line of progress.
    fn news(&self) -> String {
        let last = self.applied.last();
        let last_ns = last.map_or(0.0, |change| change.time_to_update_us * 1e3);
        let affected = self.applied.iter().map(|change| change.affected).sum();
        let stale = self.engine.audit().map(|audit| audit.stale);
        news(self.applied.len(), last_ns, affected, stale)
    }

    fn forward(&mut self, packet: Packet) -> Result<()> {
        let now = packet.received_at();
        self.engine.tick(now);
        self.engine.forward(&mut vec![packet], now);
        self.packets += 1;
        let outbox = self.engine.outbox();
        for (port, packet) in &outbox.sent {
            self.outputs.write(&port.to_string(), packet, now)?;
        }
        for (_, packet) in &outbox.to_controller {
            self.outputs.write("controller", packet, now)?;
        }
        outbox.recycle();
        Ok(())
    }

    fn report(mut self, cuts: CutsReport, console: &Console) -> Result<()> {
        // Settling resets the entries' counts, so traversals are reported first.
        let traversals = report_traversals(self.engine.datapath().traversals());
        self.engine.settle();
        let removed = self.engine.take_removals();
        let statistics = self.engine.datapath().statistics();
        let audit = self.engine.audit().expect("a replay is audited");
        let report = Report {
            seed: self.seed,
            packets: self.packets,
            cuts,
            drops: statistics.drops().collect(),
            caches: Caches {
                microflow: CacheReport {
                    hits: statistics.microflow.hits,
                    misses: statistics.microflow.misses,
                    entries: self.engine.datapath().microflow_count(),
                },
                megaflow: CacheReport {
                    hits: statistics.megaflow.hits,
                    misses: statistics.megaflow.misses,
                    entries: self.engine.datapath().megaflow_count(),
                },
            },
            upcalls: statistics.upcalls,
            traversals,
            changes: self.applied,
            stale_packets: audit.stale,
            checked_packets: audit.checked,
            lookups: LookupsReport::new(
                &self.engine.pipeline(),
                &[self.engine.datapath().choice()],
                statistics,
            ),
            counters: CountersReport::new(&self.engine.pipeline(), usize::MAX),
            removed: removed.iter().map(report_removal).collect(),
            outputs: self.outputs.finish()?,
        };
        console.print(&describe(&report))?;
        console.print_json(&report)?;
        let stale = report.stale_packets;
        ensure!(
            stale == 0 || self.maintainer == MaintainerKind::Lazy,
            "{stale} packets were forwarded otherwise than the rules say: a fault of this program"
        );
        Ok(())
    }
}

fn describe(report: &Report) -> String {
    let mut text = format!(
        "{}, seed {}\n",
        counted(report.packets, "packet"),
        report.seed
    );
    let mut outputs: Vec<_> = report.outputs.iter().collect();
    // Ports are numbers, except `controller`, which comes last.
    outputs.sort_by_key(|(port, _)| port.parse().unwrap_or(u64::MAX));
    for (port, packets) in outputs {
        text += &format!("  port {port}: {packets} sent\n");
    }
    for (reason, packets) in &report.drops {
        text += &format!("  dropped, {reason}: {packets}\n");
    }
    for (name, cache) in [
        ("microflow", &report.caches.microflow),
        ("megaflow", &report.caches.megaflow),
    ] {
        let (hits, misses) = (cache.hits, cache.misses);
        let entries = counted(cache.entries, "entry");
        text += &format!("{name} cache: {hits} hits, {misses} misses, {entries}\n");
    }
    text += &format!("upcalls: {}\n", report.upcalls);
    text += &describe_traversals(&report.traversals);
    for change in &report.changes {
        let (position, update) = (change.position, change.time_to_update_us);
        let (repair, entries) = (change.time_to_repair_us, change.entries_in_words());
        text += &format!(
            "change at packet {position}: {update:.1} us, {entries}, all right after {repair:.1} us\n"
        );
    }
    let (stale, checked) = (report.stale_packets, report.checked_packets);
    text += &format!("stale packets: {stale} of {checked} compared with the interpreter\n");
    text += &report.lookups.text();
    text += &report.counters.text();
    text.truncate(text.trim_end().len());
    text
}

/// Groups traversals by their tables; those that differ only in what rules wrote become one.
fn report_traversals(views: Vec<TraversalView>) -> Vec<TraversalReport> {
    let mut known: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    for view in views {
        let tables = view.tables.iter().map(|table| table.number()).collect();
        let (entries, packets) = known.entry(tables).or_default();
        *entries += view.entries;
        *packets += view.packets;
    }
    let reports = known.into_iter();
    let reports = reports.map(|(tables, (entries, packets))| TraversalReport {
        tables,
        entries,
        packets,
    });
    let mut reports: Vec<TraversalReport> = reports.collect();
    reports.sort_by_key(|report| Reverse((report.entries, report.packets)));
    reports
}

fn describe_traversals(traversals: &[TraversalReport]) -> String {
    let mut text = String::new();
    for traversal in traversals.iter().take(TRAVERSALS_SHOWN) {
        let way = describe_traversal(&traversal.tables);
        let entries = counted(traversal.entries, "entry");
        let packets = counted(traversal.packets, "packet");
        text += &format!("traversal {way}: {entries}, {packets}\n");
    }
    if let Some(more) = traversals.len().checked_sub(TRAVERSALS_SHOWN + 1) {
        let more = more + 1;
        text += &format!("{more} more traversals; --json has them\n");
    }
    text
}

fn report_removal(removal: &Removal) -> RemovalReport {
    RemovalReport {
        rule: removal.flow.to_string(),
        reason: match removal.reason {
            RemovalReason::IdleTimeout => "idle_timeout",
            RemovalReason::HardTimeout => "hard_timeout",
            RemovalReason::Deleted => "delete",
            RemovalReason::GroupDeleted => "group_delete",
            RemovalReason::MeterDeleted => "meter_delete",
            RemovalReason::Evicted => "eviction",
        },
        packets: removal.counters.packets,
        bytes: removal.counters.bytes,
        duration_ms: removal.duration.as_millis() as u64,
    }
}

/// Counts sent packets, and writes one capture per port if a directory is given.
struct Outputs {
    directory: Option<PathBuf>,
    captures: BTreeMap<String, CaptureOutput>,
    counts: BTreeMap<String, u64>,
}

impl Outputs {
    fn new(directory: Option<&Path>) -> Result<Outputs> {
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory).map_err(|error| {
                let place = directory.display();
                bad_input(format!(
                    "--out {place}: {error}; name a folder that exists or can be made"
                ))
            })?;
        }
        let directory = directory.map(Path::to_owned);
        Ok(Outputs {
            directory,
            captures: BTreeMap::new(),
            counts: BTreeMap::new(),
        })
    }

    fn write(&mut self, port: &str, packet: &Packet, now: Instant) -> Result<()> {
        *self.counts.entry(port.to_owned()).or_insert(0) += 1;
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        if !self.captures.contains_key(port) {
            let path = directory.join(format!("{port}.pcap"));
            let capture = CaptureOutput::create(&path)?;
            self.captures.insert(port.to_owned(), capture);
        }
        let capture = self.captures.get_mut(port).expect("it was just made");
        capture.write_packet(packet, now)
    }

    fn finish(self) -> Result<BTreeMap<String, u64>> {
        for capture in self.captures.into_values() {
            capture.finish()?;
        }
        Ok(self.counts)
    }
}
