//! Vector Bloom filters: which of many sub-tables a key may be in, told by one load.
//!
//! The filter is in `filter`, its counters for deletion in `counters`.

mod counters;
mod filter;

pub use filter::{FilterStatistics, Put, VectorFilter, VectorFilterConfig};
