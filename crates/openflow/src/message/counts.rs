//! The counts of entries: times, packets, bytes.

/// Seconds and nanoseconds, as OpenFlow splits a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Duration {
    /// Whole seconds.
    pub seconds: u32,
    /// Nanoseconds above them.
    pub nanoseconds: u32,
}

/// Packets and bytes; `u64::MAX` stands for a count that is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}
