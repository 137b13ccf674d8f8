//! Runs packets through a program.
//!
//! [`Target`] is a running program; [`exact`] defines the meaning of expressions. The parts:
//! [`frame`](self) holds a packet being processed. `parse`, `engine` with `act`, and `deparse`
//! do the four things that happen to it. `outcome` has the results.

mod act;
mod deparse;
pub(crate) mod engine;
pub mod exact;
pub(crate) mod frame;
pub(crate) mod hash;
mod outcome;
mod parse;
mod record;
mod target;

pub use engine::TraceStep;
pub(crate) use frame::{Frame, Wishes};
pub use outcome::{
    ACTION_STEPS_MAX, COPIES_MAX, Counts, Digest, DropReason, Fault, Outbox, PACKET_BYTES_MAX,
    PARSER_STATES_MAX, PASSES_MAX, Sent, WORK_MAX,
};
#[cfg(all(test, feature = "shared-data"))]
pub(crate) use target::walked;
pub use target::{Config, Target};
