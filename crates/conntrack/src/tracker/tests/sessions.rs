//! Random sessions of FTP through a translation, with losses, against two written-out streams.
//!
//! Each side has a list of lines, one segment each, and the lines as the other side must get
//! them. The twin only adds up lengths: line `n` leaves with the sum of the lengths before it,
//! and the acknowledgment of `n` lines comes back as the sum of the sender's own.

use proptest::prelude::*;
use thalweg_packet::Packet;

use super::*;
use crate::tests::{address, commit_nat, ip, nat};
use crate::{Alg, TranslationKind};

const PUBLIC: &str = "192.0.2.100";
const ENDS: [(&str, u16); 2] = [("10.0.0.1", 1_000), ("10.0.0.2", 21)];

/// How many lines are on their way, and how far back one is sent again.
const AHEAD: usize = 3;

/// One side's lines, as it sends them and as the other gets them.
struct Stream {
    lines: Vec<[Vec<u8>; 2]>,
    first: u32,
    /// How many lines the tracker has seen.
    sent: usize,
    /// Which of them have arrived.
    arrived: Vec<bool>,
}

impl Stream {
    fn new(first: u32, lines: Vec<[Vec<u8>; 2]>) -> Stream {
        Stream {
            arrived: vec![false; lines.len()],
            lines,
            first,
            sent: 0,
        }
    }

    /// The number of a line, on the side of its sender (0) or its receiver (1).
    fn number(&self, line: usize, side: usize) -> u32 {
        let lens = self.lines[..line]
            .iter()
            .map(|line| line[side].len() as u32);
        self.first.wrapping_add(lens.sum())
    }

    /// How many lines the receiver can acknowledge.
    fn whole(&self) -> usize {
        self.arrived.iter().take_while(|arrived| **arrived).count()
    }
}

/// What happens next: which side sends, how far back a line is, and whether it is lost.
#[derive(Clone, Copy, Debug)]
struct Step {
    is_reply: bool,
    back: Option<usize>,
    is_lost: bool,
}

struct Session {
    stage: Stage,
    is_source: bool,
    streams: [Stream; 2],
}

impl Session {
    /// The ends of a segment where it comes in (0) and where it leaves (1).
    fn ends(&self, is_reply: bool, side: usize) -> [(&'static str, u16); 2] {
        let [client, server] = ENDS;
        // The translated end is the other side's word for it.
        let (seen_client, seen_server) = match self.is_source {
            true => ((PUBLIC, client.1), server),
            false => (client, (PUBLIC, server.1)),
        };
        match (is_reply, side) {
            (false, 0) => [client, seen_server],
            (false, _) => [seen_client, server],
            (true, 0) => [server, seen_client],
            (true, _) => [seen_server, client],
        }
    }

    fn frame(&self, is_reply: bool, side: usize, flags: TcpFlags, line: Option<usize>) -> Vec<u8> {
        let [own, other] = [is_reply, !is_reply].map(|side| &self.streams[usize::from(side)]);
        let is_syn = flags.0 & TcpFlags::SYN.0 != 0;
        let number = own.number(line.unwrap_or(own.sent), side);
        // Where it comes in, the peer's lines are counted as this side gets them.
        let acknowledgment = other.number(other.whole(), 1 - side);
        let [from, to] = self.ends(is_reply, side);
        let payload = line.map_or(&[][..], |line| &own.lines[line][side]);
        ip(address(from.0), address(to.0))
            .tcp(from.1, to.1)
            .tcp_flags(flags)
            .tcp_numbers(number.wrapping_sub(u32::from(is_syn)), acknowledgment)
            .tcp_window(8_000)
            .payload(payload)
            .build()
    }

    /// Sends a segment; what leaves is what the twin says.
    fn pass(
        &self,
        is_reply: bool,
        flags: TcpFlags,
        line: Option<usize>,
        request: &TrackRequest,
    ) -> Result<(), TestCaseError> {
        let frame = self.frame(is_reply, 0, flags, line);
        let headers = Headers::parse(&frame).expect("a frame");
        let mut packet = Packet::from_bytes(&frame);
        let (tracker, now) = (&self.stage.tracker, self.stage.now);
        let before = Previous::default();
        let tracked = tracker.track_packet(&mut packet, &headers, request, before, now, 1);
        prop_assert!(
            !tracked.state.has(CtState::INVALID),
            "{:?}",
            tracker.counters()
        );
        let expected = self.frame(is_reply, 1, flags, line);
        prop_assert_eq!(packet.bytes(), &expected[..]);
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let side = usize::from(step.is_reply);
        let stream = &self.streams[side];
        let is_new = step.back.is_none()
            && stream.sent < stream.lines.len()
            && stream.sent - stream.whole() < AHEAD;
        let line = match step.back {
            None => is_new.then_some(stream.sent),
            Some(back) => stream.sent.checked_sub(back + 1),
        };
        // An acknowledgment alone, if there is no such line.
        self.pass(step.is_reply, TcpFlags::ACK, line, &nat())?;
        let stream = &mut self.streams[side];
        stream.sent += usize::from(is_new);
        if let Some(line) = line {
            stream.arrived[line] |= !step.is_lost;
        }
        Ok(())
    }
}

/// A line of a side: what it sends and what arrives. `own` is its address in text.
fn line(is_reply: bool, is_translated: bool) -> BoxedStrategy<[Vec<u8>; 2]> {
    let own = ENDS[usize::from(is_reply)].0;
    let seen = if is_translated { PUBLIC } else { own };
    let plain = prop_oneof![
        Just("NOOP\r\n"),
        Just("USER anonymous\r\n"),
        Just("200 PORT\r\n")
    ];
    let announcing = (1..=u16::MAX, any::<bool>()).prop_map(move |(port, is_extended)| {
        [own, seen].map(|host| {
            let commas = format!("{},{},{}", host.replace('.', ","), port >> 8, port & 255);
            let text = match (is_reply, is_extended) {
                (false, false) => format!("PORT {commas}\r\n"),
                (false, true) => format!("EPRT |1|{host}|{port}|\r\n"),
                (true, false) => format!("227 Passive ({commas}).\r\n"),
                (true, true) => format!("229 Passive (|||{port}|)\r\n"),
            };
            text.into_bytes()
        })
    });
    let plain = plain.prop_map(|text| [text.as_bytes().to_vec(), text.as_bytes().to_vec()]);
    prop_oneof![1 => plain, 2 => announcing].boxed()
}

fn session() -> BoxedStrategy<Session> {
    let number = || prop_oneof![any::<u32>(), (0..300_u32).prop_map(|back| u32::MAX - back)];
    (any::<bool>(), number(), number())
        .prop_flat_map(|(is_source, client, server)| {
            let lines = |is_reply| {
                let is_translated = is_source != is_reply;
                prop::collection::vec(line(is_reply, is_translated), 0..20)
            };
            (Just((is_source, client, server)), lines(false), lines(true))
        })
        .prop_map(|((is_source, client, server), lines, answers)| Session {
            stage: Stage::new(),
            is_source,
            streams: [Stream::new(client, lines), Stream::new(server, answers)],
        })
        .boxed()
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |line: &[Vec<u8>; 2]| String::from_utf8_lossy(&line[0]).into_owned();
        let texts = |stream: &Stream| stream.lines.iter().map(text).collect::<Vec<_>>();
        let [client, server] = &self.streams;
        write!(
            f,
            "{:?} {:?} {:?}",
            self.is_source,
            texts(client),
            texts(server)
        )
    }
}

fn step() -> impl Strategy<Value = Step> {
    let back = prop_oneof![2 => Just(None), 1 => (0..AHEAD).prop_map(Some)];
    (any::<bool>(), back, any::<bool>()).prop_map(|(is_reply, back, is_lost)| Step {
        is_reply,
        back,
        is_lost,
    })
}

proptest! {
    #[test]
    fn both_sides_get_the_streams_that_fit_their_addresses(
        mut session in session(),
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let (kind, public) = match session.is_source {
            true => (TranslationKind::Source, PUBLIC),
            false => (TranslationKind::Destination, ENDS[1].0),
        };
        let request = commit_nat(kind, Some((public, public)), None);
        let request = TrackRequest { alg: Some(Alg::Ftp), ..request };
        session.pass(false, TcpFlags::SYN, None, &request)?;
        session.pass(true, SYN_ACK, None, &nat())?;
        for step in steps {
            session.take(step)?;
        }
        let counters = session.stage.tracker.counters();
        prop_assert_eq!(counters.bad_announcements, 0);
        prop_assert_eq!(counters.unfinished_announcements, 0);
    }
}
