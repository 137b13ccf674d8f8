//! Writes generated text to a file or to standard output.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::Value;

use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::output::write_text;

/// The output file, if one is given.
#[derive(Debug, clap::Args)]
pub(super) struct Destination {
    /// Write to this file, replacing any existing one, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Destination {
    /// Writes the text, then reports it: as a sentence for people, or as JSON.
    ///
    /// # Errors
    /// If it cannot be written, or standard output would carry both text and JSON.
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
