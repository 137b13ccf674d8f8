//! The memory that frames of one interface's sockets lie in: chunks of one size, pinned.
//!
//! The kernel writes a frame behind a headroom of its own, so a chunk holds a shorter frame than
//! its length says.

use std::io;

use super::mapping::Mapping;

/// The usual size of a chunk.
pub(crate) const SMALL_CHUNK_BYTES: u32 = 2048;
/// The largest chunk, for longer frames: a page.
pub(crate) const LARGE_CHUNK_BYTES: u32 = 4096;

/// `XDP_PACKET_HEADROOM`: what the kernel keeps in front of a frame that arrives.
const KERNEL_HEADROOM_BYTES: u32 = 256;

/// The longest frame that arrives in a chunk of this size.
pub(crate) const fn longest_frame(chunk_bytes: u32) -> usize {
    (chunk_bytes - KERNEL_HEADROOM_BYTES) as usize
}

/// The memory, registered with the kernel by the first socket.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Mapping,
    chunk_bytes: u32,
}

impl Umem {
    pub(super) fn new(chunks: u32, chunk_bytes: u32) -> io::Result<Umem> {
        assert!(chunk_bytes.is_power_of_two());
        let memory = Mapping::anonymous(chunks as usize * chunk_bytes as usize)?;
        Ok(Umem {
            memory,
            chunk_bytes,
        })
    }

    /// What the kernel must be told.
    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        // SAFETY: zeros are a value of this structure (1).
        let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        registration.addr = self.memory.start().as_ptr().addr() as u64;
        registration.len = self.memory.len_bytes() as u64;
        registration.chunk_size = self.chunk_bytes;
        registration
    }

    /// The place of a chunk.
    pub(super) fn place(&self, chunk: u32) -> u64 {
        u64::from(chunk) * u64::from(self.chunk_bytes)
    }

    /// The place of the chunk around an address; none outside the memory.
    #[inline]
    pub(super) fn chunk_place(&self, address: u64) -> Option<u64> {
        let is_inside = address < self.memory.len_bytes() as u64;
        is_inside.then_some(address & !u64::from(self.chunk_bytes - 1))
    }

    /// The bytes of a frame, if it lies in one chunk.
    ///
    /// # Safety
    /// - The chunk is this process's, and stays so while the slice lives.
    /// - Nothing writes to it meanwhile.
    #[inline]
    pub(super) unsafe fn frame(&self, address: u64, len_bytes: u32) -> Option<&[u8]> {
        let place = self.chunk_place(address)?;
        let offset = u32::try_from(address - place).ok()?;
        if offset.checked_add(len_bytes)? > self.chunk_bytes {
            return None;
        }
        let start = self.memory.at(address as usize, len_bytes as usize)?;
        // SAFETY: the bytes lie in the mapping and are initialised (it began as zeros). By this
        // function's contract nothing writes to them while the slice lives.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), len_bytes as usize) })
    }

    /// Writes a frame to the start of a chunk, which is this process's; false if it is too long.
    ///
    /// # Safety
    /// - The chunk is this process's, and no slice of it lives.
    #[inline]
    pub(super) unsafe fn write(&self, place: u64, bytes: &[u8]) -> bool {
        if bytes.len() > self.chunk_bytes as usize {
            return false;
        }
        let Some(start) = self.memory.at(place as usize, bytes.len()) else {
            return false;
        };
        // SAFETY: the target lies in the mapping, in one chunk that nothing else uses now, by this
        // function's contract. `bytes` is not in the mapping, of which no slice of the chunk lives.
        unsafe {
            start
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lie_in_one_chunk_or_are_refused() {
        let umem = Umem::new(3, 2048).unwrap();
        let bytes: Vec<u8> = (0..2048).map(|n| n as u8).collect();
        // SAFETY: nothing else has the memory, and each slice ends before the next write.
        unsafe {
            assert!(umem.write(umem.place(2), &bytes));
            assert_eq!(umem.frame(2 * 2048, 2048).unwrap(), bytes);
            assert_eq!(umem.frame(2 * 2048 + 256, 3).unwrap(), [0, 1, 2]);
            for (address, len) in [
                (2 * 2048 + 1, 2048),
                (2047, 2),
                (3 * 2048, 0),
                (u64::MAX, 1),
                (0, u32::MAX),
            ] {
                assert!(umem.frame(address, len).is_none(), "{address} {len}");
            }
            assert!(!umem.write(0, &[0; 2049]));
            assert!(!umem.write(3 * 2048, &[0; 1]));
        }
        assert_eq!(umem.chunk_place(2 * 2048 + 300), Some(2 * 2048));
        assert_eq!(umem.chunk_place(3 * 2048), None);
        assert_eq!((longest_frame(2048), longest_frame(4096)), (1792, 3840));
    }
}
