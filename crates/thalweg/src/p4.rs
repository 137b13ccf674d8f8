//! `thalweg p4`: what is said about P4 programs without running them.

mod inspect;

use anyhow::Result;
use clap::Subcommand;

use crate::console::Console;

/// What is to be done with a program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what a program's behaviour depends on, and what of it can be remembered
    ///
    /// The match vectors of B-Cache in bits, and beside them the one that is sound; valid outputs,
    /// odd primitives and compound actions; where a remembered behaviour has to stop, and why.
    Inspect(inspect::Arguments),
}

/// Does it.
///
/// # Errors
/// If the program cannot be read.
pub(crate) fn execute(command: &Command, console: &Console) -> Result<()> {
    match command {
        Command::Inspect(arguments) => inspect::execute(arguments, console),
    }
}
