//! The receiving end of a connection.
//!
//! ```text
//!   Listening --SYN--> Greeted --acknowledged--> Open --everything and FIN--> Closing --> Closed
//! ```
//!
//! It acknowledges the first segment at once, then every second one. It also acknowledges at
//! once a segment that leaves or fills a gap, and a FIN. If the FIN's segment arrives last and
//! in order, the receiver's own FIN is the acknowledgement. It closes as soon as everything
//! has arrived.
//!
//! A segment with the FIN that arrives first, before the handshake is done, is ignored, as in
//! ns-3; the sender then waits for its timer.
//!
//! Selective acknowledgements list the range of the last segment, then those reported before
//! (RFC 2018 section 4). With RACK, a duplicate segment comes first (RFC 2883). With DCTCP it
//! acknowledges at once when marks begin or end (RFC 8257 section 3.2).

use super::config::{Algorithm, LossDetection, TcpConfig};
use super::ranges::Ranges;
use super::rtt::RoundTrip;
use super::segment::{Block, SACK_BLOCKS, Segment, Towards};
use crate::Time;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Listening,
    Greeted,
    Open,
    Closing,
    Closed,
}

/// The segments to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Due {
    greeting: bool,
    acknowledgement: bool,
    /// An acknowledgement for segments before marks began or ended, and whether they were
    /// marked.
    turn: Option<(u32, bool)>,
    fin: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    state: State,
    due: Due,
    /// The number of segments received in order; one more with the FIN.
    next: u32,
    /// The total number of segments, once known.
    total: Option<u32>,
    held: Ranges,
    /// The ranges reported last, latest first.
    reported: [Block; SACK_BLOCKS],
    duplicate: Option<u32>,
    /// Segments since the last acknowledgement.
    unacknowledged: u32,
    delayed_until: Option<Time>,
    /// The time at which SYN or FIN is sent again.
    repeat_at: Option<Time>,
    repeat_after: Time,
    retries: u8,
    rtt: RoundTrip,
    timestamp_echo: u32,
    last_acknowledged: u32,
    is_marked: bool,
}

impl Receiver {
    pub(crate) fn new(config: &TcpConfig) -> Receiver {
        Receiver {
            state: State::Listening,
            due: Due::default(),
            next: 0,
            total: None,
            held: Ranges::default(),
            reported: [Block::default(); SACK_BLOCKS],
            duplicate: None,
            unacknowledged: 0,
            delayed_until: None,
            repeat_at: None,
            repeat_after: config.connection_timeout,
            retries: config.retries,
            rtt: RoundTrip::new(config.initial_rtt),
            timestamp_echo: 0,
            last_acknowledged: 0,
            is_marked: false,
        }
    }

    /// Forgets everything but keeps its memory.
    pub(crate) fn reset(&mut self, config: &TcpConfig) {
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        *self = Receiver {
            held,
            ..Receiver::new(config)
        };
    }

    /// Whether nothing more will be sent unless a segment arrives.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether everything has arrived.
    #[cfg(test)]
    pub(crate) fn has_everything(&self) -> bool {
        matches!(self.state, State::Closing | State::Closed) && self.total.is_some()
    }

    /// The time at which to call [`Receiver::handle_timer`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.delayed_until, self.repeat_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Handles a segment; `is_marked` says whether it met a long queue.
    pub(crate) fn handle_segment(
        &mut self,
        config: &TcpConfig,
        now: Time,
        segment: &Segment,
        is_marked: bool,
    ) {
        if segment.is_syn {
            return self.greet(segment);
        }
        match self.state {
            State::Listening | State::Closed => return,
            State::Greeted => {
                let elapsed = super::elapsed(config, now, segment.timestamp_echo);
                self.rtt.sample(elapsed);
                if segment.is_fin && segment.number != self.next {
                    return;
                }
                self.state = State::Open;
                self.repeat_at = None;
                // The first segment is acknowledged at once.
                self.unacknowledged = config.delayed_ack_segments;
            }
            State::Open => {}
            State::Closing if segment.acknowledged > 0 => {
                self.state = State::Closed;
                self.repeat_at = None;
                return;
            }
            State::Closing => {
                self.due.fin |= segment.payload_bytes > 0;
                return;
            }
        }
        if segment.number == self.next && segment.number <= self.last_acknowledged {
            self.timestamp_echo = segment.timestamp;
        }
        if segment.payload_bytes > 0 {
            self.take_payload(config, now, segment, is_marked);
        }
    }

    fn greet(&mut self, segment: &Segment) {
        if matches!(self.state, State::Listening | State::Greeted) {
            self.state = State::Greeted;
            self.due.greeting = true;
            self.timestamp_echo = segment.timestamp;
        }
    }

    fn take_payload(&mut self, config: &TcpConfig, now: Time, segment: &Segment, is_marked: bool) {
        if config.algorithm == Algorithm::Dctcp {
            if is_marked != self.is_marked && self.delayed_until.take().is_some() {
                self.due.turn = Some((self.next, self.is_marked));
                self.unacknowledged = 0;
            }
            self.is_marked = is_marked;
        }
        if segment.is_fin {
            self.total = Some(segment.number + 1);
        }
        let number = segment.number;
        if number < self.next || self.held.containing(number).is_some() {
            if config.loss_detection == LossDetection::RackTlp {
                self.duplicate = Some(number);
            }
            self.due.acknowledgement = true;
            return;
        }
        if number > self.next {
            let block = Block {
                start: number,
                end: number + 1,
            };
            self.held.add(block, |_| {});
            self.report(number);
            self.due.acknowledgement = true;
            return;
        }
        self.next += 1;
        let had_gap = !self.held.is_empty();
        if let Some(block) = self.held.containing(self.next) {
            self.next = block.end;
        }
        if had_gap {
            self.held.remove_below(self.next);
        }
        if self.total == Some(self.next) {
            return self.close(config, now, segment.is_fin);
        }
        self.unacknowledged += 1;
        if had_gap || self.unacknowledged >= config.delayed_ack_segments {
            self.due.acknowledgement = true;
        } else if self.delayed_until.is_none() {
            self.delayed_until = Some(now + config.delayed_ack_timeout);
        }
    }

    /// Closes once everything has arrived: acknowledges, and sends the FIN.
    fn close(&mut self, config: &TcpConfig, now: Time, was_last: bool) {
        self.next += 1;
        self.state = State::Closing;
        self.due.acknowledgement = was_last;
        self.due.fin = true;
        self.delayed_until = None;
        self.repeat_after = self.rtt.timeout(config.minimum_rto);
        self.repeat_at = Some(now + self.repeat_after);
    }

    /// Puts the range of a held segment first among those reported.
    fn report(&mut self, number: u32) {
        let Some(current) = self.held.containing(number) else {
            return;
        };
        let mut reported = [Block::default(); SACK_BLOCKS];
        reported[0] = current;
        let others = self
            .reported
            .iter()
            .filter(|block| block.end < current.start || block.start > current.end);
        for (place, block) in reported[1..].iter_mut().zip(others) {
            *place = *block;
        }
        self.reported = reported;
    }

    /// Handles the timer; does nothing before [`Receiver::deadline`].
    pub(crate) fn handle_timer(&mut self, now: Time) {
        if self.delayed_until.is_some_and(|time| time <= now) {
            self.delayed_until = None;
            self.due.acknowledgement = true;
        }
        if self.repeat_at.is_none_or(|time| time > now) {
            return;
        }
        self.repeat_at = None;
        match self.state {
            State::Greeted if RoundTrip::is_longest(self.repeat_after) => {
                self.state = State::Closed;
            }
            State::Greeted => self.due.greeting = true,
            State::Closing if self.retries == 0 => self.state = State::Closed,
            State::Closing => {
                self.retries -= 1;
                self.due.fin = true;
                self.repeat_after = RoundTrip::backed_off(self.repeat_after);
                self.repeat_at = Some(now + self.repeat_after);
            }
            State::Listening | State::Open | State::Closed => {}
        }
    }

    /// The next segment to send now; call until `None`.
    pub(crate) fn poll_transmit(&mut self, config: &TcpConfig, now: Time) -> Option<Segment> {
        let mut segment = Segment {
            towards: Towards::Sender,
            acknowledged: self.next,
            timestamp: super::ticks(config, now),
            timestamp_echo: self.timestamp_echo,
            ..Segment::default()
        };
        if self.due.greeting {
            self.due.greeting = false;
            segment.is_syn = true;
            self.repeat_at = Some(now + self.repeat_after);
            self.repeat_after = RoundTrip::backed_off(self.repeat_after);
            return Some(segment);
        }
        if let Some((next, was_marked)) = self.due.turn.take() {
            segment.acknowledged = next;
            segment.has_echo = was_marked;
            return Some(segment);
        }
        if !self.due.acknowledgement && !self.due.fin {
            return None;
        }
        segment.has_echo = self.is_marked;
        if std::mem::take(&mut self.due.acknowledgement) {
            self.add_blocks(&mut segment);
        } else {
            self.due.fin = false;
            segment.is_fin = true;
        }
        self.last_acknowledged = self.next;
        self.unacknowledged = 0;
        self.delayed_until = None;
        Some(segment)
    }

    fn add_blocks(&mut self, segment: &mut Segment) {
        let mut add = |block: Block| {
            if usize::from(segment.block_count) < SACK_BLOCKS {
                segment.blocks[usize::from(segment.block_count)] = block;
                segment.block_count += 1;
            }
        };
        if let Some(number) = self.duplicate.take() {
            add(Block {
                start: number,
                end: number + 1,
            });
        }
        if self.held.is_empty() {
            return;
        }
        let next = self.next;
        let still = self.reported.iter().filter(|block| block.start > next);
        still.copied().for_each(&mut add);
    }
}
