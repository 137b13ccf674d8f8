//! Ctrl-C and SIGTERM, for commands that end by themselves.
//!
//! Such a command has nothing to wind up: what is complete has its name, and what is not is of no
//! use. So a thread of its own waits for the signal, removes what is under way (`output.rs`), says
//! what is kept and how to go on, and ends the process by that very signal, so that a shell's loop
//! or a scheduler sees what happened. It is prompt whatever the command is at.
//!
//! `thalweg run` and `thalweg p4 keep` end by a signal in their own way (`run/signals.rs`).

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output::abandon;

type LastWords = Box<dyn Fn() -> String + Send>;

/// What to say at the end; nothing in particular if that is `None`.
static LAST_WORDS: Mutex<Option<LastWords>> = Mutex::new(None);

/// Has the process end in this way from now on.
///
/// # Errors
/// If the operating system refuses.
pub(crate) fn catch() -> Result<()> {
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

/// Says from now on what is kept, and how to go on.
pub(crate) fn say_at_end(words: impl Fn() -> String + Send + 'static) {
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
    // A terminal has the progress in this line.
    let line = if error.is_terminal() { "\n" } else { "" };
    // Nothing can be done about it if this cannot be said.
    let _ = writeln!(error, "{line}thalweg: interrupted; {words}");
    let _ = emulate_default_handler(signal);
}
