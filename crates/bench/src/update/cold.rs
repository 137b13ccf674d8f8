//! Empties the processor's caches before each change.
//!
//! Packets are forwarded between two changes. The more flows there are, the more of a change's
//! data these packets push out of the processor's caches. So a change takes longer among many
//! entries even if it does the same work. With `--cold`, a piece of memory larger than any
//! processor cache is written before each change. Then a change finds nothing in the caches,
//! for few and for many entries, and the remaining difference is its own work.

/// Larger than the last-level cache of the processors that this runs on.
const SIZE_BYTES: usize = 96 << 20;

/// Words in a cache line.
const LINE: usize = 8;

/// Memory whose writing pushes everything else out of the processor's caches.
pub(super) struct Cold {
    memory: Vec<u64>,
}

impl Cold {
    pub(super) fn new() -> Cold {
        Cold {
            memory: vec![0; SIZE_BYTES / 8],
        }
    }

    /// Writes the memory once.
    pub(super) fn chill(&mut self) {
        for line in self.memory.chunks_mut(LINE) {
            line[0] = std::hint::black_box(line[0]).wrapping_add(1);
        }
        std::hint::black_box(&mut self.memory);
    }
}
