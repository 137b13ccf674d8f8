//! `thalweg generate rules`.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use thalweg_workload::{
    Action, Extra, Filter, Profile, filter_rules, generate_filters, parse_filters, rules_text,
};

use super::destination::Destination;
use crate::console::Console;
use crate::failure::bad_input;
use crate::input::unpacked;
use crate::number::number;
use crate::workload::{DEFAULT_SEED, refused};

/// Filters that can be asked for; their priorities would not suffice for many more.
const MAX_FILTERS: u64 = 1_000_000;

/// What the command takes.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What the filters are like
    #[arg(long, value_enum, default_value_t = Manner::Acl1, conflicts_with = "from")]
    profile: Manner,
    /// How many filters; one with port ranges becomes several rules
    #[arg(long, value_name = "N", value_parser = number::<u64>(1..=MAX_FILTERS))]
    count: Option<u64>,
    /// Take the filters from a ClassBench file (.xz is unpacked), not more than --count
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// As what the filters are written
    #[arg(long, value_enum, default_value_t = Format::Rules)]
    format: Format,
    /// The table that the rules are for
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<u8>(..=254))]
    table: u8,
    /// Filter N sends to port 1 + N modulo this many ports; 0 makes all rules drop
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = number::<u32>(..))]
    ports: u32,
    /// The seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    #[command(flatten)]
    destination: Destination,
}

/// Rule sets to imitate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Manner {
    /// An access list
    Acl1,
    /// A firewall
    Fw1,
    /// IP chains
    Ipc1,
}

/// Ways to write filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// `ovs-ofctl add-flows` syntax
    Rules,
    /// ClassBench's
    Classbench,
}

/// Writes the rules.
///
/// # Errors
/// If the file to read has faults, or there are too few priorities, or nothing can be written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let (filters, origin) = filters(arguments)?;
    let (text, count) = match arguments.format {
        Format::Classbench => {
            let lines = filters.iter().map(|filter| format!("{filter}\n"));
            (lines.collect(), filters.len())
        }
        Format::Rules => {
            let (table, ports) = (arguments.table, arguments.ports);
            let actions = |index: usize| match ports {
                0 => Vec::new(),
                ports => vec![Action::Output(1 + index as u32 % ports)],
            };
            let rules = filter_rules(&filters, table, Extra::Ignore, actions);
            let rules = rules.map_err(|error| refused("--count", &error))?;
            (format!("# {origin}\n{}", rules_text(&rules)), rules.len())
        }
    };
    let format = match arguments.format {
        Format::Rules => "rules",
        Format::Classbench => "classbench",
    };
    let summary = json!({
        "origin": origin,
        "seed": arguments.seed,
        "filters": filters.len(),
        "rules": count,
        "format": format,
    });
    let sentence = match arguments.format {
        Format::Rules => format!("{count} rules of {} filters; {origin}", filters.len()),
        Format::Classbench => format!("{count} filters; {origin}"),
    };
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}

/// The filters, and where they are from.
fn filters(arguments: &Arguments) -> Result<(Vec<Filter>, String)> {
    if let Some(path) = &arguments.from {
        let name = path.display().to_string();
        let mut filters = parse_filters(&name, &unpacked(path)?).map_err(bad_input)?;
        let limit = arguments.count.map_or(usize::MAX, |count| count as usize);
        filters.truncate(limit);
        return Ok((filters, format!("from {name}")));
    }
    let (profile, name) = match arguments.profile {
        Manner::Acl1 => (Profile::Acl1, "acl1"),
        Manner::Fw1 => (Profile::Fw1, "fw1"),
        Manner::Ipc1 => (Profile::Ipc1, "ipc1"),
    };
    let count = arguments.count.unwrap_or(1_000) as usize;
    let filters = generate_filters(profile, count, arguments.seed);
    let seed = arguments.seed;
    Ok((filters, format!("in the manner of {name}, seed {seed}")))
}
