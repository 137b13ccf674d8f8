//! One ring in shared memory, with one end that writes and one that reads.
//!
//! ```text
//!   counters run on without end; slot = counter % slots
//!
//!        consumer             producer
//!   ─────────┬───────────────────┬─────────
//!            │ written, not read │ free, up to `slots` in all
//!
//!   writer: slots, then producer := ..  (release)    reader: producer (acquire), then slots
//!   reader: slots, then consumer := ..  (release)    writer: consumer (acquire), then slots
//! ```
//!
//! 1. Each end changes its own counter alone, and keeps a copy: what the other side writes over it
//!    is never read.
//! 2. The other end's counter is bounded before use: more than `slots` counts as `slots`.
//! 3. The number of slots is a power of two, so a counter may run over.

use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;

/// A mapped ring with elements of `T`, which must be plain data (invariant 1 of the folder).
#[derive(Debug)]
struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    slots: u32,
    element: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn map(
        descriptor: &OwnedFd,
        page_offset: libc::off_t,
        offsets: libc::xdp_ring_offset,
        slots: u32,
    ) -> io::Result<Ring<T>> {
        assert!(slots.is_power_of_two(), "invariant 3");
        let len_bytes = offsets.desc as usize + slots as usize * size_of::<T>();
        let mapping = Mapping::shared(descriptor, page_offset, len_bytes)?;
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        let are_words = words
            .iter()
            .all(|at| at % 4 == 0 && mapping.at(*at as usize, 4).is_some());
        if !are_words || !(offsets.desc as usize).is_multiple_of(align_of::<T>()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Ring {
            mapping,
            offsets,
            slots,
            element: PhantomData,
        })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word lies in the mapping and is aligned. The mapping
        // lives as long as `self`. Both sides change the word as a whole.
        unsafe { AtomicU32::from_ptr(self.mapping.start().add(offset as usize).as_ptr().cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    fn slot(&self, counter: u32) -> NonNull<T> {
        let index = (counter & (self.slots - 1)) as usize;
        let offset = self.offsets.desc as usize + index * size_of::<T>();
        // SAFETY: the mapping has room for `slots` elements from `desc` on, and `index` is less.
        unsafe { self.mapping.start().add(offset).cast() }
    }

    fn needs_wakeup(&self) -> bool {
        let flags = self.word(self.offsets.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The end of a ring that writes.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// The counter, with elements that were pushed and not yet shown to the reader.
    pushed: u32,
    shown: u32,
}

impl<T: Copy> Producer<T> {
    /// Maps this end of a ring that has just been made.
    pub(super) fn map(
        descriptor: &OwnedFd,
        page_offset: libc::off_t,
        offsets: libc::xdp_ring_offset,
        slots: u32,
    ) -> io::Result<Producer<T>> {
        let ring = Ring::map(descriptor, page_offset, offsets, slots)?;
        let shown = ring.producer().load(Ordering::Relaxed);
        Ok(Producer {
            ring,
            pushed: shown,
            shown,
        })
    }

    /// Writes an element that the reader does not see yet; false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, element: T) -> bool {
        if self.pushed.wrapping_sub(self.consumed()) >= self.ring.slots {
            return false;
        }
        // SAFETY: the slot is in the mapping and aligned. The reader is past it and does not look
        // at it before the counter says so.
        unsafe { self.ring.slot(self.pushed).write(element) };
        self.pushed = self.pushed.wrapping_add(1);
        true
    }

    /// Shows the reader all that was pushed.
    #[inline]
    pub(super) fn show(&mut self) {
        if self.shown != self.pushed {
            self.shown = self.pushed;
            self.ring.producer().store(self.pushed, Ordering::Release);
        }
    }

    /// Takes back the last `count` elements. The reader must not have looked at the counter since
    /// they were shown.
    pub(super) fn take_back(&mut self, count: u32) {
        debug_assert!(count <= self.ring.slots);
        self.pushed = self.pushed.wrapping_sub(count);
        self.show();
    }

    /// The counter of the next element.
    pub(super) fn pushed(&self) -> u32 {
        self.pushed
    }

    /// How far the reader is.
    #[inline]
    pub(super) fn consumed(&self) -> u32 {
        let consumed = self.ring.consumer().load(Ordering::Acquire);
        // Invariant 2.
        let waiting = self.pushed.wrapping_sub(consumed).min(self.ring.slots);
        self.pushed.wrapping_sub(waiting)
    }

    /// The element at a counter, which was pushed and has not been written over since.
    pub(super) fn element(&self, counter: u32) -> T {
        debug_assert!(self.pushed.wrapping_sub(counter).wrapping_sub(1) < self.ring.slots);
        // SAFETY: the slot is in the mapping, aligned, and was written by this end.
        unsafe { self.ring.slot(counter).read() }
    }

    /// Whether the kernel must be called to read on.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The end of a ring that reads.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    popped: u32,
    released: u32,
}

impl<T: Copy> Consumer<T> {
    /// Maps this end of a ring that has just been made.
    pub(super) fn map(
        descriptor: &OwnedFd,
        page_offset: libc::off_t,
        offsets: libc::xdp_ring_offset,
        slots: u32,
    ) -> io::Result<Consumer<T>> {
        let ring = Ring::map(descriptor, page_offset, offsets, slots)?;
        let released = ring.consumer().load(Ordering::Relaxed);
        Ok(Consumer {
            ring,
            popped: released,
            released,
        })
    }

    /// The number of elements that can be popped.
    #[inline]
    pub(super) fn available(&self) -> u32 {
        let produced = self.ring.producer().load(Ordering::Acquire);
        // Invariant 2. Elements that were popped keep their slots until they are released.
        let written = produced.wrapping_sub(self.released).min(self.ring.slots);
        written.saturating_sub(self.popped.wrapping_sub(self.released))
    }

    /// The next element, which must be available; its slot is kept.
    #[inline]
    pub(super) fn peek(&self) -> T {
        // SAFETY: the slot is in the mapping and aligned. The writer has written it, as the
        // counter says, and leaves it alone until it is released.
        unsafe { self.ring.slot(self.popped).read() }
    }

    /// Passes the element that [`Consumer::peek`] gave.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.popped = self.popped.wrapping_add(1);
    }

    /// Gives the slots of all popped elements back to the writer.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.released != self.popped {
            self.released = self.popped;
            self.ring.consumer().store(self.popped, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
