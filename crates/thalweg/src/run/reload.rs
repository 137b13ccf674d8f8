//! SIGHUP: reads configuration, map and rules again, and applies the differences.
//!
//! ```text
//!   read the configuration     -- of what a start alone can change: say so, by key
//!   read all rules             -- ports of the new configuration have names
//!   open new ports, close those that are left out
//!   limits; the map of a fabric; the rules, of which the difference is one change
//! ```
//!
//! 1. An error in the configuration, the texts of the rules or a new port changes nothing.
//! 2. If the pipeline refuses the rules, the old rules stay; ports and limits are already new.

use std::time::Instant;

use anyhow::Result;
use thalweg_command::allocator::release_free_memory;
use thalweg_config::Configuration;
use thalweg_pipeline::text::Rules;
use thalweg_switch::{Switch, replacement};

use super::ports::{Pluggable, Replugged, replug};
use super::report::Done;
use super::{MAX_CHANGES, Running, rules, v2p};
use thalweg_command::console::Console;
use thalweg_command::failure::{bad_input, text_of};
use thalweg_command::number::counted;
use tracing::{error, info, warn};

use super::logging::module::RELOAD;

/// Reads a configuration again, and warns of changes that wait for the next start.
///
/// The result has the file's values, except for what only a start can change: that is copied
/// from `running`.
///
/// # Errors
/// If it cannot be used.
pub(super) fn read_again(path: &std::path::Path, running: &Configuration) -> Result<Configuration> {
    let next = Configuration::read(path).map_err(bad_input)?;
    // A drawn seed stays until the end of the run.
    let mut next = next.or_seed(running.seed());
    for key in next.keep_what_is_fixed(running) {
        warn!(target: RELOAD, "{key} has changed, which takes effect at the next start");
    }
    Ok(next)
}

impl Running {
    /// Reads everything again, logs and announces what came of it, and returns the same text; see
    /// invariant 1.
    ///
    /// # Errors
    /// What stays as it was, and why.
    pub(super) fn reload(
        &mut self,
        switch: &mut Switch,
        console: &Console,
    ) -> Result<String, String> {
        let configuration_stays = |error| staying("the configuration stays as it was", &error);
        let next = read_again(&self.path, &self.config).map_err(configuration_stays)?;
        let read = rules::read(&next);
        let read = read.map_err(|error| staying("the rules stay as they were", &error))?;
        let ports = self.take_over(next, switch).map_err(configuration_stays)?;
        v2p::reload(&self.config, switch);
        let done = self.replace(switch, read);
        release_free_memory();
        match done {
            Ok(done) => {
                self.snapshots.note_rules(&self.config);
                let text = format!(
                    "reloaded {}: {} added, {} removed, {:.1} us until all workers followed{}",
                    counted(self.rule_count(switch), "rule"),
                    done.added,
                    done.removed,
                    done.time_to_update.as_secs_f64() * 1e6,
                    of_ports(ports)
                );
                info!(target: RELOAD, "{text}");
                // The switch forwards whether or not this line is read.
                let _ = console.announce(&text);
                Ok(text)
            }
            Err(error) => {
                let what = format!("the rules stay as they were{}", of_ports(ports));
                Err(staying(&what, &error))
            }
        }
    }

    /// Applies ports and limits of another configuration, unless a port cannot be opened.
    fn take_over(&mut self, mut next: Configuration, switch: &mut Switch) -> Result<Replugged> {
        let ports = replug(&self.config.ports, &mut next.ports, switch)?;
        let limits = &next.switch.pipeline;
        switch.set_limits(limits.rules, limits.groups, limits.stations);
        self.config = next;
        Ok(ports)
    }

    /// Replaces all rules.
    fn replace(&mut self, switch: &mut Switch, rules: Rules) -> Result<Done> {
        let position = switch.totals().datapath.packets;
        let change = replacement(&switch.pipeline(), rules);
        let affected = switch.settle().affected();
        let start = Instant::now();
        let delta = switch.apply(&change);
        let delta = delta.map_err(|error| rules::refused(&self.config, &change, &error))?;
        let time_to_update = start.elapsed();
        let done = Done {
            position,
            time_to_update,
            affected: switch.settle().affected() - affected,
            added: delta.inserted.len(),
            removed: delta.removed.len(),
        };
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(done);
        }
        Ok(done)
    }
}

/// The same for a switch with a P4 program, whose entries come from its controller.
pub(super) fn reload_ports(
    path: &std::path::Path,
    running: &mut Configuration,
    switch: &mut impl Pluggable,
) {
    let next = read_again(path, running);
    let done = next.and_then(|mut next| {
        let ports = replug(&running.ports, &mut next.ports, switch)?;
        *running = next;
        Ok(ports)
    });
    match done {
        Ok(ports) => info!(
            target: RELOAD,
            "the configuration was read again{}",
            of_ports(ports)
        ),
        Err(error) => {
            staying("the configuration stays as it was", &error);
        }
    }
}

fn of_ports(ports: Replugged) -> String {
    match ports.added + ports.removed {
        0 => String::new(),
        _ => format!("; ports: {} added, {} removed", ports.added, ports.removed),
    }
}

/// Logs why something stays as it was, and returns the same text.
fn staying(what: &str, error: &anyhow::Error) -> String {
    let text = format!("{what}: {}", first_line(&text_of(error)));
    error!(target: RELOAD, "{text}");
    text
}

/// Shortens a text to one line for the log; it has one line per error.
fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    match lines.count() {
        0 => first.to_owned(),
        1 => format!("{first} (and 1 more fault)"),
        more => format!("{first} (and {more} more faults)"),
    }
}
