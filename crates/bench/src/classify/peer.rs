//! Reads rows of other programs, from files of `bench/peers/dpdk_acl.py`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use super::row::Row;
use thalweg_command::failure::bad_input;

/// Reads the rows of all files.
///
/// # Errors
/// If a file cannot be read, or is not a peer's.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Row>> {
    let rows: Vec<Vec<Row>> = paths
        .iter()
        .map(|path| read_one(path))
        .collect::<Result<_>>()?;
    Ok(rows.into_iter().flatten().collect())
}

fn read_one(path: &Path) -> Result<Vec<Row>> {
    #[derive(Deserialize)]
    struct Peer {
        rows: Vec<Row>,
    }
    let bad = |error: &dyn std::fmt::Display| {
        let advice = "make the file with bench/peers/dpdk_acl.py";
        bad_input(format!("--peer {}: {error}; {advice}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let peer: Peer = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    Ok(peer.rows)
}
