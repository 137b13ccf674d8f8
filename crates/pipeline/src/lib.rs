//! Match-action programs and their meaning.

mod action;
mod change;
mod flow;
mod mac;
mod matching;

pub use action::{Action, Actions, GroupId, Output, Slice, Subfield, TableId, Write};
pub use change::{Change, ChangeError, Operation, Selector};
pub use flow::{Bucket, DEFAULT_PRIORITY, Flow, Group, GroupKind, PortState};
pub use mac::{MacMove, MacTable, Station};
pub use matching::{Contradiction, Match, Term};
pub use thalweg_classifier::{RuleId, Version};
