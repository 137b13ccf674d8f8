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

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn pages_between_blocks_in_use_are_given_back() {
        let resident_pages = || -> i64 {
            let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
            let pages = text
                .split_whitespace()
                .nth(1)
                .expect("two numbers at least");
            pages.parse().expect("a number")
        };
        let before = resident_pages();
        let mut blocks = vec![[1u8; 500].to_vec(); 50_000];
        let grown = resident_pages() - before;
        blocks.drain(..blocks.len() - 1);
        release_free_memory();
        assert!(resident_pages() - before < grown / 2);
    }
}
