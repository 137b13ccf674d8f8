//! The walk itself: tables, lists of actions, resubmits, clones, and freezing.

use std::sync::Arc;

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::{FieldId, PortId, Source, standard as f};

use super::action_set;
use super::{
    Continuation, DropReason, MAX_DEPTH, MAX_EFFECTS, MAX_LOOKUPS, MAX_STACK, MAX_WORK, Memory,
    Spare, Translation, is_blind,
};
use crate::action::{Action, Output, Subfield, TableId, Write};
use crate::effect::{Effect, PacketInReason};
use crate::pipeline::Pipeline;
use crate::state::{Lifted, State};
use crate::text::LOCAL_PORT;
use crate::trace::{Input, StepKind, Trace};

/// What comes after an action or a list of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next action.
    Continue,
    /// This table, at the end of the list.
    Table(TableId),
    /// The list is over, those around it go on.
    EndList,
    /// Nothing: the walk is over.
    Exit,
    /// Nothing now: what remains is to be frozen.
    Freeze,
}

/// Why a list is executed on a copy of the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nested {
    /// A `clone` action.
    Clone,
    /// A group's bucket.
    Bucket,
}

/// How a walk looks things up.
#[derive(Clone, Copy)]
pub(super) enum Lookups<'a> {
    /// With the bits that decided them; who may know the outcome is asked first.
    Examined(Option<&'a dyn Memory>),
    /// As fast as can be, of the first of which the outcome may be known: such a walk has an answer,
    /// but no mask, and its trace has the kinds of steps alone.
    Bare(Option<Option<RuleId>>),
}

/// A walk under way.
pub(super) struct Walk<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) version: Version,
    /// What is known of lookups, or wanted of them.
    lookups_by: Lookups<'a>,
    pub(super) state: State<'a>,
    pub(super) effects: Vec<Effect>,
    trace: Trace,
    /// The step that reads are attributed to.
    step: usize,
    pub(super) depth: u32,
    /// Lookups and buckets so far.
    pub(super) lookups: usize,
    /// Effects so far, those of copies included.
    emitted: usize,
    /// Units of work that are left; none once they were too few.
    pub(super) work_left: Option<usize>,
    /// Where lookups put what they examined.
    examined: Vec<u64>,
    pub(super) action_set: Vec<Action>,
    pub(super) stack: Vec<Lifted>,
    rule: Option<RuleId>,
    /// Headers were exposed that the key knows nothing of.
    pub(super) is_reparse_needed: bool,
    /// A VLAN tag was pushed above two others, the lower of which the key has lost.
    pub(super) is_tag_hidden: bool,
    /// What remains to be done after a freeze.
    frozen: Vec<Action>,
    continuations: Vec<Arc<Continuation>>,
    /// What was to be sent and is not, the latest reason last.
    drops: Vec<(DropReason, u32)>,
    /// The last table that had no rule for this copy of the packet.
    missed: Option<TableId>,
    /// What walks before this one have left.
    spare: &'a mut Spare,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        key: &[u64],
        version: Version,
        lookups_by: Lookups<'a>,
        registers: Option<&[u64]>,
        spare: &'a mut Spare,
    ) -> Walk<'a> {
        let layout = pipeline.layout();
        let mut state = State::new(layout, key, registers, spare);
        // A cached continuation must never be met by a packet on another pass.
        state.read(f::RECIRC_ID);
        // But its number is nothing that rules may depend on: it is whoever's who keeps it.
        state.write(f::RECIRC_ID, 0, u32::MAX.into());
        state.written_words = 0;
        Walk {
            pipeline,
            version,
            lookups_by,
            state,
            effects: spare.effects(),
            trace: spare.trace(layout.words(), layout.ingress_words()),
            step: 0,
            depth: 0,
            lookups: 0,
            emitted: 0,
            work_left: Some(MAX_WORK),
            examined: spare.list(),
            action_set: Vec::new(),
            stack: Vec::new(),
            rule: None,
            is_reparse_needed: false,
            is_tag_hidden: false,
            frozen: Vec::new(),
            continuations: Vec::new(),
            drops: Vec::new(),
            missed: None,
            spare,
        }
    }

    pub(super) fn start(&mut self, table: TableId) {
        let next = self.walk_tables(table, None);
        self.end(next);
    }

    pub(super) fn resume(&mut self, continuation: &Continuation) {
        self.action_set = continuation.action_set.to_vec();
        self.stack = continuation.stack.to_vec();
        let kind = StepKind::Resumption {
            rule: continuation.rule,
        };
        self.begin_step(kind);
        let next = self.execute_list(&continuation.actions, TableId(0));
        let next = match next {
            Next::Table(table) => self.walk_tables(table, None),
            next => next,
        };
        self.end(next);
    }

    /// What is left at the end: the action set, or a freeze.
    fn end(&mut self, next: Next) {
        match next {
            Next::Freeze => self.freeze(),
            Next::Exit => {}
            _ => {
                let next = self.execute_action_set();
                if next == Next::Freeze {
                    self.action_set.clear();
                    self.freeze();
                }
            }
        }
    }

    pub(super) fn finish(mut self) -> Translation {
        self.note_reads();
        self.trace.set_written_words(self.state.written_words);
        trim(&mut self.effects);
        let sends = self.effects.iter().any(sends_something);
        if !sends && self.drops.is_empty() {
            self.drop(
                self.missed
                    .map_or(DropReason::Action, DropReason::TableMiss),
            );
        }
        let last = self.drops.last().map(|(reason, _)| *reason);
        let mut effects = std::mem::take(&mut self.effects);
        // They come first, so that the last send takes the packet itself.
        let drops = self.drops.iter();
        effects.splice(
            0..0,
            drops.map(|&(reason, copies)| Effect::Drop { reason, copies }),
        );
        self.spare.keep(self.examined);
        Translation {
            effects,
            trace: self.trace,
            continuations: self.continuations,
            drop_reason: last.filter(|_| !sends),
            mask: self.state.into_mask(self.spare),
        }
    }

    /// Looks up in a table, and in those that its rules go to.
    ///
    /// Only the first lookup sees `in_port` in place of the port that the packet came from.
    fn walk_tables(&mut self, mut table: TableId, mut in_port: Option<PortId>) -> Next {
        loop {
            if self.lookups == MAX_LOOKUPS {
                self.drop(DropReason::TooManyLookups);
                return Next::Exit;
            }
            self.lookups += 1;
            let found = match in_port.take() {
                Some(port) => self.lookup_from(port, table),
                None => self.lookup(table),
            };
            let Some(rule) = found else {
                self.missed = Some(table);
                return Next::EndList;
            };
            let actions = self
                .pipeline
                .rule(rule)
                .expect("tables name known rules")
                .actions
                .clone();
            match self.execute_list(&actions, table) {
                Next::Table(next) => table = next,
                next => return next,
            }
        }
    }

    fn lookup_from(&mut self, port: PortId, table: TableId) -> Option<RuleId> {
        let former = self.state.lift(&in_port_subfield());
        self.state.write(f::IN_PORT, port.0.into(), u32::MAX.into());
        let rule = self.lookup(table);
        self.state.put_down(&former, &in_port_subfield());
        rule
    }

    fn lookup(&mut self, table: TableId) -> Option<RuleId> {
        let memory = match &mut self.lookups_by {
            Lookups::Examined(memory) => *memory,
            Lookups::Bare(first) => {
                let found = first.take();
                let words = self.state.words();
                let rule =
                    found.unwrap_or_else(|| self.pipeline.lookup_bare(table, words, self.version));
                self.begin_step(StepKind::Lookup { table, rule });
                self.rule = rule;
                return rule;
            }
        };
        let mut examined = std::mem::take(&mut self.examined);
        examined.clear();
        examined.resize(self.state.words().len(), 0);
        let words = self.state.words();
        let recalled = memory.and_then(|memory| memory.recall(table, words, &mut examined));
        let rule = match recalled {
            Some(rule) => rule,
            None => self
                .pipeline
                .lookup(table, words, self.version, &mut examined),
        };
        self.begin_step(StepKind::Lookup { table, rule });
        self.trace.set_searched(&examined);
        self.state.read_words(&examined);
        self.examined = examined;
        self.rule = rule;
        rule
    }

    /// Begins a step, to which reads are attributed from now on.
    pub(super) fn begin_step(&mut self, kind: StepKind) {
        if let Lookups::Bare(_) = self.lookups_by {
            return self.trace.begin_bare_step(kind, self.depth);
        }
        self.note_reads();
        self.step = self.trace.len();
        self.trace.begin_step(kind, self.depth, self.state.words());
    }

    /// Attributes what was read since the last call to the current step.
    fn note_reads(&mut self) {
        let is_traced = matches!(self.lookups_by, Lookups::Examined(_));
        if is_traced && self.step < self.trace.len() {
            self.state.move_reads(self.trace.reads_mut(self.step));
        }
    }

    /// Notes that the walk depends on something that is no table.
    pub(super) fn ask(&mut self, input: Input) {
        self.trace.ask(input);
    }

    /// Counts a copy that was to be sent and is not.
    pub(super) fn drop(&mut self, reason: DropReason) {
        let known = self.drops.iter().position(|(known, _)| *known == reason);
        let before = known.map_or(0, |place| self.drops.remove(place).1);
        self.drops.push((reason, before.saturating_add(1)));
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        if self.emitted < MAX_EFFECTS {
            self.emitted += 1;
            self.effects.push(effect);
        } else if sends_something(&effect) {
            self.drop(DropReason::TooManyLookups);
        }
    }

    /// Executes a list in `table`; what a goto in it leads to is left to the caller.
    pub(super) fn execute_list(&mut self, actions: &[Action], table: TableId) -> Next {
        let mut after = Next::EndList;
        for (index, action) in actions.iter().enumerate() {
            let next = if self.is_reparse_needed && !is_blind(action) {
                self.frozen.push(placed(action, table));
                Next::Freeze
            } else {
                self.execute(action, table)
            };
            match next {
                Next::Continue => {}
                Next::Table(_) => after = next,
                Next::EndList => return next,
                Next::Exit => return next,
                Next::Freeze => {
                    let rest = &actions[index + 1..];
                    self.spend(rest.len());
                    self.frozen
                        .extend(rest.iter().map(|action| placed(action, table)));
                    return next;
                }
            }
        }
        after
    }

    fn execute(&mut self, action: &Action, table: TableId) -> Next {
        if !self.spend(self.cost(action)) {
            return Next::Exit;
        }
        match action {
            Action::Output(output) => self.output(output),
            Action::Group(group) => return self.group(*group, table),
            Action::SetField(writes) => writes.iter().for_each(|write| self.set_field(*write)),
            Action::Move {
                source,
                destination,
            } => self.copy(source, destination),
            Action::Push(source) => {
                if self.stack.len() == MAX_STACK {
                    self.drop(DropReason::TooManyLookups);
                    return Next::Exit;
                }
                self.stack.push(self.state.lift(source));
            }
            Action::Pop(destination) => {
                if let Some(lifted) = self.stack.pop() {
                    self.write_lifted(&lifted, destination);
                }
            }
            Action::SetVlan {
                id,
                priority,
                adds_tag,
            } => self.set_vlan(*id, *priority, *adds_tag),
            Action::PushVlan(tpid) => self.push_vlan(*tpid),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(ether_type) => self.push_mpls(*ether_type),
            Action::PopMpls(ether_type) => self.pop_mpls(*ether_type),
            Action::DecTtl => return self.decrement_ttl(),
            Action::DecMplsTtl => return self.decrement_mpls_ttl(),
            Action::Resubmit { in_port, table: to } => {
                return self.resubmit(*in_port, to.unwrap_or(table));
            }
            Action::Clone(nested) => return self.on_copy(nested, table, Nested::Clone),
            Action::Note(_) => {}
            Action::Exit => return Next::Exit,
            Action::WriteActions(list) => {
                list.iter()
                    .for_each(|action| action_set::add(&mut self.action_set, action));
            }
            Action::ClearActions => self.action_set.clear(),
            Action::WriteMetadata { value, mask } => {
                self.state
                    .write(f::METADATA, u128::from(*value), u128::from(*mask));
            }
            Action::Goto(to) => return Next::Table(*to),
        }
        Next::Continue
    }

    fn output(&mut self, output: &Output) {
        match output {
            Output::Port(port) => self.send(*port),
            Output::Local => self.send(LOCAL_PORT),
            Output::InPort => {
                let port = self.in_port();
                self.send_anywhere(port);
            }
            Output::All => self.flood(|_| true),
            Output::Flood => self.flood(|state| state.floods),
            Output::Normal => self.normal(),
            Output::Controller {
                max_len_bytes,
                userdata,
            } => {
                self.emit(Effect::Controller {
                    reason: PacketInReason::Action,
                    max_len_bytes: *max_len_bytes,
                    userdata: userdata.clone(),
                });
            }
            Output::Field(source) => {
                let port = self.state.read_subfield(source);
                match u32::try_from(port) {
                    Ok(port) => self.send(PortId(port)),
                    Err(_) => self.drop(DropReason::NoSuchPort),
                }
            }
        }
    }

    /// Sends to a port, unless the packet came from it.
    pub(super) fn send(&mut self, port: PortId) {
        if self.in_port() == port {
            self.drop(DropReason::InputPort);
        } else {
            self.send_anywhere(port);
        }
    }

    fn send_anywhere(&mut self, port: PortId) {
        self.ask(Input::Port(port));
        if self.pipeline.port(port, self.version).is_some() {
            self.emit(Effect::Output(port));
        } else {
            self.drop(DropReason::NoSuchPort);
        }
    }

    pub(super) fn in_port(&mut self) -> PortId {
        PortId(self.state.read(f::IN_PORT) as u32)
    }

    /// Sends to the ports that `is_chosen`, but not to where the packet came from.
    pub(super) fn flood(&mut self, is_chosen: impl Fn(crate::flow::PortState) -> bool) {
        let in_port = self.in_port();
        self.ask(Input::AllPorts);
        let pipeline = self.pipeline;
        let mut is_sent = false;
        for (port, state) in pipeline.ports(self.version) {
            if !self.spend(1) {
                return;
            }
            if port != in_port && is_chosen(state) {
                self.emit(Effect::Output(port));
                is_sent = true;
            }
        }
        if !is_sent {
            self.drop(DropReason::InputPort);
        }
    }

    fn resubmit(&mut self, in_port: Option<PortId>, table: TableId) -> Next {
        if self.depth == MAX_DEPTH {
            self.drop(DropReason::TooManyLookups);
            return Next::Exit;
        }
        let caller = (self.step, self.rule);
        self.depth += 1;
        let next = self.walk_tables(table, in_port);
        self.depth -= 1;
        match next {
            Next::Exit => return next,
            Next::Freeze => {
                // The list that resubmitted goes on after what its goto leads to.
                self.frozen.iter_mut().for_each(come_back);
                return next;
            }
            _ => {}
        }
        self.return_to(caller);
        Next::Continue
    }

    /// Attributes reads to the step whose list goes on after something nested in it.
    fn return_to(&mut self, (step, rule): (usize, Option<RuleId>)) {
        self.note_reads();
        (self.step, self.rule) = (step, rule);
    }

    /// Executes a list whose changes to the packet and state are undone afterwards.
    ///
    /// A clone executes the action set, as if no table followed, and an `exit` in it ends the
    /// whole walk; a bucket does neither (`ovs-actions(7)`, "The clone action", "The exit action").
    pub(super) fn on_copy(&mut self, actions: &[Action], table: TableId, kind: Nested) -> Next {
        if self.depth == MAX_DEPTH {
            self.drop(DropReason::TooManyLookups);
            return Next::Continue;
        }
        let caller = (self.step, self.rule);
        let snapshot = self.state.snapshot();
        let stack = self.stack.clone();
        let flags = (self.is_reparse_needed, self.is_tag_hidden);
        let outer = std::mem::take(&mut self.effects);
        let frozen = std::mem::take(&mut self.frozen);
        let action_set = self.action_set.clone();
        let missed = self.missed.take();
        let drops = self.drops.clone();
        self.depth += 1;
        let mut next = self.execute_list(actions, table);
        if let Next::Table(table) = next {
            next = self.walk_tables(table, None);
        }
        match (kind, next) {
            (Nested::Clone, next) => self.end(next),
            (Nested::Bucket, Next::Freeze) => {
                // The copy's walk goes on by itself, and without the action set, which is not its.
                self.action_set.clear();
                self.freeze();
            }
            (Nested::Bucket, _) => {}
        }
        self.depth -= 1;
        let mut nested = std::mem::replace(&mut self.effects, outer);
        trim(&mut nested);
        if let Some(table) = std::mem::replace(&mut self.missed, missed)
            && !nested.iter().any(sends_something)
            && self.drops == drops
        {
            self.drop(DropReason::TableMiss(table));
        }
        match nested.len() {
            0 => {}
            // These have been counted.
            _ if nested.iter().all(is_pure) => self.effects.append(&mut nested),
            _ => self.effects.push(Effect::Clone(nested.into())),
        }
        self.frozen = frozen;
        self.action_set = action_set;
        self.state.restore(snapshot);
        self.stack = stack;
        (self.is_reparse_needed, self.is_tag_hidden) = flags;
        self.return_to(caller);
        match (kind, next) {
            (Nested::Clone, Next::Exit) => Next::Exit,
            _ => Next::Continue,
        }
    }

    /// Freezes what remains: the packet is parsed anew and the walk goes on from there.
    fn freeze(&mut self) {
        let mut actions = self.receipt_as_written();
        actions.append(&mut self.frozen);
        let continuation = Continuation {
            actions: actions.into(),
            action_set: std::mem::take(&mut self.action_set).into(),
            registers: self.state.read_registers().into(),
            stack: std::mem::take(&mut self.stack)
                .iter()
                .map(|lifted| self.state.read_for_good(lifted))
                .collect(),
            rule: self.rule,
        };
        let number = self.continuations.len() as u32;
        self.continuations.push(Arc::new(continuation));
        self.emit(Effect::Recirculate(number));
    }

    /// Writes again what was written over the receiver's word, which another parse brings back.
    fn receipt_as_written(&mut self) -> Vec<Action> {
        let layout = self.pipeline.layout();
        let written = layout.used().iter().copied().filter(|field| {
            let is_receipt = matches!(layout.descriptor(*field).source, Source::Intrinsic(_));
            is_receipt && *field != f::RECIRC_ID && !self.state.is_original(*field)
        });
        let written: Vec<FieldId> = written.collect();
        let again = |field: FieldId| Write {
            field,
            value: self.state.read(field),
            mask: u128::MAX >> (128 - layout.descriptor(field).width_bits),
        };
        let writes: Box<[Write]> = written.into_iter().map(again).collect();
        let is_any = !writes.is_empty();
        is_any
            .then_some(Action::SetField(writes))
            .into_iter()
            .collect()
    }

    fn execute_action_set(&mut self) -> Next {
        let mut actions = std::mem::take(&mut self.action_set);
        if actions.is_empty() {
            return Next::EndList;
        }
        action_set::keep_one_end(&mut actions);
        self.begin_step(StepKind::ActionSet);
        self.execute_list(&actions, TableId(0))
    }
}

/// An action that means the same elsewhere: "this table" is named.
fn placed(action: &Action, table: TableId) -> Action {
    match action {
        Action::Resubmit {
            in_port,
            table: None,
        } => Action::Resubmit {
            in_port: *in_port,
            table: Some(table),
        },
        action => action.clone(),
    }
}

/// Makes a goto a resubmit: the same lookups, but the list goes on afterwards.
fn come_back(action: &mut Action) {
    if let Action::Goto(table) = action {
        *action = Action::Resubmit {
            in_port: None,
            table: Some(*table),
        };
    }
}

fn in_port_subfield() -> Subfield {
    Subfield::whole(f::IN_PORT, 32)
}

/// Whether an effect leaves the packet as it is.
fn is_pure(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Output(_) | Effect::Controller { .. } | Effect::Learn { .. } | Effect::Clone(_)
    )
}

fn sends_something(effect: &Effect) -> bool {
    match effect {
        Effect::Output(_) | Effect::Controller { .. } | Effect::Recirculate(_) => true,
        Effect::Clone(nested) => nested.iter().any(sends_something),
        _ => false,
    }
}

/// Drops rewrites that nothing follows: nobody would see them.
fn trim(effects: &mut Vec<Effect>) {
    let kept = effects
        .iter()
        .rposition(|effect| is_pure(effect) || sends_something(effect));
    effects.truncate(kept.map_or(0, |last| last + 1));
}
