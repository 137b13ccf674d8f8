//! A lock for one who writes now and then, for microseconds, among those who read all the time.
//!
//! A reader that takes its lock again as soon as it has given it back leaves a writer little chance,
//! and a writer that sleeps is woken by a reader's call to the kernel: in a virtual machine some ten
//! microseconds for both, as long as a change of thirty rules takes. So both wait awake at first, and
//! a reader lets a writer that waits go first:
//!
//! ```text
//!   write    say so; try to lock, again and again; sleep if it takes long
//!   read     a writer waits: give it time, then try all the same
//!            try to lock, again and again; sleep if it takes long
//! ```
//!
//! 1. What is inside is written by one, and read by nobody meanwhile, as with any lock of this kind:
//!    the lock is the standard library's.
//! 2. Nobody is starved: a writer that sleeps comes before readers that come later, and a reader
//!    waits no longer than [`COURTESY`] tries for a writer that does not come.
//! 3. Who panicked with the lock is not asked.
//!
//! In a model check everybody tries once and then sleeps: there is no time in it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, TryLockError};

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How often one tries before it sleeps: some 40 microseconds, which is what it would take to be
/// woken.
const TRIES: u32 = if cfg!(thalweg_model) { 1 } else { 1_024 };
/// For how many tries a reader lets a writer go first: if the writer is not running, no longer.
const COURTESY: u32 = 64;

/// A lock whose writer goes first.
#[derive(Debug, Default)]
pub struct Gate<T> {
    /// Writers that wait.
    writers: AtomicU32,
    lock: RwLock<T>,
}

impl<T> Gate<T> {
    /// A lock around `inside`.
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

    /// What is inside, for the only one who has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is inside, when nobody has it any more.
    pub fn into_inner(self) -> T {
        self.lock
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is locked for reading when it is first asked, and then until this is dropped.
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
