//! The entries that packets use now, and which packets make entries, as one JSON object
//! (`thalweg/talkers`).
//!
//! It costs what all entries cost: each worker copies them, whatever the limit is. The limit
//! bounds the text.
//!
//! 1. An entry is of now if a packet used it in the last [`RECENT`].
//! 2. A packet that no cache answers makes an entry. So entries are counted by their port and
//!    mask: a port and mask with many entries, most of which met no second packet, are those for
//!    which the tables are walked.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use thalweg_packet::standard as f;
use thalweg_pipeline::{Pipeline, StepKind};
use thalweg_switch::{MegaflowReport, Megaflows, Switch};

use super::entries::walk_again;
use super::flows::{ENTRIES_MAX, FlowStyle, FlowView};
use super::selection::FlowSelection;
use crate::trace::TraceNames;

/// Invariant 1.
const RECENT: Duration = Duration::from_secs(60);
/// Entries that are shown if the command does not say.
const LIMIT: usize = 100;
/// Most ports and masks that are shown.
const MAKERS: usize = 10;

/// The entries that a command asks for, most packets first: `[filter=..] [limit=N]`.
///
/// # Errors
/// If an argument is none of these.
pub fn talkers_text(
    switch: &mut Switch,
    names: &dyn TraceNames,
    arguments: &[String],
) -> Result<String, String> {
    let (mut selection, mut limit) = (FlowSelection::default(), LIMIT);
    for argument in arguments {
        match argument.strip_prefix("limit=") {
            Some(number) => {
                let number = number.parse();
                limit = number.map_err(|_| format!("{argument}: limit= takes a number"))?;
            }
            None => selection.take(argument, &[])?,
        }
    }
    let mut megaflows = switch.megaflows(ENTRIES_MAX);
    let in_order = |entry: &MegaflowReport| Reverse(entry.counters.packets);
    megaflows.entries.sort_by_key(in_order);
    let view = FlowView::new(switch, names, &megaflows, FlowStyle::default());
    let seconds = megaflows.now.as_nanos() as f64 / 1e9;
    let recent = megaflows.entries.iter().filter_map(|entry| {
        let unused_for = megaflows.now - entry.used_at?;
        (unused_for <= RECENT).then_some((entry, unused_for))
    });
    let shown = recent.filter_map(|(entry, unused_for)| {
        let flow = view.show(entry);
        selection
            .has(names, &flow, None)
            .then_some((entry, flow, unused_for))
    });
    let talkers = shown.take(limit).map(|(entry, flow, unused_for)| {
        json!({
            "id": format!("{:032x}", flow.identifier),
            "port": names.port_name(flow.in_port),
            "flow": flow.key,
            "packets": entry.counters.packets,
            "bytes": entry.counters.bytes,
            "unused_seconds": unused_for.as_secs_f64(),
            "actions": flow.actions,
        })
    });
    let talkers: Vec<Value> = talkers.collect();
    let makers = makers(&switch.pipeline(), names, &megaflows, &view);
    let object = json!({"seconds": seconds, "talkers": talkers, "makers": makers});
    Ok(object.to_string())
}

/// Entries of a port and a mask.
struct Maker<'a> {
    entries: u64,
    /// Those that met no packet but the one for which they were made.
    single: u64,
    /// One of them; the last of a sorted list has the fewest packets.
    example: &'a MegaflowReport,
}

/// Invariant 2: the ports and masks with the most entries, each with an example and the rules of
/// its walk.
fn makers(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    megaflows: &Megaflows,
    view: &FlowView<'_>,
) -> Vec<Value> {
    let mut by_mask: HashMap<(Option<u128>, &[u64]), Maker<'_>> = HashMap::new();
    for entry in &megaflows.entries {
        let port = megaflows.layout.get(&entry.key, f::IN_PORT);
        let maker = by_mask.entry((port, &entry.mask)).or_insert(Maker {
            entries: 0,
            single: 0,
            example: entry,
        });
        maker.entries += 1;
        maker.single += u64::from(entry.counters.packets == 0);
        maker.example = entry;
    }
    let mut makers: Vec<_> = by_mask.into_iter().collect();
    makers.sort_by_key(|((port, mask), maker)| {
        (Reverse((maker.single, maker.entries)), *port, mask.to_vec())
    });
    makers.truncate(MAKERS);
    let makers = makers.into_iter().map(|(_, maker)| {
        let flow = view.show(maker.example);
        let pass = walk_again(pipeline, megaflows, maker.example);
        let rules = pass.map(|pass| {
            let steps = pass.translation.trace.steps();
            let rules = steps.filter_map(|step| match step.kind {
                StepKind::Lookup { table, rule } => {
                    let flow = rule.and_then(|rule| pipeline.flow_of(rule));
                    let missed = || format!("table={}, no rule", table.number());
                    Some(flow.map_or_else(missed, |flow| format!("{flow:#}")))
                }
                _ => None,
            });
            rules.collect::<Vec<_>>()
        });
        json!({
            "port": names.port_name(flow.in_port),
            "entries": maker.entries,
            "single": maker.single,
            "example": flow.key,
            "rules": rules.unwrap_or_default(),
        })
    });
    makers.collect()
}
