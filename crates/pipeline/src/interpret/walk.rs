//! The walk itself: lookups, single actions, copies, freezing, and the result.
//!
//! A walk that meets a bound *fails*, as a translation does in Open vSwitch: none of its
//! effects is done, and the packet is dropped for that one reason. As there, the stations and
//! rules that were learned by then stay learned.

use std::sync::Arc;

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::{Layout, PortId, standard as f};

use super::action_set;
use super::fragments::Outcome;
use super::frozen::{Author, FrozenList};
use super::lists::Caller;
use super::meters::place_of_drops;
use super::observer::{Observer, SeenFields, Sight, Unobserved, copy_fields, narrow};
use super::place::number_places;
use super::stack::Stack;
use super::{
    Continuation, DropReason, MAX_COPIES, MAX_DEPTH, MAX_EFFECTS, MAX_LOOKUPS, MAX_STACK_BYTES,
    MAX_WORK, Memory, Spare, Translation,
};
use crate::action::{Action, Actions, Output, Subfield, TableId};
use crate::bridge::BridgeId;
use crate::effect::{Effect, PacketInReason};
use crate::fragments::fragment_bits;
use crate::learning::LearnedRule;
use crate::miss::{LAST_TABLE, Miss};
use crate::pipeline::{Pipeline, Rule};
use crate::state::State;
use crate::trace::{Input, StepKind, Trace};

/// What follows an action or a list of actions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next action.
    Continue,
    /// This table, instead of the rest of the list.
    Table(TableId),
    /// A lookup, then the next action.
    Resubmit {
        /// The input port for that lookup only.
        in_port: Option<PortId>,
        /// The table.
        table: TableId,
        /// Whether a table without a rule for the packet decides what follows.
        asks: bool,
    },
    /// The end of this list; the lists around it continue.
    EndList,
    /// Nothing: the walk is over.
    Exit,
    /// A freeze: the remaining actions run after another parse, or when a controller says so.
    Freeze,
    /// Nothing, and the effects so far are discarded: a bound was met.
    Fail,
}

/// Why a list is executed on a copy of the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nested {
    /// A `clone` action.
    Clone,
    /// What follows a check of the packet's length, for one answer to it.
    Branch,
    /// A group's bucket.
    Bucket,
    /// A patch: the list is that of the first lookup in the bridge of this port.
    Bridge(PortId),
}

/// How a walk looks things up.
#[derive(Clone, Copy)]
pub(super) enum Lookups<'a> {
    /// With the bits that decided them; a memory, if given, is tried first.
    Examined(Option<&'a dyn Memory>),
    /// As fast as possible, without masks; the trace has only kinds of steps. The outcome of
    /// the first lookup may be given.
    Bare(Option<Option<RuleId>>),
}

/// The list of a rule that was found, and its table; an error if a bound is met.
type Found = Result<Option<(Actions, TableId)>, Next>;

/// A walk in progress.
pub(super) struct Walk<'a, O = Unobserved> {
    pub(super) pipeline: &'a Pipeline,
    /// The layout of the state: the pipeline's, or for an observer one of all fields.
    layout: &'a Layout,
    observer: O,
    pub(super) version: Version,
    /// How lookups are done.
    lookups_by: Lookups<'a>,
    /// Where the state says whether the packet is a fragment.
    pub(super) fragment_bits: Option<(usize, u64)>,
    /// Whether the keys have the packet's type.
    pub(super) has_packet_types: bool,
    pub(super) state: State<'a>,
    pub(super) effects: Vec<Effect>,
    trace: Trace,
    /// The step that reads are attributed to.
    pub(super) step: usize,
    /// How many resubmits and copies the step is nested in.
    pub(super) nesting: u32,
    /// Of these, those that may form a circle: buckets, and resubmits that do not lead
    /// forward.
    pub(super) depth: u32,
    /// Of these, copies.
    pub(super) copies: u32,
    /// How many callers there were when the innermost bucket's list began; `None` outside.
    bucket_base: Option<usize>,
    /// Whether the action set is being executed.
    is_in_action_set: bool,
    /// Lookups after the first.
    lookups: usize,
    /// Lists that continue when what they resubmitted to is finished.
    pub(super) callers: Vec<Caller>,
    /// The bound that was met.
    pub(super) failure: Option<DropReason>,
    /// Effects so far, those of copies included.
    emitted: usize,
    /// Units of work left; `None` once the budget was exceeded.
    pub(super) work_left: Option<usize>,
    /// Scratch for the bits that a lookup examined.
    examined: Vec<u64>,
    pub(super) action_set: Vec<Action>,
    pub(super) stack: Stack,
    pub(super) author: Author,
    /// The number of the innermost bucket that led here within the bridge; 0 for none.
    pub(super) bucket: u64,
    /// Whether headers were exposed that the key does not have.
    pub(super) is_reparse_needed: bool,
    /// Whether a VLAN tag was pushed above two others; the key has then lost the lowest.
    pub(super) is_tag_hidden: bool,
    /// The table and the rule of the action set that is executed at the end of the packet or
    /// of this copy of it; `None` if none is.
    pub(super) set_owner: Option<(TableId, Author)>,
    /// Whether the packet was looked up again behind a tracker, and still has its connection.
    pub(super) has_connection: bool,
    /// Whether the next lookup sees the tuple of the connection's first packet.
    pub(super) shows_tuple: bool,
    /// The rests of lists after a freeze, innermost first.
    pub(super) frozen: Vec<FrozenList>,
    /// A rule and the bit that tells whether there was room for it, while the walk freezes for
    /// that.
    pub(super) taught: Option<(Arc<LearnedRule>, Subfield)>,
    /// What sends the packet to the controller, while the walk freezes for it.
    pub(super) paused: Option<Effect>,
    /// Whether the walk is that of a packet-out.
    pub(super) is_packet_out: bool,
    /// One bit for each mirror of the bridge that has had the packet.
    pub(super) mirrored: u32,
    /// Most bytes that are sent, while the packet goes to a mirror.
    pub(super) cut_to_bytes: Option<u16>,
    /// The packet's queue, as the effects so far have it; 0 for none.
    pub(super) queue: u32,
    pub(super) continuations: Vec<Arc<Continuation>>,
    /// Whether the packet or a copy has been given to the tracker.
    pub(super) has_tracked: bool,
    /// Copies that were not sent, by reason, the latest reason last.
    pub(super) drops: Vec<(DropReason, u32)>,
    /// Why the last lookup of this copy of the packet found no rule, if it found none.
    pub(super) missed: Option<DropReason>,
    /// Memory left by earlier walks.
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
        let state = (&**pipeline.layout(), key, registers);
        Walk::observed(pipeline, state, version, lookups_by, Unobserved, spare)
    }
}

impl<'a, O: Observer> Walk<'a, O> {
    /// Creates a walk whose state has this layout, key and registers.
    pub(super) fn observed(
        pipeline: &'a Pipeline,
        (layout, key, registers): (&'a Layout, &[u64], Option<&[u64]>),
        version: Version,
        lookups_by: Lookups<'a>,
        observer: O,
        spare: &'a mut Spare,
    ) -> Walk<'a, O> {
        let mut state = State::new(layout, key, registers, spare);
        state.hides_bridge = pipeline.config.bridges;
        // A packet on another pass must never match a cached continuation.
        state.read(f::RECIRC_ID);
        let has_packet_types = pipeline.has_packet_types();
        if has_packet_types {
            // All rules match on it.
            state.read(f::PACKET_TYPE);
        }
        for field in pipeline.config.compared {
            state.read(*field);
        }
        // The cache owns this number; rules must not match on it.
        state.write(f::RECIRC_ID, 0, u32::MAX.into());
        state.written_words = 0;
        Walk {
            pipeline,
            layout,
            observer,
            version,
            lookups_by,
            fragment_bits: fragment_bits(pipeline, layout),
            has_packet_types,
            state,
            effects: spare.effects(),
            trace: spare.trace(layout.words(), layout.ingress_words()),
            step: 0,
            nesting: 0,
            depth: 0,
            copies: 0,
            bucket_base: None,
            is_in_action_set: false,
            lookups: 0,
            callers: spare.callers(),
            failure: None,
            emitted: 0,
            work_left: Some(MAX_WORK),
            examined: spare.list(),
            action_set: Vec::new(),
            stack: Stack::default(),
            author: Author::None,
            bucket: 0,
            is_reparse_needed: false,
            is_tag_hidden: false,
            set_owner: None,
            shows_tuple: false,
            has_connection: false,
            frozen: Vec::new(),
            taught: None,
            paused: None,
            is_packet_out: false,
            mirrored: 0,
            cut_to_bytes: None,
            queue: 0,
            continuations: Vec::new(),
            has_tracked: false,
            drops: Vec::new(),
            missed: None,
            spare,
        }
    }

    pub(super) fn start(&mut self) {
        let table = self.first_table();
        let outcome = self.look_up(table, None);
        if let Outcome::Rule(rule) = outcome {
            self.tell_found(table, rule);
        }
        if !self.mirror_incoming() {
            return;
        }
        let found = match outcome {
            Outcome::Rule(rule) => Ok(Some((self.actions_of(rule), table))),
            Outcome::Dropped => Ok(None),
            Outcome::Missed => match self.miss(table, true) {
                Some(later) => self.look_further(later, None, true),
                None => Ok(None),
            },
        };
        let first = self.author;
        self.set_owner = Some((table, first));
        let next = self.execute_found(found);
        self.end(next, Some((table, first)));
    }

    /// Begins with a list of actions that no rule has, as a packet-out does.
    pub(super) fn start_with(&mut self, actions: Actions) {
        let table = self.first_table();
        let is_empty = actions.is_empty();
        let continuation = Continuation {
            is_packet_out: true,
            ..Continuation::of_list(actions, table)
        };
        if is_empty {
            self.tell(Sight::EmptyList);
        }
        self.resume(&continuation);
    }

    /// Does what remains at the end: the action set, if one is executed, or a freeze. The set
    /// belongs to the table and the rule with which the walk or the copy began, as in Open
    /// vSwitch.
    pub(super) fn end(&mut self, next: Next, end: Option<(TableId, Author)>) {
        match (next, end) {
            (Next::Freeze, None) => self.freeze_without_set(),
            (Next::Freeze, end) => self.freeze(end),
            (Next::Exit | Next::Fail, _) | (_, None) => {}
            (_, Some((table, author))) => {
                self.author = author;
                let was_in_it = std::mem::replace(&mut self.is_in_action_set, true);
                let owner = self.set_owner.take();
                let next = self.execute_action_set(table);
                (self.is_in_action_set, self.set_owner) = (was_in_it, owner);
                if next == Next::Freeze {
                    self.freeze_without_set();
                }
            }
        }
    }

    /// Freezes a walk in a bucket, whose action set belongs to the packet and not to the copy,
    /// or in an action set, which nothing can be added to while it is executed.
    fn freeze_without_set(&mut self) {
        self.action_set.clear();
        self.freeze(None);
    }

    pub(super) fn finish(mut self) -> Translation {
        self.tell(Sight::End { queue: self.queue });
        let slow_path_meter = self.slow_path_meter();
        self.note_reads();
        self.trace.set_written_words(self.state.written_words);
        let mut effects = std::mem::take(&mut self.effects);
        if let Some(bound) = self.failure {
            effects = only_taught(effects);
            self.drops = vec![(bound, 1)];
            self.continuations.clear();
        }
        trim(&mut effects);
        let sends = effects.iter().any(sends_something);
        if !sends && self.drops.is_empty() {
            self.drop(self.missed.unwrap_or(DropReason::Action));
        }
        let last = self.drops.last().map(|(reason, _)| *reason);
        let place = place_of_drops(&effects, sends);
        let drops = self.drops.iter();
        effects.splice(
            place..place,
            drops.map(|&(reason, copies)| Effect::Drop { reason, copies }),
        );
        if let Some(meter) = slow_path_meter
            && self.failure.is_none()
        {
            effects.insert(0, Effect::Slow { meter: Some(meter) });
        }
        if self.has_tracked {
            number_places(&mut effects, &self.continuations);
        }
        self.spare.keep(self.examined);
        self.spare.keep_callers(self.callers);
        Translation {
            effects,
            trace: self.trace,
            continuations: self.continuations,
            drop_reason: last.filter(|_| !sends),
            mask: self.state.into_mask(self.spare),
        }
    }

    /// Looks up in a table after the first; returns the actions of the matching rule, if any,
    /// and its table.
    ///
    /// Only this lookup sees `in_port` as the input port. `asks` says whether a table without
    /// a rule for the packet decides what follows.
    ///
    /// # Errors
    /// If a bound is met.
    pub(super) fn look_further(
        &mut self,
        mut table: TableId,
        in_port: Option<PortId>,
        asks: bool,
    ) -> Found {
        let first = table;
        loop {
            self.check_bounds()?;
            self.lookups += 1;
            match self.look_up(table, in_port) {
                Outcome::Rule(rule) => {
                    self.tell_found(first, rule);
                    return Ok(Some((self.actions_of(rule), table)));
                }
                Outcome::Dropped => return Ok(None),
                Outcome::Missed => {}
            }
            match self.miss(table, asks) {
                Some(later) => table = later,
                None => return Ok(None),
            }
        }
    }

    /// Does what a table does without a rule for the packet; returns the table that is next.
    fn miss(&mut self, table: TableId, asks: bool) -> Option<TableId> {
        self.missed = Some(DropReason::TableMiss(table));
        if !asks {
            self.tell_missed(table, false);
            return None;
        }
        self.ask(Input::Misses(table.bridge()));
        match self.pipeline.miss(table, self.version) {
            Miss::Drop => {
                self.begin_unmatched(table, false);
                None
            }
            Miss::Continue if table.number() < LAST_TABLE => Some(TableId(table.0 + 1)),
            // No table is left to go on with.
            Miss::Controller | Miss::Continue => {
                self.begin_unmatched(table, true);
                let meter = self.controller_meter(None);
                let sender = self.sender(table);
                self.emit(Effect::Controller {
                    reason: PacketInReason::TableMiss,
                    max_len_bytes: u16::MAX,
                    controller_id: 0,
                    userdata: Box::default(),
                    sender,
                    meter,
                });
                None
            }
        }
    }

    fn begin_unmatched(&mut self, table: TableId, to_controller: bool) {
        let bridge = table.bridge();
        self.begin_step(StepKind::Unmatched {
            bridge,
            to_controller,
        });
        self.tell_missed(table, to_controller);
    }

    fn tell_action_set(&mut self, sight: impl Fn(&[Action]) -> Sight<'_>) {
        if O::OBSERVES {
            let set = std::mem::take(&mut self.action_set);
            let is_executed = action_set::is_executed(&set);
            self.tell(sight(if is_executed { &set } else { &[] }));
            self.action_set = set;
        }
    }

    fn actions_of(&self, rule: RuleId) -> Actions {
        let rule = self.pipeline.rule(rule).expect("tables name known rules");
        rule.actions.clone()
    }

    /// Fails if the packet has used up its lookups, depth, stack or work.
    ///
    /// Every circle leads through a lookup or a group. So the bounds are checked only there,
    /// as in Open vSwitch (`xlate_resubmit_resource_check`).
    ///
    /// # Errors
    /// If a bound is met; it becomes the walk's failure.
    pub(super) fn check_bounds(&mut self) -> Result<(), Next> {
        if self.depth >= MAX_DEPTH {
            Err(self.fail(DropReason::RecursionTooDeep))
        } else if self.lookups >= MAX_LOOKUPS {
            Err(self.fail(DropReason::TooManyLookups))
        } else if self.stack.bytes() >= MAX_STACK_BYTES {
            Err(self.fail(DropReason::StackTooDeep))
        } else {
            Ok(())
        }
    }

    /// Ends the walk at a bound; the first bound met is the one reported.
    pub(super) fn fail(&mut self, bound: DropReason) -> Next {
        if self.failure.is_none() {
            self.failure = Some(bound);
            self.tell(Sight::Failed(bound));
        }
        Next::Fail
    }

    pub(super) fn lookup_from(&mut self, port: PortId, table: TableId) -> Option<RuleId> {
        let former = self.state.lift(&in_port_subfield());
        self.state.write(f::IN_PORT, port.0.into(), u32::MAX.into());
        let rule = self.lookup(table);
        self.state.put_down(&former, &in_port_subfield());
        rule
    }

    pub(super) fn lookup(&mut self, table: TableId) -> Option<RuleId> {
        let memory = match &mut self.lookups_by {
            Lookups::Examined(memory) => *memory,
            Lookups::Bare(first) => {
                let found = first.take();
                let words = self.state.words();
                let rule =
                    found.unwrap_or_else(|| self.pipeline.lookup_bare(table, words, self.version));
                self.begin_step(StepKind::Lookup { table, rule });
                self.author = rule.into();
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
            None if O::OBSERVES => self.lookup_by_all_fields(table, &mut examined),
            None => self
                .pipeline
                .lookup(table, words, self.version, &mut examined),
        };
        self.begin_step(StepKind::Lookup { table, rule });
        self.trace.set_searched(&examined);
        self.state.read_words(&examined);
        self.read_whether_fragment();
        self.examined = examined;
        self.author = rule.into();
        rule
    }

    /// Looks up with the state of an observed walk, which has more fields than rules read.
    fn lookup_by_all_fields(&self, table: TableId, examined: &mut [u64]) -> Option<RuleId> {
        let layout = self.pipeline.layout();
        let words = self.narrowed(self.state.words());
        let mut bits = vec![0; layout.words()];
        let rule = self.pipeline.lookup(table, &words, self.version, &mut bits);
        copy_fields((self.layout, examined), (layout, &bits));
        rule
    }

    /// Words of the pipeline's layout, of an observed walk's state.
    pub(super) fn narrowed(&self, words: &[u64]) -> Vec<u64> {
        narrow(self.pipeline.layout(), self.layout, words)
    }

    /// Tells the observer what the walk does.
    #[inline]
    pub(super) fn tell(&mut self, sight: Sight<'_>) {
        if O::OBSERVES {
            let fields = SeenFields {
                layout: self.layout,
                words: self.state.words(),
            };
            self.observer.see(&sight, self.nesting, fields);
        }
    }

    #[inline]
    fn tell_found(&mut self, table: TableId, rule: RuleId) {
        self.tell(Sight::Table {
            table,
            rule: Some(rule),
            to_controller: false,
        });
    }

    #[inline]
    fn tell_missed(&mut self, table: TableId, to_controller: bool) {
        self.tell(Sight::Table {
            table,
            rule: None,
            to_controller,
        });
    }

    /// Begins a step, to which reads are attributed from now on.
    pub(super) fn begin_step(&mut self, kind: StepKind) {
        if let Lookups::Bare(_) = self.lookups_by {
            return self.trace.begin_bare_step(kind, self.nesting);
        }
        self.note_reads();
        self.step = self.trace.len();
        self.trace
            .begin_step(kind, self.nesting, self.state.words());
    }

    /// Attributes the reads since the last call to the current step.
    fn note_reads(&mut self) {
        let is_traced = matches!(self.lookups_by, Lookups::Examined(_));
        if is_traced && self.step < self.trace.len() {
            self.state.move_reads(self.trace.reads_mut(self.step));
        }
    }

    /// Records that the walk depends on an input other than a table.
    pub(super) fn ask(&mut self, input: Input) {
        self.trace.ask(input);
    }

    /// Counts a copy that is not sent.
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
            self.drop(DropReason::TooManyEffects);
        }
    }

    /// The reason that a controller is told, as Open vSwitch tells it
    /// (`xlate_output_action`, `xlate_controller_action`): OpenFlow's own output has the
    /// reason of the place where it stands, `controller(...)` that which it names.
    pub(super) fn reason_here(&self, output: &Output, reason: PacketInReason) -> PacketInReason {
        let reason = match reason {
            PacketInReason::Action if output.is_extended() => reason,
            PacketInReason::Action if self.is_packet_out => PacketInReason::PacketOut,
            PacketInReason::Action if self.is_in_bucket() => PacketInReason::Group,
            PacketInReason::Action if self.is_in_action_set => PacketInReason::ActionSet,
            reason => reason,
        };
        match reason {
            PacketInReason::Action if self.is_table_miss() => PacketInReason::MissRule,
            reason => reason,
        }
    }

    /// Whether the list is a bucket's own, not one that the bucket resubmits to.
    fn is_in_bucket(&self) -> bool {
        self.bucket_base == Some(self.callers.len())
    }

    /// Whether the list is that of a table-miss rule (OpenFlow 1.3.5, section 5.4).
    fn is_table_miss(&self) -> bool {
        let Some(id) = self.author.rule() else {
            return false;
        };
        let has_priority_0 = |rule: &Rule| rule.precedence.priority() == 0;
        self.pipeline.rule(id).is_some_and(has_priority_0)
            && (self.pipeline.match_of(id)).is_some_and(|matching| matching.terms().is_empty())
    }

    /// Executes an action of a list in `table`; the caller follows where it leads.
    // One match: each action has its own rules.
    pub(super) fn execute(&mut self, action: &Action, table: TableId) -> Next {
        if !self.spend(self.cost(action)) {
            return Next::Fail;
        }
        self.tell(Sight::Action(action));
        match action {
            Action::Output(output) => return self.output(output, table),
            Action::Group(group) => return self.group(*group, table),
            Action::SetField(writes) => writes.iter().for_each(|write| self.set_field(*write)),
            Action::Move {
                source,
                destination,
            } => self.copy(source, destination),
            Action::Push(source) => self.stack.push(self.state.lift(source)),
            Action::Pop(destination) => match self.stack.pop() {
                Some(lifted) => {
                    self.write_lifted(&lifted, destination);
                    self.tell(Sight::Written(destination));
                }
                None => self.tell(Sight::EmptyStack),
            },
            Action::SetVlan {
                id,
                priority,
                adds_tag,
            } => self.set_vlan(*id, *priority, *adds_tag),
            Action::PushVlan(tpid) => self.push_vlan(*tpid, 0),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(ether_type) => self.push_mpls(*ether_type),
            Action::PopMpls(ether_type) => self.pop_mpls(*ether_type),
            Action::DecTtl => return self.decrement_ttl(table),
            Action::DecMplsTtl => return self.decrement_mpls_ttl(table),
            Action::DecNshTtl => return self.decrement_nsh_ttl(table),
            Action::Encap(encap) => return self.encap(encap),
            Action::Decap(packet_type) => return self.decap(*packet_type),
            Action::Resubmit {
                in_port,
                table: to,
                with_tuple,
            } => {
                if *with_tuple && !self.has_tuple() {
                    self.tell(Sight::NoTuple);
                    return Next::Continue;
                }
                self.shows_tuple = *with_tuple;
                return Next::Resubmit {
                    in_port: *in_port,
                    table: to.unwrap_or(table),
                    asks: false,
                };
            }
            Action::SetQueue(queue) => self.set_queue(*queue),
            Action::PopQueue if self.queue != 0 => {
                self.set_queue(0);
                self.tell(Sight::QueueIs(0));
            }
            Action::PopQueue => {}
            Action::Clone(nested) => return self.on_copy(nested.clone(), table, Nested::Clone),
            Action::Multipath(choice) => self.choose_link(choice),
            Action::Bundle(choice) => return self.choose_member(choice, table),
            Action::DebugRecirculation => return Next::Freeze,
            Action::Track(tracking) => self.track(tracking, table),
            Action::Untrack => self.untrack(true),
            Action::Learn(learning) => return self.learn_rule(learning),
            Action::FinTimeout { idle_s, hard_s } => self.note_fin(*idle_s, *hard_s),
            // What follows is not this list's next action.
            Action::CheckLarger(_) => {}
            Action::Meter(meter) => return self.measure(*meter),
            Action::DebugSlow => self.emit(Effect::Slow { meter: None }),
            Action::Note(_) | Action::Sample(_) => {}
            Action::Conjunction { .. } => self.tell(Sight::IdleConjunction),
            Action::Exit => return Next::Exit,
            Action::WriteActions(list) => {
                list.iter()
                    .for_each(|action| action_set::add(&mut self.action_set, action));
                self.note_set_output();
                self.tell_action_set(|set| Sight::ActionSetIs(set));
            }
            Action::ClearActions => {
                self.tell_action_set(|set| Sight::ActionSetWas(set));
                self.action_set.clear();
                self.note_set_output();
            }
            Action::WriteMetadata { value, mask } => {
                self.state
                    .write(f::METADATA, u128::from(*value), u128::from(*mask));
            }
            Action::Goto(to) => return Next::Table(*to),
        }
        Next::Continue
    }

    /// Writes where the action set sends the packet, for rules that match it.
    fn note_set_output(&mut self) {
        let port = action_set::output_of(&self.action_set);
        self.state
            .write(f::ACTSET_OUTPUT, port.into(), u32::MAX.into());
    }

    /// Begins again as a packet from `port`, in its bridge.
    fn enter_bridge(&mut self, port: PortId, table: TableId) -> Found {
        self.state.write(f::IN_PORT, port.0.into(), u32::MAX.into());
        self.state.clear_registers();
        self.clear_connection();
        self.leave_tunnel();
        self.stack = Stack::default();
        self.action_set.clear();
        self.tell(Sight::Bridge(BridgeId::of_port(port)));
        if self.is_reparse_needed {
            // The first lookup follows another parse; this list freezes at once.
            let lookup = Actions::from([Action::Output(Output::Table)]);
            return Ok(Some((lookup, table)));
        }
        self.look_further(table, None, true)
    }

    /// Executes the list of the rule that was found, if any.
    fn execute_found(&mut self, found: Found) -> Next {
        match found {
            Ok(Some((actions, table))) => self.execute_list(actions, table),
            Ok(None) => Next::EndList,
            Err(next) => next,
        }
    }

    /// The bridge that the walk is in.
    pub(super) fn bridge(&mut self) -> BridgeId {
        match self.pipeline.config.bridges {
            true => {
                let half = self.state.read_masked(f::IN_PORT, 0xffff_0000);
                BridgeId::of_port(PortId(half as u32))
            }
            false => BridgeId::default(),
        }
    }

    /// The table where packets come into the bridge.
    pub(super) fn first_table(&mut self) -> TableId {
        self.bridge().table(0)
    }

    pub(super) fn in_port(&mut self) -> PortId {
        PortId(self.state.read(f::IN_PORT) as u32)
    }

    /// Attributes reads to the step whose list continues after something nested in it.
    pub(super) fn return_to(&mut self, (step, author): (usize, Author)) {
        self.note_reads();
        (self.step, self.author) = (step, author);
    }

    /// Executes a list, then undoes its changes to the packet and state.
    ///
    /// A clone executes the action set, as if no table followed, and an `exit` in it ends the
    /// whole walk; a bucket does neither (`ovs-actions(7)`, "The clone action", "The exit
    /// action").
    pub(super) fn on_copy(&mut self, actions: Actions, table: TableId, kind: Nested) -> Next {
        let missed = self.missed.take();
        let drops = self.drops.clone();
        let outcome = self.apart(kind, |walk| walk.execute_nested(actions, table, kind));
        let (mut nested, next) = match outcome {
            Ok(outcome) => outcome,
            Err(next) => return next,
        };
        if let Some(reason) = std::mem::replace(&mut self.missed, missed)
            && !nested.iter().any(sends_something)
            && self.drops == drops
        {
            self.drop(reason);
        }
        match nested.len() {
            0 => {}
            // These are already counted.
            _ if nested.iter().all(is_pure) => self.effects.append(&mut nested),
            _ => self.effects.push(Effect::Clone(nested.into())),
        }
        match (kind, next) {
            _ if self.failure.is_some() => Next::Fail,
            (Nested::Clone, Next::Exit) => Next::Exit,
            _ => Next::Continue,
        }
    }

    /// Walks on in a copy, then undoes its changes to the packet and state; returns the copy's
    /// effects and what followed its last list.
    ///
    /// # Errors
    /// If copies nest too deep.
    pub(super) fn apart(
        &mut self,
        kind: Nested,
        walk_on: impl FnOnce(&mut Self) -> Next,
    ) -> Result<(Vec<Effect>, Next), Next> {
        if self.copies == MAX_COPIES {
            return Err(self.fail(DropReason::RecursionTooDeep));
        }
        let caller = (self.step, self.author);
        let snapshot = self.state.snapshot();
        let stack = self.stack.clone();
        let flags = (self.is_reparse_needed, self.is_tag_hidden);
        let queue = self.queue;
        let outer = std::mem::take(&mut self.effects);
        let frozen = std::mem::take(&mut self.frozen);
        let action_set = self.action_set.clone();
        let mirrored = self.leave_mirrors(kind);
        let was_in_it = self.is_in_action_set;
        let deeper = u32::from(matches!(kind, Nested::Bucket | Nested::Bridge(_)));
        // Open vSwitch's traces show what follows a check where the check is.
        let inner = u32::from(kind != Nested::Branch);
        (self.nesting, self.copies) = (self.nesting + inner, self.copies + 1);
        self.depth += deeper;
        let bucket_base = match kind {
            Nested::Bucket => Some(self.callers.len()),
            Nested::Clone | Nested::Branch | Nested::Bridge(_) => None,
        };
        let bucket_base = std::mem::replace(&mut self.bucket_base, bucket_base);
        let owner = self.set_owner.take();
        let had_connection = self.has_connection;
        let next = walk_on(self);
        (self.nesting, self.copies) = (self.nesting - inner, self.copies - 1);
        self.depth -= deeper;
        (self.bucket_base, self.is_in_action_set) = (bucket_base, was_in_it);
        (self.set_owner, self.has_connection) = (owner, had_connection);
        let mut nested = std::mem::replace(&mut self.effects, outer);
        trim(&mut nested);
        self.frozen = frozen;
        self.action_set = action_set;
        self.state.restore(snapshot);
        self.mirrored = mirrored.unwrap_or(self.mirrored);
        self.stack = stack;
        (self.is_reparse_needed, self.is_tag_hidden) = flags;
        self.queue = queue;
        self.return_to(caller);
        Ok((nested, next))
    }

    /// Executes the list of a copy, and what remains at the copy's end.
    fn execute_nested(&mut self, actions: Actions, table: TableId, kind: Nested) -> Next {
        let mut author = self.author;
        let outer_bucket = self.bucket;
        let next = match kind {
            Nested::Bridge(port) => {
                self.is_in_action_set = false;
                self.bucket = 0;
                let found = self.enter_bridge(port, table);
                author = self.author;
                self.set_owner = Some((table, author));
                self.execute_found(found)
            }
            Nested::Clone | Nested::Branch => {
                self.set_owner = Some((table, author));
                self.execute_list(actions, table)
            }
            Nested::Bucket => self.execute_list(actions, table),
        };
        match (kind, next) {
            (Nested::Clone | Nested::Branch | Nested::Bridge(_), next) => {
                self.end(next, Some((table, author)))
            }
            (Nested::Bucket, Next::Freeze) => self.freeze_without_set(),
            (Nested::Bucket, _) => {}
        }
        if matches!(kind, Nested::Bridge(_)) {
            // Behind what the other bridge's action set did.
            self.bucket = outer_bucket;
        }
        next
    }

    fn execute_action_set(&mut self, table: TableId) -> Next {
        let actions = std::mem::take(&mut self.action_set);
        if !action_set::is_executed(&actions) {
            return Next::EndList;
        }
        self.begin_step(StepKind::ActionSet);
        self.tell(Sight::ActionSet);
        self.execute_list(actions.into(), table)
    }
}

/// The effects that a failed walk keeps: the stations and rules it has learned.
fn only_taught(effects: Vec<Effect>) -> Vec<Effect> {
    let mut taught = Vec::new();
    for effect in effects {
        match effect {
            Effect::Learn { .. } => taught.push(effect),
            Effect::LearnRule { rule, .. } => taught.push(Effect::LearnRule {
                rule,
                outcomes: None,
            }),
            Effect::Clone(nested) => taught.extend(only_taught(nested.into_vec())),
            effect @ Effect::ByLength { .. } => {
                let kept = effect.map_lists(only_taught);
                if kept.lists().any(|list| !list.is_empty()) {
                    taught.push(kept);
                }
            }
            _ => {}
        }
    }
    taught
}

fn in_port_subfield() -> Subfield {
    Subfield::whole(f::IN_PORT, 32)
}

/// Whether an effect leaves the packet as it is.
fn is_pure(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Output(_)
            | Effect::Controller { .. }
            | Effect::Learn { .. }
            | Effect::LearnRule { .. }
            | Effect::FinTimeout { .. }
            | Effect::Clone(_)
            | Effect::ByLength { .. }
            | Effect::Slow { .. }
    )
}

pub(super) fn sends_something(effect: &Effect) -> bool {
    match effect {
        Effect::Output(_)
        | Effect::Controller { .. }
        | Effect::Recirculate(_)
        | Effect::LearnRule {
            outcomes: Some(_), ..
        } => true,
        Effect::Clone(nested) => nested.iter().any(sends_something),
        // Either list sends something or counts why it does not.
        Effect::ByLength { .. } => true,
        _ => false,
    }
}

/// Removes rewrites that neither a send, a tracker nor a meter follows.
pub(super) fn trim(effects: &mut Vec<Effect>) {
    let kept = effects.iter().rposition(|effect| {
        is_pure(effect)
            || sends_something(effect)
            || matches!(
                effect,
                Effect::Track(_) | Effect::Meter(_) | Effect::Remark(_)
            )
    });
    effects.truncate(kept.map_or(0, |last| last + 1));
}
