//! Connections that others have announced, such as the data connections of FTP.
//!
//! An expectation is a tuple without source port. The first packet that has it begins a
//! connection that is related to the one that announced it, and inherits its mark and label.
//!
//! 1. There are at most as many expectations as the configuration says; more are refused.
//! 2. An expectation ends with its parent (the tracker looks), or after [`LIFETIME`]. Until
//!    then it may serve several connections, as in Open vSwitch.
//! 3. While there is none, a new connection costs one relaxed load here.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use thalweg_packet::Instant;

use crate::hash::Seed;
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

/// All expectations.
#[derive(Debug)]
pub(crate) struct Expectations {
    parts: [Mutex<BTreeMap<Tuple, (Expectation, Instant)>>; PARTS],
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

    /// Adds or renews an expectation; false if there are too many.
    pub(crate) fn add(&self, expectation: Expectation, now: Instant) -> bool {
        let tuple = without_source_port(&expectation.tuple);
        let expectation = Expectation {
            tuple,
            ..expectation
        };
        let mut part = self.lock(self.part_of(&tuple));
        let is_known = part.contains_key(&tuple);
        if !is_known && self.len.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        part.insert(tuple, (expectation, now + LIFETIME));
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
        let (expectation, deadline) = part.get(&tuple)?;
        (*deadline > now).then_some(*expectation)
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
            part.retain(|_, (expectation, deadline)| keeps(expectation, *deadline));
            self.len.fetch_sub(before - part.len(), Ordering::Relaxed);
        }
    }

    fn part_of(&self, tuple: &Tuple) -> usize {
        (self.seed.tuple(tuple) % PARTS as u64) as usize
    }

    fn lock(&self, part: usize) -> MutexGuard<'_, BTreeMap<Tuple, (Expectation, Instant)>> {
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
