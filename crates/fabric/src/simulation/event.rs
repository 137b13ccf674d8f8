//! What can happen next, in one word: two bits say what, 30 where, 32 to which packet.
//!
//! A queue holds hundreds of thousands of them, and a word is written and read at once.

use crate::tcp::Towards;
use crate::topology::{NodeId, PortId};

const WHERE_BITS: u32 = 30;
const WHERE_MASK: u32 = (1 << WHERE_BITS) - 1;
const PACKET_BITS: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// A packet has come by a port's link.
    Arrive { flight: u32, port: PortId },
    /// A packet leaves a server or gateway.
    Leave { flight: u32, node: NodeId },
    /// A packet leaves a switch's control plane.
    Resume { flight: u32, switch: NodeId },
    /// A timer of one end of a connection.
    Timer {
        connection: u32,
        generation: Generation,
        end: Towards,
    },
}

/// Which of the connections that had this memory one after the other is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Generation(u32);

impl Generation {
    /// As many as an event holds beside the end; then they begin anew, after which no event is left.
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
