//! The event queue: events by time, and at equal times in the order of addition.
//!
//! ```text
//!   current   the slot that is being taken from, with the order of its events, next at the end
//!   next      the slot after it, sorted as well, so that one can look ahead into it
//!   late      what was added to the current slot after it was opened: a heap
//!   wheel     slots of 131 ns, 268 µs of them: each a list in the order of addition
//!   early     for the same slots, what was added before they came within the wheel
//!   spans     what lies beyond: lists of 268 µs, 550 ms of them
//!   far       what lies beyond these: a heap
//! ```
//!
//! It is a hierarchical calendar queue. Nearly all events of a fabric are a link's delay (1
//! µs) or a gateway's (40 µs) ahead. So adding appends to a slot, and taking sorts some dozens
//! or hundreds of events per slot. Timers of connections are milliseconds ahead and go into
//! spans; when time reaches a span, its events are distributed to the slots.
//!
//! The sort is not of events but of words: the time within the slot in the high bits, the
//! place in the list in the low ones. A slot's list is in the order of addition, so the place
//! decides between equal times and events need no sequence number. Distributed events were
//! added before the slot came within the wheel, so they go to the front. For the same reason
//! events from the heap go before those from the span.
//!
//! 1. Events leave by (time, order of addition), exactly as from one heap.
//! 2. No event is added before the time of the last event taken. It may be before the current
//!    slot, which opens when the next time is requested: then the event is late.
//! 3. Every event of the wheel is in the 2,048 slots from the current one on. Every early
//!    event is in the rest of the current span; no other span is distributed. Every event of
//!    the spans is in the 2,047 spans after the current one.
//! 4. Lists keep their memory, so a queue that has seen its load does not allocate.
//! 5. A late event was added after all others of the current slot, and comes after them at
//!    equal times.
//! 6. The next slot is in the current span, so nothing will be distributed to it. Events added
//!    to it, or before it, go to the wheel; if the wheel has some of it, it is sorted again.
//!
//! Cost: constant for each event, apart from the sort. `benches/hops.rs` compares it with a
//! binary heap.
//!
//! References: Brown, *Calendar Queues*, Communications of the ACM 31(10), 1988. Departures:
//! slots are sorted when they are opened, their number and width are fixed, and later events
//! are in spans, then in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::Time;

/// A slot is 2^17 ps, 131 ns.
const SLOT_BITS: u32 = 17;
const SLOT_COUNT: usize = 1 << 11;
const WORD_BITS: usize = 64;

/// A span is as many slots as the wheel has; there are as many spans as slots.
const SPAN_BITS: u32 = SLOT_COUNT.trailing_zeros();

/// The bits of an order word that hold the place in the list.
const PLACE_BITS: u32 = 32;

/// An event with its place in the order, in a heap.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    time: Time,
    sequence: u64,
    event: T,
}

impl<T> Entry<T> {
    #[inline]
    fn order(&self) -> (Time, u64) {
        (self.time, self.sequence)
    }

    #[inline]
    fn span(&self) -> u64 {
        slot_of(self.time) >> SPAN_BITS
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// A queue of events by time; equal times in the order of addition.
///
/// ```
/// use thalweg_fabric::{EventQueue, Time};
///
/// let mut queue = EventQueue::new();
/// queue.push(Time::from_micros(2), "later");
/// queue.push(Time::from_micros(1), "first");
/// queue.push(Time::from_micros(1), "second");
/// assert_eq!(queue.pop(), Some((Time::from_micros(1), "first")));
/// assert_eq!(queue.pop(), Some((Time::from_micros(1), "second")));
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    current: Opened<T>,
    next: Opened<T>,
    late: BinaryHeap<Reverse<Entry<T>>>,
    wheel: Ring<T>,
    /// Events of the current span only.
    early: Ring<T>,
    spans: Ring<T>,
    far: BinaryHeap<Reverse<Entry<T>>>,
    /// The number of the current slot since the start of time.
    slot: u64,
    /// Number of events added, and taken.
    added: u64,
    taken: u64,
}

/// A slot whose events are sorted.
#[derive(Clone, Debug)]
struct Opened<T> {
    /// Its number since the start of time.
    slot: u64,
    events: Vec<(Time, T)>,
    /// For each remaining event: the time within the slot, then the place; descending.
    order: Vec<u64>,
}

impl<T: Copy> Opened<T> {
    fn new() -> Opened<T> {
        Opened {
            slot: 0,
            events: Vec::new(),
            order: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.events.clear();
        self.order.clear();
    }

    /// Takes a slot's events from the lists, after those it already has.
    fn fill(&mut self, slot: u64, early: &mut Ring<T>, wheel: &mut Ring<T>) {
        let sorted = self.events.len();
        self.slot = slot;
        early.take(slot, &mut self.events);
        wheel.take(slot, &mut self.events);
        if self.events.len() > sorted {
            self.sort();
        }
    }

    fn sort(&mut self) {
        let within = (1 << SLOT_BITS) - 1;
        let word = |(place, (time, _)): (usize, &(Time, T))| {
            (time.as_picos() & within) << PLACE_BITS | place as u64
        };
        self.order.clear();
        self.order.extend(self.events.iter().enumerate().map(word));
        self.order.sort_unstable_by_key(|&word| Reverse(word));
    }

    /// The event `after` places behind the next.
    #[inline]
    fn get(&self, after: usize) -> Option<(Time, T)> {
        let index = self.order.len().checked_sub(after + 1)?;
        Some(self.events[self.order[index] as u32 as usize])
    }
}

/// Lists of events by the number of a slot or span; holds 2,048 consecutive numbers.
#[derive(Clone, Debug)]
struct Ring<T> {
    lists: Vec<Vec<(Time, T)>>,
    /// A bit for each list that has events.
    occupied: Vec<u64>,
}

impl<T: Copy> Ring<T> {
    fn new() -> Ring<T> {
        Ring {
            lists: (0..SLOT_COUNT).map(|_| Vec::new()).collect(),
            occupied: vec![0; SLOT_COUNT / WORD_BITS],
        }
    }

    #[inline]
    fn push(&mut self, number: u64, time: Time, event: T) {
        let index = number as usize % SLOT_COUNT;
        self.lists[index].push((time, event));
        self.occupied[index / WORD_BITS] |= 1 << (index % WORD_BITS);
    }

    /// Moves all events of a number to the end of a list.
    fn take(&mut self, number: u64, to: &mut Vec<(Time, T)>) {
        let index = number as usize % SLOT_COUNT;
        to.append(&mut self.lists[index]);
        self.occupied[index / WORD_BITS] &= !(1 << (index % WORD_BITS));
    }

    /// The least number with events; all are in the 2,048 from `first` on.
    fn next(&self, first: u64) -> Option<u64> {
        let start = first as usize % SLOT_COUNT;
        let words = self.occupied.len();
        let (first_word, first_bit) = (start / WORD_BITS, start % WORD_BITS);
        for step in 0..=words {
            let word = (first_word + step) % words;
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= !0 << first_bit;
            } else if step == words {
                bits &= !(!0 << first_bit);
            }
            if bits != 0 {
                let index = word * WORD_BITS + bits.trailing_zeros() as usize;
                let ahead = (index + SLOT_COUNT - start) % SLOT_COUNT;
                return Some(first + ahead as u64);
            }
        }
        None
    }
}

impl<T: Copy> EventQueue<T> {
    /// Creates an empty queue at time zero.
    pub fn new() -> EventQueue<T> {
        EventQueue {
            current: Opened::new(),
            next: Opened::new(),
            late: BinaryHeap::new(),
            wheel: Ring::new(),
            early: Ring::new(),
            spans: Ring::new(),
            far: BinaryHeap::new(),
            slot: 0,
            added: 0,
            taken: 0,
        }
    }

    /// Adds an event, after all others of its time.
    #[inline]
    pub fn push(&mut self, time: Time, event: T) {
        let sequence = self.added;
        self.added += 1;
        let slot = slot_of(time);
        let ahead = slot.wrapping_sub(self.slot);
        // Neither late nor beyond the wheel: for a late event the subtraction wraps.
        if ahead.wrapping_sub(1) < SLOT_COUNT as u64 - 1 {
            return self.wheel.push(slot, time, event);
        }
        let entry = Entry {
            time,
            sequence,
            event,
        };
        if slot <= self.slot {
            return self.late.push(Reverse(entry));
        }
        let spans_ahead = entry.span() - (self.slot >> SPAN_BITS);
        match spans_ahead < SLOT_COUNT as u64 {
            true => self.spans.push(entry.span(), time, event),
            false => self.far.push(Reverse(entry)),
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, T)> {
        self.prepare()?;
        self.taken += 1;
        let current = self.current.get(0);
        // Invariant 5.
        if let Some(Reverse(late)) = self.late.peek()
            && current.is_none_or(|(time, _)| late.time < time)
        {
            return self.late.pop().map(|Reverse(late)| (late.time, late.event));
        }
        self.current.order.pop();
        current
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        self.prepare()?;
        let current = self.current.get(0).map(|(time, _)| time);
        let late = self.late.peek().map(|Reverse(entry)| entry.time);
        match (current, late) {
            (Some(current), Some(late)) => Some(current.min(late)),
            (current, late) => current.or(late),
        }
    }

    /// The event probably `after` places behind the next, from the current or the next opened
    /// slot; for looking ahead.
    #[inline]
    pub fn upcoming(&self, after: usize) -> Option<T> {
        let event = match after.checked_sub(self.current.order.len()) {
            None => self.current.get(after),
            Some(after) => self.next.get(after),
        };
        event.map(|(_, event)| event)
    }

    /// The number of events in the queue.
    pub fn len(&self) -> usize {
        (self.added - self.taken) as usize
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.added == self.taken
    }

    /// Opens the next slot with events if the current one is used up.
    #[inline]
    fn prepare(&mut self) -> Option<()> {
        if self.current.order.is_empty() && self.late.is_empty() {
            self.open_next_slot()?;
        }
        Some(())
    }

    fn open_next_slot(&mut self) -> Option<()> {
        let slot = self.next_slot()?;
        self.slot = slot;
        self.current.clear();
        if self.next.slot == slot {
            std::mem::swap(&mut self.current, &mut self.next);
        }
        self.current.fill(slot, &mut self.early, &mut self.wheel);
        self.look_beyond();
        Some(())
    }

    /// Sorts the slot after the current one, if it is in the same span.
    fn look_beyond(&mut self) {
        if !self.next.order.is_empty() {
            return;
        }
        let span = self.slot >> SPAN_BITS;
        let slot = earliest(self.wheel.next(self.slot), self.early.next(self.slot));
        if let Some(slot) = slot.filter(|slot| slot >> SPAN_BITS == span) {
            self.next.fill(slot, &mut self.early, &mut self.wheel);
        }
    }

    /// The next slot with events; distributes spans up to its own.
    fn next_slot(&mut self) -> Option<u64> {
        loop {
            let near = earliest(self.wheel.next(self.slot), self.early.next(self.slot));
            let sorted = (!self.next.order.is_empty()).then_some(self.next.slot);
            let near = earliest(near, sorted);
            let far = self.far.peek().map(|Reverse(entry)| entry.span());
            let span = earliest(self.spans.next(self.slot >> SPAN_BITS), far);
            match span {
                Some(span) if near.is_none_or(|slot| span <= slot >> SPAN_BITS) => {
                    self.deal_out(span);
                }
                _ => return near,
            }
        }
    }

    /// Advances to the start of a span, before which there is no event, and distributes its
    /// events.
    fn deal_out(&mut self, span: u64) {
        self.slot = span << SPAN_BITS;
        let mut dealt = std::mem::take(&mut self.current.events);
        dealt.clear();
        while let Some(Reverse(entry)) = self.far.peek()
            && entry.span() == span
        {
            dealt.push((entry.time, entry.event));
            self.far.pop();
        }
        self.spans.take(span, &mut dealt);
        for &(time, event) in &dealt {
            self.early.push(slot_of(time), time, event);
        }
        dealt.clear();
        self.current.events = dealt;
    }
}

impl<T: Copy> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue::new()
    }
}

fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[inline]
fn slot_of(time: Time) -> u64 {
    time.as_picos() >> SLOT_BITS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slow twin: one heap.
    #[derive(Default)]
    struct Heap {
        entries: BinaryHeap<Reverse<(Time, u64)>>,
        sequence: u64,
    }

    impl Heap {
        fn push(&mut self, time: Time) -> u64 {
            self.sequence += 1;
            self.entries.push(Reverse((time, self.sequence)));
            self.sequence
        }
    }

    /// The relevant distances: the same time, the same slot, the next, the end of the wheel,
    /// the next spans, the end of the spans, beyond.
    fn ahead() -> impl Strategy<Value = u64> {
        let slot = 1_u64 << SLOT_BITS;
        let wheel = slot * SLOT_COUNT as u64;
        let spans = wheel * SLOT_COUNT as u64;
        prop_oneof![
            Just(0),
            0..slot,
            slot..3 * slot,
            990_000..1_010_000_u64,
            wheel - 2 * slot..wheel + 2 * slot,
            0..4 * wheel,
            spans - 2 * wheel..spans + 2 * wheel,
            0..3 * spans,
            // Exact ends of slots and spans.
            (0..5_u64).prop_map(move |count| count * wheel),
            (0..5_u64).prop_map(move |count| count * wheel + wheel - slot),
        ]
    }

    #[test]
    fn one_sees_beyond_the_end_of_a_slot() {
        let mut queue = EventQueue::new();
        let slots = [1, 2, 2, 5].map(|slot| Time::from_picos(slot << SLOT_BITS));
        slots.iter().for_each(|&time| queue.push(time, time));
        assert_eq!(queue.next_time(), Some(slots[0]));
        let seen = [0, 1, 2].map(|after| queue.upcoming(after));
        assert_eq!(seen, [Some(slots[0]), Some(slots[1]), Some(slots[2])]);
    }

    proptest! {
        #[test]
        fn events_leave_as_from_one_heap(
            steps in prop::collection::vec((ahead(), 0..3_u8), 1..400),
        ) {
            let (mut queue, mut heap) = (EventQueue::new(), Heap::default());
            let mut now = Time::ZERO;
            for (ahead, takes) in steps {
                let time = now + Time::from_picos(ahead);
                queue.push(time, heap.push(time));
                for _ in 0..takes {
                    let expected = heap.entries.pop().map(|Reverse(entry)| entry);
                    prop_assert_eq!(queue.next_time(), expected.map(|(time, _)| time));
                    prop_assert_eq!(queue.pop(), expected);
                    now = expected.map_or(now, |(time, _)| time);
                }
                prop_assert_eq!(queue.len(), heap.entries.len());
                if let Some(event) = queue.upcoming(1) {
                    let mut left = heap.entries.iter();
                    prop_assert!(left.any(|Reverse((_, sequence))| *sequence == event));
                }
            }
            while let Some(Reverse(expected)) = heap.entries.pop() {
                prop_assert_eq!(queue.pop(), Some(expected));
            }
            prop_assert!(queue.pop().is_none() && queue.is_empty());
        }
    }
}
