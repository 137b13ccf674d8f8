//! The daemon's start after another one: what was saved comes back, and packets wait for it.
//!
//! ```text
//!   other_config: thalweg-snapshot                a file is written now and then, and read once
//!                 flow-restore-wait               packets and controllers wait until it is false
//!                 flow-restore-wait-deadline-ms   but no longer than this
//!
//!   first configuration:  move the clock, hold packets -> ports, bridges -> restore
//!                         -> let packets pass (or: wait for a program to restore)
//! ```
//!
//! 1. `flow-restore-wait` counts until it is not true for the first time, as in Open vSwitch.
//! 2. While packets are held, bridges have no controllers and set up no rules of their own for
//!    those that have some; the rules that are there at the end stay. Open vSwitch ends them
//!    when the first controller is set.
//! 3. A snapshot is read once, with the first configuration. A file that cannot be used is set
//!    aside and stops nothing. One that cannot be read now is left alone: nothing is written there.
//! 4. The OpenFlow server of a bridge that comes back adds no rule of its own. Calls of servers
//!    are answered after everything is restored, so such a rule would replace a restored one. No
//!    snapshot is written before every server has added what it adds at its start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thalweg_control::openflow::FailMode;
use thalweg_switch::{
    Restored, SNAPSHOT_FORMAT, SavedSwitch, SnapshotFile, SnapshotKeeper, SnapshotSettings, Switch,
    SwitchNames,
};

use super::Daemon;
use crate::bridges::{Bridges, WantedBridge};
use crate::log::Log;
use crate::vlog::{LogLevel, modules};

/// Keys of `Open_vSwitch.other_config`.
pub(super) const WAIT: &str = "flow-restore-wait";
pub(super) const DEADLINE: &str = "flow-restore-wait-deadline-ms";
pub(super) const FILE: &str = "thalweg-snapshot";
pub(super) const INTERVAL: &str = "thalweg-snapshot-interval-ms";

/// The time between two snapshots if the database does not say.
const USUAL_INTERVAL_MS: u64 = 10_000;

/// The shortest.
const SHORTEST_INTERVAL_MS: u64 = 100;

/// The file in the run directory if the database gives no path.
const USUAL_FILE: &str = "thalweg.snapshot";

/// What the database says of all this.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ComebackSettings {
    pub(super) waits: bool,
    deadline: Option<Duration>,
    snapshots: Option<SnapshotSettings>,
    /// Settings that make no sense.
    pub(super) faults: Vec<String>,
}

/// How far the wait for rules is.
#[derive(Debug)]
enum Wait {
    /// No configuration was followed yet.
    Undecided,
    Waiting {
        since: Instant,
    },
    Over {
        after: Duration,
        by_deadline: bool,
    },
    NotAsked,
}

/// The state of the start, and what is kept for the next one.
#[derive(Debug)]
pub(super) struct Comeback {
    wait: Wait,
    settings: ComebackSettings,
    keeper: Option<SnapshotKeeper>,
    /// The file that could not be read (invariant 3).
    unread: Option<PathBuf>,
    restored: Option<Restored>,
    /// What was read, until bridges are there.
    saved: Option<SavedSwitch>,
    holds: bool,
}

impl ComebackSettings {
    /// Reads the settings; `value` finds that of a key.
    pub(super) fn read(mut value: impl FnMut(&str) -> Option<String>, run: &Path) -> Self {
        let mut settings = ComebackSettings {
            waits: value(WAIT).as_deref() == Some("true"),
            ..ComebackSettings::default()
        };
        let mut milliseconds = |key: &str, least: u64| {
            let said = value(key)?;
            let number: Option<u64> = said.parse().ok().filter(|number| *number >= least);
            if number.is_none() {
                settings.faults.push(format!(
                    "other_config:{key}={said}: not a number of milliseconds from {least} on; it \
                     has no effect"
                ));
            }
            number
        };
        settings.deadline = milliseconds(DEADLINE, 1).map(Duration::from_millis);
        let interval_ms = milliseconds(INTERVAL, SHORTEST_INTERVAL_MS);
        let interval_ms = interval_ms.unwrap_or(USUAL_INTERVAL_MS);
        let path = match value(FILE).as_deref() {
            None | Some("false" | "") => return settings,
            Some("true") => run.join(USUAL_FILE),
            Some(path) => run.join(path),
        };
        settings.snapshots = Some(SnapshotSettings {
            file: SnapshotFile::new(path, SNAPSHOT_FORMAT),
            interval: Duration::from_millis(interval_ms),
        });
        settings
    }
}

impl Comeback {
    pub(super) fn new() -> Comeback {
        Comeback {
            wait: Wait::Undecided,
            settings: ComebackSettings::default(),
            keeper: None,
            unread: None,
            restored: None,
            saved: None,
            holds: false,
        }
    }

    /// Follows the settings before bridges follow theirs.
    pub(super) fn begin(&mut self, settings: ComebackSettings, switch: &mut Switch, log: &Log) {
        let is_first = matches!(self.wait, Wait::Undecided);
        let snapshots = settings.snapshots.clone();
        if is_first && let Some(settings) = &snapshots {
            match read(settings, log) {
                Ok(saved) => self.saved = saved,
                Err(Unread) => self.unread = Some(settings.file.path().to_owned()),
            }
            if let Some(saved) = &self.saved {
                switch.resume_clock(saved);
            }
        }
        // Invariant 1.
        match (&self.wait, settings.waits) {
            (Wait::Undecided, false) => self.wait = Wait::NotAsked,
            (Wait::Undecided, true) => {
                let since = Instant::now();
                self.wait = Wait::Waiting { since };
                say(log, LogLevel::Info, || match settings.deadline {
                    Some(deadline) => format!(
                        "{WAIT}: packets and controllers wait until it is false, for {} ms at the \
                         most",
                        deadline.as_millis()
                    ),
                    None => format!("{WAIT}: packets and controllers wait until it is false"),
                });
            }
            (Wait::Waiting { .. }, false) => self.end_wait(false, log),
            _ => {}
        }
        if self.settings.snapshots != snapshots {
            // Its thread writes into another file, or none.
            self.keeper = None;
        }
        self.settings = settings;
        if is_first && (self.is_waiting() || self.saved.is_some()) {
            self.holds = true;
            switch.hold_packets(true);
        }
    }

    /// Whether packets and controllers wait for rules.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.wait, Wait::Waiting { .. })
    }

    /// The bridges whose rules come back in this configuration (invariant 4).
    pub(super) fn resumed(&self) -> BTreeSet<String> {
        let saved = self.saved.as_ref();
        saved.map_or(BTreeSet::new(), SavedSwitch::resumed_bridges)
    }

    /// Restores what was read, now that bridges are there, and lets packets pass unless they
    /// wait for more.
    pub(super) fn conclude(&mut self, switch: &mut Switch, bridges: &Bridges, log: &Log) {
        if let Some(saved) = self.saved.take() {
            let restored = switch.restore(saved, &names_of(bridges));
            say(log, LogLevel::Info, || format!("snapshot: {restored}"));
            for example in &restored.examples {
                say(log, LogLevel::Warning, || {
                    format!("snapshot: left out: {example}")
                });
            }
            self.restored = Some(restored);
        }
        if self.holds && !self.is_waiting() {
            self.holds = false;
            switch.hold_packets(false);
        }
        if let Some(settings) = self.settings.snapshots.clone()
            && self.keeper.is_none()
            && self.unread.as_deref() != Some(settings.file.path())
        {
            match SnapshotKeeper::start(settings, 0, switch.interrupter()) {
                Ok(keeper) => self.keeper = Some(keeper),
                Err(error) => say(log, LogLevel::Error, || format!("snapshot: {error}")),
            }
        }
    }

    /// Looks at the deadline, and writes a snapshot if it is time; returns whether the wait has
    /// ended, so that the configuration must be followed again.
    pub(super) fn tend(&mut self, switch: &mut Switch, bridges: &Bridges, log: &Log) -> bool {
        // A state that is not complete must not replace the one before.
        let is_whole = !self.holds && bridges.have_begun();
        let keeper = self.keeper.as_mut().filter(|_| is_whole);
        if let Some(keeper) = keeper
            && let Some(error) = keeper.tend(switch, || names_of(bridges))
        {
            let path = keeper.settings().file.path().display();
            say(log, LogLevel::Error, || {
                format!("snapshot: {path}: {error}; the next one is tried in time")
            });
        }
        match (&self.wait, self.settings.deadline) {
            (Wait::Waiting { since }, Some(deadline)) if since.elapsed() >= deadline => {
                self.end_wait(true, log);
                true
            }
            _ => false,
        }
    }

    /// Writes the last snapshot.
    pub(super) fn finish(&mut self, switch: &mut Switch, bridges: &Bridges, log: &Log) {
        let is_whole = !self.holds && bridges.have_begun();
        let Some(keeper) = self.keeper.take().filter(|_| is_whole) else {
            return;
        };
        let path = keeper.settings().file.path().display().to_string();
        if let Err(error) = keeper.finish(switch, &names_of(bridges)) {
            say(log, LogLevel::Error, || {
                format!("snapshot: {path}: {error}")
            });
        }
    }

    /// The state, in lines.
    pub(super) fn text(&self, dropped: u64) -> String {
        let wait = match &self.wait {
            Wait::Undecided => "no configuration yet".to_owned(),
            Wait::NotAsked => "not asked for".to_owned(),
            Wait::Waiting { since } => {
                let waited = since.elapsed();
                let left = self.settings.deadline.map(|end| end.saturating_sub(waited));
                let left = left.map_or("no deadline".to_owned(), |left| {
                    format!("deadline in {:.1} s", left.as_secs_f64())
                });
                format!("waiting for {:.1} s, {left}", waited.as_secs_f64())
            }
            Wait::Over { after, by_deadline } => format!(
                "over after {:.1} s, by {}",
                after.as_secs_f64(),
                if *by_deadline {
                    "its deadline"
                } else {
                    "the database"
                }
            ),
        };
        let restored = self.restored.as_ref();
        let restored = restored.map_or("nothing".to_owned(), Restored::to_string);
        let keeper = self.keeper.as_ref();
        let keeper = keeper.map_or("snapshot file: none\n".to_owned(), SnapshotKeeper::status);
        format!(
            "{WAIT}: {wait}\npackets dropped meanwhile: {dropped}\nrestored: {restored}\n{keeper}"
        )
    }

    fn end_wait(&mut self, by_deadline: bool, log: &Log) {
        let Wait::Waiting { since } = &self.wait else {
            return;
        };
        let after = since.elapsed();
        self.wait = Wait::Over { after, by_deadline };
        let seconds = after.as_secs_f64();
        match by_deadline {
            true => say(log, LogLevel::Warning, || {
                format!(
                    "{WAIT} is still true after {seconds:.1} s, which is its deadline: forwarding \
                     begins with the rules that are there"
                )
            }),
            false => say(log, LogLevel::Info, || {
                format!("{WAIT} is over after {seconds:.1} s: forwarding begins")
            }),
        }
    }
}

impl Daemon {
    /// What the database says of the start and of snapshots.
    pub(super) fn comeback_settings(&mut self) -> ComebackSettings {
        let run = self.bridges.run_folder().to_owned();
        ComebackSettings::read(|key| self.other_config(key), &run)
    }

    /// How the start went, and how snapshots go.
    pub(super) fn comeback_text(&mut self) -> String {
        let totals = self.switch.totals();
        self.comeback.text(totals.workers.held)
    }
}

/// Takes controllers away until rules are there (invariant 2).
pub(super) fn withhold_controllers(wanted: &mut BTreeMap<String, WantedBridge>) {
    for bridge in wanted.values_mut() {
        let openflow = &mut bridge.openflow;
        if openflow.is_controlled() {
            openflow.are_controllers_withheld = true;
            openflow.fail_mode = FailMode::Secure;
            openflow.controllers.clear();
        }
    }
}

/// A file that another process has, or that the system does not give.
struct Unread;

/// What the file has, or nothing and a line in the log (invariant 3).
fn read(settings: &SnapshotSettings, log: &Log) -> Result<Option<SavedSwitch>, Unread> {
    let path = settings.file.path().display();
    let error = match SavedSwitch::read(&settings.file) {
        Ok(saved) => return Ok(saved),
        Err(error) => error,
    };
    if !error.is_of_file() {
        say(log, LogLevel::Error, || {
            format!(
                "snapshot: {path}: {error}; the switch starts empty and writes no snapshot there, \
                 so that the file stays as it is; start it again when the file can be read"
            )
        });
        return Err(Unread);
    }
    let aside = settings.file.set_aside().ok();
    say(log, LogLevel::Error, || {
        let kept = aside.map_or(String::new(), |aside| {
            format!("; it is kept as {}", aside.display())
        });
        format!("snapshot: {path}: {error}{kept}; the switch starts empty")
    });
    Ok(None)
}

/// The bridges and their ports by name.
fn names_of(bridges: &Bridges) -> SwitchNames {
    let mut names = SwitchNames::default();
    for (name, bridge) in &bridges.by_name {
        names.bridges.push((bridge.id, name.clone()));
        for (name, interface) in &bridge.interfaces {
            let port = interface.number.map(|number| bridge.id.port(number));
            names.ports.extend(port.map(|port| (port, name.clone())));
        }
    }
    names
}

fn say(log: &Log, level: LogLevel, text: impl FnOnce() -> String) {
    log.write(modules::BRIDGE, level, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> ComebackSettings {
        let value = |key: &str| {
            let found = pairs.iter().find(|(known, _)| *known == key);
            found.map(|(_, value)| (*value).to_owned())
        };
        ComebackSettings::read(value, Path::new("/run/of"))
    }

    #[test]
    fn nothing_is_kept_and_nobody_waits_unless_asked() {
        assert_eq!(settings(&[]), ComebackSettings::default());
        assert_eq!(
            settings(&[(FILE, "false"), (WAIT, "no")]),
            ComebackSettings::default()
        );
    }

    #[test]
    fn a_file_is_in_the_run_directory_unless_its_path_says_otherwise() {
        for (said, path) in [
            ("true", "/run/of/thalweg.snapshot"),
            ("kept", "/run/of/kept"),
            ("/var/kept", "/var/kept"),
        ] {
            let read = settings(&[(FILE, said), (INTERVAL, "250")]);
            let snapshots = read.snapshots.expect("it is asked for");
            assert_eq!(snapshots.file.path(), Path::new(path));
            assert_eq!(snapshots.interval, Duration::from_millis(250));
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_faults() {
        let read = settings(&[(WAIT, "true"), (DEADLINE, "soon"), (INTERVAL, "5")]);
        assert!(read.waits && read.deadline.is_none());
        assert_eq!(read.faults.len(), 2, "{:?}", read.faults);
    }
}
