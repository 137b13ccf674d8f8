//! What the busy entries say of the switch, as one JSON object for the dashboard: packets from
//! table to table, the entries themselves, and the last that drop.
//!
//! ```text
//!   port --> table --> table --> port, drop, controller        nodes, with edges between them
//!                        |
//!                        +-- looked up again --> table ...
//! ```
//!
//! 1. An edge has the packets of the kept entries whose walk went along it, each entry's since it
//!    was made. An edge between tables leads to the table that was looked up next.
//! 2. Entries do not count by the layer that answered. The packet for which an entry was made is
//!    of the slow path. The others are told apart by their entry: whether flows of the exact-match
//!    cache lead to it now (`microflow`) or none do (`megaflow`).
//! 3. Tables count all their packets, also those of entries that are gone or were not kept.

mod graph;

use std::collections::HashMap;

use serde_json::{Value, json};
use thalweg_packet::standard as f;
use thalweg_pipeline::Pipeline;
use thalweg_switch::{EntryPlace, Megaflows, SlicedEntry, Switch};

use self::graph::WalkGraph;
use super::drops::packet_text;
use super::entries::walk_again;
use super::flows::{FlowStyle, FlowView};
use super::scan::EntryScan;
use crate::trace::{TraceNames, steps_text};

/// Most entries that are shown.
const TALKERS: usize = 50;

/// The picture of a finished scan.
pub fn picture_text(switch: &mut Switch, names: &dyn TraceNames, scan: &EntryScan) -> String {
    // Tables count what was settled.
    drop(switch.totals());
    let context = scan.context(switch);
    let view = FlowView::new(switch, names, &context, FlowStyle::default());
    let pipeline = switch.pipeline();
    let entries = scan.busiest.iter();
    let talkers = entries.clone().take(TALKERS);
    let talkers = talkers.map(|entry| {
        let packet = packet_text(&pipeline, names, &context, &entry.report);
        talker(&view, names, entry, packet)
    });
    let talkers: Vec<Value> = talkers.collect();
    let mut graph = WalkGraph::new(&pipeline, names);
    // Walks that go on begin where an earlier one ended, so the first passes come first.
    let pass = |entry: &&SlicedEntry| recirculation(&context, entry) != 0;
    let (later, first): (Vec<_>, Vec<_>) = entries.partition(pass);
    for entry in first.into_iter().chain(later) {
        let number = recirculation(&context, entry);
        graph.add(entry, number, &context, layer_of(&scan.exact, entry));
    }
    let drops = scan.droppers.iter();
    let drops: HashMap<&str, Value> = drops
        .map(|(reason, entry)| (*reason, sample(&pipeline, names, &context, entry)))
        .collect();
    let object = json!({
        "seconds": context.now.as_nanos() as f64 / 1e9,
        "entries": scan.seen,
        "kept": scan.busiest.len(),
        "single": scan.single,
        "talkers": talkers,
        "drops": drops,
        "graph": graph.object(),
    });
    object.to_string()
}

/// The number of the walk that an entry goes on with; 0 for none.
fn recirculation(context: &Megaflows, entry: &SlicedEntry) -> u32 {
    let number = context.layout.get(&entry.report.key, f::RECIRC_ID);
    number.unwrap_or(0) as u32
}

/// The first cache in which an entry's packets may be found now (invariant 2).
fn layer_of(exact: &HashMap<EntryPlace, u32>, entry: &SlicedEntry) -> &'static str {
    match exact.contains_key(&entry.place) {
        true => "microflow",
        false => "megaflow",
    }
}

/// An entry, and the packet for which it was made, if that was kept.
fn talker(
    view: &FlowView<'_>,
    names: &dyn TraceNames,
    entry: &SlicedEntry,
    packet: Option<String>,
) -> Value {
    let flow = view.show(&entry.report);
    json!({
        "id": format!("{:032x}.{}", flow.identifier, entry.place.worker),
        "port": names.port_name(flow.in_port),
        "flow": flow.key,
        "packets": entry.report.counters.packets,
        "bytes": entry.report.counters.bytes,
        "packet": packet,
        "actions": flow.actions,
    })
}

/// The packet for which a dropping entry was made, how long ago the last came, and its walk.
fn sample(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    context: &Megaflows,
    entry: &SlicedEntry,
) -> Value {
    let report = &entry.report;
    let unused_for = report.used_at.map(|used_at| context.now - used_at);
    let pass = walk_again(pipeline, context, report);
    let steps = pass.map(|pass| steps_text(pipeline, names, &pass.translation.trace));
    json!({
        "packet": packet_text(pipeline, names, context, report),
        "unused_seconds": unused_for.map(|unused_for| unused_for.as_secs_f64()),
        "steps": steps,
    })
}
