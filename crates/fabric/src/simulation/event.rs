//! An event in one word: two bits for the kind, 30 for the location, 32 for the packet.
//!
//! A queue holds hundreds of thousands of events, and a word is written and read at once.

use crate::id::{NodeId, PortId};
use crate::tcp::Towards;

const WHERE_BITS: u32 = 30;
const WHERE_MASK: u32 = (1 << WHERE_BITS) - 1;
const PACKET_BITS: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// A packet arrives over a port's link.
    Arrive { flight: u32, port: PortId },
    /// A packet leaves a server or gateway.
    Leave { flight: u32, node: NodeId },
    /// A packet leaves a switch's control plane.
    Resume { flight: u32, switch: NodeId },
    /// A timer of a connection's end expires.
    Timer {
        connection: u32,
        generation: Generation,
        end: Towards,
    },
}

/// A number that tells apart the connections that used the same memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Generation(u32);

impl Generation {
    /// The number of values that fit an event beside the end; they repeat only after older
    /// events are gone.
    const COUNT: u32 = 1 << (WHERE_BITS - 1);

    pub(super) fn next(self) -> Generation {
        Generation((self.0 + 1) % Generation::COUNT)
    }
}

/// An event in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packed(u64);

impl From<Event> for Packed {
    #[inline]
    fn from(event: Event) -> Packed {
        let (kind, place, packet) = match event {
            Event::Arrive { flight, port } => (0, port.0, flight),
            Event::Leave { flight, node } => (1, node.0, flight),
            Event::Resume { flight, switch } => (2, switch.0, flight),
            Event::Timer {
                connection,
                generation,
                end,
            } => (3, generation.0 << 1 | end as u32, connection),
        };
        debug_assert!(place <= WHERE_MASK, "a fabric has fewer ports");
        let upper = u64::from(kind << WHERE_BITS | place);
        Packed(upper << PACKET_BITS | u64::from(packet))
    }
}

impl From<Packed> for Event {
    #[inline]
    fn from(Packed(word): Packed) -> Event {
        let (upper, packet) = ((word >> PACKET_BITS) as u32, word as u32);
        let place = upper & WHERE_MASK;
        match upper >> WHERE_BITS {
            0 => Event::Arrive {
                flight: packet,
                port: PortId(place),
            },
            1 => Event::Leave {
                flight: packet,
                node: NodeId(place),
            },
            2 => Event::Resume {
                flight: packet,
                switch: NodeId(place),
            },
            _ => Event::Timer {
                connection: packet,
                generation: Generation(place >> 1),
                end: match place & 1 {
                    0 => Towards::Receiver,
                    _ => Towards::Sender,
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_an_event() {
        let (flight, connection) = (u32::MAX, 7);
        let generation = Generation(Generation::COUNT - 1);
        let events = [
            Event::Arrive {
                flight,
                port: PortId(WHERE_MASK),
            },
            Event::Leave {
                flight: 0,
                node: NodeId(5),
            },
            Event::Resume {
                flight: 9,
                switch: NodeId(0),
            },
            Event::Timer {
                connection,
                generation,
                end: Towards::Receiver,
            },
            Event::Timer {
                connection,
                generation: generation.next(),
                end: Towards::Sender,
            },
        ];
        for event in events {
            assert_eq!(Event::from(Packed::from(event)), event);
        }
        assert_eq!(generation.next(), Generation::default());
    }
}
