//! Records one walk through a pipeline, and replays it on a hit.

use std::sync::Arc;

use crate::program::ids::{ActionId, CounterId, NodeId, RegisterId, TableId};
use crate::run::{Frame, Wishes};
use crate::state::{Cells, TableState};

use super::flow::{EFFECTS_MAX, Flow, Unfit};
use super::words::WordSet;

/// A side effect that every packet of a behaviour has on the switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// It hits an entry that counts or times out.
    Entry(TableId, u32),
    /// It counts in a cell.
    Count(CounterId, u32),
    /// It writes words of an array of registers, starting at this one.
    Register(RegisterId, u32, Box<[u64]>),
}

/// A lookup of a table with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lookup {
    pub(crate) table: TableId,
    pub(crate) is_hit: bool,
    /// Its row in the table's list, once the behaviour is installed.
    pub(crate) row: u32,
}

/// The notes of one walk.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) flow: Arc<Flow>,
    /// The node that the walk is at.
    pub(crate) node: NodeId,
    pub(crate) written: WordSet,
    /// Effects and lookups so far.
    pub(crate) behavior: Behavior,
    pub(crate) unfit: Option<Unfit>,
    /// Scratch space for the words of one step.
    pub(crate) scratch: Vec<u32>,
}

impl Record {
    pub(crate) fn new(flow: Arc<Flow>) -> Record {
        Record {
            flow,
            node: NodeId(0),
            written: WordSet::default(),
            behavior: Behavior::default(),
            unfit: None,
            scratch: Vec::new(),
        }
    }

    /// Starts a new record, which reuses the memory of `spare`.
    pub(crate) fn begin(&mut self, flow: &Arc<Flow>, spare: Option<Behavior>) {
        self.flow.clone_from(flow);
        self.written.clear();
        self.behavior = spare.unwrap_or_default();
        self.behavior.clear();
        self.unfit = None;
    }

    /// Takes the recorded behaviour, given the frame's words at its end.
    pub(crate) fn end_with(&mut self, words: &[u64], ended: Ended) -> Behavior {
        let mut behavior = std::mem::take(&mut self.behavior);
        self.written.intersect(&self.flow.live);
        let written = self.written.iter();
        let writes = written.map(|word| (word, words[word as usize]));
        behavior.writes.extend(writes);
        behavior.ended = ended;
        behavior.is_unfit = self.unfit.is_some();
        behavior
    }

    /// Marks the path as unfit; the first reason is kept.
    pub(crate) fn end(&mut self, reason: Option<Unfit>) {
        self.unfit = self.unfit.or(reason);
    }

    /// Called before a step of an action runs.
    pub(crate) fn note_step(&mut self, action: ActionId, step: usize) {
        self.end(self.flow.steps[action.index()][step]);
        if self.flow.unkeyed.contains(&(self.node, action, step)) {
            self.end(Some(Unfit::Register));
        }
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        match self.behavior.effects.len() < EFFECTS_MAX {
            true => self.behavior.effects.push(effect),
            false => self.end(Some(Unfit::TooLong)),
        }
    }
}

/// The results of a walk, apart from the frame's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ended {
    /// The wishes that this walk itself made.
    pub(crate) wishes: Wishes,
    /// Bytes by which added and removed headers change the packet's length.
    pub(crate) length_change: i64,
    /// The work that a replay is charged, though it does not do it.
    pub(crate) work: u64,
}

/// What all packets with one key do in a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Behavior {
    /// The words that are written and read later, with their final values.
    pub(crate) writes: Vec<(u32, u64)>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) lookups: Vec<Lookup>,
    /// The keys of the lookups, one after the other.
    pub(crate) keys: Vec<u64>,
    pub(crate) ended: Ended,
    /// If set, nothing else here holds: packets with this key must walk.
    pub(crate) is_unfit: bool,
}

impl Behavior {
    /// Clears everything but keeps the memory.
    fn clear(&mut self) {
        self.writes.clear();
        self.effects.clear();
        self.lookups.clear();
        self.keys.clear();
    }

    /// Does to a packet and to the switch what the pipeline would do.
    #[inline]
    pub(crate) fn replay(
        &self,
        frame: &mut Frame,
        tables: &mut [TableState],
        cells: &mut Cells,
        now: thalweg_packet::Instant,
    ) {
        for &(word, value) in &self.writes {
            frame.words[word as usize] = value;
        }
        frame.length_bytes += self.ended.length_change;
        frame.wishes = self.ended.wishes.over(frame.wishes);
        for effect in &self.effects {
            match effect {
                Effect::Entry(table, index) => {
                    let entry = tables[table.index()].entry_mut(*index);
                    entry.counter.count(frame.ingress_length_bytes);
                    entry.last_hit = now;
                }
                Effect::Count(array, index) => {
                    let cell = &mut cells.counters[array.index()][*index as usize];
                    cell.count(frame.ingress_length_bytes);
                }
                Effect::Register(array, first, words) => {
                    let first = *first as usize;
                    let cell = &mut cells.registers[array.index()][first..first + words.len()];
                    cell.copy_from_slice(words);
                }
            }
        }
    }
}

impl Wishes {
    /// Combines these wishes with earlier ones, which fill what these leave open.
    pub(crate) fn over(self, before: Wishes) -> Wishes {
        let recirculate = match self.withdraws_recirculation {
            true => None,
            false => self.recirculate.or(before.recirculate),
        };
        let lengths = [self.truncate_bytes, before.truncate_bytes];
        Wishes {
            clone: self.clone.or(before.clone),
            digest: self.digest.or(before.digest),
            resubmit: self.resubmit.or(before.resubmit),
            recirculate,
            withdraws_recirculation: self.withdraws_recirculation,
            truncate_bytes: lengths.into_iter().flatten().min(),
            has_exited: self.has_exited || before.has_exited,
        }
    }
}
