//! The memory and the time of processes, as the system counts them.

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

/// Nanoseconds that the processors have spent on the threads of a process, except one;
/// `None` where the system does not say.
pub(crate) fn processor_ns_of(process: &str, except: Option<&str>) -> Option<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let thread = thread.ok()?;
        if except.is_some_and(|except| thread.file_name() == except) {
            continue;
        }
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        sum += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(sum)
}

/// Nanoseconds that the processors have spent on a process, its ended threads included, to the
/// tick of the system's clock; `None` where the system does not say.
pub(crate) fn all_processor_ns_of(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name, in parentheses, may have spaces; proc_pid_stat(5) counts from 1.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}
