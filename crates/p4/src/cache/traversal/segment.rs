//! A remembered walk: its operations, its credits, and where it ends.

use crate::program::ids::{ActionId, CounterId, NodeId, TableId};
use crate::run::Fault;
use crate::run::engine::{Stop, Walk};
use crate::run::frame::Frame;

/// No entry, member or group.
pub(crate) const NONE: u32 = u32::MAX;

/// One operation on each packet of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// Sets a frame word to a number.
    Set(u32, u64),
    /// Copies a word to another on the bits of a mask: from, to, mask.
    Copy(u32, u32, u64),
    /// A primitive of an action: its index, and where the action's data begins.
    Step(ActionId, u32, u32),
    /// A whole action, with its jumps.
    Action(ActionId, u32),
    /// Executes the meter of an entry.
    Meter(TableId, u32),
    /// Counts a fault: a primitive without effect.
    Fault(Fault),
}

/// Where a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum End {
    /// At the end of the pipeline.
    #[default]
    Done,
    /// Before a node at which another segment begins.
    Before(NodeId),
    /// Before a node that runs for each packet; another segment begins after it.
    Visit(NodeId),
}

/// A counter of a segment's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Credit {
    /// An entry: its counter and its time of last hit.
    Entry(TableId, u32),
    /// A cell of an array.
    Cell(CounterId, u32),
}

/// A table lookup and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Consult {
    pub(crate) table: TableId,
    /// The entry; [`NONE`] if the default was taken.
    pub(crate) found: u32,
    /// The member or the group that the entry leads to.
    pub(crate) member: u32,
    pub(crate) group: u32,
    /// Where its key begins among the segment's keys; the examined bits follow it.
    pub(crate) key: u32,
}

/// Operations with the data of their actions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) list: Vec<Operation>,
    pub(crate) data: Vec<u64>,
}

impl Walk<'_> {
    /// Performs a segment's operations on a packet.
    ///
    /// # Errors
    /// Fails if an operation ends the packet; that is always the last one.
    #[inline]
    pub(crate) fn perform(
        &mut self,
        operations: &Operations,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        for operation in &operations.list {
            match *operation {
                Operation::Set(to, value) => frame.words[to as usize] = value,
                Operation::Copy(from, to, mask) => {
                    frame.words[to as usize] = frame.words[from as usize] & mask;
                }
                other => self.perform_other(other, &operations.data, frame)?,
            }
        }
        Ok(())
    }

    fn perform_other(
        &mut self,
        operation: Operation,
        data: &[u64],
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let program = self.program;
        match operation {
            Operation::Set(..) | Operation::Copy(..) => unreachable!("the caller's"),
            Operation::Step(action, index, first) => {
                let action = program.action(action);
                let data = &data[first as usize..(first + action.data_words) as usize];
                let step = &action.steps[index as usize];
                self.step(step, data, &action.places, frame)
            }
            Operation::Action(id, first) => {
                let words = program.action(id).data_words;
                let data = &data[first as usize..(first + words) as usize];
                // It never jumps back, and the segment was charged for it.
                self.run_steps(id, data, &[], frame)
            }
            Operation::Meter(table, entry) => {
                self.run_meter(table, entry, frame);
                Ok(())
            }
            Operation::Fault(fault) => {
                self.counts.fault(fault);
                Ok(())
            }
        }
    }

    /// Counts packets in everything that a segment credits.
    pub(crate) fn credit(&mut self, credits: &[Credit], packets: u64, bytes: u64) {
        let now = self.now;
        credit(self.tables, self.cells, credits, packets, bytes, now);
    }
}

/// Counts packets; the last of them arrived at `last`.
pub(crate) fn credit(
    tables: &mut [crate::state::TableState],
    cells: &mut crate::state::Cells,
    credits: &[Credit],
    packets: u64,
    bytes: u64,
    last: thalweg_packet::Instant,
) {
    for credit in credits {
        let counter = match *credit {
            Credit::Entry(table, entry) => {
                // A removed entry has taken its counter with it.
                let Some(entry) = tables[table.index()].find_entry_mut(entry) else {
                    continue;
                };
                entry.last_hit = entry.last_hit.max(last);
                &mut entry.counter
            }
            Credit::Cell(array, index) => &mut cells.counters[array.index()][index as usize],
        };
        counter.packets += packets;
        counter.bytes += bytes;
    }
}
