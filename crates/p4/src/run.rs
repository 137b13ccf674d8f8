//! Runs packets through a program.
//!
//! [`frame`](self) holds a packet being processed. `parse`, `engine` with `act`, and `deparse`
//! do the four things that happen to it; `pack` puts fields together. `outcome` has the results.
//! It knows no cache: [`crate::target`] puts the caches in front of it, and an `observer` sees
//! what a walk does.

mod act;
mod deparse;
pub(crate) mod engine;
pub(crate) mod frame;
pub(crate) mod observer;
pub(crate) mod outcome;
mod pack;
mod parse;

pub use engine::TraceStep;
pub(crate) use frame::{Frame, Wishes};
pub(crate) use observer::Observer;
pub use outcome::{
    ACTION_STEPS_MAX, COPIES_MAX, Counts, Digest, DropReason, Fault, Outbox, PACKET_BYTES_MAX,
    PARSER_STATES_MAX, PASSES_MAX, Sent, WORK_MAX,
};
