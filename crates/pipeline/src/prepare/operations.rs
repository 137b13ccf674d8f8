//! Performs each operation, part by part.

use std::sync::Arc;

use thalweg_classifier::{Pattern, Precedence, RuleId};
use thalweg_packet::{Instant, PortId};

use super::{Done, Plan, SLICE};
use crate::action::{Actions, GroupId, TableId};
use crate::bridge::BridgeId;
use crate::change::{ChangeError, Operation};
use crate::check;
use crate::conjunctions;
use crate::flow::{Flow, Group, Labels, PortState};
use crate::fragments::FragmentMode;
use crate::limits::TableLimit;
use crate::mac::MacMove;
use crate::mirror::Mirrors;
use crate::miss::Misses;
use crate::numbered::NumberedGroup;
use crate::pipeline::{Counters, End, Pipeline, Rule};
use crate::reclaim::Touched;
use crate::vlan::PortVlans;

/// What a modification changes of each rule.
struct Modified<'a> {
    actions: &'a Actions,
    /// `None` to keep each rule's own.
    cookie: Option<u64>,
    /// The same.
    max_length: Option<u16>,
    resets_counts: bool,
}

impl Pipeline {
    /// Does the next part of a plan; the plan must have one.
    pub(super) fn perform_part(&mut self, plan: &mut Plan<'_>) -> Result<(), ChangeError> {
        let next = plan.next_numbered();
        let (index, operation) = next.expect("the plan is not over");
        match operation {
            Operation::Add(flow) => self.add(index, flow, plan)?,
            Operation::AddChecked(flow) => {
                let found = plan.found(|| self.meant_by(operation));
                let found = found.first().copied();
                self.refuse_overlap(index, found)?;
                self.add(index, flow, plan)?;
            }
            Operation::SetGroup(group) => self.set_group(index, group)?,
            Operation::SetMeter(meter) => self.set_meter(index, meter, plan.now())?,
            Operation::SetPort(id, state) => self.set_port(*id, *state),
            Operation::DeletePort(id) => self.delete_port(*id),
            Operation::SetPortVlans(id, vlans) => self.set_port_vlans(*id, vlans),
            Operation::SetMirrors(bridge, mirrors) => self.set_mirrors(*bridge, mirrors),
            Operation::SetForwardsBpdus(bridge, does) => self.set_forwards_bpdus(*bridge, *does),
            Operation::SetMisses(bridge, misses) => self.set_misses(*bridge, misses),
            Operation::SetFragments(bridge, mode) => self.set_fragments(*bridge, *mode),
            // The layout was made when the change began.
            Operation::Foresee(_) => {}
            Operation::LimitTable(table, limit) => {
                let may_evict = plan.part() > 0 || self.limit_table(*table, limit);
                if may_evict && self.evict_beyond_limit(*table) {
                    plan.advance(usize::MAX);
                    return Ok(());
                }
            }
            Operation::MoveMacs(moves) => {
                if let Some(moved) = moves.get(plan.part()) {
                    self.move_mac(*moved);
                }
                plan.advance(moves.len());
                return Ok(());
            }
            Operation::Modify(..)
            | Operation::Revise(_)
            | Operation::Delete(_)
            | Operation::DeleteLeading(..)
            | Operation::DeleteAll
            | Operation::DeleteGroup(_) => return self.perform_on_next(index, operation, plan),
            Operation::DeleteMeters(meters) => {
                self.perform_on_meters(meters, operation, plan);
                return Ok(());
            }
        }
        plan.advance(1);
        Ok(())
    }

    /// Does an operation on the next of the rules that it selects.
    fn perform_on_next(
        &mut self,
        index: usize,
        operation: &Operation,
        plan: &mut Plan<'_>,
    ) -> Result<(), ChangeError> {
        let part = plan.part();
        let found = plan.found(|| self.meant_by(operation));
        let (id, parts) = (found.get(part).copied(), found.len());
        match operation {
            Operation::DeleteGroup(group) if part == 0 => self.delete_group(*group),
            // A modification that finds no rule can still be refused.
            Operation::Modify(_, actions) if part == 0 => {
                check::named_of(self, index, actions)?;
            }
            Operation::Revise(revision) if part == 0 => {
                check::named_of(self, index, &revision.actions)?;
                if let (None, Some(flow)) = (id, &revision.otherwise) {
                    if flow.labels.checks_overlap {
                        self.refuse_overlap(index, self.overlapped_by(flow))?;
                    }
                    self.add(index, flow, plan)?;
                }
            }
            _ => {}
        }
        match (operation, id) {
            (Operation::Modify(_, actions), Some(id)) => {
                let modified = Modified {
                    actions,
                    cookie: None,
                    max_length: None,
                    resets_counts: false,
                };
                self.modify(index, id, &modified, plan.now())?;
            }
            (Operation::Revise(revision), Some(id)) => {
                let modified = Modified {
                    actions: &revision.actions,
                    cookie: revision.cookie,
                    max_length: Some(revision.max_length),
                    resets_counts: revision.resets_counts,
                };
                self.modify(index, id, &modified, plan.now())?;
            }
            (_, Some(id)) => self.remove(id),
            (_, None) => {}
        }
        plan.advance(parts);
        Ok(())
    }

    /// Refuses a rule that shares packets with one that is there.
    fn refuse_overlap(&self, index: usize, found: Option<RuleId>) -> Result<(), ChangeError> {
        let Some(id) = found else { return Ok(()) };
        let rule = self.flow_of(id).expect("it was just found");
        Err(ChangeError::Overlap {
            operation: index,
            rule: rule.to_string(),
        })
    }

    fn add(&mut self, index: usize, flow: &Flow, plan: &Plan<'_>) -> Result<(), ChangeError> {
        check::flow(self, index, flow)?;
        let (value, mask) = flow.matching.compile_rule(self.layout());
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let replaced = self
            .table(flow.table)
            .and_then(|table| table.find(pattern, flow.priority))
            .inspect(|id| debug_assert!(self.rule(*id).is_some(), "tables name known rules"));
        let precedence = match replaced {
            Some(id) => self.rule(id).expect("tables name known rules").precedence,
            None => {
                self.make_room(index, flow.table)?;
                self.next_age += 1;
                Precedence::new(flow.priority, self.next_age)
            }
        };
        let rule = Rule {
            table: flow.table,
            precedence,
            cookie: flow.cookie,
            idle_timeout_s: flow.idle_timeout_s,
            hard_timeout_s: flow.hard_timeout_s,
            reports_removal: flow.reports_removal,
            labels: flow.labels,
            actions: flow.actions.clone(),
            created_at: plan.now(),
            modified_at: plan.now(),
            used_at: plan.now(),
            counters: Counters::default(),
            born: self.open_version(),
            end: None,
        };
        match replaced {
            Some(id) => self.replace(index, id, rule, pattern, !flow.resets_counts),
            None => self.insert(index, rule, pattern).map(|_| ()),
        }
    }

    /// Ends a rule of a full table, so that another can be added.
    fn make_room(&mut self, index: usize, table: TableId) -> Result<(), ChangeError> {
        let wanted = self.rules_of_table(table) + 1;
        let Some(capacity) = self.limit_below(table, wanted) else {
            return Ok(());
        };
        let Some(id) = self.first_to_evict(table) else {
            return Err(ChangeError::TableFull {
                operation: index,
                table: table.number(),
                capacity,
            });
        };
        self.evict(id);
        Ok(())
    }

    fn evict(&mut self, id: RuleId) {
        self.remove(id);
        let delta = &mut self.unpublished().delta;
        if delta.removed.last() == Some(&id) {
            delta.evicted.insert(id);
        }
    }

    /// Sets a table's limit; returns whether the number of rules that it allows is another.
    fn limit_table(&mut self, table: TableId, limit: &Arc<TableLimit>) -> bool {
        let former = self.table_limit(table).cloned();
        let is_same = match &former {
            Some(former) => former == limit,
            None => **limit == TableLimit::default(),
        };
        if is_same {
            return false;
        }
        let rules = former.as_ref().and_then(|former| former.rules);
        self.note(Done::Limit(table, former));
        let is_usual = **limit == TableLimit::default();
        self.install_limit(table, (!is_usual).then(|| limit.clone()));
        rules != limit.rules
    }

    /// Ends some rules beyond a table's limit; returns whether there may be more.
    fn evict_beyond_limit(&mut self, table: TableId) -> bool {
        for _ in 0..SLICE {
            let count = self.rules_of_table(table);
            let is_beyond = self.limit_below(table, count).is_some();
            let Some(id) = is_beyond.then(|| self.first_to_evict(table)).flatten() else {
                return false;
            };
            self.evict(id);
        }
        true
    }

    /// Replaces a rule with another.
    fn replace(
        &mut self,
        index: usize,
        id: RuleId,
        mut rule: Rule,
        pattern: Pattern<'_>,
        hands_on_counts: bool,
    ) -> Result<(), ChangeError> {
        let old = self.rule(id).expect("it is there");
        // As in Open vSwitch, to be replaced is no use.
        rule.used_at = old.used_at;
        if hands_on_counts {
            rule.counters = old.counters;
        }
        let is_published = old.born <= self.version;
        let stays = conjunctions::is_clause(&old.actions) == conjunctions::is_clause(&rule.actions);
        if !is_published && stays {
            self.rewrite(id, rule, hands_on_counts);
            return Ok(());
        }
        // A rule that no reader has seen may have the place of one that they see.
        let former = match is_published {
            true => Some(id),
            false => self.unpublished().heirs.get(&id).copied(),
        };
        let handed_on = former.and_then(|former| self.end_mut(former));
        let handed_on = handed_on.is_none_or(|end| end.hands_on_counts);
        self.remove(id);
        let successor = self.insert(index, rule, pattern)?;
        if let Some(former) = former {
            let end = self.end_mut(former).expect("it dies, but is still there");
            end.successor = Some(successor);
            end.hands_on_counts = handed_on && hands_on_counts;
            self.unpublished().heirs.insert(successor, former);
        }
        Ok(())
    }

    /// Overwrites a rule that no reader has seen yet (invariant 3).
    fn rewrite(&mut self, id: RuleId, rule: Rule, hands_on_counts: bool) {
        self.dismiss(id);
        let old = self.rules[id.0 as usize].as_mut().expect("it is there");
        let born = old.born;
        *old = Rule { born, ..rule };
        self.admit(id);
        if !hands_on_counts && let Some(former) = self.unpublished().heirs.get(&id).copied() {
            let end = self.end_mut(former);
            end.expect("an heir's rule has ended").hands_on_counts = false;
        }
    }

    fn end_mut(&mut self, id: RuleId) -> Option<&mut End> {
        self.rules[id.0 as usize].as_mut()?.end.as_deref_mut()
    }

    fn insert(
        &mut self,
        index: usize,
        rule: Rule,
        pattern: Pattern<'_>,
    ) -> Result<RuleId, ChangeError> {
        if self.is_full() {
            return Err(ChangeError::RulesFull {
                operation: index,
                capacity: self.config.rules,
            });
        }
        let (id, is_new_place) = self.places.take(&mut self.rules);
        let (seed, born) = (self.config.index_seed, rule.born);
        if self.table(rule.table).is_none() {
            self.note(Done::Table(rule.table));
        }
        let classifier = self.generation.classifier_for_new(&rule, seed);
        classifier.insert(pattern, rule.precedence, id, born);
        self.rules[id.0 as usize] = Some(rule);
        self.living += 1;
        self.admit(id);
        self.note(Done::Birth { id, is_new_place });
        self.unpublished().delta.inserted.push(id);
        Ok(id)
    }

    /// Whether there is no room for another rule at the version being prepared.
    fn is_full(&self) -> bool {
        let capacity = self.config.rules;
        // Rules of older versions have the same amount of room again.
        self.living >= capacity || self.places.used() >= 2 * capacity
    }

    fn modify(
        &mut self,
        index: usize,
        id: RuleId,
        modified: &Modified<'_>,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let Modified {
            actions,
            cookie,
            max_length,
            resets_counts,
        } = *modified;
        let known = self.rules[id.0 as usize].as_mut();
        let known = known.expect("selected rules exist");
        let cookie = cookie.unwrap_or(known.cookie);
        let labels = Labels {
            max_length: max_length.unwrap_or(known.labels.max_length),
            ..known.labels
        };
        let is_same = known.actions == *actions && known.cookie == cookie;
        if is_same && known.labels == labels && !resets_counts {
            // No packet is answered otherwise, so the rule stays, and with it cached answers.
            known.modified_at = now;
            return Ok(());
        }
        let rule = known.clone();
        check::actions(self, index, rule.table, actions)?;
        let table = self.table(rule.table).expect("a rule's table exists");
        let pattern = table.pattern(id);
        let (value, mask) = pattern.expect("a rule is in its table");
        let rule = Rule {
            actions: actions.clone(),
            cookie,
            labels,
            modified_at: now,
            counters: match resets_counts {
                true => Counters::default(),
                false => rule.counters,
            },
            born: self.open_version(),
            ..rule
        };
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        self.replace(index, id, rule, pattern, !resets_counts)
    }

    pub(super) fn remove(&mut self, id: RuleId) {
        let (open, published) = (self.open_version(), self.version);
        let rule = self.rules[id.0 as usize].as_mut().expect("the rule exists");
        rule.end = Some(End::at(open));
        let is_published = rule.born <= published;
        let table = self.generation.tables[rule.table.index()].as_mut();
        let table = table.expect("a rule's table exists");
        table.classifier_of(&rule.actions).remove(id, open);
        self.living -= 1;
        self.dismiss(id);
        self.count_death(open);
        self.note(Done::Death(id));
        let prepared = self.unpublished();
        if is_published {
            prepared.delta.removed.push(id);
            return;
        }
        prepared.stillborn += 1;
        // The rule whose place it had keeps its late counts, as no rule has that place now.
        if let Some(former) = prepared.heirs.remove(&id)
            && let Some(end) = self.end_mut(former)
        {
            end.successor = None;
        }
    }

    fn set_group(&mut self, index: usize, group: &Group) -> Result<(), ChangeError> {
        check::group(self, index, group)?;
        let former = self.groups.get(&group.id);
        let former = former.and_then(|history| history.at(self.open_version()));
        let known = NumberedGroup::new(group, former.cloned().as_ref(), &mut self.last_bucket);
        self.record_group(group.id, Some(known));
        let counters = self.group_counters.get(&group.id);
        let before = counters.map(|counters| counters.buckets.len());
        // Workers may still count for the former group until it is reclaimed.
        let room = before.unwrap_or(0).max(group.buckets.len());
        let counters = self.group_counters.entry(group.id).or_default();
        counters.buckets.resize(room, Counters::default());
        self.note(Done::GroupCounters(group.id, before));
        if before.is_some() {
            self.touch(Touched::GroupCounters(group.id));
        }
        Ok(())
    }

    /// Removes a group, if it exists; the rules that use it follow (OpenFlow 1.5.1,
    /// section 6.7).
    fn delete_group(&mut self, id: GroupId) {
        if self.group(id, self.open_version()).is_some() {
            self.record_group(id, None);
        }
    }

    fn record_group(&mut self, id: GroupId, state: Option<NumberedGroup>) {
        let open = self.open_version();
        self.groups.entry(id).or_default().record(open, state);
        self.touch(Touched::Group(id));
        self.note(Done::Group(id));
        self.unpublished().delta.groups.push(id);
    }

    fn set_port(&mut self, id: PortId, state: PortState) {
        if self.port(id, self.open_version()) != Some(state) {
            self.record_port(id, Some(state));
        }
    }

    fn delete_port(&mut self, id: PortId) {
        if self.port(id, self.open_version()).is_some() {
            self.record_port(id, None);
        }
        self.set_port_vlans(id, &Arc::default());
    }

    fn set_port_vlans(&mut self, id: PortId, vlans: &Arc<PortVlans>) {
        let open = self.open_version();
        if *self.port_vlans(id, open) == **vlans {
            return;
        }
        let is_usual = **vlans == PortVlans::default();
        let history = self.vlans.entry(id).or_default();
        history.record(open, (!is_usual).then(|| vlans.clone()));
        self.touch(Touched::PortVlans(id));
        self.note(Done::PortVlans(id));
        self.unpublished().delta.ports.push(id);
    }

    fn set_mirrors(&mut self, bridge: BridgeId, mirrors: &Arc<Mirrors>) {
        let open = self.open_version();
        let wanted = (**mirrors != Mirrors::default()).then_some(mirrors);
        if self.mirrors(bridge, open) == wanted {
            return;
        }
        let history = self.mirrors.entry(bridge).or_default();
        history.record(open, wanted.cloned());
        self.touch(Touched::Mirrors(bridge));
        self.note(Done::Mirrors(bridge));
        self.unpublished().delta.mirrors.push(bridge);
    }

    fn set_forwards_bpdus(&mut self, bridge: BridgeId, does: bool) {
        let open = self.open_version();
        if self.forwards_bpdus(bridge, open) == does {
            return;
        }
        let history = self.bpdus.entry(bridge).or_default();
        history.record(open, does.then_some(()));
        self.touch(Touched::Bpdus(bridge));
        self.note(Done::Bpdus(bridge));
        self.unpublished().delta.bpdus.push(bridge);
    }

    fn record_port(&mut self, id: PortId, state: Option<PortState>) {
        let open = self.open_version();
        self.ports.entry(id).or_default().record(open, state);
        self.touch(Touched::Port(id));
        self.note(Done::Port(id));
        self.unpublished().delta.ports.push(id);
    }

    fn set_misses(&mut self, bridge: BridgeId, misses: &Arc<Misses>) {
        let open = self.open_version();
        if self.misses(bridge, open) == *misses {
            return;
        }
        let is_usual = **misses == Misses::default();
        let history = self.misses.entry(bridge).or_default();
        history.record(open, (!is_usual).then(|| misses.clone()));
        self.touch(Touched::Misses(bridge));
        self.note(Done::Misses(bridge));
        self.unpublished().delta.misses.push(bridge);
    }

    fn set_fragments(&mut self, bridge: BridgeId, mode: FragmentMode) {
        let open = self.open_version();
        if self.fragment_mode(bridge, open) == mode {
            return;
        }
        let state = Some(mode).filter(|mode| *mode != FragmentMode::default());
        self.fragments
            .entry(bridge)
            .or_default()
            .record(open, state);
        self.touch(Touched::Fragments(bridge));
        self.note(Done::Fragments(bridge));
        self.unpublished().delta.fragments.push(bridge);
    }

    fn move_mac(&mut self, moved: MacMove) {
        let open = self.open_version();
        let is_full = self.macs.len() >= self.config.stations;
        let known = self.macs.lookup(moved.station, open);
        if known == moved.port || (known.is_none() && is_full) {
            return;
        }
        self.macs.record(moved, open);
        self.touch(Touched::Station(moved.station));
        self.note(Done::Station(moved.station));
        self.unpublished().delta.stations.push(moved.station);
    }
}
