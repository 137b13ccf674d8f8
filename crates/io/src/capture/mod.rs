//! Capture files: pcap and pcapng in, pcap out.
//!
//! [`CaptureReader`] and [`CaptureWriter`] are for anyone who wants packets from or in a file;
//! [`CapturePort`] makes a port of them. The formats themselves are the `pcap-file` crate's: here
//! are the buffering, the limits, the positions in error messages, and the rule that only
//! Ethernet is read.
//!
//! 1. Arbitrary bytes give packets, then one error or the end. They never panic, never loop, and
//!    never take more memory than [`reader`]'s largest record.
//! 2. A capture that was cut gives every whole packet before the cut.
//! 3. A packet of which the capture has the front only keeps its original length, through the
//!    switch and into what is written.
//! 4. Times are nanoseconds since the Unix epoch, whatever the resolution in the file.
//!
//! References: pcap, draft-ietf-opsawg-pcap; pcapng, draft-ietf-opsawg-pcapng.

mod port;
mod reader;
mod writer;

pub use port::CapturePort;
pub use reader::CaptureReader;
pub use writer::CaptureWriter;

#[cfg(test)]
mod tests;
