//! Reads files of entries: commands in the syntax of simple_switch_CLI.
//!
//! By default a file is done as a whole or not at all, and every faulty line is reported with
//! its place. With `keeps_going`, the file is done line by line as in simple_switch_CLI:
//! faulty lines are reported and skipped.

use std::path::Path;

use anyhow::Result;
use thalweg_p4::Target;
use thalweg_p4::commands::{Command, CommandError, Reader};
use thalweg_packet::Instant;

use crate::failure::bad_input;
use crate::files::contents_or;

/// Most faulty lines that are reported.
const TOLD: usize = 20;

/// Why commands were not done; none of them was.
pub enum Refused {
    /// One command was refused: its index, and why.
    Command(usize, String),
    /// No more commands can be done.
    All(anyhow::Error),
}

/// The faults of a file.
struct Faults<'a> {
    path: &'a Path,
    count: usize,
    told: String,
}

impl Faults<'_> {
    fn add(&mut self, fault: &CommandError) {
        self.count += 1;
        if self.count <= TOLD {
            if self.count > 1 {
                self.told.push('\n');
            }
            self.told += &self.place(fault);
        }
    }

    fn place(&self, fault: &CommandError) -> String {
        let path = self.path.display();
        format!("{path}:{}:{}: {}", fault.line, fault.column, fault.what)
    }

    /// The report of all faults; `None` if there are none.
    fn text(mut self) -> Option<String> {
        if self.count > TOLD {
            let more = self.count - TOLD;
            let path = self.path.display();
            self.told += &format!("\n{path}: {more} more lines are at fault");
        }
        Some(self.told).filter(|told| !told.is_empty())
    }
}

/// Reads the commands of a file.
///
/// # Errors
/// If it cannot be read; lists all lines that are not commands for the program.
pub fn read_entries(path: &Path, reader: &mut Reader<'_>) -> Result<Vec<Command>> {
    let mut commands = Vec::new();
    let mut faults = faults_of(path);
    for line in text_of(path)?.lines() {
        match reader.read_line(line) {
            Ok(read) => commands.extend(read),
            Err(fault) => faults.add(&fault),
        }
    }
    match faults.text() {
        None => Ok(commands),
        Some(told) => Err(bad_input(told)),
    }
}

/// Does the commands of a file: all at once, or line by line if it `keeps_going`. Faulty lines
/// are then skipped.
///
/// # Errors
/// If the file cannot be read, a line is at fault, or no more commands can be done.
pub fn write_entries(
    path: &Path,
    keeps_going: bool,
    reader: &mut Reader<'_>,
    mut write: impl FnMut(&[Command]) -> Result<(), Refused>,
) -> Result<()> {
    let at = |commands: &[Command], index: usize, what: String| {
        let place = commands.get(index).or(commands.last());
        CommandError {
            line: place.map_or(0, |command| command.line),
            column: place.map_or(0, |command| command.column),
            what,
        }
    };
    let mut faults = faults_of(path);
    if !keeps_going {
        let commands = read_entries(path, reader)?;
        return write(&commands).map_err(|refused| match refused {
            Refused::Command(index, what) => bad_input(faults.place(&at(&commands, index, what))),
            Refused::All(error) => error,
        });
    }
    for line in text_of(path)?.lines() {
        let commands = match reader.read_line(line) {
            Ok(commands) if commands.is_empty() => continue,
            Ok(commands) => commands,
            Err(fault) => {
                faults.add(&fault);
                continue;
            }
        };
        match write(&commands) {
            Ok(()) => {}
            Err(Refused::Command(index, what)) => {
                reader.take_back();
                faults.add(&at(&commands, index, what));
            }
            Err(Refused::All(error)) => return Err(error),
        }
    }
    let count = faults.count;
    if let Some(told) = faults.text() {
        let lines = if count == 1 { "line was" } else { "lines were" };
        let path = path.display();
        eprintln!("thalweg: {told}\nthalweg: {path}: {count} {lines} passed over");
    }
    Ok(())
}

/// The same, for a target.
///
/// # Errors
/// As for [`write_entries`].
pub fn write_to(target: &mut Target, path: &Path, keeps_going: bool) -> Result<()> {
    let program = target.program().clone();
    let mut reader = Reader::new(&program);
    write_entries(path, keeps_going, &mut reader, |commands| {
        let updates: Vec<_> = commands.iter().map(|one| one.update.clone()).collect();
        let written = target.write(&updates, Instant::ZERO);
        written.map_err(|failed| Refused::Command(failed.index, failed.error.to_string()))
    })
}

fn faults_of(path: &Path) -> Faults<'_> {
    Faults {
        path,
        count: 0,
        told: String::new(),
    }
}

fn text_of(path: &Path) -> Result<String> {
    contents_or(
        path,
        "give entries as text: commands as simple_switch_CLI takes them",
    )
}
