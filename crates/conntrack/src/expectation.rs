//! Connections that others have announced, such as the data connections of FTP.
//!
//! An expectation is a tuple without source port. The first packet that has it begins a
//! connection that is related to the one that announced it, and inherits its mark and label.
//!
//! 1. There are at most as many expectations as the configuration says; more are refused.
//! 2. An expectation ends with its parent (the tracker looks), or after [`LIFETIME`]. Until
//!    then it may serve several connections, as in Open vSwitch.
//! 3. While there is none, a new connection costs one relaxed load here.
//! 4. Until a connection has begun by it, an expectation belongs to the connection that announced
//!    it: another one that announces the same tuple is refused.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thalweg_packet::Instant;

use crate::hash::Seed;
use crate::sync::{Mutex, MutexGuard};
use crate::{Endpoint, Tuple};

/// How long an expectation waits: as in Linux (`nf_conntrack_ftp.c`).
pub(crate) const LIFETIME: Duration = Duration::from_secs(300);

/// Parts of the table, each with its lock.
const PARTS: usize = 16;

/// A connection that another announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// The tuple of its first packet, before translation; the source port does not matter.
    pub tuple: Tuple,
    /// The original tuple of the connection that announced it.
    pub parent: Tuple,
    /// What the source's address becomes, if it is translated.
    pub source: Option<Ipv6Addr>,
    /// What the destination becomes, if it is translated.
    pub destination: Option<Endpoint>,
    /// The parent's mark when it announced, which the new connection gets.
    pub mark: u32,
    /// The parent's label when it announced, which the new connection gets.
    pub label: u128,
}

/// An expectation that waits.
#[derive(Debug)]
struct Waiting {
    expectation: Expectation,
    deadline: Instant,
    /// Whether a connection has begun by it.
    is_used: bool,
}

/// All expectations.
#[derive(Debug)]
pub(crate) struct Expectations {
    parts: [Mutex<BTreeMap<Tuple, Waiting>>; PARTS],
    len: AtomicUsize,
    capacity: usize,
    seed: Seed,
}

impl Expectations {
    pub(crate) fn new(capacity: usize, seed: Seed) -> Expectations {
        Expectations {
            parts: Default::default(),
            len: AtomicUsize::new(0),
            capacity,
            seed,
        }
    }

    /// Adds or renews an expectation; false if there are too many, or another connection has it.
    pub(crate) fn add(&self, expectation: Expectation, now: Instant) -> bool {
        let tuple = without_source_port(&expectation.tuple);
        let expectation = Expectation {
            tuple,
            ..expectation
        };
        let mut part = self.lock(self.part_of(&tuple));
        let known = part.get(&tuple);
        let belongs_to_another = |known: &Waiting| {
            let is_open = known.deadline > now && !known.is_used;
            is_open && known.expectation.parent != expectation.parent
        };
        if known.is_some_and(belongs_to_another) {
            return false; // Invariant 4.
        }
        if known.is_none() && self.len.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let waiting = Waiting {
            expectation,
            deadline: now + LIFETIME,
            is_used: false,
        };
        part.insert(tuple, waiting);
        true
    }

    /// The expectation that a new connection fulfils.
    pub(crate) fn find(&self, tuple: &Tuple, now: Instant) -> Option<Expectation> {
        // Invariant 3.
        if self.len() == 0 {
            return None;
        }
        let tuple = without_source_port(tuple);
        let part = self.lock(self.part_of(&tuple));
        let waiting = part.get(&tuple)?;
        (waiting.deadline > now).then_some(waiting.expectation)
    }

    /// Notes that a connection has begun by an expectation, which others may announce now.
    pub(crate) fn note_use(&self, expectation: &Expectation) {
        let mut part = self.lock(self.part_of(&expectation.tuple));
        let waiting = part.get_mut(&expectation.tuple);
        if let Some(waiting) = waiting.filter(|waiting| waiting.expectation == *expectation) {
            waiting.is_used = true;
        }
    }

    /// Removes those of a connection that has ended.
    pub(crate) fn remove_of(&self, parent: &Tuple) {
        self.retain(0..PARTS, |expectation, _| expectation.parent != *parent);
    }

    /// Removes those that waited too long, in one part of the table.
    pub(crate) fn expire(&self, part: usize, now: Instant) {
        let part = part % PARTS;
        self.retain(part..part + 1, |_, deadline| deadline > now);
    }

    pub(crate) fn clear(&self) {
        self.retain(0..PARTS, |_, _| false);
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn retain(&self, parts: std::ops::Range<usize>, keeps: impl Fn(&Expectation, Instant) -> bool) {
        if self.len() == 0 {
            return;
        }
        for part in parts {
            let mut part = self.lock(part);
            let before = part.len();
            part.retain(|_, waiting| keeps(&waiting.expectation, waiting.deadline));
            self.len.fetch_sub(before - part.len(), Ordering::Relaxed);
        }
    }

    fn part_of(&self, tuple: &Tuple) -> usize {
        (self.seed.tuple(tuple) % PARTS as u64) as usize
    }

    fn lock(&self, part: usize) -> MutexGuard<'_, BTreeMap<Tuple, Waiting>> {
        self.parts[part]
            .lock()
            .expect("no code panics while it holds expectations")
    }
}

fn without_source_port(tuple: &Tuple) -> Tuple {
    let mut tuple = *tuple;
    tuple.source.port = 0;
    tuple
}
