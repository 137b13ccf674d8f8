//! AF_XDP sockets: frames in memory that is shared with the kernel, by four kinds of rings.
//!
//! ```text
//!            fill ring: chunks to receive into           rx ring: chunks with a frame
//!   process ───────────────────────────────────▶ kernel ─────────────────────────────▶ process
//!            tx ring: chunks with a frame                completion ring: chunks sent
//!   process ───────────────────────────────────▶ kernel ─────────────────────────────▶ process
//! ```
//!
//! The memory (`umem.rs`) is an array of chunks of one size. A ring (`ring.rs`) holds places of
//! chunks, or for rx and tx places and lengths. Each has one end that writes and one that reads,
//! and each end has a counter that it alone changes. Every queue of an interface has a socket
//! (`sockets.rs`); the sockets of an interface share one memory. A program in the kernel (`bpf.rs`)
//! gives them the frames of their queues.
//!
//! The folder's invariant 4 means here: a chunk is either this process's or the kernel's.
//!
//! 1. A chunk of queue q is the kernel's from the moment it is in the fill ring of q until it comes
//!    back in the rx ring of q. The fill ring has two slots for each chunk of its queue: what the
//!    kernel has read and not said so yet is at most one of them.
//! 2. A chunk for sending is the kernel's from the moment it is in the tx ring until it comes back
//!    in the completion ring, or is taken back from the tx ring before the kernel looked.
//! 3. No number that the kernel wrote is trusted: a frame outside the memory is refused, and a ring
//!    never holds more than its slots.
//!
//! References: the kernel's `Documentation/networking/af_xdp.rst`, and `net/xdp/xsk.c` for the
//! missing details.

mod bpf;
mod mapping;
mod queue;
mod ring;
mod sockets;
mod umem;

pub(crate) use bpf::{AttachMode, XdpLink};
pub(crate) use queue::{BadFrame, Flushed};
pub(crate) use sockets::{CopyMode, Refused, XdpSockets, XdpSocketsConfig, promiscuous};
pub(crate) use umem::{LARGE_CHUNK_BYTES, SMALL_CHUNK_BYTES, longest_frame};
