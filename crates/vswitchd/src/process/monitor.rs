//! The monitor: starts the daemon again when an error signal ended it.
//!
//! 1. A daemon that ends in another way, by TERM or KILL for instance, ends the monitor also.
//! 2. Two starts are at least ten seconds apart.
//!
//! Reference: ovs-vswitchd(8), "--monitor".

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGXCPU, SIGXFSZ,
};

use crate::log::Log;
use crate::options::DaemonOptions;
use crate::process::stages::{ReadyPipe, Stage, Started, failure, leave_terminal, status_text};
use crate::vlog::{LogLevel, modules};

/// After these the daemon is started again.
const ERROR_SIGNALS: [i32; 9] = [
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGXCPU, SIGXFSZ,
];
/// Shortest time between two starts.
const BETWEEN_STARTS: Duration = Duration::from_secs(10);

/// Runs the daemon until it ends well, on a thread of the name that lines of the log show.
pub(super) fn run(options: &DaemonOptions, ready: Option<ReadyPipe>) -> ExitCode {
    let options = options.clone();
    let thread = std::thread::Builder::new().name("monitor".to_owned());
    let running = thread.spawn(move || {
        let done = first_daemon(&options, ready).and_then(|child| watch(&options, child));
        done.err().unwrap_or(ExitCode::SUCCESS)
    });
    let ended = running.ok().and_then(|thread| thread.join().ok());
    ended.unwrap_or(ExitCode::FAILURE)
}

/// Starts the daemon for the first time, and tells the user's process.
fn first_daemon(options: &DaemonOptions, ready: Option<ReadyPipe>) -> Result<Child, ExitCode> {
    let fail = |text: &str| {
        Log::open(options).fatal(modules::DAEMON_UNIX, text);
        ExitCode::FAILURE
    };
    let started = Started::start(Stage::Daemon).and_then(Started::wait_ready);
    let started = started.map_err(|error| fail(&format!("cannot start the daemon ({error})")))?;
    let child = started.map_err(|status| {
        failure(status).unwrap_or_else(|| {
            fail(&format!(
                "could not initiate process monitoring: the daemon ended before it was ready ({})",
                status_text(status)
            ))
        })
    })?;
    if let Some(ready) = ready {
        ready.notify();
    }
    if options.detach {
        // A monitor that keeps the terminal's descriptors does no harm to its work.
        let _ = leave_terminal();
    }
    Ok(child)
}

/// Waits for the daemon's end, starts it again if it must, and so on.
fn watch(options: &DaemonOptions, mut child: Child) -> Result<(), ExitCode> {
    let mut crashes = 0;
    let mut started_at: Option<Instant> = None;
    loop {
        let pid = child.id();
        // The file may be renamed while the daemon runs, so it is not kept open.
        let status = child.wait();
        let log = Log::open(options);
        if options.detach {
            log.leave_console();
        }
        let status = status.map_err(|error| {
            log.fatal(modules::DAEMON_UNIX, &format!("waitpid failed ({error})"));
            ExitCode::FAILURE
        })?;
        // Until a daemon is ready again. One that ends before is as one that ends later.
        let (mut status, mut said) = (status, format!("pid {pid} died"));
        child = loop {
            said = format!("{said}, {}", status_text(status));
            let write = |level, text: String| log.write(modules::DAEMON_UNIX, level, || text);
            if !is_crash(status) {
                write(LogLevel::Info, format!("{said}, exiting"));
                return failure(status).map_or(Ok(()), Err);
            }
            if status.core_dumped() {
                forbid_core_dumps();
            }
            crashes += 1;
            said = format!("{crashes} crashes: {said}");
            if let Some(rest) = started_at.and_then(|at| left(at.elapsed())) {
                let text = format!("{said}, waiting until 10 seconds since last restart");
                write(LogLevel::Warning, text);
                std::thread::sleep(rest);
            }
            started_at = Some(Instant::now());
            write(LogLevel::Error, format!("{said}, restarting"));
            let started = Started::start(Stage::Daemon);
            let pid = started.as_ref().map_or(0, Started::pid);
            match started.and_then(Started::wait_ready) {
                Ok(Ok(child)) => break child,
                Ok(Err(ended)) => (status, said) = (ended, format!("pid {pid} died")),
                Err(error) => said = format!("it cannot be started ({error}); the last one"),
            }
        };
    }
}

/// The rest of the time between two starts.
fn left(elapsed: Duration) -> Option<Duration> {
    BETWEEN_STARTS
        .checked_sub(elapsed)
        .filter(|rest| !rest.is_zero())
}

fn is_crash(status: ExitStatus) -> bool {
    let signal = status.signal();
    signal.is_some_and(|signal| ERROR_SIGNALS.contains(&signal))
}

/// One dump is enough; more would fill the disk.
fn forbid_core_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: rustix::process::getrlimit(Resource::Core).maximum,
    };
    // A dump too many is no reason to leave the switch without its daemon.
    let _ = setrlimit(Resource::Core, none);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_error_signals_are_crashes() {
        let is = |raw| is_crash(ExitStatus::from_raw(raw));
        assert!(is(SIGSEGV) && is(SIGABRT | 0x80));
        // TERM, KILL, and statuses.
        assert!(!is(15) && !is(9) && !is(0) && !is(1 << 8));
    }

    #[test]
    fn starts_are_apart() {
        assert_eq!(left(Duration::from_secs(4)), Some(Duration::from_secs(6)));
        assert_eq!(left(Duration::from_secs(10)), None);
        assert_eq!(left(Duration::from_secs(60)), None);
    }
}
