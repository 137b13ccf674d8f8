//! Reports the totals at the end of a run, or during it: where every packet went.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use thalweg_config::Configuration;
use thalweg_datapath::CacheCounters;
use thalweg_io::PortStatus;
use thalweg_pipeline::Pipeline;
use thalweg_switch::Totals;

use crate::counters::CountersReport;
use thalweg_command::console::Console;
use thalweg_command::lookups::LookupsReport;
use thalweg_command::number::counted;

/// Rules in the JSON object, most used first.
const RULES_IN_JSON: usize = 1_000;

/// A rule change and its effects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Packets forwarded before it.
    pub(super) position: u64,
    /// Time until every worker followed it.
    pub(super) time_to_update: Duration,
    /// Cache entries that it repaired or evicted.
    pub(super) affected: u64,
    /// Rules that are new, or got other actions.
    pub(super) added: usize,
    /// Rules that are gone, or had other actions before.
    pub(super) removed: usize,
}

/// A finished run.
pub(super) struct Outcome<'a> {
    pub(super) config: &'a Configuration,
    pub(super) seconds: f64,
    pub(super) totals: &'a Totals,
    pub(super) changes: &'a [Done],
    /// Packets for a controller, which does not exist.
    pub(super) no_controller: u64,
    pub(super) pipeline: &'a Pipeline,
    /// Counters of OpenFlow; empty without it.
    pub(super) openflow: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Report {
    name: String,
    /// Seed of the packet hash tables.
    seed: u64,
    seconds: f64,
    packets: u64,
    outputs: BTreeMap<u32, u64>,
    drops: BTreeMap<&'static str, u64>,
    /// Packets and copies that rules gave a queue.
    queued: u64,
    caches: CachesReport,
    upcalls: u64,
    /// Packets answered by the rules, without an upcall.
    computed: u64,
    /// The work of training better indexes for tables.
    training: TrainingReport,
    /// How tables and caches are searched.
    lookups: LookupsReport,
    changes: Vec<ChangeReport>,
    own_changes: u64,
    ports: Vec<PortReport>,
    /// Ports that came and went during the run; a deleted interface's port is gone.
    ports_attached: u64,
    ports_detached: u64,
    ports_gone: u64,
    /// Counters of the fabric node; omitted without one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    v2p: BTreeMap<&'static str, u64>,
    /// Counters of OpenFlow; omitted without it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    openflow: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    counters: CountersReport,
}

#[derive(Serialize)]
struct TrainingReport {
    /// Long tasks that were done, and those for which no thread could be started at first.
    done: u64,
    refused: u64,
    slices: u64,
    /// The longest wait of the tables' readers.
    longest_slice_us: f64,
}

#[derive(Serialize)]
struct CachesReport {
    microflow: CacheReport,
    megaflow: CacheReport,
}

#[derive(Serialize)]
struct CacheReport {
    hits: u64,
    misses: u64,
    entries: usize,
}

#[derive(Serialize)]
struct ChangeReport {
    position: u64,
    time_to_update_us: f64,
    affected: u64,
    added: usize,
    removed: usize,
}

#[derive(Serialize)]
struct PortReport {
    number: u32,
    name: String,
    status: &'static str,
    received_packets: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
    drops: BTreeMap<&'static str, u64>,
}

/// Prints the outcome, as text or as one object.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn print(outcome: &Outcome<'_>, console: &Console) -> Result<()> {
    let report = Report::new(outcome);
    console.print_json(&report)?;
    console.print(&report.text())
}

/// The report as text, or as one object.
///
/// # Errors
/// If it cannot be written as JSON.
pub(super) fn text(outcome: &Outcome<'_>, is_json: bool) -> Result<String> {
    let report = Report::new(outcome);
    match is_json {
        true => Ok(serde_json::to_string_pretty(&report)?),
        false => Ok(report.text()),
    }
}

impl Report {
    fn new(outcome: &Outcome<'_>) -> Report {
        let totals = outcome.totals;
        let mut drops = totals.drops();
        if outcome.no_controller > 0 {
            drops.insert("no_controller", outcome.no_controller);
        }
        let changes = outcome.changes.iter().map(|done| ChangeReport {
            position: done.position,
            time_to_update_us: done.time_to_update.as_secs_f64() * 1e6,
            affected: done.affected,
            added: done.added,
            removed: done.removed,
        });
        let ports = ports(outcome);
        Report {
            name: outcome.config.name.clone(),
            seed: outcome.config.seed(),
            seconds: outcome.seconds,
            packets: totals.datapath.packets,
            outputs: ports
                .iter()
                .map(|port| (port.number, port.sent_packets))
                .collect(),
            drops,
            queued: totals.workers.queued,
            caches: CachesReport {
                microflow: cache(totals.datapath.microflow, totals.microflows),
                megaflow: cache(totals.datapath.megaflow, totals.megaflows),
            },
            upcalls: totals.datapath.upcalls,
            computed: totals.datapath.computed,
            training: TrainingReport {
                done: totals.training.done,
                refused: totals.training.refused,
                slices: totals.training.slices,
                longest_slice_us: totals.training.longest_slice.as_secs_f64() * 1e6,
            },
            lookups: LookupsReport::new(outcome.pipeline, &totals.caches, &totals.datapath),
            changes: changes.collect(),
            own_changes: totals.own_changes,
            ports,
            ports_attached: totals.plugs.attached,
            ports_detached: totals.plugs.detached,
            ports_gone: totals.plugs.gone,
            v2p: totals.v2p.clone(),
            openflow: outcome.openflow.clone(),
            counters: CountersReport::new(outcome.pipeline, RULES_IN_JSON),
        }
    }

    /// Describes the changes of ports and rules.
    fn changes_text(&self) -> String {
        let mut text = String::new();
        if self.ports_attached + self.ports_detached > 0 {
            text += &format!(
                "ports: {} attached and {} detached while it ran, {} of these gone\n",
                self.ports_attached, self.ports_detached, self.ports_gone
            );
        }
        text + &format!(
            "{}, {}, {} more by stations, ports and timeouts\n",
            counted(self.counters.rule_count(), "rule"),
            counted(self.changes.len(), "change"),
            self.own_changes
        )
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |said: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{said}");
        };
        let drops: u64 = self.drops.values().sum();
        line(format_args!(
            "{}: {} in {:.1} s, {drops} dropped, {}",
            self.name,
            counted(self.packets, "packet"),
            self.seconds,
            counted(self.upcalls, "upcall")
        ));
        for port in &self.ports {
            line(format_args!(
                "port {:>3} {:12} {:8}  received {:>12} packets {:>15} bytes  sent {:>12} packets \
                 {:>15} bytes",
                port.number,
                port.name,
                port.status,
                port.received_packets,
                port.received_bytes,
                port.sent_packets,
                port.sent_bytes
            ));
        }
        for (reason, packets) in &self.drops {
            line(format_args!("dropped {packets:>12} {reason}"));
        }
        for (name, count) in &self.v2p {
            line(format_args!("v2p {name:22} {count:>12}"));
        }
        for (name, count) in self.openflow.iter().filter(|(_, count)| **count > 0) {
            line(format_args!("openflow {name:22} {count:>12}"));
        }
        let caches = [
            ("microflow", &self.caches.microflow),
            ("megaflow", &self.caches.megaflow),
        ];
        for (name, cache) in caches {
            line(format_args!(
                "{name:9} {:>12} hits {:>12} misses {:>9} entries",
                cache.hits, cache.misses, cache.entries
            ));
        }
        text += &self.changes_text();
        text += &self.lookups.text();
        if self.training.done + self.training.refused > 0 {
            let TrainingReport {
                done,
                refused,
                longest_slice_us,
                ..
            } = self.training;
            text += &format!(
                "{done} indexes built or compared, {refused} threads refused; readers waited \
                 {longest_slice_us:.0} us at most\n"
            );
        }
        text += &self.counters.text();
        text.truncate(text.trim_end().len());
        text
    }
}

fn ports(outcome: &Outcome<'_>) -> Vec<PortReport> {
    let ports = outcome.totals.ports.iter().map(|port| {
        let mut configured = outcome.config.ports.iter();
        let known = configured.find(|known| known.number == port.number);
        let counters = &port.counters;
        let drops = counters.drops.iter();
        PortReport {
            number: port.number.0,
            name: known.map(|known| known.name.clone()).unwrap_or_default(),
            status: match port.status {
                PortStatus::Up => "up",
                PortStatus::Down => "down",
                PortStatus::Gone => "gone",
                PortStatus::Finished => "finished",
            },
            received_packets: counters.received_packets,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            sent_bytes: counters.sent_bytes,
            drops: drops
                .map(|(reason, count)| (reason.name(), count))
                .collect(),
        }
    });
    ports.collect()
}

fn cache(counters: CacheCounters, entries: usize) -> CacheReport {
    CacheReport {
        hits: counters.hits,
        misses: counters.misses,
        entries,
    }
}
