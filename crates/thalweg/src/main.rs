//! The thalweg program: a virtual switch whose caches are never stale.
//!
//! One file or folder a sub-command; each has its `Arguments` and an `execute`, which gets them
//! and the [`Console`]. What all commands share:
//!
//! 1. With `--json`, standard output carries one object and nothing else.
//! 2. Progress goes to standard error, and only when that is a terminal; `NO_COLOR` is honoured.
//! 3. The exit status is 0 on success, 2 on bad usage or input ([`failure::bad_input`]), and 1 on
//!    other failures. A reader that goes away (`| head`) is no failure.
//! 4. Ctrl-C and SIGTERM leave no half-written file ([`interrupt`]).

mod bench;
mod captures;
mod change_text;
mod console;
mod counters;
mod demo;
mod explain;
mod failure;
mod follow;
mod generate;
mod input;
mod interrupt;
mod lookups;
mod memory;
mod number;
mod output;
mod p4;
mod ports;
mod question;
mod replay;
mod report;
mod run;
mod seed;
mod simulate;
mod trace;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::console::Console;

#[global_allocator]
static ALLOCATOR: thalweg_io::Allocator = thalweg_io::Allocator;

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
    /// It prints a line that begins with `ready` when it forwards, reads configuration and rules
    /// again on SIGHUP, says how things are on SIGUSR1, and ends with totals on SIGINT or SIGTERM.
    /// An interface that is deleted is attached again when there is one of its name.
    Run(run::Arguments),
    /// Send a capture through the switch
    ///
    /// Every packet is answered by the caches and by the interpreter, and the answers are
    /// compared; with --p4 by the caches alone. At the end it says what was sent, what was dropped and why, which ways through the
    /// tables cache entries took, and what rules, tables and groups have counted; with --json all
    /// of them.
    Replay(replay::Arguments),
    /// Explain what happens to one packet
    ///
    /// The tables it visits, the rule that matches in each and the bits that decided it; then the
    /// cache entry that it makes, and what is done with it.
    Trace(trace::Arguments),
    /// Say why each bit is in the mask of a packet's cache entry, and what would touch the entry
    ///
    /// For each field of the mask the steps that needed it: table, rule, and whether the lookup or
    /// the rule's actions read it. Then, for each read, the kinds of change that would meet it.
    /// With --pcap the same of the entries that a capture leaves behind, and when a change was last
    /// found to affect each.
    Explain(explain::Arguments),
    /// Simulate a data-centre network whose switches cache virtual-to-physical addresses
    ///
    /// A plan names fabrics, traffic, schemes and sizes of caches. Its runs are spread over the
    /// processors; each that has ended is kept, so that a command that was stopped goes on.
    Simulate(simulate::Arguments),
    /// Make rules, pipelines, traffic and changes from a seed
    Generate(generate::Arguments),
    /// Analyse P4 programs
    #[command(subcommand)]
    P4(p4::Command),
    /// Measure, with the baseline always a row
    #[command(subcommand)]
    Bench(bench::Command),
}

impl Command {
    /// Whether a signal is how the command usually ends, so that it catches them itself.
    fn ends_by_signal(&self) -> bool {
        match self {
            Command::Run(_) => true,
            Command::P4(command) => command.ends_by_signal(),
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    thalweg_io::keep_little_free_memory();
    let arguments = Arguments::parse();
    let console = Console::new(arguments.json);
    if !arguments.command.ends_by_signal()
        && let Err(error) = interrupt::catch()
    {
        return failure::report(&error);
    }
    let outcome = match &arguments.command {
        Command::Demo(arguments) => demo::execute(arguments, &console),
        Command::Run(arguments) => run::execute(arguments, &console),
        Command::Replay(arguments) => replay::execute(arguments, &console),
        Command::Trace(arguments) => trace::execute(arguments, &console),
        Command::Explain(arguments) => explain::execute(arguments, &console),
        Command::Simulate(arguments) => simulate::execute(arguments, &console),
        Command::Generate(arguments) => generate::execute(arguments, &console),
        Command::P4(command) => p4::execute(command, &console),
        Command::Bench(command) => bench::execute(command, &console),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
