//! `thalweg explain --pcap`: explains the entries that a capture leaves behind.
//!
//! ```text
//!   packets of all captures, in the order of their times
//!     before packet N: the changes whose position is N, each with the version that it makes
//!     caches answer
//!   for each entry: why its mask has what it has       (by a walk of its key now)
//!                   what would touch it
//!                   the version of its last repair     (which says the change), and the lookups
//! ```
//!
//! A repair keeps the bits that earlier walks read, so a mask can have bits that no step needs
//! now; they are marked. A repair also rules out a new rule by one bit, where a search would
//! read several; bits outside the mask are not listed. The entry of a later pass continues a
//! frozen walk that cannot be repeated here. For it, only its mask and its last repair are
//! shown.

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::Result;
use serde::Serialize;
use thalweg_datapath::{EntryView, LastRepair};
use thalweg_packet::{FieldId, standard as f};
use thalweg_pipeline::explain::{mask_fields, touches};
use thalweg_pipeline::text::{self, MegaflowStyle, Parser, PlacedChange};
use thalweg_pipeline::{Match, Pass, Pipeline, Version, translate};
use thalweg_switch::{Config, Engine};

use super::{Arguments, PassReport, describe};
use crate::captures::Sources;
use crate::change_text;
use crate::question::read_flow;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::input;
use thalweg_command::number::{PORTS, counted};
use thalweg_command::ports::PortNames;

/// Entries in the text, most packets first.
const ENTRIES_SHOWN: usize = 10;

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    packets: u64,
    version: u64,
    /// Entries in the cache.
    entries: usize,
    changes: Vec<ChangeReport>,
    /// The requested entries.
    explained: Vec<EntryReport>,
}

#[derive(Serialize)]
struct ChangeReport {
    position: u64,
    version: u64,
    what: String,
    affected: u64,
}

#[derive(Serialize)]
struct EntryReport {
    entry: u32,
    /// Packets answered since its counts were last credited to rules; a repair credits them.
    packets: u64,
    /// Whether lookups search its mask; otherwise only a walk finds it.
    is_searched: bool,
    #[serde(flatten)]
    pass: PassReport,
    last_repair: Option<RepairReport>,
}

#[derive(Serialize)]
struct RepairReport {
    version: u64,
    /// The change's number in the file, from 1; `None` if packets or timeouts caused it.
    change: Option<usize>,
    what: String,
    outcome: &'static str,
    lookups: u32,
    recalled: u32,
}

/// Explains the entries.
///
/// # Errors
/// If a file cannot be read, a rule is refused, or no such entry exists.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let names = arguments.rules.port_names()?;
    let flow = arguments.flow.as_deref();
    let selection = flow.map(|flow| read_flow(flow, &names)).transpose()?;
    let mut changes = match &arguments.changes {
        Some(path) => input::read_changes(path, &names)?,
        None => Vec::new(),
    };
    changes.sort_by_key(|change| change.position);
    let replayed = Replayed::new(arguments, &names, &changes, console)?;
    let engine = &replayed.engine;
    let mut views = engine.datapath().entries();
    let entries = views.len();
    views.retain(|view| replayed.is_asked_for(arguments, selection.as_ref(), view));
    if let (Some(entry), true) = (arguments.entry, views.is_empty()) {
        return Err(bad_input(format!(
            "--entry {entry}: there is no such entry that FLOW is about; without it, --json has \
             the numbers of all"
        )));
    }
    views.sort_by_key(|view| (Reverse(view.counters.packets), view.id.0));
    let explained = views.iter().map(|view| replayed.explain(view));
    let report = Report {
        packets: replayed.packets,
        version: engine.version().0,
        entries,
        explained: explained.collect(),
        changes: replayed.applied,
    };
    console.print(&text_of(&report))?;
    console.print_json(&report)
}

/// A switch after the captures were replayed through it.
struct Replayed {
    engine: Engine,
    packets: u64,
    applied: Vec<ChangeReport>,
    /// The index in `applied` of the change that made a version.
    by_version: HashMap<u64, usize>,
}

impl Replayed {
    fn new(
        arguments: &Arguments,
        names: &PortNames,
        changes: &[PlacedChange],
        console: &Console,
    ) -> Result<Replayed> {
        let mut sources = Sources::open(
            &arguments.pcap,
            names.port(&arguments.in_port, "--in-port")?.0,
            (PORTS, names),
            arguments.padded,
        )?;
        let rules = arguments.rules.read(names)?;
        let mut config = Config::default();
        config.datapath.maintainer = arguments.maintainer;
        let mut engine = Engine::new(config)?;
        let others = changes.iter().map(|placed| &placed.change);
        let (in_ports, start) = (sources.ports(), sources.start());
        input::load(
            &mut engine,
            (&arguments.rules, names),
            &rules,
            others,
            in_ports,
            start,
        )?;
        let mut replayed = Replayed {
            engine,
            packets: 0,
            applied: Vec::new(),
            by_version: HashMap::new(),
        };
        let mut changes = changes.iter().peekable();
        let progress = console.progress(sources.size_bytes);
        while let Some(packet) = sources.next()? {
            let now = packet.received_at();
            while let Some(due) = changes.next_if(|due| due.position <= replayed.packets) {
                replayed.apply(due, now)?;
            }
            progress.set_position(sources.read_bytes);
            replayed.engine.tick(now);
            replayed.engine.forward(&mut vec![packet], now);
            replayed.engine.outbox().recycle();
            replayed.packets += 1;
        }
        for late in changes {
            replayed.apply(late, sources.now)?;
        }
        // A lazy sweep may be unfinished.
        while replayed.engine.datapath().is_following() {
            replayed.engine.step();
        }
        progress.finish_and_clear();
        sources.warn_of_cuts();
        Ok(replayed)
    }

    fn apply(&mut self, placed: &PlacedChange, now: thalweg_packet::Instant) -> Result<()> {
        let update = self.engine.apply(&placed.change, now);
        let update = update.map_err(|error| {
            let place = format!("--changes: @{}", placed.position);
            input::refused(&placed.change, &error, [], &mut Parser::new()).context(place)
        })?;
        let version = update.delta.version.0;
        self.by_version.insert(version, self.applied.len());
        self.applied.push(ChangeReport {
            position: self.packets,
            version,
            what: change_text::describe(&placed.change),
            affected: update.work.affected(),
        });
        Ok(())
    }

    fn is_asked_for(
        &self,
        arguments: &Arguments,
        selection: Option<&Match>,
        view: &EntryView,
    ) -> bool {
        let is_it = arguments.entry.is_none_or(|entry| entry == view.id.0);
        let pipeline = self.engine.pipeline();
        is_it && selection.is_none_or(|selection| meets(&pipeline, view, selection))
    }

    fn explain(&self, view: &EntryView) -> EntryReport {
        let pipeline = self.engine.pipeline();
        EntryReport {
            entry: view.id.0,
            packets: view.counters.packets,
            is_searched: view.is_searched,
            pass: explain_region(&pipeline, view, self.engine.version()),
            last_repair: view.last_repair.map(|repair| self.report_repair(repair)),
        }
    }

    fn report_repair(&self, repair: LastRepair) -> RepairReport {
        let place = self.by_version.get(&repair.version.0).copied();
        let what = place.map(|place| {
            let change = &self.applied[place];
            format!("before packet {}: {}", change.position, change.what)
        });
        RepairReport {
            version: repair.version.0,
            change: place.map(|place| place + 1),
            what: what.unwrap_or_else(|| "what packets taught, or a timeout".to_owned()),
            outcome: repair.outcome.name(),
            lookups: repair.lookups,
            recalled: repair.recalled,
        }
    }
}

/// Whether some packet of the entry's region matches the flow.
fn meets(pipeline: &Pipeline, view: &EntryView, flow: &Match) -> bool {
    let layout = pipeline.layout();
    let get = |words: &[u64], field: FieldId| layout.get(words, field).unwrap_or(0);
    flow.terms().iter().all(|term| {
        let mask = get(&view.mask, term.field) & term.mask;
        (get(&view.key, term.field) ^ term.value) & mask == 0
    })
}

fn explain_region(pipeline: &Pipeline, view: &EntryView, version: Version) -> PassReport {
    let layout = pipeline.layout();
    let (key, mask) = (&view.key[..], &view.mask[..]);
    let mut report = PassReport {
        megaflow: text::print_megaflow(layout, key, mask, MegaflowStyle::OpenFlow),
        actions: text::print_effects(&view.effects, layout, key, mask),
        fields: Vec::new(),
        touched_by: Vec::new(),
        note: None,
    };
    if layout.get(key, f::RECIRC_ID).unwrap_or(0) != 0 {
        report.note = Some(
            "It goes on with a walk that an earlier pass froze; ask about one of its packets \
             without --pcap.",
        );
        return report;
    }
    let pass = Pass {
        key: key.to_vec(),
        translation: translate(pipeline, key, version),
    };
    report.fields = mask_fields(pipeline, &pass, mask);
    let dropped = pass.translation.mask.iter().zip(mask);
    let dropped: Vec<u64> = dropped.map(|(read, mask)| read & !mask).collect();
    report.touched_by = touches(pipeline, &pass.translation.trace, &dropped);
    report
}

fn text_of(report: &Report) -> String {
    let (packets, changes) = (report.packets, report.changes.len());
    let mut text = format!(
        "{} after {} and {}, at version {}\n\n",
        counted(report.entries, "entry"),
        counted(packets, "packet"),
        counted(changes, "change"),
        report.version
    );
    for entry in report.explained.iter().take(ENTRIES_SHOWN) {
        let packets = counted(entry.packets, "packet");
        text += &format!("Entry {}, {packets}\n", entry.entry);
        text += &repair_text(entry.last_repair.as_ref());
        if !entry.is_searched {
            text += "Not searched for: its mask is too rare among many, so a packet's walk leads to it\n";
        }
        text += &describe(&entry.pass);
        text += "\n";
    }
    if report.explained.is_empty() {
        text += "No entry is about these packets.\n";
    }
    if let Some(more) = report.explained.len().checked_sub(ENTRIES_SHOWN + 1) {
        let more = more + 1;
        text += &format!("{more} more entries; name some by FLOW or --entry, or see --json\n");
    }
    text.truncate(text.trim_end().len());
    text
}

fn repair_text(repair: Option<&RepairReport>) -> String {
    let Some(repair) = repair else {
        return "Never repaired\n".to_owned();
    };
    let change = repair
        .change
        .map_or(String::new(), |number| format!("change {number}, "));
    format!(
        "Last repaired at version {} ({change}{}): {}, {} lookups of which {} were still known\n",
        repair.version, repair.what, repair.outcome, repair.lookups, repair.recalled
    )
}
