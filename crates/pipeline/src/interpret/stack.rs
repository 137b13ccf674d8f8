//! The stack of `push` and `pop`, and its size in bytes as Open vSwitch counts it.

use crate::state::Lifted;

/// Saved bits, the last on top.
#[derive(Clone, Debug, Default)]
pub(super) struct Stack {
    lifted: Vec<Lifted>,
    bytes: usize,
}

impl Stack {
    /// Creates the stack of a resumed walk.
    pub(super) fn of(lifted: &[Lifted]) -> Stack {
        Stack {
            bytes: lifted.iter().map(bytes_of).sum(),
            lifted: lifted.to_vec(),
        }
    }

    pub(super) fn push(&mut self, lifted: Lifted) {
        self.bytes += bytes_of(&lifted);
        self.lifted.push(lifted);
    }

    pub(super) fn pop(&mut self) -> Option<Lifted> {
        let lifted = self.lifted.pop()?;
        self.bytes -= bytes_of(&lifted);
        Some(lifted)
    }

    /// The saved bits, bottom first.
    pub(super) fn lifted(&self) -> &[Lifted] {
        &self.lifted
    }

    /// Bytes that Open vSwitch would use: those of the bits, and one length byte for each
    /// push.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(lifted: &Lifted) -> usize {
    lifted.width_bits().div_ceil(8) + 1
}
