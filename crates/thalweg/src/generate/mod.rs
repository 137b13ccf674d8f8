//! `thalweg generate`: rules, pipelines, traffic and changes, from a seed.
//!
//! What is generated is files that other commands and other programs read: rules, groups and
//! changes in `ovs-ofctl` syntax, filters as ClassBench writes them, profiles of filters as TOML,
//! captures as pcap. The same
//! arguments give the same bytes; `traffic` and `changes` with the same pipeline arguments and
//! seed fit the pipeline that `pipeline` writes.

mod changes;
mod destination;
mod p4_entries;
mod pipeline;
mod profile;
mod rules;
mod traffic;

use anyhow::Result;

use crate::console::Console;

/// What the command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// One table of rules that look like an access list, a firewall, IP chains or a switch's
    Rules(rules::Arguments),
    /// What sets of rules look like, to be changed and given to `rules --profile`
    Profile(profile::Arguments),
    /// The rules of a whole pipeline of tables
    Pipeline(pipeline::Arguments),
    /// Packets of flows through such a pipeline, as pcap
    Traffic(traffic::Arguments),
    /// Changes of such a pipeline's rules, each at a packet position
    Changes(changes::Arguments),
    /// Entries, and packets, for the P4 program of B-Cache's four cases
    P4Entries(p4_entries::Arguments),
}

/// Generates one of them.
///
/// # Errors
/// If there is none of the sizes asked for, or it cannot be written.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    match &arguments.what {
        What::Rules(arguments) => rules::execute(arguments, console),
        What::Profile(arguments) => profile::execute(arguments, console),
        What::Pipeline(arguments) => pipeline::execute(arguments, console),
        What::Traffic(arguments) => traffic::execute(arguments, console),
        What::Changes(arguments) => changes::execute(arguments, console),
        What::P4Entries(arguments) => p4_entries::execute(arguments, console),
    }
}
