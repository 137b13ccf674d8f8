//! `thalweg bench`: measures and prints tables; the baseline is always one of the rows.

mod attack;
mod behavior;
mod classify;
mod clock;
mod conjunction;
mod conntrack;
mod end_to_end;
mod forward;
mod load;
mod memory;
mod openflow;
mod picture;
mod ports;
mod private_switch;
mod restart;
mod spread;
mod tunnel;
mod update;
mod vector_filter;
mod workers;

use anyhow::Result;
use clap::Subcommand;

use thalweg_command::console::Console;

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Gains and costs of remembering the behaviours of P4 programs (B-Cache's Figures 9 and
    /// 10)
    Behavior(behavior::Arguments),
    /// The cost of a lookup, by classifier, set of rules and traffic
    Classify(classify::Arguments),
    /// The cost of conjunctive matches: memory, a packet without a cache, a change of one clause
    Conjunction(conjunction::Arguments),
    /// The cost of tracking connections: of a packet, of a connection, and of its end
    Conntrack(conntrack::Arguments),
    /// The cost of forwarding a packet, by what the caches have of it
    Forward(forward::arguments::Arguments),
    /// The cost of reading and inserting many rules, in time and in memory
    Load(load::Arguments),
    /// The speed at which a switch follows an OpenFlow client, with Open vSwitch beside it
    Openflow(openflow::Arguments),
    /// The time and memory that ports take in a switch that follows a database, with Open vSwitch
    /// beside it
    Ports(ports::Arguments),
    /// The time until a switch that was killed forwards again as before
    Restart(restart::Arguments),
    /// The cost of putting a packet into a tunnel, and of taking it out
    Tunnel(tunnel::Arguments),
    /// The time from a change of one rule to the last old answer, by maintainer and cache size
    Update(update::Arguments),
}

/// Runs a benchmark.
///
/// # Errors
/// If the measurement cannot be made or printed.
pub fn execute(command: &Command, console: &Console) -> Result<()> {
    match command {
        Command::Behavior(arguments) => behavior::execute(arguments, console),
        Command::Classify(arguments) => classify::execute(arguments, console),
        Command::Conjunction(arguments) => conjunction::execute(arguments, console),
        Command::Conntrack(arguments) => conntrack::execute(arguments, console),
        Command::Forward(arguments) => forward::execute(arguments, console),
        Command::Load(arguments) => load::execute(arguments, console),
        Command::Openflow(arguments) => openflow::execute(arguments, console),
        Command::Ports(arguments) => ports::execute(arguments, console),
        Command::Restart(arguments) => restart::execute(arguments, console),
        Command::Tunnel(arguments) => tunnel::execute(arguments, console),
        Command::Update(arguments) => update::execute(arguments, console),
    }
}
