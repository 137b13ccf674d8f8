//! P4Info: the parts of a program that a controller can refer to.
//!
//! [`read`] takes the text or the binary form of the published messages. [`Catalog`] is their
//! content, checked and indexed.

mod build;
mod catalog;
mod read;
mod shape;

pub use self::build::InfoError;
pub use self::catalog::{
    Action, Catalog, Counter, Digest, Field, MAX_WIDTH, Marker, MatchKind, Meter, PacketHeader,
    Parameter, Profile, Register, Scope, Table, ValueSet,
};
pub(crate) use self::read::descriptors;
pub use self::read::{ReadError, read, read_text, to_text};
pub use self::shape::Shape;
