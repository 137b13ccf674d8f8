//! The lock of a pipeline with threads: changes are seen whole or not at all, and no thread
//! waits for ever.
//!
//! No test waits for time to pass; slow outcomes are polled.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_datapath::Gate;

/// Readers that never pause see both halves of each change or neither, and the writer gets
/// through.
#[test]
fn halves_of_a_change_are_never_seen_apart() {
    const CHANGES: u64 = 2_000;
    let gate = Gate::new((0_u64, 0_u64));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let mut last = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (one, other) = *gate.read();
                assert_eq!(one, other);
                assert!(one >= last, "{one} after {last}");
                last = one;
            }
        };
        (0..3).for_each(|_| drop(scope.spawn(read)));
        for change in 1..=CHANGES {
            let mut inside = gate.write();
            inside.0 = change;
            if change.is_multiple_of(16) {
                std::thread::yield_now();
            }
            inside.1 = change;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.into_inner(), (CHANGES, CHANGES));
}

/// Readers and a second writer that wait for the lock get it when it is released. They wait
/// however long that takes.
#[test]
fn all_wait_for_a_writer_however_long() {
    let gate = Gate::new(0);
    let begun = Barrier::new(4);
    std::thread::scope(|scope| {
        let mut guard = gate.write();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    begun.wait();
                    *gate.read() % 10
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            begun.wait();
            *gate.write() += 10;
        });
        begun.wait();
        // Usually long enough for them to fall asleep.
        for _ in 0..10_000 {
            assert!(!writer.is_finished());
            assert!(readers.iter().all(|reader| !reader.is_finished()));
            std::thread::yield_now();
        }
        *guard = 7;
        drop(guard);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 7);
        }
    });
    assert_eq!(*gate.read(), 17);
}

/// A writer does not start before the last reader has released the lock.
#[test]
fn a_writer_waits_for_readers() {
    let gate = Gate::new(1);
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let (first, second) = (gate.read(), gate.read());
        let writer = scope.spawn(|| {
            begun.wait();
            *gate.write() = 2;
        });
        begun.wait();
        drop(first);
        for _ in 0..10_000 {
            assert!(!writer.is_finished());
            assert_eq!(*second, 1);
            std::thread::yield_now();
        }
        drop(second);
        writer.join().unwrap();
    });
    assert_eq!(*gate.read(), 2);
}

#[test]
fn who_panicked_with_the_lock_is_not_asked() {
    let mut gate = Gate::new(3);
    std::thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let mut inside = gate.write();
            *inside = 4;
            panic!("on purpose");
        });
        assert!(panicking.join().is_err());
    });
    assert_eq!(*gate.read(), 4);
    *gate.write() += 1;
    *gate.get_mut() += 1;
    assert_eq!(gate.into_inner(), 6);
}
