//! `thalweg top`: a running switch, live; `thalweg_top` does the work.

use std::io::Write;

use anyhow::Result;
use thalweg_command::console::Console;
use thalweg_top::TopArguments;

/// Shows the switch.
///
/// # Errors
/// If there is no switch, or no terminal.
pub(crate) fn execute(arguments: &TopArguments, console: &Console) -> Result<()> {
    if let Some(picture) = thalweg_top::execute(arguments, console.is_json())? {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{picture}")?;
        out.flush()?;
    }
    Ok(())
}
