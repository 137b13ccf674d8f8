//! Developer commands: `cargo xtask <command>`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use xtask::workspace::Workspace;
use xtask::{
    autotest, ci, controllers, dbsp, differential, fuzz, ovs, results, switch_tests, test, tidy,
};

#[derive(Parser)]
#[command(about = "Developer commands of the workspace")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run all tests, in release mode, with the real clients and the shared data.
    Test {
        /// Leave out the real clients and the shared data, and fuzz for one second only.
        #[arg(long)]
        quick: bool,
        /// Also test `extras/dbsp`, which takes many minutes to build.
        #[arg(long)]
        dbsp: bool,
        /// Run all of Open vSwitch's own tests that pass, not only a sample of them.
        #[arg(long)]
        all_autotests: bool,
    },
    /// Check formatting, lints, documentation and tidy.
    Ci,
    /// Check the house rules that a program can check.
    Tidy,
    /// Check and test `extras/dbsp` (KAIRO as published, on its engine), or measure it.
    Dbsp(dbsp::Arguments),
    /// Replay the committed corpus of each fuzz target, then mutate it.
    Fuzz {
        /// Seconds to mutate each target.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        /// The seed of the mutations.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Guide by coverage, under libFuzzer with AddressSanitizer. Needs a nightly compiler.
        #[arg(long)]
        guided: bool,
        /// One target; all if absent.
        target: Option<String>,
    },
    /// Run Open vSwitch's own tests on the daemon, in ovs-vswitchd's place.
    Autotest(autotest::Arguments),
    /// Run real controllers of P4Runtime and OpenFlow, and mininet, against a running switch.
    Controllers,
    /// Run os-ken's switch tests of OpenFlow 1.3 against a running switch.
    SwitchTests,
    /// Render the pages of measured results from their JSON files.
    Results(results::Arguments),
    /// Compare our answers with Open vSwitch's on random rules and packets.
    Differential {
        /// Number of rule files.
        #[arg(long, default_value_t = 300)]
        count: u64,
        /// The seed of the first file; each later file adds one.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Packets for each file.
        #[arg(long, default_value_t = 20)]
        packets_per_file: usize,
        /// Number of unexplained differences after which the run ends.
        #[arg(long, default_value_t = 10)]
        limit: usize,
        /// The folder for unexplained differences; by default in the build folder.
        #[arg(long)]
        folder: Option<PathBuf>,
    },
    /// Ask a private Open vSwitch what it does with packets under a file of rules.
    OvsTrace {
        /// A file in `ovs-ofctl add-flows` syntax.
        rules: PathBuf,
        /// Packets from the Ethernet header on, in hexadecimal.
        #[arg(required = true)]
        packets: Vec<String>,
        /// The port on which the packets arrive.
        #[arg(long, default_value_t = 1)]
        in_port: u16,
        /// Number of ports on the bridge.
        #[arg(long, default_value_t = 8)]
        ports: u16,
        /// A file in `ovs-ofctl add-groups` syntax.
        #[arg(long)]
        groups: Option<PathBuf>,
        /// Trace every packet this many times, and print the traces per second.
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

/// Runs one command; `false` means that it ran and found a fault.
///
/// It is one match, an arm for each command.
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Test {
            quick,
            dbsp,
            all_autotests,
        } => test::run(
            &Workspace::load()?,
            test::Extent {
                is_quick: quick,
                has_dbsp: dbsp,
                has_all_autotests: all_autotests,
            },
        ),
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
                is_built: false,
            },
        ),
        Command::Autotest(arguments) => autotest::run(&Workspace::load()?, &arguments),
        Command::Controllers => controllers::run(&Workspace::load()?, false),
        Command::SwitchTests => switch_tests::run(&Workspace::load()?),
        Command::Results(arguments) => results::run(&Workspace::load()?, &arguments),
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
