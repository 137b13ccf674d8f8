//! Where a command speaks: results on standard output, progress on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Says something on standard error; whether anybody reads it makes no difference to the program.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "thalweg: {text}");
}

/// The same, with the time: of what happens to a program that runs for long.
pub(crate) fn log(text: &str) {
    let now = humantime::format_rfc3339_millis(SystemTime::now());
    warn(&format!("{now} {text}"));
}

/// The two streams, and how much may be said on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    is_json: bool,
    has_color: bool,
}

impl Console {
    /// A console that prints one JSON object if `is_json`, else text for people.
    pub(crate) fn new(is_json: bool) -> Console {
        // See no-color.org: the variable counts when it is not empty.
        let forbids_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Console {
            is_json,
            has_color: !forbids_color && std::io::stdout().is_terminal(),
        }
    }

    /// Whether standard output is for one JSON object.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Prints text for people; nothing if standard output is for JSON.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        if !self.is_json {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints a headline for people, bold on a terminal.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn headline(&self, text: &str) -> Result<()> {
        if self.has_color {
            return self.print(&format!("\x1b[1m{text}\x1b[0m"));
        }
        self.print(text)
    }

    /// Prints the one JSON object; nothing if standard output is for people.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn print_json(&self, value: &impl Serialize) -> Result<()> {
        if self.is_json {
            let mut out = std::io::stdout().lock();
            // As an error of the stream, so that one which nobody reads is known for that.
            serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    /// A progress bar of so many steps, seen only when standard error is a terminal.
    pub(crate) fn progress(&self, steps: u64) -> ProgressBar {
        self.bar(steps, "{wide_msg} [{bar:12}] {percent:>3}% {elapsed:>4}")
    }

    /// The same, with how long it will probably take.
    pub(crate) fn progress_with_estimate(&self, steps: u64) -> ProgressBar {
        self.bar(
            steps,
            "{wide_msg} [{bar:12}] {percent:>3}% {elapsed:>4}, {eta} left",
        )
    }

    fn bar(&self, steps: u64, template: &str) -> ProgressBar {
        let is_seen = std::io::stderr().is_terminal();
        let target = if is_seen {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style.progress_chars("=> "));
        if is_seen {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        bar
    }
}
