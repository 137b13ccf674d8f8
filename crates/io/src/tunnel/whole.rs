//! Sends the segments of a whole frame as one message.
//!
//! Each segment gets its outer headers here; the kernel cuts the message between them, or the card
//! does (`UDP_SEGMENT`, udp(7)). The kernel wants outer checksums for that, so they are there also
//! if the tunnel's `csum` is off, which no receiver minds (RFC 7348, section 5; RFC 8926, 3.3).
//!
//! 1. Segments that cannot go as one message are sent one by one, with the tunnel's own settings:
//!    those with different outer headers, and those that the kernel refuses, for example since they
//!    are longer than the way's MTU.

use std::io::ErrorKind;

use thalweg_packet::{Packet, PacketPool};

use super::device::TunnelDevice;
use super::senders::SenderPlace;
use crate::sys::{Departure, SEGMENTS_BYTES_MAX, SEGMENTS_MAX};

impl TunnelDevice {
    /// Sends a packet that stands for segments.
    pub(super) fn send_whole(&mut self, pool: &mut PacketPool, whole: &Packet) {
        let mut segments = std::mem::take(&mut self.segments);
        for index in 0..whole.segment_count() {
            // The pool frees packets that are too many for it.
            let mut segment = pool.take().unwrap_or_default();
            whole.emit_segment(index, &mut segment);
            segments.push(segment);
        }
        self.leaving.clear();
        self.encapsulate(&mut segments);
        if let Some((place, departure)) = self.one_way() {
            self.send_together(&segments, (place, departure));
        }
        // Invariant 1.
        for first in 0..segments.len() {
            self.send_by_one_socket(&segments, first);
        }
        segments.drain(..).for_each(|segment| pool.put(segment));
        self.segments = segments;
    }

    /// The way of all packets that are left to send, if it is one.
    fn one_way(&self) -> Option<(SenderPlace, Departure)> {
        let first = self.leaving.first()?;
        let is_one = self.leaving.iter().all(|way| way == first);
        (*first).filter(|_| is_one)
    }

    /// Sends segments in as few messages as they fit into, until one is refused.
    fn send_together(&mut self, segments: &[Packet], (place, departure): (SenderPlace, Departure)) {
        let place = SenderPlace {
            has_checksum: true,
            ..place
        };
        let hub = self.hub.clone();
        let Ok(socket) = hub.senders().get(place) else {
            return;
        };
        let mut done = 0;
        while done < segments.len() {
            let mut bytes = [&[][..]; SEGMENTS_MAX];
            let count = chunk_of(&segments[done..]);
            for (bytes, segment) in bytes.iter_mut().zip(&segments[done..done + count]) {
                *bytes = segment.bytes();
            }
            match socket.send_segments(&bytes[..count], &departure) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            }
            let sent = done..done + count;
            for segment in &segments[sent.clone()] {
                self.counters.add_sent(segment.len());
            }
            self.leaving[sent].fill(None);
            done += count;
        }
    }
}

/// The number of segments that fit into a message: all but the last have one length.
fn chunk_of(segments: &[Packet]) -> usize {
    let Some(first) = segments.first() else {
        return 0;
    };
    let most = SEGMENTS_MAX
        .min(SEGMENTS_BYTES_MAX / first.len().max(1))
        .max(1);
    let same = segments.iter().take(most);
    let same = same
        .take_while(|segment| segment.len() == first.len())
        .count();
    let has_shorter = segments
        .get(same)
        .is_some_and(|next| same < most && next.len() < first.len());
    same + usize::from(has_shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_segments_of_one_length_and_a_shorter_last_one() {
        let packets = |lengths: &[usize]| -> Vec<Packet> {
            let packets = lengths
                .iter()
                .map(|length| Packet::from_bytes(&vec![0; *length]));
            packets.collect()
        };
        for (lengths, count) in [
            (&[][..], 0),
            (&[1_450], 1),
            (&[1_450, 1_450, 90], 3),
            (&[1_450, 90, 90], 2),
            (&[90, 1_450], 1),
            (&[1_450; 60], 44),
            (&[100; 128], 64),
            (&[9_000; 8], 7),
        ] {
            assert_eq!(chunk_of(&packets(lengths)), count, "{lengths:?}");
        }
    }
}
