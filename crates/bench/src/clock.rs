//! The benchmarks' clock: processor time of the calling thread.

/// Nanoseconds that the processor has spent on this thread.
pub(crate) fn processor_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
