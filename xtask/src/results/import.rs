//! Takes the rows of a page from the output of a benchmark.
//!
//! The output has its rows under `rows`, each an object. A column with `key` takes the value
//! of that key, multiplied by `scale`; `{median, min, max}` becomes a spread. Columns with
//! `where` show rows of the benchmark beside each other: such a column has a cell where a row
//! with these values (one of a list) agrees with the page's row in all columns without
//! `where`. A column without `key` is written by hand, and its cells become `null`.
//!
//! A value that a row lacks is `null`. A key that no row has is an error, because it is misspelt
//! or of another benchmark.

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Number, Value};

use super::page::{Cell, Column, Page};

type Row = Vec<Option<Cell>>;

/// The rows in a benchmark's output.
pub(super) fn rows_of(output: &str) -> anyhow::Result<Vec<Value>> {
    let output: Value = serde_json::from_str(output).context("it is no JSON")?;
    let found = output.get("rows").and_then(Value::as_array);
    let found = found.context("it has no `rows`; give the output of a benchmark with --json")?;
    ensure!(!found.is_empty(), "its `rows` are empty");
    Ok(found.clone())
}

/// Replaces the rows of `page` with those of a benchmark.
pub(super) fn replace_rows(page: &mut Page, found: &[Value]) -> anyhow::Result<()> {
    for column in &page.columns {
        let has_key = |row: &Value| {
            column
                .key
                .as_deref()
                .is_none_or(|key| at(row, key).is_some())
        };
        if !found.iter().any(has_key) {
            let key = column.key.as_deref().unwrap_or_default();
            bail!("no row has the key `{key}` of column `{}`", column.name);
        }
    }
    ensure!(
        page.columns.iter().any(|column| column.key.is_some()),
        "no column has a `key`; add the benchmark's keys to the columns"
    );
    let mut rows: Vec<Row> = Vec::new();
    for row in found {
        merge(&page.columns, row, &mut rows)?;
    }
    page.rows = rows;
    Ok(())
}

/// Adds a row of the benchmark to the page's row that it belongs to, or as a new one.
fn merge(columns: &[Column], row: &Value, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let mut cells = Vec::new();
    for column in columns {
        let is_meant = column
            .only
            .iter()
            .all(|(key, wanted)| is_at(row, key, wanted));
        let key = column.key.as_deref().filter(|_| is_meant);
        let value = key.and_then(|key| at(row, key));
        cells.push(cell_of(value, column)?);
    }
    let is_beside = |column: &Column| !column.only.is_empty();
    if columns.iter().any(is_beside) {
        let fills = columns.iter().zip(&cells);
        if !fills
            .clone()
            .any(|(column, cell)| is_beside(column) && cell.is_some())
        {
            return Ok(());
        }
    }
    let same = rows.iter_mut().find(|other| {
        let mut pairs = columns.iter().zip(cells.iter().zip(other.iter()));
        // Columns with `where` must not be filled twice.
        pairs.all(|(column, (cell, other))| match is_beside(column) {
            true => cell.is_none() || other.is_none(),
            false => cell == other,
        })
    });
    match same.filter(|_| columns.iter().any(is_beside)) {
        Some(other) => {
            for (old, new) in other.iter_mut().zip(cells) {
                *old = old.take().or(new);
            }
        }
        None => rows.push(cells),
    }
    Ok(())
}

/// Whether a row has a value, or one of a list of values, at a key.
fn is_at(row: &Value, key: &str, wanted: &Value) -> bool {
    let found = at(row, key);
    match wanted {
        Value::Array(values) => found.is_some_and(|found| values.contains(found)),
        value => found == Some(value),
    }
}

/// The value at a key of an object; dots lead into objects inside it.
fn at<'a>(row: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.').try_fold(row, |value, part| value.get(part))
}

fn cell_of(value: Option<&Value>, column: &Column) -> anyhow::Result<Option<Cell>> {
    let cell = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => Cell::Number(scaled(number, column.scale)?),
        Some(Value::String(text)) => Cell::Text(text.clone()),
        Some(Value::Bool(is_so)) => Cell::Text(if *is_so { "yes" } else { "no" }.to_owned()),
        Some(Value::Object(fields)) => Cell::Spread(spread_of(fields, column)?),
        Some(Value::Array(_)) => bail!("column `{}`: a list is no cell", column.name),
    };
    Ok(Some(cell))
}

fn spread_of(fields: &Map<String, Value>, column: &Column) -> anyhow::Result<[Number; 3]> {
    let part = |name: &str| {
        let Some(Value::Number(number)) = fields.get(name) else {
            let name_of_column = &column.name;
            bail!("column `{name_of_column}`: no number `{name}`; a spread has median, min, max");
        };
        scaled(number, column.scale)
    };
    Ok([part("median")?, part("min")?, part("max")?])
}

fn scaled(number: &Number, scale: Option<f64>) -> anyhow::Result<Number> {
    let Some(scale) = scale else {
        return Ok(number.clone());
    };
    let value = number.as_f64().context("a number is too large")?;
    Number::from_f64(value * scale).context("a number is too large for its scale")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(columns: &str) -> Page {
        let text = format!(
            r#"{{"order": 1, "title": "T", "headline": "h", "measured": "m", "commands": [],
                "machine": "x", "columns": {columns}, "rows": [], "notes": ["kept"]}}"#
        );
        Page::parse(&text).expect("a page")
    }

    fn imported(columns: &str, output: &str) -> anyhow::Result<String> {
        let mut page = page(columns);
        replace_rows(&mut page, &rows_of(output)?)?;
        assert_eq!(page.notes, ["kept"]);
        Ok(serde_json::to_string(&page.rows).expect("JSON"))
    }

    const CLASSIFY: &str = r#"{"command": "bench classify", "rows": [
        {"set": "acl1", "classifier": "bloom", "ns": {"median": 2.0, "min": 1.0, "max": 4.0}},
        {"set": "acl1", "classifier": "learned", "ns": {"median": 1.5, "min": 1.0, "max": 2.0},
            "coverage": 0.5, "details": {"bytes": 7}},
        {"set": "fw1", "classifier": "learned", "ns": {"median": 3.0, "min": 3.0, "max": 3.0}}
    ]}"#;

    #[test]
    fn a_row_of_the_benchmark_is_a_row_of_the_page() {
        let columns = r#"[{"name": "set", "key": "set"}, {"name": "by hand"},
            {"name": "coverage", "unit": "%", "key": "coverage", "scale": 100},
            {"name": "bytes", "key": "details.bytes"}]"#;
        let rows = imported(columns, CLASSIFY).expect("rows");
        let wanted = concat!(
            r#"[["acl1",null,null,null],["acl1",null,50.0,7],"#,
            r#"["fw1",null,null,null]]"#
        );
        assert_eq!(rows, wanted);
    }

    #[test]
    fn columns_with_where_put_rows_beside_each_other() {
        let columns = r#"[{"name": "set", "key": "set"},
            {"name": "bloom", "key": "ns", "where": {"classifier": "bloom"}},
            {"name": "learned", "key": "ns.median", "where": {"classifier": ["x", "learned"]}}]"#;
        let rows = imported(columns, CLASSIFY).expect("rows");
        assert_eq!(rows, r#"[["acl1",[2.0,1.0,4.0],1.5],["fw1",null,3.0]]"#);
    }

    #[test]
    fn equal_rows_stay_apart() {
        let output = r#"{"rows": [{"set": "a"}, {"set": "a"}]}"#;
        let rows = imported(r#"[{"name": "set", "key": "set"}]"#, output).expect("rows");
        assert_eq!(rows, r#"[["a"],["a"]]"#);
    }

    #[test]
    fn what_is_no_output_or_does_not_fit_is_refused() {
        let set = r#"[{"name": "set", "key": "set"}]"#;
        for (columns, output, what) in [
            (set, "{", "no JSON"),
            (set, "{}", "no `rows`"),
            (set, r#"{"rows": []}"#, "empty"),
            (
                r#"[{"name": "x", "key": "sett"}]"#,
                CLASSIFY,
                "no row has the key `sett`",
            ),
            (r#"[{"name": "x"}]"#, CLASSIFY, "no column has a `key`"),
            (set, r#"{"rows": [{"set": [1]}]}"#, "a list is no cell"),
            (
                set,
                r#"{"rows": [{"set": {"p99": 1}}]}"#,
                "no number `median`",
            ),
        ] {
            let error = imported(columns, output).expect_err("refused");
            assert!(format!("{error:#}").contains(what), "{error:#}");
        }
    }
}
