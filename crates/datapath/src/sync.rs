//! The locks of this crate, which a model check replaces.
//!
//! A build with `--cfg thalweg_model` has shuttle's in place of the standard library's, so that
//! `switch/tests/model.rs` chooses who runs next wherever one is taken or given back. Any other
//! build has the standard library's, and does not know of shuttle.

#[cfg(thalweg_model)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(thalweg_model))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
