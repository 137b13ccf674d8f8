//! Why bytes were refused as a header.

/// The reason why bytes were refused as a header; cheap to copy and to count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the header or the payload that it announces.
    #[error("the packet ends before its header says that it ends")]
    Truncated,
    /// A length in the header contradicts the header itself.
    #[error("a length in the header is impossible")]
    BadLength,
    /// The version is not this format's.
    #[error("the header has another version")]
    BadVersion,
    /// A flag or a type has a value that the format does not allow.
    #[error("a fixed field of the header has another value")]
    BadField,
    /// An option has an impossible length, runs past the end, or is repeated.
    #[error("an option of the header is malformed")]
    BadOption,
    /// The chain of headers exceeds the bound on work per packet.
    #[error("the chain of headers is too long")]
    TooManyHeaders,
}
