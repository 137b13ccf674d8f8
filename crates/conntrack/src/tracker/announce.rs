//! Control connections: what a packet of FTP or TFTP does besides being tracked.
//!
//! ```text
//!   under the home's lock:
//!     plan:    payload --> the connection that it announces, and the payload that is to leave
//!              numbers --> the header that is to leave, and the shift from now on
//!     judge the packet
//!     keep:    the shift stays with the connection, the announced one is expected
//!   outside all locks: the header, the translation and the payload are written
//! ```
//!
//! A rewritten payload shifts the sequence numbers of its sender (`alg/sequence.rs`). The state
//! machine judges the numbers as each sender counts them: an acknowledgment loses the shift
//! before it is judged ([`counted`]), a sequence number gets it when the packet leaves.
//!
//! 1. An announcement counts only while its control connection is in the table. When that
//!    ends, announced connections that have not begun are forgotten.
//! 2. The announced connection inherits mark and label as they are at the announcement.
//! 3. A packet whose plan fails is invalid, and its connection does not change. A packet that
//!    begins a connection has committed it before, so the connection stays.
//! 4. A packet takes this step once per zone: when it is translated, if its connection is, and
//!    when it is judged otherwise. Only then do its headers fit its payload.
//! 5. A planned change can be written: the frame has room for it.
//!
//! A SYN announces nothing: its payload has other numbers than its own. An ICMP error about a
//! control connection keeps the numbers that it quotes.

use thalweg_packet::{Instant, Packet, Rewriter, Unfinished};

use super::{Ask, Found, Located, TRANSLATED, Tracker};
use crate::alg::{
    Announcement, ControlPacket, Rewritten, SequenceShift, ShiftPlace, announced, replace_payload,
    rewrite_announcement,
};
use crate::connection::{Connection, Direction};
use crate::counters::Event;
use crate::expectation::Expectation;
use crate::reading::{Places, Reading};
use crate::tcp::{Segment, flag};
use crate::{Alg, Tuple};

/// The length of UDP's header (RFC 768).
const UDP_HEADER_LEN: usize = 8;

/// A frame to track.
pub(super) enum Frame<'a> {
    /// It keeps its length.
    Fixed(&'a mut [u8]),
    /// It may become longer or shorter.
    Packet(&'a mut Packet),
}

/// What a packet of a control connection does.
pub(super) struct Control {
    announcement: Option<Announcement>,
    is_unfinished: bool,
    /// The connection's shift from now on, if it has one.
    shift: Option<Box<SequenceShift>>,
    writing: Writing,
}

/// The bytes to write into the packet.
#[derive(PartialEq, Eq, Default)]
pub(super) struct Writing {
    /// Its TCP header; empty if it stays.
    header: Vec<u8>,
    payload: Option<Vec<u8>>,
}

impl Frame<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Frame::Fixed(bytes) => bytes,
            Frame::Packet(packet) => packet.bytes(),
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Frame::Fixed(bytes) => bytes,
            Frame::Packet(packet) => packet.bytes_mut(),
        }
    }

    /// Whether the checksum of TCP or UDP is there; a port that sends the packet adds it otherwise.
    pub(super) fn has_sum(&self) -> bool {
        match self {
            Frame::Fixed(_) => true,
            Frame::Packet(packet) => !packet.is_unfinished(),
        }
    }

    pub(super) fn may_change_length(&self) -> bool {
        matches!(self, Frame::Packet(_))
    }

    /// Replaces all bytes; a fixed frame gets as many as it has.
    fn fill(&mut self, bytes: &[u8]) {
        match self {
            Frame::Fixed(frame) => frame.copy_from_slice(bytes),
            Frame::Packet(packet) => {
                // What a capture cut off is still missing, and so is a checksum.
                let (cut_bytes, before) = (packet.cut_bytes(), packet.len());
                let unfinished = packet.unfinished();
                packet.fill(bytes);
                if let Some(work) = unfinished {
                    let covered = usize::from(work.covered_bytes) + bytes.len();
                    let work = Unfinished {
                        covered_bytes: covered.saturating_sub(before) as u16,
                        ..work
                    };
                    // With a segment too many it is one frame.
                    if !packet.mark_unfinished(work) {
                        let segment_bytes = 0;
                        packet.mark_unfinished(Unfinished {
                            segment_bytes,
                            ..work
                        });
                    }
                }
                packet.set_cut_bytes(cut_bytes);
            }
        }
    }
}

impl Writing {
    /// Writes the header with other numbers, before the packet is translated.
    pub(super) fn write_header(&self, frame: &mut Frame<'_>, places: &Places) {
        if !self.header.is_empty() {
            let bytes = &mut frame.bytes_mut()[places.transport..];
            bytes[..self.header.len()].copy_from_slice(&self.header);
        }
    }

    /// Writes the payload, after the packet was translated.
    pub(super) fn write_payload(&self, frame: &mut Frame<'_>, reading: &Reading) {
        let Some(payload) = &self.payload else {
            return;
        };
        let Places {
            network, transport, ..
        } = reading.places;
        let mut bytes = frame.bytes().to_vec();
        let is_ipv6 = reading.tuple.is_ipv6;
        let is_written = replace_payload(&mut bytes, network, transport, is_ipv6, payload);
        debug_assert!(is_written, "invariant 5");
        frame.fill(&bytes);
    }
}

impl Tracker {
    /// Plans the step of a packet whose connection exists; `None` if it has none to take.
    pub(super) fn plan_known(
        &self,
        ask: &Ask<'_>,
        found: &Found<'_>,
    ) -> Result<Option<Box<Control>>, Event> {
        let connection = found.connection();
        // Invariant 4.
        let is_due = match connection.is_translated() {
            true => ask.request.translation.is_some() && ask.earlier.0 & TRANSLATED.0 == 0,
            false => !ask.is_again(found.direction.is_reply()),
        };
        match connection.alg {
            Some(alg) if is_due => plan(alg, ask, connection, found.direction),
            _ => Ok(None),
        }
    }

    /// Takes the step of a packet that has just committed its connection.
    pub(super) fn control_first(
        &self,
        ask: &Ask<'_>,
        tuple: &Tuple,
    ) -> Result<Option<Box<Writing>>, Event> {
        let Some(mut found) = self.find_original(*tuple, ask.now) else {
            return Ok(None);
        };
        let connection = found.connection();
        let planned = match connection.alg {
            Some(alg) => plan(alg, ask, connection, Direction::Original)?,
            None => None,
        };
        Ok(planned.and_then(|control| self.keep(ask, &mut found, *control)))
    }

    /// Keeps the planned step, now that the packet is valid; returns the bytes to write into it.
    pub(super) fn keep(
        &self,
        ask: &Ask<'_>,
        found: &mut Found<'_>,
        control: Control,
    ) -> Option<Box<Writing>> {
        let (connection, _) = found
            .shard
            .get_mut(found.slot)
            .expect("the shard is locked since the connection was found");
        connection.shift = control.shift;
        if control.is_unfinished {
            self.tally.count(Event::UnfinishedAnnouncement);
        }
        if control.writing.payload.is_some() {
            self.tally.count(Event::AnnouncementRewritten);
        }
        if let Some(Announcement { expected, .. }) = control.announcement {
            let expectation = Expectation {
                tuple: expected.tuple(),
                parent: connection.tuples[0],
                source: expected.new_source(),
                destination: expected.new_destination(),
                mark: connection.mark,
                label: connection.label(),
            };
            // The lock is held meanwhile, so that the connection does not end in between.
            self.add_expectation(expectation, ask.now);
        }
        let is_written = control.writing != Writing::default();
        is_written.then(|| Box::new(control.writing))
    }

    pub(super) fn find_original(&self, original: Tuple, now: Instant) -> Option<Found<'_>> {
        match self.locate(&self.key(original), now) {
            Located::Found(found) if !found.direction.is_reply() => Some(found),
            _ => None,
        }
    }
}

/// A segment with the acknowledgment that its receiver counts.
pub(super) fn counted(segment: &Segment, connection: &Connection, is_reply: bool) -> Segment {
    let mut segment = *segment;
    // Some stacks reset without a number to acknowledge.
    let is_bare_reset = segment.flags & flag::RST != 0 && segment.acknowledgment == 0;
    if let Some(shift) = &connection.shift
        && segment.flags & flag::ACK != 0
        && !is_bare_reset
    {
        segment.acknowledgment = shift.acknowledged(is_reply, segment.acknowledgment);
    }
    segment
}

/// Plans a packet's step, or says why the packet is invalid.
fn plan(
    alg: Alg,
    ask: &Ask<'_>,
    connection: &Connection,
    direction: Direction,
) -> Result<Option<Box<Control>>, Event> {
    if ask.reading.is_error() {
        return Ok(None);
    }
    let payload = payload(ask);
    if payload.is_empty() && connection.shift.is_none() {
        return Ok(None);
    }
    let packet = ControlPacket {
        original: &connection.tuples[0],
        reply: &connection.tuples[1],
        is_reply: direction.is_reply(),
    };
    let found = announced(alg, payload, packet);
    if found.is_err_and(|error| error.is_invalid()) {
        return Err(Event::BadAnnouncement);
    }
    let announcement = found.ok().flatten();
    let rewritten = announcement.and_then(|announcement| {
        let to = announcement.expected.destination;
        rewrite_announcement(payload, &announcement.text?, to)
    });
    let mut control = Control {
        announcement,
        is_unfinished: found.is_err(),
        shift: connection.shift.clone(),
        writing: Writing::default(),
    };
    if let Some(segment) = &ask.reading.segment
        && (control.shift.is_some() || rewritten.is_some())
    {
        let shift = control.shift.get_or_insert_default();
        control.writing = plan_writing(ask, segment, shift, direction.is_reply(), rewritten)?;
    }
    Ok(Some(Box::new(control)))
}

/// Plans the bytes to write into a segment, and remembers its rewriting in `shift`.
fn plan_writing(
    ask: &Ask<'_>,
    segment: &Segment,
    shift: &mut SequenceShift,
    is_reply: bool,
    rewritten: Option<Rewritten>,
) -> Result<Writing, Event> {
    let mut header = ask.bytes[header_range(ask)].to_vec();
    let place = shift.adjust(&mut header, is_reply, segment.len);
    match place {
        Ok(ShiftPlace::Beside(_)) => {}
        // Sent again, a command must be the same.
        Ok(ShiftPlace::Again(_)) if rewritten.is_some() => {}
        _ => return Err(Event::TornAnnouncement),
    }
    let Some(rewritten) = rewritten else {
        let payload = None;
        return Ok(Writing { header, payload });
    };
    // Invariant 5. The frame's limit is below that of IP's lengths.
    let len = ask
        .bytes
        .len()
        .saturating_add_signed(rewritten.shift as isize);
    let has_room = len <= Rewriter::MAX_FRAME_BYTES;
    if rewritten.shift != 0 && !(ask.may_change_length && has_room) {
        return Err(Event::AnnouncementTooLong);
    }
    shift
        .record(is_reply, segment.sequence, &rewritten)
        .map_err(|_| Event::TornAnnouncement)?;
    let payload = Some(rewritten.payload);
    Ok(Writing { header, payload })
}

/// What the transport header of a packet carries; nothing for a SYN.
fn payload<'a>(ask: &Ask<'a>) -> &'a [u8] {
    let end = ask.reading.places.end;
    let at = ask.reading.places.transport;
    match &ask.reading.segment {
        Some(segment) if segment.flags & flag::SYN != 0 => &[],
        Some(_) => &ask.bytes[header_range(ask).end..end],
        // Of UDP, whose length was checked.
        None => {
            let len = u16::from_be_bytes([ask.bytes[at + 4], ask.bytes[at + 5]]);
            &ask.bytes[at + UDP_HEADER_LEN..at + usize::from(len)]
        }
    }
}

/// Where the TCP header lies: up to the payload, whose length was read.
fn header_range(ask: &Ask<'_>) -> std::ops::Range<usize> {
    let len = ask.reading.segment.map_or(0, |segment| segment.len);
    ask.reading.places.transport..ask.reading.places.end - len as usize
}
