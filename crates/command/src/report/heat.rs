//! Draws heat maps: tables whose cells are darker for greater values.

use super::html::escape;

/// Sizes of cells and margins, in the picture's units.
const CELL_HEIGHT: usize = 34;
const HEAD_HEIGHT: usize = 30;
const WIDTH: usize = 880;
const LETTER_WIDTH: usize = 8;
/// The darkest shade at which a cell's number is still readable, in light and dark mode.
const DARKEST: f64 = 0.65;

/// One picture.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What the picture shows.
    pub caption: String,
    /// An additional note of one sentence; may be empty.
    pub note: String,
    /// The columns, from left to right.
    pub columns: Vec<String>,
    /// The rows, from top to bottom: a name, and a value for each column.
    pub rows: Vec<(String, Vec<f64>)>,
    /// Formats a value.
    pub write: fn(f64) -> String,
}

impl Heat {
    /// The picture as SVG, in light colours that the style sheet maps.
    pub(super) fn to_svg(&self) -> String {
        let names = self.rows.iter().map(|(name, _)| name.chars().count());
        let left = 16 + LETTER_WIDTH * names.max().unwrap_or(0);
        let width = WIDTH.saturating_sub(left + 8) / self.columns.len().max(1);
        let height = HEAD_HEIGHT + CELL_HEIGHT * self.rows.len();
        let most = self.rows.iter().flat_map(|(_, values)| values);
        let most = most.copied().fold(0.0, f64::max);
        let mut svg = format!(
            "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"13\">\n"
        );
        let middle = |column: usize| left + width * column + width / 2;
        for (column, name) in self.columns.iter().enumerate() {
            svg += &text(middle(column), 18, "middle", "#5B6770", name);
        }
        for (place, (name, values)) in self.rows.iter().enumerate() {
            let top = HEAD_HEIGHT + CELL_HEIGHT * place;
            let line = top + CELL_HEIGHT / 2 + 5;
            svg += &text(left - 8, line, "end", "#1D2429", name);
            for (column, &value) in values.iter().enumerate() {
                let share = if most > 0.0 { value / most } else { 0.0 };
                let (x, opacity) = (left + width * column, share * DARKEST);
                svg += &format!(
                    "<rect x=\"{x}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"#0072B2\" \
                     fill-opacity=\"{opacity:.3}\"/>\n",
                    width.saturating_sub(2),
                    CELL_HEIGHT - 2,
                );
                svg += &text(
                    middle(column),
                    line,
                    "middle",
                    "#1D2429",
                    &(self.write)(value),
                );
            }
        }
        svg + "</svg>\n"
    }
}

fn text(x: usize, y: usize, anchor: &str, color: &str, what: &str) -> String {
    let what = escape(what);
    format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{color}\">{what}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_is_the_darkest() {
        let heat = Heat {
            caption: "bytes".to_owned(),
            note: String::new(),
            columns: vec!["1".to_owned(), "<2>".to_owned()],
            rows: vec![
                ("a".to_owned(), vec![0.0, 10.0]),
                ("b".to_owned(), vec![5.0, 2.0]),
            ],
            write: |value| format!("{value:.0}"),
        };
        let svg = heat.to_svg();
        for opacity in ["0.000", "0.650", "0.325", "0.130"] {
            let found = svg.matches(&format!("fill-opacity=\"{opacity}\"")).count();
            assert_eq!(found, 1, "{opacity} in {svg}");
        }
        assert!(
            svg.contains("&lt;2&gt;") && svg.contains(">10</text>"),
            "{svg}"
        );
    }
}
