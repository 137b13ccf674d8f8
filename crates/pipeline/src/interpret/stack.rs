//! What `push` has put aside, and how many bytes Open vSwitch has on its stack for that.

use crate::state::Lifted;

/// Bits put aside, the last on top.
#[derive(Clone, Debug, Default)]
pub(super) struct Stack {
    lifted: Vec<Lifted>,
    bytes: usize,
}

impl Stack {
    /// The stack of a walk that goes on.
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

    /// The bits, those below first.
    pub(super) fn lifted(&self) -> &[Lifted] {
        &self.lifted
    }

    /// What Open vSwitch would have on its stack: the bits' bytes, and one that counts them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(lifted: &Lifted) -> usize {
    lifted.width_bits().div_ceil(8) + 1
}
