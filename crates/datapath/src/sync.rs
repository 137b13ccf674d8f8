//! The locks of this crate, which a model check replaces.
//!
//! A build with `--cfg thalweg_model` has shuttle's in place of the standard library's, so that
//! `switch/tests/model.rs` chooses who runs next wherever one is taken or given back. Any other
//! build has the standard library's, and does not know of shuttle.

use std::sync::{PoisonError, TryLockError};

#[cfg(thalweg_model)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(thalweg_model))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// How often a reader tries again before it sleeps: some 40 microseconds, which is what it would
/// take to be woken. In a model check, which has no time, once.
const TRIES: u32 = if cfg!(thalweg_model) { 1 } else { 256 };
/// Pauses between two tries.
const PAUSES: u32 = 4;

/// Locks for reading, as [`RwLock::read`] does, for one who must not sleep because of a writer that
/// is over in a moment; who panicked with the lock is not asked.
///
/// A writer that waits comes first, as with any other reader: nobody is starved.
pub fn read_soon<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    for _ in 0..TRIES {
        match lock.try_read() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            }
        }
    }
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// What is locked for reading when it is first asked, and then until this is dropped.
pub(crate) struct Reader<'a, T> {
    lock: &'a RwLock<T>,
    guard: Option<RwLockReadGuard<'a, T>>,
}

impl<'a, T> Reader<'a, T> {
    pub(crate) fn new(lock: &'a RwLock<T>) -> Reader<'a, T> {
        Reader { lock, guard: None }
    }

    pub(crate) fn get(&mut self) -> &T {
        self.guard.get_or_insert_with(|| read_soon(self.lock))
    }
}
