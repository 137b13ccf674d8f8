//! A counter of packets and bytes.

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes, by the length of packets when they came in.
    pub bytes: u64,
}

impl Counter {
    /// Counts one packet.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}
