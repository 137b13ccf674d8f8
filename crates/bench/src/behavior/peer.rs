//! Compares BMv2's simple_switch with our rows.
//!
//! Its rows come from a file of `bench/peers/simple_switch.py --cases`, measured on the same
//! machine with the same packets. Without a file, a quoted measurement from elsewhere is used.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use thalweg_packet::Instant;

use super::case::Case;
use super::cases::Row;
use crate::spread::Spread;
use thalweg_command::failure::bad_input;
use thalweg_command::output::CaptureOutput;
use thalweg_command::report::Table;

/// Quoted processor time of simple_switch for a packet of case 4, in microseconds. It was
/// built with optimisation and without logging macros, and measured elsewhere.
const QUOTED_US: f64 = 20.0;

/// The cost of a packet in simple_switch.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct PeerRow {
    pub(super) case: String,
    /// Processor time of all its threads.
    pub(super) ns_per_packet: Spread,
    /// Packets that it sent differently from Thalweg.
    pub(super) different: u64,
    /// Whether it was measured elsewhere.
    #[serde(default)]
    pub(super) is_quoted: bool,
}

/// One of our rows compared with the peer.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Against {
    pub(super) case: String,
    pub(super) cache: &'static str,
    /// Our packets per second and core, divided by the peer's.
    pub(super) times: f64,
    pub(super) is_quoted: bool,
}

/// Reads the peer's rows from a file, or returns the quoted one.
///
/// # Errors
/// If the file cannot be read or is not a peer's, or the peer sent other packets.
pub(super) fn rows(path: Option<&Path>) -> Result<Vec<PeerRow>> {
    #[derive(Deserialize)]
    struct Peer {
        rows: Vec<PeerRow>,
    }
    let Some(path) = path else {
        return Ok(vec![PeerRow {
            case: "4".to_owned(),
            ns_per_packet: Spread::of(&[QUOTED_US * 1e3]),
            different: 0,
            is_quoted: true,
        }]);
    };
    let bad = |error: &dyn std::fmt::Display| {
        let advice = "make the file with bench/peers/simple_switch.py --cases";
        bad_input(format!("--peer {}: {error}; {advice}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let peer: Peer = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    if let Some(row) = peer.rows.iter().find(|row| row.different > 0) {
        let what = format!(
            "it sent {} other packets in case {}",
            row.different, row.case
        );
        return Err(bad(&what));
    }
    Ok(peer.rows)
}

/// Compares our rows without a cache and those of hits with the peer.
pub(super) fn against(rows: &[Row], peers: &[PeerRow]) -> Vec<Against> {
    let ours = rows
        .iter()
        .filter(|row| row.cache == "off" || row.what == "hit");
    let pairs = ours.filter_map(|row| {
        let peer = peers.iter().find(|peer| peer.case == row.case)?;
        Some(Against {
            case: row.case.clone(),
            cache: row.cache,
            times: peer.ns_per_packet.median / row.ns_per_packet.median,
            is_quoted: peer.is_quoted,
        })
    });
    pairs.collect()
}

/// The comparison as a table.
pub(super) fn table(all: &[Against]) -> Table {
    let mut table = Table::new("Packets a second and core, against simple_switch")
        .with_words("case")
        .with_words("cache")
        .with_words("simple_switch")
        .with_numbers("times");
    for one in all {
        table.push(vec![
            one.case.clone(),
            one.cache.to_owned(),
            if one.is_quoted { "quoted" } else { "measured" }.to_owned(),
            format!("{:.1}", one.times),
        ]);
    }
    table
}

/// Writes `packets` copies of each case's packet as a capture for the peer:
/// `case_N-pPORT.pcap`.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write_inputs(cases: &[Case], packets: u64, folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(bad_input(format!(
            "--write-inputs: {folder} is no folder; make it, or name another"
        )));
    }
    for case in cases {
        let name = format!("case_{}-p{}.pcap", case.name, case.port);
        let mut capture = CaptureOutput::create(&folder.join(name))?;
        for number in 0..packets {
            capture.write(&case.packet, Instant::from_nanos(number * 1_000))?;
        }
        capture.finish()?;
    }
    Ok(())
}
