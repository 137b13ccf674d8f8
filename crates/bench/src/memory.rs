//! The memory of processes, as the system counts it.

use std::fs;

/// Bytes of memory that this process uses now; `None` where the system does not say.
pub(crate) fn resident_bytes() -> Option<u64> {
    resident_bytes_of("self")
}

/// Bytes of memory that a process uses now, by its number.
pub(crate) fn resident_bytes_of(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
