//! `thalweg run`: the switch, in the foreground, until SIGINT or SIGTERM.
//!
//! ```text
//!   read configuration and rules; open ports; start workers; say `ready`
//!   until a signal ends it: look after stations, ports and timeouts
//!     SIGHUP: read the rules again; if they are well-formed, the difference is one change; so is
//!             the map of a fabric
//!   stop workers; print totals
//! ```
//!
//! With `--json` standard output is for the totals alone, so `ready` goes to standard error then.
//! A P4 program in place of rules is `p4`'s; for rules there is no controller yet: packets for it
//! are counted and dropped (`no_controller`).

mod p4;
mod report;
mod rules;
mod signals;
mod v2p;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_io::{PortConfig, PortKind, release_free_memory};
use thalweg_pipeline::text::Rules;
use thalweg_switch::{Switch, SwitchError, SwitchPort, replacement};

use self::report::{Done, Outcome};
pub(crate) use self::signals::{Signal, catch};
use crate::console::Console;
use crate::failure::{self, bad_input};

/// How long the switch waits for news at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// Changes that are remembered for the report.
const MAX_CHANGES: usize = 1_000;

/// What the command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The switch's configuration (TOML): its ports, rules files and caches
    config: PathBuf,
}

/// Runs the switch.
///
/// # Errors
/// If the configuration, a rules file or a port cannot be used.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let config = Configuration::read(&arguments.config).map_err(bad_input)?;
    if let Some(settings) = &config.p4 {
        return p4::execute(&config, settings, &signals::catch()?, console);
    }
    // The rules are read before anything is opened, so that a slip costs nothing.
    let rules = rules::read(&config)?;
    let signals = signals::catch()?;
    let ports: Vec<_> = config.ports.iter().map(open).collect::<Result<_>>()?;
    let change = rules.into_change();
    let mut limits = config.switch.clone();
    limits.v2p = v2p::part(&config)?;
    let switch = Switch::start_with(limits, ports, &change);
    let mut switch = switch.map_err(|error| match error {
        SwitchError::Rules(error) => rules::refused(&config, &change, &error),
        error @ SwitchError::System { .. } => anyhow::Error::new(error),
        error @ SwitchError::FewPackets { .. } => {
            let path = arguments.config.display();
            bad_input(format!(
                "{path}: {error}; raise packets_per_worker in [limits]"
            ))
        }
        error => bad_input(error),
    })?;
    drop(change);
    release_free_memory();
    signals.interrupt(switch.interrupter());
    let mut running = Running {
        started: Instant::now(),
        changes: Vec::new(),
        no_controller: 0,
    };
    let text = format!(
        "ready {} with {} ports, {} rules, {} workers",
        config.name,
        config.ports.len(),
        running.rule_count(&switch),
        config.switch.workers
    );
    announce(console, &text)?;
    loop {
        switch.poll(PATIENCE);
        running.no_controller += switch.take_packet_ins().len() as u64;
        drop(switch.take_removals());
        match signals.next() {
            Some(Signal::End) => break,
            Some(Signal::Reload) => {
                v2p::reload(&config, &switch);
                running.reload(&config, &mut switch, console);
            }
            None if config.ends_when_finished && switch.is_finished() => break,
            None => {}
        }
    }
    let totals = switch.stop();
    running.no_controller += switch.take_packet_ins().len() as u64;
    let outcome = Outcome {
        config: &config,
        seconds: running.started.elapsed().as_secs_f64(),
        totals: &totals,
        changes: &running.changes,
        no_controller: running.no_controller,
        pipeline: &switch.pipeline(),
    };
    report::print(&outcome, console)
}

/// What is remembered of a run.
struct Running {
    started: Instant,
    changes: Vec<Done>,
    no_controller: u64,
}

impl Running {
    /// Puts rules in place of all that are there.
    fn replace(
        &mut self,
        config: &Configuration,
        switch: &mut Switch,
        rules: Rules,
    ) -> Result<Done> {
        let position = switch.totals().datapath.packets;
        let change = replacement(&switch.pipeline(), rules.flows, rules.groups);
        let affected = switch.settle().affected();
        let start = Instant::now();
        let delta = switch.apply(&change);
        let delta = delta.map_err(|error| rules::refused(config, &change, &error))?;
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

    /// Reads the rules again; those that cannot be used change nothing.
    fn reload(&mut self, config: &Configuration, switch: &mut Switch, console: &Console) {
        let done = rules::read(config).and_then(|rules| self.replace(config, switch, rules));
        release_free_memory();
        match done {
            Ok(done) => {
                let text = format!(
                    "reloaded {} rules: {} added, {} removed, {:.1} us until all workers followed",
                    self.rule_count(switch),
                    done.added,
                    done.removed,
                    done.time_to_update.as_secs_f64() * 1e6
                );
                // Packets pass whether or not somebody still reads this.
                let _ = announce(console, &text);
            }
            Err(error) => {
                let text = first_line(&failure::text_of(&error));
                eprintln!("thalweg: the rules stay as they were: {text}");
            }
        }
    }

    fn rule_count(&self, switch: &Switch) -> usize {
        let pipeline = switch.pipeline();
        pipeline.rule_count(pipeline.version())
    }
}

fn open(config: &PortConfig) -> Result<SwitchPort> {
    let refused = |error: thalweg_io::Error| {
        let text = format!("port {} ({}): {error}", config.number, config.name);
        match error {
            thalweg_io::Error::NotPermitted { .. } | thalweg_io::Error::System { .. } => {
                anyhow::anyhow!(text)
            }
            _ => bad_input(text),
        }
    };
    let port = thalweg_io::open(config).map_err(refused)?;
    let is_source = match config.kind {
        PortKind::Memory => false,
        PortKind::Pcap => config.read.is_some(),
        _ => true,
    };
    Ok(SwitchPort {
        number: config.number,
        port,
        is_source,
    })
}

/// One line of news for one reload; a text has a line for each of its faults.
fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    match lines.count() {
        0 => first.to_owned(),
        1 => format!("{first} (and 1 more fault)"),
        more => format!("{first} (and {more} more faults)"),
    }
}

/// Says what others may wait for.
pub(crate) fn announce(console: &Console, text: &str) -> Result<()> {
    if console.is_json() {
        eprintln!("{text}");
        return Ok(());
    }
    console.print(text)
}
