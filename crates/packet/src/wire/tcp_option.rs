//! TCP options (RFC 9293 section 3.2, RFC 7323, RFC 2018).
//!
//! The first two kinds are a single byte. Any other option has a kind byte, a length byte
//! (which counts both) and a value. A malformed option hides the start of the next one, so the
//! walk reports it and ends.

use super::WireError;

const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;
/// RFC 9293 section 3.7.1.
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
/// RFC 7323 section 2.2.
const WINDOW_SCALE: u8 = 3;
/// RFC 2018 section 2.
const SELECTIVE_PERMITTED: u8 = 4;
/// RFC 7323 section 3.2.
const TIMESTAMPS: u8 = 8;

/// An option of a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// Padding between options.
    NoOperation,
    /// The largest segment that the sender accepts.
    MaximumSegmentSize(u16),
    /// The left shift of windows, in bits.
    WindowScale(u8),
    /// Selective acknowledgments may be sent.
    SelectivePermitted,
    /// The sender's clock, and the clock value that it echoes.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The last clock value that arrived from the peer.
        echo: u32,
    },
    /// Any option without a variant here, such as selective acknowledgments.
    Other {
        /// The kind of option, from 2 up.
        kind: u8,
        /// Its value.
        data: &'a [u8],
    },
}

impl TcpOption<'_> {
    /// Bytes that [`TcpOption::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        match self {
            TcpOption::NoOperation => 1,
            TcpOption::SelectivePermitted => 2,
            TcpOption::WindowScale(_) => 3,
            TcpOption::MaximumSegmentSize(_) => 4,
            TcpOption::Timestamps { .. } => 10,
            TcpOption::Other { data, .. } => 2 + data.len(),
        }
    }

    /// Writes the option.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`TcpOption::buffer_len`], or the option has over 255 bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let kind = match *self {
            TcpOption::NoOperation => {
                bytes[0] = NO_OPERATION;
                return;
            }
            TcpOption::MaximumSegmentSize(size) => {
                bytes[2..4].copy_from_slice(&size.to_be_bytes());
                MAXIMUM_SEGMENT_SIZE
            }
            TcpOption::WindowScale(shift) => {
                bytes[2] = shift;
                WINDOW_SCALE
            }
            TcpOption::SelectivePermitted => SELECTIVE_PERMITTED,
            TcpOption::Timestamps { value, echo } => {
                bytes[2..6].copy_from_slice(&value.to_be_bytes());
                bytes[6..10].copy_from_slice(&echo.to_be_bytes());
                TIMESTAMPS
            }
            TcpOption::Other { kind, data } => {
                bytes[2..self.buffer_len()].copy_from_slice(data);
                kind
            }
        };
        bytes[0] = kind;
        bytes[1] = u8::try_from(self.buffer_len()).expect("an option has under 256 bytes");
    }
}

/// The options of a TCP header, in order, up to the end of the list.
///
/// An option of impossible length yields [`WireError::BadOption`] as the last item.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// Walks the options in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        TcpOptions { bytes }
    }

    /// Splits an option with a length field from the bytes behind it.
    fn split_option(&self) -> Result<(TcpOption<'a>, &'a [u8]), WireError> {
        let [kind, len, ..] = *self.bytes else {
            return Err(WireError::BadOption);
        };
        if len < 2 {
            return Err(WireError::BadOption);
        }
        let (option, rest) = self
            .bytes
            .split_at_checked(usize::from(len))
            .ok_or(WireError::BadOption)?;
        let option = match (kind, &option[2..]) {
            (MAXIMUM_SEGMENT_SIZE, &[a, b]) => {
                TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b]))
            }
            (WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
            (SELECTIVE_PERMITTED, &[]) => TcpOption::SelectivePermitted,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            (_, data) => TcpOption::Other { kind, data },
        };
        Ok((option, rest))
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        match *self.bytes.first()? {
            END_OF_LIST => {
                self.bytes = &[];
                None
            }
            NO_OPERATION => {
                self.bytes = &self.bytes[1..];
                Some(Ok(TcpOption::NoOperation))
            }
            _ => {
                let split = self.split_option();
                self.bytes = split.map_or(&[], |(_, rest)| rest);
                Some(split.map(|(option, _)| option))
            }
        }
    }
}
