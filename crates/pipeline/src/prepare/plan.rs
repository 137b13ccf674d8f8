//! A change that has been checked by itself, and how much of it is done.
//!
//! The rules that the next operation selects can be looked for while others read, as that
//! changes nothing. So the longest undivided piece of work blocks no reader.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_classifier::{Pattern, Precedence, RuleId, Version};
use thalweg_packet::{FieldId, Instant, Layout, standard as f};

use crate::action::TableId;
use crate::change::{Change, ChangeError, Operation, Selector, Target, uses_group};
use crate::check;
use crate::flow::Flow;
use crate::fragments::FragmentMode;
use crate::pipeline::Pipeline;
use crate::reads;

/// A change checked by a pipeline, and how much of it is done.
///
/// ```
/// use thalweg_packet::Instant;
/// use thalweg_pipeline::{Change, Config, Flow, Pipeline, Progress};
///
/// let mut pipeline = Pipeline::new(Config::default());
/// let rules = (0..100).map(|priority| Flow { priority, ..Flow::default() });
/// let change = Change::adding(rules);
/// let mut plan = pipeline.plan(&change)?;
/// pipeline.begin(&mut plan, Instant::ZERO);
/// while pipeline.perform(&mut plan, 10)? == Progress::Unfinished {
///     assert_eq!(pipeline.rule_count(pipeline.version()), 0); // readers come in here
/// }
/// assert_eq!(pipeline.publish().inserted.len(), 100);
/// # Ok::<(), thalweg_pipeline::ChangeError>(())
/// ```
#[derive(Debug)]
pub struct Plan<'a> {
    change: &'a Change,
    /// The published version that the plan was made for.
    version: Version,
    /// The layout that the change needs, if it is a new one.
    layout: Option<Arc<Layout>>,
    /// When the change was begun.
    begun_at: Option<Instant>,
    /// Index of the next operation.
    operation: usize,
    /// Number of parts of that operation that are done.
    part: usize,
    /// The rules that it selects, once they were looked for.
    found: Option<Vec<RuleId>>,
}

impl<'a> Plan<'a> {
    /// Whether the change reads fields that the layout lacks, so that keys get a new layout.
    ///
    /// Once such a change is begun, keys of the current layout must not be used with the
    /// pipeline.
    pub fn needs_new_layout(&self) -> bool {
        self.layout.is_some()
    }

    /// Whether the next operation selects rules that have not been looked for yet.
    pub fn needs_search(&self) -> bool {
        let selects = |operation: &Operation| match operation {
            Operation::Modify(..)
            | Operation::Revise(_)
            | Operation::AddChecked(_)
            | Operation::Delete(_)
            | Operation::DeleteLeading(..)
            | Operation::DeleteAll
            | Operation::DeleteGroup(_)
            | Operation::DeleteMeters(_) => true,
            Operation::Add(_)
            | Operation::SetGroup(_)
            | Operation::SetMeter(_)
            | Operation::SetPort(..)
            | Operation::DeletePort(_)
            | Operation::SetPortVlans(..)
            | Operation::SetForwardsBpdus(..)
            | Operation::SetMirrors(..)
            | Operation::SetMisses(..)
            | Operation::SetFragments(..)
            | Operation::LimitTable(..)
            | Operation::MoveMacs(_)
            | Operation::Foresee(_) => false,
        };
        self.found.is_none() && self.next().is_some_and(selects)
    }

    pub(super) fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    pub(super) fn start(&mut self, version: Version, now: Instant) {
        assert_eq!(self.version, version, "the plan is of another version");
        let begun_before = self.begun_at.replace(now);
        assert!(begun_before.is_none(), "a plan is begun once");
    }

    pub(super) fn assert_begun(&self, version: Version) {
        let is_begun = self.begun_at.is_some() && self.version == version;
        assert!(is_begun, "this change is not begun");
    }

    /// When the change was begun.
    pub(super) fn now(&self) -> Instant {
        self.begun_at.expect("a plan is begun before it is done")
    }

    /// The next operation, with its index.
    pub(super) fn next_numbered(&self) -> Option<(usize, &'a Operation)> {
        Some((self.operation, self.next()?))
    }

    fn next(&self) -> Option<&'a Operation> {
        self.change.operations.get(self.operation)
    }

    pub(super) fn is_over(&self) -> bool {
        self.operation == self.change.operations.len()
    }

    /// Number of parts of the next operation that are done.
    pub(super) fn part(&self) -> usize {
        self.part
    }

    /// The rules that the next operation selects; looks for them on the first call.
    pub(super) fn found(&mut self, look: impl FnOnce() -> Vec<RuleId>) -> &[RuleId] {
        self.found.get_or_insert_with(look)
    }

    /// Counts a part as done; `parts` is how many the operation has, possibly none.
    pub(super) fn advance(&mut self, parts: usize) {
        self.part += 1;
        if self.part >= parts {
            self.operation += 1;
            self.part = 0;
            self.found = None;
        }
    }
}

impl Pipeline {
    /// Checks a change by itself, and finds the layout that it needs.
    ///
    /// Changes nothing, and takes time in proportion to the change.
    ///
    /// # Errors
    /// If an operation cannot be done whatever rules there are, or no layout has room for the
    /// fields.
    pub fn plan<'a>(&self, change: &'a Change) -> Result<Plan<'a>, ChangeError> {
        check::form::change(&self.fields, change)?;
        let used = self.fields_used_after(change);
        let layout = match used.len() == self.used_fields().len() {
            true => None,
            false => Some(Arc::new(Layout::new(self.fields.clone(), &used)?)),
        };
        Ok(Plan {
            change,
            version: self.version(),
            layout,
            begun_at: None,
            operation: 0,
            part: 0,
            found: None,
        })
    }

    /// Whether a change reads fields that the layout lacks, so that keys get a new layout.
    pub fn needs_new_layout(&self, change: &Change) -> bool {
        self.fields_used_after(change).len() > self.used_fields().len()
    }

    /// Looks for the rules that the next operation selects, if it selects any.
    ///
    /// [`Pipeline::perform`] does so itself if needed, but with exclusive access; this lets
    /// others read.
    ///
    /// # Panics
    /// If this change is not begun.
    pub fn search(&self, plan: &mut Plan<'_>) {
        plan.assert_begun(self.version());
        if plan.needs_search()
            && let Some((_, operation)) = plan.next_numbered()
        {
            plan.found(|| self.meant_by(operation));
        }
    }

    /// Prefetches what the next parts of a change will read, while others read. Changes
    /// nothing, and is optional.
    pub fn foresee(&self, plan: &Plan<'_>, parts: usize) {
        // Until it is begun, the tables have keys of another layout.
        if plan.layout.is_some() && plan.begun_at.is_none() {
            return;
        }
        let found = plan.found.iter().flatten().skip(plan.part);
        for id in found.take(parts) {
            if let Some(table) = self.rule(*id).and_then(|rule| self.table(rule.table)) {
                table.foresee_removal(*id);
            }
        }
        for operation in plan
            .change
            .operations
            .iter()
            .skip(plan.operation)
            .take(parts)
        {
            let (Operation::Add(flow) | Operation::AddChecked(flow)) = operation else {
                continue;
            };
            if let Some(table) = self.table(flow.table) {
                let (value, mask) = flow.matching.compile_rule(self.layout());
                let pattern = Pattern {
                    value: &value,
                    mask: &mask,
                };
                let precedence = Precedence::new(flow.priority, self.next_age + 1);
                table.foresee(pattern, precedence);
            }
        }
    }

    /// The layout's fields, and those that the change reads.
    ///
    /// A modification with a condition on a field outside the layout finds no rule, and so
    /// reads nothing.
    fn fields_used_after(&self, change: &Change) -> BTreeSet<FieldId> {
        let mut used = self.used_fields();
        for operation in &change.operations {
            match operation {
                Operation::Add(flow) | Operation::AddChecked(flow) => {
                    reads::add_flow(flow, &self.fields, &mut used);
                }
                Operation::Revise(revision) => {
                    if let Some(flow) = &revision.otherwise {
                        reads::add_flow(flow, &self.fields, &mut used);
                    }
                }
                Operation::SetGroup(group) => reads::add_group(group, &self.fields, &mut used),
                Operation::SetMirrors(_, mirrors) => reads::add_mirrors(mirrors, &mut used),
                Operation::SetPortVlans(_, vlans) => reads::add_vlans(vlans, &mut used),
                Operation::Foresee(actions) => {
                    reads::add_actions(actions, &self.fields, &mut used);
                }
                Operation::SetFragments(_, FragmentMode::Drop) => {
                    used.insert(f::IP_FRAG);
                }
                _ => {}
            }
        }
        let matched = used.clone();
        for operation in &change.operations {
            let modified = match operation {
                Operation::Modify(selector, actions) => Some((selector, actions)),
                Operation::Revise(revision) => Some((&revision.selector, &revision.actions)),
                _ => None,
            };
            if let Some((selector, actions)) = modified {
                let mut terms = selector.matching.terms().iter();
                if terms.all(|term| matched.contains(&term.field)) {
                    reads::add_actions(actions, &self.fields, &mut used);
                }
            }
        }
        used
    }

    /// The rules that an operation selects, at the version being prepared.
    pub(super) fn meant_by(&self, operation: &Operation) -> Vec<RuleId> {
        let open = self.open_version();
        match operation {
            Operation::Modify(selector, _) | Operation::Delete(selector) => self.selected(selector),
            Operation::Revise(revision) => self.selected(&revision.selector),
            Operation::DeleteLeading(selector, target) => {
                let mut found = self.selected(selector);
                let leads = |id: &RuleId| {
                    let rule = self.rule(*id).expect("tables name known rules");
                    target.is_led_to_by(&rule.actions)
                };
                found.retain(leads);
                found
            }
            Operation::AddChecked(flow) => self.overlapped_by(flow).into_iter().collect(),
            Operation::DeleteAll => self.rules(open).map(|(id, _)| id).collect(),
            Operation::DeleteGroup(group) if self.group(*group, open).is_some() => {
                let users = self.rules(open);
                let users = users.filter(|(_, rule)| uses_group(&rule.actions, *group));
                users.map(|(id, _)| id).collect()
            }
            Operation::DeleteMeters(meters) => self.users_of_any(meters),
            _ => Vec::new(),
        }
    }

    /// The rules of the newest version that a selector selects and that lead to a target,
    /// the oldest first.
    ///
    /// # Panics
    /// If a change is begun and not published.
    pub fn rules_selected(&self, selector: &Selector, target: &Target) -> Vec<RuleId> {
        assert!(self.prepared.is_none(), "a change is being made");
        let mut found = self.selected(selector);
        let is_such = |id: &RuleId| {
            let rule = self.rule(*id).expect("tables name known rules");
            target.is_led_to_by(&rule.actions)
        };
        if *target != Target::default() {
            found.retain(is_such);
        }
        // A modified rule has another number, and keeps its age.
        let age = |id: &RuleId| self.rule(*id).map(|rule| rule.precedence.age());
        found.sort_by_cached_key(age);
        found
    }

    /// A rule of the same table and priority that shares packets with `flow`.
    pub(super) fn overlapped_by(&self, flow: &Flow) -> Option<RuleId> {
        let (value, mask) = flow.matching.compile_rule(self.layout());
        let table = self.table(flow.table)?;
        let shares_packets = |id: RuleId| {
            let pattern = table.pattern(id);
            let (others_value, others_mask) = pattern.expect("a rule is in its table");
            let values = value.iter().zip(&others_value);
            let masks = mask.iter().zip(&others_mask);
            let mut words = values.zip(masks);
            words.all(|((one, other), (mask, others))| (one ^ other) & mask & others == 0)
        };
        let rules = self.rules(self.open_version());
        let mut rules = rules.filter(|(_, rule)| {
            rule.table == flow.table && rule.precedence.priority() == flow.priority
        });
        rules.find(|(id, _)| shares_packets(*id)).map(|(id, _)| id)
    }

    /// The rules that a selector selects, at the version being prepared.
    ///
    /// A strict selector takes one lookup per table. Any other looks at the rules of all masks
    /// that include every bit it names.
    fn selected(&self, selector: &Selector) -> Vec<RuleId> {
        let in_layout = |field: FieldId| self.layout().slot(field).is_some();
        let mut terms = selector.matching.terms().iter();
        if !terms.all(|term| in_layout(term.field)) {
            return Vec::new(); // no rule matches on that field
        }
        let (value, mask) = match selector.strict_priority {
            Some(_) => selector.matching.compile_rule(self.layout()),
            None => selector.matching.compile(self.layout()),
        };
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let tables = self.generation.tables.iter().enumerate();
        let tables = tables.filter(|(number, _)| {
            let number = TableId(*number as u32);
            match selector.table {
                Some(table) => table == number,
                None => number.bridge() == selector.bridge,
            }
        });
        let mut found = Vec::new();
        for table in tables.filter_map(|(_, table)| table.as_ref()) {
            match selector.strict_priority {
                Some(priority) => found.extend(table.find(pattern, priority)),
                None => table.find_within(pattern, &mut found),
            }
        }
        if let Some((cookie, bits)) = selector.cookie {
            found.retain(|id| {
                let rule = self.rule(*id).expect("tables name known rules");
                rule.cookie & bits == cookie & bits
            });
        }
        // Sorted, so that reports of a change are the same every time.
        found.sort_unstable();
        found
    }
}
