//! Shares one allocation among equal action lists.
//!
//! Half a million rules of a switch have a few hundred different action lists. The parser
//! keeps every list that it has seen, so that equal lists are one allocation. This saves
//! memory, and lets two lists be compared by address.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::action::{Action, Actions};

/// The action lists seen so far.
///
/// ```
/// use thalweg_pipeline::Action;
/// use thalweg_pipeline::text::Interner;
///
/// let mut interner = Interner::default();
/// let first = interner.intern(vec![Action::DecTtl]);
/// let second = interner.intern(vec![Action::DecTtl]);
/// assert!(std::sync::Arc::ptr_eq(&first, &second));
/// assert_eq!(interner.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interner {
    lists: HashSet<Actions, BuildHasherDefault<DefaultHasher>>,
}

impl Interner {
    /// Returns the shared list that equals `actions`.
    pub fn intern(&mut self, actions: Vec<Action>) -> Actions {
        if let Some(list) = self.lists.get(actions.as_slice()) {
            return list.clone();
        }
        let list: Actions = actions.into();
        self.lists.insert(list.clone());
        list
    }

    /// The number of different lists.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether no list has been seen.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}
