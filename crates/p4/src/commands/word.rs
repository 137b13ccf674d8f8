//! Words of a line, and what is wrong with one: each knows its column, so that a fault is told where
//! it is.

use std::ops::Deref;

/// A word, and its column, in characters from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    text: &'t str,
    column: usize,
}

/// What is wrong with a line; without a column, with all of it.
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
    /// The words of a line, which are what is between spaces.
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

    /// The error that this word is at fault for.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong {
            what: what.into(),
            column: Some(self.column),
        }
    }

    /// What has come of the word, or the error that it is at fault for.
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
