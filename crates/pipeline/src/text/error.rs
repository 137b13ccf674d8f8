//! Faults of a text, each with its place.
//!
//! There are six kinds, as they ask for different fixes: a slip of the pen
//! ([`TextError::Syntax`], [`TextError::Unknown`], [`TextError::Value`]), a rule that cannot
//! mean what it says ([`TextError::Prerequisite`], [`TextError::Contradiction`]), a valid rule
//! that this version does not support ([`TextError::Unsupported`]), and a text beyond the
//! limits.

use std::fmt;
use std::sync::Arc;

/// A place in a text; lines and columns count from 1, columns in characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The text's name: a file's path, or a name that the caller chose.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a text was refused; none of it was loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text is malformed.
    #[error("{place}: {what}")]
    Syntax {
        /// Where.
        place: Place,
        /// The fault, and what to write.
        what: Box<str>,
    },
    /// An unknown field, action, keyword or port.
    #[error("{place}: unknown {kind} `{name}`; {advice}")]
    Unknown {
        /// Where.
        place: Place,
        /// The kind of word that was expected.
        kind: &'static str,
        /// The word.
        name: Box<str>,
        /// What to do about it.
        advice: Box<str>,
    },
    /// A value that is not valid here.
    #[error("{place}: `{value}` is not {expected}")]
    Value {
        /// Where.
        place: Place,
        /// The value.
        value: Box<str>,
        /// Description of valid values.
        expected: Box<str>,
    },
    /// A field that only some packets have, in a rule that does not match on such packets.
    #[error("{place}: `{field}` needs {needs}; say so in the rule's match")]
    Prerequisite {
        /// Where.
        place: Place,
        /// The field or action.
        field: Box<str>,
        /// The condition that the rule must have for it.
        needs: &'static str,
    },
    /// Two conditions of one rule that no packet meets together.
    #[error("{place}: `{field}` contradicts an earlier condition; remove one of them")]
    Contradiction {
        /// Where the second is.
        place: Place,
        /// The second.
        field: Box<str>,
    },
    /// A feature of Open vSwitch that is missing here.
    #[error("{place}: `{name}` is not supported; {}", used_by(*.lines))]
    Unsupported {
        /// Where.
        place: Place,
        /// The missing field, action or option.
        name: Box<str>,
        /// Number of lines that use it; this is the first.
        lines: usize,
    },
    /// The text exceeds a limit.
    #[error("{place}: {what} than the limit of {limit}; {}", less_of(.what))]
    Limit {
        /// Where.
        place: Place,
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
}

impl TextError {
    /// Where the fault is.
    pub fn place(&self) -> &Place {
        match self {
            TextError::Syntax { place, .. }
            | TextError::Unknown { place, .. }
            | TextError::Value { place, .. }
            | TextError::Prerequisite { place, .. }
            | TextError::Contradiction { place, .. }
            | TextError::Unsupported { place, .. }
            | TextError::Limit { place, .. } => place,
        }
    }
}

/// How a [`TextError::Limit`] about the whole text begins.
pub(super) const WHOLE_TEXT: &str = "the text has more";

fn less_of(what: &str) -> &'static str {
    match what.starts_with(WHOLE_TEXT) {
        true => "leave some out, or raise the limit",
        false => "split it",
    }
}

fn used_by(lines: usize) -> String {
    match lines {
        1 => "1 line uses it".to_owned(),
        _ => format!("{lines} lines use it, this one first"),
    }
}

/// The faults of a text, in its order; one at least.
///
/// As an error it prints one fault a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextErrors(pub Vec<TextError>);

impl std::fmt::Display for TextErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TextErrors {}

impl std::ops::Deref for TextErrors {
    type Target = [TextError];

    fn deref(&self) -> &[TextError] {
        &self.0
    }
}

impl IntoIterator for TextErrors {
    type Item = TextError;
    type IntoIter = std::vec::IntoIter<TextError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Why a text read from a stream was refused; none of it was loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The stream cannot be read, or is not UTF-8.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The faults of the text.
    #[error(transparent)]
    Text(TextErrors),
}

/// A result of the parser.
pub(super) type Parsed<T> = Result<T, TextError>;
