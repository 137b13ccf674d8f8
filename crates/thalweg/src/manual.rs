//! `thalweg man` and `thalweg completions`: pages and scripts made from the commands themselves.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Command, CommandFactory};
use thalweg_config::configuration_page;

use thalweg_command::failure::bad_input;

/// What `thalweg man` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// The folder for the pages; it is made if it does not exist
    folder: PathBuf,
}

/// What `thalweg completions` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: clap_complete::Shell,
}

/// Writes a page for every command (`thalweg.1`, `thalweg-run.1`, ...), and the reference of the
/// configuration (`configuration.md`).
///
/// # Errors
/// If the folder or a file in it cannot be written.
pub(crate) fn man<A: CommandFactory>(arguments: &ManArguments) -> Result<()> {
    let folder = &arguments.folder;
    let cannot = |error: std::io::Error| {
        let folder = folder.display();
        bad_input(format!(
            "{folder}: {error}; name a folder that can be written"
        ))
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    let mut command = A::command();
    command.build();
    pages(&command, command.get_name(), folder).map_err(cannot)?;
    fs::write(folder.join("configuration.md"), configuration_page()).map_err(cannot)
}

/// Writes the page of a command, and those of the commands below it.
fn pages(command: &Command, name: &str, folder: &Path) -> std::io::Result<()> {
    let title: &'static str = name.to_owned().leak();
    let page = clap_mangen::Man::new(command.clone().name(title));
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(folder.join(format!("{name}.1")), text)?;
    let below = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help");
    for one in below {
        pages(one, &format!("{name}-{}", one.get_name()), folder)?;
    }
    Ok(())
}

/// Prints the completion script of a shell.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn completions<A: CommandFactory>(arguments: &CompletionsArguments) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut A::command(), "thalweg", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
