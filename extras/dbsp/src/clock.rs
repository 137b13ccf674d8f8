//! The clocks of the benchmark, and the process's memory.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Both clocks at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    processor_ns: i64,
    wall: Instant,
}

/// Elapsed times.
#[derive(Clone, Copy)]
pub(crate) struct Passed {
    /// Processor time of all threads of the process.
    pub(crate) processor_us: f64,
    /// Wall-clock time.
    pub(crate) wall_us: f64,
}

impl Moment {
    /// Reads both clocks.
    pub(crate) fn now() -> Moment {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Moment {
            processor_ns: time.tv_sec * 1_000_000_000 + time.tv_nsec,
            wall: Instant::now(),
        }
    }

    /// The times elapsed since this moment.
    pub(crate) fn passed(self) -> Passed {
        let now = Moment::now();
        Passed {
            processor_us: (now.processor_ns - self.processor_ns) as f64 / 1e3,
            wall_us: (now.wall - self.wall).as_nanos() as f64 / 1e3,
        }
    }
}

/// The process's resident memory in bytes; 0 if the system does not report it.
pub(crate) fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0.0) * rustix::param::page_size() as f64
}
