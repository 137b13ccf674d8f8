//! The `TPACKET_V3` receive ring: memory shared with the kernel, a block at a time.
//!
//! The ring is an array of blocks. The kernel fills one after the other with frames, and hands a
//! block over when the next frame does not fit, or a timer after it was opened. Whose turn it is
//! says one word of the block, its status:
//!
//! ```text
//!   kernel: fill block; status := user     (release)      us: status = user?  (acquire)
//!           wait for status = kernel                          read block
//!                                                             status := kernel   (release)
//! ```
//!
//! This file knows where blocks are, how long, and whose; what is in them is read elsewhere, from
//! a plain slice.
//!
//! What the folder's invariant 4 comes to here: a block belongs to this process from the moment
//! its status says so until [`ReceiveRing::release`]. In between the kernel does not write to it,
//! and we only read.
//!
//! Reference: the kernel's `Documentation/networking/packet_mmap.rst`, and `net/packet/af_packet.c`
//! for what it leaves out.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{LONGEST_FRAME_BYTES, PacketSocket};

/// A block has room for the longest frame, and is what the kernel's allocator gives anyway.
const BLOCK_BYTES: usize = 128 << 10;
/// With these many, the ring is as large as the queue of a socket without one.
const BLOCK_COUNT: usize = 64;
const RING_BYTES: usize = BLOCK_COUNT * BLOCK_BYTES;

/// How long a frame may wait for its block to fill: the least that the kernel takes.
const TIMER_MS: u32 = 1;

/// Frames of version 3 have no fixed size; this one only has to divide the block.
const FRAME_BYTES: usize = 2048;

const STATUS: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);

// Room for the frame and for the headers in front of it, which are less than 256 bytes.
const _: () = assert!(BLOCK_BYTES >= LONGEST_FRAME_BYTES + 256);
const _: () = assert!(BLOCK_BYTES.is_multiple_of(FRAME_BYTES) && STATUS.is_multiple_of(4));

/// A receive ring of a packet socket, mapped into this process.
#[derive(Debug)]
pub(crate) struct ReceiveRing {
    /// The first byte of `RING_BYTES` that stay mapped until this is dropped.
    start: NonNull<u8>,
    /// The block whose turn it is, less than `BLOCK_COUNT`.
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
        // SAFETY: no address is asked for, so nothing that is mapped is replaced. The ring was
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

    /// The block whose turn it is, if the kernel has handed it over.
    #[inline]
    pub(crate) fn block(&self) -> Option<&[u8]> {
        // With this read, what the kernel wrote before it changed the status is seen.
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block lies in the mapping, as `current < BLOCK_COUNT`; its bytes are
        // initialised (the kernel zeroes the ring). Nobody writes to it while the slice lives:
        // the kernel by invariant 4, and `release` borrows this structure mutably.
        Some(unsafe { std::slice::from_raw_parts(self.current_block(), BLOCK_BYTES) })
    }

    /// Gives the block back to the kernel; it is the next one's turn.
    ///
    /// # Panics
    /// If the kernel has not handed it over.
    #[inline]
    pub(crate) fn release(&mut self) {
        assert!(
            self.block().is_some(),
            "only what was handed over goes back"
        );
        // What we have read of the block was read before the kernel sees this.
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
