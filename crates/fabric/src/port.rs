//! A port and the link behind it: bandwidth, delay, and a drop-tail queue of bytes.
//!
//! The port computes at once when an offered packet arrives at the other end, so a hop is one
//! event. It remembers until when it is busy, and when each waiting packet will start to be
//! sent. Packets that have started are forgotten at the next offer.
//!
//! ```text
//!   offered at now ---> waits until `busy_until` ---> is serialized ---> is on the wire for `delay`
//! ```
//!
//! 1. Packets leave in the order in which they were offered.
//! 2. The waiting bytes never exceed the queue's limit; the packet being sent does not count.
//! 3. Each offered packet was sent or dropped; each sent packet has arrived or is under way.
//!
//! Cost: a multiplication, or a division if a byte does not take a whole number of
//! picoseconds; a list is touched only while the port is busy. A large fabric has tens of
//! thousands of ports, so the fields are grouped by cache line of the processor. [`Hot`] is
//! enough to accept a packet while idle and to note an arrival; [`Queue`] is needed only while
//! packets wait.

use std::collections::VecDeque;
use std::slice;

use prefetch_index::prefetch_index;

use crate::Time;

const PICOS_PER_SECOND: u64 = 1_000_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// The properties of a link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Bits per second.
    pub rate_bps: u64,
    /// The time of a bit on the link.
    pub delay: Time,
    /// Bytes that may wait to be sent.
    pub queue_bytes: u64,
    /// Whether sending times are truncated to whole nanoseconds, as in ns-3.
    pub cuts_to_nanos: bool,
    /// Packets are marked (RFC 3168) if more bytes than this wait; `u64::MAX` is never.
    pub mark_bytes: u64,
}

impl Link {
    /// The time to send `bytes` bytes.
    #[inline]
    pub fn serialization(&self, bytes: u32) -> Time {
        let bits = u64::from(bytes) * BITS_PER_BYTE;
        let time = Time::from_picos(bits * PICOS_PER_SECOND / self.rate_bps);
        match self.cuts_to_nanos {
            true => time.whole_nanos(),
            false => time,
        }
    }
}

/// Counts of a port since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Packets accepted.
    pub sent: u64,
    /// Bytes of the accepted packets.
    pub sent_bytes: u64,
    /// Packets refused because the queue was full.
    pub dropped: u64,
    /// Packets that have reached the other end.
    pub arrived: u64,
    /// Packets accepted that never arrived because the link failed.
    pub lost: u64,
    /// Packets refused because the link was down.
    pub refused: u64,
    /// The most bytes that ever waited.
    pub waiting_bytes_max: u64,
}

/// The sending side of a link.
///
/// ```
/// use thalweg_fabric::{Link, Port, Time};
///
/// let link = Link {
///     rate_bps: 100_000_000_000,
///     delay: Time::from_micros(1),
///     queue_bytes: 1000,
///     cuts_to_nanos: false,
///     mark_bytes: u64::MAX,
/// };
/// let mut port = Port::new(link);
/// assert_eq!(port.offer(Time::ZERO, 1000), Some(Time::from_nanos(1080)));
/// assert_eq!(port.offer(Time::ZERO, 1000), Some(Time::from_nanos(1160)));
/// assert_eq!(port.offer(Time::ZERO, 1000), None); // 1000 bytes wait already
/// ```
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Port {
    hot: Hot,
    queue: Queue,
}

/// The data that few packets need.
#[derive(Clone, Debug)]
struct Rest {
    link: Link,
    /// The counters that are not in the other two structs.
    counters: PortCounters,
}

/// The waiting packets.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Queue {
    /// When each packet starts to be sent, and its bytes.
    waiting: VecDeque<(Time, u32)>,
    bytes: u64,
    bytes_max: u64,
    /// From the link.
    limit_bytes: u64,
    mark_bytes: u64,
}

/// The data that every packet needs.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Hot {
    busy_until: Time,
    /// From the link.
    delay: Time,
    sent: u64,
    sent_bytes: u64,
    arrived: u64,
    /// Picoseconds per byte if that is a whole number; otherwise 0.
    byte_picos: u32,
    /// The number of failures so far.
    generation: u32,
    is_down: bool,
    /// From the link.
    cuts_to_nanos: bool,
    /// Whether more waits than the link's mark.
    is_marking: bool,
    rest: Box<Rest>,
}

impl Port {
    /// Creates an idle port.
    ///
    /// # Panics
    /// If the link's rate is 0.
    pub fn new(link: Link) -> Port {
        assert!(link.rate_bps > 0, "a link has a rate");
        let byte_picos = BITS_PER_BYTE * PICOS_PER_SECOND;
        let whole = byte_picos.is_multiple_of(link.rate_bps);
        let byte_picos = u32::try_from(byte_picos / link.rate_bps).unwrap_or(0);
        Port {
            hot: Hot {
                busy_until: Time::ZERO,
                delay: link.delay,
                sent: 0,
                sent_bytes: 0,
                arrived: 0,
                byte_picos: if whole { byte_picos } else { 0 },
                generation: 0,
                is_down: false,
                cuts_to_nanos: link.cuts_to_nanos,
                is_marking: false,
                rest: Box::new(Rest {
                    link,
                    counters: PortCounters::default(),
                }),
            },
            queue: Queue {
                waiting: VecDeque::new(),
                bytes: 0,
                bytes_max: 0,
                limit_bytes: link.queue_bytes,
                mark_bytes: link.mark_bytes,
            },
        }
    }

    /// Accepts a packet; returns when its last bit arrives, or `None` if it is dropped.
    ///
    /// `now` never runs backwards.
    #[inline]
    pub fn offer(&mut self, now: Time, bytes: u32) -> Option<Time> {
        let start = match self.hot.busy_until <= now {
            true => {
                // All waiting packets have been sent; `wait` will notice.
                self.hot.is_marking = false;
                now
            }
            false => self.wait(now, bytes)?,
        };
        let busy_until = start + self.serialization(bytes);
        let hot = &mut self.hot;
        hot.busy_until = busy_until;
        hot.sent += 1;
        hot.sent_bytes += u64::from(bytes);
        Some(busy_until + hot.delay)
    }

    /// [`Link::serialization`] without a division for the usual rates.
    #[inline]
    fn serialization(&self, bytes: u32) -> Time {
        if self.hot.byte_picos == 0 {
            return self.hot.rest.link.serialization(bytes);
        }
        let time = Time::from_picos(u64::from(bytes) * u64::from(self.hot.byte_picos));
        match self.hot.cuts_to_nanos {
            true => time.whole_nanos(),
            false => time,
        }
    }

    /// Whether the packet just offered should be marked.
    #[inline]
    pub fn is_marking(&self) -> bool {
        self.hot.is_marking
    }

    /// Fails and loses its packets, or works again and is empty.
    pub(crate) fn set_up(&mut self, now: Time, is_up: bool) {
        self.hot.is_down = !is_up;
        if !is_up {
            self.hot.generation = self.hot.generation.wrapping_add(1);
            self.queue.waiting.clear();
            self.queue.bytes = 0;
            self.hot.is_marking = false;
        }
        self.hot.busy_until = now;
    }

    /// Whether it has failed.
    #[inline]
    pub(crate) fn is_down(&self) -> bool {
        self.hot.is_down
    }

    /// A number that changes when the port fails.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.hot.generation
    }

    /// Notes that a packet was on the link when it failed.
    pub(crate) fn note_loss(&mut self) {
        self.hot.rest.counters.lost += 1;
    }

    /// Notes that a packet was offered to a link that is down.
    pub(crate) fn note_refusal(&mut self) {
        self.hot.rest.counters.refused += 1;
    }

    /// Notes that a packet has reached the other end.
    #[inline]
    pub fn note_arrival(&mut self) {
        self.hot.arrived += 1;
    }

    /// Counts since the start.
    pub fn counters(&self) -> PortCounters {
        PortCounters {
            sent: self.hot.sent,
            sent_bytes: self.hot.sent_bytes,
            arrived: self.hot.arrived,
            waiting_bytes_max: self.queue.bytes_max,
            ..self.hot.rest.counters
        }
    }

    /// The link.
    pub fn link(&self) -> &Link {
        &self.hot.rest.link
    }

    /// Prefetches the data that a packet needs, even if the port is busy.
    #[inline]
    pub(crate) fn ask(&self) {
        prefetch_index(slice::from_ref(&self.hot), 0);
        prefetch_index(slice::from_ref(&self.queue), 0);
    }

    fn wait(&mut self, now: Time, bytes: u32) -> Option<Time> {
        let queue = &mut self.queue;
        while let Some(&(start, bytes)) = queue.waiting.front()
            && start <= now
        {
            queue.waiting.pop_front();
            queue.bytes -= u64::from(bytes);
        }
        let waiting_bytes = queue.bytes + u64::from(bytes);
        if waiting_bytes > queue.limit_bytes {
            self.hot.rest.counters.dropped += 1;
            return None;
        }
        queue.bytes = waiting_bytes;
        queue.bytes_max = queue.bytes_max.max(waiting_bytes);
        self.hot.is_marking = waiting_bytes > queue.mark_bytes;
        queue.waiting.push_back((self.hot.busy_until, bytes));
        Some(self.hot.busy_until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINK: Link = Link {
        rate_bps: 400_000_000_000,
        delay: Time::from_micros(1),
        queue_bytes: 4_000,
        cuts_to_nanos: false,
        mark_bytes: u64::MAX,
    };

    /// The slow twin: a server that steps from one event to the next.
    struct Server {
        waiting: VecDeque<u32>,
        free_at: Time,
        arrivals: Vec<Time>,
    }

    impl Server {
        fn offer(&mut self, now: Time, bytes: u32) -> bool {
            self.run_until(now);
            let is_idle = self.free_at <= now && self.waiting.is_empty();
            let bytes_waiting: u32 = self.waiting.iter().sum();
            if !is_idle && u64::from(bytes_waiting + bytes) > LINK.queue_bytes {
                return false;
            }
            self.waiting.push_back(bytes);
            if is_idle {
                self.free_at = now;
            }
            self.run_until(now);
            true
        }

        fn run_until(&mut self, now: Time) {
            while self.free_at <= now
                && let Some(bytes) = self.waiting.pop_front()
            {
                self.free_at += LINK.serialization(bytes);
                self.arrivals.push(self.free_at + LINK.delay);
            }
        }
    }

    proptest! {
        #[test]
        fn a_port_is_a_server_with_a_queue(
            offers in prop::collection::vec((0..60_000_u64, 1..1_500_u32), 1..300),
        ) {
            let mut port = Port::new(LINK);
            let (waiting, arrivals) = (VecDeque::new(), Vec::new());
            let mut server = Server { waiting, free_at: Time::ZERO, arrivals };
            let (mut now, mut arrivals) = (Time::ZERO, Vec::new());
            for &(span, bytes) in &offers {
                now += Time::from_picos(span);
                let arrival = port.offer(now, bytes);
                prop_assert_eq!(arrival.is_some(), server.offer(now, bytes));
                arrivals.extend(arrival);
            }
            server.run_until(Time::from_micros(1_000_000));
            prop_assert_eq!(&arrivals, &server.arrivals);
            let counters = port.counters();
            prop_assert_eq!(counters.sent + counters.dropped, offers.len() as u64);
            prop_assert!(counters.waiting_bytes_max <= LINK.queue_bytes);
        }
    }

    #[test]
    fn times_are_exact_or_cut_to_nanoseconds() {
        let cut = Link {
            cuts_to_nanos: true,
            ..LINK
        };
        let slow = Link {
            rate_bps: 100_000_000_000,
            ..cut
        };
        assert_eq!(LINK.serialization(122), Time::from_picos(2_440));
        assert_eq!(cut.serialization(122), Time::from_nanos(2));
        assert_eq!(slow.serialization(122), Time::from_nanos(9));
    }

    #[test]
    fn times_are_the_same_with_and_without_a_division() {
        for rate_bps in [400_000_000_000, 100_000_000_000, 3_000_000_007, 1_000] {
            for cuts_to_nanos in [false, true] {
                let link = Link {
                    rate_bps,
                    cuts_to_nanos,
                    ..LINK
                };
                let port = Port::new(link);
                for bytes in [0, 1, 122, 1_106, 65_535] {
                    assert_eq!(port.serialization(bytes), link.serialization(bytes));
                }
            }
        }
    }

    #[test]
    fn who_starts_to_be_sent_waits_no_longer() {
        let mut port = Port::new(LINK);
        // 2,000 bytes take 40 ns; two packets wait, which is the limit.
        for end in [40, 80, 120] {
            let arrival = Time::from_nanos(end) + LINK.delay;
            assert_eq!(port.offer(Time::ZERO, 2_000), Some(arrival));
        }
        assert_eq!(port.offer(Time::from_picos(39_999), 1), None);
        assert!(port.offer(Time::from_nanos(40), 2_000).is_some());
        assert_eq!(port.counters().waiting_bytes_max, LINK.queue_bytes);
    }
}
