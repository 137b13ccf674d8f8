//! Lists of actions in sequence: resubmits, gotos, and which of their actions are frozen.
//!
//! ```text
//!   execute(list):
//!     loop: execute the list's next action
//!       resubmit:        put the list among the callers; go on with the list that was found
//!       goto:            go on with the list that was found
//!       end of the list: go on with the last caller's, or return
//! ```
//!
//! In a pipeline whose tables resubmit to each other, thousands of lists wait for each other;
//! Open vSwitch bounds only those that may wait for themselves. So callers lie on the heap,
//! not on the stack. Copies do use the stack: they nest only [`super::MAX_COPIES`] deep.
//!
//! 1. Callers from `base` on belong to the list that this call executes. The call removes all
//!    that it pushes there, however it ends.

use thalweg_packet::PortId;

use super::frozen::{Author, FrozenList};
use super::is_blind;
use super::observer::{Observer, Sight};
use super::walk::{Next, Walk};
use crate::action::{Action, Actions, TableId};

/// A list, its table, and the position reached.
#[derive(Clone, Debug)]
pub(super) struct List {
    actions: Actions,
    /// Index of the next action.
    next: usize,
    table: TableId,
}

/// A list that continues when its resubmit is finished.
#[derive(Debug)]
pub(super) struct Caller {
    list: List,
    /// Whether the resubmit goes to the same or an earlier table.
    deepens: bool,
    /// The step and the rule that the list belongs to.
    origin: (usize, Author),
}

impl<O: Observer> Walk<'_, O> {
    /// Executes a list of `table`, and all that its resubmits and its goto lead to.
    pub(super) fn execute_list(&mut self, actions: Actions, table: TableId) -> Next {
        self.tell_if_empty(&actions);
        self.execute_until(self.callers.len(), Some(List::new(actions, table)))
    }

    /// Executes the rest of a list, and all that its resubmits and its goto lead to.
    pub(super) fn execute_rest_of(&mut self, list: List) -> Next {
        self.execute_until(self.callers.len(), Some(list))
    }

    /// Executes lists in sequence, each as one that continues after a resubmit.
    pub(super) fn execute_frozen(&mut self, lists: &[FrozenList]) -> Next {
        let base = self.callers.len();
        for list in lists.iter().rev() {
            self.nesting += 1;
            self.callers.push(Caller {
                list: List::new(list.actions.clone(), list.table),
                deepens: false,
                origin: (self.step, list.author),
            });
        }
        self.execute_until(base, None)
    }

    /// Executes a list, and then the callers from `base` on (invariant 1).
    fn execute_until(&mut self, base: usize, mut list: Option<List>) -> Next {
        loop {
            let next = match &mut list {
                Some(list) => self.execute_rest(list),
                None => Next::EndList,
            };
            let found = match next {
                Next::Table(to) => self.enter(to, None, true),
                Next::Resubmit {
                    in_port,
                    table: to,
                    asks,
                } => {
                    let list = list.take().expect("a list that ends does not resubmit");
                    self.call(list, to, in_port, asks)
                }
                Next::EndList if self.callers.len() > base => Ok(self.leave()),
                Next::Freeze => {
                    self.freeze_lists(list, base);
                    return Next::Freeze;
                }
                next => Err(next),
            };
            match found {
                Ok(next) => list = next,
                Err(next) => {
                    while self.callers.len() > base {
                        self.leave();
                    }
                    return next;
                }
            }
        }
    }

    /// Executes a list until something other than its next action must follow.
    fn execute_rest(&mut self, list: &mut List) -> Next {
        while let Some(action) = list.actions.get(list.next) {
            if self.is_reparse_needed && (!is_blind(action) || self.remarks(action)) {
                return Next::Freeze;
            }
            list.next += 1;
            let next = match (self.execute(action, list.table), action) {
                (Next::Continue, Action::CheckLarger(check)) => {
                    let check = check.clone();
                    let rest = list.clone();
                    list.next = list.actions.len();
                    self.branch_by_length(&check, &rest)
                }
                (next, _) => next,
            };
            if self.failure.is_some() {
                return Next::Fail;
            }
            if next != Next::Continue {
                return next;
            }
        }
        Next::EndList
    }

    /// Looks up in `table`; returns the list of the rule found, if any.
    fn enter(
        &mut self,
        table: TableId,
        in_port: Option<PortId>,
        asks: bool,
    ) -> Result<Option<List>, Next> {
        let found = self.look_further(table, in_port, asks)?;
        if let Some((actions, _)) = &found {
            self.tell_if_empty(actions);
        }
        Ok(found.map(|(actions, table)| List::new(actions, table)))
    }

    fn tell_if_empty(&mut self, actions: &[Action]) {
        if actions.is_empty() {
            self.tell(Sight::EmptyList);
        }
    }

    /// The same, for a resubmit, after which `list` continues.
    fn call(
        &mut self,
        list: List,
        table: TableId,
        in_port: Option<PortId>,
        asks: bool,
    ) -> Result<Option<List>, Next> {
        let deepens = table <= list.table;
        let origin = (self.step, self.author);
        self.nesting += 1;
        self.callers.push(Caller {
            list,
            deepens,
            origin,
        });
        let found = self.enter(table, in_port, asks);
        // The bound applies to the depth before this resubmit.
        self.depth += u32::from(deepens);
        found
    }

    /// The list that continues after a resubmit.
    fn leave(&mut self) -> Option<List> {
        let caller = self.callers.pop()?;
        self.nesting -= 1;
        self.depth -= u32::from(caller.deepens);
        self.return_to(caller.origin);
        Some(caller.list)
    }

    /// Moves the rests of all lists to the frozen ones.
    fn freeze_lists(&mut self, mut list: Option<List>, base: usize) {
        loop {
            if let Some(list) = list {
                self.spend(list.rest().len());
                self.frozen.extend(list.frozen(self.author));
            }
            if self.callers.len() == base {
                return;
            }
            list = self.leave();
        }
    }
}

impl List {
    fn new(actions: Actions, table: TableId) -> List {
        List {
            actions,
            next: 0,
            table,
        }
    }

    pub(super) fn table(&self) -> TableId {
        self.table
    }

    /// The actions that are not executed yet.
    pub(super) fn rest(&self) -> &[Action] {
        &self.actions[self.next..]
    }
}
