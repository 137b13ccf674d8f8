//! `[snapshot]`: what the switch knows is kept for its next start, and found again.
//!
//! ```text
//!   start:  read the file --> the files of rules are as they were, and so is whether the switch
//!                             stands alone (`standalone` without controllers)?
//!             yes:  the saved rules, groups and meters in their place
//!             no:   what the files say; of the snapshot stations and connections
//!           the clock goes on from the former one, and packets are held until all is there
//!   run:    a snapshot now and then;   end: a last one
//! ```
//!
//! 1. A file that cannot be used stops nothing: it is set aside, and the switch starts by its
//!    configuration.
//! 2. Rules that a controller has added come back with those of the files; rules that a file
//!    lost while the switch was away do not.
//! 3. The OpenFlow server's calls are answered after saved rules are back, so it adds no rule of
//!    its own where they are. No snapshot is written before a server has added such a rule.

use std::time::Duration;

use anyhow::{Context, Result};
use thalweg_config::Configuration;
use thalweg_control::openflow::FailMode;
use thalweg_packet::Instant;
use thalweg_pipeline::BridgeId;
use thalweg_switch::{Restored, SavedSwitch, SnapshotError, SnapshotKeeper, Switch, SwitchNames};
use tracing::{error, info, warn};

use super::logging::module::SNAPSHOT;
use super::rules;

/// What was found at the start.
pub(super) struct Earlier {
    saved: Option<SavedSwitch>,
    /// Whether the saved rules take the place of those of the files.
    replaces_rules: bool,
    /// What tells the present origins of rules from others.
    sources: u32,
}

/// The snapshots of a run; nothing without the section.
pub(super) struct Snapshots {
    keeper: Option<SnapshotKeeper>,
    restored: Option<Restored>,
    sources: u32,
}

impl Earlier {
    /// Reads the file, if the configuration has the section.
    ///
    /// # Errors
    /// If another process has the file, or the operating system refuses it.
    pub(super) fn read(config: &Configuration) -> Result<Earlier> {
        let mut earlier = Earlier {
            saved: None,
            replaces_rules: false,
            sources: sources_of(config),
        };
        let Some(settings) = &config.snapshot else {
            return Ok(earlier);
        };
        let path = settings.file.path().display();
        earlier.saved = match SavedSwitch::read(&settings.file) {
            Ok(saved) => saved,
            Err(error) if error.is_of_file() => {
                let aside = settings.file.set_aside();
                let kept = aside.map_or(String::new(), |aside| {
                    format!("; it is kept as {}", aside.display())
                });
                error!(
                    target: SNAPSHOT,
                    "{path}: {error}{kept}; the switch starts by its configuration alone"
                );
                None
            }
            Err(error) => {
                return Err(error).with_context(|| format!("[snapshot]: {path} cannot be read"));
            }
        };
        if let Some(saved) = &mut earlier.saved {
            earlier.replaces_rules = saved.sources() == earlier.sources;
            if !earlier.replaces_rules {
                warn!(
                    target: SNAPSHOT,
                    "the files of rules, or whether the switch stands alone, are not as in the \
                     snapshot: the files are loaded, and of the snapshot only stations and \
                     connections"
                );
                saved.forget_rules();
            }
        }
        Ok(earlier)
    }

    /// Whether packets must be held until [`Snapshots::start`] has returned.
    pub(super) fn is_there(&self) -> bool {
        self.saved.is_some()
    }

    /// What the switch's clock must show at its start.
    pub(super) fn clock(&self) -> Instant {
        self.saved
            .as_ref()
            .map_or(Instant::ZERO, SavedSwitch::clock)
    }

    /// Whether rules come back as clients left them.
    pub(super) fn has_rules(&self) -> bool {
        let saved = self.saved.as_ref().filter(|_| self.replaces_rules);
        saved.is_some_and(|saved| !saved.resumed_bridges().is_empty())
    }

    /// Whether the files' rules are not loaded.
    pub(super) fn replaces_rules(&self) -> bool {
        self.replaces_rules
    }
}

impl Snapshots {
    /// Restores what was found, lets packets pass, and starts the thread that writes.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub(super) fn start(
        earlier: Earlier,
        config: &Configuration,
        switch: &mut Switch,
    ) -> Result<Snapshots> {
        let names = names_of(config);
        let restored = earlier.saved.map(|saved| {
            let restored = switch.restore(saved, &names);
            info!(target: SNAPSHOT, "{restored}");
            for example in &restored.examples {
                warn!(target: SNAPSHOT, "left out: {example}");
            }
            switch.hold_packets(false);
            restored
        });
        let keeper = config.snapshot.clone().map(|settings| {
            let started = SnapshotKeeper::start(settings, earlier.sources, switch.interrupter());
            started.context("[snapshot]: there is no thread to write snapshots")
        });
        Ok(Snapshots {
            keeper: keeper.transpose()?,
            restored,
            sources: earlier.sources,
        })
    }

    /// Notes that the files of rules were read again.
    pub(super) fn note_rules(&mut self, config: &Configuration) {
        self.sources = sources_of(config);
        if let Some(keeper) = &mut self.keeper {
            keeper.set_sources(self.sources);
        }
    }

    /// Writes a snapshot if it is time; returns when to look again, at the latest.
    pub(super) fn tend(&mut self, config: &Configuration, switch: &mut Switch) -> Option<Duration> {
        let keeper = self.keeper.as_mut()?;
        if let Some(error) = keeper.tend(switch, || names_of(config)) {
            complain(keeper, &error);
        }
        keeper.rest()
    }

    /// Writes the last snapshot.
    pub(super) fn finish(&mut self, config: &Configuration, switch: &mut Switch) {
        let Some(keeper) = self.keeper.take() else {
            return;
        };
        let path = keeper.settings().file.path().display().to_string();
        match keeper.finish(switch, &names_of(config)) {
            Ok(contents) => info!(
                target: SNAPSHOT,
                "{path}: {} rules and {} connections are kept for the next start",
                contents.rules,
                contents.connections
            ),
            Err(error) => error!(target: SNAPSHOT, "{path}: {error}; the one before stays"),
        }
    }

    /// How it goes, in lines.
    ///
    /// # Errors
    /// If the configuration has no such section.
    pub(super) fn status(&self) -> std::result::Result<String, String> {
        let Some(keeper) = &self.keeper else {
            return Err("the configuration has no [snapshot]".to_owned());
        };
        let restored = self.restored.as_ref();
        let restored = restored.map_or("nothing".to_owned(), Restored::to_string);
        Ok(format!("restored: {restored}\n{}", keeper.status()))
    }
}

fn complain(keeper: &SnapshotKeeper, error: &SnapshotError) {
    let path = keeper.settings().file.path().display();
    error!(target: SNAPSHOT, "{path}: {error}; the next snapshot is tried in time");
}

/// The switch's one bridge and its ports.
fn names_of(config: &Configuration) -> SwitchNames {
    let ports = config.ports.iter();
    SwitchNames {
        bridges: vec![(BridgeId::default(), config.name.clone())],
        ports: ports.map(|port| (port.number, port.name.clone())).collect(),
    }
}

/// A sum over the origins of rules: the files of rules and groups, and the rule of a switch that
/// stands alone.
fn sources_of(config: &Configuration) -> u32 {
    let mut sum = 0;
    for path in rules::paths(config) {
        // A file that cannot be read was refused before.
        let bytes = std::fs::read(path).unwrap_or_default();
        sum = crc32c::crc32c_append(sum, &(bytes.len() as u64).to_le_bytes());
        sum = crc32c::crc32c_append(sum, &bytes);
    }
    let server = config.openflow.as_ref().map(|settings| &settings.server);
    let stands_alone = server.is_some_and(|server| {
        server.fail_mode == FailMode::Standalone && server.controllers.is_empty()
    });
    match stands_alone {
        true => !sum,
        false => sum,
    }
}
