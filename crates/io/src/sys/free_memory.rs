//! Memory that was freed and that the allocator keeps: `malloc_trim(3)`.

/// Gives memory that was freed, and that the allocator keeps for later, back to the system.
///
/// glibc keeps what was freed below the last block in use. Who has read half a million rules has
/// freed more than the rules take, and will not need it again. It takes 30 to 60 milliseconds then,
/// and next to nothing where nothing is to be given back. Other threads go on meanwhile, unless
/// they need memory from where this thread got its own.
///
/// Other allocators are left alone: nothing is done where the C library is not glibc.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no address, and touches only memory that the program has freed.
    unsafe {
        libc::malloc_trim(0);
    }
}
