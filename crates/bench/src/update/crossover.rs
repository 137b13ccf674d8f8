//! Finds where a search for each new rule costs as much as a sweep over all entries.
//!
//! `incremental` searches for the entries that each rule of a change may affect. If rules are
//! many and entries few, examining every entry is cheaper. Here changes add more and more
//! rules of another pipeline, of the same kind but from another seed, to caches of one size.
//! Each change is followed once by searches and once by a sweep, in separate caches; the
//! result is the median of some runs. `datapath::Config::sweep_at` has the ratio at which the
//! two cost the same.

use anyhow::Result;
use serde::Serialize;
use thalweg_datapath::MaintainerKind;
use thalweg_pipeline::{Change, Flow, text};
use thalweg_workload::Pipeline;

use super::cache::{Effort, FilledCache};
use super::row::in_words;
use super::{Arguments, progress, scan};
use crate::spread::Spread;
use thalweg_command::console::Console;
use thalweg_command::report::{Table, format_count};

/// Default number of entries in the cache.
const ENTRIES: usize = 1_000;

/// New rules per entry, in quarters.
const QUARTERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Runs of each change, each in its own cache.
const RUNS: u64 = 5;

#[derive(Serialize, Debug)]
struct Row {
    entries: usize,
    new_rules: usize,
    search_us: Spread,
    sweep_us: Spread,
}

#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    pipeline: String,
    rules: usize,
    rows: Vec<Row>,
    scans: Vec<scan::Row>,
}

/// Measures and prints.
///
/// # Errors
/// If the flows do not make that number of entries, or the result cannot be printed.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let others = others(arguments)?;
    let sizes = arguments.entries(&[ENTRIES]);
    let steps = sizes.len() * QUARTERS.len() * RUNS as usize;
    let progress = progress(console, steps);
    let mut rows = Vec::new();
    for entries in sizes {
        for quarters in QUARTERS {
            let new_rules = entries * quarters / 4;
            if new_rules > others.len() {
                break;
            }
            progress.set_message(format!("{new_rules} new rules, {entries} entries"));
            let change = Change::adding(others[..new_rules].iter().cloned());
            let (mut search_us, mut sweep_us) = (Vec::new(), Vec::new());
            for run in 0..RUNS {
                let measure = |sweep_at| {
                    let effort = Effort {
                        sweep_at: Some(sweep_at),
                        seed: arguments.seed + run,
                        ..arguments.effort()?
                    };
                    until_right_us(&pipeline, entries, &effort, &change)
                };
                search_us.push(measure(usize::MAX)?);
                sweep_us.push(measure(0)?);
                progress.inc(1);
            }
            rows.push(Row {
                entries,
                new_rules,
                search_us: Spread::of(&search_us),
                sweep_us: Spread::of(&sweep_us),
            });
        }
    }
    progress.set_message("scans");
    let scans = scan::measure(arguments, &pipeline)?;
    progress.finish_and_clear();
    console.headline("Time until every entry is right after many new rules, processor time")?;
    console.print(&table(&rows).to_text())?;
    console.headline("Time to search for what a new rule affects, processor time")?;
    console.print(&scan::table(&scans).to_text())?;
    console.print_json(&Report {
        command: "bench update --crossover",
        seed: arguments.seed,
        pipeline: pipeline.name,
        rules: pipeline.rules.len(),
        rows,
        scans,
    })
}

/// The rules of another pipeline of this kind, as many as this one's, taken from all its
/// tables.
fn others(arguments: &Arguments) -> Result<Vec<Flow>> {
    let other = arguments.pipeline.generate(arguments.seed + 1_000)?;
    let rules = text::parse_rules("the other pipeline", &other.rules_text());
    let flows = rules
        .map_err(|errors| anyhow::anyhow!("{}", errors[0]))?
        .flows;
    // A stride coprime to the count takes each rule once.
    let stride = (flows.len() / 2..).find(|stride| is_coprime(*stride, flows.len()));
    let stride = stride.unwrap_or(1);
    let order = (0..flows.len()).map(|place| place * stride % flows.len());
    Ok(order.map(|place| flows[place].clone()).collect())
}

fn is_coprime(one: usize, other: usize) -> bool {
    match other {
        0 => one == 1,
        _ => is_coprime(other, one % other),
    }
}

fn until_right_us(
    pipeline: &Pipeline,
    entries: usize,
    effort: &Effort,
    change: &Change,
) -> Result<f64> {
    let mut cache = FilledCache::new(pipeline, MaintainerKind::Incremental, entries, effort)?;
    let followed = cache.follow_alone(change)?;
    Ok(followed.repair_ns as f64 / 1e3)
}

fn table(rows: &[Row]) -> Table {
    let caption = "Medians; both include the change itself.";
    let titles = [
        "entries",
        "new rules",
        "for each entry",
        "searches",
        "sweep",
    ];
    let table = titles
        .into_iter()
        .fold(Table::new(caption), Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        table.push(vec![
            format_count(row.entries as u64),
            format_count(row.new_rules as u64),
            format!("{:.2}", row.new_rules as f64 / row.entries as f64),
            in_words(row.search_us.median),
            in_words(row.sweep_us.median),
        ]);
        table
    })
}
