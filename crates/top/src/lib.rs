//! `thalweg top`: a live picture of a running switch, in a terminal.
//!
//! ```text
//!   switch <--questions-- asker, on its thread <--questions-- model <--keys-- terminal
//!          --answers---->                       --answers-->        --picture-->
//! ```
//!
//! - `model` is the state, without terminal, clock or socket: keys, answers and the time come in,
//!   questions go out.
//! - `picture` draws the model into any backend of ratatui; tests draw into memory.
//! - `ask` has the questions answered by a control socket, `terminal` is the loop on a terminal,
//!   `once` a single picture without one.
//!
//! 1. One question waits for its answer at most, so a slow switch is not asked more.
//! 2. Counts are asked every interval. Entries are asked less often, since each worker copies
//!    them all for an answer: every `TALKERS_EVERY`, and for at most a fiftieth of the time.
//! 3. However the program ends, the terminal is as it was.

mod answers;
mod ask;
mod model;
mod number;
mod once;
mod picture;
mod rates;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Result;

use crate::ask::Switchboard;

/// What `thalweg top` takes.
#[derive(Debug, clap::Args)]
pub struct TopArguments {
    /// The switch: the path of its control socket, or its process's number; without it, the
    /// daemon of the pidfile
    #[arg(long, short, value_name = "PATH|PID")]
    target: Option<String>,
    /// Seconds between two looks at the counts
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval_of)]
    interval: f64,
    /// Print one picture, of the rates over one interval, and end; needs no terminal
    #[arg(long)]
    once: bool,
    /// Show only entries that packets of this match can meet, as `dpctl/dump-flows` has it
    #[arg(long, value_name = "MATCH")]
    filter: Option<String>,
}

/// Reads an interval.
fn interval_of(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s| (0.1..=3_600.0).contains(s));
    seconds.ok_or_else(|| "name a number of seconds from 0.1 to 3600".to_owned())
}

/// Shows the switch until the user ends it; with `--once`, or if `is_json`, returns one picture
/// as a text or as a JSON object.
///
/// # Errors
/// If there is no terminal; for one picture, if there is no switch or it refuses the filter.
pub fn execute(arguments: &TopArguments, is_json: bool) -> Result<Option<String>> {
    let interval = Duration::from_secs_f64(arguments.interval);
    let switch = Switchboard::new(arguments.target.clone());
    let filter = arguments.filter.clone();
    match arguments.once || is_json {
        true => once::execute(&switch, interval, filter, is_json).map(Some),
        false => terminal::execute(switch, interval, filter).map(|()| None),
    }
}
