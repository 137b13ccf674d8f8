//! The measured programs, each with its entries and a packet that it forwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use thalweg_command::failure::bad_input;
use thalweg_command::files;
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::commands::Reader;
use thalweg_p4::state::Update;
use thalweg_p4::{Config, Outbox, Program, Target};
use thalweg_packet::Instant;

/// One of the cases.
pub(super) struct Case {
    pub(super) name: String,
    program: Arc<Program>,
    pub(super) path: PathBuf,
    pub(super) text: String,
    updates: Vec<Update>,
    /// A packet that the program forwards.
    pub(super) port: u32,
    pub(super) packet: Vec<u8>,
}

/// Offset of the destination in an untagged IPv4 packet.
pub(super) const DESTINATION: usize = 30;

/// The flows' destinations are in 10.64.0.0/16.
pub(super) const NETWORK: u32 = 0x0a40_0000;

/// Offsets of the time to live and the checksum in an untagged IPv4 packet.
const TTL: usize = 22;
const CHECKSUM: usize = 24;

/// The stateful case and its program, if the folder has it: a heavy flow in a count-min
/// sketch.
const STATEFUL: [&str; 2] = ["stateful", "heavy_hitter.json"];

/// Reads the four programs of a folder, and the stateful one if it exists.
///
/// # Errors
/// If one of the four is missing, cannot be loaded, or forwards none of our packets.
pub(super) fn load(folder: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for number in 1..=4 {
        cases.push(load_one(find(folder, number)?, number.to_string())?);
    }
    let [name, file] = STATEFUL;
    let path = folder.join(file);
    if path.exists() {
        cases.push(load_one(path, name.to_owned())?);
    }
    Ok(cases)
}

fn find(folder: &Path, number: u32) -> Result<PathBuf> {
    let ending = format!("_{number}.json");
    let refused = |what: String| bad_input(format!("{}: {what}", folder.display()));
    let files = std::fs::read_dir(folder)
        .map_err(|error| refused(format!("{error}; name the folder with --programs")))?;
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let path = paths
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(&ending));
    let missing = || refused(format!("there is no file that ends in {ending}"));
    path.ok_or_else(missing)
}

fn load_one(path: PathBuf, name: String) -> Result<Case> {
    let wrong = |what: String| bad_input(format!("{}: {what}", path.display()));
    let text = files::program(&path)?;
    let program = Program::from_json(&text);
    let program = Arc::new(program.map_err(|error| wrong(error.to_string()))?);
    let entries = path.with_extension("cmds");
    let read = thalweg_command::p4_entries::read_entries(&entries, &mut Reader::new(&program))?;
    let mut case = Case {
        name,
        program,
        path,
        text,
        updates: read.into_iter().map(|command| command.update).collect(),
        port: 1,
        packet: Vec::new(),
    };
    for packet in packets() {
        let mut outbox = Outbox::new();
        case.target(None)?
            .receive(case.port, &packet, Instant::ZERO, &mut outbox);
        if outbox.sent().count() == 1 {
            case.packet = packet;
            return Ok(case);
        }
    }
    let what = "lets none of the packets of this measurement through; see examples/p4";
    Err(bad_input(format!("{}: {what}", case.path.display())))
}

impl Case {
    /// The program with its entries.
    ///
    /// # Errors
    /// If an entry is refused.
    pub(super) fn target(&self, cache: Option<BehaviorConfig>) -> Result<Target> {
        let wrong = |what: String| bad_input(format!("{}: {what}", self.path.display()));
        let target = Target::new(self.program.clone(), Config::default());
        let mut target = target.map_err(|error| wrong(error.to_string()))?;
        let written = target.write(&self.updates, Instant::ZERO);
        written.map_err(|failed| wrong(failed.error.to_string()))?;
        target.cache_behaviors(cache);
        Ok(target)
    }

    /// The case's packet, with another destination.
    pub(super) fn packet_to(&self, address: u32) -> Vec<u8> {
        let mut packet = self.packet.clone();
        packet[DESTINATION..DESTINATION + 4].copy_from_slice(&address.to_be_bytes());
        set_checksum(&mut packet);
        packet
    }
}

/// Packets of 60 bytes that the examples' networks route: UDP and TCP over IPv4.
fn packets() -> [Vec<u8>; 2] {
    let packet = |dst_mac: [u8; 6], protocol: u8, src: [u8; 4], dst: [u8; 4], ports: [u8; 4]| {
        let mut bytes = dst_mac.to_vec();
        bytes.extend([
            2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0,
        ]);
        bytes.extend(src);
        bytes.extend(dst);
        bytes.extend(ports);
        bytes.resize(60, 0);
        set_ttl(&mut bytes, 64);
        bytes
    };
    [
        packet(
            [2, 255, 0, 0, 0, 10],
            6,
            [10, 0, 10, 1],
            [10, 0, 20, 3],
            [4, 0, 0, 80],
        ),
        packet(
            [2, 0, 0, 0, 0, 2],
            17,
            [10, 0, 0, 1],
            [10, 9, 200, 1],
            [4, 0, 0, 53],
        ),
    ]
}

/// Sets the time to live, and corrects the checksum.
pub(super) fn set_ttl(packet: &mut [u8], ttl: u8) {
    packet[TTL] = ttl;
    set_checksum(packet);
}

fn set_checksum(packet: &mut [u8]) {
    packet[CHECKSUM..CHECKSUM + 2].fill(0);
    let sum = thalweg_packet::checksum::checksum(&packet[14..34]);
    packet[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}
