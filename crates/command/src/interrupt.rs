//! Handles Ctrl-C and SIGTERM for commands that end by themselves.
//!
//! Such a command has nothing to wind up: complete files have their names, and incomplete
//! files are useless. A dedicated thread waits for the signal and removes unfinished files
//! (`output.rs`). It prints which results are kept and how to continue. It ends the process by
//! that same signal, so a shell loop or scheduler sees what happened. It acts at once, whatever
//! the command is doing.
//!
//! `thalweg run` and `thalweg p4 keep` handle signals themselves (`signals.rs`).

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output::abandon;

type LastWords = Box<dyn Fn() -> String + Send>;

/// What to print at the end; `None` selects a default message.
static LAST_WORDS: Mutex<Option<LastWords>> = Mutex::new(None);

/// Installs the handler.
///
/// # Errors
/// If the operating system refuses.
pub fn catch() -> Result<()> {
    let mut caught = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let wait = move || {
        if let Some(signal) = caught.forever().next() {
            end(signal);
        }
    };
    thread.spawn(wait).context("cannot catch signals")?;
    Ok(())
}

/// Sets the message for an interruption: which results are kept, and how to continue.
pub fn say_at_end(words: impl Fn() -> String + Send + 'static) {
    let mut last = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    *last = Some(Box::new(words));
}

fn end(signal: i32) {
    let completed = abandon();
    let last = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let words = match (&*last, completed) {
        (Some(words), _) => words(),
        (None, 0) => "nothing was written; run the command again".to_owned(),
        (None, count) => format!("{count} files are whole; run the command again for the rest"),
    };
    let mut error = std::io::stderr().lock();
    // On a terminal, the progress bar occupies this line.
    let line = if error.is_terminal() { "\n" } else { "" };
    // If this cannot be printed, nothing can be done about it.
    let _ = writeln!(error, "{line}thalweg: interrupted; {words}");
    let _ = emulate_default_handler(signal);
}
