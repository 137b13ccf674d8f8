//! Why bytes are not the header they were taken for.

/// Why bytes were refused as a header: a verdict on a packet, cheap to copy and to count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the header, or the payload that it announces, does.
    #[error("the packet ends before its header says that it ends")]
    Truncated,
    /// A length in the header contradicts the header itself.
    #[error("a length in the header is impossible")]
    BadLength,
    /// The version is not the one that this format has.
    #[error("the header has another version")]
    BadVersion,
    /// A flag or a type that the format fixes has another value.
    #[error("a fixed field of the header has another value")]
    BadField,
    /// An option has an impossible length, runs past the end, or is there twice.
    #[error("an option of the header is malformed")]
    BadOption,
    /// The chain of headers is longer than the bound on work per packet allows.
    #[error("the chain of headers is too long")]
    TooManyHeaders,
}
