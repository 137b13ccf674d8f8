//! Finds where a scan of a table's nodes costs as much as a search by prefix.
//!
//! For the entries that a new rule affects, the record of dependencies is searched by the
//! leading bits of one field. If too many nodes share these bits, the nodes are scanned side
//! by side instead. Here new rules have the highest priority in the table with the most rules
//! that match IP destinations. Each matches a prefix of such a rule's address; the shorter the
//! prefix, the more nodes it meets. Each rule is searched for once by prefix and once by a
//! scan, in separate caches. `datapath::Config::scan_share` has the share of the nodes at
//! which the two cost the same.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use thalweg_datapath::MaintainerKind;
use thalweg_pipeline::{Change, text};
use thalweg_workload::Pipeline;

use super::Arguments;
use super::cache::{Effort, FilledCache};
use super::row::in_words;
use crate::spread::Spread;
use thalweg_command::report::{Table, Unit, format_count};

/// Default number of entries in the caches.
pub(super) const ENTRIES: [usize; 1] = [10_000];

/// Prefix lengths of the rules.
const LENGTHS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16];

/// Rules of each length.
const RUNS: usize = 9;

#[derive(Serialize, Debug)]
pub(super) struct Row {
    entries: usize,
    prefix_bits: u32,
    /// Mean share of all entries that a rule affects.
    affected_share: f64,
    prefix_us: Spread,
    scan_us: Spread,
}

/// Measures.
///
/// # Errors
/// If the flows do not make that number of entries.
pub(super) fn measure(arguments: &Arguments, pipeline: &Pipeline) -> Result<Vec<Row>> {
    let (table, addresses) = addresses(pipeline)?;
    let mut rows = Vec::new();
    for entries in arguments.entries(&ENTRIES) {
        let cache = |scan_share| {
            let effort = Effort {
                scan_share: Some(scan_share),
                ..arguments.effort()?
            };
            FilledCache::new(pipeline, MaintainerKind::Barrier, entries, &effort)
        };
        let (mut by_prefix, mut by_scan) = (cache(1)?, cache(0)?);
        for prefix_bits in LENGTHS {
            let (mut prefix_us, mut scan_us, mut affected) = (Vec::new(), Vec::new(), 0);
            for run in 0..RUNS {
                let address = &addresses[run * addresses.len() / RUNS];
                let rule = format!(
                    "table={table},priority=65535,ip,nw_dst={address}/{prefix_bits},actions=drop"
                );
                let rule = text::parse_flow(&rule).context("a rule of the study")?;
                let change = Change::adding([rule]);
                prefix_us.push(by_prefix.search_alone(&change)?.0);
                let (us, work) = by_scan.search_alone(&change)?;
                scan_us.push(us);
                affected += work.affected();
            }
            rows.push(Row {
                entries,
                prefix_bits,
                affected_share: affected as f64 / (RUNS * entries) as f64,
                prefix_us: Spread::of(&prefix_us),
                scan_us: Spread::of(&scan_us),
            });
        }
    }
    Ok(rows)
}

/// The table with the most rules that match IP destinations, and these destinations.
fn addresses(pipeline: &Pipeline) -> Result<(u8, Vec<String>)> {
    let text = pipeline.rules_text();
    let mut by_table: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for rule in text.lines() {
        let value = |key: &str| Some(rule.split_once(key)?.1.split([',', '/']).next()?.to_owned());
        let (table, address) = (value("table="), value("nw_dst="));
        let table = table.and_then(|table| table.parse().ok());
        if let (Some(table), Some(address)) = (table, address) {
            by_table.entry(table).or_default().push(address);
        }
    }
    let most = by_table.into_iter().max_by_key(|(_, list)| list.len());
    most.context("the pipeline has no rule for an IP destination")
}

/// The rows as a table.
pub(super) fn table(rows: &[Row]) -> Table {
    let caption = "Medians; both include the change itself.";
    let titles = ["entries", "prefix", "affected", "by prefix", "scan"];
    let table = titles
        .into_iter()
        .fold(Table::new(caption), Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        table.push(vec![
            format_count(row.entries as u64),
            format!("/{}", row.prefix_bits),
            Unit::Share.format(row.affected_share),
            in_words(row.prefix_us.median),
            in_words(row.scan_us.median),
        ]);
        table
    })
}
