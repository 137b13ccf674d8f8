//! The pieces that all formats read and write: the front of a payload, and the bytes of headers.

use thalweg_packet::wire::{EthernetView, Ipv6View, UdpView};

use crate::options::OPTIONS_MAX_BYTES;
use crate::{DecapsulateError, InnerType};

/// The longest headers: Ethernet, IPv6, UDP, and Geneve with all options.
const HEADER_MAX_BYTES: usize = EthernetView::HEADER_LEN
    + Ipv6View::HEADER_LEN
    + UdpView::HEADER_LEN
    + GENEVE_LEN
    + OPTIONS_MAX_BYTES;
const GENEVE_LEN: usize = 8;

/// What a tunnel's header says of the bytes behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stripped {
    /// The packet begins behind `len` bytes.
    Header {
        /// The length of the header.
        len: usize,
        /// What the packet begins with.
        inner: InnerType,
    },
    /// There is no packet.
    Message,
}

/// The values that differ from packet to packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PerPacket {
    /// The outer UDP source port; see [`crate::SourcePorts`].
    pub source_port: u16,
    /// The sequence number of GRE, ERSPAN or GTP-U; its low bits for GTP-U.
    pub sequence: u32,
    /// The time in units of 100 µs, for ERSPAN type III.
    pub timestamp_100us: u32,
}

/// Bytes of headers, from the first on.
#[derive(Clone, Debug)]
pub(crate) struct HeaderBytes {
    /// The bytes, with zeros behind them.
    pub(crate) bytes: [u8; HEADER_MAX_BYTES],
    /// The number of bytes.
    pub(crate) len: usize,
}

impl HeaderBytes {
    /// No bytes.
    pub(crate) const EMPTY: HeaderBytes = HeaderBytes {
        bytes: [0; HEADER_MAX_BYTES],
        len: 0,
    };

    /// Adds `bytes`.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }

    /// Adds `count` zeros, and gives them.
    pub(crate) fn grow(&mut self, count: usize) -> &mut [u8] {
        let start = self.len;
        self.len += count;
        &mut self.bytes[start..self.len]
    }
}

/// The `N` bytes at `start`.
pub(crate) fn front<const N: usize>(
    bytes: &[u8],
    start: usize,
) -> Result<[u8; N], DecapsulateError> {
    let rest = bytes.get(start..).unwrap_or_default();
    let found = rest.first_chunk::<N>();
    found.copied().ok_or(DecapsulateError::Truncated)
}
