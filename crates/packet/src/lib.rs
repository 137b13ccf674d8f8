//! Bytes to headers to keys.
//!
//! ```text
//!   frame bytes --Headers::parse--> offsets of headers --Layout::extract--> key (64-bit words)
//! ```
//!
//! This crate only knows what packets look like: it does no I/O, reads no clock, and does not
//! decide what happens to a packet. [`standard`] is the catalogue of protocol fields;
//! [`Layout`] packs the fields that a program uses into the words of a key.

mod buffer;
pub mod checksum;
mod extract;
mod field;
mod headers;
mod instant;
mod layout;
mod pool;
mod rewrite;
mod shapes;
mod slot;
pub mod standard;
mod tunnel;
mod tunnel_part;
mod unfinished;
pub mod wire;

pub use buffer::{HEADROOM_BYTES, LARGE_PACKET_BYTES, Packet, PortId};
pub use extract::{Connection, Receipt};
pub use field::{FieldDescriptor, FieldId, HeaderId, Intrinsic, Location, Scalar, Source, Stage};
pub use headers::{FrameError, Headers};
pub use instant::Instant;
pub use layout::{Layout, LayoutTooWide, MAX_WORDS};
pub use pool::{BURST, PacketPool};
pub use rewrite::Rewriter;
pub use shapes::Shapes;
pub use slot::Slot;
pub use tunnel::TunnelValues;
pub use tunnel_part::{TUNNEL_OPTIONS, TunnelPart};
pub use unfinished::{MOST_SEGMENTS, Unfinished};
