//! Both ends of a ring over one memory, compared with a queue.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::os::fd::FromRawFd;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const SLOTS: u32 = 8;
const OFFSETS: libc::xdp_ring_offset = libc::xdp_ring_offset {
    producer: 0,
    consumer: 64,
    desc: 128,
    flags: 124,
};
const NAME: &CStr = c"thalweg-ring";

/// Memory that can be mapped twice.
fn memory() -> OwnedFd {
    // SAFETY: the name is a constant; nothing else has the descriptor that comes back.
    let memory = unsafe { libc::memfd_create(NAME.as_ptr(), 0) };
    assert!(memory >= 0);
    // SAFETY: the call takes no address; the descriptor was made above.
    unsafe {
        libc::ftruncate(memory, 4096);
        OwnedFd::from_raw_fd(memory)
    }
}

/// Both ends, with both counters at `start`.
fn ends(start: u32) -> (Producer<u64>, Consumer<u64>) {
    let memory = memory();
    let ring: Ring<u64> = Ring::map(&memory, 0, OFFSETS, SLOTS).unwrap();
    ring.producer().store(start, Ordering::Relaxed);
    ring.consumer().store(start, Ordering::Relaxed);
    (
        Producer::map(&memory, 0, OFFSETS, SLOTS).unwrap(),
        Consumer::map(&memory, 0, OFFSETS, SLOTS).unwrap(),
    )
}

#[test]
fn a_ring_is_a_bounded_queue_also_where_its_counters_run_over() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for start in [0, u32::MAX - 20] {
        let (mut producer, mut consumer) = ends(start);
        // Pushed and not shown; shown and not popped; popped and not released.
        let (mut pushed, mut shown, mut popped) = (VecDeque::new(), VecDeque::new(), 0);
        for number in 0..20_000_u64 {
            match random.random_range(0..6) {
                0 | 1 => {
                    let has_room = pushed.len() + shown.len() + popped < SLOTS as usize;
                    assert_eq!(producer.push(number), has_room);
                    pushed.extend(has_room.then_some(number));
                }
                2 => {
                    producer.show();
                    shown.append(&mut pushed);
                }
                3 | 4 => {
                    assert_eq!(consumer.available() as usize, shown.len());
                    if let Some(number) = shown.pop_front() {
                        assert_eq!(consumer.peek(), number);
                        consumer.pop();
                        popped += 1;
                    }
                }
                _ => {
                    consumer.release();
                    popped = 0;
                }
            }
        }
    }
}

#[test]
fn what_the_reader_has_not_seen_can_be_taken_back() {
    let (mut producer, mut consumer) = ends(u32::MAX - 1);
    for number in 0..5 {
        assert!(producer.push(number));
    }
    producer.show();
    producer.take_back(3);
    assert_eq!(consumer.available(), 2);
    assert_eq!(producer.element(producer.pushed().wrapping_sub(1)), 1);
    assert!(producer.push(9));
    producer.show();
    let read = std::iter::repeat_with(|| {
        let element = consumer.peek();
        consumer.pop();
        element
    });
    assert_eq!(read.take(3).collect::<Vec<_>>(), [0, 1, 9]);
}

#[test]
fn counters_of_the_other_end_are_not_trusted() {
    let (mut producer, mut consumer) = ends(0);
    let other = SLOTS * 5 + 3;
    consumer.ring.producer().store(other, Ordering::Relaxed);
    assert_eq!(consumer.available(), SLOTS);
    for left in (0..SLOTS).rev() {
        consumer.pop();
        assert_eq!(consumer.available(), left);
    }
    producer.ring.consumer().store(other, Ordering::Relaxed);
    assert!(
        !producer.push(1),
        "a reader ahead of the writer gives no room"
    );
    assert_eq!(producer.consumed(), 0_u32.wrapping_sub(SLOTS));
}

#[test]
fn a_wakeup_is_asked_for_by_a_flag() {
    let (producer, _) = ends(0);
    assert!(!producer.needs_wakeup());
    producer
        .ring
        .word(OFFSETS.flags)
        .store(1, Ordering::Relaxed);
    assert!(producer.needs_wakeup());
}

#[test]
fn a_ring_whose_words_lie_outside_is_refused() {
    let memory = memory();
    for offsets in [
        libc::xdp_ring_offset {
            flags: 1 << 20,
            ..OFFSETS
        },
        libc::xdp_ring_offset {
            producer: 2,
            ..OFFSETS
        },
        libc::xdp_ring_offset {
            desc: 129,
            ..OFFSETS
        },
    ] {
        assert!(Producer::<u64>::map(&memory, 0, offsets, SLOTS).is_err());
    }
}
