//! P4 programs: `thalweg p4`, and what `replay` and `trace` do with `--p4`.

mod cache;
mod cache_report;
mod entries;
mod inspect;
mod keep;
mod lines;
mod replay;
mod trace;
mod warm;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use thalweg_p4::behavior::cache::BehaviorConfig;
use thalweg_p4::{CacheConfig, ClassifierKind, Config, Program, Target};

pub(crate) use cache_report::CacheReport;
pub(crate) use entries::{Refused, read_entries, write_entries};
pub(crate) use replay::replay;
pub(crate) use trace::trace;

use crate::console::Console;
use crate::failure::bad_input;
use crate::input;
use crate::seed;

/// A program in place of rules.
#[derive(Debug, clap::Args)]
pub(crate) struct ProgramArguments {
    /// A P4 program in place of rules: the JSON that p4c's back end for BMv2 writes
    #[arg(long, value_name = "FILE.json", conflicts_with = "rules")]
    p4: Option<PathBuf>,
    /// Entries for the program's tables: commands as simple_switch_CLI takes them
    #[arg(long, value_name = "FILE", requires = "p4", conflicts_with = "rules")]
    entries: Option<PathBuf>,
    /// Say which lines of --entries cannot be read or done, and do the others
    #[arg(long, requires = "entries")]
    keep_going: bool,
    /// How the program's tables find their entries, and its cache of walks its segments
    #[arg(
        long = "p4-classifier",
        value_name = "NAME",
        default_value_t,
        requires = "p4",
        conflicts_with = "rules"
    )]
    classifier: ClassifierKind,
    /// What is remembered in front of the program
    #[arg(
        long = "p4-cache",
        value_enum,
        default_value = "off",
        requires = "p4",
        conflicts_with = "rules"
    )]
    cache: Cache,
    /// How much that cache remembers: segments, or behaviours of each pipeline
    #[arg(long = "p4-cache-entries", value_name = "N", requires = "cache", conflicts_with = "rules",
        value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    cache_entries: Option<u32>,
    /// How often a behaviour is seen before it is remembered [default: 1]
    #[arg(
        long = "p4-threshold",
        value_name = "N",
        requires = "cache",
        conflicts_with = "rules"
    )]
    threshold: Option<u16>,
}

/// Ports of v1model, whose numbers have nine bits.
pub(crate) const PORTS: std::ops::RangeInclusive<u64> = 0..=511;

/// A cache in front of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Cache {
    /// None: every packet is worked on by the interpreter
    Off,
    /// Walks through its pipelines, in segments
    Traversal,
    /// Whole behaviours that are hot (B-Cache)
    Behavior,
}

impl ProgramArguments {
    /// Whether a program was named.
    pub(crate) fn is_given(&self) -> bool {
        self.p4.is_some()
    }

    /// The program with its entries, if one was named; without a seed, the system draws one for the
    /// hash tables that packets meet.
    ///
    /// # Errors
    /// If a file cannot be read, or says what cannot be.
    pub(crate) fn load(&self, seed: Option<u64>) -> Result<Option<Target>> {
        let Some(path) = &self.p4 else {
            return Ok(None);
        };
        let program = Arc::new(read_program(path)?);
        let default = Config::default();
        let config = Config {
            classifier: self.classifier,
            seed: seed.unwrap_or(default.seed),
            index_seed: seed.unwrap_or_else(seed::drawn),
            ..default
        };
        let mut target = Target::new(program.clone(), config)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
        self.check()?;
        let entries = self.cache_entries.map(|entries| entries as usize);
        let cache = || CacheConfig {
            classifier: self.classifier,
            ..CacheConfig::sized(entries)
        };
        let cache = (self.cache == Cache::Traversal).then(cache);
        target.cache_traversals(cache);
        let cache = || BehaviorConfig::sized(entries, self.threshold);
        target.cache_behaviors((self.cache == Cache::Behavior).then(cache));
        if let Some(path) = &self.entries {
            entries::write_to(&mut target, path, self.keep_going)?;
        }
        Ok(Some(target))
    }

    /// Whether the cache has what is said of it.
    fn check(&self) -> Result<()> {
        if self.cache == Cache::Off && self.cache_entries.is_some() {
            return Err(bad_input(
                "--p4-cache-entries is the size of a cache; give --p4-cache another value than off",
            ));
        }
        if self.cache != Cache::Behavior && self.threshold.is_some() {
            return Err(bad_input(
                "--p4-threshold is of the detector of hot behaviours; give --p4-cache behavior",
            ));
        }
        Ok(())
    }
}

fn read_program(path: &Path) -> Result<Program> {
    let text = input::program(path)?;
    Program::from_json(&text).map_err(|error| bad_input(format!("{}: {error}", path.display())))
}

/// What is to be done with a program.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say what a program's behaviour depends on, and what of it can be remembered
    ///
    /// The match vectors of B-Cache in bits, and beside them the one that is sound; valid outputs,
    /// odd primitives and compound actions; where a remembered behaviour has to stop, and why.
    Inspect(inspect::Arguments),
    /// Put a cache of behaviours, and a detector of hot ones, in front of a program
    ///
    /// What comes out is BMv2's JSON again: an exact table over the sound match vector, whose hits
    /// skip ingress, and registers that count what missed. A controller fills the table from the
    /// digests `bcache.report`.
    Cache(cache::Arguments),
    /// Write the entries that such a cache has after a capture, as commands
    ///
    /// For a switch without a controller that fills the table, or one that takes no P4Runtime: the
    /// commands are those of simple_switch_CLI. They are right as long as the program's own entries
    /// are those that were given here.
    Warm(warm::Arguments),
    /// Be the controller of a switch that runs a program with such a cache, and fill it
    ///
    /// It gives the switch the program with the cache in front, writes its entries, installs what the
    /// detector reports, and does the changes that lines on standard input ask for, each with the
    /// barrier around it. It prints a line that begins with `ready` when it does so, and ends with
    /// totals on SIGINT or SIGTERM.
    Keep(Box<keep::Arguments>),
}

impl Command {
    /// Whether a signal is how the command usually ends.
    pub(crate) fn ends_by_signal(&self) -> bool {
        matches!(self, Command::Keep(_))
    }
}

/// Does it.
///
/// # Errors
/// If the program cannot be read.
pub(crate) fn execute(command: &Command, console: &Console) -> Result<()> {
    match command {
        Command::Inspect(arguments) => inspect::execute(arguments, console),
        Command::Cache(arguments) => cache::execute(arguments, console),
        Command::Warm(arguments) => warm::execute(arguments, console),
        Command::Keep(arguments) => keep::execute(arguments, console),
    }
}
