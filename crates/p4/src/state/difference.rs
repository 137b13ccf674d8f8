//! Compares two states of one program, for tests that run it in two ways.

use crate::program::Program;
use crate::program::ids::TableId;

use super::State;

impl State {
    /// The first difference from another state of the same program. `None` if packets and
    /// controllers cannot distinguish the two.
    ///
    /// It compares entries with their counters, meters and times of last hit; defaults, members
    /// and groups; cells of counters, meters and registers; mirror sessions, multicast groups
    /// and value sets.
    pub fn difference(&self, other: &State, program: &Program) -> Option<String> {
        for (index, table) in program.tables.iter().enumerate() {
            let id = TableId(index as u32);
            if self.default(id) != other.default(id) {
                return Some(format!("the default of {}", table.name));
            }
            let (own, others) = (&self.tables[index], &other.tables[index]);
            if own.len() != others.len() {
                return Some(format!("the number of entries of {}", table.name));
            }
            for (_, entry) in own.entries() {
                let found = others.find(table, &entry.matches, entry.priority).ok()?;
                let Some(twin) = found.map(|index| others.entry(index)) else {
                    return Some(format!("{entry:?} of {} is in one only", table.name));
                };
                let is_same = entry.what == twin.what
                    && entry.counter == twin.counter
                    && entry.meter == twin.meter
                    && entry.idle_timeout_ns == twin.idle_timeout_ns
                    && entry.last_hit == twin.last_hit;
                if !is_same {
                    return Some(format!("{}: {entry:?}, and {twin:?}", table.name));
                }
            }
        }
        let (cells, others) = (&self.cells, &other.cells);
        if cells.counters != others.counters {
            return Some("a cell of a counter".to_owned());
        }
        if cells.meters != others.meters {
            return Some("a cell of a meter".to_owned());
        }
        if cells.registers != others.registers {
            return Some("a cell of a register".to_owned());
        }
        if self.mirrors != other.mirrors || self.multicast != other.multicast {
            return Some("a mirror session or a multicast group".to_owned());
        }
        if self.value_sets != other.value_sets {
            return Some("a value set".to_owned());
        }
        for (profile, shape) in program.profiles.iter().enumerate() {
            let id = crate::program::ids::ProfileId(profile as u32);
            if self.members(id) != other.members(id) || self.groups(id) != other.groups(id) {
                return Some(format!("a member or a group of {}", shape.name));
            }
        }
        None
    }
}
