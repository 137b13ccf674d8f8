//! The clocks of the benchmark, and how much memory the process has.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Both clocks at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    processor_ns: i64,
    wall: Instant,
}

/// What has passed.
#[derive(Clone, Copy)]
pub(crate) struct Passed {
    /// Processor time of all threads of the process.
    pub(crate) processor_us: f64,
    /// Time on the wall.
    pub(crate) wall_us: f64,
}

impl Moment {
    /// Now.
    pub(crate) fn now() -> Moment {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Moment {
            processor_ns: time.tv_sec * 1_000_000_000 + time.tv_nsec,
            wall: Instant::now(),
        }
    }

    /// What has passed since.
    pub(crate) fn passed(self) -> Passed {
        let now = Moment::now();
        Passed {
            processor_us: (now.processor_ns - self.processor_ns) as f64 / 1e3,
            wall_us: (now.wall - self.wall).as_nanos() as f64 / 1e3,
        }
    }
}

/// Bytes of the process that are in memory; 0 where the system does not say.
pub(crate) fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0.0) * rustix::param::page_size() as f64
}
