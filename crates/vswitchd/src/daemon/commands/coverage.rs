//! Counters of events (`coverage/*`), under the names of Open vSwitch where it has the same.

use thalweg_switch::Totals;
use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Entry] = &[
    (ControlCommand::new("coverage/show", "", 0, 0), show),
    (
        ControlCommand::new("coverage/read-counter", "COUNTER", 1, 1),
        read,
    ),
];

/// The names of drops for which Open vSwitch has names, by ours.
const DROPS: [(&str, &str); 9] = [
    ("recursion_too_deep", "drop_action_recursion_too_deep"),
    ("too_much_work", "drop_action_too_many_resubmit"),
    ("too_many_lookups", "drop_action_too_many_resubmit"),
    ("stack_too_deep", "drop_action_stack_too_deep"),
    ("too_many_effects", "drop_action_congestion"),
    ("meter", "datapath_drop_meter"),
    ("too_many_passes", "datapath_drop_recirc_error"),
    ("runt", "datapath_drop_rx_invalid_packet"),
    ("giant", "datapath_drop_rx_invalid_packet"),
];

/// Drops of rules, which have one name in Open vSwitch.
const BY_RULES: [&str; 16] = [
    "table_miss",
    "action",
    "input_port",
    "no_such_port",
    "ttl_expired",
    "no_live_bucket",
    "no_such_group",
    "reserved_address",
    "vlan_not_allowed",
    "no_port_in_vlan",
    "protected_port",
    "mirror_port",
    "too_long",
    "fragment",
    "no_live_member",
    "not_cut",
];

fn show(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let totals = daemon.switch.totals();
    let mut lines = vec!["Event coverage".to_owned()];
    for (name, count) in counters(&totals) {
        lines.push(format!("{name:<32} total: {count}"));
    }
    Ok(lines.join("\n"))
}

fn read(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let totals = daemon.switch.totals();
    let mut counters = counters(&totals).into_iter();
    let found = counters.find(|(name, _)| *name == arguments[0]);
    let (_, count) = found.ok_or("No such counter")?;
    Ok(count.to_string())
}

/// All counters, in the order of their names.
fn counters(totals: &Totals) -> Vec<(&'static str, u64)> {
    let stations = totals.stations;
    let mut counters = vec![
        ("datapath_packets", totals.datapath.packets),
        ("mac_learning_evicted", stations.evicted),
        ("mac_learning_expired", stations.expired),
        ("mac_learning_learned", stations.learned),
        ("mac_learning_moved", stations.moved),
        ("mac_learning_static_none_move", stations.kept),
        ("own_changes", totals.own_changes),
        ("upcalls", totals.datapath.upcalls),
    ];
    let drops = totals.drops();
    let dropped = |name: &str| drops.get(name).copied().unwrap_or(0);
    let by_rules = BY_RULES.iter().map(|name| dropped(name)).sum();
    counters.push(("drop_action_of_pipeline", by_rules));
    for (ours, name) in DROPS {
        match counters.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += dropped(ours),
            None => counters.push((name, dropped(ours))),
        }
    }
    // Drops without a name there have ours.
    for (name, count) in &drops {
        let is_named = DROPS.iter().any(|(ours, _)| ours == name) || BY_RULES.contains(name);
        if !is_named {
            counters.push((name, *count));
        }
    }
    counters.sort_unstable();
    counters
}
