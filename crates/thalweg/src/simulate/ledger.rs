//! Runs that were done: a folder with a file for each.
//!
//! A file is named by the hash of all that a run depends on: the configuration with fabric,
//! placement, scheme and seed, the traffic, and the program itself, of which the whole file is
//! hashed. So nothing that an older program made is taken for this one's, and shards on several
//! machines that share the folder never write the same file with different content.
//!
//! 1. A file has its name when it is whole. What is in it says again what it is of; a file that
//!    does not say so, or cannot be read, counts as not there.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::files::Traffic;
use super::row::Row;
use super::runs::Run;
use crate::failure::bad_input;
use crate::output::write_text;

/// MurmurHash3 (x64, 128 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hash(u128);

impl Hash {
    /// Of some bytes.
    pub(super) fn of(bytes: &[u8]) -> Hash {
        let hash = murmur3::murmur3_x64_128(&mut &bytes[..], 0);
        Hash(hash.expect("a slice can be read"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The folder.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: PathBuf,
    program: Hash,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    run: String,
    row: Row,
}

impl Ledger {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// If it cannot be made, or this program cannot be read.
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

    /// All that a run depends on.
    fn key(&self, run: &Run, traffic: &Traffic) -> Hash {
        let (program, trace, measured) = (self.program, traffic.hash, run.measure_percent);
        let text = format!("{program} {trace} {measured:?} {:?}", run.config);
        Hash::of(text.as_bytes())
    }

    fn path(&self, key: Hash) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    /// The row of a run that was done.
    pub(super) fn find(&self, run: &Run, traffic: &Traffic) -> Option<Row> {
        let key = self.key(run, traffic);
        let text = std::fs::read_to_string(self.path(key)).ok()?;
        let entry: Entry = serde_json::from_str(&text).ok()?;
        // How the plan calls the size of caches is not in the configuration.
        let said = Row {
            scheme: run.kind.name().to_owned(),
            cache_percent: run.percent(),
            ..entry.row
        };
        (entry.run == key.to_string()).then_some(said)
    }

    /// Keeps the row of a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn keep(&self, run: &Run, traffic: &Traffic, row: &Row) -> Result<()> {
        let key = self.key(run, traffic);
        let entry = Entry {
            run: key.to_string(),
            row: row.clone(),
        };
        let path: &Path = &self.path(key);
        write_text(path, &(serde_json::to_string(&entry)? + "\n"))
    }
}
