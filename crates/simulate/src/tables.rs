//! Builds the tables of the result.
//!
//! They are all figures, the paper's Table 4 of a migration and Table 5 of hits, the tenants,
//! and the placement of memory.

use thalweg_config::Plan;

use super::row::{Hits, Row, Variety};
use thalweg_command::report::{Table, Unit, format_count};

/// The scheme that the others are compared with.
pub(super) const BASELINE: &str = "nocache";

/// All tables for the rows of a plan.
pub(super) fn all(plan: &Plan, rows: &[Row]) -> Vec<Table> {
    let mut tables = vec![summary(plan, rows)];
    if plan.migration.is_some() {
        tables.push(migration(rows));
    }
    if rows.iter().any(|row| row.hits_by_layer.total() > 0) {
        tables.push(layers(plan, rows));
    }
    if rows.iter().any(|row| !row.tenants.is_empty()) {
        tables.push(tenants(plan, rows));
    }
    if rows.iter().any(|row| row.placed_entries.is_some()) {
        tables.push(placed(plan, rows));
    }
    if rows.iter().any(|row| row.controller.is_some()) {
        tables.push(plans(plan, rows));
    }
    tables
}

/// The NoCache row to compare a row with.
pub(super) fn baseline<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    let mut all = rows.iter();
    all.find(|other| other.scheme == BASELINE && other.is_beside(row))
}

/// The factor of improvement over NoCache; `None` if there is nothing to compare.
pub(super) fn improvement(rows: &[Row], row: &Row, of: fn(&Row) -> f64) -> Option<f64> {
    let base = of(baseline(rows, row)?);
    let ratio = base / of(row);
    ratio.is_finite().then_some(ratio)
}

/// Adds the columns that identify the run.
fn with_run(table: Table, variety: &Variety) -> Table {
    let mut table = table.with_words("scheme");
    if variety.pods {
        table = table.with_numbers("pods");
    }
    if variety.gateways {
        table = table.with_numbers("gateways");
    }
    table = table.with_numbers("cache");
    if variety.transports {
        table = table.with_words("losses by");
    }
    if variety.seeds {
        table = table.with_numbers("seed");
    }
    table
}

fn run_cells(row: &Row, variety: &Variety) -> Vec<String> {
    let mut cells = vec![row.scheme.clone()];
    if variety.pods {
        cells.push(row.pods.to_string());
    }
    if variety.gateways {
        cells.push(row.gateways.to_string());
    }
    cells.push(row.cache_text());
    if variety.transports {
        cells.push(match row.loss_detection.as_deref() {
            Some("rack-tlp") => "RACK-TLP".to_owned(),
            Some(count) => format!("{count} duplicates"),
            None => "-".to_owned(),
        });
    }
    if variety.seeds {
        cells.push(row.seed.to_string());
    }
    cells
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x"))
}

fn micros(value: f64) -> String {
    format!("{value:.2}")
}

fn summary(plan: &Plan, rows: &[Row]) -> Table {
    let variety = Variety::of(plan);
    let table = Table::new("What runs came to; times better than NoCache");
    let mut table = with_run(table, &variety)
        .with_numbers("hit rate")
        .with_numbers("FCT µs")
        .with_numbers("")
        .with_numbers("first packet µs")
        .with_numbers("")
        .with_numbers("packet µs")
        .with_numbers("hops")
        .with_numbers("at gateways")
        .with_numbers("drops")
        .with_numbers("reordered")
        .with_numbers("sent again");
    let has_tcp = rows.iter().any(|row| row.transport == "tcp");
    if has_tcp {
        table = table.with_numbers("time-outs");
    }
    for row in rows {
        let mut cells = run_cells(row, &variety);
        cells.extend([
            Unit::Share.format(row.hit_rate),
            micros(row.mean_fct_us),
            times(improvement(rows, row, |row| row.mean_fct_us)),
            micros(row.mean_first_packet_us),
            times(improvement(rows, row, |row| row.mean_first_packet_us)),
            micros(row.mean_packet_latency_us),
            format!("{:.3}", row.stretch),
            format_count(row.gateway_packets),
            format_count(row.drops),
            format_count(row.reordered),
            format_count(row.retransmitted),
        ]);
        if has_tcp {
            cells.push(format_count(row.timeouts));
        }
        table.push(cells);
    }
    table
}

/// Table 4: figures relative to NoCache, except the last misdelivery and the invalidations.
fn migration(rows: &[Row]) -> Table {
    let mut table = Table::new("A machine moves (the paper's Table 4; relative to NoCache)")
        .with_words("scheme")
        .with_numbers("cache")
        .with_numbers("seed")
        .with_numbers("gateway packets")
        .with_numbers("packet latency")
        .with_numbers("last misdelivered µs")
        .with_numbers("misdelivered")
        .with_numbers("")
        .with_numbers("invalidations");
    for row in rows {
        let base = baseline(rows, row);
        let relative = |of: fn(&Row) -> f64| {
            let ratio = base.map(|base| of(row) / of(base));
            ratio.filter(|ratio| ratio.is_finite())
        };
        let share = relative(|row| row.gateway_packets as f64);
        let last = row.last_misdelivered_us;
        table.push(vec![
            row.scheme.clone(),
            row.cache_text(),
            row.seed.to_string(),
            share.map_or("-".to_owned(), |share| Unit::Share.format(share)),
            times(relative(|row| row.mean_packet_latency_us)),
            last.map_or("-".to_owned(), |last| format!("{last:.3}")),
            format_count(row.misdelivered),
            times(relative(|row| row.misdelivered as f64)),
            format_count(row.invalidations),
        ]);
    }
    table
}

/// Table 5: hits by layer.
fn layers(plan: &Plan, rows: &[Row]) -> Table {
    let variety = Variety::of(plan);
    let table = Table::new("Where hits were (the paper's Table 5)");
    let mut table = with_run(table, &variety)
        .with_numbers("hits")
        .with_numbers("core")
        .with_numbers("spine")
        .with_numbers("ToR")
        .with_numbers("of first packets")
        .with_numbers("core")
        .with_numbers("spine")
        .with_numbers("ToR");
    for row in rows.iter().filter(|row| row.hits_by_layer.total() > 0) {
        let mut cells = run_cells(row, &variety);
        cells.extend(shares(row.hits_by_layer));
        cells.extend(shares(row.first_hits_by_layer));
        table.push(cells);
    }
    table
}

/// The results per tenant.
fn tenants(plan: &Plan, rows: &[Row]) -> Table {
    let variety = Variety::of(plan);
    let table = Table::new("What runs came to for each tenant");
    let mut table = with_run(table, &variety)
        .with_numbers("tenant")
        .with_numbers("traffic")
        .with_numbers("memory")
        .with_numbers("packets")
        .with_numbers("hit rate")
        .with_numbers("FCT µs")
        .with_numbers("first packet µs");
    for row in rows {
        let shares = plan.tenants.iter().zip(&row.tenants);
        for (number, (said, came)) in (1..).zip(shares) {
            let mut cells = run_cells(row, &variety);
            cells.extend([
                number.to_string(),
                said.traffic.to_string(),
                said.memory.to_string(),
                format_count(came.packets_sent),
                Unit::Share.format(came.hit_rate),
                micros(came.mean_fct_us),
                micros(came.mean_first_packet_us),
            ]);
            table.push(cells);
        }
    }
    table
}

/// Where miss-ratio curves placed memory.
fn placed(plan: &Plan, rows: &[Row]) -> Table {
    let variety = Variety::of(plan);
    let table = Table::new("Where miss-ratio curves put memory");
    let mut table = with_run(table, &variety)
        .with_numbers("lines")
        .with_numbers("core")
        .with_numbers("spine")
        .with_numbers("ToR");
    for row in rows {
        if let Some(entries) = row.placed_entries {
            let mut cells = run_cells(row, &variety);
            cells.extend(shares(entries));
            table.push(cells);
        }
    }
    table
}

fn shares(hits: Hits) -> [String; 4] {
    let share = |part: u64| Unit::Share.format(part as f64 / hits.total().max(1) as f64);
    let parts = [hits.core, hits.spine, hits.tor].map(share);
    let [core, spine, tor] = parts;
    [format_count(hits.total()), core, spine, tor]
}

/// The quality of the controller's plans.
fn plans(plan: &Plan, rows: &[Row]) -> Table {
    let variety = Variety::of(plan);
    let table = Table::new("The controller's plans, and how far they may be from the best");
    let mut table = with_run(table, &variety)
        .with_numbers("plans")
        .with_numbers("proven best")
        .with_numbers("not proven")
        .with_numbers("largest gap");
    for row in rows {
        let Some(made) = row.controller else {
            continue;
        };
        let mut cells = run_cells(row, &variety);
        cells.extend([
            format_count(made.plans),
            format_count(made.proven),
            format_count(made.unproven),
            format!("{:.3} %", made.largest_gap * 100.0),
        ]);
        table.push(cells);
    }
    table
}
