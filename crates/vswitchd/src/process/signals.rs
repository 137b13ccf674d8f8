//! The signals that end the daemon: TERM, INT, HUP and ALRM.
//!
//! The first wakes the main loop, which ends; a second ends the process at once. A signal that
//! the starter of the process had ignored, as nohup does with HUP, stays ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSEGV,
    SIGSYS, SIGTERM, SIGTRAP, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use thalweg_unixctl::LoopWaker;

const ENDING: [i32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGALRM];

/// What `strsignal(3)` says of signals that end processes.
const NAMES: [(i32, &str); 16] = [
    (SIGHUP, "Hangup"),
    (SIGINT, "Interrupt"),
    (SIGQUIT, "Quit"),
    (SIGILL, "Illegal instruction"),
    (SIGTRAP, "Trace/breakpoint trap"),
    (SIGABRT, "Aborted"),
    (SIGBUS, "Bus error"),
    (SIGFPE, "Floating point exception"),
    (SIGKILL, "Killed"),
    (SIGSEGV, "Segmentation fault"),
    (SIGPIPE, "Broken pipe"),
    (SIGALRM, "Alarm clock"),
    (SIGTERM, "Terminated"),
    (SIGXCPU, "CPU time limit exceeded"),
    (SIGXFSZ, "File size limit exceeded"),
    (SIGSYS, "Bad system call"),
];

/// A signal's name, as messages have it.
pub(super) fn signal_text(signal: i32) -> String {
    let mut names = NAMES.iter();
    match names.find(|(number, _)| *number == signal) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("signal {signal}"),
    }
}

/// The ending signal that came, if one did.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<AtomicI32>);

impl Ending {
    /// Catches signals from now on, on a thread that calls `waker`.
    pub(super) fn catch(waker: LoopWaker) -> std::io::Result<Ending> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let caught = ENDING.into_iter().filter(|signal| {
            let bit = 1 << (signal - 1);
            ignored & bit == 0
        });
        let mut signals = Signals::new(caught)?;
        let ending = Ending::default();
        let first = Arc::clone(&ending.0);
        let forward = move || {
            for signal in signals.forever() {
                if first.swap(signal, Ordering::SeqCst) != 0 {
                    end_by(signal);
                }
                waker();
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(forward)?;
        Ok(ending)
    }

    /// The signal.
    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}

/// Ends the process by a signal, as if nothing had caught it.
pub(super) fn end_by(signal: i32) -> ! {
    let error = emulate_default_handler(signal);
    // Not reached for a signal that ends processes; if it is, the status says which signal.
    debug_assert!(error.is_err());
    std::process::exit(128 + signal)
}

/// The mask of ignored signals in a text as `/proc/self/status`, proc(5).
fn ignored(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_text(15), "Terminated");
        assert_eq!(signal_text(11), "Segmentation fault");
        assert_eq!(signal_text(40), "signal 40");
    }
}
