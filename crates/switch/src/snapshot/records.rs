//! The records of a snapshot, and their form.
//!
//! A record is a value in postcard's form (its specification, version 1). A change of any of
//! these types is another format ([`super::SNAPSHOT_FORMAT`]).

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thalweg_conntrack::SavedConnection;
use thalweg_control::openflow::STANDALONE_COOKIE;
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{BridgeId, Counters, RulePast};
use thalweg_snapshot::{SnapshotError, SnapshotFile, SnapshotPages};

use super::capture::unix_ms;

/// How bridges and ports are called.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwitchNames {
    /// The bridges; without bridges, one of any name.
    pub bridges: Vec<(BridgeId, String)>,
    /// The ports that have a name.
    pub ports: Vec<(PortId, String)>,
}

/// The sections of a file.
pub(super) mod section {
    pub(crate) const ABOUT: u8 = 0;
    pub(crate) const PORT: u8 = 1;
    pub(crate) const METER: u8 = 2;
    pub(crate) const GROUP: u8 = 3;
    pub(crate) const RULE: u8 = 4;
    pub(crate) const STATION: u8 = 5;
    pub(crate) const OPTION: u8 = 6;
    pub(crate) const CONNECTION: u8 = 7;
}

/// The whole, in one record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct About {
    /// Milliseconds since 1970 when it was taken.
    pub(super) taken_at_ms: u64,
    /// What the switch's clock showed then, in nanoseconds.
    pub(super) clock_ns: u64,
    /// What the owner says of where rules came from.
    pub(super) sources: u32,
    /// The names of bridges; the other records have their places here.
    pub(super) bridges: Vec<String>,
}

/// A port that has a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct PortRecord {
    pub(super) bridge: u16,
    pub(super) number: u32,
    pub(super) name: String,
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    packets: u64,
    bytes: u64,
}

/// A meter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct MeterRecord {
    pub(super) bridge: u16,
    pub(super) text: String,
    pub(super) total: Counted,
    pub(super) bands: Vec<Counted>,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct GroupRecord {
    pub(super) bridge: u16,
    pub(super) text: String,
    /// Of each bucket, what its outputs were sent with.
    pub(super) max_lengths: Vec<u16>,
    pub(super) made_at_ns: Option<u64>,
    pub(super) total: Counted,
    pub(super) buckets: Vec<Counted>,
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RuleRecord {
    pub(super) bridge: u16,
    /// The table, the conditions and the actions.
    pub(super) text: String,
    pub(super) priority: u16,
    pub(super) cookie: u64,
    pub(super) timeouts_s: (u16, u16),
    pub(super) importance: u16,
    pub(super) max_length: u16,
    /// The bits of [`super::fit`].
    pub(super) flags: u8,
    /// Its age among rules of its priority, by which connections name it.
    pub(super) number: u64,
    pub(super) created_at_ns: u64,
    pub(super) modified_at_ns: u64,
    pub(super) used_at_ns: u64,
    pub(super) counted: Counted,
}

/// A station.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct StationRecord {
    pub(super) bridge: u16,
    pub(super) vlan: u16,
    pub(super) mac: u64,
    pub(super) port: u32,
    pub(super) seen_at_ns: u64,
    pub(super) is_fixed: bool,
}

/// An option of tunnels that has a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct OptionRecord {
    pub(super) bridge: u16,
    pub(super) class: u16,
    pub(super) kind: u8,
    pub(super) length: u8,
    pub(super) index: u16,
}

impl From<Counters> for Counted {
    fn from(counters: Counters) -> Counted {
        Counted {
            packets: counters.packets,
            bytes: counters.bytes,
        }
    }
}

impl From<Counted> for Counters {
    fn from(counted: Counted) -> Counters {
        Counters {
            packets: counted.packets,
            bytes: counted.bytes,
        }
    }
}

impl RuleRecord {
    /// When it came, changed and was used, and what it counted.
    pub(super) fn past(&self) -> RulePast {
        RulePast {
            created_at: Instant::from_nanos(self.created_at_ns),
            modified_at: Instant::from_nanos(self.modified_at_ns),
            used_at: Instant::from_nanos(self.used_at_ns),
            counters: self.counted.into(),
        }
    }

    /// Whether it forwarded while no controller spoke with the switch.
    pub(super) fn stands_in(&self) -> bool {
        (self.cookie, self.priority) == (STANDALONE_COOKIE, 0)
    }
}

/// What a file says of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedSwitch {
    pub(super) about: About,
    pub(super) ports: Vec<PortRecord>,
    pub(super) meters: Vec<MeterRecord>,
    pub(super) groups: Vec<GroupRecord>,
    pub(super) rules: Vec<RuleRecord>,
    pub(super) stations: Vec<StationRecord>,
    pub(super) options: Vec<OptionRecord>,
    pub(super) connections: Vec<SavedConnection>,
}

impl SavedSwitch {
    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be used; nothing of it is loaded then.
    pub fn read(file: &SnapshotFile) -> Result<Option<SavedSwitch>, SnapshotError> {
        file.read()?
            .map(|pages| SavedSwitch::of(&pages))
            .transpose()
    }

    fn of(pages: &SnapshotPages) -> Result<SavedSwitch, SnapshotError> {
        let mut about = all(pages, section::ABOUT)?;
        let about: Option<About> = about.pop();
        // Rules and connections are most of it.
        let (rules, connections) = std::thread::scope(|threads| {
            let rules = threads.spawn(|| all(pages, section::RULE));
            let connections = all(pages, section::CONNECTION);
            let rules = rules.join();
            let rules = rules.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (rules, connections)
        });
        let saved = SavedSwitch {
            about: about.ok_or_else(|| damaged("it does not say what it is about"))?,
            ports: all(pages, section::PORT)?,
            meters: all(pages, section::METER)?,
            groups: all(pages, section::GROUP)?,
            rules: rules?,
            stations: all(pages, section::STATION)?,
            options: all(pages, section::OPTION)?,
            connections: connections?,
        };
        Ok(saved)
    }

    /// What the owner said of where rules came from ([`crate::Switch::capture`]).
    pub fn sources(&self) -> u32 {
        self.about.sources
    }

    /// The time since it was taken.
    pub(super) fn away(&self) -> Duration {
        Duration::from_millis(unix_ms().saturating_sub(self.about.taken_at_ms))
    }

    /// What the former switch's clock shows now.
    pub fn clock(&self) -> Instant {
        Instant::from_nanos(self.about.clock_ns) + self.away()
    }

    /// The names of bridges whose rules come back as clients left them; without bridges, one
    /// that is empty. Others had a rule that is left out (invariant 5 of `snapshot`).
    pub fn resumed_bridges(&self) -> BTreeSet<String> {
        let mut resumed: BTreeSet<String> = self.about.bridges.iter().cloned().collect();
        for record in self.rules.iter().filter(|record| record.stands_in()) {
            if let Some(name) = self.about.bridges.get(usize::from(record.bridge)) {
                resumed.remove(name);
            }
        }
        resumed
    }

    /// Leaves out rules, groups and meters.
    pub fn forget_rules(&mut self) {
        self.rules.clear();
        self.groups.clear();
        self.meters.clear();
    }
}

/// The bytes of a record.
pub(super) fn bytes_of(record: &impl Serialize) -> Result<Vec<u8>, SnapshotError> {
    postcard::to_allocvec(record).map_err(|error| damaged(&error.to_string()))
}

fn all<T: DeserializeOwned>(pages: &SnapshotPages, section: u8) -> Result<Vec<T>, SnapshotError> {
    let records = pages.records(section).map(|bytes| {
        let taken = postcard::take_from_bytes(bytes);
        match taken {
            Ok((record, [])) => Ok(record),
            Ok(_) => Err(damaged("a record is too long")),
            Err(error) => Err(damaged(&format!("a record: {error}"))),
        }
    });
    records.collect()
}

fn damaged(what: &str) -> SnapshotError {
    SnapshotError::Damaged {
        what: what.to_owned(),
    }
}
