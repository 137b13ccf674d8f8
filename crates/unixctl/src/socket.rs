//! The control socket: hands the commands of its clients to the owner's loop.
//!
//! ```text
//!   thread "control":  accept -> read -> ControlConnection -> queue, waker
//!   main loop:         next_command() -> PendingCommand -> reply(), now or later
//!   thread "control":  reply -> write
//! ```
//!
//! 1. A client that is slow, silent or wrong holds up no other: the thread waits for all.
//! 2. A connection has one command at a time, and its input is read only when it has none, so
//!    that at most [`ControlConfig::connections_max`] commands wait.
//! 3. Every command has one answer. One that the main loop drops is answered with an error.
//! 4. With all connections taken, the one that has been silent longest gives way to a new one.
//! 5. When the socket is dropped, answers on their way are still written, within
//!    [`LAST_ANSWERS`]; then the socket's file is gone.
//!
//! The file's permissions are those of [`ControlConfig::mode`], less the process's mask.
//!
//! Where it departs from Open vSwitch: an answer may have a bound; a file that is no socket, or at
//! which a process listens, is not replaced; a socket that another daemon has put in its place is
//! not removed at the end; commands that the thread answers itself are not in the log.

mod listener;
mod server;

use std::fmt::{Debug, Formatter};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::config::ControlConfig;
use crate::conversation::{ControlCommands, ControlRequest};
use crate::notes::{ControlNote, ControlNotes};
use crate::socket::listener::SocketFile;

/// Most time for the answers that are on their way when the socket ends.
pub const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a command without an answer is answered with.
const NO_ANSWER: &str = "the daemon ended before it carried out the command";

/// Wakes the main loop: a command waits, or a signal came. Called on other threads.
pub type LoopWaker = Arc<dyn Fn() + Send + Sync>;

/// A listening control socket.
#[derive(Debug)]
pub struct ControlSocket(Option<Serving>);

#[derive(Debug)]
struct Serving {
    /// Removes the socket's file; `None` at the end.
    file: Option<SocketFile>,
    /// `None` at the end, when commands are answered with an error as they come.
    commands: Option<Receiver<PendingCommand>>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Listens at `path`, and calls `waker` on another thread when a command waits.
    ///
    /// # Errors
    ///
    /// Another process listens at `path`, or the socket or its thread cannot be made.
    pub fn open(
        path: &Path,
        config: ControlConfig,
        commands: ControlCommands,
        notes: Arc<dyn ControlNotes>,
        waker: LoopWaker,
    ) -> std::io::Result<ControlSocket> {
        let (listener, file) = listener::listen(path, config.mode)?;
        let (sender, waiting) = channel();
        let (end, ended) = watch::channel(false);
        let server = server::Server::new(config, commands, notes, sender, waker);
        let thread = std::thread::Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || server.run(listener, ended))?;
        Ok(ControlSocket(Some(Serving {
            file: Some(file),
            commands: Some(waiting),
            end,
            thread: Some(thread),
        })))
    }

    /// No socket, and never a command.
    pub fn none() -> ControlSocket {
        ControlSocket(None)
    }

    /// Removes the socket's file: new clients find none, those that are connected are served on.
    pub fn close_door(&self) {
        let file = self.0.as_ref().and_then(|serving| serving.file.as_ref());
        if let Some(file) = file {
            file.remove();
        }
    }

    /// The next command that waits.
    pub fn next_command(&mut self) -> Option<PendingCommand> {
        let commands = self.0.as_ref()?.commands.as_ref()?;
        let command = commands.try_recv().ok()?;
        let note = ControlNote::Received(&command.request, &command.id);
        command.notes.note(note);
        Some(command)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // New clients find no socket from here on. The thread still has the socket open, so
        // that no other file can be taken for the socket's.
        drop(self.file.take());
        self.end.send_replace(true);
        // Invariant 3: those that wait are answered, and so are those that clients sent behind
        // them, which the thread cannot queue from here on.
        drop(self.commands.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed; the daemon ends in any case.
            let _ = thread.join();
        }
    }
}

/// A command of a client that waits for its answer.
pub struct PendingCommand {
    /// The command.
    pub request: ControlRequest,
    /// The request's number, for the log.
    id: String,
    answer: Option<oneshot::Sender<Result<String, String>>>,
    answer_bytes_max: usize,
    notes: Arc<dyn ControlNotes>,
}

impl Debug for PendingCommand {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("PendingCommand");
        let shown = shown.field("request", &self.request).field("id", &self.id);
        shown.finish_non_exhaustive()
    }
}

impl PendingCommand {
    /// Answers with a text, or with an error. A client that is gone does not matter.
    pub fn reply(mut self, reply: Result<String, String>) {
        self.send(reply);
    }

    /// The answer, unless it is too long.
    fn bounded(&self, text: String) -> Result<String, String> {
        match text.len() <= self.answer_bytes_max {
            true => Ok(text),
            false => Err(format!(
                "the answer has {} bytes and may have {}; ask for a part of it",
                text.len(),
                self.answer_bytes_max
            )),
        }
    }

    fn send(&mut self, reply: Result<String, String>) {
        let Some(answer) = self.answer.take() else {
            return;
        };
        let reply = reply.and_then(|text| self.bounded(text));
        self.notes.note(ControlNote::Replied(&reply, &self.id));
        let _ = answer.send(reply);
    }
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        self.send(Err(NO_ANSWER.to_owned()));
    }
}

#[cfg(test)]
mod tests;
