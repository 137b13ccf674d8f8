//! The errors of a configuration, with their places.

use std::io::ErrorKind;
use std::path::PathBuf;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}; {}", .path.display(), advice(.source))]
    Unreadable {
        /// The file's path.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The text asks for something impossible.
    #[error("{file}:{line}:{column}: {what}")]
    Refused {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The fault, and how to correct it.
        what: String,
    },
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::InvalidData => "give a configuration, which is TOML in UTF-8",
        ErrorKind::FileTooLarge => "give a shorter file",
        ErrorKind::PermissionDenied => "make it readable, or run as a user who may read it",
        _ => "check the path",
    }
}

/// The TOML reader's message, with advice where it gives none.
pub(crate) fn explain_toml(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    let rest = if message.starts_with("missing field") {
        "; add it"
    } else if message.contains("duplicate key") {
        "; remove one of them"
    } else if message.contains("expected") || message.contains("must be") {
        ""
    } else {
        "; mend or remove it (see toml.io for how values are written)"
    };
    message + rest
}
