//! The slow twin of reassembly: one byte of memory for each byte of a packet.
//!
//! It knows no frames: a test tells it which bytes a fragment has.

use std::time::Duration;

use thalweg_packet::Instant;

use super::FragmentRefusal;

/// What the twin says of a fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Waiting,
    /// All bytes of the packet.
    Complete(Vec<u8>),
    Refused(FragmentRefusal),
}

/// One packet.
struct Slow {
    key: u32,
    born: Instant,
    bytes: Vec<u8>,
    is_present: Vec<bool>,
    seen: Vec<(usize, Vec<u8>, bool)>,
    end: Option<usize>,
    refusal: Option<FragmentRefusal>,
}

/// All packets, in a row.
#[derive(Default)]
pub(super) struct SlowFragments {
    packets: Vec<Slow>,
    pub(super) accepted: u64,
    pub(super) completed: u64,
    pub(super) expired: u64,
    pub(super) purged: u64,
}

impl SlowFragments {
    pub(super) fn hold(
        &mut self,
        key: u32,
        start: usize,
        data: &[u8],
        is_last: bool,
        now: Instant,
    ) -> Verdict {
        self.drop_expired(now);
        let at = match self.packets.iter().position(|packet| packet.key == key) {
            Some(at) => at,
            None => {
                self.packets.push(Slow {
                    key,
                    born: now,
                    bytes: vec![0; 65_536],
                    is_present: vec![false; 65_536],
                    seen: Vec::new(),
                    end: None,
                    refusal: None,
                });
                self.packets.len() - 1
            }
        };
        let packet = &mut self.packets[at];
        if let Some(reason) = packet.refusal {
            return Verdict::Refused(reason);
        }
        if packet.seen.contains(&(start, data.to_vec(), is_last)) {
            return Verdict::Refused(FragmentRefusal::Duplicate);
        }
        if let Some(reason) = packet.clash(start, data.len(), is_last) {
            self.purged += packet.seen.len() as u64;
            packet.refusal = Some(reason);
            return Verdict::Refused(reason);
        }
        self.accepted += 1;
        for (offset, byte) in data.iter().enumerate() {
            packet.bytes[start + offset] = *byte;
            packet.is_present[start + offset] = true;
        }
        packet.seen.push((start, data.to_vec(), is_last));
        if is_last {
            packet.end = Some(start + data.len());
        }
        let Some(end) = packet.end else {
            return Verdict::Waiting;
        };
        if packet.is_present[..end].contains(&false) {
            return Verdict::Waiting;
        }
        self.completed += packet.seen.len() as u64;
        let packet = self.packets.remove(at);
        Verdict::Complete(packet.bytes[..end].to_vec())
    }

    pub(super) fn drop_expired(&mut self, now: Instant) {
        let is_over = |packet: &Slow| now - packet.born > Duration::from_secs(15);
        for packet in self.packets.iter().filter(|packet| is_over(packet)) {
            if packet.refusal.is_none() {
                self.expired += packet.seen.len() as u64;
            }
        }
        self.packets.retain(|packet| !is_over(packet));
    }

    pub(super) fn held(&self) -> u64 {
        let packets = self.packets.iter();
        let open = packets.filter(|packet| packet.refusal.is_none());
        open.map(|packet| packet.seen.len() as u64).sum()
    }
}

impl Slow {
    fn clash(&self, start: usize, len: usize, is_last: bool) -> Option<FragmentRefusal> {
        let end = start + len;
        if self.is_present[start..end].contains(&true) {
            return Some(FragmentRefusal::Overlap);
        }
        let is_behind = self.end.is_some_and(|known| end > known);
        let is_short = is_last && (self.end.is_some() || self.is_present[end..].contains(&true));
        (is_behind || is_short).then_some(FragmentRefusal::Inconsistent)
    }
}
