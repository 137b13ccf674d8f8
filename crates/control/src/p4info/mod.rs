//! P4Info: the parts of a program that a controller can refer to.
//!
//! [`read`] takes the text or the binary form of the published messages. [`Catalog`] is their
//! content, checked and indexed. [`derive`] makes P4Info for a program that has none.

mod build;
mod cache;
mod catalog;
mod derive;
mod read;
mod shape;

pub use self::build::InfoError;
pub use self::cache::with_cache;
pub use self::catalog::{
    Action, Catalog, Counter, Digest, Field, MAX_WIDTH, Marker, MatchKind, Meter, PacketHeader,
    Parameter, Profile, Register, Scope, Table, ValueSet,
};
pub use self::derive::derive;
pub(crate) use self::read::descriptors;
pub use self::read::{ReadError, read, read_text, to_text};
pub use self::shape::Shape;
