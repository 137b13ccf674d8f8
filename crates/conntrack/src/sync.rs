//! The locks of this crate, which a model check replaces.
//!
//! With `--cfg thalweg_model`, shuttle's locks replace the standard library's, so that
//! `tracker/tests/model.rs` chooses which thread runs next wherever a lock is taken or
//! released. Other builds use the standard library's and do not depend on shuttle.

#[cfg(thalweg_model)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(thalweg_model))]
pub(crate) use std::sync::{Mutex, MutexGuard};
