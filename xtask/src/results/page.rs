//! One page of results: its JSON, and the Markdown made of it.
//!
//! Figures keep three digits; [`Number`] in the JSON keeps all that were measured.

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

const MOST_NOTES: usize = 5;
const NOTE_CHARACTERS: usize = 200;

/// The content of `docs/results/NAME.json`; the parent module shows an example.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// The place in the index, from the smallest.
    pub(super) order: u32,
    pub(super) title: String,
    /// The figure that the index shows.
    pub(super) headline: String,
    /// One sentence about the measurement.
    pub(super) measured: String,
    pub(super) commands: Vec<String>,
    pub(super) machine: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Option<Cell>>>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<String>,
    /// The benchmark's key of this column; parts of nested keys are joined by dots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// The benchmark's rows that the column takes its cells from: keys with their values,
    /// or with lists of values that are all meant.
    #[serde(default, rename = "where", skip_serializing_if = "Map::is_empty")]
    pub(super) only: Map<String, Value>,
    /// Factor from the benchmark's unit to the column's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<f64>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(untagged)]
pub(super) enum Cell {
    Number(Number),
    Text(String),
    /// The median, the least and the most.
    Spread([Number; 3]),
}

impl Page {
    /// Parses and checks a page.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let page: Self = serde_json::from_str(text)?;
        page.check()?;
        Ok(page)
    }

    /// Checks the number and length of notes, and the width of rows.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Self { notes, columns, .. } = self;
        ensure!(
            notes.len() <= MOST_NOTES,
            "{} notes of {MOST_NOTES}; move some to the history",
            notes.len()
        );
        for note in notes {
            let length = note.chars().count();
            ensure!(
                length <= NOTE_CHARACTERS,
                "a note of {length} characters of {NOTE_CHARACTERS}; shorten it: {note}"
            );
        }
        ensure!(!columns.is_empty(), "no columns; a table needs one");
        for (index, row) in self.rows.iter().enumerate() {
            ensure!(
                row.len() == columns.len(),
                "row {} has {} cells for {} columns",
                index + 1,
                row.len(),
                columns.len()
            );
        }
        Ok(())
    }

    /// The page as JSON, with one line for each column and row.
    pub(super) fn to_json(&self) -> String {
        let value = serde_json::to_value(self).expect("a page has only text keys");
        let Value::Object(fields) = value else {
            unreachable!("a struct is an object")
        };
        // The fields stay in the order of the example, whatever order a map has.
        let order = [
            "order", "title", "headline", "measured", "commands", "machine", "date", "commit",
            "peer", "columns", "rows", "notes",
        ];
        let fields = order
            .iter()
            .filter_map(|name| Some((*name, fields.get(*name)?)));
        let lines = fields.map(|(name, value)| match value {
            Value::Array(items) if !items.is_empty() => {
                let items: Vec<String> = items.iter().map(|item| format!("    {item}")).collect();
                format!("  \"{name}\": [\n{}\n  ]", items.join(",\n"))
            }
            _ => format!("  \"{name}\": {value}"),
        });
        format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
    }

    /// The page as Markdown; `history` is the link to older figures.
    pub(super) fn render(&self, name: &str, history: Option<&str>) -> String {
        let mut text = format!(
            "<!-- Made from {name}.json by `cargo xtask results`; edit that file. -->\n\
             # {}\n\n{}\n\n```\n{}\n```\n\n",
            self.title,
            self.measured,
            self.commands.join("\n")
        );
        let facts = [
            ("Machine", Some(self.machine.as_str())),
            ("Peer", self.peer.as_deref()),
            ("Date", self.date.as_deref()),
            ("Commit", self.commit.as_deref()),
        ];
        for (what, value) in facts {
            if let Some(value) = value {
                text += &format!("- {what}: {value}\n");
            }
        }
        text += &format!("\n{}", self.render_table());
        if !self.notes.is_empty() {
            text += "\n";
        }
        for note in &self.notes {
            text += &format!("- {note}\n");
        }
        if let Some(path) = history {
            text += &format!("\n[Older runs, other machines, explanations]({path})\n");
        }
        text
    }

    fn render_table(&self) -> String {
        let heads = self.columns.iter().map(|column| match &column.unit {
            Some(unit) => format!("{}, {unit}", column.name),
            None => column.name.clone(),
        });
        let mut text = line(heads);
        text += &line(self.columns.iter().map(|_| "---".to_owned()));
        for row in &self.rows {
            text += &line(
                row.iter()
                    .map(|cell| cell.as_ref().map_or("–".into(), show)),
            );
        }
        text
    }
}

/// The index of all pages.
pub(super) fn render_index(pages: &[(String, Page)]) -> String {
    let mut text = "<!-- Made from results/*.json by `cargo xtask results`. -->\n\
        # What was measured\n\n\
        Absolute times depend on the machine and the day. Compare rows of one run, not pages.\n\n"
        .to_owned();
    for (name, page) in pages {
        text += &format!("- [{}](results/{name}.md): {}\n", page.title, page.headline);
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn show(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => show_number(number),
        Cell::Text(text) => text.replace('|', "\\|"),
        Cell::Spread([median, min, max]) => {
            let [median, min, max] = [median, min, max].map(show_number);
            format!("{median} ({min} to {max})")
        }
    }
}

/// Three digits, or all digits of whole numbers, with commas between thousands.
fn show_number(number: &Number) -> String {
    let value = number.as_f64().unwrap_or(f64::NAN);
    if value == value.trunc() || value.abs() >= 100.0 {
        return with_commas(&format!("{value:.0}"));
    }
    let whole_digits = value.abs().log10().floor() as i32 + 1;
    let places = usize::try_from(3 - whole_digits).unwrap_or(0);
    let text = format!("{value:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn with_commas(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
  "order": 2,
  "title": "Forwarding",
  "headline": "fast",
  "measured": "Time of a packet.",
  "commands": [
    "thalweg bench forward"
  ],
  "machine": "a machine",
  "peer": "Open vSwitch",
  "columns": [
    {"key":"case","name":"case"},
    {"name":"time","unit":"ns"}
  ],
  "rows": [
    ["a|b",[54.5,54.46,1054.9]],
    [200000,null],
    [0.0123,7.0]
  ],
  "notes": [
    "One note."
  ]
}
"#;

    fn number(value: f64) -> String {
        show_number(&Number::from_f64(value).expect("finite"))
    }

    #[test]
    fn numbers_keep_three_digits() {
        let values = [7.0, 7.26, 54.46, 54.5, 133.4, 25471.6, 0.0123, 9.996, 0.0];
        let texts = [
            "7", "7.26", "54.5", "54.5", "133", "25,472", "0.0123", "10", "0",
        ];
        assert_eq!(values.map(number), texts);
        assert_eq!(with_commas("-1234567"), "-1,234,567");
    }

    #[test]
    fn a_page_is_rendered_whole() {
        let page = Page::parse(JSON).expect("a page");
        let text = page.render("forwarding", Some("history/forwarding.md"));
        expect_test::expect![[r#"
            <!-- Made from forwarding.json by `cargo xtask results`; edit that file. -->
            # Forwarding

            Time of a packet.

            ```
            thalweg bench forward
            ```

            - Machine: a machine
            - Peer: Open vSwitch

            | case | time, ns |
            | --- | --- |
            | a\|b | 54.5 (54.5 to 1,055) |
            | 200,000 | – |
            | 0.0123 | 7 |

            - One note.

            [Older runs, other machines, explanations](history/forwarding.md)
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn written_json_is_what_was_read() {
        let page = Page::parse(JSON).expect("a page");
        assert_eq!(page.to_json(), JSON.replace(": {", ":{"));
    }

    #[test]
    fn long_and_many_notes_and_ragged_rows_are_refused() {
        let long = JSON.replace("One note.", &"x".repeat(201));
        let many = JSON.replace("\"One note.\"", &["\"x\""; 6].join(","));
        let ragged = JSON.replace("[200000,null]", "[200000]");
        let unknown = JSON.replace("\"peer\"", "\"pear\"");
        for (text, what) in [
            (long, "201 characters"),
            (many, "6 notes"),
            (ragged, "row 2 has 1 cells for 2 columns"),
            (unknown, "pear"),
        ] {
            let error = Page::parse(&text).expect_err("refused").to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
