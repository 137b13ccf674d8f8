//! Why a snapshot cannot be read or written.

use std::io;

/// Why a snapshot cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file is of something else.
    #[error("it is no snapshot of a switch; name another file, or move this one away")]
    Foreign,
    /// Another version of the program wrote it.
    #[error(
        "it has format {found}, and this program reads format {known}; start the program that wrote it"
    )]
    Format {
        /// The file's format.
        found: u32,
        /// The format that is read.
        known: u32,
    },
    /// Some of its bytes are not those that were written.
    #[error("it is damaged: {what}")]
    Damaged {
        /// The fault.
        what: String,
    },
    /// Another process has it.
    #[error("another process uses it; give each switch a file of its own")]
    Busy,
    /// The operating system refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl SnapshotError {
    pub(crate) fn damaged(what: impl std::fmt::Display) -> SnapshotError {
        SnapshotError::Damaged {
            what: what.to_string(),
        }
    }

    /// Whether the file itself is at fault, so that it is of no use to this program.
    pub fn is_of_file(&self) -> bool {
        !matches!(self, SnapshotError::Busy | SnapshotError::System(_))
    }
}

impl From<redb::Error> for SnapshotError {
    fn from(error: redb::Error) -> SnapshotError {
        match error {
            // What the sums of `sealed` are told by.
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                SnapshotError::damaged(error)
            }
            redb::Error::Io(error) => SnapshotError::System(error),
            other => SnapshotError::damaged(other),
        }
    }
}
