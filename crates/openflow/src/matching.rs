//! Matches: the conditions of a rule, field by field.
//!
//! A match keeps the names and the order that a message has. Encoding writes the names of the
//! version that reads it (`matching/forms.rs`).

mod entries;
mod forms;
mod judgement;
pub(crate) mod needs;
mod standard;
#[cfg(test)]
mod tests;

pub use entries::Cookie;
pub use judgement::Judgement;

use crate::field::{FieldId, Value};
use crate::port_number::PortNumber;

/// A condition on one field.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Condition {
    /// The field.
    pub field: FieldId,
    /// The bits it must have; zero outside the mask.
    pub value: Value,
    /// Which bits are compared; `None` for all.
    pub mask: Option<Value>,
}

/// The conditions of a rule, in the order of the message; each field occurs once.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Match {
    /// The conditions.
    pub conditions: Vec<Condition>,
}

impl Match {
    /// The condition on a field.
    pub fn get(&self, field: FieldId) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.field == field)
    }

    /// The input port that the match names, in either width.
    pub fn in_port(&self) -> Option<PortNumber> {
        let wide = self
            .get(FieldId::IN_PORT_OXM)
            .map(|condition| condition.value.number());
        let narrow = self
            .get(FieldId::IN_PORT)
            .map(|condition| condition.value.number());
        match (wide, narrow) {
            (Some(number), _) => Some(PortNumber(number as u32)),
            (None, Some(number)) => Some(PortNumber::from_u16(number as u16)),
            (None, None) => None,
        }
    }
}
