//! Watches the program as a child process, and ends it when dropped.

// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A running program, and the lines of one of its output streams.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    output: Option<ChildStdout>,
}

/// How a program ended.
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    /// Time from the signal, or from when it was waited for, until the end.
    pub(crate) took: Duration,
}

impl Program {
    /// Runs `thalweg --json run`, which logs to standard error; the log is passed on.
    pub(crate) fn start_json(config: &Path) -> Program {
        Program::start_json_with(&[], config)
    }

    /// The same with options of `run`.
    pub(crate) fn start_json_with(options: &[&str], config: &Path) -> Program {
        Program::start_by(&[], options, config)
    }

    /// The same, started by another program with its arguments.
    pub(crate) fn start_by(launcher: &[&str], options: &[&str], config: &Path) -> Program {
        let words = [launcher, &[env!("CARGO_BIN_EXE_thalweg")]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["--json", "run"]);
        command.args(options).arg(config);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let output = child.stdout.take();
        let lines = lines_of(child.stderr.take().expect("it is piped"));
        Program {
            child,
            lines,
            output,
        }
    }

    /// Waits for a line that begins with `start`.
    pub(crate) fn wait_for(&self, start: &str) -> String {
        self.wait_until(start, |line| line.starts_with(start))
    }

    /// Waits for a line that begins with `answer`; if that begins with a colon, for a line of
    /// the log that has it behind the module.
    pub(crate) fn wait_for_answer(&self, answer: &str) -> String {
        match answer.starts_with(':') {
            true => self.wait_for_part(answer),
            false => self.wait_for(answer),
        }
    }

    /// Waits for a line of the log that has `part`.
    pub(crate) fn wait_for_part(&self, part: &str) -> String {
        self.wait_until(part, |line| line.contains(part))
    }

    fn wait_until(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(rest);
            let line = line.unwrap_or_else(|_| panic!("the program never said {what:?}"));
            if is_it(&line) {
                return line;
            }
        }
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the program is there");
    }

    /// Ends the program by a signal; returns its final output.
    pub(crate) fn end(self, signal: Signal) -> Ended {
        self.signal(signal);
        self.wait()
    }

    /// Waits until the program ends; returns its final output.
    pub(crate) fn wait(mut self) -> Ended {
        let start = Instant::now();
        let mut output = String::new();
        let mut stream = self.output.take().expect("it ends once");
        stream.read_to_string(&mut output).expect("text");
        let status = self.child.wait().expect("it was started").code();
        Ended {
            status,
            output,
            took: start.elapsed(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            eprintln!("program: {line}");
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
