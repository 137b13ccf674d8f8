//! The daemon: one loop around the switch, the database and the control socket.
//!
//! ```text
//!   loop:  switch.poll         packets' news, timeouts, OpenFlow's calls
//!          database            what changed --> bridges follow --> what became of it
//!          control socket      commands, in their order
//!          time-outs           statistics, every few seconds
//! ```
//!
//! Everything that decides is on this one thread; workers, OpenFlow servers and readers of
//! sockets have theirs and wake it.
//!
//! 1. Without the database's lock nothing is configured and nothing written.
//! 2. One transaction is under way at a time. When it has ended, the next is made from the
//!    differences that remain, so that none is lost.
//! 3. `cur_cfg` is written in or after the transaction that has all that a configuration
//!    caused.

mod by_hand;
mod comeback;
mod commands;
mod configure;
mod dashboard;
mod flows;
mod metrics;
mod zones;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thalweg_control::openflow::{ControllerStatus, OpenFlowServer};
use thalweg_io::DummyHandle;
use thalweg_ovsdb::open_vswitch::{TABLES, root};
use thalweg_ovsdb::{DatabaseConfig, DatabaseEvent, TransactionId};
use thalweg_packet::{Instant, standard as f};
use thalweg_pipeline::{Action, Actions, Change, OVS_COMPARED, Operation, Subfield};
use thalweg_switch::{Interrupter, Switch, SwitchConfig};
use thalweg_unixctl::{ControlCommands, ControlRequest, LoopWaker};

use self::by_hand::FlowByHand;
use self::comeback::Comeback;
use self::commands::WorkerSums;
use self::dashboard::DaemonDashboard;
use self::metrics::DaemonMetrics;
use self::zones::ZonePolicies;
use crate::bridges::{Bridges, Complaint, Dummies, STATIONS_MAX, follow_options};
use crate::database::{DatabaseAddress, DatabaseLink, Waker};
use crate::log::{Log, LogLimit};
use crate::options::{DaemonOptions, DummyLevel, VERSION_TEXT};
use crate::process::{Process, Start, start};
use crate::vlog::{LogLevel, modules};

/// The longest wait for something to happen.
const NAP: Duration = Duration::from_millis(100);
/// A shorter one, for an answer that is due.
const SHORT_NAP: Duration = Duration::from_millis(1);
/// How often to look whether servers have had their turns.
const MEETING_ROUNDS: usize = 1_000;
/// The name of the lock that one daemon of a database holds.
const LOCK: &str = "ovs_vswitchd";
/// How often statistics are written if the database does not say.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes kept of the packet for which an entry was made: all headers, with IPv6 extensions.
const SAMPLE_BYTES: usize = 160;
/// Most packets of ports without a worker's attention, for each worker.
const PACKETS: usize = 16_384;

/// The running daemon.
pub(crate) struct Daemon {
    pub(crate) switch: Switch,
    pub(crate) bridges: Bridges,
    pub(crate) log: Log,
    link: DatabaseLink,
    /// The transaction under way.
    writing: Option<TransactionId>,
    /// Whether the rows or the bridges changed since the last report.
    must_follow: bool,
    must_report: bool,
    /// The configuration that the bridges follow.
    followed: Option<i64>,
    /// How often statistics are written, and when next.
    interval: Duration,
    next_statistics: Instant,
    /// When dummies look for those that they are joined to next.
    next_tending: std::time::Instant,
    /// When flows are dumped into the log next.
    next_dump: Instant,
    /// Whether `revalidator/pause` keeps entries of the caches.
    is_eviction_paused: bool,
    /// What the database says of `flow-limit`.
    flow_limit: Option<usize>,
    /// How often links had changed when they were written last.
    link_changes: u64,
    /// How the controllers of all bridges were when it was written last.
    controllers: Vec<ControllerStatus>,
    /// Time-outs of connections, as the tracker was told.
    zones: ZonePolicies,
    metrics: DaemonMetrics,
    dashboard: DaemonDashboard,
    /// Whether the dashboard has more to do at once.
    is_scanning: bool,
    comeback: Comeback,
    /// Flows that were put by hand, as long as the switch has them.
    by_hand: Vec<FlowByHand>,
    /// What workers had counted when that was cleared.
    sums_before: WorkerSums,
    /// The present complaints, so that each is logged once.
    complaints: BTreeSet<Complaint>,
    /// The folder that sockets of controllers must be in, if there is one.
    confined_to: Option<PathBuf>,
    /// Whether a configuration was followed and written: a parent may return.
    pub(crate) is_ready: bool,
    /// Whether a command asked it to end.
    pub(crate) must_exit: bool,
}

/// Runs the daemon with its arguments, without the program's name; returns its status.
///
/// The program must not have started a thread. With `--detach` it starts itself again.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match DaemonOptions::parse(arguments) {
        Ok(options) => options,
        Err(none) => return none.report(),
    };
    // The switch, which can be woken, starts after the process is what it will be.
    let bell: Arc<OnceLock<Interrupter>> = Arc::default();
    let of_process = bell.clone();
    let waker: LoopWaker = Arc::new(move || {
        if let Some(interrupter) = of_process.get() {
            interrupter.interrupt();
        }
    });
    let mut process = match start(&options, Daemon::commands(VERSION_TEXT), waker) {
        Start::Daemon(process) => process,
        Start::Ended(status) => return status,
    };
    let mut daemon = match Daemon::start(&options, process.log.clone()) {
        Ok(daemon) => daemon,
        Err(error) => {
            process.log.fatal(modules::VSWITCHD, &error);
            return ExitCode::FAILURE;
        }
    };
    let _ = bell.set(daemon.switch.interrupter());
    serve(&mut daemon, &mut process);
    process.end()
}

/// The loop; at its end the daemon has stopped.
fn serve(daemon: &mut Daemon, process: &mut Process) {
    while !process.should_exit() {
        daemon.round();
        if daemon.is_ready {
            process.ready();
        }
        while let Some(command) = process.control.next_command() {
            let reply = daemon.handle(&command.request);
            if daemon.must_exit {
                // When the client hears of it, sockets and devices are gone.
                daemon.stop();
                command.reply(reply);
                return;
            }
            command.reply(reply);
        }
    }
    daemon.stop();
}

/// Actions that read what a datapath's flows show also if no rule does, so that keys have it.
fn shown_fields() -> Actions {
    [Action::Push(Subfield::whole(f::VLAN_TCI, 16))].into()
}

impl Daemon {
    /// A daemon that has not looked into the database yet.
    ///
    /// # Errors
    /// If the switch cannot start or the database's address makes no sense.
    pub(crate) fn start(options: &DaemonOptions, log: Log) -> Result<Daemon, String> {
        let run = options.directories.run.clone();
        let address = match &options.database {
            Some(address) => address.parse()?,
            None => DatabaseAddress::Unix(run.join("db.sock")),
        };
        let confined_to = (!options.no_self_confinement).then(|| run.clone());
        let mut config = SwitchConfig {
            packets_per_worker: PACKETS,
            ..SwitchConfig::default()
        };
        config.pipeline.bridges = true;
        // Each bridge has a limit of its own, and no more than half of this.
        config.pipeline.stations = 2 * STATIONS_MAX;
        config.pipeline.compared = OVS_COMPARED;
        // Flows show all headers of the packet for which they were made.
        config.datapath.megaflow.sample_bytes = SAMPLE_BYTES;
        let foreseen = Change::one(Operation::Foresee(shown_fields()));
        let started = Switch::start_with(config, Vec::new(), &foreseen);
        let switch = started.map_err(|error| error.to_string())?;
        let interrupter = switch.interrupter();
        let waker: Waker = Arc::new(move || interrupter.interrupt());
        let database = DatabaseConfig::new("Open_vSwitch", TABLES);
        let mut link = DatabaseLink::new(database, address, waker);
        link.client().lock(LOCK);
        let dummies = match options.enable_dummy {
            None => Dummies::Off,
            Some(DummyLevel::Beside) => Dummies::Named,
            Some(DummyLevel::System) => Dummies::System,
            Some(DummyLevel::All) => Dummies::All,
        };
        let mut daemon = Daemon {
            switch,
            bridges: Bridges::new(dummies, run, log.clone()),
            log,
            link,
            writing: None,
            must_follow: false,
            must_report: false,
            followed: None,
            interval: STATISTICS_INTERVAL,
            next_statistics: Instant::ZERO,
            next_tending: std::time::Instant::now(),
            next_dump: Instant::ZERO,
            is_eviction_paused: false,
            flow_limit: None,
            link_changes: 0,
            controllers: Vec::new(),
            zones: ZonePolicies::default(),
            metrics: DaemonMetrics::default(),
            dashboard: DaemonDashboard::default(),
            is_scanning: false,
            comeback: Comeback::new(),
            by_hand: Vec::new(),
            sums_before: WorkerSums::default(),
            complaints: BTreeSet::new(),
            confined_to,
            is_ready: false,
            must_exit: false,
        };
        let follower = follow_options(&daemon.bridges.tunnels);
        daemon.switch.follow_tunnel_options(follower);
        daemon.follow_log();
        Ok(daemon)
    }

    /// The commands that it knows.
    pub(crate) fn commands(version: &str) -> ControlCommands {
        let mut commands = ControlCommands::new(version);
        commands::add_to(&mut commands);
        commands
    }

    /// One round of the loop; waits for at most [`NAP`] if nothing happens.
    pub(crate) fn round(&mut self) {
        let nap = match self.is_scanning {
            true => Duration::ZERO,
            false => NAP,
        };
        self.switch.poll(nap);
        self.log_upcalls();
        self.log_flushes();
        self.log_flows_in_time();
        self.tend_dummies();
        self.bridges.tend_tunnels(self.switch.now());
        self.metrics.serve(&self.bridges, &mut self.switch);
        self.is_scanning = self.dashboard.serve(&self.bridges, &mut self.switch);
        self.must_follow |= self
            .comeback
            .tend(&mut self.switch, &self.bridges, &self.log);
        self.follow_database();
    }

    /// Has dummies that are joined to others look for them.
    fn tend_dummies(&mut self) {
        let now = std::time::Instant::now();
        if now >= self.next_tending {
            self.next_tending = now + NAP;
            let bridges = self.bridges.by_name.values();
            let interfaces = bridges.flat_map(|bridge| bridge.interfaces.values());
            let devices = interfaces.filter_map(|interface| interface.device.as_ref());
            let dummies = devices.filter_map(|device| device.dummy.as_ref());
            dummies.for_each(DummyHandle::tend);
        }
    }

    /// The same without waiting.
    pub(crate) fn hurry(&mut self) {
        self.switch.poll(Duration::ZERO);
        self.log_upcalls();
        self.log_flushes();
        self.follow_database();
    }

    /// Has the OpenFlow servers look at the clock and at what the switch did, and waits for it.
    pub(crate) fn meet_servers(&mut self) {
        let bridges = self.bridges.by_name.values();
        let servers = bridges.filter_map(|bridge| bridge.server.as_ref());
        let turns: Vec<u64> = servers.map(OpenFlowServer::turns).collect();
        for round in 0..MEETING_ROUNDS {
            let bridges = self.bridges.by_name.values();
            let servers = bridges.filter_map(|bridge| bridge.server.as_ref());
            let late = servers.zip(&turns).filter(|(server, before)| {
                // One turn may have begun before.
                server.turns() < **before + 2
            });
            let late = late.inspect(|(server, _)| server.nudge()).count();
            if late == 0 {
                return;
            }
            // They may wait for the switch.
            let wait = if round < 100 {
                Duration::ZERO
            } else {
                SHORT_NAP
            };
            self.switch.poll(wait);
        }
    }

    /// Lets attempts to reach controllers end that are under way, but not after `end`.
    pub(crate) fn await_controllers(&mut self, end: std::time::Instant) {
        let is_attempting = |daemon: &Daemon| {
            let statuses = daemon.bridges.controllers();
            statuses.iter().any(|status| status.is_attempting)
        };
        while is_attempting(self) && std::time::Instant::now() < end {
            // A connection is noted, with the time, in a server's next turn.
            self.meet_servers();
            self.switch.poll(SHORT_NAP);
        }
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// If it cannot be done; the text is for the user.
    pub(crate) fn handle(&mut self, request: &ControlRequest) -> Result<String, String> {
        commands::handle(self, request)
    }

    /// Logs what controllers and other clients asked for in vain.
    fn log_refusals(&self) {
        static LIMIT: LogLimit = LogLimit::new(60, 60);
        for (name, bridge) in &self.bridges.by_name {
            let refused = bridge.server.as_ref().map(OpenFlowServer::take_refusals);
            for text in refused.into_iter().flatten() {
                self.log
                    .write_limited(&LIMIT, modules::CONNMGR, LogLevel::Info, || {
                        format!("{name}: {text}")
                    });
            }
        }
    }

    /// Ends bridges and the switch.
    fn stop(&mut self) {
        self.comeback
            .finish(&mut self.switch, &self.bridges, &self.log);
        self.bridges.end(&mut self.switch);
        self.switch.stop();
    }

    fn follow_database(&mut self) {
        for event in self.link.run() {
            self.note(event);
        }
        if let Some(error) = self.link.take_failure() {
            let address = self.link.address().clone();
            self.log.write(modules::RECONNECT, LogLevel::Info, || {
                format!("{address}: connection attempt failed ({error})")
            });
        }
        if self.must_follow && self.link.client().has_lock() {
            self.must_follow = false;
            self.configure();
            self.must_report = true;
        }
        if self.switch.now() >= self.next_statistics {
            self.must_report = true;
        }
        self.log_refusals();
        self.report();
    }

    fn note(&mut self, event: DatabaseEvent) {
        let address = self.link.address().clone();
        let log = |level, text: String| self.log.write(modules::RECONNECT, level, || text);
        match event {
            DatabaseEvent::Schema(report) => {
                for table in &report.missing_tables {
                    self.log.write(modules::OVSDB_IDL, LogLevel::Warning, || {
                        format!(
                            "Open_vSwitch database lacks {table} table (database needs upgrade?)"
                        )
                    });
                }
                log(LogLevel::Info, format!("{address}: connected"));
            }
            DatabaseEvent::Synced(_) | DatabaseEvent::Changed(_) => {
                self.must_follow = true;
            }
            DatabaseEvent::Lock(true) => self.must_follow = true,
            DatabaseEvent::Lock(false) if self.link.client().is_lock_contended() => {
                self.log.write(modules::BRIDGE, LogLevel::Error, || {
                    format!(
                        "another ovs-vswitchd process is running, disabling this process (pid \
                         {}) until it goes away",
                        std::process::id()
                    )
                });
            }
            // The connection has ended, and the lock with it.
            DatabaseEvent::Lock(false) => {}
            DatabaseEvent::Finished(id, outcome) => self.note_written(id, &outcome),
            DatabaseEvent::Fault(fault) => log(LogLevel::Warning, format!("{address}: {fault}")),
            DatabaseEvent::Closed => {
                log(
                    LogLevel::Info,
                    format!("{address}: connection closed by peer"),
                );
                self.writing = None;
            }
        }
    }

    /// The number of the configuration that the database has.
    fn wanted_configuration(&mut self) -> Option<i64> {
        let replica = self.link.client().replica();
        let root = replica.rows(root::TABLE).next()?;
        Some(root.get(root::NEXT_CFG))
    }
}
