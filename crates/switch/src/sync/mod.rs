//! What threads share and wait for, in one place: so that a model check can replace it.
//!
//! ```text
//!   any build            `system.rs`: the standard library, crossbeam, the kernel
//!   --cfg thalweg_model  `model.rs`:  shuttle, which chooses who runs next at each of these calls
//! ```
//!
//! Control, workers, exchanges and doorbells take locks, atomics, channels, threads, bells and time
//! from here, and are otherwise the same code in both. `tests/model.rs` says what is checked.
//!
//! 1. A build without the model knows nothing of shuttle, and behaves as if this module were not.

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
