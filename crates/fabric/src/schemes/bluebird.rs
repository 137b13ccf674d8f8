//! Bluebird: ToRs resolve everything, cached mappings at once and the others slowly.
//!
//! ```text
//!   unresolved ---> route cache ---- hit ---> to the host
//!                        | miss
//!                        '--> queue, 1 MiB ---> link, 20 Gb/s ---> 8.5 µs ---> to the host
//!                                                                     '--> 2 ms ---> into the cache
//! ```
//!
//! The route cache is LRU. The control plane knows every machine's place, so a packet that
//! went through it is right when it leaves. A packet that finds the queue full is dropped.
//! Gateways are not used, though hosts address them.
//!
//! In the published code 250 ns pass between two packets on the link to the control plane, and
//! `artifact` has this gap. The paper (section 5) does not mention it, and `paper` has none.
//!
//! 1. An insertion has its effect 2 ms after its packet left, with the machine's place at that
//!    time. Insertions are applied in order when a packet arrives or a machine moves, which
//!    has the same effect as applying them on time.
//! 2. A packet being sent to the control plane no longer counts against the queue.
//!
//! Reference: Arumugam et al., *Bluebird: High-performance SDN for Bare-metal Cloud Services*, NSDI
//! 2022, as far as section 5 of SwitchV2P's paper describes it.

use std::collections::VecDeque;

use thalweg_v2p::{Database, Key};

use super::recent::RecentCache;
use super::{Question, Resolution};
use crate::Time;

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

/// The settings of a ToR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bluebird {
    /// Entries of a ToR's route cache.
    pub entries: u32,
    /// The rate of the link to the control plane.
    pub rate_bps: u64,
    /// Bytes that may wait for this link.
    pub queue_bytes: u64,
    /// The latency of the control plane, after the link.
    pub latency: Time,
    /// The gap between two packets on the link.
    pub gap: Time,
    /// The time from when a packet leaves the control plane until its mapping is cached.
    pub insertion: Time,
}

impl Bluebird {
    /// The settings of section 5.
    pub const fn paper(entries: u32) -> Bluebird {
        Bluebird {
            entries,
            rate_bps: 20_000_000_000,
            queue_bytes: 1 << 20,
            latency: Time::from_nanos(8_500),
            gap: Time::ZERO,
            insertion: Time::from_micros(2_000),
        }
    }

    /// The settings of the published code.
    pub const fn artifact(entries: u32) -> Bluebird {
        Bluebird {
            gap: Time::from_nanos(250),
            ..Bluebird::paper(entries)
        }
    }
}

/// The fate of a packet that missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Diverted {
    /// It leaves the control plane at this time.
    Until(Time),
    /// The queue was full.
    Dropped,
}

/// The cache and the control plane of one ToR.
#[derive(Clone, Debug)]
pub(crate) struct ControlPlane {
    settings: Bluebird,
    routes: RecentCache,
    /// Keys to be inserted, and when.
    insertions: VecDeque<(Time, Key)>,
    /// Waiting packets: the start of their sending, and their bytes.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
    /// The time at which the link is free.
    free_at: Time,
}

impl ControlPlane {
    /// Creates an empty cache and control plane.
    pub(crate) fn new(settings: Bluebird) -> ControlPlane {
        ControlPlane {
            settings,
            routes: RecentCache::new(settings.entries),
            insertions: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Time::ZERO,
        }
    }

    /// Resolves a packet, at once or later.
    pub(crate) fn handle(
        &mut self,
        question: Question<'_>,
        database: &Database,
        now: Time,
    ) -> Resolution {
        if !question.is_unresolved {
            return Resolution::AsIs;
        }
        self.catch_up(database, now);
        let key = question.data.destination_key();
        match self.routes.find(key) {
            Some(place) => Resolution::To(place),
            None => Resolution::Diverted(self.divert(key, question.bytes, now)),
        }
    }

    /// Applies the insertions that are due, before the database changes.
    pub(crate) fn catch_up(&mut self, database: &Database, now: Time) {
        while let Some(&(due, key)) = self.insertions.front()
            && due <= now
        {
            self.insertions.pop_front();
            if let Some(place) = database.find(key) {
                self.routes.put(key, place);
            }
        }
    }

    fn divert(&mut self, key: Key, bytes: u32, now: Time) -> Diverted {
        while let Some(&(start, bytes)) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(bytes);
        }
        let start = self.free_at.max(now);
        if self.waiting_bytes + u64::from(bytes) > self.settings.queue_bytes {
            return Diverted::Dropped;
        }
        if start > now {
            self.waiting.push_back((start, bytes));
            self.waiting_bytes += u64::from(bytes);
        }
        let bits = u128::from(bytes) * 8;
        let picos = bits * PICOS_PER_SECOND / u128::from(self.settings.rate_bps.max(1));
        let sent = start + Time::from_picos(picos as u64).whole_nanos();
        self.free_at = sent + self.settings.gap;
        let leaves = sent + self.settings.latency;
        self.insertions
            .push_back((leaves + self.settings.insertion, key));
        Diverted::Until(leaves)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_v2p::{Address, Data, Tags, Vni};

    use super::*;

    fn address(number: u32) -> Address {
        Address::from_ipv4(number.into())
    }

    fn key(number: u32) -> Key {
        Key {
            vni: Vni::default(),
            address: address(number),
        }
    }

    fn ask(tor: &mut ControlPlane, to: u32, bytes: u32, at: Time, truth: &Database) -> Resolution {
        let data = Data {
            vni: Vni::default(),
            inner_source: address(1),
            inner_destination: address(to),
            tags: Tags::default(),
        };
        let question = Question {
            data: &data,
            is_unresolved: true,
            outer_destination: address(9),
            bytes,
        };
        tor.handle(question, truth, at)
    }

    fn leaves(nanos: u64) -> Resolution {
        Resolution::Diverted(Diverted::Until(Time::from_nanos(nanos)))
    }

    /// 1,000 bytes take 400 ns at 20 Gb/s.
    #[test]
    fn packets_wait_for_the_link_and_then_for_the_processor() {
        let truth = Database::new();
        let mut tor = ControlPlane::new(Bluebird::artifact(4));
        let at = Time::from_nanos(100);
        let first = [1, 2, 3].map(|to| ask(&mut tor, to, 1_000, at, &truth));
        assert_eq!(first, [9_000, 9_650, 10_300].map(leaves));
        let mut tor = ControlPlane::new(Bluebird::paper(4));
        let first = [1, 2, 3].map(|to| ask(&mut tor, to, 1_000, at, &truth));
        assert_eq!(first, [9_000, 9_400, 9_800].map(leaves));
        let later = ask(&mut tor, 4, 1_000, Time::from_nanos(50_000), &truth);
        assert_eq!(later, leaves(58_900));
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_what_is_being_sent_makes_room() {
        let truth = Database::new();
        let settings = Bluebird {
            queue_bytes: 2_000,
            ..Bluebird::paper(4)
        };
        let mut tor = ControlPlane::new(settings);
        let dropped = Resolution::Diverted(Diverted::Dropped);
        let all = [1, 2, 3, 4].map(|to| ask(&mut tor, to, 1_000, Time::ZERO, &truth));
        assert_eq!(all, [leaves(8_900), leaves(9_300), leaves(9_700), dropped]);
        // At 400 ns the second is being sent, and one more may wait.
        let at = Time::from_nanos(400);
        assert_eq!(ask(&mut tor, 5, 1_000, at, &truth), leaves(10_100));
        assert_eq!(ask(&mut tor, 6, 1_000, at, &truth), dropped);
        // A dropped packet is not learned.
        assert_eq!(tor.insertions.len(), 4);
    }

    #[test]
    fn a_mapping_is_there_two_milliseconds_later_as_it_is_then() {
        let mut truth = Database::new();
        truth.place(key(5), address(70));
        let mut tor = ControlPlane::new(Bluebird::paper(1));
        assert_eq!(ask(&mut tor, 5, 1_000, Time::ZERO, &truth), leaves(8_900));
        truth.place(key(5), address(71));
        let due = Time::from_nanos(2_008_900);
        let before = Time::from_picos(due.as_picos() - 1);
        assert!(matches!(
            ask(&mut tor, 5, 1_000, before, &truth),
            Resolution::Diverted(_)
        ));
        let at_last = ask(&mut tor, 5, 1_000, due, &truth);
        assert_eq!(at_last, Resolution::To(address(71)));
        // The machine moves; the cache does not learn it.
        tor.catch_up(&truth, due);
        truth.place(key(5), address(72));
        let stale = ask(&mut tor, 5, 1_000, due, &truth);
        assert_eq!(stale, Resolution::To(address(71)));
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut truth = Database::new();
        for number in [1, 2, 3] {
            truth.place(key(number), address(70 + number));
        }
        let mut tor = ControlPlane::new(Bluebird::paper(2));
        let mut at = Time::ZERO;
        for to in [1, 2, 1, 3] {
            ask(&mut tor, to, 100, at, &truth);
            at += Time::from_micros(3_000);
        }
        // 3 displaced 2, because 1 was used after it.
        assert_eq!(
            ask(&mut tor, 1, 100, at, &truth),
            Resolution::To(address(71))
        );
        assert_eq!(
            ask(&mut tor, 3, 100, at, &truth),
            Resolution::To(address(73))
        );
        assert!(matches!(
            ask(&mut tor, 2, 100, at, &truth),
            Resolution::Diverted(_)
        ));
    }
}
