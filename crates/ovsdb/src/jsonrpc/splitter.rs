//! Finds where one JSON object ends and the next begins, in a stream that comes in pieces.
//!
//! It follows strings, escapes and brackets only. The parser checks the rest: it sees one whole
//! object at a time. White space may stand between objects.

use serde_json::Value;

/// How large a message may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RpcLimits {
    /// Most bytes of a message.
    pub bytes_max: usize,
    /// Most values in a message; an object counts as eight, as it takes more memory.
    pub values_max: usize,
    /// Most brackets open at a time, at most 120.
    pub depth_max: usize,
}

impl Default for RpcLimits {
    /// Room for a hundred thousand ports.
    fn default() -> RpcLimits {
        RpcLimits {
            bytes_max: 256 << 20,
            values_max: 32 << 20,
            depth_max: 64,
        }
    }
}

/// Why a stream cannot be split further.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// Something else than an object.
    #[error("the byte {0:#04x} stands where a JSON object should begin")]
    NoObject(u8),
    /// Longer than allowed.
    #[error("a message is longer than {0} bytes; raise `bytes_max` if the peer can be trusted")]
    TooLong(usize),
    /// More values than allowed.
    #[error("a message has more than {0} values; raise `values_max` if the peer can be trusted")]
    TooFull(usize),
    /// More brackets than allowed.
    #[error("a message nests more than {0} levels deep")]
    TooDeep(usize),
    /// An object that is no JSON.
    #[error("a message is no JSON: {0}")]
    NoJson(String),
}

/// A stream of JSON objects, cut into them.
///
/// ```
/// use thalweg_ovsdb::jsonrpc::JsonSplitter;
///
/// let mut splitter = JsonSplitter::default();
/// splitter.push(br#"{"a":1} {"b":"}"#);
/// assert_eq!(splitter.next().unwrap().unwrap()["a"], 1);
/// assert!(splitter.next().unwrap().is_none());
/// splitter.push(br#""}"#);
/// assert_eq!(splitter.next().unwrap().unwrap()["b"], "}");
/// ```
#[derive(Debug, Default)]
pub struct JsonSplitter {
    limits: RpcLimits,
    buffer: Vec<u8>,
    /// Where the object that is read begins; earlier bytes are done with.
    start: usize,
    /// How far it has been looked at.
    seen: usize,
    depth: usize,
    values: usize,
    is_string: bool,
    is_escaped: bool,
}

impl JsonSplitter {
    /// A splitter before its stream.
    pub fn new(limits: RpcLimits) -> JsonSplitter {
        assert!(
            limits.depth_max <= 120,
            "the parser refuses more than 127 levels"
        );
        JsonSplitter {
            limits,
            ..JsonSplitter::default()
        }
    }

    /// Appends what came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.seen -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > 1 << 20 {
            // A large message is rare: its room is given back.
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that came and were not returned.
    pub fn waiting_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next whole object.
    ///
    /// # Errors
    ///
    /// The stream breaks a limit or is no sequence of JSON objects; what follows cannot be read.
    #[expect(clippy::should_implement_trait, reason = "more may come after `None`")]
    pub fn next(&mut self) -> Result<Option<Value>, SplitError> {
        if self.depth == 0 {
            let rest = &self.buffer[self.start..];
            let blank = rest.iter().take_while(|byte| is_blank(**byte)).count();
            self.start += blank;
            self.seen = self.start;
            match self.buffer.get(self.start) {
                None => return Ok(None),
                Some(b'{') => {}
                Some(other) => return Err(SplitError::NoObject(*other)),
            }
        }
        let Some(end) = self.find_end()? else {
            return Ok(None);
        };
        let text = &self.buffer[self.start..end];
        let value = serde_json::from_slice(text);
        self.start = end;
        self.values = 0;
        value
            .map(Some)
            .map_err(|error| SplitError::NoJson(error.to_string()))
    }

    /// Looks at the bytes that came since; returns where the object ends, if they reach it.
    fn find_end(&mut self) -> Result<Option<usize>, SplitError> {
        let RpcLimits {
            bytes_max,
            values_max,
            depth_max,
        } = self.limits;
        let most = self.start.saturating_add(bytes_max).min(self.buffer.len());
        while self.seen < most {
            let byte = self.buffer[self.seen];
            self.seen += 1;
            if self.is_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.is_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.is_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.values += if byte == b'{' { 8 } else { 1 };
                }
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.seen));
                    }
                }
                b',' => self.values += 1,
                _ => {}
            }
            if self.depth > depth_max {
                return Err(SplitError::TooDeep(depth_max));
            }
            if self.values > values_max {
                return Err(SplitError::TooFull(values_max));
            }
        }
        match self.buffer.len() - self.start >= bytes_max {
            true => Err(SplitError::TooLong(bytes_max)),
            false => Ok(None),
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
