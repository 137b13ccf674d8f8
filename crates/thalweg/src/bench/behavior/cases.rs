//! Figure 9: the four cases, with no cache, on a miss and on a hit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;
use thalweg_p4::behavior::cache::BehaviorConfig;
use thalweg_p4::{CacheConfig, Config, Outbox, Program, Target, commands};
use thalweg_packet::Instant;

use crate::bench::clock::processor_time_ns;
use crate::bench::spread::Spread;
use crate::failure::bad_input;
use crate::input;

/// One of the four.
pub(super) struct Case {
    pub(super) name: String,
    program: Arc<Program>,
    path: PathBuf,
    updates: Vec<thalweg_p4::state::Update>,
    /// A packet that leaves.
    pub(super) port: u32,
    pub(super) packet: Vec<u8>,
}

/// A row of the first table.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Row {
    pub(super) case: String,
    /// `off`, `miss`, `hit`, `record` (every packet is recorded and installed), or `traversal`: the
    /// cache of traversals in place of behaviours, all hits.
    pub(super) cache: &'static str,
    pub(super) ns_per_packet: Spread,
    pub(super) packets_per_second: f64,
    /// Of the walks through ingress and egress, those that were remembered.
    pub(super) hits_percent: f64,
}

/// Between two packets.
const STEP_NS: u64 = 1_000;

/// Behaviours that are there when each packet is recorded, and the packets that differ.
const FEW: usize = 32;

/// Where the time to live of an IPv4 packet without a tag is, and the checksum.
const TTL: usize = 22;
const CHECKSUM: usize = 24;

/// Reads the four programs of a folder.
///
/// # Errors
/// If one is missing, cannot be loaded, or lets none of our packets through.
pub(super) fn load(folder: &Path) -> Result<Vec<Case>> {
    (1..=4).map(|number| load_one(folder, number)).collect()
}

fn load_one(folder: &Path, number: u32) -> Result<Case> {
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
    let path = path.ok_or_else(missing)?;
    let wrong = |what: String| bad_input(format!("{}: {what}", path.display()));
    let program = Program::from_json(&input::contents(&path)?);
    let program = Arc::new(program.map_err(|error| wrong(error.to_string()))?);
    let entries = path.with_extension("cmds");
    let read = commands::parse(&input::contents(&entries)?, &program).map_err(|error| {
        bad_input(format!(
            "{}:{}: {}",
            entries.display(),
            error.line,
            error.what
        ))
    })?;
    let mut case = Case {
        name: number.to_string(),
        program,
        path,
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
}

/// Packets of 60 bytes that the examples' networks route, UDP and TCP over IPv4.
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

/// Another time to live, with its checksum.
pub(super) fn set_ttl(packet: &mut [u8], ttl: u8) {
    packet[TTL] = ttl;
    set_checksum(packet);
}

pub(super) fn set_checksum(packet: &mut [u8]) {
    packet[CHECKSUM..CHECKSUM + 2].fill(0);
    let sum = thalweg_packet::checksum::checksum(&packet[14..34]);
    packet[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The rows of one case; samples of the rows take turns.
pub(super) fn measure(case: &Case, packets: u64, samples: usize) -> Result<Vec<Row>> {
    let config = |threshold, entries| {
        Some(BehaviorConfig {
            threshold,
            entries,
            ..BehaviorConfig::default()
        })
    };
    let one = vec![case.packet.clone()];
    let differing: Vec<Vec<u8>> = (0..2 * FEW)
        .map(|index| {
            let mut packet = case.packet.clone();
            set_ttl(&mut packet, 100 + index as u8);
            packet
        })
        .collect();
    let mut runs = vec![
        ("off", Run::new(case.target(None)?, one.clone(), case.port)),
        (
            "miss",
            Run::new(case.target(config(u16::MAX, 1024))?, one.clone(), case.port),
        ),
        (
            "hit",
            Run::new(case.target(config(0, 1024))?, one, case.port),
        ),
        (
            "record",
            Run::new(case.target(config(0, FEW))?, differing, case.port),
        ),
    ];
    let mut traversals = case.target(None)?;
    traversals.cache_traversals(Some(CacheConfig::default()));
    let run = Run::new(traversals, vec![case.packet.clone()], case.port);
    runs.push(("traversal", run));
    for _ in 0..=samples {
        for (_, run) in &mut runs {
            run.sample(packets);
        }
    }
    let rows = runs.into_iter().map(|(cache, mut run)| {
        // The first is for warmth.
        run.ns_per_packet.remove(0);
        let spread = Spread::of(&run.ns_per_packet);
        Row {
            case: case.name.clone(),
            cache,
            ns_per_packet: spread,
            packets_per_second: 1e9 / spread.median,
            hits_percent: run.hits_percent(),
        }
    });
    Ok(rows.collect())
}

struct Run {
    target: Target,
    packets: Vec<Vec<u8>>,
    port: u32,
    now_ns: u64,
    outbox: Outbox,
    ns_per_packet: Vec<f64>,
}

impl Run {
    fn new(target: Target, packets: Vec<Vec<u8>>, port: u32) -> Run {
        Run {
            target,
            packets,
            port,
            now_ns: 0,
            outbox: Outbox::new(),
            ns_per_packet: Vec::new(),
        }
    }

    fn sample(&mut self, count: u64) {
        let start = processor_time_ns();
        let mut packets = self.packets.iter().cycle();
        for _ in 0..count {
            let Some(packet) = packets.next() else { break };
            self.now_ns += STEP_NS;
            self.outbox.clear();
            let now = Instant::from_nanos(self.now_ns);
            self.target
                .receive(self.port, packet, now, &mut self.outbox);
            std::hint::black_box(self.outbox.sent().count());
        }
        let spent = processor_time_ns() - start;
        self.ns_per_packet.push(spent as f64 / count as f64);
    }

    /// Of behaviours, or of segments where there is the cache of traversals.
    fn hits_percent(&self) -> f64 {
        let behaviors = self.target.behavior_counts();
        let behaviors = behaviors.map(|counts| (counts.hits, counts.misses));
        let traversals = self.target.cache_statistics();
        let traversals =
            traversals.map(|one| (one.exact_hits + one.masked_hits, one.misses + one.visits));
        let (hits, misses) = behaviors.or(traversals).unwrap_or_default();
        hits as f64 * 100.0 / (hits + misses).max(1) as f64
    }
}
