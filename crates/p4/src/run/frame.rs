//! A packet being processed: its bytes, its frame of words, and its wishes.

use crate::program::Program;
use crate::program::action::AnyStack;
use crate::program::headers::{Headers, Lane, Stack};
use crate::program::ids::{FieldListId, HeaderId, LearnListId, UnionId};

/// Zero bytes behind a packet's own, so that a field can be read with one wide load.
pub(crate) const SLACK_BYTES: usize = 16;

/// Requests of primitives that take effect at the end of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wishes {
    /// The session, and what the clone keeps.
    pub(crate) clone: Option<(u16, Option<FieldListId>)>,
    pub(crate) digest: Option<LearnListId>,
    pub(crate) resubmit: Option<FieldListId>,
    pub(crate) recirculate: Option<FieldListId>,
    /// Whether the last recirculation request was a withdrawal.
    pub(crate) withdraws_recirculation: bool,
    /// The least requested length.
    pub(crate) truncate_bytes: Option<u64>,
    pub(crate) has_exited: bool,
}

impl Wishes {
    /// Requests a length; of several the least counts.
    pub(crate) fn truncate(&mut self, bytes: u64) {
        let before = self.truncate_bytes.unwrap_or(u64::MAX);
        self.truncate_bytes = Some(bytes.min(before));
    }
}

/// A packet being processed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// Headers, metadata, stacks: see [`crate::program::headers`].
    pub(crate) words: Vec<u64>,
    /// The packet as it came in, followed by [`SLACK_BYTES`] zeros.
    bytes: Vec<u8>,
    /// Bytes that the parser has read.
    pub(crate) parsed_bytes: usize,
    /// The packet's current length: it grows and shrinks with its headers.
    pub(crate) length_bytes: i64,
    /// The packet's length when this pass began.
    pub(crate) ingress_length_bytes: u64,
    pub(crate) ingress_port: u32,
    /// Passes through ingress, including this one.
    pub(crate) passes: u32,
    pub(crate) wishes: Wishes,
}

impl Frame {
    /// Starts with a packet that came in.
    pub(crate) fn begin(&mut self, program: &Program, bytes: &[u8]) {
        self.set_bytes(bytes);
        self.words.clear();
        self.words.extend_from_slice(&program.headers.initial);
        self.wishes = Wishes::default();
    }

    pub(crate) fn set_bytes(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(&[0; SLACK_BYTES]);
        self.parsed_bytes = 0;
        self.length_bytes = bytes.len() as i64;
        self.ingress_length_bytes = bytes.len() as u64;
    }

    /// Becomes a copy of `other`.
    pub(crate) fn copy_from(&mut self, other: &Frame) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.parsed_bytes = other.parsed_bytes;
        self.length_bytes = other.length_bytes;
        self.ingress_length_bytes = other.ingress_length_bytes;
        self.ingress_port = other.ingress_port;
        self.passes = other.passes;
        self.wishes = other.wishes;
    }

    /// The packet as it came in.
    pub(crate) fn packet(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - SLACK_BYTES]
    }

    /// The bytes that the parser has not read.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.packet()[self.parsed_bytes..]
    }

    /// Number of bytes that the parser has not read.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.packet().len() - self.parsed_bytes
    }

    /// Reads bits of the unread part, starting at `from_bit`; they must exist.
    #[inline]
    pub(crate) fn read_bits(&self, from_bit: usize, width_bits: u32) -> u64 {
        let bit = self.parsed_bytes * 8 + from_bit;
        let first = bit / 8;
        let load: [u8; 16] = self.bytes[first..first + 16].try_into().expect("16 bytes");
        let bits = u128::from_be_bytes(load) << (bit % 8);
        (bits >> 64) as u64 >> (64 - width_bits)
    }

    /// Reads the lanes' words, one after the other, from the unread part; their bits must
    /// exist.
    #[inline]
    pub(crate) fn read_lanes(&mut self, lanes: &[Lane]) {
        let rest = &self.bytes[self.parsed_bytes..];
        let mut bit = 0;
        for lane in lanes {
            let (first, skipped) = (bit / 8, bit as u32 % 8);
            bit += lane.width_bits as usize;
            let unused = 64 - lane.width_bits;
            // Every lane fits into eight bytes, except wide lanes that begin within a byte.
            self.words[lane.word as usize] = match skipped <= unused {
                true => {
                    let load = rest[first..first + 8].try_into().expect("8 bytes");
                    u64::from_be_bytes(load) << skipped >> unused
                }
                false => {
                    let load = rest[first..first + 16].try_into().expect("16 bytes");
                    (u128::from_be_bytes(load) << skipped >> 64) as u64 >> unused
                }
            };
        }
    }

    /// Reads bits into words, the most significant first.
    pub(crate) fn read_wide(&self, from_bit: usize, width_bits: u32, into: &mut [u64]) {
        let (mut bit, mut rest) = (from_bit, width_bits);
        let skipped = into.len() - width_bits.div_ceil(64) as usize;
        into[..skipped].fill(0);
        for word in &mut into[skipped..] {
            let width = (rest - 1) % 64 + 1;
            *word = self.read_bits(bit, width);
            bit += width as usize;
            rest -= width;
        }
    }

    /// Resets metadata to its initial values, except the fields of a list.
    pub(crate) fn reset_metadata(
        &mut self,
        program: &Program,
        kept: Option<FieldListId>,
        from: &[u64],
    ) {
        let headers = &program.headers;
        for header in headers.headers.iter().filter(|header| header.is_metadata) {
            let block = header.base as usize..(header.base + header.words) as usize;
            self.words[block.clone()].copy_from_slice(&headers.initial[block]);
        }
        let Some(list) = kept else { return };
        for &field in &program.arrays.field_lists[list.index()].fields {
            let range = crate::program::exact::range(headers.field(field));
            self.words[range.clone()].copy_from_slice(&from[range]);
        }
    }

    /// Whether a header is valid.
    #[inline]
    pub(crate) fn is_valid(&self, headers: &Headers, header: HeaderId) -> bool {
        self.words[headers.header(header).base as usize] != 0
    }

    /// Makes a header valid, and the other members of its union invalid.
    #[inline]
    pub(crate) fn validate(&mut self, headers: &Headers, header: HeaderId) {
        if let Some(union) = headers.header(header).union {
            for &member in &headers.union(union).headers {
                self.words[headers.header(member).base as usize] = 0;
            }
        }
        self.words[headers.header(header).base as usize] = 1;
    }

    /// Makes a header invalid.
    #[inline]
    pub(crate) fn invalidate(&mut self, headers: &Headers, header: HeaderId) {
        self.words[headers.header(header).base as usize] = 0;
    }

    /// Bytes that a header would occupy when leaving.
    #[inline]
    pub(crate) fn header_bytes(&self, headers: &Headers, header: HeaderId) -> usize {
        let header = headers.header(header);
        let varbit = match header.varbit {
            Some(_) => self.words[header.varbit_length_word() as usize] as usize,
            None => 0,
        };
        (header.fixed_bits as usize + varbit) / 8
    }

    /// Does `add_header`: a header that was invalid gets all fields 0.
    pub(crate) fn add_header(&mut self, headers: &Headers, id: HeaderId) {
        if self.is_valid(headers, id) {
            return;
        }
        let header = headers.header(id);
        self.words[header.base as usize..(header.base + header.words) as usize].fill(0);
        self.validate(headers, id);
        self.length_bytes += self.header_bytes(headers, id) as i64;
    }

    /// Does `remove_header`: the fields keep their values but leave the wire.
    pub(crate) fn remove_header(&mut self, headers: &Headers, id: HeaderId) {
        if self.is_valid(headers, id) {
            self.length_bytes -= self.header_bytes(headers, id) as i64;
            self.invalidate(headers, id);
        }
    }

    /// Does `assign_header`: an invalid header makes the other invalid and keeps its fields.
    pub(crate) fn assign_header(&mut self, headers: &Headers, from: HeaderId, to: HeaderId) {
        if !self.is_valid(headers, from) {
            return self.invalidate(headers, to);
        }
        self.validate(headers, to);
        self.copy_block(headers, from, to);
    }

    /// Copies all words of a header to another of its type.
    fn copy_block(&mut self, headers: &Headers, from: HeaderId, to: HeaderId) {
        let (from, to) = (headers.header(from), headers.header(to));
        let source = from.base as usize..(from.base + from.words) as usize;
        self.words.copy_within(source, to.base as usize);
    }

    /// Does `assign_union`, member by member.
    pub(crate) fn assign_union(&mut self, headers: &Headers, from: UnionId, to: UnionId) {
        let members = headers.union(from).headers.len();
        for index in 0..members {
            let (from, to) = (
                headers.union(from).headers[index],
                headers.union(to).headers[index],
            );
            // At most one member is valid, so the order does not matter.
            self.assign_header(headers, from, to);
        }
    }

    /// Does `assign_header_stack` and `assign_union_stack`.
    pub(crate) fn assign_stack(&mut self, headers: &Headers, from: AnyStack, to: AnyStack) {
        match (from, to) {
            (AnyStack::Headers(from), AnyStack::Headers(to)) => {
                let (from, to) = (headers.stack(from), headers.stack(to));
                self.words[to.next_word as usize] = self.words[from.next_word as usize];
                for (&from, &to) in from.headers.iter().zip(&to.headers) {
                    self.assign_header(headers, from, to);
                }
            }
            (AnyStack::Unions(from), AnyStack::Unions(to)) => {
                let (from, to) = (headers.union_stack(from), headers.union_stack(to));
                self.words[to.next_word as usize] = self.words[from.next_word as usize];
                for (&from, &to) in from.unions.iter().zip(&to.unions) {
                    self.assign_union(headers, from, to);
                }
            }
            _ => unreachable!("the loader compared the types"),
        }
    }

    /// Does `push`: elements move towards the end; those at the front become invalid.
    pub(crate) fn push(&mut self, headers: &Headers, stack: AnyStack, count: u64) {
        let (next, size) = shape(headers, stack);
        let count = count.min(size as u64) as usize;
        let used = self.words[next as usize] as usize;
        self.words[next as usize] = (used + count).min(size) as u64;
        for index in (count..size).rev() {
            self.move_element(headers, stack, index - count, index);
        }
        for index in 0..count {
            self.invalidate_element(headers, stack, index);
        }
    }

    /// Does `pop`: elements move towards the front; those at the end become invalid.
    pub(crate) fn pop(&mut self, headers: &Headers, stack: AnyStack, count: u64) {
        let (next, size) = shape(headers, stack);
        let count = count.min(size as u64) as usize;
        let used = self.words[next as usize] as usize;
        self.words[next as usize] = used.saturating_sub(count) as u64;
        for index in 0..size - count {
            self.move_element(headers, stack, index + count, index);
        }
        for index in size - count..size {
            self.invalidate_element(headers, stack, index);
        }
    }

    fn move_element(&mut self, headers: &Headers, stack: AnyStack, from: usize, to: usize) {
        match stack {
            AnyStack::Headers(stack) => {
                let elements = &headers.stack(stack).headers;
                self.copy_block(headers, elements[from], elements[to]);
            }
            AnyStack::Unions(stack) => {
                let unions = &headers.union_stack(stack).unions;
                let (from, to) = (headers.union(unions[from]), headers.union(unions[to]));
                for (&from, &to) in from.headers.iter().zip(&to.headers) {
                    self.copy_block(headers, from, to);
                }
            }
        }
    }

    fn invalidate_element(&mut self, headers: &Headers, stack: AnyStack, index: usize) {
        match stack {
            AnyStack::Headers(stack) => {
                self.invalidate(headers, headers.stack(stack).headers[index]);
            }
            AnyStack::Unions(stack) => {
                let union = headers.union_stack(stack).unions[index];
                for &member in &headers.union(union).headers {
                    self.invalidate(headers, member);
                }
            }
        }
    }

    /// The element of a stack to extract next, if there is room.
    pub(crate) fn next_element(&self, stack: &Stack) -> Option<HeaderId> {
        let next = self.words[stack.next_word as usize] as usize;
        stack.headers.get(next).copied()
    }
}

/// The word that counts the elements in use, and the stack's size.
fn shape(headers: &Headers, stack: AnyStack) -> (u32, usize) {
    match stack {
        AnyStack::Headers(stack) => {
            let stack = headers.stack(stack);
            (stack.next_word, stack.headers.len())
        }
        AnyStack::Unions(stack) => {
            let stack = headers.union_stack(stack);
            (stack.next_word, stack.unions.len())
        }
    }
}
