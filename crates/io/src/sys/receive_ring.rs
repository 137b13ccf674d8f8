//! The `TPACKET_V3` receive ring: memory shared with the kernel, a block at a time.
//!
//! The ring is an array of blocks. The kernel fills one after another with frames. It hands a
//! block over when the next frame does not fit, or when a timer ends that started with the
//! block. One word of the block, its status, says who owns it:
//!
//! ```text
//!   kernel: fill block; status := user     (release)      us: status = user?  (acquire)
//!           wait for status = kernel                          read block
//!                                                             status := kernel   (release)
//! ```
//!
//! This file knows where blocks are, how long they are and who owns them. Their content is
//! read elsewhere, from a plain slice.
//!
//! The folder's invariant 4 means here: a block belongs to this process from the moment its
//! status says so until [`ReceiveRing::release`]. In between the kernel does not write to it,
//! and this process only reads.
//!
//! Reference: the kernel's `Documentation/networking/packet_mmap.rst`, and
//! `net/packet/af_packet.c` for the missing details.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{LONGEST_FRAME_BYTES, PacketSocket};

/// Has room for the longest frame; smaller blocks would not save memory in the kernel's
/// allocator.
const BLOCK_BYTES: usize = 128 << 10;
/// Makes the ring as large as the queue of a socket without one.
const BLOCK_COUNT: usize = 64;
const RING_BYTES: usize = BLOCK_COUNT * BLOCK_BYTES;

/// The longest time that a frame waits for its block to fill: the kernel's minimum.
const TIMER_MS: u32 = 1;

/// Frames of version 3 have no fixed size; this size only has to divide the block.
const FRAME_BYTES: usize = 2048;

const STATUS: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);

// Room for the frame and for the headers before it, which are less than 256 bytes.
const _: () = assert!(BLOCK_BYTES >= LONGEST_FRAME_BYTES + 256);
const _: () = assert!(BLOCK_BYTES.is_multiple_of(FRAME_BYTES) && STATUS.is_multiple_of(4));

/// A receive ring of a packet socket, mapped into this process.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    /// The first byte of `RING_BYTES` that stay mapped until this is dropped.
    start: NonNull<u8>,
    /// The index of the current block, less than `BLOCK_COUNT`.
    current: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and to this structure alone.
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    /// Gives the socket, which must not listen yet, a ring to receive into.
    pub(crate) fn new(socket: &PacketSocket) -> io::Result<ReceiveRing> {
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        socket.set_packet_option(libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCK_COUNT as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (RING_BYTES / FRAME_BYTES) as u32,
            tp_retire_blk_tov: TIMER_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set_packet_option(libc::PACKET_RX_RING, &request)?;
        // SAFETY: no address is requested, so no existing mapping is replaced. The ring was
        // just made with this size; the kernel refuses any other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                RING_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.descriptor().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(ReceiveRing { start, current: 0 })
    }

    /// The current block, if the kernel has handed it over.
    #[inline]
    pub(crate) fn block(&self) -> Option<&[u8]> {
        // This read makes all kernel writes before the status change visible.
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block lies in the mapping, as `current < BLOCK_COUNT`; its bytes are
        // initialised (the kernel zeroes the ring). Nothing writes to it while the slice
        // lives: not the kernel (invariant 4), and `release` borrows this structure mutably.
        Some(unsafe { std::slice::from_raw_parts(self.current_block(), BLOCK_BYTES) })
    }

    /// Gives the current block back to the kernel and moves to the next one.
    ///
    /// # Panics
    /// If the kernel has not handed it over.
    #[inline]
    pub(crate) fn release(&mut self) {
        assert!(
            self.block().is_some(),
            "only what was handed over goes back"
        );
        // All reads of the block happen before the kernel sees this store.
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.current = (self.current + 1) % BLOCK_COUNT;
    }

    fn current_block(&self) -> *mut u8 {
        debug_assert!(self.current < BLOCK_COUNT);
        // SAFETY: the offset is inside the mapping, as `current < BLOCK_COUNT`.
        unsafe { self.start.as_ptr().add(self.current * BLOCK_BYTES) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, which lives as long as `self`, and is aligned:
        // mappings begin with a page, blocks are whole pages, `STATUS` is a multiple of 4. The
        // kernel changes it as a whole, and we as an atomic.
        unsafe { AtomicU32::from_ptr(self.current_block().add(STATUS).cast()) }
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; no slice of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), RING_BYTES) };
    }
}
