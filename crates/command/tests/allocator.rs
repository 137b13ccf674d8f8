//! Tests that memory is given back. It is the only test of its process, since others would
//! disturb the measurement.

use thalweg_command::allocator::{Allocator, release_free_memory};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn resident_pages() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text
        .split_whitespace()
        .nth(1)
        .expect("two numbers at least");
    pages.parse().expect("a number")
}

#[test]
fn pages_beside_a_block_in_use_are_given_back() {
    let before = resident_pages();
    let mut blocks = vec![[1u8; 500].to_vec(); 50_000];
    let grown = resident_pages() - before;
    blocks.drain(..blocks.len() - 1);
    release_free_memory();
    assert!(resident_pages() - before < grown / 2);
}
