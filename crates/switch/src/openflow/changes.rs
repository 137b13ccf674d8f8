//! Transactions of one bridge's plane, as changes of the pipeline.
//!
//! ```text
//!   transactions that wait together:  operations of all  -> one change, one publication
//!   one is refused:                   those before it    -> one change; then those behind it
//! ```
//!
//! 1. A transaction is one part of one change, so it is done whole or not at all.
//! 2. Operations are made in the bridge's numbers and moved into the bridge in one place
//!    ([`operations`]), so that none changes another bridge.
//! 3. What depends on groups and meters is decided by them as the operations in front leave
//!    them.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use thalweg_control::openflow::target::{
    Change as Asked, Failure, FlowEvent, Outcome, Transaction,
};
use thalweg_openflow::message::flow::{ALL_TABLES, FlowCommand, FlowFlags, FlowMod, removed};
use thalweg_openflow::message::monitor::MonitorEvent;
use thalweg_openflow::message::port::{PortMod, config};
use thalweg_openflow::message::switch::TableMod;
use thalweg_openflow::{ErrorCode, Refusal, Version, refuse};
use thalweg_packet::standard as f;
use thalweg_pipeline::{
    BridgeId, Change, ChangeError, Delta, Flow, Labels, Match, Operation, PortState, Revision,
    RuleId, Selector, TableId,
};

use super::cursor::{stats_of, target};
use super::groups::Overlay;
use super::numbering::Numbering;
use super::plane::TABLES;
use super::{convert, packets, tables};
use crate::switch::Switch;

/// Most operations of one change, unless a transaction alone has more.
const OPERATIONS: usize = 4_096;

/// Does transactions of a bridge's plane; returns what became of each.
pub(super) fn make(
    switch: &mut Switch,
    numbers: Numbering,
    transactions: &[Transaction],
) -> Vec<Result<Outcome, Failure>> {
    let mut results = Vec::with_capacity(transactions.len());
    let asked = transactions
        .iter()
        .map(|transaction| transaction.changes.len());
    switch.settle_before_eviction(numbers, asked.sum());
    while results.len() < transactions.len() {
        let first = results.len();
        let batch = Batch::collect(switch, numbers, &transactions[first..]);
        batch.apply(switch, &transactions[first..], &mut results);
    }
    results
}

/// Checks a change apart from the switch's state.
///
/// # Errors
/// If it is invalid in every state.
pub(super) fn check(numbers: Numbering, version: Version, asked: &Asked) -> Result<(), Refusal> {
    match asked {
        Asked::Flow(asked) => flow(version, asked).map(drop),
        Asked::PacketOut(asked) => packets::prepare(numbers, asked).map(drop),
        // Whether these can be done depends on the state.
        Asked::Group(_) | Asked::Meter(_) | Asked::Port(_) | Asked::Table(_) => Ok(()),
    }
}

/// Work after the rules and groups of a transaction: it cannot be refused.
enum Last {
    Table(Version, TableMod),
    Port(PortMod),
    Packet(Box<packets::Prepared>),
}

/// Transactions that take effect together.
struct Batch {
    numbers: Numbering,
    operations: Vec<Operation>,
    /// By operation: the transaction, and its change.
    origins: Vec<(usize, usize)>,
    /// By transaction: its operations.
    parts: Vec<Range<usize>>,
    /// By transaction: what follows.
    last: Vec<Vec<Last>>,
    /// The transaction behind these, if it was refused before anything was done.
    refused: Option<Failure>,
}

impl Batch {
    fn new(numbers: Numbering) -> Batch {
        Batch {
            numbers,
            operations: Vec::new(),
            origins: Vec::new(),
            parts: Vec::new(),
            last: Vec::new(),
            refused: None,
        }
    }

    fn collect(switch: &Switch, numbers: Numbering, transactions: &[Transaction]) -> Batch {
        let mut batch = Batch::new(numbers);
        let pipeline = switch.pipeline();
        let mut overlay = Overlay::new(&pipeline, numbers);
        let desk = switch.desks.get(numbers.bridge);
        let tells_vacancy = desk.is_some_and(|desk| desk.tables.tells_vacancy());
        for (number, transaction) in transactions.iter().enumerate() {
            let start = batch.operations.len();
            let is_alone = number > 0 && tells_vacancy;
            if start > OPERATIONS || is_alone || batch.last.iter().any(|last| !last.is_empty()) {
                break;
            }
            let mut last = Vec::new();
            let mut changes = transaction.changes.iter().enumerate();
            let read = changes.try_for_each(|(index, asked)| {
                let version = transaction.version;
                let into = (&mut batch.operations, &mut last);
                let read = operations(switch, &mut overlay, version, asked, into);
                read.map_err(|refusal| Failure { index, refusal })?;
                batch
                    .origins
                    .resize(batch.operations.len(), (number, index));
                Ok(())
            });
            if let Err(failure) = read {
                batch.operations.truncate(start);
                batch.origins.truncate(start);
                batch.refused = Some(failure);
                break;
            }
            batch.parts.push(start..batch.operations.len());
            batch.last.push(last);
        }
        batch
    }

    /// Makes the change; if a transaction is refused, those before it alone.
    fn apply(
        mut self,
        switch: &mut Switch,
        transactions: &[Transaction],
        results: &mut Vec<Result<Outcome, Failure>>,
    ) {
        let change = Change {
            operations: std::mem::take(&mut self.operations),
        };
        if change.operations.is_empty() {
            self.finish(switch, transactions, None, results);
            return;
        }
        match switch.apply(&change) {
            Ok(delta) => self.finish(switch, transactions, Some((&delta, &change)), results),
            Err(error) => {
                let operation = error.operation().unwrap_or(0);
                let (number, index) = self.origins[operation];
                let failure = Failure {
                    index,
                    refusal: refusal_of(&error),
                };
                self.operations = change.operations;
                self.operations.truncate(self.parts[number].start);
                self.origins.truncate(self.operations.len());
                self.parts.truncate(number);
                self.last.truncate(number);
                self.refused = Some(failure);
                // The transactions in front had no error; they are done again alone.
                self.apply(switch, transactions, results);
            }
        }
    }

    fn finish(
        self,
        switch: &mut Switch,
        transactions: &[Transaction],
        done: Option<(&Delta, &Change)>,
        results: &mut Vec<Result<Outcome, Failure>>,
    ) {
        let mut outcomes: Vec<Outcome> = self.parts.iter().map(|_| Outcome::default()).collect();
        if let Some((delta, change)) = done {
            switch.note_groups(self.numbers.bridge, delta);
            // Which operation a rule comes from is known where one transaction is alone.
            let is_alone = outcomes.len() == 1;
            let last_change = |number: usize| transactions[number].changes.len().saturating_sub(1);
            let events = switch.flow_events(self.numbers, delta, change);
            if let Some(outcome) = outcomes.last_mut() {
                let number = self.parts.len() - 1;
                let change = if is_alone { 0 } else { last_change(number) };
                outcome.flows = events
                    .into_iter()
                    .map(|event| FlowEvent { change, ..event })
                    .collect();
            }
        }
        for (outcome, last) in outcomes.into_iter().zip(self.last) {
            let numbers = self.numbers;
            last.into_iter()
                .for_each(|last| switch.do_last(numbers, last));
            results.push(Ok(outcome));
        }
        switch.tell_vacancy(self.numbers);
        results.extend(self.refused.map(Err));
    }
}

/// Adds the operations of one change to `into`, and other work to `last`.
fn operations(
    switch: &Switch,
    overlay: &mut Overlay<'_>,
    version: Version,
    asked: &Asked,
    (into, last): (&mut Vec<Operation>, &mut Vec<Last>),
) -> Result<(), Refusal> {
    let numbers = overlay.numbers();
    let mut add = |operation| into.push(numbers.operation(operation));
    match asked {
        Asked::Flow(asked) => add(flow(version, asked)?),
        Asked::Group(asked) => overlay.change(asked)?.into_iter().for_each(add),
        Asked::Meter(asked) => overlay.change_meters(asked)?.into_iter().for_each(add),
        Asked::Table(asked) => {
            let operations = tables::operations(switch, numbers, version, asked)?;
            operations.into_iter().for_each(add);
            last.push(Last::Table(version, asked.clone()));
        }
        Asked::Port(asked) => {
            add(port(switch, numbers, asked)?);
            last.push(Last::Port(asked.clone()));
        }
        Asked::PacketOut(asked) => {
            let prepared = packets::prepare(numbers, asked)?;
            overlay.check_named_by(&prepared.actions())?;
            let foresight = prepared.foresight(overlay.pipeline())?;
            foresight.into_iter().for_each(add);
            last.push(Last::Packet(Box::new(prepared)));
        }
    }
    Ok(())
}

/// The table of a change of flow entries; `None` for all.
fn table(asked: &FlowMod) -> Result<Option<TableId>, Refusal> {
    Ok(match asked.table {
        ALL_TABLES if asked.command != FlowCommand::Add => None,
        ALL_TABLES => Some(TableId(0)),
        table if table < TABLES => Some(TableId(table.into())),
        TABLES => {
            let what = "table 254 is the switch's own";
            return Err(refuse(ErrorCode::OFPBRC_EPERM, what));
        }
        table => {
            let what = format!("there is no table {table}");
            return Err(refuse(ErrorCode::OFPFMFC_BAD_TABLE_ID, what));
        }
    })
}

/// A change of flow entries.
fn flow(version: Version, asked: &FlowMod) -> Result<Operation, Refusal> {
    if asked.buffer.is_some() {
        let what = "this switch keeps no packets";
        return Err(refuse(ErrorCode::OFPBRC_BUFFER_UNKNOWN, what));
    }
    let matching = convert::matching::matching(&asked.matching)?;
    let is_hidden = matching.term(f::DP_HASH).is_some()
        || (matching.term(f::RECIRC_ID)).is_some_and(|term| term.value != 0);
    if asked.command == FlowCommand::Add && is_hidden {
        // As in Open vSwitch (`match_has_default_hidden_fields`).
        let what = "rules do not match dp_hash, nor a recirc_id other than 0";
        return Err(refuse(ErrorCode::OFPBRC_EPERM, what));
    }
    let is_deletion = matches!(
        asked.command,
        FlowCommand::Delete | FlowCommand::DeleteStrict
    );
    let leads_back = |to: u8| asked.table != ALL_TABLES && to <= asked.table;
    if !is_deletion && asked.instructions.goto.is_some_and(leads_back) {
        // Whether or not a modification finds a rule.
        let what = format!("a rule of table {} goes to no later table", asked.table);
        return Err(refuse(ErrorCode::OFPBIC_BAD_TABLE_ID, what));
    }
    let table = table(asked)?;
    let is_strict = matches!(
        asked.command,
        FlowCommand::ModifyStrict | FlowCommand::DeleteStrict
    );
    let selector = |matching| Selector {
        bridge: BridgeId::default(),
        table,
        strict_priority: is_strict.then_some(asked.priority),
        cookie: (asked.cookie_mask != 0).then_some((asked.cookie, asked.cookie_mask)),
        matching,
    };
    if is_deletion {
        let target = target(asked.out_port, asked.out_group);
        return Ok(Operation::DeleteLeading(selector(matching), target));
    }
    let actions = convert::actions::of_instructions(&asked.instructions, &matching)?;
    let flow = Flow {
        table: table.unwrap_or_default(),
        priority: asked.priority,
        cookie: match asked.new_cookie {
            u64::MAX => 0,
            cookie => cookie,
        },
        idle_timeout_s: asked.idle_timeout_s,
        hard_timeout_s: asked.hard_timeout_s,
        reports_removal: asked.flags.has(FlowFlags::SEND_REMOVED),
        resets_counts: resets_counts(version, asked),
        labels: labels(version, asked),
        matching,
        actions,
    };
    Ok(match asked.command {
        FlowCommand::Add if asked.flags.has(FlowFlags::CHECK_OVERLAP) => {
            Operation::AddChecked(flow)
        }
        FlowCommand::Add => Operation::Add(flow),
        _ => {
            let selector = selector(flow.matching.clone());
            Operation::Revise(Box::new(revision(version, asked, selector, flow)))
        }
    })
}

/// A modification. Up to OpenFlow 1.2 it counts from zero only by an addition; OpenFlow 1.0 and
/// Nicira's message change the cookie too. They and OpenFlow 1.1 add an entry where none is
/// selected.
fn revision(version: Version, asked: &FlowMod, selector: Selector, flow: Flow) -> Revision {
    let names_cookie = asked.new_cookie != u64::MAX;
    let changes_cookie = version == Version::V10 || asked.is_nicira;
    let adds = names_cookie && asked.cookie_mask == 0;
    Revision {
        selector,
        actions: flow.actions.clone(),
        cookie: (names_cookie && changes_cookie).then_some(asked.new_cookie),
        max_length: flow.labels.max_length,
        resets_counts: resets_counts(version, asked),
        otherwise: adds.then_some(flow),
    }
}

/// Whether a change counts from zero: before OpenFlow 1.2 additions do, and only they.
fn resets_counts(version: Version, asked: &FlowMod) -> bool {
    match version {
        Version::V10 | Version::V11 => asked.command == FlowCommand::Add,
        _ => asked.flags.has(FlowFlags::RESET_COUNTS),
    }
}

fn labels(version: Version, asked: &FlowMod) -> Labels {
    Labels {
        importance: asked.importance,
        max_length: convert::actions::max_length_of(&asked.instructions),
        checks_overlap: asked.flags.has(FlowFlags::CHECK_OVERLAP),
        resets_counts: resets_counts(version, asked),
        no_packet_counts: asked.flags.has(FlowFlags::NO_PACKET_COUNTS),
        no_byte_counts: asked.flags.has(FlowFlags::NO_BYTE_COUNTS),
    }
}

/// The bits of a port's configuration that the switch follows.
const PORT_BITS: u32 =
    config::PORT_DOWN | config::NO_RECV | config::NO_FLOOD | config::NO_FWD | config::NO_PACKET_IN;

fn port(switch: &Switch, numbers: Numbering, asked: &PortMod) -> Result<Operation, Refusal> {
    let id = numbers.port(convert::matching::port_id(asked.port));
    let pipeline = switch.pipeline();
    let known = pipeline.port(id, pipeline.version());
    let Some(known) = known else {
        let what = format!("there is no port {}", asked.port);
        return Err(refuse(ErrorCode::OFPPMFC_BAD_PORT, what));
    };
    if asked.address != super::statistics::address_of(switch, numbers, id) {
        let what = format!("port {} has another Ethernet address", asked.port);
        return Err(refuse(ErrorCode::OFPPMFC_BAD_HW_ADDR, what));
    }
    if asked.mask & asked.config & !PORT_BITS != 0 {
        let what = "this switch has no spanning tree";
        return Err(refuse(ErrorCode::OFPPMFC_BAD_CONFIG, what));
    }
    let mut state = known;
    if asked.mask & config::NO_FLOOD != 0 {
        state.floods = asked.config & config::NO_FLOOD == 0;
    }
    if asked.mask & config::NO_FWD != 0 {
        state.forwards = asked.config & config::NO_FWD == 0;
    }
    if asked.mask & config::PORT_DOWN != 0 {
        state.is_up = asked.config & config::PORT_DOWN == 0 && switch.is_port_up(id);
    }
    Ok(Operation::SetPort(id, PortState { ..state }))
}

impl Switch {
    /// Does what follows the rules and groups of a transaction.
    fn do_last(&mut self, numbers: Numbering, last: Last) {
        match last {
            Last::Packet(packet) => packets::send(self, *packet),
            Last::Table(version, asked) => self.note_table(numbers, version, &asked),
            Last::Port(asked) => {
                let id = numbers.port(convert::matching::port_id(asked.port));
                self.set_port_config(id, asked.config, asked.mask);
            }
        }
    }

    /// Has tables do with packets that no rule matches what controllers want.
    pub(super) fn follow_misses(&mut self, bridge: BridgeId) {
        let Some(desk) = self.desks.get(bridge) else {
            return;
        };
        let misses = Arc::new(desk.misses.clone());
        self.apply(&Change::one(Operation::SetMisses(bridge, misses)))
            .expect("tables can do each");
    }

    /// What a bridge's change did to rules, if monitors want it. An addition that replaces a rule
    /// is told as an addition.
    pub(super) fn flow_events(
        &self,
        numbers: Numbering,
        delta: &Delta,
        change: &Change,
    ) -> Vec<FlowEvent> {
        let desk = self.desks.get(numbers.bridge);
        if !desk.is_some_and(|desk| desk.watches_flows) {
            return Vec::new();
        }
        let now = self.now();
        let pipeline = self.pipeline();
        let stats = |id: RuleId| stats_of(&pipeline, numbers, id, None, now);
        let event = |id: RuleId, event, reason, before: Option<RuleId>| {
            if pipeline.rule(id)?.table.bridge() != numbers.bridge {
                return None;
            }
            Some(FlowEvent {
                event,
                flow: stats(id)?,
                before: before.and_then(|id| Some(stats(id)?.instructions)),
                reason,
                change: 0,
            })
        };
        let additions = change
            .operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Add(flow) | Operation::AddChecked(flow) => {
                    Some((flow.table, flow.priority, flow.matching.clone()))
                }
                _ => None,
            });
        let additions: HashSet<(TableId, u16, Match)> = additions.collect();
        let is_added = |id: RuleId| {
            let matching = pipeline.match_of(id);
            let key = pipeline.rule(id).zip(matching);
            key.is_some_and(|(rule, matching)| {
                additions.contains(&(rule.table, rule.precedence.priority(), matching))
            })
        };
        let gone = delta
            .removed
            .iter()
            .filter(|id| !pipeline.is_succeeded(**id));
        let gone = gone.filter_map(|id| {
            let reason = match delta.evicted.contains(id) {
                true => removed::EVICTION,
                false => removed::DELETE,
            };
            event(*id, MonitorEvent::Removed, reason, None)
        });
        let removed = delta.removed.iter();
        let replaced = removed.filter_map(|old| Some((pipeline.successor_of(*old)?, *old)));
        let replaced: BTreeMap<RuleId, RuleId> = replaced.collect();
        let new = delta.inserted.iter().filter_map(|id| {
            let before = replaced.get(id).copied();
            let kind = match before.is_some() && !is_added(*id) {
                true => MonitorEvent::Modified,
                false => MonitorEvent::Added,
            };
            event(*id, kind, 0, before)
        });
        gone.chain(new).collect()
    }

    /// Notes when groups of a bridge were made.
    fn note_groups(&mut self, bridge: BridgeId, delta: &Delta) {
        let now = self.now();
        let shared = self.shared.clone();
        let pipeline = shared.pipeline.read();
        let Some(desk) = self.desks.get_mut(bridge) else {
            return;
        };
        for id in &delta.groups {
            match pipeline.group(*id, delta.version) {
                Some(_) => drop(desk.groups.entry(*id).or_insert(now)),
                None => drop(desk.groups.remove(id)),
            }
        }
    }
}

/// The error that OpenFlow has for a refused change.
pub(super) fn refusal_of(error: &ChangeError) -> Refusal {
    let code = match error {
        ChangeError::Layout(_) => ErrorCode::OFPFMFC_TABLE_FULL,
        ChangeError::RulesFull { .. } | ChangeError::TableFull { .. } => {
            ErrorCode::OFPFMFC_TABLE_FULL
        }
        ChangeError::GroupsFull { .. } => ErrorCode::OFPGMFC_OUT_OF_GROUPS,
        ChangeError::GotoBackwards { .. } => ErrorCode::OFPBIC_BAD_TABLE_ID,
        ChangeError::Overlap { .. } => ErrorCode::OFPFMFC_OVERLAP,
        ChangeError::UnknownGroup { .. } => ErrorCode::OFPBAC_BAD_OUT_GROUP,
        ChangeError::UnknownMeter { .. } | ChangeError::BadMeter { .. } => {
            ErrorCode::OFPMMFC_INVALID_METER
        }
        ChangeError::MetersFull { .. } => ErrorCode::OFPMMFC_OUT_OF_METERS,
        ChangeError::GroupLoop { .. } => ErrorCode::OFPGMFC_LOOP,
        ChangeError::BadGroup { .. } => ErrorCode::OFPGMFC_INVALID_GROUP,
        ChangeError::BadRule { .. } => ErrorCode::OFPFMFC_UNKNOWN,
        ChangeError::BadAction { .. } => ErrorCode::OFPBAC_BAD_ARGUMENT,
        ChangeError::BadStation { .. } => ErrorCode::OFPFMFC_UNKNOWN,
        _ => ErrorCode::OFPFMFC_UNKNOWN,
    };
    refuse(code, error.to_string())
}
