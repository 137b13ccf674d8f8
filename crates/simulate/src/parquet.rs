//! Writes the rows as Parquet, with a column for each figure, including lists and layers.
//!
//! Columns have the names of `--json`; those of an object are `object_key`, and `switch_bytes`
//! is a list. Absent values are null. Only `--json` has the results per tenant and the
//! processor time. So a plan gives the same bytes each time, whether its runs are done now or
//! were done before.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::row::Row;
use thalweg_command::output::write_bytes;

/// Reads a column's value from a row.
enum Column {
    Text(fn(&Row) -> String),
    Whole(fn(&Row) -> u64),
    MaybeWhole(fn(&Row) -> Option<u64>),
    Real(fn(&Row) -> f64),
    MaybeReal(fn(&Row) -> Option<f64>),
    List(fn(&Row) -> &[u64]),
}

const COLUMNS: [(&str, Column); 44] = [
    ("scheme", Column::Text(|row| row.scheme.clone())),
    ("profile", Column::Text(|row| row.profile.clone())),
    ("cache_percent", Column::MaybeReal(|row| row.cache_percent)),
    (
        "cache_entries",
        Column::MaybeWhole(|row| row.cache_entries.map(u64::from)),
    ),
    ("seed", Column::Whole(|row| row.seed)),
    ("pods", Column::Whole(|row| row.pods.into())),
    ("gateways", Column::Whole(|row| row.gateways.into())),
    ("transport", Column::Text(|row| row.transport.clone())),
    (
        "loss_detection",
        Column::Text(|row| row.loss_detection.clone().unwrap_or_default()),
    ),
    ("hit_rate", Column::Real(|row| row.hit_rate)),
    ("mean_fct_us", Column::Real(|row| row.mean_fct_us)),
    (
        "mean_first_packet_us",
        Column::Real(|row| row.mean_first_packet_us),
    ),
    (
        "mean_packet_latency_us",
        Column::Real(|row| row.mean_packet_latency_us),
    ),
    ("stretch", Column::Real(|row| row.stretch)),
    ("packets_sent", Column::Whole(|row| row.packets_sent)),
    ("delivered", Column::Whole(|row| row.delivered)),
    ("gateway_packets", Column::Whole(|row| row.gateway_packets)),
    ("host_resolved", Column::Whole(|row| row.host_resolved)),
    (
        "control_plane_packets",
        Column::Whole(|row| row.control_plane_packets),
    ),
    ("misdelivered", Column::Whole(|row| row.misdelivered)),
    (
        "last_misdelivered_us",
        Column::MaybeReal(|row| row.last_misdelivered_us),
    ),
    ("invalidations", Column::Whole(|row| row.invalidations)),
    (
        "learning_packets",
        Column::Whole(|row| row.learning_packets),
    ),
    ("drops", Column::Whole(|row| row.drops)),
    ("reordered", Column::Whole(|row| row.reordered)),
    ("retransmitted", Column::Whole(|row| row.retransmitted)),
    ("timeouts", Column::Whole(|row| row.timeouts)),
    ("recoveries", Column::Whole(|row| row.recoveries)),
    (
        "connections_finished",
        Column::Whole(|row| row.connections_finished),
    ),
    (
        "connections_failed",
        Column::Whole(|row| row.connections_failed),
    ),
    ("switch_bytes", Column::List(|row| &row.switch_bytes)),
    (
        "hits_by_layer_core",
        Column::Whole(|row| row.hits_by_layer.core),
    ),
    (
        "hits_by_layer_spine",
        Column::Whole(|row| row.hits_by_layer.spine),
    ),
    (
        "hits_by_layer_tor",
        Column::Whole(|row| row.hits_by_layer.tor),
    ),
    (
        "first_hits_by_layer_core",
        Column::Whole(|row| row.first_hits_by_layer.core),
    ),
    (
        "first_hits_by_layer_spine",
        Column::Whole(|row| row.first_hits_by_layer.spine),
    ),
    (
        "first_hits_by_layer_tor",
        Column::Whole(|row| row.first_hits_by_layer.tor),
    ),
    ("packet_hops", Column::Whole(|row| row.packet_hops)),
    (
        "controller_plans",
        Column::MaybeWhole(|row| Some(row.controller?.plans)),
    ),
    (
        "controller_proven",
        Column::MaybeWhole(|row| Some(row.controller?.proven)),
    ),
    (
        "controller_largest_gap",
        Column::MaybeReal(|row| Some(row.controller?.largest_gap)),
    ),
    (
        "placed_entries_core",
        Column::MaybeWhole(|row| Some(row.placed_entries?.core)),
    ),
    (
        "placed_entries_spine",
        Column::MaybeWhole(|row| Some(row.placed_entries?.spine)),
    ),
    (
        "placed_entries_tor",
        Column::MaybeWhole(|row| Some(row.placed_entries?.tor)),
    ),
];

impl Column {
    fn schema(&self, name: &str) -> String {
        match self {
            Column::Text(_) => format!("required binary {name} (STRING);"),
            Column::Whole(_) => format!("required int64 {name} (INTEGER(64,false));"),
            Column::MaybeWhole(_) => format!("optional int64 {name} (INTEGER(64,false));"),
            Column::Real(_) => format!("required double {name};"),
            Column::MaybeReal(_) => format!("optional double {name};"),
            Column::List(_) => format!(
                "required group {name} (LIST) {{ repeated group list {{ required int64 element \
                 (INTEGER(64,false)); }} }}"
            ),
        }
    }

    fn write(&self, rows: &[Row], writer: &mut ColumnWriter<'_>) -> Result<()> {
        match (self, writer) {
            (Column::Text(of), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let values: Vec<ByteArray> =
                    rows.iter().map(|row| of(row).into_bytes().into()).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Column::Whole(of), ColumnWriter::Int64ColumnWriter(writer)) => {
                let values: Vec<i64> = rows.iter().map(|row| of(row) as i64).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Column::MaybeWhole(of), ColumnWriter::Int64ColumnWriter(writer)) => {
                let all: Vec<Option<i64>> = rows
                    .iter()
                    .map(|row| of(row).map(|value| value as i64))
                    .collect();
                let (values, levels) = parted(&all);
                writer.write_batch(&values, Some(&levels), None)?;
            }
            (Column::Real(of), ColumnWriter::DoubleColumnWriter(writer)) => {
                let values: Vec<f64> = rows.iter().map(of).collect();
                writer.write_batch(&values, None, None)?;
            }
            (Column::MaybeReal(of), ColumnWriter::DoubleColumnWriter(writer)) => {
                let all: Vec<Option<f64>> = rows.iter().map(of).collect();
                let (values, levels) = parted(&all);
                writer.write_batch(&values, Some(&levels), None)?;
            }
            (Column::List(of), ColumnWriter::Int64ColumnWriter(writer)) => {
                let (values, defined, repeated) = flattened(rows, of);
                writer.write_batch(&values, Some(&defined), Some(&repeated))?;
            }
            _ => unreachable!("a column's writer is of its schema's type"),
        }
        Ok(())
    }
}

/// The present values, and a definition level for each row.
fn parted<T: Copy>(all: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let levels = all.iter().map(|value| i16::from(value.is_some()));
    (all.iter().copied().flatten().collect(), levels.collect())
}

/// The elements of all lists, with their definition and repetition levels.
fn flattened(rows: &[Row], of: &fn(&Row) -> &[u64]) -> (Vec<i64>, Vec<i16>, Vec<i16>) {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let list = of(row);
        if list.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (place, &value) in list.iter().enumerate() {
            values.push(value as i64);
            defined.push(1);
            repeated.push(i16::from(place > 0));
        }
    }
    (values, defined, repeated)
}

/// Writes the rows as a file, which gets its name when it is complete.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, rows: &[Row]) -> Result<()> {
    write_bytes(path, &to_bytes(rows)?)
}

fn to_bytes(rows: &[Row]) -> Result<Vec<u8>> {
    let columns = COLUMNS.iter();
    let columns: Vec<String> = columns.map(|(name, column)| column.schema(name)).collect();
    let schema = format!("message rows {{ {} }}", columns.join(" "));
    let schema = Arc::new(parse_message_type(&schema).context("the schema of the rows")?);
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(&mut bytes, schema, properties)?;
    let mut group = file.next_row_group()?;
    for (_, column) in &COLUMNS {
        let mut writer = group.next_column()?.context("a column of the schema")?;
        column.write(rows, writer.untyped())?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::row::{Hits, Plans};

    fn row(seed: u64, list: &[u64]) -> Row {
        let hits = Hits {
            core: 1,
            spine: 2,
            tor: u64::MAX,
        };
        let plans = Plans {
            plans: 7,
            proven: 6,
            unproven: 0,
            largest_gap: 0.25,
        };
        Row {
            scheme: "switchv2p+".to_owned(),
            profile: "paper".to_owned(),
            cache_percent: (seed == 1).then_some(0.5),
            cache_entries: (seed == 2).then_some(12),
            seed,
            switch_bytes: list.to_vec(),
            hits_by_layer: hits,
            controller: (seed == 2).then_some(plans),
            mean_fct_us: 87.33,
            ..Row::default()
        }
    }

    /// Reads the file with the same library, as JSON and so by name.
    #[test]
    fn rows_are_read_as_they_were_written() {
        let rows = [row(1, &[5, 6, 7]), row(2, &[]), row(3, &[8])];
        let file = tempfile::NamedTempFile::new().expect("there is a place for files");
        write(file.path(), &rows).expect("they can be written");
        let file = std::fs::File::open(file.path()).expect("it is there");
        let file = SerializedFileReader::new(file).expect("rows");
        assert_eq!(file.metadata().file_metadata().num_rows(), 3);
        let read = file.get_row_iter(None).expect("rows");
        let read: Vec<serde_json::Value> = read
            .map(|row| row.expect("a row").to_json_value())
            .collect();
        assert_eq!(read[0]["scheme"], "switchv2p+");
        assert_eq!(read[0]["cache_percent"], 0.5);
        assert_eq!(read[0]["mean_fct_us"], 87.33);
        assert_eq!(read[0]["switch_bytes"], serde_json::json!([5, 6, 7]));
        assert_eq!(read[0]["hits_by_layer_tor"], u64::MAX);
        assert!(read[0]["cache_entries"].is_null() && read[0]["controller_plans"].is_null());
        assert_eq!(
            (&read[1]["cache_entries"], &read[1]["controller_plans"]),
            (&12.into(), &7.into())
        );
        assert_eq!(read[1]["switch_bytes"], serde_json::json!([]));
        assert_eq!(read[2]["switch_bytes"], serde_json::json!([8]));
        assert_eq!(read[2]["seed"], 3);
    }
}
