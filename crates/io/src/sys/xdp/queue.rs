//! The two directions of a socket, over its rings and the shared memory.
//!
//! Sending has two forms. Without copies the driver reads the tx ring when it likes, so a frame
//! counts as sent once it is there. With copies the kernel reads the ring only in calls of this
//! process, so what became of each frame is known:
//!
//! ```text
//!   answer       meaning (xsk_generic_xmit)                     then
//!   0            the ring is empty                              done
//!   EAGAIN       32 frames are done, or no room for the next    again, if it went on
//!   EBUSY        the interface refused the last frame looked at that one is dropped; again
//!   ENETDOWN     the kernel did not look                        what is new is taken back
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::xdp_desc;

use super::ring::{Consumer, Producer};
use super::umem::Umem;

/// A frame that does not lie in the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadFrame;

/// What became of a frame that was to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flushed {
    /// The kernel or its driver has it.
    Sent,
    /// The interface refused it.
    Refused,
    /// The interface is down or gone.
    Down,
}

/// The receiving side of a queue.
#[derive(Debug)]
pub(super) struct ReceiveQueue {
    pub(super) fill: Producer<u64>,
    pub(super) arrived: Consumer<xdp_desc>,
}

impl ReceiveQueue {
    /// Hands up to `most` frames to `take`, in order, until it returns false: that one stays.
    pub(super) fn receive(
        &mut self,
        umem: &Umem,
        most: usize,
        take: &mut impl FnMut(Result<&[u8], BadFrame>) -> bool,
    ) -> usize {
        let available = (self.arrived.available() as usize).min(most);
        let mut taken = 0;
        while taken < available {
            let arrived = self.arrived.peek();
            // SAFETY: the chunk is this process's until it is in the fill ring again (invariant 1
            // of this folder), which is after the slice ends. Nothing here writes to it.
            let frame = unsafe { umem.frame(arrived.addr, arrived.len) };
            if !take(frame.ok_or(BadFrame)) {
                break;
            }
            self.arrived.pop();
            if let Some(place) = umem.chunk_place(arrived.addr) {
                let has_room = self.fill.push(place);
                debug_assert!(has_room, "invariant 1");
            }
            taken += 1;
        }
        self.arrived.release();
        self.fill.show();
        taken
    }
}

/// The sending side of a queue.
#[derive(Debug)]
pub(super) struct SendQueue {
    outgoing: Producer<xdp_desc>,
    completed: Consumer<u64>,
    /// Chunks that can be written to.
    free: Vec<u64>,
    /// The places of all chunks that this side has.
    chunks: std::ops::Range<u64>,
    is_zero_copy: bool,
    /// Frames before this counter are accounted for.
    accounted: u32,
    /// The kernel may have looked at the tx ring up to here.
    seen: u32,
}

impl SendQueue {
    /// Makes the sending side of a socket that has these rings, for chunks at `places`.
    pub(super) fn new(
        outgoing: Producer<xdp_desc>,
        completed: Consumer<u64>,
        places: impl Iterator<Item = u64>,
        is_zero_copy: bool,
    ) -> SendQueue {
        let free: Vec<u64> = places.collect();
        let least = free.iter().min().copied().unwrap_or(0);
        let most = free.iter().max().map_or(0, |most| most + 1);
        let start = outgoing.pushed();
        SendQueue {
            outgoing,
            completed,
            free,
            chunks: least..most,
            is_zero_copy,
            accounted: start,
            seen: start,
        }
    }

    /// Takes back the chunks of frames that have left.
    pub(super) fn reap(&mut self, umem: &Umem) {
        for _ in 0..self.completed.available() {
            let place = umem.chunk_place(self.completed.peek());
            self.completed.pop();
            // Invariant 3 of the folder.
            let place = place.filter(|place| self.chunks.contains(place));
            self.free.extend(place);
        }
        self.completed.release();
    }

    /// Puts a frame into the tx ring; false if there is no room.
    pub(super) fn post(&mut self, umem: &Umem, bytes: &[u8]) -> bool {
        let Some(place) = self.free.pop() else {
            return false;
        };
        // SAFETY: a free chunk is this process's (invariant 2 of the folder), and slices are made
        // of chunks for receiving only.
        let is_written = unsafe { umem.write(place, bytes) };
        let described = xdp_desc {
            addr: place,
            len: bytes.len() as u32,
            options: 0,
        };
        if !is_written || !self.outgoing.push(described) {
            self.free.push(place);
            return false;
        }
        true
    }

    /// Has the kernel send what was posted, and says of each frame what became of it.
    pub(super) fn flush(
        &mut self,
        socket: BorrowedFd<'_>,
        account: &mut impl FnMut(Flushed, usize),
    ) {
        self.outgoing.show();
        if self.is_zero_copy {
            self.account_up_to(self.outgoing.pushed(), Flushed::Sent, account);
            if self.outgoing.needs_wakeup() {
                // What stays in the ring leaves after the next call.
                let _ = wake_sender(socket);
            }
            return;
        }
        // Each round accounts for one frame at least, or is the last.
        let waiting = self.outgoing.pushed().wrapping_sub(self.accounted);
        for _ in 0..waiting {
            if self.accounted == self.outgoing.pushed() {
                return;
            }
            let answer = wake_sender(socket);
            if !self.goes_on(answer, account) {
                return;
            }
        }
    }

    /// Follows one answer of the kernel; true if another call may send more.
    fn goes_on(
        &mut self,
        answer: io::Result<()>,
        account: &mut impl FnMut(Flushed, usize),
    ) -> bool {
        let number = answer.err().and_then(|error| error.raw_os_error());
        if let Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) = number {
            self.take_back(account);
            return false;
        }
        self.seen = self.outgoing.pushed();
        let consumed = self.outgoing.consumed();
        let went_on = consumed.wrapping_sub(self.accounted) as i32 > 0;
        match number {
            Some(libc::EBUSY) => {
                if went_on {
                    self.account_up_to(consumed.wrapping_sub(1), Flushed::Sent, account);
                }
                self.account_up_to(self.accounted.wrapping_add(1), Flushed::Refused, account);
                true
            }
            _ => {
                if went_on {
                    self.account_up_to(consumed, Flushed::Sent, account);
                }
                number == Some(libc::EAGAIN) && went_on || number == Some(libc::EINTR)
            }
        }
    }

    /// Accounts for frames that left in other calls, such as `poll`, before their slots are reused.
    pub(super) fn account_for_others(&mut self, account: &mut impl FnMut(Flushed, usize)) {
        let consumed = self.outgoing.consumed();
        if consumed.wrapping_sub(self.accounted) as i32 > 0 {
            self.account_up_to(consumed, Flushed::Sent, account);
        }
    }

    /// Takes back the frames that the kernel has not looked at.
    fn take_back(&mut self, account: &mut impl FnMut(Flushed, usize)) {
        let pushed = self.outgoing.pushed();
        let count = pushed.wrapping_sub(self.seen);
        for counter in (0..count).map(|index| self.seen.wrapping_add(index)) {
            let taken = self.outgoing.element(counter);
            self.free.push(taken.addr);
            account(Flushed::Down, taken.len as usize);
        }
        self.outgoing.take_back(count);
    }

    fn account_up_to(
        &mut self,
        counter: u32,
        flushed: Flushed,
        account: &mut impl FnMut(Flushed, usize),
    ) {
        while self.accounted != counter {
            let element = self.outgoing.element(self.accounted);
            account(flushed, element.len as usize);
            self.accounted = self.accounted.wrapping_add(1);
        }
    }
}

/// Has the kernel read the tx ring.
fn wake_sender(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (nothing, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
    // SAFETY: the call has no bytes to read and no address.
    let result =
        unsafe { libc::sendto(socket.as_raw_fd(), nothing, 0, flags, std::ptr::null(), 0) };
    super::super::check(result as i32)
}

/// Has the kernel read the fill ring, and the driver look for frames if it is polled.
pub(super) fn wake_receiver(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the call has no room to write to, and asks for no address.
    let result = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), 0, flags) };
    super::super::check(result as i32)
}
