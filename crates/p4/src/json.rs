//! BMv2's JSON as a tree whose nodes know their place.
//!
//! p4c's back end for BMv2 writes one JSON object per program (`__meta__.version` 2.x). Loaders
//! walk down with [`Node`]. When something is missing, has the wrong kind or is not supported,
//! [`Node::refuse`] makes an error with the JSON pointer (RFC 6901) of the place. If the
//! compiler recorded the line of P4 it came from (`source_info`), the error has that too.
//!
//! 1. Unknown keys are ignored: later 2.x versions may add some.
//! 2. A missing array is an empty one: older files lack some.
//! 3. `null` is the same as missing.

mod number;

use std::fmt;
use std::rc::Rc;

use num_bigint::BigInt;
use serde_json::Value;

pub(crate) use number::parse_number;

use crate::error::{LoadError, SourceLocation};

/// A part of the JSON, with its path from the root.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    path: Option<Rc<Link>>,
    /// The innermost enclosing object with a `source_info`.
    source: Option<&'a Value>,
}

/// One step down from the root.
#[derive(Debug)]
struct Link {
    parent: Option<Rc<Link>>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

impl<'a> Node<'a> {
    /// The root node.
    pub(crate) fn root(value: &'a Value) -> Node<'a> {
        Node {
            value,
            path: None,
            source: None,
        }
    }

    fn child(&self, value: &'a Value, step: Step) -> Node<'a> {
        let link = Link {
            parent: self.path.clone(),
            step,
        };
        Node {
            value,
            path: Some(Rc::new(link)),
            source: value.get("source_info").or(self.source),
        }
    }

    /// The JSON value.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The value of a key, if present and not null.
    pub(crate) fn find(&self, key: &str) -> Option<Node<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.child(value, Step::Key(key.to_owned())))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Result<Node<'a>, LoadError> {
        self.find(key)
            .ok_or_else(|| self.refuse(format!("there is no {key:?}")))
    }

    /// The items of an array.
    pub(crate) fn items(&self) -> Result<Vec<Node<'a>>, LoadError> {
        let array = self.value.as_array();
        let array = array.ok_or_else(|| self.refuse("this is no array"))?;
        let items = array.iter().enumerate();
        Ok(items
            .map(|(index, value)| self.child(value, Step::Index(index)))
            .collect())
    }

    /// The items of the array under a key; empty if it is missing.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Node<'a>>, LoadError> {
        self.find(key).map_or(Ok(Vec::new()), |node| node.items())
    }

    /// One item of an array.
    pub(crate) fn at(&self, index: usize) -> Result<Node<'a>, LoadError> {
        let value = self.value.get(index);
        let value = value.ok_or_else(|| self.refuse(format!("there is no item {index}")))?;
        Ok(self.child(value, Step::Index(index)))
    }

    /// A string.
    pub(crate) fn text(&self) -> Result<&'a str, LoadError> {
        self.value
            .as_str()
            .ok_or_else(|| self.refuse("this is no string"))
    }

    /// The string under a key.
    pub(crate) fn text_of(&self, key: &str) -> Result<&'a str, LoadError> {
        self.get(key)?.text()
    }

    /// A boolean.
    pub(crate) fn flag(&self) -> Result<bool, LoadError> {
        self.value
            .as_bool()
            .ok_or_else(|| self.refuse("this is neither true nor false"))
    }

    /// The boolean under a key; false if it is missing.
    pub(crate) fn flag_of(&self, key: &str) -> Result<bool, LoadError> {
        self.find(key).map_or(Ok(false), |node| node.flag())
    }

    /// A number from 0 to 2^32 - 1.
    pub(crate) fn number(&self) -> Result<u32, LoadError> {
        let number = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(|| self.refuse("this is no number from 0 to 4294967295"))
    }

    /// The number under a key.
    pub(crate) fn number_of(&self, key: &str) -> Result<u32, LoadError> {
        self.get(key)?.number()
    }

    /// A number of any size, as p4c writes it: `"0x1f"`, `"-0x1"`, or a JSON integer.
    pub(crate) fn big(&self) -> Result<BigInt, LoadError> {
        if let Some(number) = self.value.as_i64() {
            return Ok(number.into());
        }
        let number = self.value.as_str().and_then(parse_number);
        number.ok_or_else(|| self.refuse("this is no number: write it like \"0x1f\""))
    }

    /// Whether it is exactly this string.
    pub(crate) fn is_text(&self, text: &str) -> bool {
        self.value.as_str() == Some(text)
    }

    /// Makes an error at this place.
    pub(crate) fn refuse(&self, what: impl Into<String>) -> LoadError {
        LoadError::Refused {
            pointer: self.pointer(),
            source_location: self.source.and_then(SourceLocation::of),
            what: what.into(),
        }
    }

    /// The place in the P4 program that the compiler recorded for this part.
    pub(crate) fn source(&self) -> Option<SourceLocation> {
        self.source.and_then(SourceLocation::of)
    }

    fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut link = self.path.as_ref();
        while let Some(step) = link {
            steps.push(step.step.to_string());
            link = step.parent.as_ref();
        }
        steps.iter().rev().map(|step| format!("/{step}")).collect()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Key(key) => f.write_str(&key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => write!(f, "{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_pointer_and_the_line_of_p4() {
        let text = r#"{"a/b": [{"source_info": {"filename": "x.p4", "line": 7, "column": 3},
                       "c": 1}]}"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        let node = Node::root(&value).get("a/b").and_then(|n| n.at(0));
        let error = node.and_then(|n| n.text_of("c").map(str::to_owned));
        let error = error.expect_err("a number is no string").to_string();
        assert!(error.contains("/a~1b/0/c"), "{error}");
        assert!(error.contains("x.p4:7:3"), "{error}");
    }

    #[test]
    fn null_and_missing_arrays_are_empty() {
        let value: Value = serde_json::from_str(r#"{"a": null}"#).expect("JSON");
        let root = Node::root(&value);
        assert!(root.find("a").is_none());
        assert!(root.list("a").expect("empty").is_empty());
        assert!(root.get("a").is_err());
    }
}
