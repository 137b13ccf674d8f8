//! Reads and writes big-endian numbers, with lengths that are not trusted.

use crate::error::{ErrorCode, Refusal, refuse};

/// Reads a message or a part of it from front to back.
///
/// 1. It never reads beyond its bytes. Where bytes are missing, the error has the code that the
///    part has for a bad length.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    too_short: ErrorCode,
}

impl<'a> Reader<'a> {
    /// Creates a reader; `too_short` is the error of a part whose length is wrong.
    pub fn new(bytes: &'a [u8], too_short: ErrorCode) -> Reader<'a> {
        Reader { bytes, too_short }
    }

    /// Bytes not read yet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether everything is read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes not read yet, without reading them.
    pub fn peek(&self) -> &'a [u8] {
        self.bytes
    }

    /// The same bytes, with another error for missing ones.
    pub fn with_code(self, too_short: ErrorCode) -> Reader<'a> {
        Reader { too_short, ..self }
    }

    /// The error of a length that cannot be right.
    pub fn bad_length(&self, what: impl Into<String>) -> Refusal {
        refuse(self.too_short, what)
    }

    /// Reads `length` bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            let have = self.bytes.len();
            return Err(self.bad_length(format!("{length} bytes are needed, {have} are left")));
        };
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads a part of `length` bytes as a reader of its own.
    pub fn part(&mut self, length: usize) -> Result<Reader<'a>, Refusal> {
        Ok(Reader::new(self.take(length)?, self.too_short))
    }

    /// Reads all that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    /// Passes over padding, whatever is in it.
    pub fn skip(&mut self, length: usize) -> Result<(), Refusal> {
        self.take(length).map(drop)
    }

    /// Reads a list of fixed size.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("as many bytes as asked for"))
    }

    /// Reads a number of 8 bits.
    pub fn u8(&mut self) -> Result<u8, Refusal> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a number of 16 bits.
    pub fn u16(&mut self) -> Result<u16, Refusal> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Reads a number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, Refusal> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, Refusal> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Reads a number of 128 bits.
    pub fn u128(&mut self) -> Result<u128, Refusal> {
        Ok(u128::from_be_bytes(self.array()?))
    }

    /// Reads a string that ends at a zero byte or with its `length` bytes.
    pub fn text(&mut self, length: usize) -> Result<String, Refusal> {
        let bytes = self.take(length)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// Writes a message from front to back; lengths are filled in at the end of their part.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a number of 8 bits.
    pub fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    /// Writes a number of 16 bits.
    pub fn u16(&mut self, number: u16) {
        self.put(&number.to_be_bytes());
    }

    /// Writes a number of 32 bits.
    pub fn u32(&mut self, number: u32) {
        self.put(&number.to_be_bytes());
    }

    /// Writes a number of 64 bits.
    pub fn u64(&mut self, number: u64) {
        self.put(&number.to_be_bytes());
    }

    /// Writes a number of 128 bits.
    pub fn u128(&mut self, number: u128) {
        self.put(&number.to_be_bytes());
    }

    /// Writes `length` zero bytes.
    pub fn zeros(&mut self, length: usize) {
        self.bytes.resize(self.bytes.len() + length, 0);
    }

    /// Writes zeros until the bytes since `start` are a multiple of 8.
    pub fn pad_to_8(&mut self, start: usize) {
        let written = self.bytes.len() - start;
        self.zeros(written.next_multiple_of(8) - written);
    }

    /// Writes a string in `length` bytes: cut so that a zero byte ends it, then padded.
    pub fn text(&mut self, text: &str, length: usize) {
        let mut end = text.len().min(length.saturating_sub(1));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.put(&text.as_bytes()[..end]);
        self.zeros(length - end);
    }

    /// Drops the bytes behind the first `length`.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Overwrites the 16 bits at `at`.
    pub fn patch_u16(&mut self, at: usize, number: u16) {
        self.bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
    }

    /// Overwrites the 16 bits at `at` with the number of bytes written since `start`.
    ///
    /// A part longer than 65,535 bytes gets 65,535; messages are checked as a whole
    /// ([`crate::encode`]).
    pub fn patch_length(&mut self, at: usize, start: usize) {
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.patch_u16(at, length);
    }
}
