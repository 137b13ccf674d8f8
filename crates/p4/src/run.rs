//! Runs packets through a program.
//!
//! [`frame`](self) holds a packet being processed. `parse`, `engine` with `act`, and `deparse`
//! do the four things that happen to it. `outcome` has the results. It knows no cache:
//! [`crate::target`] puts the caches in front of it.

mod act;
mod deparse;
pub(crate) mod engine;
pub(crate) mod frame;
pub(crate) mod outcome;
mod parse;
mod record;

pub use engine::TraceStep;
pub(crate) use frame::{Frame, Wishes};
pub use outcome::{
    ACTION_STEPS_MAX, COPIES_MAX, Counts, Digest, DropReason, Fault, Outbox, PACKET_BYTES_MAX,
    PARSER_STATES_MAX, PASSES_MAX, Sent, WORK_MAX,
};
