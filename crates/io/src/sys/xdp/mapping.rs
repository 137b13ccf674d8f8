//! A part of memory that is mapped by one structure, for as long as it lives.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

/// Memory that starts at a page, is readable and writable, and is zero at first.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and to this structure alone.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps memory that only this process has.
    pub(super) fn anonymous(len_bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Mapping::new(len_bytes, flags, -1, 0)
    }

    /// Maps memory behind a descriptor, from `offset` on.
    pub(super) fn shared(
        descriptor: &OwnedFd,
        offset: libc::off_t,
        len_bytes: usize,
    ) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Mapping::new(len_bytes, flags, descriptor.as_raw_fd(), offset)
    }

    fn new(len_bytes: usize, flags: i32, descriptor: i32, offset: i64) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is requested, so no existing mapping is replaced.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                access,
                flags,
                descriptor,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len_bytes })
    }

    /// The address of `len_bytes` bytes from `offset` on, if they lie in the mapping.
    #[inline]
    pub(super) fn at(&self, offset: usize, len_bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len_bytes)?;
        // SAFETY: the offset is inside the mapping or at its end.
        (end <= self.len_bytes).then(|| unsafe { self.start.add(offset) })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; nothing that points to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
