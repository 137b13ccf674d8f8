//! What became of connections, of learned rules, and of cache entries.

use thalweg_switch::Switch;

/// What happened to connections and to packets that were tracked.
pub fn tracking_text(switch: &Switch) -> String {
    let tracker = switch.tracker();
    let now = [
        ("connections", tracker.connection_count().into()),
        ("announced", tracker.expectation_count() as u64),
    ];
    let counters = tracker.counters();
    let lines = now.into_iter().chain(counters.each());
    let lines = lines.map(|(name, count)| format!("{:<24} {count:>12}", name.replace('_', " ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// What became of the rules that packets taught.
pub fn learning_text(switch: &mut Switch) -> String {
    let totals = switch.totals();
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
    lines.join("\n")
}

/// How the entries of the caches followed changes.
pub fn repairs_text(switch: &mut Switch) -> String {
    let totals = switch.totals();
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
    lines.join("\n")
}
