//! The cache table in a target that runs the transformed program.
//!
//! Turns reports into numbers, and the keeper's operations into updates.

use num_bigint::BigUint;

use crate::program::Program;
use crate::program::ids::{ActionId, TableId};
use crate::program::table::Match;
use crate::run::Digest;
use crate::state::{ActionCall, EntryAction, TableEntry, Update};

use super::PREFIX;
use super::keeper::Operation;
use super::plan::Plan;

/// The ids of the cache table and its actions in a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheEntries {
    /// The table.
    pub table: TableId,
    /// By index in [`Plan::actions`].
    actions: Vec<ActionId>,
}

impl CacheEntries {
    /// Finds them by name; `None` if the program does not match the plan.
    pub fn find(program: &Program, plan: &Plan) -> Option<CacheEntries> {
        let action = |name: &str| {
            let found = program.actions.iter().position(|one| one.name == name)?;
            u32::try_from(found).ok().map(ActionId)
        };
        let actions = plan.actions.iter().map(|one| action(&one.name));
        Some(CacheEntries {
            table: program.find_table(&format!("{PREFIX}.cache"))?,
            actions: actions.collect::<Option<_>>()?,
        })
    }

    /// The updates to write, in order.
    pub fn updates(&self, operations: Vec<Operation>) -> Vec<Update> {
        let exact = |key: Vec<BigUint>| key.into_iter().map(Match::Exact).collect();
        let updates = operations.into_iter().map(|operation| match operation {
            Operation::Delete(key) => Update::DeleteEntry(self.table, exact(key), 0),
            Operation::Insert(key, which, data) => {
                let entry = TableEntry {
                    matches: exact(key),
                    priority: 0,
                    action: EntryAction::Call(ActionCall {
                        action: self.actions[which],
                        data,
                    }),
                    idle_timeout_ns: 0,
                };
                Update::InsertEntry(self.table, entry)
            }
        });
        updates.collect()
    }
}

/// The numbers of a digest, if it is a report.
pub fn report_of(program: &Program, digest: &Digest<'_>) -> Option<Vec<BigUint>> {
    let list = &program.arrays.learn_lists[digest.list.index()];
    if !list.name.starts_with(PREFIX) {
        return None;
    }
    let mut words = digest.words;
    let numbers = list.fields.iter().map(|&field| {
        let count = program.headers.field(field).words() as usize;
        let (first, rest) = words.split_at(count);
        words = rest;
        first
            .iter()
            .fold(BigUint::ZERO, |sum, &word| (sum << 64) + word)
    });
    Some(numbers.collect())
}
