//! Builds reports: self-contained pages of text, tables and pictures.
//!
//! A command describes its measurements as [`Table`]s, [`Lines`] and [`Bars`]; it prints the
//! tables too. [`Report::to_html`] makes one file of them:
//!
//! 1. The page fetches and runs nothing: style and pictures are inside. Every picture has its
//!    numbers in a table or its description in words.
//! 2. Colours follow the reader's preference for light or dark. Pictures are drawn in the
//!    light colours, and the style sheet maps these to the current ones by their names. The
//!    one palette is in `colors.rs` and `style.css`.
//! 3. Only this module escapes the texts of commands.

mod axis;
mod bars;
mod colors;
mod heat;
mod html;
mod lines;
mod number;
mod table;

pub use axis::Axis;
pub use bars::Bars;
pub use heat::Heat;
pub use lines::{Band, Lines, Series, Shape};
pub use number::{Unit, format_bytes, format_count};
pub use table::Table;

use std::path::Path;

use anyhow::Result;

use self::html::escape;
use crate::output::write_text;

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    body: String,
}

impl Report {
    /// Creates a page with only a title.
    pub fn new(title: &str) -> Report {
        Report {
            title: title.to_owned(),
            body: String::new(),
        }
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) {
        self.body += &format!("<h2>{}</h2>\n", escape(text));
    }

    /// Adds a paragraph; text between backticks is set as code.
    pub fn text(&mut self, text: &str) {
        self.body += &format!("<p>{}</p>\n", with_code(text));
    }

    /// Adds a list; backticks work as in [`Report::text`].
    pub fn list(&mut self, items: &[String]) {
        let items = items.iter();
        let items: String = items
            .map(|item| format!("<li>{}</li>\n", with_code(item)))
            .collect();
        self.body += &format!("<ul>\n{items}</ul>\n");
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        self.body += &table.to_html();
    }

    /// Adds a picture of lines or dots.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn lines(&mut self, lines: &Lines) -> Result<()> {
        let names = lines.series.iter().map(|series| series.name.as_str());
        let names: Vec<&str> = names.collect();
        self.figure(&lines.caption, &lines.note, &names, &lines.to_svg()?);
        Ok(())
    }

    /// Adds a picture of bars.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn bars(&mut self, bars: &Bars) -> Result<()> {
        let names = bars.series.iter().map(|(name, _)| name.as_str());
        let names: Vec<&str> = names.collect();
        self.figure(&bars.caption, &bars.note, &names, &bars.to_svg()?);
        Ok(())
    }

    /// Adds a heat map.
    pub fn heat(&mut self, heat: &Heat) {
        self.figure(&heat.caption, &heat.note, &[], &heat.to_svg());
    }

    fn figure(&mut self, caption: &str, note: &str, names: &[&str], svg: &str) {
        let (caption, label) = (escape(caption), escape(&format!("{caption}. {note}")));
        let mut legend = String::new();
        for (place, name) in names.iter().enumerate() {
            let class = colors::series_class(place);
            let mark = colors::mark(place);
            legend += &format!(
                "<span><i class=\"{class}\">{mark}</i> {}</span> ",
                escape(name)
            );
        }
        let svg = svg.replacen(
            "<svg ",
            &format!("<svg role=\"img\" aria-label=\"{label}\" "),
            1,
        );
        self.body += &format!("<figure>\n<figcaption>{caption}</figcaption>\n");
        self.body += &format!("<p class=\"legend\">{legend}<b>{}</b></p>\n", escape(note));
        self.body += &format!("{svg}</figure>\n");
    }

    /// The page.
    pub fn to_html(&self) -> String {
        html::page(&self.title, &self.body)
    }

    /// Writes the page to a file, replacing any existing one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_text(path, &self.to_html())
    }
}

/// Escapes text, and sets text between backticks as code.
fn with_code(text: &str) -> String {
    let mut html = String::new();
    for (place, piece) in text.split('`').enumerate() {
        let piece = escape(piece);
        if place % 2 == 1 {
            html += &format!("<code>{piece}</code>");
        } else {
            html += &piece;
        }
    }
    html
}

#[cfg(test)]
mod tests;
