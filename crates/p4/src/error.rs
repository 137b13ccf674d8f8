//! The errors of loading a program.

use std::fmt;

use serde_json::Value;

/// Why and where a program cannot be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not JSON.
    #[error("line {line}, column {column}: {what}; this is no JSON as p4c writes it for BMv2")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The JSON reader's message.
        what: String,
    },
    /// Something is missing, contradicts itself or is not supported.
    #[error("{}{}: {what}", pointer_text(.pointer), source_text(.source_location))]
    Refused {
        /// The place in the JSON, as an RFC 6901 pointer; the root is "".
        pointer: String,
        /// The line of P4 it came from, if the compiler recorded it.
        source_location: Option<SourceLocation>,
        /// A description of the fault.
        what: String,
    },
}

/// A place in a P4 program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLocation {
    /// The file, as the compiler knew it.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 0 as in p4c.
    pub column: u64,
    /// The text at that place.
    pub fragment: String,
}

impl SourceLocation {
    /// Reads a `source_info`; `None` if it names no line.
    pub(crate) fn of(value: &Value) -> Option<SourceLocation> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        Some(SourceLocation {
            file: text("filename").to_owned(),
            line: number("line")?,
            column: number("column").unwrap_or(0),
            fragment: text("source_fragment").to_owned(),
        })
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

fn pointer_text(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the root"
    } else {
        pointer
    }
}

fn source_text(location: &Option<SourceLocation>) -> String {
    let located = location.as_ref();
    located.map_or_else(String::new, |location| format!(" (from {location})"))
}
