//! Threads, locks, channels and bells of a real switch.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

pub(crate) use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
pub(crate) use std::sync::{Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::thread::JoinHandle;
pub(crate) use std::time;

/// Starts a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name).spawn(work)
}

/// A bell that wakes a sleeper, along with its ports: an event descriptor.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Bell(eventfd(0, flags)?))
    }

    pub(crate) fn ring(&self) {
        // It only fails after 2^64 rings without a read.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for the bell, a descriptor or the limit; puts the indexes of ready descriptors
    /// into `ready`.
    pub(crate) fn wait(
        &self,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
        ready: &mut Vec<usize>,
    ) {
        let with_bell = std::iter::once(PollFd::new(&self.0, PollFlags::IN));
        let ports = descriptors
            .iter()
            .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = with_bell.chain(ports).collect();
        let limit = Timespec::try_from(limit).ok();
        // An interrupted sleep counts as a short one.
        let _ = poll(&mut polled, limit.as_ref());
        let had_something = polled[1..].iter().enumerate();
        ready.extend(
            had_something
                .filter(|(_, port)| !port.revents().is_empty())
                .map(|(index, _)| index),
        );
    }

    /// Resets the bell.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}
