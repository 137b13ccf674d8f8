//! Tables for the terminal and for reports, with the same rows.

use comfy_table::{CellAlignment, presets};

use super::html::escape;

/// A table whose cells are already text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    caption: String,
    columns: Vec<(String, Alignment)>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Alignment {
    Left,
    Right,
}

impl Table {
    /// Creates a table without columns and rows.
    pub fn new(caption: impl Into<String>) -> Table {
        Table {
            caption: caption.into(),
            ..Table::default()
        }
    }

    /// Adds a column of words.
    pub fn with_words(mut self, title: impl Into<String>) -> Table {
        self.columns.push((title.into(), Alignment::Left));
        self
    }

    /// Adds a column of numbers.
    pub fn with_numbers(mut self, title: impl Into<String>) -> Table {
        self.columns.push((title.into(), Alignment::Right));
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of cells differs from the number of columns.
    pub fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// What the table shows.
    pub fn caption(&self) -> &str {
        &self.caption
    }

    /// The table for a terminal, without its caption.
    pub fn to_text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header(self.columns.iter().map(|(title, _)| title));
        table.add_rows(&self.rows);
        for ((_, alignment), column) in self.columns.iter().zip(table.column_iter_mut()) {
            if *alignment == Alignment::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        // Lines between single rows only distract.
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let is_rule = |line: &str| line.starts_with('─');
        let last = lines.len().saturating_sub(1);
        let kept = lines.iter().enumerate();
        let kept = kept.filter(|(place, line)| *place == 0 || *place == last || !is_rule(line));
        kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn to_html(&self) -> String {
        let class = |alignment: Alignment| match alignment {
            Alignment::Left => "",
            Alignment::Right => " class=\"number\"",
        };
        let mut html = String::from("<div class=\"scroll\"><table>\n");
        html += &format!("<caption>{}</caption>\n<thead><tr>", escape(&self.caption));
        for (title, alignment) in &self.columns {
            html += &format!(
                "<th scope=\"col\"{}>{}</th>",
                class(*alignment),
                escape(title)
            );
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            html += "<tr>";
            for ((_, alignment), cell) in self.columns.iter().zip(row) {
                html += &format!("<td{}>{}</td>", class(*alignment), escape(cell));
            }
            html += "</tr>\n";
        }
        html + "</tbody>\n</table></div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_cells_are_on_the_terminal_and_in_the_page() {
        let mut table = Table::new("speeds")
            .with_words("name")
            .with_numbers("a < b");
        table.push(vec!["x & y".to_owned(), "7".to_owned()]);
        let text = table.to_text();
        assert!(text.contains("x & y") && text.contains("a < b"), "{text}");
        let html = table.to_html();
        assert!(
            html.contains("<td>x &amp; y</td><td class=\"number\">7</td>"),
            "{html}"
        );
        assert!(html.contains("a &lt; b</th>"), "{html}");
    }
}
