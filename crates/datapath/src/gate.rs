//! A lock for constant readers and a rare writer that holds it briefly.
//!
//! A reader that takes the lock again right after releasing it leaves a writer little chance.
//! And waking a sleeping writer takes a kernel call, which can cost as much time as a whole
//! change of thirty rules. So both first wait by spinning, and a reader gives way to a waiting
//! writer:
//!
//! ```text
//!   write    say so; try to lock, again and again; sleep if it takes long
//!   read     a writer waits: give it time, then try all the same
//!            try to lock, again and again; sleep if it takes long
//! ```
//!
//! 1. One writer has exclusive access, as with any lock of this kind: the lock is the standard
//!    library's.
//! 2. No thread starves: a sleeping writer comes before later readers, and a reader gives way
//!    to a writer that does not come for at most [`COURTESY`] tries.
//! 3. Lock poisoning is ignored.
//!
//! In a model check each thread tries once and then sleeps, as there is no time in it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, TryLockError};

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Tries before sleeping: about as long as a wake-up would take.
const TRIES: u32 = if cfg!(thalweg_model) { 1 } else { 1_024 };
/// Tries for which a reader gives way to a writer; no longer, as the writer may not be
/// running.
const COURTESY: u32 = 64;

/// A lock that prefers the writer.
#[derive(Debug, Default)]
pub struct Gate<T> {
    /// Number of waiting writers.
    writers: AtomicU32,
    lock: RwLock<T>,
}

impl<T> Gate<T> {
    /// Creates a lock around `inside`.
    pub fn new(inside: T) -> Gate<T> {
        Gate {
            writers: AtomicU32::new(0),
            lock: RwLock::new(inside),
        }
    }

    /// Locks for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        for tried in 0..TRIES {
            if tried >= COURTESY || self.writers.load(Ordering::Relaxed) == 0 {
                match self.lock.try_read() {
                    Ok(guard) => return guard,
                    Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                    Err(TryLockError::WouldBlock) => {}
                }
            }
            std::hint::spin_loop();
        }
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        if cfg!(thalweg_model) {
            return self.lock.write().unwrap_or_else(PoisonError::into_inner);
        }
        self.writers.fetch_add(1, Ordering::Relaxed);
        let guard = self.write_soon();
        self.writers.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    fn write_soon(&self) -> RwLockWriteGuard<'_, T> {
        for _ in 0..TRIES {
            match self.lock.try_write() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        self.lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, through exclusive access to the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.lock
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks for reading at the first use, and holds the lock until dropped.
pub(crate) struct Reader<'a, T> {
    gate: &'a Gate<T>,
    guard: Option<RwLockReadGuard<'a, T>>,
}

impl<'a, T> Reader<'a, T> {
    pub(crate) fn new(gate: &'a Gate<T>) -> Reader<'a, T> {
        Reader { gate, guard: None }
    }

    pub(crate) fn get(&mut self) -> &T {
        self.guard.get_or_insert_with(|| self.gate.read())
    }
}
