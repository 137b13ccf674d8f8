//! Developer commands: `cargo xtask <command>`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use xtask::workspace::Workspace;
use xtask::{ci, dbsp, differential, fuzz, ovs, p4runtime, test, tidy};

#[derive(Parser)]
#[command(about = "Developer commands of the workspace")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All tests, in release mode, with the real clients and the shared data.
    Test {
        /// Leave out the real clients and the shared data, and fuzz for a second only.
        #[arg(long)]
        quick: bool,
        /// Test `extras/dbsp` as well, which takes many minutes to build.
        #[arg(long)]
        dbsp: bool,
    },
    /// Formatting, lints, documentation and tidy.
    Ci,
    /// The rules of the house that a program can check.
    Tidy,
    /// Check and test `extras/dbsp`: KAIRO as published, on its engine; or measure it.
    Dbsp(dbsp::Arguments),
    /// Replay the committed corpus of each fuzz target, then mutate it.
    Fuzz {
        /// How long to mutate, for each target.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The seed of the mutations.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Guided by coverage: under libFuzzer with AddressSanitizer. Needs a nightly compiler.
        #[arg(long)]
        guided: bool,
        /// One target; all of them otherwise.
        target: Option<String>,
    },
    /// Real P4Runtime controllers against a running switch.
    P4runtime,
    /// Compare our answers with Open vSwitch's on random rules and packets.
    Differential {
        /// Files of rules.
        #[arg(long, default_value_t = 300)]
        count: u64,
        /// The seed of the first file; each further one's is one more.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Packets for each file.
        #[arg(long, default_value_t = 20)]
        packets_per_file: usize,
        /// Unexplained differences after which the run ends.
        #[arg(long, default_value_t = 10)]
        limit: usize,
        /// Where unexplained differences are written; by default in the build folder.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
    /// Ask a private Open vSwitch what it does with packets under the rules of a file.
    OvsTrace {
        /// A file in `ovs-ofctl add-flows` syntax.
        rules: PathBuf,
        /// Packets from the Ethernet header on, in hexadecimal.
        #[arg(required = true)]
        packets: Vec<String>,
        /// The port on which the packets arrive.
        #[arg(long, default_value_t = 1)]
        in_port: u16,
        /// How many ports the bridge has.
        #[arg(long, default_value_t = 8)]
        ports: u16,
        /// A file in `ovs-ofctl add-groups` syntax.
        #[arg(long)]
        groups: Option<PathBuf>,
        /// Trace every packet so many times, and print how many traces a second that makes.
        #[arg(long, default_value_t = 1)]
        repeat: u32,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; `false` means that it ran and found something wrong.
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Test { quick, dbsp } => {
            let extent = test::Extent {
                is_quick: quick,
                has_dbsp: dbsp,
            };
            test::run(&Workspace::load()?, extent)
        }
        Command::Ci => ci::run(&Workspace::load()?),
        Command::Tidy => tidy::run(&Workspace::load()?),
        Command::Dbsp(arguments) => dbsp::run(&Workspace::load()?, &arguments),
        Command::Fuzz {
            seconds,
            seed,
            guided,
            target,
        } => fuzz::run(
            &Workspace::load()?,
            &fuzz::Config {
                seconds,
                seed,
                target,
                is_guided: guided,
            },
        ),
        Command::P4runtime => p4runtime::run(&Workspace::load()?, false),
        Command::Differential {
            count,
            seed,
            packets_per_file,
            limit,
            folder,
        } => {
            let folder = match folder {
                Some(folder) => folder,
                None => differential::default_folder(&Workspace::load()?),
            };
            differential::run(&differential::Config {
                count,
                seed,
                packets_per_file,
                limit,
                folder,
            })
        }
        Command::OvsTrace {
            rules,
            packets,
            in_port,
            ports,
            groups,
            repeat,
        } => {
            let request = ovs::TraceRequest {
                rules,
                groups,
                packets,
                in_port,
                ports,
                repeat,
            };
            ovs::print_traces(&request)?;
            Ok(true)
        }
    }
}
