//! Where generated text goes: a file, or standard output.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::Value;

use crate::console::Console;
use crate::failure::bad_input;
use crate::output::write_text;

/// The file, if one is wanted.
#[derive(Debug, clap::Args)]
pub(super) struct Destination {
    /// Write to this file, replacing one that exists, rather than to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Destination {
    /// Writes the text, then says what was written: to people in a sentence, or as JSON.
    ///
    /// # Errors
    /// If it cannot be written, or standard output is wanted for two things.
    pub(super) fn write(
        &self,
        text: &str,
        sentence: &str,
        mut summary: Value,
        console: &Console,
    ) -> Result<()> {
        let Some(path) = &self.output else {
            if console.is_json() {
                let what = "--json: standard output is for the summary; name a file with -o";
                return Err(bad_input(what));
            }
            return console.print(text.trim_end_matches('\n'));
        };
        write_text(path, text)?;
        summary["file"] = path.display().to_string().into();
        console.print(&format!("{}: {sentence}", path.display()))?;
        console.print_json(&summary)
    }
}
