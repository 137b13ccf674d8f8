//! The state machine of a TCP connection, as a pure function of two peers and a segment.
//!
//! The algorithm is that of G. van Rooij, "Real Stateful TCP Packet Filtering in IP FlushFilter"
//! (SANE 2000), in the form that BSD's pf and Open vSwitch's userspace tracker
//! (`lib/conntrack-tcp.c`) gave it. For each peer the tracker knows
//!
//! - `low`: the end of what the peer has sent, one past the last byte seen;
//! - `high`: the end of what the peer may send: what the other acknowledged plus its window;
//! - `max_window`: the largest window that the peer announced, unscaled.
//!
//! A segment fits if it ends below `high`, starts at most one window of the other peer below
//! `low`, and acknowledges at most one window away from what the other peer has sent.
//!
//! 1. All comparisons of sequence numbers are modulo 2^32 (RFC 9293, section 3.4).
//! 2. A segment that is judged invalid changes nothing.
//! 3. A reset must name the next expected byte, or one beside it (RFC 5961, section 3.2, lets
//!    the receiver challenge the others; the tracker refuses them).
//! 4. A connection picked up in the middle has unknown window scales, so it gets the largest
//!    (RFC 7323, section 2.3), and its first answer is not checked for what it acknowledges.
//! 5. A SYN ends a connection whose peers have both closed, and begins the next one.
//! 6. The numbers of a peer are those of its last SYN that the other peer may have answered.
//! 7. Connections that come back from a save have numbers of the past; see `tcp/stale.rs`.
//!
//! Departures from Open vSwitch: a peer that opens at the same time as the first is known by
//! its own SYN, and a first SYN sent again with another number replaces the old one (there both
//! keep stale numbers, and the connection fails by chance). Windows are kept in 32 bits, where
//! 16 bits lose the carry when a scale is taken back. A peer's first segment that is judged
//! invalid leaves the peer as it was (2); there it has been introduced already.

use serde::{Deserialize, Serialize};

use crate::entry::{TcpPeer, TcpPeerFlags, TcpState};
use crate::timeout::Timeout;

mod stale;

/// The largest shift of a window (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;

/// The largest unscaled window plus one segment: how far acknowledgments may lie apart.
const MAX_ACKNOWLEDGMENT_DISTANCE: i32 = 0xffff + 1500;

/// The flags of a segment (RFC 9293, section 3.1).
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
    pub(crate) const URG: u8 = 0x20;
}

/// What the state machine reads of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// Bytes of payload.
    pub(crate) len: u32,
    /// The option of window scale; read only with SYN.
    pub(crate) window_scale: Option<u8>,
}

/// A peer's window scale, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
enum Scale {
    /// The peer announced none, or has not spoken.
    #[default]
    None,
    /// The connection was picked up in the middle.
    Unknown,
    /// The peer announced this shift.
    Shift(u8),
}

/// One peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Peer {
    low: u32,
    high: u32,
    max_window: u32,
    scale: Scale,
    state: TcpState,
    /// Whether the peer has not spoken since the connection came back; invariant 7.
    #[serde(skip, default = "stale::is_stale_when_read")]
    is_stale: bool,
}

/// Both peers: the one that sent the first segment, and the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Peers([Peer; 2]);

/// What a segment means for its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    /// Flags that no peer sends together.
    BadFlags,
    /// Outside the windows.
    OutOfWindow,
    /// The connection has ended, and the segment begins the next one.
    Reopens,
    /// The segment repeats the beginning.
    Repeats(Timeout),
    /// The segment fits; a time-out if the connection's life is extended.
    Fits(Option<Timeout>),
}

impl Segment {
    fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// One past the last sequence number that the segment uses.
    fn end(&self) -> u32 {
        let controls = u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN));
        self.sequence.wrapping_add(self.len).wrapping_add(controls)
    }

    /// Whether no peer sends these flags together.
    fn has_bad_flags(&self) -> bool {
        let ends = self.flags & (flag::RST | flag::FIN) != 0;
        if self.has(flag::SYN) {
            if ends {
                return true;
            }
        } else if self.flags & (flag::ACK | flag::RST) == 0 {
            return true;
        }
        !self.has(flag::ACK) && self.flags & (flag::FIN | flag::PSH | flag::URG) != 0
    }

    /// Whether a connection may begin with the segment: a SYN, or the middle of a stream, but
    /// not the answer to a SYN.
    pub(crate) fn is_beginning(&self) -> bool {
        !self.has_bad_flags() && !self.has(flag::SYN | flag::ACK)
    }

    fn scale(&self) -> Scale {
        match self.window_scale {
            Some(shift) => Scale::Shift(shift.min(MAX_SCALE)),
            None => Scale::None,
        }
    }
}

impl Peers {
    /// Whether the shifts of windows are such as peers may announce.
    pub(crate) fn is_sound(&self) -> bool {
        self.0.iter().all(|peer| peer.scale.shift() <= MAX_SCALE)
    }
}

impl Scale {
    fn shift(self) -> u8 {
        match self {
            Scale::Shift(shift) => shift,
            Scale::None | Scale::Unknown => 0,
        }
    }
}

impl Peer {
    /// A peer that begins with a SYN, or is picked up in the middle.
    fn opening(segment: &Segment) -> Peer {
        let is_syn = segment.has(flag::SYN);
        let scale = if is_syn {
            segment.scale()
        } else {
            Scale::Unknown
        };
        let window = u32::from(segment.window).max(1);
        Peer {
            low: segment.sequence,
            high: segment.end().wrapping_add(1),
            max_window: window.div_ceil(1 << scale.shift()),
            scale,
            state: TcpState::SynSent,
            is_stale: false,
        }
    }

    /// A peer that has not spoken.
    fn silent(scale: Scale) -> Peer {
        Peer {
            low: 0,
            high: 1,
            max_window: 1,
            scale,
            state: TcpState::Closed,
            is_stale: false,
        }
    }

    fn shown(&self) -> TcpPeer {
        TcpPeer {
            state: self.state,
            window_scale: self.scale.shift(),
            flags: match self.scale {
                Scale::None => TcpPeerFlags::default(),
                Scale::Unknown => TcpPeerFlags::BE_LIBERAL,
                Scale::Shift(_) => TcpPeerFlags::WINDOW_SCALE,
            },
        }
    }
}

/// The numbers of one segment against the two peers, before anything is changed.
struct Fit {
    source: Peer,
    destination: Peer,
    sequence: u32,
    end: u32,
    acknowledgment: u32,
    window: u32,
    source_shift: u8,
    destination_shift: u8,
    is_acknowledgment_checked: bool,
}

impl Peers {
    /// The peers after the first segment, for which [`Segment::is_beginning`] holds.
    pub(crate) fn new(segment: &Segment) -> Peers {
        let other = if segment.has(flag::SYN) {
            Scale::None
        } else {
            Scale::Unknown
        };
        Peers([Peer::opening(segment), Peer::silent(other)])
    }

    /// Judges a segment and takes it into account; `is_reply` if the second peer sent it.
    ///
    /// With `checks_sequence` off, segments outside the windows fit too.
    pub(crate) fn update(
        &mut self,
        segment: &Segment,
        is_reply: bool,
        checks_sequence: bool,
    ) -> Judgement {
        if segment.has_bad_flags() {
            return Judgement::BadFlags;
        }
        if self.is_stale() {
            return self.update_stale(segment, is_reply, checks_sequence);
        }
        let [source, destination] = self.sides(is_reply);
        if segment.flags & (flag::SYN | flag::ACK) == flag::SYN {
            // Invariant 5.
            if self.0.iter().all(|peer| peer.state >= TcpState::FinWait2) {
                return Judgement::Reopens;
            }
            if source.state <= TcpState::SynSent {
                self.take_syn(segment, is_reply);
                return Judgement::Repeats(Timeout::TcpSynSent);
            }
        }
        let mut fit = Fit::new(source, destination, segment);
        let judgement = if !checks_sequence || fit.is_inside(segment) {
            fit.advance();
            fit.change_states(segment);
            Judgement::Fits(Some(fit.timeout()))
        } else if fit.is_almost_inside() {
            // A picked up connection, a SYN before its answer, or a segment just after the
            // end. The life is not extended, so that a flood of these does no harm.
            fit.advance();
            fit.end_states(segment);
            Judgement::Fits(None)
        } else {
            return Judgement::OutOfWindow; // Invariant 2: `fit` is dropped.
        };
        self.set_sides(fit, is_reply);
        judgement
    }

    /// Takes in a SYN alone: one sent again, or that of a peer that opens at the same time.
    fn take_syn(&mut self, segment: &Segment, is_reply: bool) {
        let [source, destination] = self.sides(is_reply);
        let is_unanswered = destination.state == TcpState::Closed;
        if source.state == TcpState::Closed || is_unanswered {
            // Invariant 6.
            self.0[usize::from(is_reply)] = Peer::opening(segment);
        }
    }

    /// Both peers as a dump shows them.
    pub(crate) fn shown(&self) -> [TcpPeer; 2] {
        [self.0[0].shown(), self.0[1].shown()]
    }

    /// The sender's peer and the receiver's.
    fn sides(&self, is_reply: bool) -> [Peer; 2] {
        [
            self.0[usize::from(is_reply)],
            self.0[usize::from(!is_reply)],
        ]
    }

    /// Puts back what a segment of the sender has made of both.
    fn set_sides(&mut self, fit: Fit, is_reply: bool) {
        self.0[usize::from(is_reply)] = fit.source;
        self.0[usize::from(!is_reply)] = fit.destination;
    }
}

impl Fit {
    fn new(source: Peer, destination: Peer, segment: &Segment) -> Fit {
        let (source_shift, destination_shift) = shifts(&source, &destination, segment);
        let mut fit = Fit {
            source,
            destination,
            sequence: segment.sequence,
            end: segment.end(),
            acknowledgment: segment.acknowledgment,
            window: u32::from(segment.window),
            source_shift,
            destination_shift,
            is_acknowledgment_checked: true,
        };
        if source.state < TcpState::SynSent {
            fit.introduce_source(segment);
        }
        let is_bare_reset = segment.acknowledgment == 0 && segment.has(flag::ACK | flag::RST);
        // Some stacks reset without a number to acknowledge.
        if !segment.has(flag::ACK) || is_bare_reset {
            fit.acknowledgment = fit.destination.low;
        }
        if fit.sequence == fit.end {
            // Without data the numbers matter little.
            fit.sequence = fit.source.low;
            fit.end = fit.source.low;
        }
        fit
    }

    /// Takes in the first segment of a peer.
    fn introduce_source(&mut self, segment: &Segment) {
        if segment.has(flag::SYN)
            && let Scale::Shift(theirs) = self.destination.scale
        {
            self.source.scale = segment.scale();
            if let Scale::Shift(shift) = self.source.scale {
                // The window of a SYN is not scaled (RFC 7323, section 2.2).
                self.window = self.window.div_ceil(1 << shift);
                self.source_shift = shift;
                self.destination_shift = theirs;
            } else {
                // Both must announce a scale, or there is none.
                self.destination.max_window <<= theirs;
                self.destination.scale = Scale::None;
            }
        }
        self.source.low = self.sequence;
        self.source.state = TcpState::SynSent;
        let reach = (self.destination.max_window << self.destination_shift).max(1);
        let high = self.end.wrapping_add(reach);
        // Invariant 4.
        if self.source.high == 1 || !is_before(high, self.source.high) {
            self.source.high = high;
            self.is_acknowledgment_checked = false;
        }
        self.source.max_window = self.source.max_window.max(self.window);
    }

    /// Whether the segment lies inside the windows.
    fn is_inside(&self, segment: &Segment) -> bool {
        let reach = self.destination.max_window << self.destination_shift;
        let skew = if self.is_acknowledgment_checked {
            distance(self.acknowledgment, self.destination.low)
        } else {
            0
        };
        !is_before(self.source.high, self.end)
            && !is_before(self.sequence, self.source.low.wrapping_sub(reach))
            && skew >= -MAX_ACKNOWLEDGMENT_DISTANCE
            && skew <= MAX_ACKNOWLEDGMENT_DISTANCE << self.source_shift
            && (!segment.has(flag::RST)
                // Invariant 3.
                || distance(self.source.low, segment.sequence).unsigned_abs() <= 1)
    }

    /// Whether the segment is near enough for a connection that begins or ends.
    fn is_almost_inside(&self) -> bool {
        let near = MAX_ACKNOWLEDGMENT_DISTANCE.unsigned_abs();
        (self.destination.state < TcpState::SynSent
            || self.destination.state >= TcpState::FinWait2
            || self.source.state >= TcpState::FinWait2)
            && !is_before(self.source.high.wrapping_add(near), self.end)
            && !is_before(self.sequence, self.source.low.wrapping_sub(near))
    }

    /// Moves the windows.
    fn advance(&mut self) {
        self.source.max_window = self.source.max_window.max(self.window);
        if is_before(self.source.low, self.end) {
            self.source.low = self.end;
        }
        let window = self.window << self.source_shift;
        if !is_before(
            self.acknowledgment.wrapping_add(window),
            self.destination.high,
        ) {
            self.destination.high = self.acknowledgment.wrapping_add(window.max(1));
        }
    }

    /// Moves the states of a segment inside the windows.
    fn change_states(&mut self, segment: &Segment) {
        if segment.has(flag::SYN) && self.source.state < TcpState::SynSent {
            self.source.state = TcpState::SynSent;
        }
        if segment.has(flag::FIN) && self.source.state < TcpState::Closing {
            self.source.state = TcpState::Closing;
        }
        if segment.has(flag::ACK) {
            match self.destination.state {
                TcpState::SynSent => self.destination.state = TcpState::Established,
                TcpState::Closing => self.destination.state = TcpState::FinWait2,
                _ => {}
            }
        }
        if segment.has(flag::RST) {
            self.source.state = TcpState::TimeWait;
            self.destination.state = TcpState::TimeWait;
        }
    }

    /// Moves the states of a segment that is almost inside.
    fn end_states(&mut self, segment: &Segment) {
        if segment.has(flag::FIN) && self.source.state < TcpState::Closing {
            self.source.state = TcpState::Closing;
        }
        if segment.has(flag::RST) {
            self.source.state = TcpState::TimeWait;
            self.destination.state = TcpState::TimeWait;
        }
    }

    fn timeout(&self) -> Timeout {
        let states = [self.source.state, self.destination.state];
        let all = |least: TcpState| states.iter().all(|state| *state >= least);
        let any = |least: TcpState| states.iter().any(|state| *state >= least);
        if all(TcpState::FinWait2) {
            Timeout::TcpClose
        } else if all(TcpState::Closing) {
            Timeout::TcpTimeWait
        } else if !all(TcpState::Established) {
            Timeout::TcpSynRecv
        } else if any(TcpState::Closing) {
            Timeout::TcpFinWait
        } else {
            Timeout::TcpEstablished
        }
    }
}

/// The shifts of both peers' windows for this segment.
fn shifts(source: &Peer, destination: &Peer, segment: &Segment) -> (u8, u8) {
    match (source.scale, destination.scale) {
        _ if segment.has(flag::SYN) => (0, 0),
        (Scale::Shift(ours), Scale::Shift(theirs)) => (ours, theirs),
        (Scale::Unknown, Scale::Unknown) => (MAX_SCALE, MAX_SCALE),
        _ => (0, 0),
    }
}

/// How far `to` lies after `from`; negative if before.
fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

/// Whether `a` comes before `b`.
fn is_before(a: u32, b: u32) -> bool {
    distance(b, a) < 0
}

#[cfg(test)]
mod tests;
