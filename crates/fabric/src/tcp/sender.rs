//! The sending end of a connection.
//!
//! ```text
//!   Opening --SYN, ACK--> Open --FIN rides on the last segment--> Finishing --acknowledged-->
//!   Finished --FIN--> Closed (answers every FIN again)
//!
//!   Open, Disorder (something is sacked), Reduced (marks), Recovery (a loss), Loss (the timer)
//! ```
//!
//! An acknowledgement first updates the round-trip time, the scoreboard and loss detection.
//! Then it changes the phase. Then the algorithm (`control.rs`) grows the window in `Open` and
//! `Loss`, or proportional rate reduction (`prr.rs`) sets it in `Recovery`. Afterwards the
//! caller polls segments one by one: lost segments first, then new ones, then in recovery
//! those that are unsure (RFC 6675 section 5). SACK frees room in the window, which includes
//! limited transmit (RFC 3042).
//!
//! 1. Segments are first sent in order and full; only the last is shorter.
//! 2. In flight is never more than the window and the receiver's buffer, except for the first
//!    retransmission of a recovery, and a probe.
//! 3. The timer runs whenever something is unacknowledged.
//!
//! References: RFC 9293 (states), RFC 5681, RFC 6298, RFC 6675, RFC 6937, RFC 8985.
//! Departures: Karn's algorithm is not needed, because timestamps say which copy is answered
//! (RFC 7323); but as in ns-3, the first segment of an acknowledgement gives no sample if it
//! was sent again. There is no urgent data, no window probe (the receiving application takes
//! everything at once), and no reset.

use super::config::{LossDetection, TcpConfig};
use super::control::Control;
use super::prr::Prr;
use super::rack::Rack;
use super::rtt::RoundTrip;
use super::scoreboard::{Delivered, Scoreboard};
use super::segment::{Segment, Towards};
use super::window::{Acked, Window};
use crate::Time;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Opening,
    Open,
    Finishing,
    Finished,
    Closed,
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Open,
    Disorder,
    Recovery,
    Loss,
}

/// Counts of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SenderCounters {
    /// Data segments sent again.
    pub(crate) retransmitted: u64,
    /// Time-outs with data outstanding.
    pub(crate) timeouts: u64,
    /// Recoveries without a time-out.
    pub(crate) recoveries: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    state: State,
    phase: Phase,
    /// The number of segments, and the length of the last.
    total: u32,
    last_bytes: u32,
    window: Window,
    control: Control,
    board: Scoreboard,
    rack: Option<Rack>,
    prr: Prr,
    rtt: RoundTrip,
    /// The end of recovery or loss.
    recovery_end: u32,
    has_recovery_end: bool,
    is_first_partial: bool,
    duplicates: u32,
    /// Segments below this give no sample: they were sent before a time-out.
    sampled_from: u32,
    rto: Time,
    retries: u8,
    /// A SYN or an acknowledgement is due.
    owes_syn: bool,
    owes_acknowledgement: bool,
    /// A segment to send again, whatever the window.
    forced: Option<u32>,
    /// A new segment to send, whatever the window.
    owes_probe: bool,
    /// No data is sent before this time.
    open_at: Time,
    retransmit_at: Option<Time>,
    probe_at: Option<Time>,
    timestamp_echo: u32,
    counters: SenderCounters,
}

impl Sender {
    /// Creates a sender of `bytes` bytes, at least one.
    pub(crate) fn new(config: &TcpConfig, bytes: u64) -> Sender {
        let bytes = bytes.max(1);
        let segment = u64::from(config.segment_bytes);
        let total = u32::try_from(bytes.div_ceil(segment)).unwrap_or(u32::MAX);
        Sender {
            state: State::Opening,
            phase: Phase::Open,
            total,
            last_bytes: (bytes - (u64::from(total) - 1) * segment) as u32,
            window: Window::new(config),
            control: Control::new(config.algorithm),
            board: Scoreboard::default(),
            rack: match config.loss_detection {
                LossDetection::RackTlp => Some(Rack::new()),
                LossDetection::Duplicates(_) => None,
            },
            prr: Prr::default(),
            rtt: RoundTrip::new(config.initial_rtt),
            recovery_end: 0,
            has_recovery_end: false,
            is_first_partial: true,
            duplicates: 0,
            sampled_from: 0,
            rto: config.connection_timeout,
            retries: config.retries,
            owes_syn: true,
            owes_acknowledgement: false,
            forced: None,
            owes_probe: false,
            open_at: Time::ZERO,
            retransmit_at: None,
            probe_at: None,
            timestamp_echo: 0,
            counters: SenderCounters::default(),
        }
    }

    /// Starts again with another flow, in the same memory.
    pub(crate) fn reset(&mut self, config: &TcpConfig, bytes: u64) {
        let mut board = std::mem::take(&mut self.board);
        board.reset();
        let mut rack = self.rack.take();
        if let Some(rack) = &mut rack {
            rack.reset();
        }
        *self = Sender::new(config, bytes);
        self.board = board;
        if self.rack.is_some() && rack.is_some() {
            self.rack = rack;
        }
    }

    /// Whether everything is acknowledged and the other end has closed.
    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether everything is acknowledged, even if the other end is still open.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Finished | State::Closed)
    }

    /// Whether it has given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    pub(crate) fn counters(&self) -> &SenderCounters {
        &self.counters
    }

    #[cfg(test)]
    pub(crate) fn window_segments(&self) -> u32 {
        self.window.segments()
    }

    /// The time at which to call [`Sender::handle_timer`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        let mut least = self.retransmit_at;
        let mut take = |time: Option<Time>| {
            if let Some(time) = time {
                least = Some(least.map_or(time, |least| least.min(time)));
            }
        };
        if self.state == State::Open && self.board.end() == 0 {
            take(Some(self.open_at));
        }
        if let Some(rack) = &self.rack {
            take(rack.deadline);
            take(self.probe_at);
        }
        least
    }

    /// The sequence number of a segment, or of the end of the flow (RFC 9293 section 3.4).
    pub(crate) fn sequence_of(&self, number: u32) -> u32 {
        let whole = number
            .min(self.total)
            .wrapping_mul(self.window.segment_bytes);
        let short = if number < self.total {
            0
        } else {
            self.short_bytes()
        };
        let fin = u32::from(number > self.total);
        whole.wrapping_sub(short).wrapping_add(1 + fin)
    }

    /// The bytes by which the last segment is shorter than a full one.
    fn short_bytes(&self) -> u32 {
        self.window.segment_bytes - self.last_bytes
    }

    fn payload_of(&self, number: u32) -> u32 {
        match number + 1 == self.total {
            true => self.last_bytes,
            false => self.window.segment_bytes,
        }
    }

    fn in_flight_bytes(&self) -> u32 {
        let bytes = self
            .board
            .in_flight()
            .saturating_mul(self.window.segment_bytes);
        match self.board.is_in_flight(self.total - 1) {
            true => bytes - self.short_bytes().min(bytes),
            false => bytes,
        }
    }

    fn acked(&self, now: Time, segments: u32, is_marked: bool) -> Acked {
        Acked {
            now,
            segments,
            up_to: self.board.first(),
            sent: self.board.end(),
            rtt: self.rtt.mean(),
            is_marked,
        }
    }

    /// Handles a segment from the receiver.
    pub(crate) fn handle_segment(&mut self, config: &TcpConfig, now: Time, segment: &Segment) {
        if segment.is_syn {
            return self.handle_greeting(config, now, segment);
        }
        match self.state {
            State::Opening | State::Failed => return,
            State::Closed => {
                self.owes_acknowledgement |= segment.is_fin;
                return;
            }
            State::Open | State::Finishing | State::Finished => {}
        }
        let acknowledged = segment.acknowledged.min(self.total);
        if segment.acknowledged > self.board.end() + 1 || acknowledged < self.board.first() {
            return;
        }
        self.timestamp_echo = segment.timestamp;
        if self.state != State::Finished {
            self.take_acknowledgement(config, now, segment, acknowledged);
        }
        if segment.acknowledged > self.total && self.state == State::Finishing {
            self.state = State::Finished;
            (self.retransmit_at, self.probe_at) = (None, None);
            if let Some(rack) = &mut self.rack {
                rack.deadline = None;
            }
        }
        if segment.is_fin && self.state == State::Finished {
            self.state = State::Closed;
            self.owes_acknowledgement = true;
        }
    }

    fn handle_greeting(&mut self, config: &TcpConfig, now: Time, segment: &Segment) {
        if self.state != State::Opening {
            return;
        }
        self.state = State::Open;
        self.retries = config.retries;
        self.timestamp_echo = segment.timestamp;
        // If the SYN was sent again, it is unknown which copy is answered.
        if self.rto == RoundTrip::backed_off(config.connection_timeout) {
            let elapsed = super::elapsed(config, now, segment.timestamp_echo);
            self.rtt.sample(elapsed);
        }
        self.rto = self.rtt.timeout(config.minimum_rto);
        self.retransmit_at = None;
        self.owes_acknowledgement = true;
        self.open_at = now + config.start_delay;
    }

    fn take_acknowledgement(
        &mut self,
        config: &TcpConfig,
        now: Time,
        segment: &Segment,
        acknowledged: u32,
    ) {
        self.sample(config, now, segment, acknowledged);
        let before = self.board.first();
        let mut delivered = Delivered::default();
        let mut has_duplicate = false;
        for block in segment.blocks() {
            has_duplicate |= block.end <= acknowledged;
            self.board.sack(*block, &mut delivered);
        }
        let is_duplicate = delivered.segments > 0;
        self.board.acknowledge(acknowledged, &mut delivered);
        let newly = acknowledged - before;
        let in_recovery = matches!(self.phase, Phase::Recovery | Phase::Loss);
        let found = self.find_losses(config, now, &delivered, has_duplicate, in_recovery);
        let marks = self.acked(now, newly, segment.has_echo);
        self.control.note_marks(&mut self.window, &marks);
        if is_duplicate {
            self.note_duplicate(config, found);
        }
        if self.rack.is_some() && found > 0 && !in_recovery {
            self.enter_recovery();
        }
        if newly > 0 {
            self.advance(config, now, newly, is_duplicate, &delivered);
        } else if acknowledged < self.board.end() {
            let acked = self.acked(now, 1, segment.has_echo);
            self.control.note(&mut self.window, &acked);
        }
        if self.phase == Phase::Recovery && delivered.segments > 0 {
            self.reduce(&delivered);
        }
        self.plan_probe(config, now);
    }

    fn sample(&mut self, config: &TcpConfig, now: Time, segment: &Segment, acknowledged: u32) {
        let oldest = self.board.first().max(self.sampled_from);
        let is_answered = acknowledged > oldest;
        let record = self.board.record(oldest);
        if is_answered && record.is_some_and(|record| !record.was_again) {
            let elapsed = super::elapsed(config, now, segment.timestamp_echo);
            self.rtt.sample(elapsed);
            self.rto = self.rtt.timeout(config.minimum_rto);
        }
    }

    /// Runs loss detection; returns the number of segments found lost.
    fn find_losses(
        &mut self,
        config: &TcpConfig,
        now: Time,
        delivered: &Delivered,
        has_duplicate: bool,
        in_recovery: bool,
    ) -> u32 {
        let Some(rack) = &mut self.rack else {
            let LossDetection::Duplicates(threshold) = config.loss_detection else {
                return 0;
            };
            return match delivered.segments {
                0 => 0,
                _ => self.board.lose_by_count(threshold),
            };
        };
        if has_duplicate {
            rack.note_duplicate(self.board.first(), self.board.end());
        }
        rack.note_delivered(delivered, now);
        if rack.note_acknowledged(self.board.first(), has_duplicate) && !in_recovery {
            // The probe repaired the loss, which still counts as one.
            let in_flight = self
                .board
                .in_flight()
                .saturating_mul(self.window.segment_bytes);
            self.window.threshold = self.control.threshold(&self.window, in_flight);
            self.window.bytes = self.window.bytes.min(self.window.threshold);
        }
        rack.detect(&mut self.board, now, in_recovery, self.rtt.mean())
    }

    /// Notes that a segment was sacked (RFC 6675 section 5, steps 1 and 2).
    fn note_duplicate(&mut self, config: &TcpConfig, found: u32) {
        match self.phase {
            Phase::Loss | Phase::Recovery => return,
            Phase::Open => self.phase = Phase::Disorder,
            Phase::Disorder => {}
        }
        self.duplicates += 1;
        let LossDetection::Duplicates(threshold) = config.loss_detection else {
            return;
        };
        let is_past = !self.has_recovery_end || self.board.first() >= self.recovery_end;
        if (self.duplicates >= threshold && is_past) || found > 0 {
            self.enter_recovery();
        }
    }

    fn enter_recovery(&mut self) {
        let first = self.board.first();
        if self.rack.is_none() {
            self.board.lose(first);
        }
        self.phase = Phase::Recovery;
        self.is_first_partial = true;
        (self.recovery_end, self.has_recovery_end) = (self.board.end(), true);
        self.counters.recoveries += 1;
        let in_flight = self.in_flight_bytes();
        self.window.threshold = self.control.threshold(&self.window, in_flight);
        let count = self.board.end() - first;
        self.prr = Prr::new(count.saturating_mul(self.window.segment_bytes));
        self.forced = self.board.next_lost();
    }

    /// Sets the window in recovery, by the delivered segments.
    fn reduce(&mut self, delivered: &Delivered) {
        let in_flight = self.in_flight_bytes();
        let bytes = delivered.segments.saturating_mul(self.window.segment_bytes);
        self.prr
            .note_delivered(&mut self.window, in_flight, bytes, delivered.has_again);
    }

    /// Handles an advance of the first unacknowledged segment.
    fn advance(
        &mut self,
        config: &TcpConfig,
        now: Time,
        newly: u32,
        is_duplicate: bool,
        delivered: &Delivered,
    ) {
        let first = self.board.first();
        let before = self.duplicates;
        if !is_duplicate {
            self.duplicates = 0;
        }
        let is_partial = first < self.recovery_end;
        let acked = self.acked(now, newly, false);
        match self.phase {
            Phase::Recovery if is_partial => {
                return self.advance_partly(config, now, delivered.has_again);
            }
            Phase::Loss if is_partial => {
                self.control.note(&mut self.window, &acked);
                self.control.grow(&mut self.window, &acked);
                return self.restart_timer(config, now, true);
            }
            Phase::Open => self.control.note(&mut self.window, &acked),
            Phase::Disorder => {
                if let Some(rest) = newly.checked_sub(before) {
                    let acked = Acked {
                        segments: rest,
                        ..acked
                    };
                    self.control.note(&mut self.window, &acked);
                }
                if !is_duplicate {
                    self.phase = Phase::Open;
                }
            }
            Phase::Recovery => {
                self.control.note(&mut self.window, &acked);
                self.duplicates = 0;
                self.phase = Phase::Open;
                self.window.bytes = self.window.threshold;
                self.restart_timer(config, now, true);
                if let Some(rack) = &mut self.rack {
                    rack.note_recovered();
                }
            }
            Phase::Loss => {
                let past = Acked {
                    segments: first - self.recovery_end,
                    ..acked
                };
                self.control.note(&mut self.window, &past);
                self.phase = Phase::Open;
                self.control.grow(&mut self.window, &past);
                self.has_recovery_end = false;
                return self.restart_timer(config, now, true);
            }
        }
        if first >= self.recovery_end {
            self.has_recovery_end = false;
        }
        if self.phase == Phase::Open {
            self.control.grow(&mut self.window, &acked);
            self.restart_timer(config, now, true);
        }
    }

    /// Handles an acknowledgement in recovery that shows the next hole (RFC 6582 section 3.2).
    fn advance_partly(&mut self, config: &TcpConfig, now: Time, has_again: bool) {
        let one = self.acked(now, 1, false);
        self.control.note(&mut self.window, &one);
        let first = self.board.first();
        let is_sent = self
            .board
            .record(first)
            .is_none_or(|record| record.is_again);
        if self.rack.is_none() && !is_sent && has_again {
            self.board.lose(first);
        }
        let restarts = std::mem::take(&mut self.is_first_partial);
        self.restart_timer(config, now, restarts || self.rack.is_some());
    }

    fn restart_timer(&mut self, config: &TcpConfig, now: Time, restarts: bool) {
        self.retries = config.retries;
        if restarts {
            self.rto = self.rtt.timeout(config.minimum_rto);
            self.retransmit_at = Some(now + self.rto);
        }
        if self.board.first() == self.board.end() && self.state == State::Open {
            self.retransmit_at = None;
        }
    }

    fn plan_probe(&mut self, config: &TcpConfig, now: Time) {
        self.probe_at = None;
        let Some(rack) = &self.rack else {
            return;
        };
        if self.phase == Phase::Open && self.board.first() < self.board.end() {
            let (in_flight, mean) = (self.board.in_flight(), self.rtt.mean());
            // A FIN is acknowledged at once.
            let delayed = match self.board.is_in_flight(self.total - 1) {
                true => Time::ZERO,
                false => config.delayed_ack_timeout,
            };
            let after = rack.probe_after(in_flight, mean, delayed);
            let at = after.map(|after| now + after);
            // A probe after the timer would be useless.
            self.probe_at = at.filter(|&at| self.retransmit_at.is_none_or(|timer| at < timer));
        }
    }

    /// Handles the timer; does nothing before [`Sender::deadline`].
    pub(crate) fn handle_timer(&mut self, now: Time) {
        if self.state == State::Opening {
            if self.retransmit_at.is_some_and(|time| time <= now) {
                self.retransmit_at = None;
                match RoundTrip::is_longest(self.rto) {
                    true => self.state = State::Failed,
                    false => self.owes_syn = true,
                }
            }
            return;
        }
        if let Some(rack) = &mut self.rack
            && rack.deadline.is_some_and(|time| time <= now)
        {
            let in_recovery = matches!(self.phase, Phase::Recovery | Phase::Loss);
            let found = rack.detect(&mut self.board, now, in_recovery, self.rtt.mean());
            if found > 0 && !in_recovery {
                self.enter_recovery();
                self.reduce(&Delivered::default());
            }
        }
        if self.probe_at.is_some_and(|time| time <= now) {
            self.probe_at = None;
            self.probe();
        }
        if self.retransmit_at.is_some_and(|time| time <= now) {
            self.retransmit_at = None;
            self.time_out();
        }
    }

    /// Sends a new segment, or the last one again (RFC 8985 section 7.3).
    fn probe(&mut self) {
        let end = self.board.end();
        let has_new = end < self.total;
        match has_new {
            true => self.owes_probe = true,
            false => self.forced = Some(end - 1),
        }
        if let Some(rack) = &mut self.rack {
            rack.note_probe(end + u32::from(has_new), !has_new);
        }
        // The timer restarts with the probe.
        self.retransmit_at = None;
    }

    /// Handles a time-out (RFC 6298 section 5, RFC 5681 section 3.1).
    fn time_out(&mut self) {
        if self.board.first() == self.board.end() {
            return;
        }
        let Some(retries) = self.retries.checked_sub(1) else {
            self.state = State::Failed;
            (self.probe_at, self.forced) = (None, None);
            return;
        };
        self.retries = retries;
        self.counters.timeouts += 1;
        self.duplicates = 0;
        let in_flight = self.in_flight_bytes();
        let head = self.board.record(self.board.first());
        let was_again = head.is_some_and(|record| record.was_again);
        if self.phase != Phase::Loss || !was_again {
            self.window.threshold = self.control.threshold(&self.window, in_flight);
        }
        self.board.lose_all();
        (self.recovery_end, self.has_recovery_end) = (self.board.end(), true);
        self.sampled_from = self.board.end();
        self.rto = RoundTrip::backed_off(self.rto);
        let acked = self.acked(Time::ZERO, 0, false);
        self.control.time_out(&acked);
        self.phase = Phase::Loss;
        self.window.bytes = self.window.segment_bytes;
        (self.forced, self.owes_probe, self.probe_at) = (None, false, None);
        if let Some(rack) = &mut self.rack {
            rack.forget_probe();
            rack.deadline = None;
        }
    }

    /// The next segment to send now; call until `None`.
    pub(crate) fn poll_transmit(&mut self, config: &TcpConfig, now: Time) -> Option<Segment> {
        if self.owes_syn {
            self.owes_syn = false;
            self.retransmit_at = Some(now + self.rto);
            self.rto = RoundTrip::backed_off(self.rto);
            return Some(self.segment(config, now, true));
        }
        if self.owes_acknowledgement {
            self.owes_acknowledgement = false;
            return Some(self.segment(config, now, false));
        }
        let is_sending = matches!(self.state, State::Open | State::Finishing);
        if !is_sending || now < self.open_at {
            return None;
        }
        let number = match self.forced.take() {
            Some(number) => number,
            None if std::mem::take(&mut self.owes_probe) => self.board.end(),
            None => self.next_segment(config)?,
        };
        Some(self.send(config, now, number))
    }

    /// The next segment that the window allows (RFC 6675 section 4, NextSeg).
    fn next_segment(&mut self, config: &TcpConfig) -> Option<u32> {
        let end = self.board.end();
        if self.phase == Phase::Open && end == self.total {
            return None;
        }
        let room = self.window.bytes.min(config.buffer_bytes);
        let room = room.checked_sub(self.in_flight_bytes())?;
        if room == 0 {
            return None;
        }
        let number = match self.board.next_lost() {
            Some(lost) => lost,
            None if end < self.total => {
                let outstanding = u64::from(end - self.board.first());
                let held = outstanding * u64::from(self.window.segment_bytes);
                if held + u64::from(self.payload_of(end)) > u64::from(config.buffer_bytes) {
                    return None;
                }
                end
            }
            None if self.phase == Phase::Recovery => self.board.next_unsure()?,
            None => return None,
        };
        (self.payload_of(number) <= room).then_some(number)
    }

    fn send(&mut self, config: &TcpConfig, now: Time, number: u32) -> Segment {
        let bytes = self.payload_of(number);
        let is_again = number < self.board.end();
        match is_again {
            true => {
                self.counters.retransmitted += 1;
                self.board.send_again(number, now);
            }
            false => self.board.send(now),
        }
        if let Some(rack) = &mut self.rack {
            rack.note_sent(number, now);
        }
        if self.phase == Phase::Recovery {
            self.prr.note_sent(bytes);
        }
        if number + 1 == self.total {
            self.state = State::Finishing;
        }
        if self.retransmit_at.is_none() {
            self.retransmit_at = Some(now + self.rto);
        }
        self.plan_probe(config, now);
        Segment {
            number,
            payload_bytes: bytes,
            is_fin: number + 1 == self.total,
            is_again,
            ..self.segment(config, now, false)
        }
    }

    fn segment(&self, config: &TcpConfig, now: Time, is_syn: bool) -> Segment {
        Segment {
            towards: Towards::Receiver,
            is_syn,
            number: self.board.end(),
            acknowledged: u32::from(self.state == State::Closed),
            timestamp: super::ticks(config, now),
            timestamp_echo: self.timestamp_echo,
            ..Segment::default()
        }
    }
}
