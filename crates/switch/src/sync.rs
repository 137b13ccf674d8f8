//! All synchronisation between threads, in one place, so that a model check can replace it.
//!
//! ```text
//!   any build            `system.rs`: the standard library, crossbeam, the kernel
//!   --cfg thalweg_model  `model.rs`:  shuttle, which chooses who runs next at each of these calls
//! ```
//!
//! Control side, workers, exchanges and doorbells take locks, atomics, channels, threads,
//! bells and time from here; the rest of their code is the same in both builds.
//! `tests/model.rs` lists the checks.
//!
//! 1. A build without the model does not depend on shuttle, and behaves as if this module did
//!    not exist.

#[cfg(thalweg_model)]
mod channel;
#[cfg(thalweg_model)]
mod model;
#[cfg(not(thalweg_model))]
mod system;

#[cfg(thalweg_model)]
pub(crate) use model::*;
#[cfg(not(thalweg_model))]
pub(crate) use system::*;
