//! `thalweg run`: runs the switch in the foreground until SIGINT or SIGTERM.
//!
//! ```text
//!   read configuration and rules; open ports; start workers; say `ready`
//!   until a signal ends it: look after stations, ports and timeouts
//!     SIGHUP: read configuration, map and rules again; what is different takes effect (`reload`)
//!     SIGUSR1: say how things are, in a line
//!     a command of the control socket: answer it (`control`)
//!   stop workers; print totals
//! ```
//!
//! With `--json`, standard output carries only the totals, so `ready` goes to standard error.
//! News go to the log (`logging`).
//! The module `p4` runs a P4 program instead of rules. Without `[openflow]`, a switch has no
//! controller: packets for one are counted and dropped (`no_controller`).

mod control;
mod dashboard;
mod logging;
mod metrics;
mod openflow;
mod p4;
mod ports;
mod pressure;
mod privileges;
mod reload;
mod report;
mod rules;
mod snapshot;
mod system_calls;
mod v2p;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use thalweg_command::allocator::release_free_memory;
use thalweg_config::Configuration;
use thalweg_pipeline::{Change, Pipeline};
use thalweg_switch::{Switch, SwitchError, Totals};
use tracing::info;

use self::control::Control;
use self::dashboard::Dashboard;
use self::logging::module::RUN;
use self::logging::{LogArguments, Logging};
use self::metrics::Metrics;
use self::openflow::OpenFlow;
use self::ports::Following;
use self::pressure::Pressure;
use self::report::{Done, Outcome};
use self::snapshot::{Earlier, Snapshots};
use thalweg_command::console::{Console, log};
use thalweg_command::failure::bad_input;
use thalweg_command::memory;
use thalweg_command::number::counted;
use thalweg_command::seed;

use crate::signals::{self, Caught, Signal};

/// The longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(1);

/// Changes kept for the report.
const MAX_CHANGES: usize = 1_000;

/// Sizes to lower if a configuration needs too much memory.
const LOWER: &str = "lower packets_per_worker, packet_bytes or [cache.microflow] entries";

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The switch's configuration (TOML): its ports, rules files and caches
    config: PathBuf,
    #[command(flatten)]
    log: LogArguments,
}

/// Runs the switch.
///
/// # Errors
/// If the configuration, a rules file or a port cannot be used.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let logging = Logging::start(&arguments.log)?;
    let read = Configuration::read(&arguments.config).map_err(bad_input)?;
    let mut config = read.or_seed(seed::drawn());
    control::prepare(&mut config);
    memory::check(config.switch.bytes_at_start(), LOWER)?;
    if config.p4.is_some() {
        let signals = signals::catch()?;
        return p4::execute(&arguments.config, config, &logging, signals, console);
    }
    // Rules are read before anything is opened, so a mistake in them has no effects.
    let rules = rules::read(&config)?;
    let earlier = Earlier::read(&config)?;
    let signals = signals::catch()?;
    let opened = config
        .ports
        .iter()
        .map(ports::open)
        .collect::<Result<_>>()?;
    privileges::drop_unneeded(&arguments.config, &config)?;
    let signals = signals.watch()?;
    let change = match earlier.replaces_rules() {
        true => Change::default(),
        false => rules.into_change(),
    };
    let mut limits = config.switch.clone();
    limits.holds_packets = earlier.is_there();
    limits.starts_at = earlier.clock();
    limits.v2p = v2p::part(&config)?;
    let switch = Switch::start_with(limits, opened, &change);
    let refused = |error| not_started(error, &arguments.config, &config, &change);
    let mut switch = switch.map_err(refused)?;
    drop(change);
    release_free_memory();
    signals.interrupt(switch.interrupter());
    let services = Services::start(&config, &earlier, &mut switch)?;
    let snapshots = Snapshots::start(earlier, &config, &mut switch)?;
    let running = Running {
        path: arguments.config.clone(),
        config,
        started: Instant::now(),
        changes: Vec::new(),
        no_controller: 0,
        logging,
        snapshots,
    };
    let ready = running.ready_text(&switch);
    info!(target: RUN, "{ready}");
    console.announce(&ready)?;
    running.serve(switch, services, &signals, console)
}

/// The error message for a switch that does not start.
fn not_started(
    error: SwitchError,
    path: &Path,
    config: &Configuration,
    change: &Change,
) -> anyhow::Error {
    match error {
        SwitchError::Rules(error) => rules::refused(config, change, &error),
        error @ SwitchError::System { .. } => anyhow::Error::new(error),
        error @ SwitchError::FewPackets { .. } => bad_input(format!(
            "{}: {error}; raise packets_per_worker in [limits]",
            path.display()
        )),
        error => bad_input(error),
    }
}

/// What a run has beside its switch.
struct Services {
    openflow: OpenFlow,
    metrics: Metrics,
    dashboard: Dashboard,
    control: Control,
    following: Following,
    pressure: Pressure,
}

impl Services {
    /// Starts what the configuration asks for.
    ///
    /// # Errors
    /// If an address, a socket or a file cannot be used.
    fn start(config: &Configuration, earlier: &Earlier, switch: &mut Switch) -> Result<Services> {
        Ok(Services {
            openflow: OpenFlow::start(config, earlier.has_rules(), switch)?,
            metrics: Metrics::start(config, switch)?,
            dashboard: Dashboard::start(config, switch)?,
            control: Control::start(config, switch)?,
            following: Following::start(Some(switch.interrupter())),
            pressure: Pressure::new(),
        })
    }
}

/// State kept during a run.
struct Running {
    path: PathBuf,
    config: Configuration,
    started: Instant,
    changes: Vec<Done>,
    no_controller: u64,
    logging: Logging,
    snapshots: Snapshots,
}

impl Running {
    /// Looks after the switch until something ends the run, and prints the totals.
    ///
    /// # Errors
    /// If standard output cannot be written.
    fn serve(
        mut self,
        mut switch: Switch,
        mut services: Services,
        signals: &Caught,
        console: &Console,
    ) -> Result<()> {
        let mut wait = PATIENCE;
        loop {
            switch.poll(wait);
            self.no_controller += switch.take_packet_ins().len() as u64;
            drop(switch.take_removals());
            services.following.look(&self.config.ports, &mut switch);
            services.openflow.look();
            services.pressure.look(&mut switch);
            services.metrics.serve(&self.config, &mut switch);
            let has_more = services.dashboard.serve(&self.config, &mut switch);
            let Services {
                control, openflow, ..
            } = &mut services;
            let has_more = control.serve(&mut self, &mut switch, openflow, console) || has_more;
            wait = match has_more {
                true => Duration::ZERO,
                false => PATIENCE,
            };
            // Invariant 3 of `snapshot`.
            if openflow.has_begun()
                && let Some(rest) = self.snapshots.tend(&self.config, &mut switch)
            {
                wait = wait.min(rest);
            }
            match signals.next() {
                Some(Signal::End) => {
                    info!(target: RUN, "a signal ends the run");
                    break;
                }
                Some(Signal::Reload) => {
                    self.logging.reopen_or_say();
                    // What came of it is in the log.
                    let _ = self.reload(&mut switch, console);
                }
                Some(Signal::Report) => self.report(&mut switch),
                None if control.must_exit() => {
                    info!(target: RUN, "a command ends the run");
                    break;
                }
                None if self.config.ends_when_finished && switch.is_finished() => break,
                None => {}
            }
        }
        if services.openflow.has_begun() {
            self.snapshots.finish(&self.config, &mut switch);
        }
        let openflow = services.openflow.stop(&mut switch);
        let totals = switch.stop();
        services.control.stop();
        self.no_controller += switch.take_packet_ins().len() as u64;
        let pipeline = switch.pipeline();
        report::print(&self.outcome(&totals, &pipeline, openflow), console)
    }

    /// What the report has, given the totals and what OpenFlow has counted.
    fn outcome<'a>(
        &'a self,
        totals: &'a Totals,
        pipeline: &'a Pipeline,
        openflow: BTreeMap<&'static str, u64>,
    ) -> Outcome<'a> {
        Outcome {
            config: &self.config,
            seconds: self.started.elapsed().as_secs_f64(),
            totals,
            changes: &self.changes,
            no_controller: self.no_controller,
            pipeline,
            openflow,
        }
    }

    /// Logs the switch's state in one line, on SIGUSR1.
    fn report(&self, switch: &mut Switch) {
        let totals = switch.totals();
        let drops: u64 = totals.drops().values().sum();
        let present = self.config.ports.iter();
        let present = present.filter(|port| switch.has_port(port.number)).count();
        log(&format!(
            "{} for {:.1} s: {}, {drops} dropped, {}, {present} of {}",
            self.config.name,
            self.started.elapsed().as_secs_f64(),
            counted(totals.datapath.packets, "packet"),
            counted(totals.rules, "rule"),
            counted(self.config.ports.len(), "port"),
        ));
    }

    /// The line that says that the switch forwards.
    fn ready_text(&self, switch: &Switch) -> String {
        format!(
            "ready {} with {}, {}, {}, seed {}",
            self.config.name,
            counted(self.config.ports.len(), "port"),
            counted(self.rule_count(switch), "rule"),
            counted(self.config.switch.workers, "worker"),
            self.config.seed()
        )
    }

    fn rule_count(&self, switch: &Switch) -> usize {
        let pipeline = switch.pipeline();
        pipeline.rule_count(pipeline.version())
    }
}
