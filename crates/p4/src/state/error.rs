//! Why a write is refused.

/// A write that cannot be done. The kinds are those of P4Runtime's canonical codes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// It is there already.
    #[error("{0} exists already; modify it instead")]
    AlreadyExists(String),
    /// It is not there.
    #[error("there is no {0}")]
    NotFound(String),
    /// It contradicts the program.
    #[error("{0}")]
    InvalidArgument(String),
    /// A number is too great for where it belongs.
    #[error("{0}")]
    OutOfRange(String),
    /// There is no room for more.
    #[error("{0}")]
    ResourceExhausted(String),
    /// The program does not allow it.
    #[error("{0}")]
    PermissionDenied(String),
    /// Something else uses it.
    #[error("{0}")]
    FailedPrecondition(String),
}

/// A batch of which nothing was done: which update was at fault, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("update {index}: {error}")]
pub struct BatchError {
    /// From 0.
    pub index: usize,
    /// Why.
    pub error: WriteError,
}
