//! Puts a saved state into a running switch.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use thalweg_conntrack::{NotResumed, SavedConnection, Tracker};
use thalweg_openflow::message::nicira::TlvMap;
use thalweg_packet::Instant;
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{
    BridgeId, Change, Delta, Group, GroupCounters, MeterCounts, Operation, RuleId, Station,
};

use super::SnapshotContents;
use super::capture::SLICE;
use super::fit::{Misfit, Places};
use super::records::{GroupRecord, MeterRecord, RuleRecord, SavedSwitch, SwitchNames};
use crate::switch::Switch;

/// What could not be restored is described up to this number.
const EXAMPLES_MAX: usize = 10;

/// What came back, and what did not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// What is there again.
    pub contents: SnapshotContents,
    /// The time between snapshot and restoration.
    pub away: Duration,
    /// What was left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// The first of the rules, groups and meters that were left out, each with the reason.
    pub examples: Vec<String>,
}

impl Restored {
    fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    fn explain(&mut self, reason: &'static str, what: &str, why: &str) {
        self.leave_out(reason);
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{what}: {why}"));
        }
    }

    fn misfit(&mut self, misfit: Misfit, what: &str) {
        let why = match misfit {
            Misfit::NoBridge => "its bridge is gone",
            Misfit::NoPort => "a port that it names is gone, and another has its number",
            Misfit::Text => "this program does not read it",
        };
        self.explain(misfit.name(), what, why);
    }

    /// Everything that was left out.
    pub fn left_out_count(&self) -> u64 {
        self.left_out.values().sum()
    }
}

impl std::fmt::Display for Restored {
    /// Prints what a log says, in one line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let contents = &self.contents;
        write!(
            f,
            "{} rules, {} groups, {} meters, {} stations and {} connections are there again, {:.1} \
             s after they were saved",
            contents.rules,
            contents.groups,
            contents.meters,
            contents.stations,
            contents.connections,
            self.away.as_secs_f64()
        )?;
        let mut before = "; left out: ";
        for (reason, count) in &self.left_out {
            write!(f, "{before}{count} {reason}")?;
            before = ", ";
        }
        Ok(())
    }
}

/// Rules to be added, each with its record.
struct Rules {
    records: Vec<RuleRecord>,
    change: Change,
}

impl Switch {
    /// Moves the clock to where the former switch's is now, before anything is added that must
    /// not look as old; a clock never goes back.
    pub fn resume_clock(&mut self, saved: &SavedSwitch) {
        self.shared.clock.skip_to(saved.clock());
    }

    /// Adds what was saved, and moves the clock as [`Switch::resume_clock`] does.
    ///
    /// Rules, groups and meters that are there stay, unless one with the same match, priority or
    /// number replaces them. Bridges and ports of `names` are there already; packets should be
    /// held meanwhile ([`Switch::hold_packets`]).
    pub fn restore(&mut self, mut saved: SavedSwitch, names: &SwitchNames) -> Restored {
        let mut restored = Restored {
            away: saved.away(),
            ..Restored::default()
        };
        self.resume_clock(&saved);
        let is_among = self.pipeline().has_bridges();
        let places = Places::new(&saved, names, is_among);
        self.restore_options(&saved, &places);
        let connections = std::mem::take(&mut saved.connections);
        let (shared, now) = (self.shared.clone(), self.now());
        let resume = |numbers: &HashMap<u64, u64>| {
            resume_all(shared.connections.tracker(), connections, numbers, now)
        };
        // Connections that name the rules that committed them wait for these.
        let resumed = if self.orphans.is_some() {
            let numbers = self.restore_pipeline(saved, &places, &mut restored);
            resume(&numbers)
        } else {
            std::thread::scope(|threads| {
                let resuming = threads.spawn(|| resume(&HashMap::new()));
                self.restore_pipeline(saved, &places, &mut restored);
                let resumed = resuming.join();
                resumed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        };
        restored.contents.connections = resumed.count;
        restored.left_out.extend(resumed.left_out);
        restored
    }

    /// Restores what the pipeline has; returns by which numbers connections know rules now.
    fn restore_pipeline(
        &mut self,
        saved: SavedSwitch,
        places: &Places,
        restored: &mut Restored,
    ) -> HashMap<u64, u64> {
        self.restore_meters(&saved.meters, places, restored);
        self.restore_groups(&saved.groups, places, restored);
        let numbers = self.restore_rules(saved.rules, places, restored);
        self.restore_stations(&saved.stations, places, restored);
        numbers
    }

    fn restore_options(&mut self, saved: &SavedSwitch, places: &Places) {
        let mut by_bridge: BTreeMap<BridgeId, Vec<TlvMap>> = BTreeMap::new();
        for option in &saved.options {
            if let Ok(bridge) = places.bridge(option.bridge) {
                by_bridge.entry(bridge).or_default().push(TlvMap {
                    class: option.class,
                    kind: option.kind,
                    length: option.length,
                    index: option.index,
                });
            }
        }
        for (bridge, maps) in by_bridge {
            self.map_options(bridge, &maps);
        }
    }

    fn restore_meters(
        &mut self,
        records: &[MeterRecord],
        places: &Places,
        restored: &mut Restored,
    ) {
        let mut parser = Parser::new();
        for record in records {
            let meter = match places.meter(record, &mut parser) {
                Ok(meter) => meter,
                Err(misfit) => {
                    restored.misfit(misfit, &record.text);
                    continue;
                }
            };
            let id = meter.id;
            if let Err(error) = self.apply(&Change::one(Operation::SetMeter(meter))) {
                restored.explain("refused", &record.text, &error.to_string());
                continue;
            }
            let pipeline = self.pipeline();
            if let Some(known) = pipeline.meter(id, pipeline.version()) {
                let counts = MeterCounts {
                    total: record.total.into(),
                    bands: record.bands.iter().map(|band| (*band).into()).collect(),
                };
                pipeline.meters().resume(known.place, &counts);
            }
            restored.contents.meters += 1;
        }
    }

    /// Groups may name others, in any order: those that are refused are tried again as long as
    /// others are not.
    fn restore_groups(
        &mut self,
        records: &[GroupRecord],
        places: &Places,
        restored: &mut Restored,
    ) {
        let mut parser = Parser::new();
        let mut left = Vec::new();
        for record in records {
            match places.group(record, &mut parser) {
                Ok(group) => left.push((record, group)),
                Err(misfit) => restored.misfit(misfit, &record.text),
            }
        }
        loop {
            let before = left.len();
            let operations = left
                .iter()
                .map(|(_, group)| Operation::SetGroup(group.clone()));
            let operations = operations.collect();
            if self.apply(&Change { operations }).is_ok() {
                left.drain(..).for_each(|(record, group)| {
                    self.resume_group(record, &group);
                    restored.contents.groups += 1;
                });
                return;
            }
            left.retain(|(record, group)| {
                let added = self.apply(&Change::one(Operation::SetGroup(group.clone())));
                if added.is_ok() {
                    self.resume_group(record, group);
                    restored.contents.groups += 1;
                }
                added.is_err()
            });
            if left.len() == before {
                break;
            }
        }
        for (record, group) in left {
            let added = self.apply(&Change::one(Operation::SetGroup(group)));
            let why = added.err().map_or(String::new(), |error| error.to_string());
            restored.explain("refused", &record.text, &why);
        }
    }

    fn resume_group(&mut self, record: &GroupRecord, group: &Group) {
        let counters = GroupCounters {
            group: record.total.into(),
            buckets: record
                .buckets
                .iter()
                .map(|bucket| (*bucket).into())
                .collect(),
        };
        self.shared
            .pipeline
            .write()
            .resume_group(group.id, &counters);
        if let Some(made_at) = record.made_at_ns {
            self.desks
                .note_group(group.id, Instant::from_nanos(made_at));
        }
    }

    /// Adds the rules, the oldest first, and returns by which numbers connections know them now.
    fn restore_rules(
        &mut self,
        mut records: Vec<RuleRecord>,
        places: &Places,
        restored: &mut Restored,
    ) -> HashMap<u64, u64> {
        records.sort_unstable_by_key(|record| record.number);
        let mut parser = Parser::new();
        let mut rules = Rules {
            records: Vec::with_capacity(records.len()),
            change: Change {
                operations: Vec::with_capacity(records.len()),
            },
        };
        for record in records {
            // Invariant 5 of `snapshot`.
            if record.stands_in() {
                restored.leave_out("stand_in");
                continue;
            }
            match places.rule(&record, &mut parser) {
                Ok(flow) => {
                    rules.records.push(record);
                    rules.change.operations.push(Operation::Add(flow));
                }
                Err(misfit) => restored.misfit(misfit, &record.text),
            }
        }
        drop(parser);
        let mut ids = Vec::with_capacity(rules.records.len());
        self.add_rules(rules, &mut ids, restored);
        // Invariant 3 of `snapshot`: timeouts are counted from what the past says.
        self.settle();
        let shared = self.shared.clone();
        let mut numbers = HashMap::new();
        for slice in ids.chunks(SLICE as usize) {
            let mut pipeline = shared.pipeline.write();
            for (id, record) in slice {
                pipeline.resume_rule(*id, &record.past());
                let number = pipeline.number_of_rule(*id);
                numbers.extend(number.map(|number| (record.number, number)));
            }
        }
        let timed = ids.iter().filter(|(_, record)| record.timeouts_s != (0, 0));
        let timed: Vec<RuleId> = timed.map(|(id, _)| *id).collect();
        self.upkeep
            .shorten_timeouts(&shared.pipeline.read(), &timed);
        restored.contents.rules = ids.len();
        numbers
    }

    /// Adds rules in one change. If one of them is refused, halves are added apart, so that it
    /// alone is left out.
    fn add_rules(
        &mut self,
        mut rules: Rules,
        ids: &mut Vec<(RuleId, RuleRecord)>,
        restored: &mut Restored,
    ) {
        match self.apply(&rules.change) {
            Ok(delta) => self.note_rules(rules, &delta, ids),
            Err(error) if rules.records.len() <= 1 => {
                for record in rules.records {
                    restored.explain("refused", &record.text, &error.to_string());
                }
            }
            Err(_) => {
                let half = rules.records.len() / 2;
                let later = Rules {
                    records: rules.records.split_off(half),
                    change: Change {
                        operations: rules.change.operations.split_off(half),
                    },
                };
                self.add_rules(rules, ids, restored);
                self.add_rules(later, ids, restored);
            }
        }
    }

    /// Finds the rules that a change has added: in their order, as all of them are new.
    fn note_rules(&self, rules: Rules, delta: &Delta, ids: &mut Vec<(RuleId, RuleRecord)>) {
        let pipeline = self.shared.pipeline.read();
        let mut inserted = delta.inserted.iter().peekable();
        for (record, operation) in rules.records.into_iter().zip(&rules.change.operations) {
            // A table with a limit may have lost some of them again.
            let is_it = inserted.peek().is_some_and(|id| {
                let known = pipeline.flow_of(**id);
                let known = known.map(|flow| (flow.table, flow.priority, flow.matching));
                let Operation::Add(flow) = operation else {
                    return false;
                };
                known == Some((flow.table, flow.priority, flow.matching.clone()))
            });
            if is_it && let Some(id) = inserted.next() {
                ids.push((*id, record));
            }
        }
    }

    fn restore_stations(
        &mut self,
        records: &[super::records::StationRecord],
        places: &Places,
        restored: &mut Restored,
    ) {
        let mut moves = Vec::new();
        for record in records {
            let bridge = places.bridge(record.bridge);
            let port = places.station_port(record.bridge, record.port);
            let (bridge, port) = match (bridge, port) {
                (Ok(bridge), Ok(port)) => (bridge, port),
                (Err(misfit), _) | (_, Err(misfit)) => {
                    restored.leave_out(misfit.name());
                    continue;
                }
            };
            let station = Station {
                bridge,
                vlan: record.vlan,
                mac: record.mac,
            };
            let seen_at = Instant::from_nanos(record.seen_at_ns);
            let resumed = self
                .upkeep
                .aging()
                .resume(station, port, (seen_at, record.is_fixed));
            match resumed {
                Some(moved) => {
                    moves.extend(moved);
                    restored.contents.stations += 1;
                }
                None => restored.leave_out("station_without_room"),
            }
        }
        self.move_stations(moves);
    }
}

/// What became of connections.
#[derive(Debug, Default)]
struct Resumed {
    count: usize,
    left_out: BTreeMap<&'static str, u64>,
}

/// Puts connections into the table; `numbers` has the rules that committed them.
fn resume_all(
    tracker: &Tracker,
    connections: Vec<SavedConnection>,
    numbers: &HashMap<u64, u64>,
    now: Instant,
) -> Resumed {
    let mut resumed = Resumed::default();
    for mut connection in connections {
        let rule = numbers.get(&connection.rule()).copied().unwrap_or(0);
        connection.set_owners(rule, 0);
        let reason = match tracker.resume(connection, now) {
            Ok(()) => {
                resumed.count += 1;
                continue;
            }
            Err(NotResumed::Over) => "connection_over",
            Err(NotResumed::Taken) => "connection_taken",
            Err(NotResumed::Full) => "connection_without_room",
            Err(_) => "connection_unsound",
        };
        *resumed.left_out.entry(reason).or_default() += 1;
    }
    resumed
}
