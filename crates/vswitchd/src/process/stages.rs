//! The processes of one start: the one that the user waits for, the monitor, the daemon.
//!
//! ```text
//!   --detach             user's process ---------------> daemon
//!   --monitor            user's process is monitor ----> daemon
//!   --detach --monitor   user's process ---> monitor --> daemon
//! ```
//!
//! A process starts the next by running the same program with the same arguments, and a word
//! in the environment that says which it is. The next one's standard output is a pipe: a byte
//! in it says that the daemon works.
//!
//! 1. The word names the starter's process. One that reached a process in another way is
//!    ignored.
//! 2. A process that ends before it is ready has said why, on the standard error that all
//!    share until then; its status becomes that of the starter.
//! 3. The daemon runs in a session of its own if it must run in the background.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::process::signals::signal_text;

/// The variable with the word: `monitor:PID` or `daemon:PID`.
const VARIABLE: &str = "THALWEG_VSWITCHD_STAGE";
/// The running program, which stays the same when its file is replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The first descriptor that is none of the standard ones.
const FIRST_OTHER: i32 = 3;

/// Which process of a start this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The user's.
    First,
    /// The one that starts the daemon again when it dies.
    Monitor,
    /// The daemon, started by another process.
    Daemon,
}

impl Stage {
    /// Reads it from the environment.
    pub(super) fn of_this_process() -> Stage {
        let word = std::env::var(VARIABLE).unwrap_or_default();
        Stage::parse(&word, parent_id())
    }

    fn parse(word: &str, parent: u32) -> Stage {
        match word.split_once(':') {
            // Invariant 1.
            Some((_, pid)) if pid.parse() != Ok(parent) => Stage::First,
            Some(("monitor", _)) => Stage::Monitor,
            Some(("daemon", _)) => Stage::Daemon,
            _ => Stage::First,
        }
    }
}

/// A process that was started and is not ready.
#[derive(Debug)]
pub(super) struct Started {
    child: Child,
}

impl Started {
    /// Starts this program as the monitor or the daemon.
    pub(super) fn start(stage: Stage) -> Result<Started, Error> {
        let word = match stage {
            Stage::Monitor => "monitor",
            _ => "daemon",
        };
        let mut arguments = std::env::args_os();
        let mut command = Command::new(THIS_PROGRAM);
        command.arg0(arguments.next().unwrap_or_default());
        let command = command
            .args(arguments)
            .env(VARIABLE, format!("{word}:{}", std::process::id()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(Started {
            child: command.spawn()?,
        })
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process is ready, and gives it; its status if it ended before.
    pub(super) fn wait_ready(mut self) -> Result<Result<Child, ExitStatus>, Error> {
        let mut output = self.child.stdout.take().expect("it is a pipe");
        match output.read(&mut [0])? {
            0 => Ok(Err(self.child.wait()?)),
            _ => Ok(Ok(self.child)),
        }
    }
}

/// The status of a process that failed and has said why.
pub(super) fn failure(status: ExitStatus) -> Option<ExitCode> {
    let code = status.code().filter(|code| *code != 0)?;
    Some(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// What a status says, as messages have it.
pub(super) fn status_text(status: ExitStatus) -> String {
    let core = if status.core_dumped() {
        ", core dumped"
    } else {
        ""
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed ({}){core}", signal_text(signal)),
        (None, None) => "terminated abnormally".to_owned(),
    }
}

/// The pipe to the process that waits for this one.
#[derive(Debug)]
pub(super) struct ReadyPipe(File);

impl ReadyPipe {
    /// Takes it from the standard output, which has no other use from then on.
    pub(super) fn take() -> Result<ReadyPipe, Error> {
        let pipe = fcntl_dupfd_cloexec(rustix::stdio::stdout(), FIRST_OTHER)?;
        dup2_stdout(null()?)?;
        Ok(ReadyPipe(File::from(pipe)))
    }

    /// Says that this process is ready. A starter that is gone does not matter.
    pub(super) fn notify(mut self) {
        let _ = self.0.write_all(&[0]);
    }
}

/// Leaves the standard descriptors of the user's terminal.
pub(super) fn leave_terminal() -> Result<(), Error> {
    let null = null()?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

fn null() -> Result<File, Error> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_said_by_the_starter_only() {
        assert_eq!(Stage::parse("daemon:5", 5), Stage::Daemon);
        assert_eq!(Stage::parse("monitor:5", 5), Stage::Monitor);
        for word in [
            "daemon:5",
            "monitor:5",
            "",
            "daemon",
            "x:6",
            "daemon:",
            ":6",
        ] {
            assert_eq!(Stage::parse(word, 6), Stage::First, "{word}");
        }
    }

    #[test]
    fn a_status_is_said_in_words() {
        let said = |raw| status_text(ExitStatus::from_raw(raw));
        assert_eq!(said(3 << 8), "exit status 3");
        assert_eq!(said(11), "killed (Segmentation fault)");
        assert_eq!(said(6 | 0x80), "killed (Aborted), core dumped");
    }
}
