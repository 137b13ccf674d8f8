//! Keeps finished runs: a folder with one file per run.
//!
//! A file is named by the hash of everything that a run depends on. That is the configuration
//! (with fabric, placement, scheme and seed), the traffic, and the program's whole executable
//! file. So results of an older program are never reused. Shards on several machines that
//! share the folder never write different content to the same file.
//!
//! 1. A file gets its name when it is complete, even if several processes write it at once
//!    (`output.rs`).
//! 2. A file repeats the hash of its run, and has a hash of its row. A file that does not
//!    match is damaged: it is reported, and its run is done again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::files::Traffic;
use super::hash::Hash;
use super::row::Row;
use super::runs::Run;
use thalweg_command::failure::bad_input;
use thalweg_command::output::write_text;

/// The folder of finished runs.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: PathBuf,
    program: Hash,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    run: String,
    /// Hash of the row as JSON.
    checksum: String,
    row: Row,
}

impl Entry {
    fn new(run: Hash, row: &Row) -> Result<Entry> {
        Ok(Entry {
            run: run.to_string(),
            checksum: checksum(row)?,
            row: row.clone(),
        })
    }

    /// The row, if the text is complete and belongs to `run`.
    fn read(text: &str, run: Hash) -> Option<Row> {
        let entry: Entry = serde_json::from_str(text).ok()?;
        let is_whole = entry.run == run.to_string() && checksum(&entry.row).ok()? == entry.checksum;
        is_whole.then_some(entry.row)
    }
}

fn checksum(row: &Row) -> Result<String> {
    Ok(Hash::of(serde_json::to_string(row)?.as_bytes()).to_string())
}

/// What the folder has for a run.
#[derive(PartialEq, Debug)]
pub(super) enum Found {
    /// The row of a finished run.
    Row(Box<Row>),
    /// No file.
    Nothing,
    /// A file whose content does not match.
    Damaged(PathBuf),
}

impl Ledger {
    /// Opens or creates the folder.
    ///
    /// # Errors
    /// If it cannot be created, or the program's file cannot be read.
    pub(super) fn open(folder: PathBuf) -> Result<Ledger> {
        std::fs::create_dir_all(&folder).map_err(|error| {
            let folder = folder.display();
            bad_input(format!(
                "{folder} cannot be made: {error}; choose another with --ledger, or --no-ledger"
            ))
        })?;
        let program = std::env::current_exe().and_then(std::fs::read);
        let program = program.context("this program cannot be read; use --no-ledger")?;
        Ok(Ledger {
            folder,
            program: Hash::of(&program),
        })
    }

    /// The hash of everything that a run depends on.
    fn key(&self, run: &Run, traffic: &Traffic) -> Hash {
        let (program, trace, measured) = (self.program, traffic.hash, run.measure_percent);
        let text = format!("{program} {trace} {measured:?} {:?}", run.config);
        Hash::of(text.as_bytes())
    }

    fn path(&self, key: Hash) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    /// Its path.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks up the row of a run.
    pub(super) fn find(&self, run: &Run, traffic: &Traffic) -> Found {
        let key = self.key(run, traffic);
        let path = self.path(key);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Found::Nothing,
            Err(_) => return Found::Damaged(path),
        };
        let Some(row) = Entry::read(&text, key) else {
            return Found::Damaged(path);
        };
        // The configuration does not include how the plan writes the cache size.
        Found::Row(Box::new(Row {
            scheme: run.kind.name().to_owned(),
            cache_percent: run.percent(),
            ..row
        }))
    }

    /// Stores the row of a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn keep(&self, run: &Run, traffic: &Traffic, row: &Row) -> Result<()> {
        let key = self.key(run, traffic);
        let entry = serde_json::to_string(&Entry::new(key, row)?)?;
        write_text(&self.path(key), &(entry + "\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_a_changed_byte_is_damaged() {
        let row = Row {
            scheme: "switchv2p".to_owned(),
            mean_fct_us: 183.7 / 3.0,
            hit_rate: 0.1 + 0.2,
            switch_bytes: vec![1, 2, u64::MAX],
            ..Row::default()
        };
        let run = Hash::of(b"a run");
        let entry = Entry::new(run, &row).expect("a row is JSON");
        let text = serde_json::to_string(&entry).expect("a row is JSON");
        assert_eq!(Entry::read(&text, run).as_ref(), Some(&row));
        assert_eq!(Entry::read(&text, Hash::of(b"another")), None);
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            // Flipping a bit changes digits, and letters of keys.
            bytes[place] ^= 1;
            let changed = String::from_utf8(bytes).expect("it stays ASCII");
            // The last digit of a number may make no difference.
            let read = Entry::read(&changed, run);
            assert!(read.is_none_or(|read| read == row), "{changed}");
            assert_eq!(Entry::read(&text[..place], run), None);
        }
    }
}
