//! Sees what a walk does, as it does it.
//!
//! [`Walk`] is compiled once per observer. [`Unobserved`] is what most packets have: its
//! methods are empty, so their walk has no trace of them. The behaviour cache's record is the
//! other one.
//!
//! [`Walk`]: super::engine::Walk

use crate::program::Program;
use crate::program::action::Step;
use crate::program::exact::Scope;
use crate::program::ids::{ActionId, NodeId, TableId};
use crate::program::table::Table;

/// Sees each node, lookup and step of a walk, and changes nothing of it.
pub(crate) trait Observer {
    /// Whether it looks at steps; if not, the walk prepares nothing for it.
    const OBSERVES: bool;

    /// Called when the work of a node is charged, before the node runs.
    fn node(&mut self, id: NodeId);

    /// Called after a lookup: the table, the key, and the entry that matched.
    fn lookup(&mut self, table: (TableId, &Table), key: &[u64], found: Option<u32>);

    /// Called before a step of an action runs, jumps included.
    fn step(&mut self, program: &Program, place: (ActionId, usize), step: &Step, scope: &Scope<'_>);
}

/// Sees nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    const OBSERVES: bool = false;

    #[inline]
    fn node(&mut self, _id: NodeId) {}

    #[inline]
    fn lookup(&mut self, _table: (TableId, &Table), _key: &[u64], _found: Option<u32>) {}

    #[inline]
    fn step(
        &mut self,
        _program: &Program,
        _place: (ActionId, usize),
        _step: &Step,
        _scope: &Scope<'_>,
    ) {
    }
}
