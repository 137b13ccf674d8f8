//! Commands that Open vSwitch does not have: why entries are as they are, why packets are
//! dropped, what became of connections and of learned rules, and how entries follow changes.

use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::trace::ARGUMENTS_MAX;
use crate::daemon::Daemon;
use crate::trace::{explain, why_drop};

const QUESTION: &str = "{[dp_name] odp_flow | bridge br_flow} [packet]";

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("thalweg/explain", QUESTION, 1, ARGUMENTS_MAX),
        explain_entry,
    ),
    (
        ControlCommand::new(
            "thalweg/why-drop",
            "[{[dp_name] odp_flow | bridge br_flow} [packet]]",
            0,
            ARGUMENTS_MAX,
        ),
        explain_drops,
    ),
    (
        ControlCommand::new("thalweg/connections", "", 0, 0),
        show_connections,
    ),
    (
        ControlCommand::new("thalweg/learning", "", 0, 0),
        show_learning,
    ),
    (
        ControlCommand::new("thalweg/repairs", "", 0, 0),
        show_repairs,
    ),
];

fn explain_entry(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let answer = explain(&daemon.switch.pipeline(), &daemon.bridges, arguments);
    answer.map_err(|refusal| refusal.to_string())
}

/// With a packet, why it is dropped; without, how many were, by reason.
fn explain_drops(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    if !arguments.is_empty() {
        let answer = why_drop(&daemon.switch.pipeline(), &daemon.bridges, arguments);
        return answer.map_err(|refusal| refusal.to_string());
    }
    let drops = daemon.switch.totals().drops();
    if drops.is_empty() {
        return Ok("nothing was dropped".to_owned());
    }
    let lines = drops
        .iter()
        .map(|(reason, count)| format!("{:<24} {count:>12}", reason.replace('_', " ")));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// What happened to connections and to packets that were tracked.
fn show_connections(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let tracker = daemon.switch.tracker();
    let now = [
        ("connections", tracker.connection_count().into()),
        ("announced", tracker.expectation_count() as u64),
    ];
    let counters = tracker.counters();
    let lines = now.into_iter().chain(counters.each());
    let lines = lines.map(|(name, count)| format!("{:<24} {count:>12}", name.replace('_', " ")));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// What became of the rules that packets taught.
fn show_learning(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let totals = daemon.switch.totals();
    let (learning, workers) = (totals.learning, totals.workers);
    let rows = [
        ("rules learned", learning.learned),
        ("rules refreshed", learning.refreshed),
        (
            "refused: over the limit of a cookie",
            workers.rules_over_limit,
        ),
        ("refused: by the tables", learning.refused),
        ("refused: no room among the news", workers.lessons_refused),
        ("cookies deleted with their learners", learning.forgotten),
    ];
    let lines = rows.map(|(what, count)| format!("{what:<42} {count:>12}"));
    Ok(lines.join("\n"))
}

fn show_repairs(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let totals = daemon.switch.totals();
    let work = totals.maintenance;
    let rows = [
        ("version", totals.version.0),
        ("rules", totals.rules as u64),
        ("entries", totals.megaflows as u64),
        ("masks", totals.masks as u64),
        (
            "changes for stations, ports and timeouts",
            totals.own_changes,
        ),
        ("entries examined", work.examined),
        ("  right as they were", work.falsely_affected()),
        ("  repaired in place", work.repaired),
        ("  moved, as their region changed", work.moved),
        ("  evicted", work.evicted),
    ];
    let lines = rows.map(|(what, count)| format!("{what:<42} {count:>12}"));
    Ok(lines.join("\n"))
}
