//! Records a walk: runs the packet as usual and writes its operations down.
//!
//! ```text
//!   node by node, from a start:
//!     a condition, a key, a jump, a selector:  the bits that decided it, back to the key
//!     a primitive:                             an operation, and where its words come from now
//!     by something that is no function of the key (a register, a color, chance):
//!         stop: the segment ends before this node
//! ```
//!
//! Only constants are evaluated away. Entry data and the examined bits may make a value the
//! same for all packets of the segment. It then becomes a number ([`Operation::Set`]), or
//! nothing if the word had that number already. Registers are read and written, times to live
//! decremented and hashes computed for each packet. So a segment is right for every packet that
//! has the key's examined bits.
//!
//! If something impure decides a jump within an action, the whole action becomes one operation,
//! provided the rest of the walk does not depend on the jump ([`ActionFacts::is_whole`]).
//!
//! 1. A packet that agrees with the recorded one on the examined bits takes the same path: the
//!    same nodes, entries and primitives. Each decision adds the bits that decided it, through
//!    [`Origins`], at the moment it is made.
//! 2. Recording changes the state exactly as the interpreter would, except that counts covered
//!    by the segment's credits are not made yet.
//! 3. Where an operation may end the packet, a segment ends after its node; the credited counts
//!    come before that operation.
//!
//! [`ActionFacts::is_whole`]: super::facts::ActionFacts::is_whole

use crate::program::code::{Code, low_mask};
use crate::program::control::NodeKind;
use crate::program::exact;
use crate::program::ids::{NodeId, TableId};
use crate::program::narrow::Seen;
use crate::program::table::{KeyPart, MatchKind};
use crate::run::Fault;
use crate::run::engine::{Stop, Walk, build_key};
use crate::run::frame::Frame;
use crate::state::What;

use super::facts::{Facts, Reads};
use super::layout::Layout;
use super::origin::{Obstacle, Origin, Origins};
use super::segment::{Consult, Credit, End, NONE, Operation};
use super::words::WordSet;

/// Maximum operations of a segment; with more it ends after the node.
pub(crate) const OPERATIONS_MAX: usize = 512;

/// Maximum impure bits in the key of a segment's start; a color has two.
const IMPURE_BITS_MAX: u32 = 8;

/// The context of a recording, besides the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) layout: &'a Layout,
}

/// A recording in progress; afterwards, its result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) origins: Origins,
    pub(crate) operations: Vec<Operation>,
    pub(crate) data: Vec<u64>,
    pub(crate) credits: Vec<Credit>,
    pub(crate) consults: Vec<Consult>,
    /// For each consulted table, the key and its examined bits.
    pub(crate) keys: Vec<u64>,
    /// A node at which the recording always stops.
    pub(super) limit: Option<NodeId>,
    /// Work of the recorded nodes.
    pub(crate) work: u64,
    /// Whether an operation of this node may end the packet.
    pub(super) may_end: bool,
    /// A primitive's words before it ran.
    pub(super) before: Vec<u64>,
    /// The bits that decided a condition.
    seen: Seen,
    /// Scratch space for `trim`: the live words, and which operations are kept.
    pub(super) live: Option<WordSet>,
    pub(super) is_kept: Vec<bool>,
    /// Bits of a table's key that were the same for all packets before the lookup.
    fixed: Vec<u64>,
    /// The data of a table's action.
    bound: Vec<u64>,
}

/// A position in a recording, for rolling back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    operations: usize,
    pub(super) data: usize,
    credits: usize,
    consults: usize,
    keys: usize,
}

/// The result of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Recorded {
    pub(crate) end: End,
    /// Where the packet continues: the node of the end may have run already.
    pub(crate) next: Option<NodeId>,
}

impl Recorder {
    /// Resets to the origins at a start.
    pub(crate) fn begin(&mut self, first: &[Origin], layout: &Layout) {
        self.origins.begin(first, layout);
        self.limit = None;
        self.operations.clear();
        self.data.clear();
        self.credits.clear();
        self.consults.clear();
        self.keys.clear();
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            operations: self.operations.len(),
            data: self.data.len(),
            credits: self.credits.len(),
            consults: self.consults.len(),
            keys: self.keys.len(),
        }
    }

    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Notes that a word becomes a constant, which the frame already has.
    pub(super) fn set(&mut self, word: u32, frame: &Frame) {
        self.origins.put(word, Origin::Constant);
        self.push(Operation::Set(word, frame.words[word as usize]));
    }
}

impl Walk<'_> {
    /// Runs a packet from a start to a stop point or the end, and records it.
    ///
    /// The recorder must have begun with the start's origins.
    ///
    /// # Errors
    /// Fails if the packet ends on the way. The recording is then useless; its credits have
    /// been given.
    pub(crate) fn record(
        &mut self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        start: NodeId,
        frame: &mut Frame,
    ) -> Result<Recorded, Stop> {
        let mut node = start;
        let left = *self.work_left;
        recorder.work = 0;
        loop {
            if recorder.limit == Some(node) && node != start {
                let (end, next) = (End::Before(node), Some(node));
                return Ok(Recorded { end, next });
            }
            let mark = recorder.mark();
            recorder.origins.node = node;
            recorder.may_end = false;
            let visited = self.record_node(around, recorder, node, frame);
            let next = match visited {
                Ok(_) if frame.wishes.has_exited => None,
                Ok(next) => next,
                Err(stop) => {
                    self.roll_back_credits(recorder, 0, frame);
                    return Err(stop);
                }
            };
            if recorder.operations.len() > OPERATIONS_MAX {
                recorder.origins.obstacle.get_or_insert_default();
            }
            if let Some(obstacle) = recorder.origins.obstacle.take() {
                self.roll_back(recorder, mark, frame);
                let end = stop_at(node, start, obstacle);
                return Ok(Recorded { end, next });
            }
            recorder.work = left - *self.work_left;
            let end = match next {
                None => End::Done,
                Some(next) if recorder.may_end => End::Before(next),
                Some(next) => {
                    node = next;
                    continue;
                }
            };
            return Ok(Recorded { end, next });
        }
    }

    /// Discards the recording since a mark; its effects on this packet stay.
    pub(super) fn roll_back(&mut self, recorder: &mut Recorder, mark: Mark, frame: &Frame) {
        recorder.operations.truncate(mark.operations);
        recorder.data.truncate(mark.data);
        recorder.consults.truncate(mark.consults);
        recorder.keys.truncate(mark.keys);
        self.roll_back_credits(recorder, mark.credits, frame);
    }

    fn roll_back_credits(&mut self, recorder: &mut Recorder, from: usize, frame: &Frame) {
        self.credit(&recorder.credits[from..], 1, frame.ingress_length_bytes);
        recorder.credits.truncate(from);
    }

    fn record_node(
        &mut self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        node: NodeId,
        frame: &mut Frame,
    ) -> Result<Option<NodeId>, Stop> {
        let program = self.program;
        self.spend(program.costs.node(node))?;
        match &program.control.nodes[node.index()].kind {
            NodeKind::If(condition, yes, no) => {
                let holds = self.steer_by(around, recorder, condition, &[], &[], frame);
                Ok(if holds { *yes } else { *no })
            }
            NodeKind::Do(action, after) => {
                self.record_action(around, recorder, *action, &[], frame)?;
                Ok(*after)
            }
            NodeKind::Table(table) => self.record_table(around, recorder, *table, frame),
        }
    }

    /// Steers by whether a value is nonzero, and returns that.
    pub(super) fn steer_by(
        &self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        code: &Code,
        data: &[u64],
        places: &[(u32, u32)],
        frame: &Frame,
    ) -> bool {
        let seen = &mut recorder.seen;
        seen.clear();
        let scope = self.scope(data, places, frame);
        let holds = code.examine_truth(&scope, seen).unwrap_or_else(|| {
            let mut reads = Reads::new(&self.program.headers);
            reads.expr(code.expr());
            seen.extend(reads.words.iter().map(|&word| (word, u64::MAX)));
            code.is_true(&scope)
        });
        for &(word, bits) in &*seen {
            recorder.origins.steer(word, bits, around.layout);
        }
        holds
    }

    fn record_table(
        &mut self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        id: TableId,
        frame: &mut Frame,
    ) -> Result<Option<NodeId>, Stop> {
        let program = self.program;
        let table = program.table(id);
        let first = recorder.keys.len() as u32;
        let mut found = None;
        if !table.key.is_empty() {
            let words = table.key_words as usize;
            let from = recorder.keys.len();
            recorder.keys.resize(from + 2 * words, 0);
            let (key, examined) = recorder.keys[from..].split_at_mut(words);
            build_key(&table.key, &frame.words, key);
            let origins = &mut recorder.origins;
            let state = &self.tables[id.index()];
            if table.key.iter().all(|part| part.kind == MatchKind::Exact) {
                found = state.lookup(key, self.version);
            }
            recorder.fixed.clear();
            match found {
                // All of it decided.
                Some(_) => {
                    recorder.fixed.resize(words, 0);
                    examined.fill(u64::MAX);
                }
                None => {
                    fix_bits(&table.key, origins, around.layout, frame, examined);
                    recorder.fixed.extend_from_slice(examined);
                    found = state.lookup_examined(key, self.version, examined);
                }
            }
            let decided = (&*examined, &*recorder.fixed);
            steer_by_key(&table.key, decided, origins, around.layout, frame);
        }
        let mut consult = Consult {
            table: id,
            found: found.unwrap_or(NONE),
            member: NONE,
            group: NONE,
            key: first,
        };
        if let Some(index) = found {
            if table.has_counters || table.has_timeouts || table.meter.is_some() {
                recorder.credits.push(Credit::Entry(id, index));
            }
            self.record_meter(recorder, id, index, frame);
            self.steer_by_selector(around, recorder, id, index, &mut consult);
        }
        recorder.consults.push(consult);
        let Some(bound) = self.bound(id, table, found, frame) else {
            if found.is_some() {
                recorder.push(Operation::Fault(Fault::NoMember));
            }
            return Ok(table.next(found.is_some(), None));
        };
        let action = bound.action;
        let mut data = std::mem::take(&mut recorder.bound);
        data.clear();
        data.extend_from_slice(&bound.data);
        let recorded = self.record_action(around, recorder, action, &data, frame);
        recorder.bound = data;
        recorded?;
        Ok(table.next(found.is_some(), table.action_index(action)))
    }

    fn record_meter(
        &mut self,
        recorder: &mut Recorder,
        id: TableId,
        index: u32,
        frame: &mut Frame,
    ) {
        let Some(meter) = self.program.table(id).meter else {
            return;
        };
        self.run_meter(id, index, frame);
        recorder.push(Operation::Meter(id, index));
        let result = self.program.arrays.meters[meter.index()].result;
        let field = self
            .program
            .headers
            .field(result.expect("the loader checked it"));
        let impure = Origin::Impure(recorder.origins.node);
        for word in exact::range(field) {
            recorder.origins.put(word as u32, impure);
        }
    }

    /// Steers by the hash that chooses one of an entry's actions.
    fn steer_by_selector(
        &self,
        around: Surroundings<'_>,
        recorder: &mut Recorder,
        id: TableId,
        index: u32,
        consult: &mut Consult,
    ) {
        match self.tables[id.index()].entry(index).what {
            What::Action(_) => return,
            What::Member(member) => {
                consult.member = member;
                return;
            }
            What::Group(group) => consult.group = group,
            What::OneShot(..) => {}
        }
        let profile = self.program.table(id).profile;
        let selector = profile.and_then(|id| self.program.profiles[id.index()].selector);
        let mut reads = Reads::new(&self.program.headers);
        let is_pure = reads.calculation(self.program, selector.expect("groups need a selector"));
        for word in reads.words {
            recorder.origins.steer(word, u64::MAX, around.layout);
        }
        if !is_pure {
            recorder.origins.obstacle.get_or_insert_default().is_own = true;
        }
    }
}

/// The end of a segment that met an obstacle at a node.
fn stop_at(node: NodeId, start: NodeId, obstacle: Obstacle) -> End {
    let is_new = node != start && !obstacle.is_own;
    match is_new && obstacle.bits <= IMPURE_BITS_MAX {
        true => End::Before(node),
        false => End::Visit(node),
    }
}

/// Adds the bits of a table's key that are now the same for all packets of the segment.
fn fix_bits(
    parts: &[KeyPart],
    origins: &Origins,
    layout: &Layout,
    frame: &Frame,
    fixed: &mut [u64],
) {
    for part in parts {
        let mut is_zero = false;
        if let Some(valid) = part.valid_word {
            if origins.fixed_bits(valid, layout) & 1 == 0 {
                continue;
            }
            is_zero = frame.words[valid as usize] == 0;
        }
        let width_bits = part.width_bits.min(64);
        for index in 0..part.words() {
            let unmasked = part.mask.as_ref().map_or(0, |mask| !mask[index as usize]);
            let bits = match is_zero {
                true => u64::MAX,
                false => origins.fixed_bits(part.from_word + index, layout) | unmasked,
            };
            fixed[(part.word + index) as usize] |= (bits & low_mask(width_bits)) << part.shift;
        }
    }
}

/// Steers by the examined bits of a table's key, except those that are fixed.
fn steer_by_key(
    parts: &[KeyPart],
    (examined, fixed): (&[u64], &[u64]),
    origins: &mut Origins,
    layout: &Layout,
    frame: &Frame,
) {
    for part in parts {
        let width_bits = part.width_bits.min(64);
        let bits_of = |index: u32| {
            let word = (part.word + index) as usize;
            let bits = (examined[word] & !fixed[word]) >> part.shift & low_mask(width_bits);
            part.mask
                .as_ref()
                .map_or(bits, |mask| bits & mask[index as usize])
        };
        if (0..part.words()).all(|index| bits_of(index) == 0) {
            continue;
        }
        if let Some(valid) = part.valid_word {
            origins.steer(valid, 1, layout);
            if frame.words[valid as usize] == 0 {
                continue;
            }
        }
        for index in 0..part.words() {
            let bits = bits_of(index);
            if bits != 0 {
                origins.steer(part.from_word + index, bits, layout);
            }
        }
    }
}
