//! Files of records that are there whole or not at all.
//!
//! A switch writes what it knows into such a file, and reads it after its next start. What the
//! records mean is the caller's affair; they come in sections, and in an order.
//!
//! ```text
//!   SnapshotFile::write --> SnapshotWriter: records --> pages --> redb, one transaction
//!   SnapshotFile::read  <-- SnapshotPages:  records <-- pages <-- redb
//!                                                           SealedFile: a sum for each block
//! ```
//!
//! The database is redb's. It keeps the last state until the next is complete, but believes
//! what it reads: so each block of the file has a sum of its own, which is checked before redb
//! sees the block (`sealed`).
//!
//! 1. A reader gets all records of one write, or an error. A write that fails or is cut off
//!    leaves the former state.
//! 2. No bytes of a file make it panic. A file that is damaged, of something else or of another
//!    format is refused with an error that says so.
//! 3. What a writer holds in memory is bounded, however many records there are.

mod error;
mod file;
mod pages;
mod sealed;

#[cfg(test)]
mod tests;

pub use error::SnapshotError;
pub use file::SnapshotFile;
pub use pages::{SnapshotPages, SnapshotWriter};
