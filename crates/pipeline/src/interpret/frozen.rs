//! Frozen walks: the rest of a walk that stops before its end.
//!
//! A walk stops for another pass of the packet, or because an action pauses it for a
//! controller. Its rest is that of the list that stopped, and behind it the rests of the lists
//! that wait for it, innermost first. Each keeps its table and its author, which packets for
//! controllers tell.
//!
//! 1. A frozen walk holds constants only: bits that it took from the packet are in the mask.
//! 2. Resumed at the same version with the same packet and registers, it does what the walk
//!    would have done without stopping, except that bounds count from the start again.

use std::sync::Arc;

use thalweg_classifier::RuleId;
use thalweg_packet::{FieldId, Source, standard as f};

use super::lists::List;
use super::observer::Observer;
use super::stack::Stack;
use super::walk::Walk;
use crate::action::{Action, Actions, TableId, Write};
use crate::bridge::BridgeId;
use crate::effect::{Effect, Sender};
use crate::state::{Lifted, PORT_BITS};
use crate::trace::StepKind;
use crate::tracking::is_tracked;

/// The rule that a list of actions belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Author {
    /// None: a controller sent the list.
    #[default]
    None,
    /// This one.
    Rule(RuleId),
    /// One that may be gone; its cookie is known.
    Cookie(u64),
}

impl Author {
    /// The rule, if there is one.
    pub fn rule(self) -> Option<RuleId> {
        match self {
            Author::Rule(rule) => Some(rule),
            Author::None | Author::Cookie(_) => None,
        }
    }
}

impl From<Option<RuleId>> for Author {
    fn from(rule: Option<RuleId>) -> Author {
        rule.map_or(Author::None, Author::Rule)
    }
}

/// The rest of a list of actions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FrozenList {
    /// The actions left, resubmits and goto included.
    pub actions: Actions,
    /// The table of the list's rule.
    pub table: TableId,
    /// The list's rule.
    pub author: Author,
}

/// A frozen walk, which continues after another parse or when a controller says so.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Continuation {
    /// The rests of the lists, in the order of execution.
    pub lists: Box<[FrozenList]>,
    /// The action set.
    pub action_set: Actions,
    /// The registers' words.
    pub registers: Box<[u64]>,
    /// Bits saved by `push`, bottom first.
    pub stack: Box<[Lifted]>,
    /// The table and the rule of the action set; `None` if none is executed at the end, as in
    /// a bucket and in an action set.
    pub end: Option<(TableId, Author)>,
    /// Whether the walk is that of a packet-out.
    pub is_packet_out: bool,
    /// One bit for each mirror of the bridge that has had the packet.
    pub mirrored: u32,
    /// The packet's queue; 0 if a controller paused the walk.
    pub queue: u32,
    /// Whether the packet goes on as one that was never tracked.
    pub is_untracked: bool,
    /// The bridge that the walk is in, if it has entered one since the packet came in.
    pub entered: Option<BridgeId>,
}

impl Continuation {
    /// A walk that executes one list as a rule of this table would, as a packet-out does.
    pub fn of_list(actions: Actions, table: TableId) -> Continuation {
        let list = FrozenList {
            actions,
            table,
            author: Author::None,
        };
        Continuation {
            lists: Box::new([list]),
            end: Some((table, Author::None)),
            ..Continuation::default()
        }
    }

    /// Bytes of memory that it takes, apart from what actions own.
    pub(crate) fn heap_bytes(&self) -> usize {
        let lists = self.lists.iter();
        let actions: usize = lists
            .map(|list| std::mem::size_of_val(&*list.actions))
            .sum();
        let stack: usize = self.stack.iter().map(Lifted::heap_bytes).sum();
        std::mem::size_of_val(self)
            + std::mem::size_of_val(&*self.lists)
            + actions
            + std::mem::size_of_val(&*self.action_set)
            + std::mem::size_of_val(&*self.registers)
            + std::mem::size_of_val(&*self.stack)
            + stack
    }
}

impl<O: Observer> Walk<'_, O> {
    pub(super) fn resume(&mut self, continuation: &Continuation) {
        self.action_set = continuation.action_set.to_vec();
        self.stack = Stack::of(&continuation.stack);
        self.is_packet_out = continuation.is_packet_out;
        self.set_owner = continuation.end;
        self.mirrored = continuation.mirrored;
        // The packet has it already.
        self.queue = continuation.queue;
        self.has_connection = !continuation.is_untracked;
        if continuation.is_untracked {
            self.clear_connection();
        }
        if let Some(bridge) = continuation.entered {
            let number = u128::from(bridge.0) << 16;
            self.state.write(f::IN_PORT, number, !u128::from(PORT_BITS));
        }
        let rules = continuation.lists.iter();
        let rule = rules.filter_map(|list| list.author.rule()).next();
        self.begin_step(StepKind::Resumption { rule });
        let is_new = continuation.is_packet_out && continuation.mirrored == 0;
        if is_new && !self.mirror_incoming() {
            return;
        }
        let next = self.execute_frozen(&continuation.lists);
        self.end(next, continuation.end);
    }

    /// Freezes the rest of the walk: for the controller if an action paused it, otherwise until
    /// the packet is parsed again. `end` is the table and the rule of the action set.
    pub(super) fn freeze(&mut self, end: Option<(TableId, Author)>) {
        let paused = self.paused.take();
        let taught = self.taught.take();
        let mut lists = std::mem::take(&mut self.frozen);
        let rest = lists.len();
        if paused.is_none() {
            lists.splice(0..0, self.receipt_as_written());
        }
        let place = lists.len() - rest;
        // A paused walk goes on in the bridge that its controller is of.
        let has_entered =
            paused.is_none() && self.pipeline.config.bridges && !self.state.is_original(f::IN_PORT);
        let stack = std::mem::take(&mut self.stack);
        let stack = stack.lifted().iter();
        let continuation = Continuation {
            lists: lists.into(),
            action_set: std::mem::take(&mut self.action_set).into(),
            registers: self.read_registers().into(),
            stack: stack
                .map(|lifted| self.state.read_for_good(lifted))
                .collect(),
            end,
            is_packet_out: self.is_packet_out && paused.is_none(),
            mirrored: self.mirrored,
            queue: if paused.is_none() { self.queue } else { 0 },
            is_untracked: !self.has_connection,
            entered: has_entered.then(|| self.bridge()),
        };
        match (paused, taught) {
            (Some(effect), _) => self.emit(self.with_continuation(effect, continuation)),
            (None, Some(taught)) => self.go_on_by_room(taught, continuation, place),
            (None, None) => self.recirculate(continuation),
        }
    }

    /// Looks the packet up again, as it is now, and goes on there with a continuation.
    fn recirculate(&mut self, continuation: Continuation) {
        let effect = self.recirculation(continuation);
        self.emit(effect);
    }

    /// Looks a copy of the packet up again in `table`, which gets what a tracker said of it.
    /// The copy has the registers, the stack and the action set, as in Open vSwitch
    /// (`compose_recirculate_and_fork`).
    pub(super) fn fork(&mut self, table: TableId, author_table: TableId) {
        let goto = FrozenList {
            actions: Arc::new([Action::Goto(table)]),
            table: author_table,
            author: self.author,
        };
        let lists = self.receipt_as_written();
        let stack = self.stack.clone();
        let stack = stack.lifted().iter();
        let has_entered = self.pipeline.config.bridges && !self.state.is_original(f::IN_PORT);
        let continuation = Continuation {
            lists: lists.into_iter().chain([goto]).collect(),
            action_set: self.action_set.as_slice().into(),
            registers: self.read_registers().into(),
            stack: stack
                .map(|lifted| self.state.read_for_good(lifted))
                .collect(),
            // In a bucket and in an action set, too: the copy is a packet of its own.
            end: self.set_owner.or(Some((author_table, self.author))),
            is_packet_out: self.is_packet_out,
            mirrored: self.mirrored,
            queue: self.queue,
            is_untracked: false,
            entered: has_entered.then(|| self.bridge()),
        };
        let effect = self.recirculation(continuation);
        self.emit(Effect::Clone([effect].into()));
    }

    fn recirculation(&mut self, continuation: Continuation) -> Effect {
        Effect::Recirculate(self.number(continuation))
    }

    /// Adds a continuation to those of the translation, and returns its number there.
    pub(super) fn number(&mut self, continuation: Continuation) -> u32 {
        self.continuations.push(Arc::new(continuation));
        self.continuations.len() as u32 - 1
    }

    /// The effect that sends a paused packet, with all that lets it go on. Rules are told by
    /// their cookies, since they may be gone by then.
    fn with_continuation(&self, mut effect: Effect, mut continuation: Continuation) -> Effect {
        let lists = continuation.lists.iter_mut();
        let authors = lists.map(|list| &mut list.author);
        let end = continuation.end.iter_mut().map(|(_, author)| author);
        for author in authors.chain(end) {
            let cookie = self.cookie_of(*author);
            *author = cookie.map_or(Author::None, Author::Cookie);
        }
        if let Effect::Controller {
            sender: Some(sender),
            ..
        } = &mut effect
        {
            sender.continuation = Some(Arc::new(continuation));
        }
        effect
    }

    /// The registers' words of the pipeline's layout.
    fn read_registers(&mut self) -> Vec<u64> {
        let registers = self.state.read_registers();
        if !O::OBSERVES {
            return registers;
        }
        let mut words = self.narrowed(self.state.words());
        words.split_off(self.pipeline.layout().ingress_words())
    }

    fn cookie_of(&self, author: Author) -> Option<u64> {
        match author {
            Author::None => None,
            Author::Rule(rule) => Some(self.pipeline.rule(rule)?.cookie),
            Author::Cookie(cookie) => Some(cookie),
        }
    }

    /// What sends a packet to the controller now. Reads all that is told.
    pub(super) fn sender(&mut self, table: TableId) -> Option<Box<Sender>> {
        self.state.read_registers();
        let bridge = self.bridge();
        let layout = self.pipeline.layout();
        let told = layout.used().iter().copied().filter(|field| {
            let source = &layout.descriptor(*field).source;
            match source {
                Source::Register => true,
                Source::Intrinsic(_) => {
                    // The packet itself says where it came from.
                    let is_known = *field == f::IN_PORT && self.state.is_original(*field);
                    // The packet carries its type.
                    let is_known = is_known || *field == f::PACKET_TYPE;
                    *field != f::RECIRC_ID && !is_known && !is_tracked(*field)
                }
                _ => false,
            }
        });
        let told: Vec<FieldId> = told.collect();
        let told = told
            .into_iter()
            .map(|field| (field, self.state.read(field)));
        let fields = told.filter(|(field, value)| *value != 0 || *field == f::IN_PORT);
        Some(Box::new(Sender {
            table: bridge.table(table.number()),
            fields: fields.collect(),
            cookie: self.cookie_of(self.author),
            has_connection: self.has_connection,
            continuation: None,
        }))
    }

    /// Repeats writes over fields from the receiver, which another parse would reset.
    fn receipt_as_written(&mut self) -> Option<FrozenList> {
        let layout = self.pipeline.layout();
        let written = layout.used().iter().copied().filter(|field| {
            let is_receipt = matches!(layout.descriptor(*field).source, Source::Intrinsic(_));
            // The packet carries its options and its type; other values are repeated for traces
            // that go on.
            let is_receipt = is_receipt && !matches!(*field, f::TUN_OPTIONS | f::PACKET_TYPE);
            let is_repeated = is_receipt && *field != f::RECIRC_ID && !is_tracked(*field);
            is_repeated && !self.state.is_original(*field)
        });
        let written: Vec<FieldId> = written.collect();
        let again = |field: FieldId| Write {
            field,
            value: self.state.read(field),
            mask: u128::MAX >> (128 - layout.descriptor(field).width_bits),
        };
        let writes: Box<[Write]> = written.into_iter().map(again).collect();
        (!writes.is_empty()).then(|| FrozenList {
            actions: Arc::new([Action::SetField(writes)]),
            table: TableId(0),
            author: Author::None,
        })
    }
}

impl List {
    /// The actions left, which `author` wrote; `None` at the end.
    pub(super) fn frozen(&self, author: Author) -> Option<FrozenList> {
        let rest = self.rest();
        (!rest.is_empty()).then(|| FrozenList {
            actions: rest.into(),
            table: self.table(),
            author,
        })
    }
}
