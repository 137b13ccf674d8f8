//! A controller of P4 switches: it keeps a cache of behaviours that is in a program (B-Cache).
//!
//! ```text
//!   P4Info --with_cache--> P4Info of the program with a cache in front
//!   Keeping: digests in, entries of the cache table out; each change of entries has the barrier
//!   CacheTable: what the keeper wants done, as P4Runtime's updates
//! ```
//!
//! [`thalweg_control::Client`] is the connection, `thalweg p4 keep` the program around it.

mod cache_table;
mod keeping;
mod p4info;

pub use cache_table::{CacheTable, report_numbers};
pub use keeping::{KeepError, Keeping};
pub use p4info::with_cache;
