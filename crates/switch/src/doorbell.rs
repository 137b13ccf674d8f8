//! How a worker sleeps, and how other threads wake it.
//!
//! A sleeping worker waits in `poll` for its ports and for an event descriptor. Ringing is a
//! system call, so a thread that leaves something for a worker rings only if the worker is
//! asleep:
//!
//! ```text
//!   worker: say "asleep"; fence; look once more; poll; say "awake"
//!   others: leave something; fence; if "asleep" { say "awake"; ring }
//! ```
//!
//! 1. Either the worker sees the work when it looks once more, or the other thread sees that the
//!    worker is asleep: both fences are in one order, so no wake-up is lost.
//! 2. Descriptors are level-triggered: a port that still has packets ends the next sleep at
//!    once.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::{AtomicBool, Bell, fence};

/// One worker's doorbell.
#[derive(Debug)]
pub(crate) struct Doorbell {
    bell: Bell,
    is_asleep: AtomicBool,
}

impl Doorbell {
    /// Creates the doorbell of a worker that is awake.
    pub(crate) fn new() -> io::Result<Doorbell> {
        Ok(Doorbell {
            bell: Bell::new()?,
            is_asleep: AtomicBool::new(false),
        })
    }

    /// Wakes the worker if it is asleep; must be called after leaving something.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Sleeps until a descriptor is ready, the bell rings, or `limit` is over.
    ///
    /// Checks `has_work` once more before sleeping. Puts the indexes of ready descriptors into
    /// `ready`.
    pub(crate) fn sleep(
        &self,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
        has_work: impl FnOnce() -> bool,
        ready: &mut Vec<usize>,
    ) {
        ready.clear();
        self.is_asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() {
            self.bell.wait(descriptors, limit, ready);
        }
        self.is_asleep.store(false, Ordering::SeqCst);
        self.bell.hush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_ends_the_sleep_that_it_meets_and_no_other() {
        let bell = Doorbell::new().unwrap();
        let mut ready = Vec::new();
        bell.ring();
        let forever = Duration::from_secs(3_600);
        bell.sleep(&[], forever, || true, &mut ready);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| bell.sleep(&[], forever, || false, &mut Vec::new()));
            while !sleeper.is_finished() {
                bell.ring();
                std::thread::yield_now();
            }
        });
        bell.sleep(&[], Duration::ZERO, || false, &mut ready);
        assert!(ready.is_empty());
    }
}
