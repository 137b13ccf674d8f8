//! Rows of a peer, from a file.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use thalweg_command::failure::bad_input;

use super::Row;
use crate::spread::Spread;

/// Reads the rows of a peer's file; the peer becomes their place.
///
/// # Errors
/// If there is no such file, or it is no such file.
pub(super) fn read(path: &Path) -> Result<Vec<Row>> {
    #[derive(Deserialize)]
    struct PeerRow {
        what: String,
        protocol: String,
        connections: u32,
        tracking: String,
        unit: String,
        value: Spread,
    }
    #[derive(Deserialize)]
    struct Peer {
        peer: String,
        rows: Vec<PeerRow>,
    }
    let bad = |error: &dyn std::fmt::Display| {
        let advice =
            "give a peer's name and rows with the keys of `thalweg --json bench conntrack`";
        bad_input(format!("--peer {}: {error}; {advice}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let peer: Peer = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    let rows = peer.rows.into_iter().map(|row| Row {
        what: row.what,
        place: peer.peer.clone(),
        protocol: row.protocol,
        connections: row.connections,
        tracking: row.tracking,
        unit: row.unit,
        value: row.value,
    });
    Ok(rows.collect())
}
