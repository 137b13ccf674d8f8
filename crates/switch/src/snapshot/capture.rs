//! Takes the state of a running switch, and writes it into a file on another thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_conntrack::Cursor;
use thalweg_packet::Instant;
use thalweg_pipeline::{BridgeId, Flow, Group, GroupCounters, Pipeline, Rule, Version};
use thalweg_snapshot::{SnapshotError, SnapshotFile, SnapshotWriter};

use super::fit::{group_text, rule_record};
use super::records::{
    About, GroupRecord, MeterRecord, OptionRecord, PortRecord, StationRecord, SwitchNames,
    bytes_of, section,
};
use crate::rule_duty::Shared;
use crate::switch::Switch;
use crate::sync::AtomicBool;

/// Rules that are copied, or slots of the tracker that are visited, under one lock.
pub(super) const SLICE: u32 = 128;

/// How long the pipeline keeps a version for a capture. One that takes longer is given up if rules
/// change.
const PATIENCE: Duration = Duration::from_secs(10);

/// A version that a capture reads.
#[derive(Debug)]
pub(crate) struct KeptVersion {
    version: Version,
    kept_until: Instant,
    /// Whether what only this version had may be gone.
    is_given_up: AtomicBool,
}

impl KeptVersion {
    /// The version, while it must be kept. With `None` it is given up.
    pub(crate) fn keep(&self, real_now: Instant) -> Option<Version> {
        if real_now < self.kept_until {
            return Some(self.version);
        }
        self.is_given_up.store(true, Ordering::Release);
        None
    }
}

/// What a snapshot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SnapshotContents {
    /// Rules.
    pub rules: usize,
    /// Groups.
    pub groups: usize,
    /// Meters.
    pub meters: usize,
    /// Stations.
    pub stations: usize,
    /// Connections.
    pub connections: usize,
}

/// A state to be written.
pub struct Capture {
    shared: Arc<Shared>,
    kept: Arc<KeptVersion>,
    about: About,
    is_among: bool,
    /// The places of bridges in the records.
    places: BTreeMap<BridgeId, u16>,
    ports: Vec<PortRecord>,
    stations: Vec<StationRecord>,
    options: Vec<OptionRecord>,
    groups_made_at: BTreeMap<thalweg_pipeline::GroupId, Instant>,
    has_connections: bool,
}

/// A group with what it has counted.
type CountedGroup = (Arc<Group>, GroupCounters);

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capture({})", self.kept.version)
    }
}

impl Switch {
    /// Takes the state of the bridges that `names` lists, to be written on another thread.
    ///
    /// `sources` says where the rules came from; [`super::SavedSwitch::sources`] tells it again.
    pub fn capture(&mut self, names: &SwitchNames, sources: u32) -> Capture {
        drop(self.totals());
        let kept = Arc::new(KeptVersion {
            version: self.pipeline().version(),
            kept_until: self.shared.clock.real_now() + PATIENCE,
            is_given_up: AtomicBool::new(false),
        });
        self.kept_version = Arc::downgrade(&kept);
        let is_among = self.pipeline().has_bridges();
        let bridges = names.bridges.iter().enumerate();
        let places: BTreeMap<BridgeId, u16> = match is_among {
            true => bridges
                .map(|(place, (id, _))| (*id, place as u16))
                .collect(),
            false => BTreeMap::from([(BridgeId::default(), 0)]),
        };
        let listed = match is_among {
            true => names.bridges.iter().map(|(_, name)| name.clone()).collect(),
            false => vec![String::new()],
        };
        let place_of = |bridge: BridgeId| places.get(&bridge).copied();
        let ports = names.ports.iter().filter_map(|(port, name)| {
            let (bridge, number) = match is_among {
                true => (BridgeId::of_port(*port), port.0 & 0xffff),
                false => (BridgeId::default(), port.0),
            };
            Some(PortRecord {
                bridge: place_of(bridge)?,
                number,
                name: name.clone(),
            })
        });
        let ports = ports.collect();
        let about = About {
            taken_at_ms: unix_ms(),
            clock_ns: self.now().as_nanos(),
            sources,
            bridges: listed,
        };
        Capture {
            stations: self.station_records(&places, is_among),
            options: self.option_records(&places),
            groups_made_at: self.desks.groups_made_at(),
            has_connections: true,
            shared: self.shared.clone(),
            kept,
            about,
            is_among,
            places,
            ports,
        }
    }

    fn station_records(
        &mut self,
        places: &BTreeMap<BridgeId, u16>,
        is_among: bool,
    ) -> Vec<StationRecord> {
        let now = self.now();
        let mut records = Vec::new();
        for (bridge, place) in places {
            for known in self.stations(*bridge) {
                let seen_at = now.checked_sub(known.silent_for).unwrap_or(Instant::ZERO);
                records.push(StationRecord {
                    bridge: *place,
                    vlan: known.station.vlan,
                    mac: known.station.mac,
                    port: match is_among {
                        true => known.port.0 & 0xffff,
                        false => known.port.0,
                    },
                    seen_at_ns: seen_at.as_nanos(),
                    is_fixed: known.is_fixed,
                });
            }
        }
        records
    }

    fn option_records(&self, places: &BTreeMap<BridgeId, u16>) -> Vec<OptionRecord> {
        let known = self.tunnel_options.iter().filter_map(|(bridge, maps)| {
            let place = *places.get(bridge)?;
            Some(maps.iter().map(move |map| OptionRecord {
                bridge: place,
                class: map.class,
                kind: map.kind,
                length: map.length,
                index: map.index,
            }))
        });
        known.flatten().collect()
    }
}

impl Capture {
    /// Writes the state into a file, instead of what is there.
    ///
    /// # Errors
    /// If the file cannot be written, or changes overtook the capture; the file is as it was.
    pub fn write(self, file: &SnapshotFile) -> Result<SnapshotContents, SnapshotError> {
        let mut contents = SnapshotContents::default();
        file.write(|writer| {
            contents = self.fill(writer)?;
            Ok::<(), SnapshotError>(())
        })?;
        Ok(contents)
    }

    fn fill(&self, writer: &mut SnapshotWriter<'_>) -> Result<SnapshotContents, SnapshotError> {
        writer.add(section::ABOUT, &bytes_of(&self.about)?)?;
        for port in &self.ports {
            writer.add(section::PORT, &bytes_of(port)?)?;
        }
        for station in &self.stations {
            writer.add(section::STATION, &bytes_of(station)?)?;
        }
        for option in &self.options {
            writer.add(section::OPTION, &bytes_of(option)?)?;
        }
        Ok(SnapshotContents {
            meters: self.write_meters(writer)?,
            groups: self.write_groups(writer)?,
            rules: self.write_rules(writer)?,
            stations: self.stations.len(),
            connections: match self.has_connections {
                true => self.write_connections(writer)?,
                false => 0,
            },
        })
    }

    fn write_meters(&self, writer: &mut SnapshotWriter<'_>) -> Result<usize, SnapshotError> {
        let pipeline = self.shared.pipeline.read();
        let known: Vec<_> = pipeline.all_meters(self.kept.version).cloned().collect();
        let buckets = pipeline.meters().clone();
        drop(pipeline);
        let mut count = 0;
        for known in known {
            let Some(place) = self.places.get(&known.meter.id.bridge()) else {
                continue;
            };
            let counts = buckets.counts(known.place);
            let bands = counts.bands.into_iter();
            let record = MeterRecord {
                bridge: *place,
                text: known.meter.to_string(),
                total: counts.total.into(),
                bands: bands.map(Into::into).collect(),
            };
            writer.add(section::METER, &bytes_of(&record)?)?;
            count += 1;
        }
        Ok(count)
    }

    fn write_groups(&self, writer: &mut SnapshotWriter<'_>) -> Result<usize, SnapshotError> {
        let pipeline = self.shared.pipeline.read();
        let counted = |group: &Arc<Group>| {
            let counters = pipeline.group_counters(group.id);
            (group.clone(), counters.cloned().unwrap_or_default())
        };
        let known: Vec<CountedGroup> = pipeline.groups(self.kept.version).map(counted).collect();
        drop(pipeline);
        let mut count = 0;
        for (group, counters) in known {
            let Some(place) = self.places.get(&group.id.bridge()) else {
                continue;
            };
            let made_at = self.groups_made_at.get(&group.id);
            let buckets = counters.buckets.into_iter();
            let record = GroupRecord {
                bridge: *place,
                text: group_text(self.is_among, &group),
                max_lengths: group
                    .buckets
                    .iter()
                    .map(|bucket| bucket.max_length)
                    .collect(),
                made_at_ns: made_at.map(|at| at.as_nanos()),
                total: counters.group.into(),
                buckets: buckets.map(Into::into).collect(),
            };
            writer.add(section::GROUP, &bytes_of(&record)?)?;
            count += 1;
        }
        Ok(count)
    }

    fn write_rules(&self, writer: &mut SnapshotWriter<'_>) -> Result<usize, SnapshotError> {
        let (mut next, mut count) = (0, 0);
        loop {
            let pipeline = self.shared.pipeline.read();
            if next >= pipeline.rule_places() {
                break;
            }
            let rules = self.some_rules(&pipeline, next);
            drop(pipeline);
            next += SLICE;
            for (flow, rule) in rules? {
                let Some(place) = self.places.get(&rule.table.bridge()) else {
                    continue;
                };
                let record = rule_record(*place, self.is_among, &flow, &rule);
                writer.add(section::RULE, &bytes_of(&record)?)?;
                count += 1;
            }
        }
        // Invariant 1 of `snapshot`: nothing of the version was given up meanwhile.
        match self.kept.is_given_up.load(Ordering::Acquire) {
            false => Ok(count),
            true => Err(overtaken()),
        }
    }

    fn some_rules(
        &self,
        pipeline: &Pipeline,
        first: u32,
    ) -> Result<Vec<(Flow, Rule)>, SnapshotError> {
        let version = self.kept.version;
        let rules = pipeline.rules_between(first..first.saturating_add(SLICE), version);
        let rules = rules.map(|(id, rule)| {
            let flow = pipeline.flow_of(id);
            // A rule that ended before keys got another layout has no conditions any more.
            Ok((flow.ok_or_else(overtaken)?, rule.clone()))
        });
        rules.collect()
    }

    fn write_connections(&self, writer: &mut SnapshotWriter<'_>) -> Result<usize, SnapshotError> {
        let tracker = self.shared.connections.tracker();
        let now = Instant::from_nanos(self.about.clock_ns);
        let (mut place, mut count) = (Some(Cursor::default()), 0);
        while let Some(cursor) = place {
            let (saved, next) = tracker.saved(cursor, SLICE as usize, now);
            place = next;
            for connection in saved {
                writer.add(section::CONNECTION, &bytes_of(&connection)?)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// The error for a capture that changes overtook.
fn overtaken() -> SnapshotError {
    let what = "rules changed faster than they could be written; the next one may succeed";
    SnapshotError::System(std::io::Error::other(what))
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
