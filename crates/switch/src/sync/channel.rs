//! Bounded channels for a model check, with the part of crossbeam's interface that is used.
//!
//! Slow and plain: a queue under a lock, and one condition variable for all waiters.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use crossbeam_channel::RecvTimeoutError;
use crossbeam_channel::{RecvError, SendError, TryRecvError, TrySendError};

/// Waits of at most this length end at once, longer ones never.
pub(crate) const SHORT: Duration = Duration::from_millis(10);

struct Queue<T> {
    waiting: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

struct Channel<T> {
    capacity: usize,
    queue: Mutex<Queue<T>>,
    changed: Condvar,
}

/// A sending end.
pub(crate) struct Sender<T>(Arc<Channel<T>>);

/// The receiving end.
pub(crate) struct Receiver<T>(Arc<Channel<T>>);

/// Creates a channel with room for `capacity` messages.
pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Queue {
        waiting: VecDeque::new(),
        senders: 1,
        has_receiver: true,
    };
    let channel = Arc::new(Channel {
        capacity,
        queue: Mutex::new(queue),
        changed: Condvar::new(),
    });
    (Sender(channel.clone()), Receiver(channel))
}

impl<T> Channel<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue<T>>) -> MutexGuard<'a, Queue<T>> {
        self.changed
            .wait(queue)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    pub(crate) fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut queue = self.0.lock();
        while queue.has_receiver && queue.waiting.len() == self.0.capacity {
            queue = self.0.wait(queue);
        }
        if !queue.has_receiver {
            return Err(SendError(message));
        }
        queue.waiting.push_back(message);
        drop(queue);
        self.0.changed.notify_all();
        Ok(())
    }

    pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut queue = self.0.lock();
        match (queue.has_receiver, queue.waiting.len() < self.0.capacity) {
            (false, _) => return Err(TrySendError::Disconnected(message)),
            (true, false) => return Err(TrySendError::Full(message)),
            (true, true) => queue.waiting.push_back(message),
        }
        drop(queue);
        self.0.changed.notify_all();
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().waiting.len() == self.0.capacity
    }
}

impl<T> Receiver<T> {
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        let mut queue = self.0.lock();
        loop {
            if let Some(message) = queue.waiting.pop_front() {
                drop(queue);
                self.0.changed.notify_all();
                return Ok(message);
            }
            if queue.senders == 0 {
                return Err(RecvError);
            }
            queue = self.0.wait(queue);
        }
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut queue = self.0.lock();
        let Some(message) = queue.waiting.pop_front() else {
            return Err(match queue.senders {
                0 => TryRecvError::Disconnected,
                _ => TryRecvError::Empty,
            });
        };
        drop(queue);
        self.0.changed.notify_all();
        Ok(message)
    }

    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        if timeout > SHORT {
            return self.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        shuttle::thread::yield_now();
        self.try_recv().map_err(|error| match error {
            TryRecvError::Empty => RecvTimeoutError::Timeout,
            TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().waiting.is_empty()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.lock().senders += 1;
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.lock().has_receiver = false;
        self.0.changed.notify_all();
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender")
    }
}
