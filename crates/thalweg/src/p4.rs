//! P4 programs: `thalweg p4`, and what `replay` and `trace` do with `--p4`.

mod cache;
mod cache_report;
mod inspect;
mod keep;
mod lines;
mod replay;
mod trace;
mod warm;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::{CacheConfig, ClassifierKind, Config, Program, Target};

pub(crate) use cache_report::CacheReport;
pub(crate) use replay::replay;
pub(crate) use trace::trace;

use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::files;
use thalweg_command::seed;

/// Arguments for a P4 program instead of rules.
#[derive(Debug, clap::Args)]
pub(crate) struct ProgramArguments {
    /// A P4 program instead of rules: the JSON written by p4c's back end for BMv2
    #[arg(long, value_name = "FILE.json", conflicts_with = "rules")]
    p4: Option<PathBuf>,
    /// Entries for the program's tables: commands in the syntax of simple_switch_CLI
    #[arg(long, value_name = "FILE", requires = "p4", conflicts_with = "rules")]
    entries: Option<PathBuf>,
    /// Report the lines of --entries that cannot be read or done, and do the others
    #[arg(long, requires = "entries")]
    keep_going: bool,
    /// How the program's tables search entries, and its cache of walks searches segments
    #[arg(
        long = "p4-classifier",
        value_name = "NAME",
        default_value_t,
        requires = "p4",
        conflicts_with = "rules"
    )]
    classifier: ClassifierKind,
    /// The cache in front of the program
    #[arg(
        long = "p4-cache",
        value_enum,
        default_value = "off",
        requires = "p4",
        conflicts_with = "rules"
    )]
    cache: Cache,
    /// Size of that cache: segments, or behaviours of each pipeline
    #[arg(long = "p4-cache-entries", value_name = "N", requires = "cache", conflicts_with = "rules",
        value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    cache_entries: Option<u32>,
    /// Behaviours seen more often than this are remembered [default: 1]
    #[arg(
        long = "p4-threshold",
        value_name = "N",
        requires = "cache",
        conflicts_with = "rules"
    )]
    threshold: Option<u16>,
}

/// Port numbers of v1model, which have nine bits.
pub(crate) const PORTS: std::ops::RangeInclusive<u64> = 0..=511;

/// A cache in front of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Cache {
    /// None: the interpreter handles every packet
    Off,
    /// Walks through the pipelines, in segments
    Traversal,
    /// Whole behaviours that are hot (B-Cache)
    Behavior,
}

impl ProgramArguments {
    /// Whether a program was given.
    pub(crate) fn is_given(&self) -> bool {
        self.p4.is_some()
    }

    /// Loads the program with its entries, if one was given. Without `seed`, the seed of the
    /// packet hash tables is drawn from the operating system.
    ///
    /// # Errors
    /// If a file cannot be read, or contains something impossible.
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
            thalweg_command::p4_entries::write_to(&mut target, path, self.keep_going)?;
        }
        Ok(Some(target))
    }

    /// Checks that the cache's options fit its kind.
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
    let text = files::program(path)?;
    Program::from_json(&text).map_err(|error| bad_input(format!("{}: {error}", path.display())))
}

/// The sub-commands for P4 programs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show what a program's behaviour depends on, and what of it can be remembered
    ///
    /// Prints the match vectors of B-Cache in bits, and beside them the sound one; valid
    /// outputs, odd primitives and compound actions; where a remembered behaviour must stop,
    /// and why.
    Inspect(inspect::Arguments),
    /// Put a cache of behaviours, and a detector of hot ones, in front of a program
    ///
    /// The output is again BMv2's JSON, with two additions: an exact table over the sound
    /// match vector, whose hits skip ingress, and registers that count misses. A controller
    /// fills the table from the digests `bcache.report`.
    Cache(cache::Arguments),
    /// Write the entries that such a cache has after a capture, as commands
    ///
    /// For a switch without a controller to fill the table, or without P4Runtime. The commands
    /// are those of simple_switch_CLI. They are right as long as the program's own entries are
    /// those given here.
    Warm(warm::Arguments),
    /// Act as the controller of a switch that runs a program with such a cache, and fill it
    ///
    /// It gives the switch the program with the cache in front, writes its entries, and
    /// installs what the detector reports. It also does the changes given by lines on standard
    /// input, each with the barrier around it. It prints a line that begins with `ready` once
    /// it is running, and ends with totals on SIGINT or SIGTERM.
    Keep(Box<keep::Arguments>),
}

impl Command {
    /// Whether the command usually ends by a signal.
    pub(crate) fn ends_by_signal(&self) -> bool {
        matches!(self, Command::Keep(_))
    }
}

/// Executes a sub-command.
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
