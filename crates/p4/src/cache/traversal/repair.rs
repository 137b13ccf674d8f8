//! Removes what a write makes wrong before the write returns.
//!
//! ```text
//!   an entry comes:      those that asked its table with a key that it may match, and found nothing
//!                        or an entry that it beats
//!   an entry goes:       those that found it
//!   a default changes:   those that found nothing
//!   a member changes:    those whose entry led to it, or to a group that has it
//!   a group changes:     those whose entry led to it
//!   a CRC changes:       all
//! ```
//!
//! Packets use counters, meters, registers, mirror sessions, multicast groups and value sets
//! directly: no segment depends on them.
//!
//! A new entry may match a key of a segment if it agrees with the recorded key on all bits that
//! both the entry matches and the lookup examined. The other keys of the segment do not matter
//! then. So a segment that is kept would be recorded the same way today, except for its mask.

use crate::program::Program;
use crate::program::ids::{ProfileId, TableId};
use crate::state::{Change, State};

use super::segment::NONE;
use super::statistics::EvictReason;
use super::store::Cache;

/// Up to this many patterns of an entry are compared one by one.
///
/// With more, only their shared bits are compared.
const PATTERNS_MAX: usize = 16;

impl Cache {
    /// Removes the segments that a completed batch of changes touches.
    pub(crate) fn repair(&mut self, program: &Program, state: &mut State, changes: &[Change]) {
        let mut found = Vec::new();
        for change in changes {
            found.clear();
            let reason = match *change {
                Change::Inserted(table, entry) => {
                    self.find_reached(state, table, entry, &mut found);
                    EvictReason::Inserted
                }
                Change::Removed(table, entry) => {
                    let rows = &self.rows[table.index()];
                    rows.find(|row| row.found == entry, &mut found);
                    EvictReason::Removed
                }
                Change::Default(table) => {
                    let rows = &self.rows[table.index()];
                    rows.find(|row| row.found == NONE, &mut found);
                    EvictReason::Default
                }
                Change::Member(profile, member) => {
                    self.find_users(program, state, profile, member, &mut found);
                    EvictReason::Member
                }
                Change::Group(profile, group) => {
                    for table in tables_of(program, profile) {
                        let rows = &self.rows[table.index()];
                        rows.find(|row| row.group == group, &mut found);
                    }
                    EvictReason::Group
                }
                Change::Calculation => {
                    found.extend(0..self.segments.len() as u32);
                    EvictReason::Calculation
                }
            };
            for &segment in &found {
                self.evict(segment, reason, (&mut state.tables, &mut state.cells));
            }
        }
    }

    fn find_reached(&self, state: &State, table: TableId, entry: u32, found: &mut Vec<u32>) {
        let rows = &self.rows[table.index()];
        let state = &state.tables[table.index()];
        // The same batch removed the entry again, or no segment looked up the table.
        if rows.len() == 0 || !state.has(entry) {
            return;
        }
        let is_better = |other: u32| state.beats(entry, other);
        let mut patterns = state.patterns(entry);
        if patterns.len() > PATTERNS_MAX {
            patterns = vec![shared(&patterns)];
        }
        for (value, mask) in &patterns {
            rows.find_reached(value, mask, is_better, found);
        }
    }

    fn find_users(
        &self,
        program: &Program,
        state: &State,
        profile: ProfileId,
        member: u32,
        found: &mut Vec<u32>,
    ) {
        let groups = &state.profiles[profile.index()].groups;
        let has_member = |group: u32| {
            let members = groups.get(&group).map(|group| &group.members);
            members.is_some_and(|members| members.iter().any(|&(id, _)| id == member))
        };
        for table in tables_of(program, profile) {
            let rows = &self.rows[table.index()];
            rows.find(|row| row.member == member, found);
            rows.find(|row| has_member(row.group), found);
        }
    }
}

fn tables_of(program: &Program, profile: ProfileId) -> impl Iterator<Item = TableId> {
    let tables = program.tables.iter().enumerate();
    let users = tables.filter(move |(_, table)| table.profile == Some(profile));
    users.map(|(index, _)| TableId(index as u32))
}

/// The value and mask that all patterns share: a key that matches any of them matches this.
fn shared(patterns: &[(Vec<u64>, Vec<u64>)]) -> (Vec<u64>, Vec<u64>) {
    let (mut value, mut mask) = patterns[0].clone();
    for (other, other_mask) in patterns {
        for index in 0..mask.len() {
            mask[index] &= other_mask[index] & !(value[index] ^ other[index]);
            value[index] &= mask[index];
        }
    }
    (value, mask)
}
