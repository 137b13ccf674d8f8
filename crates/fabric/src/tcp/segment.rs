//! A segment, as the two ends see it.
//!
//! Payload is counted in segments, not bytes: a flow is cut once, when it is made, and a sender
//! never cuts anew. Segment `i` of `n` has number `i`; an acknowledgement of `i` asks for segment
//! `i`; one of `n` has everything but the FIN, which rides on segment `n - 1` and counts as one
//! more: `n + 1` acknowledges it. The capture of a link turns this into sequence numbers.

/// Selective acknowledgements fit three beside timestamps (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

const HEADER_BYTES: u32 = 20;
/// Timestamps (RFC 7323 section 3), padded.
const TIMESTAMP_BYTES: u32 = 12;
/// On a SYN: timestamps 10, window scale 3, SACK permitted 2, padded to a word.
const SYN_OPTION_BYTES: u32 = 16;
/// Timestamps 10 and the kind and length of SACK.
const BEFORE_BLOCKS_BYTES: u32 = 12;
const BLOCK_BYTES: u32 = 8;

/// Which way a segment goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Towards {
    /// From the machine that opened the connection, with the data.
    #[default]
    Receiver,
    /// The other way.
    Sender,
}

/// A range of segment numbers, the end not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Block {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A segment on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) towards: Towards,
    pub(crate) is_syn: bool,
    pub(crate) is_fin: bool,
    /// Congestion was met: said by the receiver of what it received (RFC 3168, RFC 8257).
    pub(crate) has_echo: bool,
    /// Whether the payload was sent before.
    pub(crate) is_again: bool,
    /// How many of `blocks` are used; the first may be of what was received twice (RFC 2883).
    pub(crate) block_count: u8,
    /// The number of the payload.
    pub(crate) number: u32,
    /// How much of it; 0 if there is none.
    pub(crate) payload_bytes: u32,
    /// The next segment that the sender of this one wants.
    pub(crate) acknowledged: u32,
    /// When it was sent, in ticks.
    pub(crate) timestamp: u32,
    /// The timestamp that it answers.
    pub(crate) timestamp_echo: u32,
    pub(crate) blocks: [Block; SACK_BLOCKS],
}

impl Segment {
    /// The TCP header with its options.
    pub(crate) fn header_bytes(&self) -> u32 {
        let options = match (self.is_syn, u32::from(self.block_count)) {
            (true, _) => SYN_OPTION_BYTES,
            (false, 0) => TIMESTAMP_BYTES,
            (false, blocks) => BEFORE_BLOCKS_BYTES + blocks * BLOCK_BYTES,
        };
        HEADER_BYTES + options
    }

    /// What selective acknowledgements it has.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks[..usize::from(self.block_count)]
    }
}
