//! Why a write is refused.

/// A refused write. The variants are P4Runtime's canonical codes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The item exists already.
    #[error("{0} exists already; modify it instead")]
    AlreadyExists(String),
    /// The item does not exist.
    #[error("there is no {0}")]
    NotFound(String),
    /// It contradicts the program.
    #[error("{0}")]
    InvalidArgument(String),
    /// A number is too large for its place.
    #[error("{0}")]
    OutOfRange(String),
    /// There is no room for more.
    #[error("{0}")]
    ResourceExhausted(String),
    /// The program does not allow the write.
    #[error("{0}")]
    PermissionDenied(String),
    /// Another item still uses this one.
    #[error("{0}")]
    FailedPrecondition(String),
}

/// A batch that was not done: the update that failed, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("update {index}: {error}")]
pub struct BatchError {
    /// The index of the update, from 0.
    pub index: usize,
    /// Why it failed.
    pub error: WriteError,
}
