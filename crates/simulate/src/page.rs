//! Builds the page of a plan.

use anyhow::Result;
use thalweg_config::{Machines, Plan, TrafficSource};

use super::row::Row;
use super::{figures, tables};
use thalweg_command::report::{Report, format_count};

/// Builds the page.
///
/// # Errors
/// If a picture cannot be drawn.
pub(super) fn page(title: &str, plan: &Plan, rows: &[Row]) -> Result<Report> {
    let mut report = Report::new(title);
    report.text(&setting(plan, rows));
    report.text(
        "A packet starts towards a gateway, which knows where every virtual address is. What \
         schemes differ in is who else knows, and so how many packets are spared the way. Hit \
         rate is the share of packets that no gateway sees; FCT is the mean time from a flow's \
         first transmission to its last delivery; a hop is a switch on the way.",
    );
    let by_cache = figures::by_cache(rows);
    if !by_cache.is_empty() {
        report.heading("Against the size of caches");
        for picture in &by_cache {
            report.lines(picture)?;
        }
    }
    let by_fabric = figures::by_fabric(plan, rows);
    if !by_fabric.is_empty() {
        report.heading("Against the fabric");
        for picture in &by_fabric {
            report.lines(picture)?;
        }
    }
    let heat_maps = figures::heat_maps(plan, rows);
    if !heat_maps.is_empty() {
        report.heading("Where the bytes are");
        for picture in &heat_maps {
            report.heat(picture);
        }
    }
    report.heading("Tables");
    for table in tables::all(plan, rows) {
        report.table(&table);
    }
    Ok(report)
}

fn setting(plan: &Plan, rows: &[Row]) -> String {
    let workload = &plan.workload;
    let trace = match &workload.source {
        TrafficSource::Trace(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            format!("`{}`", name.display())
        }
        TrafficSource::Generated { generator, .. } => {
            format!("generated traffic like `{}`", generator.name())
        }
    };
    let packets = rows.iter().map(|row| row.packets_sent).max().unwrap_or(0);
    let machines = match &workload.machines {
        Machines::Placed(path) => format!(
            "machines placed by `{}`",
            path.file_name().unwrap_or(path.as_os_str()).display()
        ),
        Machines::Even(count) => format!("{} machines", format_count(u64::from(*count))),
    };
    let transport = workload.transports.first().map_or("", |first| first.name());
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    format!(
        "{} runs of {} over {}: up to {} packets a run, {machines}; profile `{}`, seeds {}.",
        format_count(rows.len() as u64),
        trace,
        transport.to_uppercase(),
        format_count(packets),
        plan.profile.name(),
        seeds.join(", "),
    )
}
