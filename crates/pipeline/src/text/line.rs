//! One line of a text, cut into pairs of key and value.
//!
//! Parts of a line are plain `&str` slices of it. [`Line::place`] computes a part's column
//! from its address, so that the parser need not carry positions and each fault still has one.
//!
//! Cutting follows Open vSwitch (`ofputil_parse_key_value`). Pairs are separated by commas and
//! white space. A key ends at `:`, `=` or `(`. A value ends at the next separator outside
//! parentheses or, if it begins with `(`, at the parenthesis that closes it. `(x)->y` is one
//! value.

use std::sync::Arc;

use thalweg_packet::PortId;

use super::error::{Parsed, Place, TextError};

/// Finds a port by its name.
pub(super) type PortNames<'a> = &'a dyn Fn(&str) -> Option<PortId>;

/// A line being parsed, with its origin and the names it may use.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) file: &'a Arc<str>,
    pub(super) number: u32,
    pub(super) text: &'a str,
    pub(super) ports: PortNames<'a>,
    /// The names of ports, for the message about an unknown one; empty if there are none.
    pub(super) known_ports: &'a str,
}

impl<'a> Line<'a> {
    /// The place where `part` begins; the line's start if `part` is not in the line.
    pub(super) fn place(&self, part: &str) -> Place {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or_default();
        let column = before.chars().count() + 1;
        Place {
            file: self.file.clone(),
            line: self.number,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn syntax(&self, part: &str, what: impl Into<Box<str>>) -> TextError {
        TextError::Syntax {
            place: self.place(part),
            what: what.into(),
        }
    }

    pub(super) fn unknown(
        &self,
        part: &str,
        kind: &'static str,
        advice: &'static str,
    ) -> TextError {
        TextError::Unknown {
            place: self.place(part),
            kind,
            name: excerpt(part),
            advice: advice.into(),
        }
    }

    /// The error for a port that does not exist.
    pub(super) fn unknown_port(&self, part: &str, kind: &'static str) -> TextError {
        let advice = match self.known_ports {
            "" => "give its number, or the name of a port that exists".to_owned(),
            known => format!("give its number, or the name of a port that exists: {known}"),
        };
        TextError::Unknown {
            place: self.place(part),
            kind,
            name: excerpt(part),
            advice: advice.into(),
        }
    }

    pub(super) fn value(&self, part: &str, expected: impl Into<Box<str>>) -> TextError {
        TextError::Value {
            place: self.place(part),
            value: excerpt(part),
            expected: expected.into(),
        }
    }

    pub(super) fn unsupported(&self, part: &str, name: impl Into<Box<str>>) -> TextError {
        TextError::Unsupported {
            place: self.place(part),
            name: name.into(),
            lines: 1,
        }
    }

    pub(super) fn prerequisite(&self, part: &str, needs: &'static str) -> TextError {
        TextError::Prerequisite {
            place: self.place(part),
            field: excerpt(part),
            needs,
        }
    }

    pub(super) fn contradiction(&self, part: &str) -> TextError {
        TextError::Contradiction {
            place: self.place(part),
            field: excerpt(part),
        }
    }

    pub(super) fn limit(&self, part: &str, what: &'static str, limit: usize) -> TextError {
        TextError::Limit {
            place: self.place(part),
            what,
            limit,
        }
    }

    /// The pairs of a part of the line.
    pub(super) fn pairs(&'a self, part: &'a str) -> Pairs<'a> {
        Pairs {
            line: self,
            rest: part,
        }
    }
}

/// A part of the text, cut short for a message.
pub(super) fn excerpt(part: &str) -> Box<str> {
    const LONGEST: usize = 60;
    match part.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &part[..end]).into(),
        None => part.into(),
    }
}

/// The character between a key and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// Nothing: the key stands alone.
    None,
    Equals,
    Colon,
    Parenthesis,
}

/// A key and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) mark: Mark,
}

/// Iterates over the pairs of a part.
pub(super) struct Pairs<'a> {
    line: &'a Line<'a>,
    rest: &'a str,
}

impl<'a> Pairs<'a> {
    /// The text not yet taken.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Takes the next key, leaving its value in [`Pairs::rest`]; `None` at the end.
    pub(super) fn key(&mut self) -> Option<(&'a str, Mark)> {
        let start = self.rest.bytes().position(|byte| !is_separator(byte))?;
        let text = &self.rest[start..];
        let ends_key = |byte: u8| is_separator(byte) || matches!(byte, b':' | b'=' | b'(');
        let end = text.bytes().position(ends_key).unwrap_or(text.len());
        let mark = match text.as_bytes().get(end) {
            Some(b'=') => Mark::Equals,
            Some(b':') => Mark::Colon,
            Some(b'(') => Mark::Parenthesis,
            _ => Mark::None,
        };
        self.rest = &text[(end + 1).min(text.len())..];
        Some((&text[..end], mark))
    }

    /// Takes the value after a key.
    pub(super) fn value(&mut self, mark: Mark) -> Parsed<&'a str> {
        let end = match mark {
            Mark::None => return Ok(&self.rest[..0]),
            Mark::Equals | Mark::Colon => self.end_of_word(0)?,
            Mark::Parenthesis => {
                let close = self.end_of_group(0)?;
                if self.rest[close + 1..].starts_with("->") {
                    self.end_of_word(close + 1)?
                } else {
                    close
                }
            }
        };
        let value = &self.rest[..end];
        self.rest = &self.rest[(end + 1).min(self.rest.len())..];
        Ok(value)
    }

    /// Takes the next pair; `None` at the end.
    pub(super) fn next(&mut self) -> Parsed<Option<Pair<'a>>> {
        let Some((key, mark)) = self.key() else {
            return Ok(None);
        };
        let value = self.value(mark)?;
        Ok(Some(Pair { key, value, mark }))
    }

    /// Finds the end of the word that begins at `from`: a separator outside parentheses.
    fn end_of_word(&self, from: usize) -> Parsed<usize> {
        let bytes = self.rest.as_bytes();
        let mut index = from;
        while let Some(&byte) = bytes.get(index) {
            match byte {
                b'(' => index = self.end_of_group(index + 1)? + 1,
                _ if is_separator(byte) => break,
                _ => index += 1,
            }
        }
        Ok(index)
    }

    /// Finds the parenthesis that closes one opened before `from`.
    fn end_of_group(&self, from: usize) -> Parsed<usize> {
        let mut level = 1;
        for (index, byte) in self.rest.bytes().enumerate().skip(from) {
            match byte {
                b'(' => level += 1,
                b')' if level == 1 => return Ok(index),
                b')' => level -= 1,
                _ => {}
            }
        }
        let opened = &self.rest[from.min(self.rest.len())..];
        Err(self
            .line
            .syntax(opened, "this parenthesis is not closed; write `)`"))
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n')
}
