//! The allocator for programs with large tables: mimalloc.
//!
//! It asks the system for pages of 2 MiB where they are available. So a lookup in a large
//! table seldom waits for the processor's page table as well. Each thread has its own lists.

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};

/// `mi_option_purge_delay` of mimalloc.h: how many milliseconds freed memory is kept.
const PURGE_DELAY: mi_option_t = 15;

/// The global allocator for a program that holds many rules or flows.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: thalweg_command::allocator::Allocator = thalweg_command::allocator::Allocator;
/// ```
pub use mimalloc::MiMalloc as Allocator;

/// Makes [`Allocator`] keep freed memory for one millisecond instead of one second.
///
/// This saves memory per rule in large rule sets, and lookups stay as fast.
pub fn keep_little_free_memory() {
    // SAFETY: takes no address. Called at the program's start, when there is no other thread.
    unsafe { mi_option_set(PURGE_DELAY, 1) };
}

/// Returns freed memory that [`Allocator`] keeps for later to the system.
///
/// Reading half a million rules frees more memory than the rules take, and the program will
/// not need it again. Memory that other threads freed stays with them. With another allocator
/// this does nothing.
pub fn release_free_memory() {
    // SAFETY: takes no address, and touches only memory that the program has freed.
    unsafe { mi_collect(true) };
}
