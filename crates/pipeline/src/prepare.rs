//! Preparing, publishing and aborting a change.
//!
//! ```text
//!   prepare(change):
//!     grow the layout if the change reads more fields than it has
//!     for operation: do it at version + 1, or undo all and say why
//!   publish: version += 1          abort: undo all
//! ```
//!
//! Undoing leans on versions: classifiers, groups, ports and stations each forget what was done
//! for the unpublished version; rules that were born for it are removed. The cost is that of what
//! was done.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_classifier::{Pattern, Precedence, RuleId, Version};
use thalweg_packet::{FieldId, Instant, Layout, PortId};

use crate::action::{Actions, GroupId, TableId};
use crate::change::{Change, ChangeError, Operation, Selector};
use crate::check;
use crate::flow::{Flow, Group};
use crate::mac::{MacMove, Station};
use crate::pipeline::{Counters, End, Generation, Pipeline, Rule};
use crate::reads;

/// What a change did: all that a maintainer of caches needs to know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    /// The version that the change makes.
    pub version: Version,
    /// Rules that exist from this version on.
    pub inserted: Vec<RuleId>,
    /// Rules that do not exist any more.
    pub removed: Vec<RuleId>,
    /// Groups that were added, replaced or removed.
    pub groups: Vec<GroupId>,
    /// Ports that were added, removed, or are in another state.
    pub ports: Vec<PortId>,
    /// Stations that are elsewhere, or forgotten.
    pub stations: Vec<Station>,
    /// Whether keys have another layout from now on.
    pub has_new_layout: bool,
}

/// A change that is not published yet.
pub(crate) struct Prepared {
    delta: Delta,
    /// The tables before the layout grew.
    former: Option<Generation>,
    /// Rules that were born for this version, those that died at once included.
    born: Vec<RuleId>,
    new_tables: Vec<TableId>,
    /// Groups that were set, and whether each took the place of another.
    set_groups: Vec<(GroupId, bool)>,
}

impl Pipeline {
    /// Prepares and publishes a change.
    ///
    /// # Errors
    /// If any operation cannot be done; then nothing is.
    pub fn apply(&mut self, change: &Change, now: Instant) -> Result<Delta, ChangeError> {
        self.prepare(change, now)?;
        Ok(self.publish())
    }

    /// Prepares a change as the next version, seen by nobody yet.
    ///
    /// # Errors
    /// If any operation cannot be done; then nothing is.
    ///
    /// # Panics
    /// If another change is prepared and neither published nor aborted.
    pub fn prepare(&mut self, change: &Change, now: Instant) -> Result<&Delta, ChangeError> {
        assert!(self.prepared.is_none(), "one change at a time");
        check::form::change(&self.fields, change)?;
        let delta = Delta {
            version: self.version.next(),
            ..Delta::default()
        };
        self.prepared = Some(Prepared {
            delta,
            former: None,
            born: Vec::new(),
            new_tables: Vec::new(),
            set_groups: Vec::new(),
        });
        let done = self.grow_layout(change).and_then(|()| {
            let mut operations = change.operations.iter().enumerate();
            operations.try_for_each(|(index, operation)| self.perform(index, operation, now))
        });
        match done {
            Ok(()) => Ok(&self.prepared.as_ref().expect("it was just made").delta),
            Err(error) => {
                self.abort();
                Err(error)
            }
        }
    }

    /// Makes the prepared change the newest version.
    ///
    /// # Panics
    /// If no change is prepared.
    pub fn publish(&mut self) -> Delta {
        let mut prepared = self.prepared.take().expect("a change was prepared");
        self.version = prepared.delta.version;
        let rules = &self.rules;
        let lives = |id: &RuleId| {
            rules[id.0 as usize]
                .as_ref()
                .is_some_and(|rule| rule.end.is_none())
        };
        prepared.delta.inserted.retain(lives);
        if let Some(mut former) = prepared.former {
            // Rules that had died already are not in the new tables, and must not be forgotten.
            let long_ago = Version(Version::NEVER.0 - 1);
            let tables = former.tables.iter_mut().flatten();
            let dead = tables.flat_map(|table| table.classifier.reclaim(long_ago));
            self.left_behind.extend(dead.map(|id| (self.version, id)));
        }
        if !prepared.delta.removed.is_empty() {
            let born: BTreeSet<RuleId> = prepared.born.into_iter().collect();
            prepared.delta.removed.retain(|id| !born.contains(id));
            for id in &prepared.delta.removed {
                self.disown(*id);
            }
        }
        let replaced = prepared.set_groups.iter().filter(|(_, replaces)| *replaces);
        let replaced = replaced.map(|(id, _)| (self.version, *id));
        self.replaced_groups.extend(replaced);
        prepared.delta
    }

    /// Leaves a removed rule its late counts if who took its place has died with it.
    fn disown(&mut self, id: RuleId) {
        let last = std::iter::successors(Some(id), |id| self.successor_of(*id)).last();
        let lives = last
            .and_then(|last| self.rule(last))
            .is_some_and(|rule| rule.end.is_none());
        let rule = self.rules[id.0 as usize].as_mut();
        if let (false, Some(end)) = (lives, rule.and_then(|rule| rule.end.as_mut())) {
            end.successor = None;
        }
    }

    /// Undoes the prepared change.
    ///
    /// # Panics
    /// If no change is prepared.
    pub fn abort(&mut self) {
        let prepared = self.prepared.take().expect("a change was prepared");
        let version = prepared.delta.version;
        for id in prepared.delta.removed {
            if let Some(rule) = &mut self.rules[id.0 as usize] {
                rule.end = None;
            }
        }
        match prepared.former {
            Some(former) => self.generation = former,
            None => {
                for id in prepared.new_tables {
                    self.generation.tables[usize::from(id.0)] = None;
                }
                for table in self.generation.tables.iter_mut().flatten() {
                    table.classifier.abort(version);
                }
            }
        }
        self.free(prepared.born);
        self.groups
            .values_mut()
            .for_each(|history| history.abort(version));
        self.groups.retain(|_, history| !history.is_empty());
        for (id, _) in prepared.set_groups {
            // A group that was deleted but not reclaimed has counters, as it did before.
            let known = self.groups.get(&id).map(|history| history.at(self.version));
            match (known, self.group_counters.get_mut(&id)) {
                (Some(Some(group)), Some(counters)) => {
                    counters.buckets.truncate(group.buckets.len());
                }
                (None, Some(_)) => drop(self.group_counters.remove(&id)),
                _ => {}
            }
        }
        self.ports
            .values_mut()
            .for_each(|history| history.abort(version));
        self.ports.retain(|_, history| !history.is_empty());
        self.macs.abort(version);
    }

    fn unpublished(&mut self) -> &mut Prepared {
        self.prepared.as_mut().expect("a change is being prepared")
    }

    fn next_version(&self) -> Version {
        self.version.next()
    }

    /// Whether a change reads fields that the layout lacks, so that keys will have another one.
    ///
    /// Who asks the pipeline with keys of the layout as it is must not do so while such a change
    /// is prepared.
    pub fn needs_new_layout(&self, change: &Change) -> bool {
        self.fields_used_after(change).len() > self.used_fields().len()
    }

    /// The layout's fields, and those that the change reads.
    fn fields_used_after(&self, change: &Change) -> BTreeSet<FieldId> {
        let mut used = self.used_fields();
        for operation in &change.operations {
            match operation {
                Operation::Add(flow) => reads::add_flow(flow, &self.fields, &mut used),
                Operation::Modify(selector, actions) => {
                    used.extend(selector.matching.terms().iter().map(|term| term.field));
                    reads::add_actions(actions, &self.fields, &mut used);
                }
                Operation::SetGroup(group) => reads::add_group(group, &self.fields, &mut used),
                _ => {}
            }
        }
        used
    }

    /// Moves all rules to a wider layout if the change reads fields that this one lacks.
    fn grow_layout(&mut self, change: &Change) -> Result<(), ChangeError> {
        let used = self.fields_used_after(change);
        if used.len() == self.used_fields().len() {
            return Ok(());
        }
        let layout = Arc::new(Layout::new(self.fields.clone(), &used)?);
        self.move_to(layout);
        Ok(())
    }

    fn move_to(&mut self, layout: Arc<Layout>) {
        let mut next = Generation {
            layout: layout.clone(),
            tables: Vec::new(),
        };
        let (seed, version) = (self.config.seed, self.version);
        for (id, rule) in self.rules.iter().enumerate() {
            let Some(rule) = rule else { continue };
            // What died before is of interest only to readers of the old layout, who start over.
            if rule.end.is_some() {
                continue;
            }
            let id = RuleId(id as u32);
            let matching = self.match_of(id).expect("a living rule is in its table");
            let (value, mask) = matching.compile(&layout);
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            let table = next.table_or_new(rule.table, seed);
            table
                .classifier
                .insert(pattern, rule.precedence, id, rule.born.min(version));
        }
        let former = std::mem::replace(&mut self.generation, next);
        let prepared = self.unpublished();
        prepared.former = Some(former);
        prepared.delta.has_new_layout = true;
    }

    fn perform(
        &mut self,
        index: usize,
        operation: &Operation,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let next = self.next_version();
        match operation {
            Operation::Add(flow) => self.add(index, flow, now)?,
            Operation::Modify(selector, actions) => self.modify(index, selector, actions)?,
            Operation::Delete(selector) => {
                for id in self.selected(selector) {
                    self.remove(id);
                }
            }
            Operation::DeleteAll => {
                let all: Vec<RuleId> = self.rules(next).map(|(id, _)| id).collect();
                all.into_iter().for_each(|id| self.remove(id));
            }
            Operation::SetGroup(group) => self.set_group(index, group)?,
            Operation::DeleteGroup(id) => self.delete_group(*id),
            Operation::SetPort(id, state) => {
                if self.port(*id, next) != Some(*state) {
                    self.ports
                        .entry(*id)
                        .or_default()
                        .record(next, Some(*state));
                    self.unpublished().delta.ports.push(*id);
                }
            }
            Operation::DeletePort(id) => {
                if let Some(history) = self.ports.get_mut(id) {
                    history.record(next, None);
                    self.unpublished().delta.ports.push(*id);
                }
            }
            Operation::MoveMacs(moves) => moves.iter().for_each(|moved| self.move_mac(*moved)),
        }
        Ok(())
    }

    fn add(&mut self, index: usize, flow: &Flow, now: Instant) -> Result<(), ChangeError> {
        check::flow(self, index, flow)?;
        let (value, mask) = flow.matching.compile(self.layout());
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let replaced = self
            .table(flow.table)
            .and_then(|table| table.classifier.find(pattern, flow.priority))
            .inspect(|id| debug_assert!(self.rule(*id).is_some(), "tables name known rules"));
        let precedence = match replaced {
            Some(id) => self.rule(id).expect("tables name known rules").precedence,
            None => {
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
            actions: flow.actions.clone(),
            created_at: now,
            used_at: now,
            counters: Counters::default(),
            born: self.next_version(),
            end: None,
        };
        match replaced {
            Some(id) => self.replace(index, id, rule, pattern, !flow.resets_counts),
            None => self.insert(index, rule, pattern).map(|_| ()),
        }
    }

    /// Puts a rule in the place of another.
    fn replace(
        &mut self,
        index: usize,
        id: RuleId,
        mut rule: Rule,
        pattern: Pattern<'_>,
        hands_on_counts: bool,
    ) -> Result<(), ChangeError> {
        self.remove(id);
        if hands_on_counts {
            rule.counters = self.rule(id).expect("it dies, but is still there").counters;
        }
        let successor = self.insert(index, rule, pattern)?;
        let old = self.rules[id.0 as usize].as_mut();
        let end = old.and_then(|old| old.end.as_mut());
        let end = end.expect("it dies, but is still there");
        (end.successor, end.hands_on_counts) = (Some(successor), hands_on_counts);
        Ok(())
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
        let id = self.free_rules.pop().unwrap_or_else(|| {
            self.rules.push(None);
            RuleId(self.rules.len() as u32 - 1)
        });
        let (seed, next) = (self.config.seed, self.next_version());
        if self.table(rule.table).is_none() {
            self.unpublished().new_tables.push(rule.table);
        }
        let table = self.generation.table_or_new(rule.table, seed);
        table.classifier.insert(pattern, rule.precedence, id, next);
        self.rules[id.0 as usize] = Some(rule);
        let prepared = self.unpublished();
        prepared.born.push(id);
        prepared.delta.inserted.push(id);
        Ok(id)
    }

    /// Whether there is no room for another rule at the version being prepared.
    fn is_full(&self) -> bool {
        let capacity = self.config.rules;
        // Those of older versions included; mostly that tells.
        let kept = self.rules.len() - self.free_rules.len();
        let is_full = || self.rule_count(self.next_version()) >= capacity;
        kept >= capacity && (kept >= 2 * capacity || is_full())
    }

    fn modify(
        &mut self,
        index: usize,
        selector: &Selector,
        actions: &Actions,
    ) -> Result<(), ChangeError> {
        for id in self.selected(selector) {
            let rule = self.rule(id).expect("selected rules exist").clone();
            if rule.actions == *actions {
                continue;
            }
            check::actions(self, index, rule.table, actions)?;
            let table = self.table(rule.table).expect("a rule's table exists");
            let (value, mask) = table
                .classifier
                .pattern(id)
                .expect("a rule is in its table");
            let rule = Rule {
                actions: actions.clone(),
                born: self.next_version(),
                ..rule
            };
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            self.replace(index, id, rule, pattern, true)?;
        }
        Ok(())
    }

    /// The rules that a selector means, as of the version being prepared.
    ///
    /// A strict one is a lookup a table; another looks at the rules of those masks that have all
    /// bits that it names.
    fn selected(&self, selector: &Selector) -> Vec<RuleId> {
        let in_layout = |field: FieldId| self.layout().slot(field).is_some();
        if !selector
            .matching
            .terms()
            .iter()
            .all(|term| in_layout(term.field))
        {
            return Vec::new(); // no rule matches on that field
        }
        let (value, mask) = selector.matching.compile(self.layout());
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let tables = self.generation.tables.iter().enumerate();
        let tables = tables.filter(|(number, _)| {
            let number = TableId(*number as u8);
            selector.table.is_none_or(|table| table == number)
        });
        let mut found = Vec::new();
        for table in tables.filter_map(|(_, table)| table.as_ref()) {
            match selector.strict_priority {
                Some(priority) => found.extend(table.classifier.find(pattern, priority)),
                None => table.classifier.find_within(pattern, &mut found),
            }
        }
        if let Some((cookie, bits)) = selector.cookie {
            found.retain(|id| {
                let rule = self.rule(*id).expect("tables name known rules");
                rule.cookie & bits == cookie & bits
            });
        }
        // Reports of what a change did are the same every time.
        found.sort_unstable();
        found
    }

    fn remove(&mut self, id: RuleId) {
        let next = self.next_version();
        let rule = self.rules[id.0 as usize].as_mut().expect("the rule exists");
        rule.end = Some(End::at(next));
        let table = rule.table;
        let table = self.generation.tables[usize::from(table.0)].as_mut();
        table
            .expect("a rule's table exists")
            .classifier
            .remove(id, next);
        self.unpublished().delta.removed.push(id);
    }

    fn set_group(&mut self, index: usize, group: &Group) -> Result<(), ChangeError> {
        check::group(self, index, group)?;
        let next = self.next_version();
        self.groups
            .entry(group.id)
            .or_default()
            .record(next, Some(Arc::new(group.clone())));
        // Who still counts for the group before may do so until that is reclaimed.
        let buckets = group.buckets.len();
        let replaces = self.group_counters.contains_key(&group.id);
        let counters = self.group_counters.entry(group.id).or_default();
        let room = counters.buckets.len().max(buckets);
        counters.buckets.resize(room, Counters::default());
        self.unpublished().set_groups.push((group.id, replaces));
        self.unpublished().delta.groups.push(group.id);
        Ok(())
    }

    /// Removes a group, and the rules that use it (OpenFlow 1.5.1, section 6.7).
    fn delete_group(&mut self, id: GroupId) {
        let next = self.next_version();
        let Some(history) = self.groups.get_mut(&id) else {
            return;
        };
        history.record(next, None);
        let users = self
            .rules(next)
            .filter(|(_, rule)| check::uses_group(&rule.actions, id));
        let users: Vec<RuleId> = users.map(|(rule, _)| rule).collect();
        users.into_iter().for_each(|rule| self.remove(rule));
        self.unpublished().delta.groups.push(id);
    }

    fn move_mac(&mut self, moved: MacMove) {
        let next = self.next_version();
        let is_full = self.macs.len() >= self.config.stations;
        let known = self.macs.lookup(moved.station, next);
        if known == moved.port || (known.is_none() && is_full) {
            return;
        }
        self.macs.record(moved, next);
        self.unpublished().delta.stations.push(moved.station);
    }
}
