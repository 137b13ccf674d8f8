//! Commands about how packets are answered that no cache knows (`upcall/*`).

use std::fmt::Write;

use thalweg_pipeline::{Action, Change, Operation, Subfield};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::datapath::datapaths;
use crate::daemon::Daemon;
use crate::datapath_text::header_fields;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("upcall/disable-megaflows", "", 0, 0),
        disable_megaflows,
    ),
    (
        ControlCommand::new("upcall/enable-megaflows", "", 0, 0),
        enable_megaflows,
    ),
    (
        ControlCommand::new("upcall/disable-ufid", "", 0, 0),
        disable_identifiers,
    ),
    (
        ControlCommand::new("upcall/enable-ufid", "", 0, 0),
        enable_identifiers,
    ),
    (
        ControlCommand::new("upcall/set-flow-limit", "flow-limit-number", 1, 1),
        set_limit,
    ),
    (ControlCommand::new("upcall/show", "", 0, 0), show),
];

/// Has entries compare all headers of packets.
fn disable_megaflows(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    // Keys get all headers, also those that no rule reads.
    let all = header_fields().map(|(field, width)| Action::Push(Subfield::whole(field, width)));
    let foreseen = Change::one(Operation::Foresee(all.collect()));
    let applied = daemon.switch.apply(&foreseen);
    applied.map_err(|error| error.to_string())?;
    daemon.switch.set_megaflows_exact(true);
    Ok("megaflows disabled".to_owned())
}

fn enable_megaflows(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.switch.set_megaflows_exact(false);
    Ok("megaflows enabled".to_owned())
}

/// Flows are never dumped by identifiers alone here, so there is nothing to turn off.
fn disable_identifiers(_: &mut Daemon, _: &[String]) -> Result<String, String> {
    Ok("Datapath dumping tersely using UFID disabled".to_owned())
}

fn enable_identifiers(_: &mut Daemon, _: &[String]) -> Result<String, String> {
    Err("Datapath dumping tersely using UFID is not supported".to_owned())
}

/// Sets the most entries of each worker's wildcard cache.
fn set_limit(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let limit = arguments[0].parse().ok().filter(|limit| *limit > 0);
    let limit = limit.ok_or("the limit must be a number above 0")?;
    let limit = daemon.switch.set_megaflow_limit(limit);
    Ok(format!("set flow_limit number to {limit}"))
}

fn show(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let totals = daemon.switch.totals();
    let limit = daemon.switch.megaflow_limit();
    let mut text = String::new();
    for (kind, name) in datapaths(daemon) {
        let flows = totals.megaflows;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{kind}@{name}:\n  flows         : (current {flows}) (limit {limit})\n  \
             ufid enabled : false\n"
        );
    }
    Ok(text)
}
