//! Capture files, pcap or pcapng.
//!
//! Arbitrary bytes give packets, then one error or the end. There is no panic and no endless
//! loop.

use thalweg_io::CaptureReader;
use thalweg_packet::Packet;

/// Runs one input.
pub fn run(input: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(input) else {
        return;
    };
    let mut packet = Packet::with_capacity(0);
    // A packet takes at least the twelve bytes of the smallest block.
    let bound = input.len();
    for _ in 0..=bound {
        match reader.read_into(&mut packet) {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
    }
    panic!("more packets than bytes");
}
