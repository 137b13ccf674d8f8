//! The thalweg program: a virtual switch whose caches are never stale.
//!
//! Each sub-command is one file or folder with its `Arguments` and an `execute`, which gets
//! them and the [`Console`]. All commands share these rules:
//!
//! 1. With `--json`, standard output carries one object and nothing else.
//! 2. Progress goes to standard error, and only if that is a terminal; `NO_COLOR` is honoured.
//! 3. The exit status is 0 on success, 2 on bad usage or input ([`failure::bad_input`]), and 1
//!    on other failures. A reader that goes away (`| head`) is no failure.
//! 4. Ctrl-C and SIGTERM leave no half-written file ([`interrupt`]).

mod captures;
mod change_text;
mod counters;
mod ctl;
mod demo;
mod explain;
mod generate;
mod manual;
mod p4;
mod question;
mod replay;
mod run;
mod signals;
mod top;
mod trace;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use thalweg_command::allocator::{Allocator, keep_little_free_memory};
use thalweg_command::console::Console;
use thalweg_command::{failure, interrupt};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// A virtual switch whose caches are never stale.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
#[command(after_help = "Start with `thalweg demo`: it needs no privileges and no files.")]
struct Arguments {
    /// Print one JSON object on standard output, and nothing else there
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what the switch does, with nothing to set up
    Demo(demo::Arguments),
    /// Run the switch in the foreground
    ///
    /// It prints a line that begins with `ready` when it forwards packets. On SIGHUP it reads
    /// the configuration and rules again; on SIGUSR1 it prints its state; on SIGINT or SIGTERM
    /// it prints totals and ends. If an interface is deleted, the switch attaches to it again
    /// when an interface of that name appears.
    Run(run::Arguments),
    /// Ask a running switch, or change it
    ///
    /// The switch is `thalweg run` with a section `control`, or the daemon in ovs-vswitchd's
    /// place. The command `list-commands` lists what it can be asked.
    Ctl(ctl::Arguments),
    /// Show a running switch live: hit rates, drops, ports, busy entries
    ///
    /// The switch is one that `thalweg ctl` can ask. `?` shows the keys. With --once or --json
    /// it prints one picture and ends.
    Top(thalweg_top::TopArguments),
    /// Run in ovs-vswitchd's place: configured by OVSDB, driven by Open vSwitch's tools
    ///
    /// Takes the arguments of ovs-vswitchd, and does the same when its own name is that.
    #[command(disable_help_flag = true)]
    Vswitchd {
        /// Arguments of ovs-vswitchd; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Send a capture through the switch
    ///
    /// The caches and the interpreter answer every packet, and their answers are compared;
    /// with --p4, only the caches answer. At the end it prints what was sent, what was dropped
    /// and why, the ways through the tables that cache entries took, and the counters of
    /// rules, tables and groups. With --json it prints all of them.
    Replay(replay::Arguments),
    /// Explain what happens to one packet
    ///
    /// Prints the tables it visits, the rule that matches in each and the bits that decided
    /// it; then the cache entry that it makes, and what the switch does with the packet.
    Trace(trace::Arguments),
    /// Explain each bit in the mask of a packet's cache entry, and which changes would affect
    /// the entry
    ///
    /// Lists, for each field of the mask, the steps that needed it: table, rule, and whether
    /// the lookup or the rule's actions read it. Then, for each read, the kinds of change that
    /// would affect it. With --pcap it explains the entries that a capture leaves behind, and
    /// says when a change last affected each.
    Explain(explain::Arguments),
    /// Simulate a data-centre network whose switches cache virtual-to-physical addresses
    ///
    /// A plan names fabrics, traffic, schemes and cache sizes. Runs are spread over the
    /// processors. Each finished run is kept, so a stopped command can continue.
    Simulate(thalweg_simulate::Arguments),
    /// Make rules, pipelines, traffic and changes from a seed
    Generate(generate::Arguments),
    /// Analyse P4 programs
    #[command(subcommand)]
    P4(p4::Command),
    /// Measure performance; the baseline is always one of the rows
    #[command(subcommand)]
    Bench(thalweg_bench::Command),
    /// Write man pages, and the reference of the configuration
    Man(manual::ManArguments),
    /// Print a shell's completion script
    Completions(manual::CompletionsArguments),
}

impl Command {
    /// Whether the command usually ends by a signal and so catches signals itself.
    fn ends_by_signal(&self) -> bool {
        match self {
            Command::Run(_) | Command::Vswitchd { .. } | Command::Top(_) => true,
            Command::P4(command) => command.ends_by_signal(),
            _ => false,
        }
    }
}

/// The name under which the program is the daemon.
const DAEMON: &str = "ovs-vswitchd";

fn main() -> ExitCode {
    keep_little_free_memory();
    let mut given = std::env::args_os();
    let name = given.next().unwrap_or_default();
    if Path::new(&name)
        .file_name()
        .is_some_and(|name| name == DAEMON)
    {
        return thalweg_vswitchd::run(given);
    }
    let arguments = Arguments::parse();
    let console = Console::new(arguments.json);
    if !arguments.command.ends_by_signal()
        && let Err(error) = interrupt::catch()
    {
        return failure::report(&error);
    }
    let outcome = match &arguments.command {
        Command::Vswitchd { arguments } => return thalweg_vswitchd::run(arguments.clone()),
        Command::Demo(arguments) => demo::execute(arguments, &console),
        Command::Run(arguments) => run::execute(arguments, &console),
        Command::Ctl(arguments) => ctl::execute(arguments, &console),
        Command::Top(arguments) => top::execute(arguments, &console),
        Command::Replay(arguments) => replay::execute(arguments, &console),
        Command::Trace(arguments) => trace::execute(arguments, &console),
        Command::Explain(arguments) => explain::execute(arguments, &console),
        Command::Simulate(arguments) => thalweg_simulate::execute(arguments, &console),
        Command::Generate(arguments) => generate::execute(arguments, &console),
        Command::P4(command) => p4::execute(command, &console),
        Command::Bench(command) => thalweg_bench::execute(command, &console),
        Command::Man(folder) => manual::man::<Arguments>(folder),
        Command::Completions(shell) => manual::completions::<Arguments>(shell),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
