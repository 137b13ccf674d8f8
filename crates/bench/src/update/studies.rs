//! Reproduces the figure and the table of the KAIRO poster, and measures the cost by depth.
//!
//! *Figure 2*: hits, misses and time to update of a cache of growing size, among a million
//! unique flows. The poster does not say how often each flow sends. Here it is by Zipf's law,
//! with three packets per flow, and without an exact-match cache in front. The times are from
//! other runs, with a full cache.
//!
//! *Table 1*: time to update at three sizes. "Traditional" is `revalidate` here, which sweeps
//! while no packet passes, and Open vSwitch as a peer, which sweeps while stale packets pass.
//! "KAIRO" is `incremental`, which keeps regions right, and `extras/dbsp` as a peer, which
//! keeps recorded packets right on the engine that the poster used. The poster's own figures
//! are from another machine, and for changes that it does not describe.
//!
//! The poster means the time until the cache is right, and so do both. Ours have a second
//! line: the time until no packet can be answered by an older version. That is sooner if a
//! packet that meets an entry under repair causes an upcall.
//!
//! *Depth*: the same cache size, with pipelines of 7, 10 and 22 tables, and more and more ways
//! through the last. If the flows do not make that number of entries, the rows give the actual
//! number. The cost of a sweep depends on entries and depth; that of a repair on the affected
//! walks.
//!
//! Reference: Zulfiqar, Pfaff, Antichi and Shahbaz, *KAIRO: Incremental View Maintenance for
//! Scalable Virtual Switch Caching*, poster, 2025.

use anyhow::Result;
use serde::Serialize;
use thalweg_datapath::MaintainerKind;
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_switch::Config;
use thalweg_workload::{FlowConfig, Pipeline, PipelineKind, Sequence, SequenceKind, draw_flows};

use super::cache::{FilledCache, load};
use super::row::{Row, in_words};
use super::{Arguments, measure, plot, progress, row, setting};
use crate::picture;
use thalweg_command::console::Console;
use thalweg_command::report::{Axis, Lines, Series, Shape, Table, Unit, format_count};
use thalweg_command::workload::refused;

const COMPARED: [MaintainerKind; 2] = [MaintainerKind::Incremental, MaintainerKind::Revalidate];

/// Cache sizes of Figure 2, in hundredths of the flows.
const FIGURE_2: [usize; 6] = [1, 5, 10, 20, 50, 100];
/// Flows of the poster; a tenth is enough to show the same.
const FLOWS: usize = 1_000_000;
const PACKETS_PER_FLOW: usize = 3;

/// Sizes of Table 1, with the poster's two times in milliseconds.
const TABLE_1: [(usize, f64, f64); 3] = [
    (100_000, 335.0, 2.72),
    (150_000, 503.0, 3.01),
    (200_000, 670.0, 3.20),
];

/// Tables of the deep pipeline: as many as Antrea's, which the poster names.
const DEEP_TABLES: u8 = 22;
const DEEP_TRAVERSALS: [u8; 3] = [8, 32, 128];

/// The hits of a cache of one size.
#[derive(Serialize, Debug)]
struct Hits {
    entries: usize,
    packets: u64,
    hits: u64,
    misses: u64,
    hit_rate: f64,
    masks: usize,
}

#[derive(Serialize, Debug)]
struct Figure2 {
    command: &'static str,
    seed: u64,
    pipeline: String,
    rules: usize,
    flows: usize,
    hits: Vec<Hits>,
    rows: Vec<Row>,
}

/// Hits, misses and time to update by cache size.
///
/// # Errors
/// If there are not enough flows, or the result cannot be printed.
pub(super) fn figure_2(arguments: &Arguments, peers: Vec<Row>, console: &Console) -> Result<()> {
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let flows = if arguments.full { FLOWS } else { FLOWS / 10 };
    let flows = arguments.flows.unwrap_or(flows);
    let sizes = FIGURE_2.map(|hundredths| (flows / 100 * hundredths).max(32));
    let sizes = arguments.entries(&sizes);
    let hits = count_hits(arguments, &pipeline, flows, &sizes, console)?;
    let kinds = arguments.maintainers(&COMPARED)?;
    let mut rows = measure(arguments, &pipeline, &sizes, &kinds, console)?;
    rows.extend(peers);
    let title = "Figure 2 of the KAIRO poster: hits, misses and time to update";
    let table = figure_2_table(&hits, &rows);
    if let Some(path) = &arguments.plot {
        let mut pictures = plot::times(&rows);
        pictures.extend(hit_pictures(&hits));
        let all = row::table(&rows);
        let setting = format!(
            "{} unique flows, {PACKETS_PER_FLOW} packets for each, which flow sends by Zipf's \
             law. {}",
            format_count(flows as u64),
            setting(arguments, &pipeline)
        );
        picture::write(path, title, &setting, &pictures, &[&table, &all])?;
    }
    console.headline(title)?;
    console.print(&setting(arguments, &pipeline))?;
    console.print(&table.to_text())?;
    console.print_json(&Figure2 {
        command: "bench update --figure 2",
        seed: arguments.seed,
        pipeline: pipeline.name,
        rules: pipeline.rules.len(),
        flows,
        hits,
        rows,
    })
}

fn count_hits(
    arguments: &Arguments,
    pipeline: &Pipeline,
    flows: usize,
    sizes: &[usize],
    console: &Console,
) -> Result<Vec<Hits>> {
    let drawn = draw_flows(pipeline, &FlowConfig::new(flows, arguments.seed));
    let drawn = drawn.map_err(|error| refused("--rules", &error))?;
    let packets = drawn.iter().map(|(flow, _)| {
        let mut packet = Packet::from_bytes(&flow.packet(60));
        packet.set_received(PortId(flow.in_port), Instant::ZERO);
        packet
    });
    let packets: Vec<Packet> = packets.collect();
    let progress = progress(console, sizes.len() * flows * PACKETS_PER_FLOW);
    let count = |entries: &usize| -> Result<Hits> {
        progress.set_message(format!("hits of {entries} entries"));
        let mut config = Config::default();
        config.datapath.maintainer = MaintainerKind::Revalidate;
        config.datapath.seed = arguments.seed;
        config.datapath.microflow.entries = 0;
        config.datapath.megaflow.entries = *entries;
        config.datapath.megaflow.bytes = usize::MAX;
        config.datapath.megaflow.masks = 1 << 20;
        let (mut engine, _) = load(pipeline, config, false)?;
        let kind = SequenceKind::Zipf { exponent: 1.0 };
        let mut sequence = Sequence::new(kind, flows, arguments.seed)?;
        let mut left = flows * PACKETS_PER_FLOW;
        while left > 0 {
            let burst = sequence.by_ref().take(left.min(32));
            let mut burst: Vec<Packet> = burst.map(|flow| packets[flow].clone()).collect();
            left -= burst.len();
            progress.inc(burst.len() as u64);
            engine.forward(&mut burst, Instant::ZERO);
            engine.outbox().recycle();
        }
        let statistics = engine.datapath().statistics().megaflow;
        let packets = statistics.hits + statistics.misses;
        Ok(Hits {
            entries: *entries,
            packets,
            hits: statistics.hits,
            misses: statistics.misses,
            hit_rate: statistics.hits as f64 / packets as f64,
            masks: engine.datapath().mask_count(),
        })
    };
    let hits = sizes.iter().map(count).collect();
    progress.finish_and_clear();
    hits
}

/// The row about all changes of one maintainer, at the nearest size.
///
/// Caches are filled until they have the requested number of entries, and can have some more.
fn of_size<'a>(rows: &'a [Row], maintainer: &str, size: usize) -> Option<&'a Row> {
    let is_near = |row: &&Row| (size..=size + size / 10 + 64).contains(&row.entries);
    let rows = rows.iter().filter(|row| row.is_of_all());
    let near = rows
        .filter(|row| row.maintainer == maintainer)
        .filter(is_near);
    near.min_by_key(|row| row.entries)
}

/// Maintainers and peers, in the order of their rows.
fn names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.maintainer.as_str()) {
            names.push(&row.maintainer);
        }
    }
    names
}

fn figure_2_table(hits: &[Hits], rows: &[Row]) -> Table {
    let caption =
        "Hits and misses of a cache of each size, and the median time until every entry is right.";
    let mut table = Table::new(caption)
        .with_numbers("entries")
        .with_numbers("hits")
        .with_numbers("misses");
    let names = names(rows);
    for name in &names {
        table = table.with_numbers(*name);
    }
    for size in hits {
        let mut cells = vec![
            format_count(size.entries as u64),
            Unit::Share.format(size.hit_rate),
            format_count(size.misses),
        ];
        cells.extend(names.iter().map(|name| median(rows, name, size.entries)));
        table.push(cells);
    }
    table
}

fn median(rows: &[Row], maintainer: &str, size: usize) -> String {
    let row = of_size(rows, maintainer, size);
    row.map_or(String::new(), |row| in_words(row.until_right_us().median))
}

fn hit_pictures(hits: &[Hits]) -> [Lines; 2] {
    let picture = |caption: &str, y: Axis, value: fn(&Hits) -> f64| Lines {
        caption: caption.to_owned(),
        note: String::new(),
        x: plot::entries_axis(),
        y,
        series: vec![Series {
            name: "megaflow cache".to_owned(),
            shape: Shape::MarkedLine,
            points: (hits.iter())
                .map(|size| (size.entries as f64, value(size)))
                .collect(),
        }],
        bands: Vec::new(),
    };
    let rate = Axis::linear("answered by the cache", Unit::Share);
    let misses = Axis::linear("misses", Unit::Count);
    [
        picture("Cache hits", rate, |size| size.hit_rate),
        picture("Cache misses", misses, |size| size.misses as f64),
    ]
}

#[derive(Serialize, Debug)]
struct Table1 {
    command: &'static str,
    seed: u64,
    pipeline: String,
    rules: usize,
    rows: Vec<Row>,
}

/// Time to update by scheme and size.
///
/// # Errors
/// If the pipeline's flows do not make that number of entries, or the result cannot be
/// printed.
pub(super) fn table_1(arguments: &Arguments, peers: Vec<Row>, console: &Console) -> Result<()> {
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let part = if arguments.full { 1 } else { 10 };
    let sizes = arguments.entries(&TABLE_1.map(|(size, ..)| size / part));
    let kinds = arguments.maintainers(&COMPARED)?;
    let mut rows = measure(arguments, &pipeline, &sizes, &kinds, console)?;
    rows.extend(peers);
    let title = "Table 1 of the KAIRO poster: time until every entry is right, median";
    let table = table_1_table(&sizes, &rows);
    if let Some(path) = &arguments.plot {
        let setting = setting(arguments, &pipeline);
        let all = row::table(&rows);
        picture::write(path, title, &setting, &plot::times(&rows), &[&table, &all])?;
    }
    console.headline(title)?;
    console.print(&setting(arguments, &pipeline))?;
    console.print(&table.to_text())?;
    console.print_json(&Table1 {
        command: "bench update --table 1",
        seed: arguments.seed,
        pipeline: pipeline.name,
        rules: pipeline.rules.len(),
        rows,
    })
}

fn table_1_table(sizes: &[usize], rows: &[Row]) -> Table {
    let caption = "A column for each size of the cache; the poster's figures are of its machine.";
    let mut table = Table::new(caption).with_words("scheme");
    for size in sizes {
        table = table.with_numbers(format_count(*size as u64));
    }
    for name in names(rows) {
        let cells = sizes.iter().map(|size| median(rows, name, *size));
        table.push(std::iter::once(name.to_owned()).chain(cells).collect());
        let acknowledged = sizes.iter().map(|size| {
            let row = of_size(rows, name, *size);
            let row = row.filter(|row| row.time_to_update_us != row.until_right_us());
            row.map_or(String::new(), |row| in_words(row.time_to_update_us.median))
        });
        let acknowledged: Vec<String> = acknowledged.collect();
        if acknowledged.iter().any(|cell| !cell.is_empty()) {
            let name = std::iter::once(format!("{name}: to the last old answer"));
            table.push(name.chain(acknowledged).collect());
        }
    }
    let of_poster = |size: &usize| TABLE_1.iter().find(|known| known.0 == *size);
    if sizes.iter().any(|size| of_poster(size).is_some()) {
        let cell = |known: Option<&(usize, f64, f64)>, of: fn(&(usize, f64, f64)) -> f64| {
            known.map_or(String::new(), |known| in_words(of(known) * 1e3))
        };
        for (name, of) in [
            (
                "the poster's traditional",
                (|known| known.1) as fn(&(usize, f64, f64)) -> f64,
            ),
            ("the poster's KAIRO", |known| known.2),
        ] {
            let cells = sizes.iter().map(|size| cell(of_poster(size), of));
            table.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
    }
    table
}

/// A row of one pipeline.
#[derive(Serialize, Debug)]
struct DepthRow {
    pipeline: String,
    tables: usize,
    /// Different ways through the tables that entries take.
    traversals: usize,
    /// Mean number of lookups in an entry's walk.
    lookups: f64,
    #[serde(flatten)]
    row: Row,
}

#[derive(Serialize, Debug)]
struct Depth {
    command: &'static str,
    seed: u64,
    rules: usize,
    rows: Vec<DepthRow>,
}

/// Time to update by the depth of the pipeline, and by the number of ways through it.
///
/// # Errors
/// If there is no such pipeline, or the result cannot be printed.
pub(super) fn depth(arguments: &Arguments, console: &Console) -> Result<()> {
    let deep = DEEP_TRAVERSALS.map(|traversals| PipelineKind::Synthetic {
        tables: DEEP_TABLES,
        traversals,
    });
    let shapes = [PipelineKind::Psc, PipelineKind::Ofd]
        .into_iter()
        .chain(deep);
    let mut rows = Vec::new();
    for shape in shapes {
        let pipeline = shape.generate(arguments.pipeline.rules, arguments.seed);
        let pipeline = pipeline.map_err(|error| refused("--rules", &error))?;
        rows.extend(measure_depth(arguments, &pipeline, console)?);
    }
    let title = "Time until every entry is right, by depth and ways through, median";
    let table = depth_table(&rows);
    if let Some(path) = &arguments.plot {
        let setting = "All pipelines have as many rules.";
        picture::write(path, title, setting, &[], &[&table])?;
    }
    console.headline(title)?;
    console.print(&table.to_text())?;
    console.print_json(&Depth {
        command: "bench update --depth",
        seed: arguments.seed,
        rules: arguments.pipeline.rules,
        rows,
    })
}

fn measure_depth(
    arguments: &Arguments,
    pipeline: &Pipeline,
    console: &Console,
) -> Result<Vec<DepthRow>> {
    let effort = arguments.effort()?;
    let part = if arguments.full { 1 } else { 10 };
    let kinds = arguments.maintainers(&COMPARED)?;
    let sizes = arguments.entries(&[100_000 / part]);
    let progress = progress(console, sizes.len() * kinds.len() * effort.updates);
    let mut rows = Vec::new();
    let (mut traversals, mut lookups) = (0, 0.0);
    for entries in sizes {
        for kind in &kinds {
            let tables = pipeline.tables.len();
            let name = format!("{}, {tables} tables, {}", pipeline.name, kind.name());
            progress.set_message(name);
            let mut cache = FilledCache::new(pipeline, *kind, entries, &effort)?;
            // Maintainers without a record have the same entries.
            traversals = cache.traversal_count().max(traversals);
            lookups = cache.mean_lookups().max(lookups);
            let of_all = cache.measure(&effort, &progress)?;
            let of_all = of_all.into_iter().filter(Row::is_of_all);
            rows.extend(of_all.map(|row| DepthRow {
                pipeline: pipeline.name.clone(),
                tables,
                traversals,
                lookups,
                row,
            }));
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

fn depth_table(rows: &[DepthRow]) -> Table {
    let caption = "Ways are those that entries take; a sweep's time is also given for each entry.";
    let mut table = Table::new(caption)
        .with_words("pipeline")
        .with_numbers("tables")
        .with_numbers("ways")
        .with_numbers("lookups a walk")
        .with_words("maintainer")
        .with_numbers("entries")
        .with_numbers("affected")
        .with_numbers("median")
        .with_numbers("p99")
        .with_numbers("each affected")
        .with_numbers("each entry");
    for of in rows {
        let (row, time) = (&of.row, of.row.until_right_us());
        let affected = row.affected.unwrap_or(0.0);
        let each = row.microseconds_per_affected;
        table.push(vec![
            of.pipeline.clone(),
            of.tables.to_string(),
            of.traversals.to_string(),
            format!("{:.1}", of.lookups),
            row.maintainer.clone(),
            format_count(row.entries as u64),
            format!("{affected:.1}"),
            in_words(time.median),
            in_words(time.p99),
            each.map_or(String::new(), in_words),
            in_words(time.median / row.entries as f64),
        ]);
    }
    table
}
