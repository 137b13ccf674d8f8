//! Conversations between two ends, and what each says next: mostly what belongs there.

use std::net::IpAddr;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64Mcg;

use crate::frame::{Body, End, Segment};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// The kind of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tcp,
    Udp,
    Icmp,
    Other(u8),
}

/// How far a conversation of TCP is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Start,
    SynSent,
    SynAnswered,
    Open,
    Closing(usize),
    Closed,
}

/// What one end says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// 0 for the end that began, 1 for the other.
    pub(crate) from: usize,
    pub(crate) body: Body,
}

/// One conversation.
pub(crate) struct Talk {
    pub(crate) kind: Kind,
    /// The port of the end that began.
    pub(crate) port: u16,
    /// The ends, as the one that began knows them.
    pub(crate) ends: [End; 2],
    phase: Phase,
    /// The next numbers of both.
    next: [u32; 2],
    scales: [Option<u8>; 2],
    /// Whether each end was heard since the beginning, or since time has passed.
    heard: [bool; 2],
    /// Whether the beginning was heard, and no time has passed since.
    is_whole: bool,
    last: Option<Message>,
}

impl Talk {
    /// A conversation with random ends: few, so that translations meet.
    ///
    /// Of protocols without ports, two clients of one server may want one address.
    pub(crate) fn new(random: &mut Pcg64Mcg, number: u16, translates: bool) -> Talk {
        let is_ipv6 = random.random_ratio(1, 4);
        let kind = match random.random_range(0..8) {
            0 if !translates => Kind::Other(47),
            0..4 => Kind::Tcp,
            4..6 => Kind::Udp,
            _ => Kind::Icmp,
        };
        let port = if random.random_ratio(5, 6) { 1 } else { 2 };
        let mut address = |net: u8| -> IpAddr {
            let host = random.random_range(1..4);
            match is_ipv6 {
                true => [0xfd00, 0, 0, u16::from(net), 0, 0, 0, u16::from(host)].into(),
                false => [10, 0, net, host].into(),
            }
        };
        let nets = if port == 1 { [1, 2] } else { [2, 1] };
        let addresses = nets.map(&mut address);
        let ports = match kind {
            // Numbers are used once, so that one tuple has one conversation.
            Kind::Tcp | Kind::Udp => [
                [2000, 3000, 700, 200][random.random_range(0..4)] + number,
                [53, 80][random.random_range(0..2)],
            ],
            Kind::Icmp => [5000 + number; 2],
            Kind::Other(_) => [0; 2],
        };
        let end = |place: usize| End {
            address: addresses[place],
            port: ports[place],
        };
        Talk {
            kind,
            port,
            ends: [end(0), end(1)],
            phase: Phase::Start,
            next: [random.random(), random.random()],
            scales: [None, Some(0), Some(2), Some(7)]
                .choose_multiple_array(random)
                .expect("there are enough"),
            heard: [false; 2],
            is_whole: true,
            last: None,
        }
    }

    /// Time has passed.
    pub(crate) fn grow_old(&mut self) {
        self.is_whole = false;
        self.heard = [false; 2];
    }

    /// A message was sent as it is, not lost, broken or turned into an error.
    pub(crate) fn hear(&mut self, message: &Message) {
        self.heard[message.from] = true;
    }

    /// The next message.
    pub(crate) fn next(&mut self, random: &mut Pcg64Mcg, translates: bool) -> Message {
        if let Some(last) = &self.last
            && random.random_ratio(1, 10)
        {
            return last.clone();
        }
        let message = match self.kind {
            Kind::Tcp if random.random_ratio(1, 4) => self.odd_segment(random),
            Kind::Tcp => self.segment(random, translates),
            Kind::Udp => Message {
                from: usize::from(random.random_ratio(2, 5)),
                body: Body::Udp {
                    len: random.random_range(0..40),
                    has_checksum: random.random_ratio(4, 5),
                },
            },
            Kind::Icmp => self.echo(random),
            Kind::Other(protocol) => Message {
                from: random.random_range(0..2),
                body: Body::Other(protocol),
            },
        };
        self.last = Some(message.clone());
        message
    }

    fn echo(&self, random: &mut Pcg64Mcg) -> Message {
        let is_ipv6 = self.ends[0].address.is_ipv6();
        let kinds = match (is_ipv6, self.ends[0].port % 4) {
            (true, _) => [128, 129],
            (false, 0) => [13, 14],
            (false, _) => [8, 0],
        };
        let from = usize::from(random.random_ratio(2, 5));
        let len = random.random_range(0..30);
        Message {
            from,
            body: Body::Icmp {
                kind: kinds[from],
                len,
            },
        }
    }

    fn spoken(&mut self, from: usize, flags: u8, len: usize, window: u16) -> Message {
        let acknowledgment = match flags & ACK {
            0 => 0,
            _ => self.next[1 - from],
        };
        let segment = Segment {
            sequence: self.next[from],
            acknowledgment,
            flags,
            window,
            scale: self.scales[from].filter(|_| flags & SYN != 0),
            len,
        };
        let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        self.next[from] = self.next[from].wrapping_add(len as u32 + controls);
        Message {
            from,
            body: Body::Tcp(segment),
        }
    }

    /// The segment that belongs here.
    fn segment(&mut self, random: &mut Pcg64Mcg, translates: bool) -> Message {
        let window = random.random_range(1..4000);
        let from = random.random_range(0..2);
        let (phase, from, flags, len) = match self.phase {
            Phase::Start => (Phase::SynSent, 0, SYN, 0),
            Phase::SynSent => (Phase::SynAnswered, 1, SYN | ACK, 0),
            Phase::SynAnswered => (Phase::Open, 0, ACK, 0),
            Phase::Open if random.random_ratio(1, 5) => (Phase::Closing(from), from, FIN | ACK, 0),
            Phase::Open => (Phase::Open, from, ACK | PSH, random.random_range(0..100)),
            Phase::Closing(first) if random.random_ratio(1, 3) => {
                (Phase::Closing(first), 1 - first, ACK, 0)
            }
            Phase::Closing(first) => (Phase::Closed, 1 - first, FIN | ACK, 0),
            Phase::Closed if self.may_reopen(translates) && random.random_ratio(1, 3) => {
                self.next[0] = random.random();
                self.heard = [false; 2];
                (Phase::SynSent, 0, SYN, 0)
            }
            Phase::Closed => (Phase::Closed, from, ACK, 0),
        };
        self.phase = phase;
        self.spoken(from, flags, len, window)
    }

    /// Whether both switches know the connection, and that it is over.
    fn may_reopen(&self, translates: bool) -> bool {
        !translates && self.is_whole && self.port == 1 && self.heard == [true; 2]
    }

    /// A segment that does not belong here, but for an end's first one.
    fn odd_segment(&mut self, random: &mut Pcg64Mcg) -> Message {
        // The first end speaks first, or else its SYN is not the first one.
        let from = match (self.phase, self.heard) {
            (Phase::Start, _) | (_, [true, false]) => 0,
            (_, [false, true]) => 1,
            _ => random.random_range(0..2),
        };
        let window = random.random();
        let (next, phase) = (self.next, self.phase);
        let far = [1, 5, 100, 5_000, 70_000, 0x4000_0000, 0x8000_0000_u32];
        let far = *far.choose(random).expect("there are some");
        let far = if random.random_ratio(1, 2) {
            far
        } else {
            far.wrapping_neg()
        };
        match random.random_range(0..6) {
            0 => self.next[from] = self.next[from].wrapping_add(far),
            1 => self.next[1 - from] = self.next[1 - from].wrapping_add(far),
            _ => {}
        }
        let len = random.random_range(0..50);
        let flags = match random.random_range(0..7) {
            0 => RST,
            1 => RST | ACK,
            2 if phase == Phase::Start => ACK,
            2 => FIN | ACK,
            3 => {
                [0, FIN, SYN | FIN, SYN | RST, PSH, FIN | RST | PSH | 32][random.random_range(0..6)]
            }
            4 if from == 1 || phase == Phase::Start => SYN | ACK,
            _ => ACK | PSH,
        };
        let len = if flags & SYN != 0 { 0 } else { len };
        let message = self.spoken(from, flags, len, window);
        // It was no step of the conversation.
        self.next = next;
        if phase == Phase::Start {
            self.is_whole = false;
            self.phase = Phase::Open;
        } else if flags & RST != 0 && phase >= Phase::Open && random.random_ratio(1, 2) {
            self.phase = Phase::Closed;
        }
        message
    }
}
