//! One connection: its tuples, its state, and what rules have written on it.
//!
//! 1. `tuples[0]` is the tuple of the first packet before translation, `tuples[1]` that of its
//!    answers before they are translated back. Without a translation each is the other reversed.
//! 2. A packet of direction `d` leaves with the tuple `tuples[!d].reversed()`.

use serde::{Deserialize, Serialize};
use thalweg_packet::Instant;

use crate::alg::SequenceShift;
use crate::entry::{ConnectionEntry, OtherState, ProtocolState, Status};
use crate::tcp::{Judgement, Peers, Segment};
use crate::timeout::{Policies, Timeout};
use crate::{Alg, CtState, TrackRequest, Tuple};

/// One connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Connection {
    pub(crate) tuples: [Tuple; 2],
    /// The original tuple of the connection that announced this one.
    pub(crate) parent: Option<Box<Tuple>>,
    /// In two words, so that the connection is not aligned to 16 bytes.
    pub(crate) label: [u64; 2],
    /// The rule that committed the connection.
    pub(crate) rule: u64,
    /// The bucket of a group that led the packet to be committed; 0 for none.
    pub(crate) bucket: u64,
    /// The connection is over from this time on.
    #[serde(with = "crate::tracker::saved_instant")]
    pub(crate) deadline: Instant,
    pub(crate) mark: u32,
    /// The number of the policy of time-outs.
    pub(crate) policy: u32,
    pub(crate) progress: Progress,
    /// Which ends are translated, as bits of a packet of the original direction.
    pub(crate) translated: CtState,
    pub(crate) alg: Option<Alg>,
    /// How rewritten payloads have moved TCP's numbers; made by the first.
    pub(crate) shift: Option<Box<SequenceShift>>,
    /// Whether a packet of the reply direction was seen.
    pub(crate) has_reply: bool,
}

/// The state of a connection's protocol.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Progress {
    Tcp(Peers),
    Icmp { has_reply: bool },
    Other(OtherState),
}

/// The direction of a packet in its connection: an index into its tuples.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(crate) enum Direction {
    Original,
    Reply,
}

impl Direction {
    pub(crate) fn is_reply(self) -> bool {
        self == Direction::Reply
    }

    pub(crate) fn other(self) -> Direction {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

impl Progress {
    /// The state after the first packet.
    pub(crate) fn new(tuple: &Tuple, segment: Option<&Segment>) -> Progress {
        match segment {
            Some(segment) => Progress::Tcp(Peers::new(segment)),
            None if tuple.is_icmp() => Progress::Icmp { has_reply: false },
            None => Progress::Other(OtherState::First),
        }
    }

    /// The time-out after the first packet.
    fn first_timeout(&self) -> Timeout {
        match self {
            Progress::Tcp(_) => Timeout::TcpSynSent,
            Progress::Icmp { .. } => Timeout::IcmpFirst,
            Progress::Other(_) => Timeout::UdpFirst,
        }
    }

    /// Takes a packet into account and judges it.
    pub(crate) fn update(
        &mut self,
        segment: Option<&Segment>,
        is_reply: bool,
        checks_sequence: bool,
    ) -> Judgement {
        match self {
            // A packet with a TCP tuple has a segment.
            Progress::Tcp(peers) => segment.map_or(Judgement::BadFlags, |segment| {
                peers.update(segment, is_reply, checks_sequence)
            }),
            Progress::Icmp { has_reply } => {
                *has_reply |= is_reply;
                match has_reply {
                    true => Judgement::Fits(Some(Timeout::IcmpReply)),
                    false => Judgement::Repeats(Timeout::IcmpFirst),
                }
            }
            Progress::Other(state) => {
                if is_reply {
                    *state = OtherState::Bidirectional;
                } else if *state == OtherState::First {
                    *state = OtherState::Multiple;
                }
                match state {
                    OtherState::Bidirectional => Judgement::Fits(Some(Timeout::UdpMultiple)),
                    _ => Judgement::Repeats(Timeout::UdpSingle),
                }
            }
        }
    }

    fn shown(&self) -> ProtocolState {
        match self {
            Progress::Tcp(peers) => {
                let [original, reply] = peers.shown();
                ProtocolState::Tcp { original, reply }
            }
            Progress::Icmp { has_reply } => ProtocolState::Icmp {
                has_reply: *has_reply,
            },
            Progress::Other(state) => ProtocolState::Other(*state),
        }
    }
}

impl Connection {
    /// The tuple with which a packet of a direction leaves.
    pub(crate) fn leaving(&self, direction: Direction) -> Tuple {
        // Invariant 2.
        self.tuples[direction.other() as usize].reversed()
    }

    /// Whether packets are translated.
    pub(crate) fn is_translated(&self) -> bool {
        self.translated != CtState::default()
    }

    /// The bits of a packet of a direction that is translated.
    pub(crate) fn translated(&self, direction: Direction) -> CtState {
        if !direction.is_reply() {
            return self.translated;
        }
        // A reply's destination is the translated source.
        let bit = |is_set, bit| if is_set { bit } else { CtState::default() };
        bit(
            self.translated.has(CtState::SOURCE_NAT),
            CtState::DESTINATION_NAT,
        ) | bit(
            self.translated.has(CtState::DESTINATION_NAT),
            CtState::SOURCE_NAT,
        )
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.deadline <= now
    }

    /// Gives a new connection its policy and its first time.
    pub(crate) fn start(&mut self, policies: &Policies, now: Instant) {
        self.policy = policies.choose(self.policy, self.tuples[0].zone);
        self.deadline = now + policies.duration(self.policy, self.progress.first_timeout());
    }

    /// Lets the connection live on for the time of a state; whether it ends earlier than before.
    pub(crate) fn extend(&mut self, timeout: Timeout, policies: &Policies, now: Instant) -> bool {
        let deadline = now + policies.duration(self.policy, timeout);
        std::mem::replace(&mut self.deadline, deadline) > deadline
    }

    /// Writes the mark and the label that a request asks for.
    ///
    /// A connection that another announced keeps what it inherited, as in Open vSwitch.
    pub(crate) fn write(&mut self, request: &TrackRequest) {
        if self.parent.is_some() {
            return;
        }
        if let Some(mark) = request.mark {
            self.mark = mark.value | self.mark & !mark.mask;
        }
        if let Some(label) = request.label {
            self.set_label(label.value | self.label() & !label.mask);
        }
    }

    /// The label.
    pub(crate) fn label(&self) -> u128 {
        let [high, low] = self.label;
        u128::from(high) << 64 | u128::from(low)
    }

    pub(crate) fn set_label(&mut self, label: u128) {
        self.label = [(label >> 64) as u64, label as u64];
    }

    /// The tuple that packets show as their original one.
    pub(crate) fn original(&self) -> Tuple {
        match &self.parent {
            Some(parent) => **parent,
            None => self.tuples[0],
        }
    }

    /// The connection as a dump shows it.
    pub(crate) fn entry(&self, now: Instant) -> ConnectionEntry {
        ConnectionEntry {
            original: self.tuples[0],
            reply: self.tuples[1],
            parent: self.parent.as_deref().copied(),
            timeout_s: u32::try_from((self.deadline - now).as_secs()).unwrap_or(u32::MAX),
            mark: self.mark,
            label: self.label(),
            protocol: self.progress.shown(),
            alg: self.alg,
            status: Status::default(),
            rule: self.rule,
            bucket: self.bucket,
        }
    }
}
