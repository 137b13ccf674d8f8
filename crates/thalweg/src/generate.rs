//! `thalweg generate`: makes rules, pipelines, traffic and changes from a seed.
//!
//! Other commands and programs read the generated files: rules, groups and changes in
//! `ovs-ofctl` syntax, filters in ClassBench's, profiles of filters as TOML, captures as pcap.
//! The same arguments give the same bytes. `traffic` and `changes` fit the pipeline that
//! `pipeline` writes for the same pipeline arguments and seed.

mod changes;
mod destination;
mod p4_entries;
mod pipeline;
mod profile;
mod rules;
mod traffic;

use anyhow::Result;

use thalweg_command::console::Console;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// One table of rules that look like an access list, a firewall, IP chains or a switch's
    Rules(rules::Arguments),
    /// The profile of a set of rules, to be edited and given to `rules --profile`
    Profile(profile::Arguments),
    /// The rules of a whole pipeline of tables
    Pipeline(pipeline::Arguments),
    /// Packets of flows through such a pipeline, as pcap
    Traffic(traffic::Arguments),
    /// Changes of such a pipeline's rules, each at a packet position
    Changes(changes::Arguments),
    /// Entries and packets for the P4 program of B-Cache's four cases
    P4Entries(p4_entries::Arguments),
}

/// Generates the chosen files.
///
/// # Errors
/// If the requested sizes are impossible, or the output cannot be written.
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
