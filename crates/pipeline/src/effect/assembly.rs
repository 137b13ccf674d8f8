//! Holds fragments at a `ct`, and lets them go on once their packet is whole.
//!
//! ```text
//!   a fragment meets ct:   it waits, and its buffer goes back to the pool
//!   the last one meets ct: the whole is tracked; each fragment, with what the tracker said and
//!                          the whole's addresses, does the rest of the last one's list
//! ```
//!
//! 1. Fragments go on in the order of their offsets, each from its own input port. They count as
//!    received when the last of them was: the run, and the passes that follow, are its own.
//! 2. Fragments wait only for those that do the same afterwards ([`TrackRequest::place`]).
//! 3. A fragment that cannot be held goes on at once, as invalid.
//! 4. The tracker sees a whole with what it said of its first fragment before.
//!
//! A fragment whose packet stays incomplete is dropped ([`crate::Connections::expire`]). Open
//! vSwitch lets it go on as invalid, with whichever packets are tracked next.

use thalweg_conntrack::{CtState, Fragment, FragmentContext, Held, Reassembled, TrackRequest};
use thalweg_packet::{Connection, Headers, Packet, PortId};

use super::Outbox;

/// What a fragment that waits needs to go on.
#[derive(Clone, Debug)]
pub struct HeldFragment {
    in_port: PortId,
    cut_bytes: u32,
    headers: Headers,
    connection: Connection,
}

/// The fragments of a packet that has been tracked.
pub(super) struct Assembled {
    /// All but the last, in the order of their offsets.
    pub(super) parts: Vec<(Packet, Headers)>,
    pub(super) last: (Packet, Headers),
    /// What the tracker said of the packet.
    pub(super) told: Connection,
}

impl Outbox {
    /// Takes a fragment that meets a `ct`; returns what can go on now.
    pub(super) fn assemble(
        &mut self,
        request: &TrackRequest,
        mut packet: Packet,
        headers: &Headers,
        before: &Connection,
    ) -> Option<Assembled> {
        let fragment = Fragment {
            frame: packet.bytes().to_vec(),
            token: HeldFragment {
                in_port: packet.in_port(),
                cut_bytes: packet.cut_bytes(),
                headers: *headers,
                connection: *before,
            },
        };
        let context = FragmentContext {
            zone: request.zone,
            place: request.place,
        };
        let now = self.now;
        let held = self
            .connections
            .fragments()
            .hold(fragment, headers, context, now);
        let before = match held {
            Held::Waiting => {
                self.pool.put(packet);
                return None;
            }
            Held::Complete(whole) => return self.release(request, packet, *whole),
            // Invariant 3.
            Held::Refused(..) => Connection {
                state: CtState::INVALID.0,
                ..*before
            },
            Held::Passed(_) => *before,
        };
        let told = self.track(request, &mut packet, headers, &before);
        Some(Assembled {
            parts: Vec::new(),
            last: (packet, *headers),
            told,
        })
    }

    /// Tracks a packet that `newest` has made whole, and makes its fragments packets again.
    fn release(
        &mut self,
        request: &TrackRequest,
        newest: Packet,
        mut whole: Reassembled<HeldFragment>,
    ) -> Option<Assembled> {
        let before = whole.tokens().next()?.connection; // Invariant 4.
        let told = self.track_whole(request, &mut whole.whole, &whole.headers, &before);
        let received_at = newest.received_at();
        self.pool.put(newest);
        let fragments = whole
            .finish()
            .expect("the tracker keeps the length of frames");
        let mut parts = Vec::with_capacity(fragments.len());
        for Fragment { frame, token } in fragments {
            let Some(mut packet) = self.empty() else {
                continue;
            };
            packet.fill(&frame);
            packet.set_cut_bytes(token.cut_bytes);
            packet.set_received(token.in_port, received_at); // Invariant 1.
            parts.push((packet, token.headers));
        }
        let last = parts.pop()?;
        Some(Assembled { parts, last, told })
    }

    /// A packet to fill; none, which is counted, if the pool is empty.
    pub(super) fn empty(&mut self) -> Option<Packet> {
        let packet = self.pool.take();
        if packet.is_none() && self.grows {
            return Some(Packet::default());
        }
        self.copies_refused += u64::from(packet.is_none());
        packet
    }
}
