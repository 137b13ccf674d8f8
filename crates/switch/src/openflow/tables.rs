//! Tables: their names, limits, evictions and vacancy, and what they can do.
//!
//! A table's limit is set by the switch's configuration ([`Switch::set_openflow_tables`]) and
//! kept by the pipeline. Whether it evicts is said by the configuration or by a table-mod; one
//! of them is enough, as in Open vSwitch (`EVICTION_CLIENT`, `EVICTION_OPENFLOW`).
//!
//! ```text
//!   room of a table in percent:  below `down` -> event DOWN, then an event UP is awaited
//!                                above `up`   -> event UP, then an event DOWN is awaited
//! ```
//!
//! 1. Where some table tells its vacancy, each transaction is a change of its own, so that an
//!    event has the room as it was when a threshold was crossed.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_control::openflow::target::Event;
use thalweg_openflow::message::flow::ALL_TABLES;
use thalweg_openflow::message::switch::{
    TableAbilities, TableConfig, TableDesc, TableFeatures, TableMod, TableStats, TableStatus,
    Vacancy, table_config,
};
use thalweg_openflow::{ErrorCode, FieldId, Refusal, Version, refuse};
use thalweg_packet::Instant;
use thalweg_pipeline::{BridgeId, Change, Miss, Operation, TableId, TableLimit};

use super::convert;
use super::numbering::Numbering;
use super::plane::TABLES;
use crate::switch::Switch;

/// Most rules that a table without a limit says it can hold.
const MAX_ENTRIES: u32 = 1_000_000;
/// How a rule to go is chosen (`OFPTMPEF_*`): otherwise, by importance, by lifetime.
const EVICTION: u32 = 0b111;
/// The room of a table became short (`OFPTR_VACANCY_DOWN`).
const DOWN: u8 = 3;
/// The room of a table is back (`OFPTR_VACANCY_UP`).
const UP: u8 = 4;
/// How long the last uses of rules are recent enough to choose one to evict.
const SETTLED_FOR: Duration = Duration::from_secs(1);
/// The commands of OpenFlow 1.5's table features that Open vSwitch has.
const REPLACE: u8 = 0;
const MODIFY: u8 = 1;

/// A table's configuration (Open vSwitch's `Flow_Table`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenFlowTable {
    /// Its name, at most 31 bytes; empty for none. Controllers cannot change one.
    pub name: String,
    /// How many rules it may have, and what happens beyond that.
    pub limit: TableLimit,
}

/// The state of a table beyond its rules.
#[derive(Clone, Debug, Default)]
struct Table {
    configured: OpenFlowTable,
    /// The name that a controller gave.
    name: String,
    /// Whether a table-mod turned eviction on.
    evicts: bool,
    /// The thresholds of vacancy events.
    thresholds: (u8, u8),
    /// The event that is awaited, if events are on.
    awaited: Option<u8>,
}

impl Table {
    fn limit(&self) -> TableLimit {
        TableLimit {
            evicts: self.configured.limit.evicts || self.evicts,
            ..self.configured.limit.clone()
        }
    }

    fn name(&self) -> &str {
        match self.configured.name.is_empty() {
            true => &self.name,
            false => &self.configured.name,
        }
    }
}

/// All tables; those that are not listed are as tables are at first.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    known: BTreeMap<u8, Table>,
    /// When counts were last settled to choose a rule to evict.
    settled_at: Option<Instant>,
}

impl Tables {
    fn get(&self, table: u8) -> Table {
        self.known.get(&table).cloned().unwrap_or_default()
    }

    /// Whether some table tells its vacancy.
    pub(super) fn tells_vacancy(&self) -> bool {
        self.known.values().any(|table| table.awaited.is_some())
    }
}

/// Whether a message of this version says what a table does without a rule.
fn says_misses(version: Version) -> bool {
    matches!(version, Version::V11 | Version::V12)
}

fn named(asked: &TableMod) -> std::ops::RangeInclusive<u8> {
    match asked.table {
        ALL_TABLES => 0..=TABLES - 1,
        table => table..=table,
    }
}

/// The operations of a table-mod, in the bridge's numbers.
///
/// # Errors
/// If there is no such table, or it cannot be set up so.
pub(super) fn operations(
    switch: &Switch,
    numbers: Numbering,
    version: Version,
    asked: &TableMod,
) -> Result<Vec<Operation>, Refusal> {
    if asked.table == TABLES {
        let what = format!("table {TABLES} is the switch's own");
        return Err(refuse(ErrorCode::OFPTMFC_EPERM, what));
    }
    let bits = asked.config.bits;
    if says_misses(version) && bits & table_config::MISS_MASK == table_config::MISS_MASK {
        let what = "a table either drops packets without a rule or goes on with the next table";
        return Err(refuse(ErrorCode::OFPTMFC_BAD_CONFIG, what));
    }
    if asked.config.eviction.is_some_and(|flags| flags != EVICTION) {
        let what = "a rule to evict is always chosen by importance and lifetime";
        return Err(refuse(ErrorCode::OFPTMFC_BAD_CONFIG, what));
    }
    let desk = switch.desks.get(numbers.bridge);
    let Some(desk) = desk.filter(|_| version >= Version::V14) else {
        return Ok(Vec::new());
    };
    let evicts = bits & table_config::EVICTION != 0;
    let operations = named(asked).map(|number| {
        let table = Table {
            evicts,
            ..desk.tables.get(number)
        };
        Operation::LimitTable(TableId(number.into()), table.limit().into())
    });
    Ok(operations.collect())
}

fn vacancy(switch: &Switch, table: TableId) -> u8 {
    let pipeline = switch.pipeline();
    let limit = pipeline.table_limit(table).and_then(|limit| limit.rules);
    let rules = pipeline.rules_of_table(table) as u64;
    match limit.map_or(u64::from(u32::MAX), u64::from) {
        0 => 100,
        limit => (limit.saturating_sub(rules) * 100 / limit) as u8,
    }
}

fn description(switch: &Switch, numbers: Numbering, number: u8) -> TableDesc {
    let desk = switch.desks.get(numbers.bridge);
    let table = desk.map(|desk| desk.tables.get(number)).unwrap_or_default();
    let mut bits = 0;
    if table.evicts {
        bits |= table_config::EVICTION;
    }
    let vacancy = table.awaited.map(|_| {
        bits |= table_config::VACANCY_EVENTS;
        let (down, up) = table.thresholds;
        let now = vacancy(switch, numbers.table(number));
        Vacancy { down, up, now }
    });
    TableDesc {
        table: number,
        config: TableConfig {
            bits,
            eviction: Some(EVICTION),
            vacancy,
        },
    }
}

/// The configuration of each table.
pub(super) fn descriptions(switch: &Switch, numbers: Numbering) -> Vec<TableDesc> {
    (0..TABLES)
        .map(|table| description(switch, numbers, table))
        .collect()
}

/// The counts of each table.
pub(super) fn statistics(
    switch: &mut Switch,
    numbers: Numbering,
    version: Version,
) -> Vec<TableStats> {
    drop(switch.totals());
    let pipeline = switch.pipeline();
    let mut lookups = [(0, 0); TABLES as usize];
    for (table, asked, matched) in pipeline.table_counters() {
        let counts = lookups.get_mut(usize::from(table.number()));
        if let Some(counts) = counts.filter(|_| table.bridge() == numbers.bridge) {
            *counts = (asked, matched);
        }
    }
    let features = features(switch, numbers, version);
    let rows = features.into_iter().map(|features| {
        let table = features.table;
        let (lookups, matched) = lookups[usize::from(table)];
        TableStats {
            table,
            active: pipeline.rules_of_table(numbers.table(table)) as u32,
            lookups,
            matched,
            name: features.name.clone(),
            max_entries: features.max_entries,
            features: Some(Box::new(features)),
        }
    });
    rows.collect()
}

/// What each table can do: all of them the same, but for what they are called and hold.
pub(super) fn features(
    switch: &Switch,
    numbers: Numbering,
    version: Version,
) -> Vec<TableFeatures> {
    let known = |field: &FieldId| convert::knows(*field);
    let matches: Vec<FieldId> = FieldId::all().filter(known).collect();
    let masks = matches.iter().copied().filter(|field| field.is_maskable());
    let masks: Vec<FieldId> = masks.collect();
    let set = matches.iter().copied().filter(|field| field.is_writable());
    let set: Vec<FieldId> = set.collect();
    let actions = convert::ACTIONS.to_vec();
    let desk = switch.desks.get(numbers.bridge);
    // The instruction that measures.
    let meter = if version < Version::V13 {
        0
    } else {
        0b100_0000
    };
    let features = |number: u8| {
        let next_tables: Vec<u8> = (number + 1..TABLES).collect();
        let abilities = TableAbilities {
            // Goto, write metadata, write, apply, clear; the last table leads nowhere.
            instructions: meter
                | match next_tables.is_empty() {
                    true => 0b11_1100,
                    false => 0b11_1110,
                },
            next_tables,
            write_actions: actions.clone(),
            apply_actions: actions.clone(),
            write_set_fields: set.clone(),
            apply_set_fields: set.clone(),
        };
        let table = desk.map(|desk| desk.tables.get(number)).unwrap_or_default();
        let miss = desk.and_then(|desk| desk.misses.tables.get(&number).copied());
        let limit = table.configured.limit.rules.unwrap_or(MAX_ENTRIES);
        TableFeatures {
            table: number,
            command: 0,
            features: 0,
            name: table.name().to_owned(),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: match miss.filter(|_| version < Version::V13) {
                Some(Miss::Continue) => table_config::MISS_CONTINUE,
                Some(Miss::Drop) => table_config::MISS_DROP,
                Some(Miss::Controller) | None => 0,
            },
            max_entries: limit.min(MAX_ENTRIES),
            of_entries: abilities.clone(),
            of_misses: abilities,
            matches: matches.clone(),
            masks: masks.clone(),
            wildcards: matches.clone(),
            other: Vec::new(),
        }
    };
    (0..TABLES).map(features).collect()
}

/// Whether the properties of a request say anything.
fn has_properties(features: &TableFeatures) -> bool {
    let is_said = |abilities: &TableAbilities| *abilities != TableAbilities::default();
    is_said(&features.of_entries)
        || is_said(&features.of_misses)
        || !(features.matches.is_empty() && features.wildcards.is_empty())
}

fn all_in<T: PartialEq>(few: &[T], many: &[T]) -> bool {
    few.iter().all(|one| many.contains(one))
}

fn are_abilities_within(few: &TableAbilities, many: &TableAbilities) -> bool {
    few.instructions & !many.instructions == 0
        && all_in(&few.next_tables, &many.next_tables)
        && all_in(&few.write_actions, &many.write_actions)
        && all_in(&few.apply_actions, &many.apply_actions)
        && all_in(&few.write_set_fields, &many.write_set_fields)
        && all_in(&few.apply_set_fields, &many.apply_set_fields)
}

/// Whether a table has all that a request wants of it.
fn is_within(few: &TableFeatures, many: &TableFeatures) -> bool {
    few.metadata_match & !many.metadata_match == 0
        && few.metadata_write & !many.metadata_write == 0
        && few.config & !many.config & (table_config::EVICTION | table_config::VACANCY_EVENTS) == 0
        && are_abilities_within(&few.of_entries, &many.of_entries)
        && are_abilities_within(&few.of_misses, &many.of_misses)
        && all_in(&few.matches, &many.matches)
        && all_in(&few.masks, &many.masks)
        && all_in(&few.wildcards, &many.wildcards)
}

/// Sets up tables by their features: only names change. What else is asked for must be there.
///
/// # Errors
/// If it is not, or a name is the configuration's.
pub(super) fn set_up(
    switch: &mut Switch,
    numbers: Numbering,
    version: Version,
    asked: &[TableFeatures],
) -> Result<(), Refusal> {
    let not_so = |what: String| Err(refuse(ErrorCode::OFPTFFC_EPERM, what));
    let mut wanted: BTreeMap<u8, &TableFeatures> = BTreeMap::new();
    for features in asked {
        if wanted.insert(features.table, features).is_some() {
            let what = format!("table {} is named twice", features.table);
            return Err(refuse(ErrorCode::NXTFFC_DUP_TABLE, what));
        }
    }
    let command = asked.first().map_or(REPLACE, |first| first.command);
    if let Some((table, _)) = wanted.range(TABLES..).next() {
        return not_so(format!("table {table} cannot be set up"));
    }
    match command {
        REPLACE if wanted.len() < usize::from(TABLES) => {
            return not_so("the number of tables cannot be changed".to_owned());
        }
        REPLACE | MODIFY => {}
        _ => return not_so("tables are neither switched on nor off".to_owned()),
    }
    let tables = features(switch, numbers, version);
    let Some(desk) = switch.desks.get_mut(numbers.bridge) else {
        return Ok(());
    };
    for (number, wanted) in &wanted {
        let known = &tables[usize::from(*number)];
        if wanted.max_entries != known.max_entries {
            return not_so(format!("table {number}: its size is not the controller's"));
        }
        let fixed = &desk.tables.get(*number).configured.name;
        if !fixed.is_empty() && wanted.name != *fixed {
            return not_so(format!("table {number} is called {fixed} by configuration"));
        }
        let keeps_abilities = command == MODIFY && !has_properties(wanted);
        if !keeps_abilities && !is_within(wanted, known) {
            return not_so(format!("table {number} cannot do all that"));
        }
    }
    for (number, wanted) in wanted {
        let table = desk.tables.known.entry(number).or_default();
        // A configured name that is said again is still the configuration's alone.
        if table.configured.name.is_empty() {
            table.name = wanted.name.clone();
        }
    }
    Ok(())
}

impl Switch {
    /// Sets names and limits of a bridge's tables, by their number; others have neither. Rules
    /// beyond a limit end as far as their table evicts.
    ///
    /// Only while OpenFlow drives the bridge ([`Switch::open_flow`]).
    pub fn set_openflow_tables(&mut self, bridge: BridgeId, tables: &BTreeMap<u8, OpenFlowTable>) {
        let Some(desk) = self.desks.get_mut(bridge) else {
            return;
        };
        let mut operations = Vec::new();
        for number in 0..TABLES {
            let configured = tables.get(&number).cloned().unwrap_or_default();
            if configured == desk.tables.get(number).configured {
                continue;
            }
            let table = desk.tables.known.entry(number).or_default();
            if !configured.name.is_empty() {
                // As in Open vSwitch, the controller's does not come back after it.
                table.name.clear();
            }
            table.configured = configured;
            let limit = table.limit();
            let id = bridge.table(number);
            // A new number, so that rules beyond it go even if only the policy is another.
            for limit in [TableLimit::default(), limit] {
                operations.push(Operation::LimitTable(id, limit.into()));
            }
        }
        if !operations.is_empty() {
            let delta = self.apply(&Change { operations });
            let delta = delta.expect("every table can have a limit");
            self.tell_ended(&delta, &[]);
        }
    }

    /// Notes what a table-mod said, once its operations are done.
    pub(super) fn note_table(&mut self, numbers: Numbering, version: Version, asked: &TableMod) {
        let rooms: BTreeMap<u8, u8> = named(asked)
            .map(|number| (number, vacancy(self, numbers.table(number))))
            .collect();
        let Some(desk) = self.desks.get_mut(numbers.bridge) else {
            return;
        };
        let bits = asked.config.bits;
        for number in named(asked) {
            if says_misses(version) {
                let miss = match bits & table_config::MISS_MASK {
                    table_config::MISS_CONTINUE => Miss::Continue,
                    table_config::MISS_DROP => Miss::Drop,
                    _ => Miss::Controller,
                };
                desk.misses.tables.insert(number, miss);
            }
            if version >= Version::V14 {
                let table = desk.tables.known.entry(number).or_default();
                table.evicts = bits & table_config::EVICTION != 0;
                let Vacancy { down, up, .. } = asked.config.vacancy.unwrap_or_default();
                table.thresholds = (down, up);
                let room = rooms[&number];
                let first = if room < up { UP } else { DOWN };
                let is_on = bits & table_config::VACANCY_EVENTS != 0;
                table.awaited = is_on.then(|| table.awaited.unwrap_or(first));
            }
        }
        if says_misses(version) {
            self.follow_misses(numbers.bridge);
        }
    }

    /// Settles counts once a second, if one of `added` rules may find a table full that evicts
    /// the one that ends first.
    pub(super) fn settle_before_eviction(&mut self, numbers: Numbering, added: usize) {
        let now = self.now();
        let Some(desk) = self.desks.get(numbers.bridge) else {
            return;
        };
        let is_due = desk
            .tables
            .settled_at
            .is_none_or(|last| now - last >= SETTLED_FOR);
        let pipeline = self.pipeline();
        let mut evicting = desk.tables.known.iter().filter(|(number, table)| {
            let limit = table.limit();
            let rules = pipeline.rules_of_table(numbers.table(**number));
            let most = limit.rules.filter(|_| limit.evicts);
            most.is_some_and(|most| rules + added > most as usize)
        });
        let is_near = is_due && evicting.next().is_some();
        drop(evicting);
        drop(pipeline);
        if is_near {
            drop(self.totals());
            if let Some(desk) = self.desks.get_mut(numbers.bridge) {
                desk.tables.settled_at = Some(now);
            }
        }
    }

    /// Tells tables of a bridge whose room has become short or is back.
    pub(super) fn tell_vacancy(&mut self, numbers: Numbering) {
        let bridge = numbers.bridge;
        let Some(desk) = self.desks.get(bridge) else {
            return;
        };
        let known = desk.tables.known.iter();
        let telling = known.filter_map(|(number, table)| Some((*number, table.awaited?)));
        let telling: Vec<(u8, u8)> = telling.collect();
        for (number, awaited) in telling {
            let room = vacancy(self, numbers.table(number));
            let Some(desk) = self.desks.get_mut(bridge) else {
                return;
            };
            let table = desk.tables.known.entry(number).or_default();
            let (down, up) = table.thresholds;
            let is_crossed = match awaited {
                DOWN => room < down,
                _ => room > up && room >= down,
            };
            if !is_crossed {
                continue;
            }
            let desc = description(self, numbers, number);
            let reason = awaited;
            let event = Event::Table(TableStatus { reason, desc });
            self.desks.announce(bridge, event);
            if let Some(desk) = self.desks.get_mut(bridge) {
                let table = desk.tables.known.entry(number).or_default();
                table.awaited = Some(if awaited == DOWN { UP } else { DOWN });
            }
        }
    }
}
