//! Processor caches that have nothing of ours, at the beginning of each change.
//!
//! Between two changes packets are forwarded, and the more flows there are, the more of what a
//! change needs gives way to what they need. So a change takes longer among many entries even if
//! it does the same. With `--cold`, a piece of memory larger than any processor's caches is written
//! before each change: then a change finds nothing near by, in small caches and in large ones, and
//! what still differs between these is what it does.

/// Larger than the last cache of the processors that this runs on.
const SIZE_BYTES: usize = 96 << 20;

/// What a line has in words.
const LINE: usize = 8;

/// Memory that is written to have everything else leave the processor's caches.
pub(super) struct Cold {
    memory: Vec<u64>,
}

impl Cold {
    pub(super) fn new() -> Cold {
        Cold {
            memory: vec![0; SIZE_BYTES / 8],
        }
    }

    /// Writes it once.
    pub(super) fn chill(&mut self) {
        for line in self.memory.chunks_mut(LINE) {
            line[0] = std::hint::black_box(line[0]).wrapping_add(1);
        }
        std::hint::black_box(&mut self.memory);
    }
}
