//! `cargo xtask differential`: compares our answers with those of the real Open vSwitch.
//!
//! ```text
//!   for each file of random rules, loaded into both switches, with a mode for fragments:
//!     for each random or hostile packet:
//!       ours = our interpreter's effects, run on the packet's bytes
//!       theirs = the datapath actions of `ofproto/trace`, run on the packet's bytes
//!       compare what leaves by which port
//!       change bits outside our mask; compare the old entry's answer with a new trace
//! ```
//!
//! The comparison is of the outcomes, not of the lists of actions: two lists may differ in
//! order, or in writes of unchanged values, and do the same. Bits of masks are counted on both
//! sides.
//!
//! 1. I9: if no two overlapping rules of a table have the same priority, which OpenFlow leaves
//!    undefined, both switches do the same with a packet, and Open vSwitch's answer is
//!    constant over our cache entry: the entry would be right in Open vSwitch's place. The
//!    first comparison tests one half of it, the second the other. The entries are those of
//!    fresh walks; invariant I1, that repaired entries agree with these, is tested by
//!    `switch/tests/maintenance.rs`.
//!
//! A difference is either explained (`explained`, with a section in
//! `docs/differences-from-open-vswitch.md`) and counted, or a failure. For a failure the rules
//! are reduced to those needed, and written to a folder with the packet and both answers.

mod answer;
mod datapath_text;
mod emulation;
mod explained;
mod megaflow;
mod neighbor;
mod report;
mod switches;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use thalweg_pipeline::{FragmentMode, Translation};
use thalweg_workload::{Field, PacketSource, RandomConfig, RandomPipeline};

use self::explained::explain;
use self::neighbor::{Arrival, neighbor};
use self::report::{Report, Reproduction};
use self::switches::{Program, Switches};
use crate::packages;
use crate::workspace::Workspace;

/// Ports of both switches.
const PORTS: u16 = 4;

/// Other packets of the same cache entry to try for each packet.
const NEIGHBORS: usize = 3;

/// The extent of the comparison.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of rule files.
    pub count: u64,
    /// The seed of the first file; each later file adds one.
    pub seed: u64,
    /// Packets for each file.
    pub packets_per_file: usize,
    /// Number of unexplained differences after which the run ends.
    pub limit: usize,
    /// The folder for unexplained differences.
    pub folder: PathBuf,
}

impl Config {
    /// The extent in `cargo xtask test`; the same every time.
    pub fn for_tests(folder: PathBuf) -> Config {
        Config {
            count: 300,
            seed: 1,
            packets_per_file: 10,
            limit: 3,
            folder,
        }
    }
}

/// Compares, and prints the findings; returns whether all differences are explained.
///
/// # Errors
/// If Open vSwitch does not start, or a switch refuses rules.
pub fn run(config: &Config) -> anyhow::Result<bool> {
    packages::ensure_open_vswitch()?;
    let start = Instant::now();
    let report = compare(config)?;
    report.print(start.elapsed());
    report.save(&config.folder)?;
    Ok(report.unexplained.is_empty())
}

/// Compares file by file, until all are done or there are too many differences.
fn compare(config: &Config) -> anyhow::Result<Report> {
    let mut switches = Switches::start(PORTS)?;
    let mut report = Report::default();
    for seed in config.seed..config.seed + config.count {
        let shape = shape(seed);
        let program = program(seed)?;
        switches
            .load(&program)
            .with_context(|| format!("seed {seed}"))?;
        let mut file = File {
            program: &program,
            seed,
            random: Pcg64Mcg::seed_from_u64(seed),
        };
        let mut packets = PacketSource::new(&shape, seed);
        for _ in 0..config.packets_per_file {
            let packet = packets.next_packet();
            let arrival = Arrival {
                in_port: packet.in_port,
                bytes: packet.bytes,
            };
            file.compare(&mut switches, &arrival, &mut report)
                .with_context(|| format!("seed {seed}, packet {:02x?}", arrival.bytes))?;
        }
        report.files += 1;
        if report.unexplained.len() >= config.limit {
            break;
        }
    }
    Ok(report)
}

/// The rules and groups of a seed, and what tables see of fragments.
fn program(seed: u64) -> anyhow::Result<Program> {
    let pipeline = RandomPipeline::new(&shape(seed), seed)?;
    Ok(Program {
        rules: pipeline.rules().iter().map(ToString::to_string).collect(),
        groups: pipeline.groups().iter().map(ToString::to_string).collect(),
        fragments: match seed % 8 {
            6 => FragmentMode::NxMatch,
            7 => FragmentMode::Drop,
            _ => FragmentMode::Normal,
        },
    })
}

/// The default folder for unexplained differences.
pub fn default_folder(workspace: &Workspace) -> PathBuf {
    let build = workspace.metadata.target_directory.as_std_path();
    build.join("differential")
}

/// The shape of a seed's pipeline: small or large.
fn shape(seed: u64) -> RandomConfig {
    let mut vocabulary = match seed % 4 {
        0 => RandomConfig::default(),
        _ => RandomConfig::broad(),
    };
    if seed % 5 == 1 {
        let rarer = [Field::PacketMark, Field::SetOutput];
        vocabulary.fields.extend(rarer);
    }
    RandomConfig {
        tables: [2, 4, 6][seed as usize % 3],
        rules_per_table: [4, 8, 20][seed as usize / 3 % 3],
        ports: PORTS.into(),
        // The switches may choose different buckets, so groups have no choice.
        selects: false,
        checks_length: seed.is_multiple_of(5),
        ..vocabulary
    }
}

/// The loaded file of rules.
struct File<'a> {
    program: &'a Program,
    seed: u64,
    random: Pcg64Mcg,
}

impl File<'_> {
    /// Compares one packet, and others of its cache entry.
    fn compare(
        &mut self,
        switches: &mut Switches,
        arrival: &Arrival,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        if arrival.bytes.len() < 14 {
            report.runts += 1;
            return Ok(());
        }
        let observation = switches.observe(arrival, None)?;
        let walk = observation.passes[0].walk.clone();
        report.our_bits += u64::from(megaflow::our_bits(&switches.ours.pipeline, &walk.mask));
        report.their_bits += u64::from(megaflow::their_bits(&observation.trace.megaflow)?);
        report.packets += 1;
        if !self.check(switches, arrival, None, report)? {
            return Ok(()); // its neighbours would only show the same difference
        }
        for _ in 0..NEIGHBORS {
            let random = &mut self.random;
            let other = neighbor(&switches.ours, arrival, &walk.mask, PORTS.into(), random);
            let Some(other) = other else { continue };
            report.neighbors += 1;
            self.check(switches, &other, Some((arrival, &walk)), report)?;
        }
        Ok(())
    }

    /// Compares one packet's answers; returns whether they agree or differ as explained.
    fn check(
        &mut self,
        switches: &mut Switches,
        arrival: &Arrival,
        entry: Option<(&Arrival, &Translation)>,
        report: &mut Report,
    ) -> anyhow::Result<bool> {
        let observation = switches.observe(arrival, entry.map(|(_, walk)| walk))?;
        if observation.ours == observation.theirs {
            return Ok(true);
        }
        let explanations = explain(&observation, &switches.ours.pipeline);
        for explanation in &explanations {
            *report.explained.entry(*explanation).or_default() += 1;
        }
        if explanations.is_empty() {
            let reproduction = Reproduction {
                seed: self.seed,
                program: self.program.clone(),
                maker: entry.map(|(maker, _)| maker.clone()),
                arrival: arrival.clone(),
            };
            let reduced = reproduction.reduce(switches)?;
            report.unexplained.push(reduced);
            switches.load(self.program)?;
        }
        Ok(!explanations.is_empty())
    }
}

#[cfg(all(test, feature = "privileged-tests"))]
mod tests;
#[cfg(test)]
mod written;
