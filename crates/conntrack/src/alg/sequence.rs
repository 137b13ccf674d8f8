//! Keeps TCP's numbers in step after a payload was rewritten to another length.
//!
//! The sender counts the bytes that it sent, the receiver the bytes that it got. Behind a
//! rewritten text the two differ by the sum of all changes so far:
//!
//! ```text
//!   sender's numbers:     0 .... start [ command ] end ....
//!                         + before               + after
//!   receiver's numbers:   0 .... [ rewritten command ] ....
//! ```
//!
//! `start` is the first byte of the segment that was rewritten, and `end` is behind the
//! replaced text. A sequence number of the sender gets the shift of its place. A number that
//! the receiver acknowledges loses it again.
//!
//! 1. A number at or behind `end` has `after`, one at or before `start` has `before`. So a
//!    retransmission of the command gets the same numbers as the first, and its caller rewrites
//!    it again, to the same text.
//! 2. A segment that has some of the command but not all of it from its start is torn: it
//!    cannot be rewritten, and the caller drops it.
//! 3. An acknowledgement of a part of the command becomes one of nothing of it, so the sender
//!    repeats the command from its start, and is never told of a byte that did not arrive.
//! 4. Numbers are compared modulo 2^32 (RFC 9293 section 3.4). A rewriting that lies 2^30
//!    bytes back, more than any window (RFC 7323 section 2.3), becomes a part of the base. So
//!    no comparison spans half the circle.
//! 5. The four last rewritings of each direction are known exactly. FTP has at most one
//!    command on its way.
//!
//! Open vSwitch keeps one number for both directions and applies it to all that follows, so
//! that a retransmission of older bytes gets wrong numbers, as does SACK (RFC 2018).

use serde::{Deserialize, Serialize};
use thalweg_packet::checksum::{Alignment, Edit};

use super::Rewritten;

/// How many rewritings of a direction are known exactly.
const REMEMBERED: usize = 4;
/// How far back a rewriting is forgotten. Invariant 4.
const FAR: u32 = 1 << 30;
/// The flag that the acknowledgement number counts (RFC 9293 section 3.1).
const ACK: u8 = 0x10;

/// The rewritings of both directions of one TCP connection.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SequenceShift {
    /// By sender: of original packets, of replies.
    senders: [Rewritings; 2],
}

/// Where a segment lies among the rewritings of its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShiftPlace {
    /// Beside all of them: its sequence number grows by this.
    Beside(i32),
    /// It begins with a command that was rewritten, and must be rewritten again.
    Again(i32),
    /// It has a part of such a command. Invariant 2.
    Torn,
}

/// Why a segment cannot have fitting numbers; the caller drops it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShiftError {
    /// It has a part of a command that was rewritten.
    Torn,
    /// It is rewritten before one that its sender sent later, whose numbers are settled.
    OutOfOrder,
    /// It is no whole TCP header.
    Malformed,
}

/// The rewritings of one sender, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Rewritings {
    /// The shift before the oldest that is known.
    base: i32,
    count: u8,
    known: [Rewriting; REMEMBERED],
}

/// One rewriting, in the sender's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Rewriting {
    start: u32,
    end: u32,
    /// The sum of all changes up to and with this one.
    after: i32,
}

impl SequenceShift {
    /// Whether no sender has more rewritings than there is room for.
    pub(crate) fn is_sound(&self) -> bool {
        let mut counts = self.senders.iter().map(|known| known.count);
        counts.all(|count| usize::from(count) <= REMEMBERED)
    }

    /// Remembers that the payload of a segment was rewritten.
    ///
    /// `sequence` is the segment's number as its sender wrote it. A retransmission that is
    /// known changes nothing.
    ///
    /// # Errors
    /// [`ShiftError::OutOfOrder`], and nothing is remembered.
    pub(crate) fn record(
        &mut self,
        is_reply: bool,
        sequence: u32,
        rewritten: &Rewritten,
    ) -> Result<(), ShiftError> {
        let end = sequence.wrapping_add(rewritten.text_end as u32);
        self.senders[usize::from(is_reply)].record(sequence, end, rewritten.shift)
    }

    /// Where a segment of `len` bytes of payload lies.
    pub(crate) fn place(&self, is_reply: bool, sequence: u32, len: u32) -> ShiftPlace {
        self.senders[usize::from(is_reply)].place(sequence, len)
    }

    /// What the sender `is_reply` acknowledges, in the numbers of its peer.
    pub(crate) fn acknowledged(&self, is_reply: bool, number: u32) -> u32 {
        self.senders[usize::from(!is_reply)].back(number, Edge::Down)
    }

    /// Changes the sequence number, the acknowledgement, the blocks of SACK and the checksum.
    ///
    /// `tcp` begins with the segment's header; `payload_len` is the number of bytes behind it.
    /// The segment must have passed the checks of the window: its sequence number decides which
    /// rewritings are forgotten (invariant 4).
    ///
    /// # Errors
    /// [`ShiftError::Torn`] or [`ShiftError::Malformed`], and nothing is changed.
    pub(crate) fn adjust(
        &mut self,
        tcp: &mut [u8],
        is_reply: bool,
        payload_len: u32,
    ) -> Result<ShiftPlace, ShiftError> {
        let header_len = match tcp.get(12) {
            Some(offset) => usize::from(offset >> 4) * 4,
            None => return Err(ShiftError::Malformed),
        };
        if header_len < 20 || tcp.len() < header_len {
            return Err(ShiftError::Malformed);
        }
        let header = &mut tcp[..header_len];
        let sequence = number_at(header, 4);
        let place = self.place(is_reply, sequence, payload_len);
        let (ShiftPlace::Beside(shift) | ShiftPlace::Again(shift)) = place else {
            return Err(ShiftError::Torn);
        };
        let mut edit = replace(
            header,
            4,
            sequence.wrapping_add_signed(shift),
            Edit::default(),
        );
        if header[13] & ACK != 0 {
            let acknowledged = self.acknowledged(is_reply, number_at(header, 8));
            edit = replace(header, 8, acknowledged, edit);
            edit = self.adjust_sack(header, is_reply, edit);
        }
        if edit != Edit::default() {
            let checksum = edit.apply(u16::from_be_bytes([header[16], header[17]]));
            header[16..18].copy_from_slice(&checksum.to_be_bytes());
        }
        self.senders[usize::from(is_reply)].forget_far(sequence);
        Ok(place)
    }

    /// Changes the edges of the option SACK (RFC 2018 section 3).
    ///
    /// A block that has only a part of a command becomes empty, which senders ignore.
    fn adjust_sack(&self, header: &mut [u8], is_reply: bool, mut edit: Edit) -> Edit {
        let peer = &self.senders[usize::from(!is_reply)];
        let mut at = 20;
        while let Some((kind, len)) = option_at(header, at) {
            if kind == 5 {
                let mut block = at + 2;
                while block + 8 <= at + len {
                    let left = peer.back(number_at(header, block), Edge::Up);
                    let right = peer.back(number_at(header, block + 4), Edge::Down);
                    let right = if is_behind(left, right) { left } else { right };
                    edit = replace(header, block, left, edit);
                    edit = replace(header, block + 4, right, edit);
                    block += 8;
                }
            }
            at += len;
        }
        edit
    }
}

/// Where a number within a rewritten command goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// To the command's start.
    Down,
    /// To its end.
    Up,
}

impl Rewritings {
    fn known(&self) -> &[Rewriting] {
        &self.known[..usize::from(self.count)]
    }

    /// The known rewritings, newest first, each with the shift before it.
    fn newest_first(&self) -> impl Iterator<Item = (Rewriting, i32)> {
        let known = self.known();
        (0..known.len()).rev().map(move |index| {
            let before = index
                .checked_sub(1)
                .map_or(self.base, |older| known[older].after);
            (known[index], before)
        })
    }

    fn record(&mut self, start: u32, end: u32, shift: i32) -> Result<(), ShiftError> {
        if self.known().iter().any(|known| known.start == start) {
            return Ok(());
        }
        let newest = self.known().last().copied();
        if newest.is_some_and(|newest| !is_at_or_behind(start, newest.end)) {
            return Err(ShiftError::OutOfOrder);
        }
        let before = newest.map_or(self.base, |newest| newest.after);
        if usize::from(self.count) == REMEMBERED {
            self.forget_oldest();
        }
        let after = before.wrapping_add(shift);
        self.known[usize::from(self.count)] = Rewriting { start, end, after };
        self.count += 1;
        Ok(())
    }

    fn place(&self, sequence: u32, len: u32) -> ShiftPlace {
        let end = sequence.wrapping_add(len);
        for (known, before) in self.newest_first() {
            if is_at_or_behind(sequence, known.end) {
                return ShiftPlace::Beside(known.after);
            }
            if sequence == known.start && len > 0 && is_at_or_behind(end, known.end) {
                return ShiftPlace::Again(before);
            }
            let is_inside = is_behind(sequence, known.start);
            if is_inside || is_behind(end, known.start) {
                return ShiftPlace::Torn;
            }
        }
        ShiftPlace::Beside(self.base)
    }

    /// A number of the receiver as a number of the sender.
    fn back(&self, number: u32, edge: Edge) -> u32 {
        for (known, before) in self.newest_first() {
            if is_at_or_behind(number, known.end.wrapping_add_signed(known.after)) {
                return number.wrapping_add_signed(known.after.wrapping_neg());
            }
            if is_behind(number, known.start.wrapping_add_signed(before)) {
                return match edge {
                    Edge::Down => known.start,
                    Edge::Up => known.end,
                };
            }
        }
        number.wrapping_add_signed(self.base.wrapping_neg())
    }

    fn forget_far(&mut self, sequence: u32) {
        while let Some(oldest) = self.known().first()
            && is_at_or_behind(sequence, oldest.end.wrapping_add(FAR))
            && is_at_or_behind(sequence, oldest.end)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.base = self.known[0].after;
        self.known.rotate_left(1);
        self.count -= 1;
    }
}

/// Whether `number` comes after `other`. Invariant 4.
fn is_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}

fn is_at_or_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 >= 0
}

fn number_at(header: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Writes `new` at `at`, and adds the change to `edit`.
fn replace(header: &mut [u8], at: usize, new: u32, edit: Edit) -> Edit {
    let old = number_at(header, at);
    if old == new {
        return edit;
    }
    header[at..at + 4].copy_from_slice(&new.to_be_bytes());
    edit.replace_u32(old, new, Alignment::of_offset(at))
}

/// The kind and the length of the option at `at`; `None` at the end, or if it is malformed.
fn option_at(header: &[u8], at: usize) -> Option<(u8, usize)> {
    match *header.get(at)? {
        0 => None,
        1 => Some((1, 1)),
        kind => {
            let len = usize::from(*header.get(at + 1)?);
            (len >= 2 && at + len <= header.len()).then_some((kind, len))
        }
    }
}
