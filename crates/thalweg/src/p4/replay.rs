//! `thalweg replay --p4`: sends captures through a P4 program.
//!
//! The interpreter handles every packet, or the cache that `--p4-cache` puts in front of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use thalweg_p4::{DropReason, Fault, Outbox, Target};

use crate::captures::{CutsReport, Sources};
use crate::p4::CacheReport;
use thalweg_command::console::Console;
use thalweg_command::lookups::IndexReport;
use thalweg_command::number::counted;
use thalweg_command::output::CaptureOutput;

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    /// Seed of the packet hash tables.
    seed: u64,
    packets: u64,
    /// What the captures lack.
    #[serde(flatten)]
    cuts: CutsReport,
    outputs: BTreeMap<u32, u64>,
    drops: BTreeMap<&'static str, u64>,
    /// Faults of the program, which had no effect.
    faults: BTreeMap<&'static str, u64>,
    digests: u64,
    /// Tables that may choose or train their index, by name.
    tables: BTreeMap<String, IndexReport>,
    /// The caches by name; empty without a cache.
    caches: BTreeMap<&'static str, CacheReport>,
}

/// Sends the captures through the program. Packets sent by port N go to `N.pcap` in the folder
/// `out`.
///
/// # Errors
/// If a capture cannot be read or written.
pub(crate) fn replay(
    mut target: Target,
    mut sources: Sources,
    out: Option<&Path>,
    console: &Console,
) -> Result<()> {
    let directory: Option<PathBuf> = out.map(Path::to_owned);
    if let Some(directory) = &directory {
        std::fs::create_dir_all(directory)?;
    }
    let mut captures: BTreeMap<u32, CaptureOutput> = BTreeMap::new();
    let mut outputs: BTreeMap<u32, u64> = BTreeMap::new();
    let mut outbox = Outbox::new();
    let progress = console.progress(sources.size_bytes);
    while let Some(packet) = sources.next()? {
        progress.set_position(sources.read_bytes);
        let now = packet.received_at();
        outbox.clear();
        target.receive(packet.in_port().0, packet.bytes(), now, &mut outbox);
        target.train();
        for sent in outbox.sent() {
            *outputs.entry(sent.port).or_default() += 1;
            let Some(directory) = &directory else {
                continue;
            };
            let capture = match captures.entry(sent.port) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(place) => {
                    let path = directory.join(format!("{}.pcap", sent.port));
                    place.insert(CaptureOutput::create(&path)?)
                }
            };
            capture.write(sent.bytes, now)?;
        }
    }
    progress.finish_and_clear();
    sources.warn_of_cuts();
    for (_, capture) in captures {
        capture.finish()?;
    }
    let tables = indexes(&mut target);
    let counts = target.counts();
    let behaviors = target.behavior_counts();
    let behaviors = behaviors.map(|counts| (counts, target.behavior_count()));
    let caches = CacheReport::all(target.cache_statistics(), behaviors);
    let drops = DropReason::ALL.map(|reason| (reason.name(), counts.drops(reason)));
    let faults = Fault::ALL.map(|fault| (fault.name(), counts.faults(fault)));
    let report = Report {
        seed: target.index_seed(),
        packets: counts.received,
        cuts: sources.cuts(),
        outputs,
        drops: drops.into_iter().filter(|(_, count)| *count > 0).collect(),
        faults: faults.into_iter().filter(|(_, count)| *count > 0).collect(),
        digests: counts.digests,
        tables,
        caches,
    };
    console.print(&describe(&report))?;
    console.print_json(&report)
}

/// The indexes of tables that have a choice.
fn indexes(target: &mut Target) -> BTreeMap<String, IndexReport> {
    let program = target.program().clone();
    let state = target.state();
    let tables = program.tables.iter().filter_map(|table| {
        let choice = state.choice(program.find_table(&table.name)?)?;
        Some((table.name.clone(), IndexReport::new(&choice)))
    });
    tables.collect()
}

fn describe(report: &Report) -> String {
    let mut text = format!(
        "{}, seed {}\n",
        counted(report.packets, "packet"),
        report.seed
    );
    for (port, packets) in &report.outputs {
        text += &format!("  port {port}: {packets} sent\n");
    }
    for (reason, packets) in &report.drops {
        text += &format!("  dropped, {reason}: {packets}\n");
    }
    for (fault, count) in &report.faults {
        text += &format!("  without effect, {fault}: {count}\n");
    }
    text += &format!("digests: {}", report.digests);
    for (name, table) in report.tables.iter().filter(|(_, table)| table.is_telling()) {
        text += &format!("\ntable {name}: {}", table.text());
    }
    for cache in report.caches.values() {
        text += &format!("\n{}", cache.text().trim_end());
    }
    text
}
