//! A segment, in the form that the two ends exchange.
//!
//! Payload is counted in segments, not bytes: a flow is divided once, when it is made, and a
//! sender never divides it again. Segment `i` of `n` has number `i`; an acknowledgement of `i`
//! asks for segment `i`. An acknowledgement of `n` covers everything but the FIN. The FIN is
//! on segment `n - 1` and counts as one more: `n + 1` acknowledges it. A link's capture
//! converts these to sequence numbers.

/// Three selective acknowledgements fit beside timestamps (RFC 2018 section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

const HEADER_BYTES: u32 = 20;
/// Length of the timestamps option (RFC 7323 section 3), padded.
const TIMESTAMP_BYTES: u32 = 12;
/// Options of a SYN: timestamps 10, window scale 3, SACK permitted 2, padded to a word.
const SYN_OPTION_BYTES: u32 = 16;
/// Timestamps 10 and the kind and length of SACK.
const BEFORE_BLOCKS_BYTES: u32 = 12;
const BLOCK_BYTES: u32 = 8;

/// The direction of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Towards {
    /// From the machine that opened the connection and sends the data.
    #[default]
    Receiver,
    /// The opposite direction.
    Sender,
}

/// A range of segment numbers, excluding the end.
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
    /// The receiver's report that data met congestion (RFC 3168, RFC 8257).
    pub(crate) has_echo: bool,
    /// Whether the payload was sent before.
    pub(crate) is_again: bool,
    /// The number of `blocks` in use; the first may be a duplicate segment (RFC 2883).
    pub(crate) block_count: u8,
    /// The number of the payload.
    pub(crate) number: u32,
    /// The payload's length; 0 if there is none.
    pub(crate) payload_bytes: u32,
    /// The next segment that its sender expects.
    pub(crate) acknowledged: u32,
    /// The time it was sent, in ticks.
    pub(crate) timestamp: u32,
    /// The timestamp that it answers.
    pub(crate) timestamp_echo: u32,
    pub(crate) blocks: [Block; SACK_BLOCKS],
}

impl Segment {
    /// The length of the TCP header with its options.
    pub(crate) fn header_bytes(&self) -> u32 {
        let options = match (self.is_syn, u32::from(self.block_count)) {
            (true, _) => SYN_OPTION_BYTES,
            (false, 0) => TIMESTAMP_BYTES,
            (false, blocks) => BEFORE_BLOCKS_BYTES + blocks * BLOCK_BYTES,
        };
        HEADER_BYTES + options
    }

    /// Its selective acknowledgements.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks[..usize::from(self.block_count)]
    }
}
