//! Dropped packets: counts by reason, and the last packets that rules dropped.
//!
//! Nothing is recorded for this when a packet is dropped: an entry of the caches that drops
//! knows its packets' number, its last use, and the packet for which it was made. So the samples
//! are those of entries that still exist; drops of ports, workers and trackers have a count
//! only.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use thalweg_packet::{PortId, Receipt, standard as f};
use thalweg_pipeline::{DropReason, Effect, Pipeline};
use thalweg_switch::{MegaflowReport, Megaflows, Switch};

use super::entries::walk_again;
use super::flows::{ENTRIES_MAX, datapath_port};
use crate::datapath_text::{DatapathFlow, FlowWriter};
use crate::trace::{TraceNames, full_layout, steps_text};

/// Entries shown of each reason, the last used first.
const LAST: usize = 3;

/// How many packets and copies were dropped, by reason; behind each reason of rules, the last
/// entries that drop for it, each with a packet and the rules that it met.
pub fn drops_text(switch: &mut Switch, names: &dyn TraceNames) -> String {
    let drops = switch.totals().drops();
    if drops.is_empty() {
        return "nothing was dropped".to_owned();
    }
    let megaflows = switch.megaflows(ENTRIES_MAX);
    let by_reason = last_of(&megaflows);
    let pipeline = switch.pipeline();
    let mut text = String::new();
    for (reason, count) in drops {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:<24} {count:>12}", reason.replace('_', " "));
        for entry in by_reason.get(reason).into_iter().flatten() {
            text += &sample_text(&pipeline, names, &megaflows, entry);
        }
    }
    text
}

/// The entries that drop, by the reason's name: the last used of each.
fn last_of(megaflows: &Megaflows) -> BTreeMap<&'static str, Vec<&MegaflowReport>> {
    let mut by_reason: BTreeMap<&str, Vec<&MegaflowReport>> = BTreeMap::new();
    for entry in &megaflows.entries {
        let mut reasons = Vec::new();
        note_reasons(&entry.effects, &mut reasons);
        reasons.sort_unstable_by_key(|reason| reason.name());
        reasons.dedup();
        for reason in reasons {
            let known = by_reason.entry(reason.name()).or_default();
            let at = known.partition_point(|other| recency(other) <= recency(entry));
            known.insert(at, entry);
            known.truncate(LAST);
        }
    }
    by_reason
}

/// Orders entries from the last used.
pub(super) fn recency(entry: &MegaflowReport) -> Reverse<Option<thalweg_packet::Instant>> {
    Reverse(entry.used_at)
}

/// Notes why effects drop, also those on copies.
pub(super) fn note_reasons(effects: &[Effect], reasons: &mut Vec<DropReason>) {
    for effect in effects {
        if let Effect::Drop { reason, .. } = effect {
            reasons.push(*reason);
        }
        effect.lists().for_each(|list| note_reasons(list, reasons));
    }
}

/// A packet of an entry, how many there were, and the steps of their walk.
fn sample_text(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    megaflows: &Megaflows,
    entry: &MegaflowReport,
) -> String {
    // Its counters leave out the packet for which it was made.
    let mut text = match entry.counters.packets {
        0 => "    1 packet".to_owned(),
        more => format!("    {} packets", more + 1),
    };
    if let Some(used_at) = entry.used_at {
        let ago = (megaflows.now - used_at).as_secs_f64();
        let _ = write!(text, ", the last {ago:.3} s ago");
    }
    match packet_text(pipeline, names, megaflows, entry) {
        Some(packet) => {
            let _ = writeln!(text, ", such as {packet}");
        }
        None => text.push('\n'),
    }
    match walk_again(pipeline, megaflows, entry) {
        Some(pass) => {
            for line in steps_text(pipeline, names, &pass.translation.trace).lines() {
                let _ = writeln!(text, "      {line}");
            }
        }
        None => text += "      it goes on with a walk that an earlier pass froze\n",
    }
    text
}

/// The packet for which an entry was made, as `ofproto/trace` takes it; `None` if none was kept.
pub(super) fn packet_text(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    megaflows: &Megaflows,
    entry: &MegaflowReport,
) -> Option<String> {
    if entry.sample.is_empty() {
        return None;
    }
    let get = |field| megaflows.layout.get(&entry.key, field).unwrap_or(0) as u32;
    let receipt = Receipt {
        in_port: get(f::IN_PORT),
        recirculation_id: get(f::RECIRC_ID),
        ..Receipt::default()
    };
    let layout = full_layout(pipeline);
    let (sample, length) = (&entry.sample, entry.sample_length);
    let flow = DatapathFlow::of_packet(&layout, sample, length, &receipt)?;
    let ports = |port: PortId| datapath_port(names, port, false);
    Some(FlowWriter::new(&ports).packet().write(&flow))
}
