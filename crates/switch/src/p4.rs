//! A switch that forwards with a P4 program.
//!
//! ```text
//!   control thread: P4Plane (a thalweg_control::Target)     worker: P4Switch's, with a P4Forwarder
//!     verify, load, commit, apply, ...  ---- one lock ----    a burst
//! ```
//!
//! `plane` shares the running program between a session and the worker, `loaded` is one program
//! with its state, `duty` is the worker's part, `switch` has the ports and the worker.

mod duty;
mod loaded;
mod plane;
mod switch;
#[cfg(test)]
mod tests;
mod worker_state;

pub use plane::{P4Burst, P4Clock, P4Forwarder, P4Plane, P4PlaneConfig};
pub use switch::{P4Config, P4Switch, P4Waker};
pub use worker_state::P4Totals;
