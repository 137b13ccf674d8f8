//! The entries of the caches, with the walk of each and the reason of each bit of its mask.
//!
//! Walks are made again, at the newest version: an entry is what the interpreter says of its key,
//! also after a repair. A repaired entry may keep bits that the walk does not need any more. The
//! entry of a later pass goes on with a walk that was frozen, which cannot be made again from its
//! key; it has its line only.

use std::cmp::Reverse;
use std::fmt::Write;

use thalweg_packet::standard as f;
use thalweg_pipeline::explain::mask_fields;
use thalweg_pipeline::{Pass, Pipeline, translate};
use thalweg_switch::{MegaflowReport, Megaflows, Switch};

use super::flows::{ENTRIES_MAX, FlowStyle, FlowView};
use super::selection::FlowSelection;
use crate::trace::{TraceNames, steps_text};

/// Entries that are explained if the command does not say.
const LIMIT: usize = 10;

/// The entries that a command asks for: `[-m] [--names] [filter=..] [limit=N]`; those with the
/// most packets first.
///
/// # Errors
/// If an argument is none of these.
pub fn explained_entries(
    switch: &mut Switch,
    names: &dyn TraceNames,
    arguments: &[String],
) -> Result<String, String> {
    let (mut style, mut selection) = (FlowStyle::default(), FlowSelection::default());
    let mut limit = LIMIT;
    for argument in arguments {
        if let Some(number) = argument.strip_prefix("limit=") {
            let number = number.parse();
            limit = number.map_err(|_| format!("{argument}: limit= takes a number"))?;
        } else if !style.take(argument) {
            selection.take(argument, &[])?;
        }
    }
    let totals = switch.totals();
    let mut megaflows = switch.megaflows(ENTRIES_MAX);
    let in_order = |entry: &MegaflowReport| Reverse(entry.counters.packets);
    megaflows.entries.sort_by_key(in_order);
    let view = FlowView::new(switch, names, &megaflows, style);
    let pipeline = switch.pipeline();
    let shown = megaflows.entries.iter();
    let mut shown = shown.filter_map(|entry| {
        let flow = view.show(entry);
        selection.has(names, &flow, None).then_some((entry, flow))
    });
    let mut text = format!(
        "microflows: {}\nmegaflows: {}, under {} masks\n",
        totals.microflows, totals.megaflows, totals.masks
    );
    for (entry, flow) in shown.by_ref().take(limit) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}", flow.line(""));
        match walk_again(&pipeline, &megaflows, entry) {
            Some(pass) => text += &reasons_text(&pipeline, names, &pass, &entry.mask),
            None => text += "  It goes on with a walk that an earlier pass froze.\n",
        }
    }
    // Without a selection the others need no look.
    let more = match selection.takes_all() {
        true => megaflows.entries.len().saturating_sub(limit),
        false => shown.count(),
    };
    if more > 0 {
        let _ = writeln!(text, "\n{more} more; name some by filter=, or raise limit=");
    }
    Ok(text)
}

/// The walk of an entry's key; `None` if it goes on with one that was frozen.
pub(super) fn walk_again(
    pipeline: &Pipeline,
    megaflows: &Megaflows,
    entry: &MegaflowReport,
) -> Option<Pass> {
    let recirculated = megaflows.layout.get(&entry.key, f::RECIRC_ID);
    (recirculated.unwrap_or(0) == 0).then(|| Pass {
        key: entry.key.clone(),
        translation: translate(pipeline, &entry.key, pipeline.version()),
    })
}

/// The steps of a walk, and what needed each field of the entry's mask.
fn reasons_text(pipeline: &Pipeline, names: &dyn TraceNames, pass: &Pass, mask: &[u64]) -> String {
    let mut text = String::new();
    for line in steps_text(pipeline, names, &pass.translation.trace).lines() {
        let _ = writeln!(text, "  {line}");
    }
    text += "  Why its mask has\n";
    for field in mask_fields(pipeline, pass, mask) {
        for line in field.text().lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}
