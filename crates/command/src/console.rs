//! Prints a command's output: results on standard output, progress on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Prints a warning on standard error. Write errors are ignored.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "thalweg: {text}");
}

/// Prints a warning with the time, for events of a long-running program.
pub fn log(text: &str) {
    warn(&format!("{} {text}", timestamp()));
}

/// The time, as lines of a log begin with it.
pub fn timestamp() -> impl std::fmt::Display {
    humantime::format_rfc3339_millis(SystemTime::now())
}

/// The output streams, and what may be printed on them.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    is_json: bool,
    has_color: bool,
}

impl Console {
    /// Creates a console that prints one JSON object if `is_json`, else text for people.
    pub fn new(is_json: bool) -> Console {
        // See no-color.org: the variable counts only if it is not empty.
        let forbids_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Console {
            is_json,
            has_color: !forbids_color && std::io::stdout().is_terminal(),
        }
    }

    /// Whether standard output is reserved for one JSON object.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Prints text for people; does nothing in JSON mode.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&self, text: &str) -> Result<()> {
        if !self.is_json {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints a line that other programs may wait for: to standard error in JSON mode.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn announce(&self, text: &str) -> Result<()> {
        if self.is_json {
            // The work goes on whether or not this line is read.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
            return Ok(());
        }
        self.print(text)
    }

    /// Prints a headline for people, in bold on a terminal.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn headline(&self, text: &str) -> Result<()> {
        if self.has_color {
            return self.print(&format!("\x1b[1m{text}\x1b[0m"));
        }
        self.print(text)
    }

    /// Prints the one JSON object; does nothing outside JSON mode.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print_json(&self, value: &impl Serialize) -> Result<()> {
        if self.is_json {
            let mut out = std::io::stdout().lock();
            // As an I/O error, so that `failure` recognizes a closed pipe.
            serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    /// A progress bar of `steps` steps, shown only if standard error is a terminal.
    pub fn progress(&self, steps: u64) -> ProgressBar {
        self.bar(steps, "{wide_msg} [{bar:12}] {percent:>3}% {elapsed:>4}")
    }

    /// The same, with an estimate of the time left.
    pub fn progress_with_estimate(&self, steps: u64) -> ProgressBar {
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
