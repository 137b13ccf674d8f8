//! `thalweg generate rules`: writes one table of rules.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use thalweg_workload::{
    Action, Extra, Filter, filter_rules, generate_openflow, parse_filters, rules_text,
};

use super::destination::Destination;
use super::profile;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::files::unpacked;
use thalweg_command::number::{counted, number};
use thalweg_command::workload::{DEFAULT_SEED, refused};

/// Most filters; there are not enough priorities for many more.
const MAX_FILTERS: u64 = 1_000_000;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What the filters look like: acl1, fw1, ipc1 (IPv4), acl6, fw6, ipc6 (IPv6), or a file
    /// from `generate profile`; or openflow, for rules with ports, MAC addresses and VLANs
    #[arg(
        long,
        value_name = "NAME|FILE.toml",
        default_value = "acl1",
        conflicts_with = "from"
    )]
    profile: String,
    /// Number of filters; each becomes a rule, or several if it has port ranges [default:
    /// 1000]
    #[arg(long, value_name = "N", value_parser = number::<u64>(1..=MAX_FILTERS))]
    count: Option<u64>,
    /// Take the filters from a ClassBench file (.xz is unpacked), at most --count of them
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Rules)]
    format: Format,
    /// The table of the rules
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<u8>(..=254))]
    table: u8,
    /// Filter N sends to port 1 + N modulo this number of ports; 0 makes all rules drop
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = number::<u32>(..))]
    ports: u32,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    #[command(flatten)]
    destination: Destination,
}

/// Output formats of filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// `ovs-ofctl add-flows` syntax
    Rules,
    /// ClassBench syntax
    Classbench,
}

/// The profile of rules that are not filters.
const OPENFLOW: &str = "openflow";

impl Arguments {
    fn count(&self) -> usize {
        self.count.unwrap_or(1_000) as usize
    }

    /// The actions of filter number `index`.
    fn actions(&self, index: usize) -> Vec<Action> {
        match self.ports {
            0 => Vec::new(),
            ports => vec![Action::Output(1 + index as u32 % ports)],
        }
    }
}

/// Writes the rules.
///
/// # Errors
/// If the input file has errors, there are too few priorities, or the output cannot be
/// written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    if arguments.profile == OPENFLOW {
        return write_openflow(arguments, console);
    }
    let (filters, origin) = filters(arguments)?;
    let (text, count) = match arguments.format {
        Format::Classbench => {
            let lines = filters.iter().map(|filter| format!("{filter}\n"));
            (lines.collect(), filters.len())
        }
        Format::Rules => {
            let actions = |index| arguments.actions(index);
            let rules = filter_rules(&filters, arguments.table, Extra::Ignore, actions);
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
        Format::Rules => format!(
            "{} of {}; {origin}",
            counted(count, "rule"),
            counted(filters.len(), "filter")
        ),
        Format::Classbench => format!("{}; {origin}", counted(count, "filter")),
    };
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}

/// Writes rules that are not filters.
fn write_openflow(arguments: &Arguments, console: &Console) -> Result<()> {
    if arguments.format == Format::Classbench {
        let what = "--format classbench: these rules match more than filters can say; \
                    use --format rules, or another --profile";
        return Err(bad_input(what));
    }
    let rules = generate_openflow(arguments.count(), arguments.seed);
    let mut rules = rules.map_err(|error| refused("--count", &error))?;
    for (index, rule) in rules.iter_mut().enumerate() {
        rule.table = arguments.table;
        rule.actions = arguments.actions(index);
    }
    let (count, seed) = (rules.len(), arguments.seed);
    let origin = format!("in the manner of {OPENFLOW}, seed {seed}");
    let summary = json!({
        "origin": origin,
        "seed": seed,
        "rules": count,
        "format": "rules",
    });
    let text = format!("# {origin}\n{}", rules_text(&rules));
    let sentence = format!("{}; {origin}", counted(count, "rule"));
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}

/// The filters, and a description of their source.
fn filters(arguments: &Arguments) -> Result<(Vec<Filter>, String)> {
    if let Some(path) = &arguments.from {
        let name = path.display().to_string();
        let mut filters = parse_filters(&name, &unpacked(path)?).map_err(bad_input)?;
        let limit = arguments.count.map_or(usize::MAX, |count| count as usize);
        filters.truncate(limit);
        return Ok((filters, format!("from {name}")));
    }
    let shape = profile::read(&arguments.profile)?;
    let filters = shape.filters(arguments.count(), arguments.seed);
    let name = &arguments.profile;
    let seed = arguments.seed;
    Ok((filters, format!("in the manner of {name}, seed {seed}")))
}
