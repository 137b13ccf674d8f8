//! Bytes to headers to keys.

mod buffer;
mod instant;

pub use buffer::{HEADROOM_BYTES, Packet, PortId};
pub use instant::Instant;
