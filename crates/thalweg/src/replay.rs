//! `thalweg replay`: a capture through the switch.

use anyhow::{Result, bail};

use crate::console::Console;

/// What the command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Does it.
///
/// # Errors
/// Always, until it is there.
pub(crate) fn execute(_arguments: &Arguments, _console: &Console) -> Result<()> {
    bail!("`thalweg replay` is not part of this build yet")
}
