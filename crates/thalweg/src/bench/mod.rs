//! `thalweg bench`: tables of measurements, the baseline always a row.

mod attack;
mod behavior;
mod classify;
mod clock;
mod end_to_end;
mod forward;
mod load;
mod picture;
mod spread;
mod update;
mod workers;

use anyhow::Result;
use clap::Subcommand;

use crate::console::Console;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What remembering the behaviours of P4 programs gains and costs (B-Cache's figures 9 and 10)
    Behavior(behavior::Arguments),
    /// The cost of a lookup, by classifier, set of rules and traffic
    Classify(classify::Arguments),
    /// The cost of forwarding a packet, by what the caches know of it
    Forward(forward::Arguments),
    /// The cost of reading and inserting many rules, in time and in memory
    Load(load::Arguments),
    /// The time from a change of one rule to the last old answer, by maintainer and cache size
    Update(update::Arguments),
}

/// Measures.
///
/// # Errors
/// If the measurement cannot be made or printed.
pub(crate) fn execute(command: &Command, console: &Console) -> Result<()> {
    match command {
        Command::Behavior(arguments) => behavior::execute(arguments, console),
        Command::Classify(arguments) => classify::execute(arguments, console),
        Command::Forward(arguments) => forward::execute(arguments, console),
        Command::Load(arguments) => load::execute(arguments, console),
        Command::Update(arguments) => update::execute(arguments, console),
    }
}
