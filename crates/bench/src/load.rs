//! `thalweg bench load`: measures the time and memory of reading and inserting many rules.
//!
//! It generates rules like those of access lists, firewalls or IP chains, and writes them as
//! text. Each sample does what `thalweg run` does at its start. It reads the text, inserts the
//! rules into an empty pipeline as one change, drops the parsed rules, and returns the freed
//! memory to the system. The time to load is the thread's processor time for all of this.
//! Memory is given in two ways. One is the size of the rules according to the pipeline. The
//! other is the growth of a process at the end of its first sample, without the text. Free
//! memory left from generating would distort the latter. So another process measures it, which
//! reads the text from a file.

use std::collections::HashSet;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thalweg_command::allocator::release_free_memory;
use thalweg_packet::{FieldId, Instant};
use thalweg_pipeline::text;
use thalweg_pipeline::{Change, Config, Flow, Operation, Pipeline};
use thalweg_workload::{Action, Extra, Profile, filter_rules, generate_filters, rules_text};

use super::clock::processor_time_ns;
use super::memory::resident_bytes;
use super::spread::Spread;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::{counted, number};
use thalweg_command::workload::DEFAULT_SEED;
use thalweg_command::{files, input};

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Number of rules to generate
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = number::<usize>(..))]
    rules: usize,
    /// What the rules look like
    #[arg(long, value_enum, default_value_t = Kind::Acl1)]
    profile: Kind,
    /// Rules from a file, instead of generated ones
    #[arg(long, value_name = "FILE")]
    rules_file: Option<PathBuf>,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<usize>(1..))]
    samples: usize,
    /// Seed of the rules
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
}

/// ClassBench's kinds of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Kind {
    /// Access lists
    Acl1,
    /// Firewalls
    Fw1,
    /// IP chains
    Ipc1,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    rows: Vec<Row>,
}

#[derive(Serialize, Debug)]
struct Row {
    /// The profile, or the file.
    case: String,
    rules: usize,
    masks: usize,
    text_bytes: usize,
    parse_ms: Spread,
    insert_ms: Spread,
    release_ms: Spread,
    total_ms: Spread,
    memory_bytes: usize,
    /// Memory according to the pipeline.
    bytes_per_rule: f64,
    /// Growth of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes_per_rule: Option<f64>,
}

/// Measures and prints.
///
/// # Errors
/// If the rules cannot be read or generated, or the result cannot be printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    if arguments.samples == 0 {
        return Err(bad_input("--samples 0: ask for one at least"));
    }
    let (case, text) = rules(arguments)?;
    let mut row = measure(case, &text, arguments, console)?;
    if arguments.rules_file.is_none() {
        row.resident_bytes_per_rule = Some(resident_elsewhere(&text)?);
    }
    console.headline("Cost of loading rules, processor time")?;
    console.print(&describe(&row))?;
    console.print_json(&Report {
        command: "bench load",
        seed: arguments.seed,
        samples: arguments.samples,
        rows: vec![row],
    })
}

/// The name of the rules, and their text.
fn rules(arguments: &Arguments) -> Result<(String, String)> {
    if let Some(path) = &arguments.rules_file {
        let name = path.display().to_string();
        return Ok((name, files::contents(path)?));
    }
    let (name, profile) = match arguments.profile {
        Kind::Acl1 => ("acl1", Profile::Acl1),
        Kind::Fw1 => ("fw1", Profile::Fw1),
        Kind::Ipc1 => ("ipc1", Profile::Ipc1),
    };
    Ok((name.to_owned(), generate(profile, arguments)?))
}

/// Generates the requested number of rules. A filter becomes one rule or more, so some filters
/// are left out.
fn generate(profile: Profile, arguments: &Arguments) -> Result<String> {
    let wanted = arguments.rules;
    let filters = generate_filters(profile, wanted, arguments.seed);
    let sizes = filters
        .iter()
        .map(|filter| filter.matches(Extra::Ignore).len());
    let total: usize = sizes.sum();
    let is_kept = |index: &usize| {
        let share = |index: usize| index as u128 * wanted as u128 / total.max(1) as u128;
        // A few more than needed on average, because the filters' sizes vary.
        share(*index) != share(index + 1) || index.is_multiple_of(50)
    };
    let kept: Vec<_> = (0..filters.len())
        .filter(is_kept)
        .map(|index| filters[index])
        .collect();
    let actions = |index: usize| match index % 8 {
        0 => vec![],
        port => vec![Action::Output(port as u32)],
    };
    let rules = filter_rules(&kept, 0, Extra::Ignore, actions);
    let mut rules = rules.map_err(|error| bad_input(format!("--rules {wanted}: {error}")))?;
    rules.truncate(wanted);
    Ok(rules_text(&rules))
}

/// Growth of a fresh process per rule.
fn resident_elsewhere(text: &str) -> Result<f64> {
    #[derive(Deserialize)]
    struct Said {
        rows: [SaidRow; 1],
    }
    #[derive(Deserialize)]
    struct SaidRow {
        resident_bytes_per_rule: f64,
    }
    // A private folder, which only this user can write to and which is removed with this
    // value.
    let folder = tempfile::Builder::new()
        .prefix("thalweg-bench-load-")
        .tempdir()
        .context("making a temporary folder")?;
    let path = folder.path().join("generated.rules");
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--json", "bench", "load", "--samples", "1", "--rules-file"]);
    let output = command.arg(&path).output();
    let closed = folder.close();
    closed.context("removing the temporary folder")?;
    let output = output.context("starting another process of this program")?;
    let said: Said =
        serde_json::from_slice(&output.stdout).context("measuring in another process")?;
    Ok(said.rows[0].resident_bytes_per_rule)
}

fn measure(case: String, text: &str, arguments: &Arguments, console: &Console) -> Result<Row> {
    let progress = console.progress(arguments.samples as u64);
    let (mut parse, mut insert, mut release) = (Vec::new(), Vec::new(), Vec::new());
    let mut total = Vec::new();
    let mut resident = None;
    let (mut rules, mut masks, mut memory_bytes) = (0, 0, 0);
    for sample in 0..arguments.samples {
        let resident_before = resident_bytes();
        let start = processor_time_ns();
        let read = text::parse_rules(&case, text).map_err(input::faults)?;
        let change = read.into_change();
        let parse_ns = processor_time_ns() - start;
        let start = processor_time_ns();
        let mut pipeline = Pipeline::new(config(change.operations.len()));
        let applied = pipeline.apply(&change, Instant::ZERO);
        let delta = applied.map_err(|error| {
            input::refused(
                &change,
                &error,
                &arguments.rules_file,
                &mut text::Parser::new(),
            )
        })?;
        pipeline.reclaim(delta.version);
        let insert_ns = processor_time_ns() - start;
        if sample == 0 {
            masks = mask_count(&change);
        }
        let start = processor_time_ns();
        drop(black_box((delta, change)));
        release_free_memory();
        let release_ns = processor_time_ns() - start;
        if sample == 0 {
            resident = resident_before.zip(resident_bytes());
        }
        let ms = |ns: u64| ns as f64 / 1e6;
        parse.push(ms(parse_ns));
        insert.push(ms(insert_ns));
        release.push(ms(release_ns));
        total.push(ms(parse_ns + insert_ns + release_ns));
        rules = pipeline.rule_count(pipeline.version());
        memory_bytes = pipeline.memory_bytes();
        progress.inc(1);
    }
    progress.finish_and_clear();
    let per_rule = |bytes: usize| bytes as f64 / rules.max(1) as f64;
    Ok(Row {
        case,
        rules,
        masks,
        text_bytes: text.len(),
        parse_ms: Spread::of(&parse),
        insert_ms: Spread::of(&insert),
        release_ms: Spread::of(&release),
        total_ms: Spread::of(&total),
        memory_bytes,
        bytes_per_rule: per_rule(memory_bytes),
        resident_bytes_per_rule: resident
            .map(|(before, after)| per_rule(after.saturating_sub(before) as usize)),
    })
}

fn config(rules: usize) -> Config {
    let default = Config::default();
    Config {
        rules: default.rules.max(rules),
        ..default
    }
}

/// Number of sub-tables that the rules need.
fn mask_count(change: &Change) -> usize {
    let flows = change
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Add(flow) => Some(flow),
            _ => None,
        });
    let mask = |flow: &Flow| -> Vec<(FieldId, u128)> {
        let terms = flow.matching.terms().iter();
        terms.map(|term| (term.field, term.mask)).collect()
    };
    let masks: HashSet<_> = flows.map(|flow| (flow.table, mask(flow))).collect();
    masks.len()
}

fn describe(row: &Row) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "median", "min", "max"]);
    let times = [
        ("parse, ms", row.parse_ms),
        ("insert, ms", row.insert_ms),
        ("release, ms", row.release_ms),
        ("all, ms", row.total_ms),
    ];
    for (name, spread) in times {
        let numbers = [spread.median, spread.min, spread.max];
        let numbers = numbers.map(|number| format!("{number:.1}"));
        table.add_row([&[name.to_owned()], &numbers[..]].concat());
    }
    let (case, rules, masks, bytes) = (&row.case, row.rules, row.masks, row.bytes_per_rule);
    let resident = row.resident_bytes_per_rule;
    let resident = resident.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0}"));
    format!(
        "{case}: {} of {}, {} bytes of text\n{table}\n\
         bytes a rule: {bytes:.0} by the pipeline's account, {resident} by the process's growth",
        counted(rules, "rule"),
        counted(masks, "mask"),
        row.text_bytes
    )
}
