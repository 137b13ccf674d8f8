//! Code for special processor instructions: the only unsafe code of this crate.
//!
//! [`prefetch`] requests a cache line early. It is safe with any index: the processor drops a
//! request for memory that it may not read, and the program itself reads and writes nothing.
//! `fields` compares the fields of a vector filter's block (`block` has the instructions),
//! `line` the slots of an index line, `lanes` a key with eight rules. `vector` puts these and
//! others behind one trait for each set of instructions, and `level` chooses the set.

#![allow(unsafe_code)]

mod block;
pub(crate) mod fields;
pub(crate) mod lanes;
mod level;
pub(crate) mod line;
mod vector;

pub use level::Level;
pub(crate) use level::Work;
pub(crate) use vector::{Plain, SHORT_WORDS, Simd, last_not_above};

/// Prefetches element `index` of a slice; past the end, this is useless but harmless.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    prefetch_at(slice.as_ptr().wrapping_add(index));
}

/// Prefetches elements that each are a cache line.
#[inline(always)]
pub(crate) fn prefetch_lines<T>(lines: &[T], first: usize, count: usize) {
    const { assert!(size_of::<T>() == 64) };
    // No loop for the sizes of groups whose rules have one, two or three words.
    match count {
        2 => prefetch_some::<T, 2>(lines, first),
        3 => prefetch_some::<T, 3>(lines, first),
        5 => prefetch_some::<T, 5>(lines, first),
        7 => prefetch_some::<T, 7>(lines, first),
        _ => (first..first + count).for_each(|line| prefetch(lines, line)),
    }
}

#[inline(always)]
fn prefetch_some<T, const COUNT: usize>(lines: &[T], first: usize) {
    for line in 0..COUNT {
        prefetch(lines, first + line);
    }
}

/// Prefetches all of a short list of words.
#[inline(always)]
pub(crate) fn prefetch_words(words: &[u64]) {
    const WORDS_PER_LINE: usize = 8;
    for line in 0..words.len().div_ceil(WORDS_PER_LINE) {
        prefetch(words, line * WORDS_PER_LINE);
    }
}

/// Prefetches the cache line of an address, which need not be valid.
#[inline(always)]
pub fn prefetch_at<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 accepts any address and never faults (Intel SDM volume 2, PREFETCHh).
    // It belongs to SSE, which every x86-64 processor has.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
