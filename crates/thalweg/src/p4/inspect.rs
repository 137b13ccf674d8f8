//! `thalweg p4 inspect`: runs B-Cache's analysis on a program, beside the paper's figures.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use thalweg_p4::behavior::{Analysis, Vector};
use thalweg_p4::cache::traversal::stop_points;
use thalweg_p4::{LoadError, Program};

use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::files::program as program_text;
use thalweg_command::output;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The program, as written by p4c's back end for BMv2
    program: PathBuf,
    /// Write the statement control-flow graph for Graphviz (`dot -Tsvg FILE`)
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Also print the paper's figures for one of its four cases
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=4))]
    case: Option<u8>,
}

/// The paper's figures for a case (Figures 4 and 5).
struct Published {
    pd_vio: u32,
    s_vio: u32,
    outputs: (usize, u32),
    odd_primitives: usize,
    compound_actions: u64,
    primitives: u64,
}

const PI_VIO: u32 = 884;

const PUBLISHED: [Published; 4] = [
    Published::new(157, 157, (5, 141), (1, 2, 11)),
    Published::new(287, 287, (5, 141), (1, 2, 11)),
    Published::new(287, 287, (11, 269), (1, 2, 23)),
    Published::new(296, 287, (12, 301), (2, 4, 52)),
];

impl Published {
    const fn new(
        pd_vio: u32,
        s_vio: u32,
        outputs: (usize, u32),
        (odd_primitives, compound_actions, primitives): (usize, u64, u64),
    ) -> Published {
        Published {
            pd_vio,
            s_vio,
            outputs,
            odd_primitives,
            compound_actions,
            primitives,
        }
    }
}

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    tables: usize,
    actions: usize,
    load_ms: f64,
    match_vector_bits: VectorBits,
    sound_vio: Vec<String>,
    valid_outputs: Outputs,
    odd_primitives: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compound_actions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_primitives: Option<u64>,
    stop_points: Vec<Stop>,
    /// Where a remembered traversal may stop and another begins.
    traversal_stops: Vec<Stop>,
}

#[derive(Serialize)]
struct VectorBits {
    pi_vio: u32,
    pd_vio: u32,
    s_vio: u32,
    sound_vio: u32,
}

#[derive(Serialize)]
struct Outputs {
    objects: usize,
    bits: u32,
}

#[derive(Serialize)]
struct Stop {
    node: String,
    reason: &'static str,
}

/// Inspects a program.
///
/// # Errors
/// If it cannot be read, or cannot be run.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let text = program_text(&arguments.program)?;
    let refused = |error: LoadError| {
        let path = arguments.program.display();
        bad_input(format!("{path}: {error}"))
    };
    let start = Instant::now();
    let program = Program::from_json(&text).map_err(refused)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let analysis = Analysis::of(&program);
    if let Some(path) = &arguments.graph {
        output::write_text(path, &analysis.to_dot())?;
    }
    let stops = analysis.stop_points.iter().map(|stop| Stop {
        node: stop.node.clone(),
        reason: stop.reason,
    });
    let traversal_stops = stop_points(&program).into_iter().map(|stop| Stop {
        node: stop.node,
        reason: stop.reason,
    });
    let report = Report {
        tables: program.tables.len(),
        actions: program.actions.len(),
        load_ms,
        match_vector_bits: VectorBits {
            pi_vio: analysis.pi_vio.bits,
            pd_vio: analysis.pd_vio.bits,
            s_vio: analysis.s_vio.bits,
            sound_vio: analysis.sound_vio.bits,
        },
        sound_vio: names(&analysis, &analysis.sound_vio),
        valid_outputs: Outputs {
            objects: analysis.valid_outputs.objects.len(),
            bits: analysis.valid_outputs.bits,
        },
        odd_primitives: analysis.odd_primitives.clone(),
        compound_actions: analysis.compound_actions(),
        total_primitives: analysis.total_primitives(),
        stop_points: stops.collect(),
        traversal_stops: traversal_stops.collect(),
    };
    console.print_json(&report)?;
    console.headline(&format!(
        "{}: {} tables, {} actions, loaded in {load_ms:.1} ms",
        arguments.program.display(),
        report.tables,
        report.actions
    ))?;
    let published = arguments.case.map(|case| &PUBLISHED[usize::from(case) - 1]);
    console.print(&figures(&report, published).to_string())?;
    console.print(&details(&analysis, &report))
}

fn figures(report: &Report, published: Option<&Published>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let bits = &report.match_vector_bits;
    let outputs = &report.valid_outputs;
    let many = |count: Option<u64>| count.map_or("too many".to_owned(), |count| count.to_string());
    let paper = |figure: fn(&Published) -> String| published.map(figure);
    let rows = [
        (
            "inputs of any pipeline, bits (PI-VIO)",
            bits.pi_vio.to_string(),
            paper(|_| PI_VIO.to_string()),
        ),
        (
            "  that keys and conditions read (PD-VIO)",
            bits.pd_vio.to_string(),
            paper(|case| case.pd_vio.to_string()),
        ),
        (
            "  less those written before (S-VIO)",
            bits.s_vio.to_string(),
            paper(|case| case.s_vio.to_string()),
        ),
        (
            "  that a sound match vector has",
            bits.sound_vio.to_string(),
            None,
        ),
        (
            "valid outputs, objects",
            outputs.objects.to_string(),
            paper(|case| case.outputs.0.to_string()),
        ),
        (
            "  bits",
            outputs.bits.to_string(),
            paper(|case| case.outputs.1.to_string()),
        ),
        (
            "odd primitives",
            report.odd_primitives.len().to_string(),
            paper(|case| case.odd_primitives.to_string()),
        ),
        (
            "compound actions",
            many(report.compound_actions),
            paper(|case| case.compound_actions.to_string()),
        ),
        (
            "  primitives in all",
            many(report.total_primitives),
            paper(|case| case.primitives.to_string()),
        ),
    ];
    if published.is_some() {
        table.set_header(["", "program", "paper"]);
    }
    for (what, ours, theirs) in rows {
        let mut row = vec![what.to_owned(), ours];
        if published.is_some() {
            row.push(theirs.unwrap_or("–".to_owned()));
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn details(analysis: &Analysis, report: &Report) -> String {
    let mut lines = vec![
        format!("match on: {}", report.sound_vio.join(", ")),
        format!(
            "outputs: {}",
            names(analysis, &analysis.valid_outputs).join(", ")
        ),
    ];
    if !report.odd_primitives.is_empty() {
        lines.push(format!("odd: {}", report.odd_primitives.join(", ")));
    }
    for stop in &report.stop_points {
        lines.push(format!(
            "a behaviour stops at {}: {}",
            stop.node, stop.reason
        ));
    }
    if report.stop_points.is_empty() {
        lines.push("no stop points: a behaviour is remembered to its end".to_owned());
    }
    for stop in &report.traversal_stops {
        lines.push(format!(
            "traversals may stop at {}: {}",
            stop.node, stop.reason
        ));
    }
    if report.traversal_stops.is_empty() {
        lines.push("traversals are remembered to the end of each pipeline".to_owned());
    }
    lines.join("\n")
}

fn names(analysis: &Analysis, vector: &Vector) -> Vec<String> {
    let ids = vector.objects.iter();
    ids.map(|id| analysis.objects.get(*id).name.clone())
        .collect()
}
