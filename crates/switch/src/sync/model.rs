//! Replaces `system.rs` in a model check: uses shuttle, and its own clock and waits.
//!
//! 1. Time is counted, not measured: each read of the clock takes [`TICK`]. So an execution
//!    depends only on the order of steps, and can be repeated.
//! 2. A wait of at most [`SHORT`] ends at once; a longer one never ends by itself. So code
//!    that relies on the end of a long wait is found to hang.
//! 3. Descriptors are never ready: ports of a model have none.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::sync::Condvar;

use super::channel::SHORT;
pub(crate) use super::channel::{Receiver, RecvTimeoutError, Sender, bounded};
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicUsize, fence};
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A thread of the model.
pub(crate) struct JoinHandle<T> {
    thread: shuttle::thread::JoinHandle<T>,
    has_ended: Arc<std::sync::atomic::AtomicBool>,
}

/// Starts a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let has_ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let end = has_ended.clone();
    let thread = shuttle::thread::Builder::new().name(name).spawn(move || {
        let done = work();
        end.store(true, Ordering::SeqCst);
        done
    })?;
    Ok(JoinHandle { thread, has_ended })
}

impl<T> JoinHandle<T> {
    pub(crate) fn is_finished(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    pub(crate) fn join(self) -> std::thread::Result<T> {
        self.thread.join()
    }
}

/// A bell that wakes a sleeper.
#[derive(Debug)]
pub(crate) struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell {
            is_rung: Mutex::new(false),
            rung: Condvar::new(),
        })
    }

    pub(crate) fn ring(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rung.notify_all();
    }

    /// Waits for the bell (invariants 2 and 3).
    pub(crate) fn wait(&self, _: &[BorrowedFd<'_>], limit: Duration, _: &mut Vec<usize>) {
        if limit <= SHORT {
            shuttle::thread::yield_now();
            return;
        }
        let mut is_rung = self.is_rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_rung {
            is_rung = self
                .rung
                .wait(is_rung)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn hush(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// The clock of the model (invariant 1).
pub(crate) mod time {
    use std::cell::Cell;
    use std::time::Duration;

    /// Time that one read of the clock takes; a few reads pass the interval of port status
    /// checks.
    const TICK: Duration = Duration::from_millis(20);

    thread_local! {
        /// Reads of the clock: all threads of a model are one to the operating system.
        static LOOKS: Cell<u32> = const { Cell::new(0) };
    }

    /// A point in the model's time.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Instant(u32);

    impl Instant {
        pub(crate) fn now() -> Instant {
            LOOKS.set(LOOKS.get() + 1);
            Instant(LOOKS.get())
        }

        pub(crate) fn elapsed(self) -> Duration {
            TICK * (Instant::now().0 - self.0)
        }
    }
}
