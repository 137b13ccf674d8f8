//! The sender's record of each segment under way.
//!
//! ```text
//!   first ............................... end        segments first..end are not acknowledged yet
//!     | sacked? lost? sent again since?
//! ```
//!
//! A segment stays lost until it is acknowledged, selectively or not, even if it is sent
//! again. In flight are every segment that is neither sacked nor lost, and one copy of every
//! lost one that was sent again (RFC 6675 section 4, SetPipe).
//!
//! 1. `in_flight` = segments - sacked - lost + sent again; sacked segments are in neither of
//!    the last two.
//! 2. No segment below `cursor` is lost and not sent again.
//!
//! Cost: constant over a segment's life, except that a lost segment is searched from the
//! cursor on.

use std::collections::VecDeque;

use super::ranges::Ranges;
use super::segment::Block;
use crate::Time;

/// A segment under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// The time it was last sent.
    pub(crate) sent_at: Time,
    pub(crate) is_sacked: bool,
    pub(crate) is_lost: bool,
    /// Whether it was sent again since it was last found lost.
    pub(crate) is_again: bool,
    /// Whether it was ever sent more than once.
    pub(crate) was_again: bool,
}

/// The new information in an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Delivered {
    pub(crate) segments: u32,
    /// Whether one of the segments had been sent again.
    pub(crate) has_again: bool,
    /// The least segment that was sent only once.
    pub(crate) least_fresh: Option<u32>,
    /// One more than the greatest segment.
    pub(crate) end: u32,
    /// The most recently sent segment, and when it was sent (RFC 8985 section 6.2, step 2).
    pub(crate) latest: Option<Latest>,
}

/// The most recently sent segment among those delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Latest {
    pub(crate) sent_at: Time,
    pub(crate) number: u32,
    pub(crate) was_again: bool,
}

impl Delivered {
    fn note(&mut self, number: u32, record: &Record) {
        self.segments += 1;
        self.has_again |= record.was_again;
        self.end = self.end.max(number + 1);
        if !record.was_again {
            let least = self.least_fresh.map_or(number, |least| least.min(number));
            self.least_fresh = Some(least);
        }
        let latest = Latest {
            sent_at: record.sent_at,
            number,
            was_again: record.was_again,
        };
        self.latest = self.latest.max(Some(latest));
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    first: u32,
    records: VecDeque<Record>,
    sacked: Ranges,
    sacked_count: u32,
    lost_count: u32,
    again_count: u32,
    /// Segments that are lost and not sent again since.
    waiting_count: u32,
    cursor: u32,
    /// Every segment below this that is not sacked was found lost by count.
    counted_below: u32,
}

impl Scoreboard {
    /// Forgets everything but keeps its memory.
    pub(crate) fn reset(&mut self) {
        let (mut records, mut sacked) = (
            std::mem::take(&mut self.records),
            std::mem::take(&mut self.sacked),
        );
        records.clear();
        sacked.clear();
        *self = Scoreboard {
            records,
            sacked,
            ..Scoreboard::default()
        };
    }

    /// The first unacknowledged segment.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// One more than the last segment sent.
    pub(crate) fn end(&self) -> u32 {
        self.first + self.records.len() as u32
    }

    pub(crate) fn sacked_count(&self) -> u32 {
        self.sacked_count
    }

    /// One more than the greatest sacked segment; `first` if none is sacked.
    pub(crate) fn sacked_end(&self) -> u32 {
        self.sacked
            .as_slice()
            .last()
            .map_or(self.first, |block| block.end)
    }

    pub(crate) fn record(&self, number: u32) -> Option<&Record> {
        let index = number.checked_sub(self.first)?;
        self.records.get(index as usize)
    }

    fn record_mut(&mut self, number: u32) -> Option<&mut Record> {
        let index = number.checked_sub(self.first)?;
        self.records.get_mut(index as usize)
    }

    /// The number of segments assumed to be in the network.
    pub(crate) fn in_flight(&self) -> u32 {
        self.records.len() as u32 - self.sacked_count - self.lost_count + self.again_count
    }

    /// Whether a segment counts as in flight.
    pub(crate) fn is_in_flight(&self, number: u32) -> bool {
        self.record(number)
            .is_some_and(|record| !record.is_sacked && (!record.is_lost || record.is_again))
    }

    /// Notes that the next new segment was sent.
    pub(crate) fn send(&mut self, now: Time) {
        self.records.push_back(Record {
            sent_at: now,
            is_sacked: false,
            is_lost: false,
            is_again: false,
            was_again: false,
        });
    }

    /// Notes that a segment was sent again.
    pub(crate) fn send_again(&mut self, number: u32, now: Time) {
        let Some(record) = self.record_mut(number) else {
            return;
        };
        record.sent_at = now;
        record.was_again = true;
        if record.is_sacked || record.is_again {
            return;
        }
        record.is_again = true;
        let was_waiting = record.is_lost;
        self.again_count += 1;
        self.waiting_count -= u32::from(was_waiting);
    }

    /// Acknowledges every segment below `up_to`.
    pub(crate) fn acknowledge(&mut self, up_to: u32, delivered: &mut Delivered) {
        while self.first < up_to
            && let Some(record) = self.records.pop_front()
        {
            match record.is_sacked {
                true => self.sacked_count -= 1,
                false => {
                    self.forget(&record);
                    delivered.note(self.first, &record);
                }
            }
            self.first += 1;
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(self.first);
        }
        self.cursor = self.cursor.max(self.first);
    }

    fn forget(&mut self, record: &Record) {
        self.lost_count -= u32::from(record.is_lost);
        self.again_count -= u32::from(record.is_again);
        self.waiting_count -= u32::from(record.is_lost && !record.is_again);
    }

    /// Notes that a range has arrived; parts that are not under way are ignored.
    pub(crate) fn sack(&mut self, block: Block, delivered: &mut Delivered) {
        let block = Block {
            start: block.start.max(self.first),
            end: block.end.min(self.end()),
        };
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.add(block, |fresh| {
            for number in fresh.start..fresh.end {
                let index = (number - self.first) as usize;
                let record = self.records[index];
                self.forget(&record);
                delivered.note(number, &record);
                let record = &mut self.records[index];
                (record.is_sacked, record.is_lost, record.is_again) = (true, false, false);
                self.sacked_count += 1;
            }
        });
        self.sacked = sacked;
    }

    /// Marks a segment as lost, or as lost again.
    pub(crate) fn lose(&mut self, number: u32) {
        let Some(record) = self.record_mut(number) else {
            return;
        };
        if record.is_sacked || (record.is_lost && !record.is_again) {
            return;
        }
        let (was_lost, was_again) = (record.is_lost, record.is_again);
        (record.is_lost, record.is_again) = (true, false);
        self.lost_count += u32::from(!was_lost);
        self.again_count -= u32::from(was_again);
        self.waiting_count += 1;
        self.cursor = self.cursor.min(number);
    }

    /// Marks segments as lost that have `threshold` sacked segments behind them; returns their
    /// number.
    ///
    /// Segments found lost before and sent again are not found again.
    pub(crate) fn lose_by_count(&mut self, threshold: u32) -> u32 {
        if self.sacked_count < threshold {
            return 0;
        }
        // Counting from the back, find the segment that is the threshold's sacked one.
        let mut missing = threshold;
        let mut limit = self.first;
        for block in self.sacked.as_slice().iter().rev() {
            let count = block.end - block.start;
            if count >= missing {
                limit = block.end - missing;
                break;
            }
            missing -= count;
        }
        let before = self.lost_count;
        for number in self.counted_below.max(self.first)..limit {
            if self.record(number).is_some_and(|record| !record.is_lost) {
                self.lose(number);
            }
        }
        self.counted_below = self.counted_below.max(limit);
        self.lost_count - before
    }

    /// Marks every segment that is not sacked as lost (a time-out).
    pub(crate) fn lose_all(&mut self) {
        for number in self.first..self.end() {
            self.lose(number);
        }
        self.cursor = self.first;
    }

    /// The first lost segment that was not sent again.
    pub(crate) fn next_lost(&mut self) -> Option<u32> {
        if self.waiting_count == 0 {
            return None;
        }
        let start = self.cursor.max(self.first);
        let found = (start..self.end()).find(|&number| {
            self.record(number)
                .is_some_and(|record| record.is_lost && !record.is_again)
        })?;
        self.cursor = found;
        Some(found)
    }

    /// The first segment below the greatest sacked one that is neither sacked nor sent again
    /// (RFC 6675 section 4, NextSeg rule 3).
    pub(crate) fn next_unsure(&self) -> Option<u32> {
        (self.first..self.sacked_end()).find(|&number| {
            self.record(number)
                .is_some_and(|record| !record.is_sacked && !record.is_again)
        })
    }
}
