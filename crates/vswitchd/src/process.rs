//! The daemon's process: into the background, one at a time, until a signal or a command.
//!
//! ```text
//!   let mut process = match start(&options, commands, waker) {
//!       Start::Daemon(process) => process,
//!       Start::Ended(status) => return status,
//!   };
//!   while !process.should_exit() {
//!       // work; process.control.next_command() gives commands; process.log takes messages
//!       process.ready();               // once the first configuration is done
//!       // wait until the waker is called
//!   }
//!   process.end()
//! ```
//!
//! 1. The user's command returns when [`Process::ready`] is called, with status 0; or when the
//!    daemon ends before, with its status.
//! 2. With a pidfile, one daemon runs at a time.
//! 3. Pidfile and control socket are removed at the end, by a signal also. After KILL they stay,
//!    and the next daemon knows that they were left behind.
//! 4. A signal that ends the daemon is its status, as if nothing had caught it.
//!
//! Nothing here starts a thread before it is known which process this is.
//!
//! Where it departs from Open vSwitch: the processes are started, not forked; a second signal
//! ends the daemon at once, if it is busy; SEGV from outside counts from the second time on,
//! because Rust's runtime looks for an overflow of the stack first.
//!
//! References: ovs-vswitchd(8), "Daemon Options"; daemon(7).

mod monitor;
mod pidfile;
mod signals;
mod stages;
mod user;

use std::process::{Child, ExitCode};
use std::sync::Arc;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::setsid;
use thalweg_unixctl::{ControlCommands, ControlConfig, ControlSocket, LoopWaker};

use crate::log::{Log, os_text};
use crate::options::{DaemonOptions, PROGRAM};
use crate::process::pidfile::PidFile;
use crate::process::signals::{Ending, end_by, signal_text};
use crate::process::stages::{ReadyPipe, Stage, Started, failure, leave_terminal, status_text};
use crate::vlog::{LogLevel, modules};

/// What became of [`start`].
#[derive(Debug)]
pub enum Start {
    /// This process is the daemon.
    Daemon(Process),
    /// This process has done its part, or could not start and has said why: it must end.
    Ended(ExitCode),
}

/// The process of a daemon that runs.
#[derive(Debug)]
pub struct Process {
    /// The log.
    pub log: Log,
    /// Commands of `ovs-appctl`.
    pub control: ControlSocket,
    pidfile: Option<PidFile>,
    ending: Ending,
    leaving: Option<Leaving>,
}

/// The last steps of the start, taken when the daemon is ready.
#[derive(Debug)]
struct Leaving {
    ready: Option<ReadyPipe>,
    is_detached: bool,
    to_root: bool,
}

/// Becomes the daemon that a command line asks for. `waker` is called on other threads.
///
/// The program must not have started a thread, and must be able to run again with the same
/// arguments: `--detach` and `--monitor` do that.
pub fn start(options: &DaemonOptions, commands: ControlCommands, waker: LoopWaker) -> Start {
    let stage = Stage::of_this_process();
    if stage == Stage::First && options.detach {
        return Start::Ended(detach(options));
    }
    let become_it = || -> std::io::Result<Option<ReadyPipe>> {
        // The name by which pgrep(1) and ps(1) know it, of whatever name the program is.
        rustix::thread::set_name(c"ovs-vswitchd")?;
        let is_started = stage != Stage::First;
        if options.detach && is_started && (stage == Stage::Monitor || !options.monitor) {
            setsid()?;
        }
        is_started.then(ReadyPipe::take).transpose()
    };
    let ready = match become_it() {
        Ok(ready) => ready,
        Err(error) => {
            let text = format!("cannot leave the session ({})", os_text(&error));
            Log::open(options).fatal(modules::DAEMON_UNIX, &text);
            return Start::Ended(ExitCode::FAILURE);
        }
    };
    if options.monitor && stage != Stage::Daemon {
        return Start::Ended(monitor::run(options, ready));
    }
    let log = Log::open(options);
    match Process::begin(options, commands, &waker, log.clone(), ready) {
        Ok(process) => Start::Daemon(process),
        Err((module, text)) => {
            log.fatal(module, &text);
            Start::Ended(ExitCode::FAILURE)
        }
    }
}

/// The user's process: starts the next, and waits until it is ready.
fn detach(options: &DaemonOptions) -> ExitCode {
    let next = match options.monitor {
        true => Stage::Monitor,
        false => Stage::Daemon,
    };
    let outcome = Started::start(next).and_then(Started::wait_ready);
    let text = match outcome {
        Ok(Ok(Child { .. })) => return ExitCode::SUCCESS,
        Ok(Err(status)) => match failure(status) {
            Some(code) => return code,
            None => format!(
                "the daemon ended before it was ready ({})",
                status_text(status)
            ),
        },
        Err(error) => os_text(&error),
    };
    eprintln!("{PROGRAM}: could not detach from foreground session: {text}");
    ExitCode::FAILURE
}

impl Process {
    fn begin(
        options: &DaemonOptions,
        commands: ControlCommands,
        waker: &LoopWaker,
        log: Log,
        ready: Option<ReadyPipe>,
    ) -> Result<Process, (crate::vlog::LogModule, String)> {
        let of_daemon = |text| (modules::DAEMON_UNIX, text);
        if let Some(user) = &options.user {
            user::become_user(user, &log).map_err(of_daemon)?;
        }
        let ending = Ending::catch(Arc::clone(waker));
        let ending = ending.map_err(|error| {
            let text = format!("cannot catch signals ({})", os_text(&error));
            (modules::FATAL_SIGNAL, text)
        })?;
        let path = options.pidfile_path();
        let create = |path| PidFile::create(path, options.overwrite_pidfile);
        let pidfile = path.map(create).transpose().map_err(of_daemon)?;
        if options.mlockall
            && let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        {
            log.write(modules::VSWITCHD, LogLevel::Error, || {
                format!("mlockall failed: {}", os_text(&error.into()))
            });
        }
        let control = match options.control_path(std::process::id()) {
            Some(path) => {
                let (config, notes) = (ControlConfig::OPEN_VSWITCH, Arc::new(log.clone()));
                let opened = ControlSocket::open(&path, config, commands, notes, waker.clone());
                opened.map_err(|error| {
                    let (shown, error) = (path.display(), os_text(&error));
                    let text = format!("{shown}: could not initialize control socket ({error})");
                    (modules::UNIXCTL, text)
                })?
            }
            None => ControlSocket::none(),
        };
        Ok(Process {
            log,
            control,
            pidfile,
            ending,
            leaving: Some(Leaving {
                ready,
                is_detached: options.detach,
                to_root: !options.no_chdir,
            }),
        })
    }

    /// Says that the daemon works, and leaves the user's terminal. Only the first call counts.
    pub fn ready(&mut self) {
        let Some(leaving) = self.leaving.take() else {
            return;
        };
        if let Some(ready) = leaving.ready {
            ready.notify();
        }
        if !leaving.is_detached {
            return;
        }
        self.log.leave_console();
        let root = if leaving.to_root { "/" } else { "." };
        let left = std::env::set_current_dir(root).and_then(|()| leave_terminal());
        if let Err(error) = left {
            self.log.write(modules::DAEMON_UNIX, LogLevel::Warning, || {
                format!("cannot leave the terminal ({})", os_text(&error))
            });
        }
    }

    /// Whether a signal asks the daemon to end.
    pub fn should_exit(&self) -> bool {
        self.ending.signal().is_some()
    }

    /// Ends the daemon: answers what waits, removes its files, and gives the status. After a
    /// signal that would end the process, it does.
    pub fn end(self) -> ExitCode {
        let signal = self.ending.signal();
        if let Some(signal) = signal {
            self.log
                .write(modules::FATAL_SIGNAL, LogLevel::Warning, || {
                    format!("terminating with signal {signal} ({})", signal_text(signal))
                });
        }
        drop(self.control);
        drop(self.pidfile);
        match signal {
            Some(signal) => end_by(signal),
            None => ExitCode::SUCCESS,
        }
    }
}
