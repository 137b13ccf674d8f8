//! What the commands of the program share: console and exit status, files in and out, tables and
//! pictures.
//!
//! It is a part of the program, apart from it so that the benchmarks can be too. Nothing here
//! forwards packets; no library uses it.

#[allow(unsafe_code)]
pub mod allocator;
pub mod console;
pub mod failure;
pub mod files;
pub mod follow;
pub mod input;
pub mod interrupt;
pub mod lookups;
pub mod memory;
pub mod number;
pub mod output;
pub mod p4_entries;
pub mod ports;
pub mod report;
pub mod seed;
pub mod workload;
