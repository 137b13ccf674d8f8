//! Capture files: reads pcap and pcapng, writes pcap.
//!
//! [`CaptureReader`] and [`CaptureWriter`] read and write packets; [`CapturePort`] makes a
//! port of them. The `pcap-file` crate implements the formats. This module adds buffering,
//! limits, positions in error messages, and the rule that only Ethernet is read.
//!
//! 1. Arbitrary bytes yield packets, then one error or the end. They never cause a panic, a
//!    loop, or more memory than [`reader`]'s largest record.
//! 2. A truncated capture yields every whole packet before the cut.
//! 3. A packet that was captured only in part keeps its original length, through the switch
//!    and in written captures.
//! 4. Times are nanoseconds since the Unix epoch, whatever the resolution in the file.
//!
//! References: pcap, draft-ietf-opsawg-pcap; pcapng, draft-ietf-opsawg-pcapng.

mod port;
mod reader;
mod writer;

pub use port::CapturePort;
pub use reader::CaptureReader;
pub use writer::{AppendedFile, CaptureWriter};

#[cfg(test)]
mod tests;
