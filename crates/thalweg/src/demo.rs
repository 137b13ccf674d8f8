//! `thalweg demo`: the main job with nothing to set up.

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
    bail!("`thalweg demo` is not part of this build yet")
}
