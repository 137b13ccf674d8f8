//! The words of a line, each with its column, so that an error names its place.

use std::ops::Deref;

/// A word and its column, in characters from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    text: &'t str,
    column: usize,
}

/// An error in a line; without a column it concerns the whole line.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) column: Option<usize>,
}

impl Deref for Word<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.text
    }
}

impl<'t> Word<'t> {
    /// Splits a line into words at spaces.
    pub(super) fn all(line: &'t str) -> Vec<Word<'t>> {
        let mut words = Vec::new();
        let mut column = 1;
        let mut rest = line;
        loop {
            let start = rest.trim_start();
            column += rest[..rest.len() - start.len()].chars().count();
            if start.is_empty() {
                return words;
            }
            let end = start.find(char::is_whitespace).unwrap_or(start.len());
            let (text, after) = start.split_at(end);
            words.push(Word { text, column });
            column += text.chars().count();
            rest = after;
        }
    }

    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// An error at this word.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong {
            what: what.into(),
            column: Some(self.column),
        }
    }

    /// Turns an error into one at this word.
    pub(super) fn blame<T, E: ToString>(&self, outcome: Result<T, E>) -> Result<T, Wrong> {
        outcome.map_err(|error| self.wrong(error.to_string()))
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Wrong {
        Wrong { what, column: None }
    }
}

impl From<&str> for Wrong {
    fn from(what: &str) -> Wrong {
        what.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_columns() {
        let found = Word::all("  a \tbé  => d ");
        let found: Vec<(&str, usize)> = found.iter().map(|word| (&**word, word.column)).collect();
        assert_eq!(found, [("a", 3), ("bé", 6), ("=>", 10), ("d", 13)]);
        assert!(Word::all(" \t").is_empty() && Word::all("").is_empty());
    }
}
