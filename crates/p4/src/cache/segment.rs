//! What is remembered of a walk: operations, what is to be counted, and where it ends.

use crate::program::ids::{ActionId, CounterId, NodeId, TableId};
use crate::run::Fault;
use crate::run::engine::{Engine, Stop};
use crate::run::frame::Frame;

/// No entry, member or group.
pub(crate) const NONE: u32 = u32::MAX;

/// One thing that is done to each packet of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// A word of the frame becomes a number.
    Set(u32, u64),
    /// A word becomes what another is, on the bits of a mask: from, to, mask.
    Copy(u32, u32, u64),
    /// A primitive of an action: which, and where the data of the action begins.
    Step(ActionId, u32, u32),
    /// A whole action, with its jumps.
    Action(ActionId, u32),
    /// The meter of an entry.
    Meter(TableId, u32),
    /// Something that has no effect is counted.
    Fault(Fault),
}

/// Where a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum End {
    /// With the pipeline.
    #[default]
    Done,
    /// Before a node at which another segment begins.
    Before(NodeId),
    /// Before a node that is run for each packet; another segment begins after it.
    Visit(NodeId),
}

/// What counts the packets of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Credit {
    /// An entry: its counter, and when it was last hit.
    Entry(TableId, u32),
    /// A cell of an array.
    Cell(CounterId, u32),
}

/// A table that was asked, and what it answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Consult {
    pub(crate) table: TableId,
    /// The entry, [`NONE`] if the default was taken.
    pub(crate) found: u32,
    /// The member or the group that the entry leads to.
    pub(crate) member: u32,
    pub(crate) group: u32,
    /// Where its key begins among those of the segment; the examined bits follow.
    pub(crate) key: u32,
}

/// Operations with the data of their actions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) list: Vec<Operation>,
    pub(crate) data: Vec<u64>,
}

impl Engine<'_> {
    /// Does to a packet what a segment says.
    ///
    /// # Errors
    /// If an operation ends the packet; it is the last.
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
                // It has no way back, and the segment was charged for it.
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

    /// Counts packets by what a segment credits.
    pub(crate) fn credit(&mut self, credits: &[Credit], packets: u64, bytes: u64) {
        let now = self.now;
        credit(self.tables, self.cells, credits, packets, bytes, now);
    }
}

/// Counts packets; the last of them came at `last`.
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
                // An entry that is gone has taken its counter along.
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
