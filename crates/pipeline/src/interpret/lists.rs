//! Lists of actions one after the other: resubmits, gotos, and what of them is frozen.
//!
//! ```text
//!   execute(list):
//!     loop: execute the list's next action
//!       resubmit:        put the list among the callers; go on with the list that was found
//!       goto:            go on with the list that was found
//!       end of the list: go on with the last caller's, or return
//! ```
//!
//! A pipeline whose tables resubmit to each other has thousands of lists that wait for each other,
//! and Open vSwitch bounds only those that may wait for themselves. So callers lie in memory and not
//! on the stack. Copies do lie there: there are few in each other ([`super::MAX_COPIES`]).
//!
//! 1. Callers from `base` on are those of the list that this call executes; it takes away all that
//!    it puts there, however it ends.

use thalweg_classifier::RuleId;
use thalweg_packet::PortId;

use super::is_blind;
use super::walk::{Next, Walk};
use crate::action::{Action, Actions, TableId};

/// A list, how far it has come, and the table that it belongs to.
#[derive(Debug)]
struct List {
    actions: Actions,
    /// The number of the next action.
    next: usize,
    table: TableId,
}

/// A list that goes on when what it resubmitted to is over.
#[derive(Debug)]
pub(super) struct Caller {
    list: List,
    /// Whether the resubmit does not lead forward.
    deepens: bool,
    /// The step and the rule that the list belongs to.
    origin: (usize, Option<RuleId>),
}

impl Walk<'_> {
    /// Executes a list of `table`, and all that its resubmits and its goto lead to.
    pub(super) fn execute_list(&mut self, actions: Actions, table: TableId) -> Next {
        let base = self.callers.len();
        let mut list = Some(List::new(actions, table));
        loop {
            let next = match &mut list {
                Some(list) => self.execute_rest(list),
                None => Next::EndList,
            };
            let found = match next {
                Next::Table(to) => self.enter(to, None),
                Next::Resubmit { in_port, table: to } => {
                    let list = list.take().expect("a list that ends does not resubmit");
                    self.call(list, to, in_port)
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

    /// Executes a list up to where something else than its next action comes.
    fn execute_rest(&mut self, list: &mut List) -> Next {
        while let Some(action) = list.actions.get(list.next) {
            if self.is_reparse_needed && !is_blind(action) {
                return Next::Freeze;
            }
            list.next += 1;
            let next = self.execute(action, list.table);
            if self.failure.is_some() {
                return Next::Fail;
            }
            if next != Next::Continue {
                return next;
            }
        }
        Next::EndList
    }

    /// The list that a lookup finds, if it finds one.
    fn enter(&mut self, table: TableId, in_port: Option<PortId>) -> Result<Option<List>, Next> {
        let actions = self.look_further(table, in_port)?;
        Ok(actions.map(|actions| List::new(actions, table)))
    }

    /// The same, after which `list` goes on.
    fn call(
        &mut self,
        list: List,
        table: TableId,
        in_port: Option<PortId>,
    ) -> Result<Option<List>, Next> {
        let deepens = table <= list.table;
        let origin = (self.step, self.rule);
        self.nesting += 1;
        self.callers.push(Caller {
            list,
            deepens,
            origin,
        });
        let found = self.enter(table, in_port);
        // The bound is on what there is before this one.
        self.depth += u32::from(deepens);
        found
    }

    /// The list that goes on after a resubmit.
    fn leave(&mut self) -> Option<List> {
        let caller = self.callers.pop()?;
        self.nesting -= 1;
        self.depth -= u32::from(caller.deepens);
        self.return_to(caller.origin);
        Some(caller.list)
    }

    /// Puts what is left of all lists where it is frozen.
    fn freeze_lists(&mut self, mut list: Option<List>, base: usize) {
        loop {
            if let Some(list) = list {
                let rest = &list.actions[list.next..];
                self.spend(rest.len());
                self.frozen
                    .extend(rest.iter().map(|action| placed(action, list.table)));
            }
            if self.callers.len() == base {
                return;
            }
            // The list that resubmitted goes on after what its goto leads to.
            if let Some(last) = self.frozen.last_mut() {
                come_back(last);
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
}

/// An action that means the same elsewhere: "this table" is named.
fn placed(action: &Action, table: TableId) -> Action {
    match action {
        Action::Resubmit {
            in_port,
            table: None,
        } => Action::Resubmit {
            in_port: *in_port,
            table: Some(table),
        },
        action => action.clone(),
    }
}

/// Makes a goto a resubmit: the same lookups, but the list goes on afterwards.
fn come_back(action: &mut Action) {
    if let Action::Goto(table) = action {
        *action = Action::Resubmit {
            in_port: None,
            table: Some(*table),
        };
    }
}
