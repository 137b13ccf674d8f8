//! P4Info: what of a program a controller can speak of.
//!
//! [`read`] takes the text or the binary form of the published messages, [`Catalog`] is what they
//! say, checked and indexed.

mod build;
mod catalog;
mod read;
mod shape;

pub use self::build::InfoError;
pub use self::catalog::*;
pub use self::read::{ReadError, read, read_text};
pub use self::shape::Shape;
