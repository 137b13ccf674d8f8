//! The analysis of one pipeline: the words in its key, and where it cannot be remembered.
//! `analyse.rs` makes it.

use std::collections::BTreeSet;

use crate::program::ids::{ActionId, NodeId};

use super::known::Derived;
use super::words::WordSet;

/// Why a path through a pipeline cannot be remembered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unfit {
    /// It reads the time.
    Time,
    /// It draws a random number, or its hash takes turns.
    Chance,
    /// It executes a meter.
    Meter,
    /// It reads a register at an index that its key does not give.
    Register,
    /// It hashes the payload.
    Payload,
    /// It withdraws a resubmission or recirculation.
    Wish,
    /// A primitive on it had no effect and was counted as a fault, or the packet ended.
    Fault,
    /// It has more than [`EFFECTS_MAX`] effects, lookups or words.
    TooLong,
}

/// Maximum number of effects, of lookups, and of words of a remembered path.
pub const EFFECTS_MAX: usize = 1 << 10;

impl Unfit {
    /// All reasons.
    pub const ALL: [Unfit; 8] = [
        Unfit::Time,
        Unfit::Chance,
        Unfit::Meter,
        Unfit::Register,
        Unfit::Payload,
        Unfit::Wish,
        Unfit::Fault,
        Unfit::TooLong,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Unfit::Time => "time",
            Unfit::Chance => "chance",
            Unfit::Meter => "meter",
            Unfit::Register => "register",
            Unfit::Payload => "payload",
            Unfit::Wish => "wish",
            Unfit::Fault => "fault",
            Unfit::TooLong => "too_long",
        }
    }
}

/// The analysis of one pipeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// Words in the key.
    pub(crate) inputs: WordSet,
    /// Derived values that locate the key's registers; each comes after its operands.
    pub(crate) derived: Vec<Derived>,
    /// By derived value: how it is used.
    pub(crate) roles: Vec<Role>,
    /// Register reads whose index is known: the place, and the number of the derived value.
    pub(crate) reads: Vec<(StepPlace, usize)>,
    /// Steps, by node and action, that read a register whose value is in no key.
    pub(crate) unkeyed: BTreeSet<StepPlace>,
    /// By action and step: why a path ends there.
    pub(crate) steps: Vec<Vec<Option<Unfit>>>,
    /// By node: the same, for conditions and keys.
    pub(crate) nodes: Vec<Option<Unfit>>,
    /// By action and step: the words that the step writes, if they are the same for all
    /// packets.
    pub(crate) writes: Vec<Vec<Option<Box<[u32]>>>>,
    /// Words that anything after the pipeline reads.
    pub(crate) live: WordSet,
    /// By node: words that may have been written before it; `None` for an unreachable node.
    pub(crate) changed: Vec<Option<WordSet>>,
}

/// A step of an action that runs at a node.
pub(crate) type StepPlace = (NodeId, ActionId, usize);

/// How a derived value is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It locates no register.
    Unused,
    /// It locates a register.
    Operand,
    /// It is a register in the key.
    Key,
}
