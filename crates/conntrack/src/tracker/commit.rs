//! New connections: what a packet of none is told, and how one enters the table.

use thalweg_packet::Instant;

use super::{Answer, Ask, Located, Tracker, show};
use crate::connection::{Connection, Progress};
use crate::counters::Event;
use crate::expectation::Expectation;
use crate::sync::MutexGuard;
use crate::table::{Reference, Shard};
use crate::tuple::protocol;
use crate::{Alg, CtState, TrackRequest, Tracked, TranslationKind, Tuple, nat};

/// Steps of collecting connections that are over, in each shard that is asked to make room.
const ROOM_STEPS: usize = 64;

/// Why a connection did not enter the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    /// Another connection has the original tuple.
    Original,
    /// Another connection has the reply tuple.
    Reply,
}

impl Tracker {
    /// Answers a packet of no connection; `None` if one was committed meanwhile.
    pub(super) fn unknown(
        &self,
        ask: &Ask<'_>,
        tuple: &Tuple,
        stale: Option<Reference>,
    ) -> Option<Answer> {
        let mut tracked = Tracked {
            state: CtState::NEW | CtState::TRACKED,
            zone: ask.request.zone,
            original: Some(*tuple),
            ..Tracked::default()
        };
        if let Some(event) = refusal(ask, tuple) {
            self.tally.count(event);
            return Some(Answer::invalid(ask.request.zone));
        }
        let expectation = self.expectation(tuple, ask.now);
        if let Some(expectation) = &expectation {
            tracked.state |= CtState::RELATED;
            tracked.mark = expectation.mark;
            tracked.label = expectation.label;
            tracked.original = Some(expectation.parent);
        }
        let mut answer = Answer {
            tracked,
            leaving: None,
            writing: None,
        };
        if ask.request.is_commit {
            let taken = self.commit(ask, tuple, stale, expectation.as_ref(), &mut answer);
            if taken == Err(Taken::Original) {
                return None;
            }
            if answer.tracked.alg.is_some() {
                self.announce_first(ask, tuple, &mut answer);
            }
        }
        Some(answer)
    }

    /// Lets the packet that has begun a connection announce others.
    fn announce_first(&self, ask: &Ask<'_>, tuple: &Tuple, answer: &mut Answer) {
        match self.control_first(ask, tuple) {
            Ok(writing) => answer.writing = writing,
            Err(event) => {
                self.tally.count(event);
                *answer = Answer::invalid(ask.request.zone);
            }
        }
    }

    /// The expectation that a new connection fulfils, if its parent has not ended.
    fn expectation(&self, tuple: &Tuple, now: Instant) -> Option<Expectation> {
        let expectation = self.expectations.find(tuple, now)?;
        let parent = self.find_original(expectation.parent, now);
        parent.map(|_| expectation)
    }

    /// Commits a connection, or counts why not.
    fn commit(
        &self,
        ask: &Ask<'_>,
        tuple: &Tuple,
        stale: Option<Reference>,
        expectation: Option<&Expectation>,
        answer: &mut Answer,
    ) -> Result<(), Taken> {
        let zone = ask.request.zone;
        if let Err(event) = self.admit(zone, tuple, ask.now) {
            self.tally.count(event);
            return Ok(());
        }
        let (translated, first) = plan(ask.request, tuple, expectation);
        let translation = ask.request.translation.as_ref();
        let others = match first {
            Some(_) => None,
            None => translation.and_then(|translation| {
                let target = translation.target.as_ref()?;
                Some(nat::reply_tuples(
                    tuple,
                    translation,
                    target,
                    self.seed,
                    ask.random,
                ))
            }),
        };
        let replies = first.into_iter().chain(others.into_iter().flatten());
        let connection = begin(ask, tuple, translated, expectation);
        let mut shown = answer.tracked;
        show(&connection, &mut shown);
        match self.enter(connection, replies, stale, ask.now) {
            Ok(reply) => {
                self.tally.count(Event::Committed);
                if let Some(expectation) = expectation {
                    self.expectations.note_use(expectation);
                }
                answer.tracked = shown;
                if translated != CtState::default() {
                    answer.tracked.state |= translated;
                    answer.leaving = Some(reply.reversed());
                }
                Ok(())
            }
            Err(taken) => {
                self.zones.release(zone);
                if taken == Taken::Reply && translated != CtState::default() {
                    self.tally.count(Event::PortsExhausted);
                    *answer = Answer::invalid(zone);
                } else if taken == Taken::Reply {
                    self.tally.count(Event::Clash);
                }
                Err(taken)
            }
        }
    }

    /// Counts a new connection, and makes room for it if the table is full.
    pub(super) fn admit(&self, zone: u16, tuple: &Tuple, now: Instant) -> Result<(), Event> {
        let admitted = self.zones.admit(zone);
        if admitted != Err(Event::TableFull) || !self.evicts_when_full {
            return admitted;
        }
        let start = self.shard_of(&self.key(*tuple));
        let count = self.shards.len();
        // The next shards only while this one has no connection to end.
        let has_room = (0..count).any(|offset| self.make_room((start + offset) % count, now));
        if has_room {
            self.zones.admit(zone)
        } else {
            admitted
        }
    }

    /// Ends a connection of a shard that is over, or the oldest without a reply.
    fn make_room(&self, number: usize, now: Instant) -> bool {
        let mut shard = self.lock(number);
        let mut steps = ROOM_STEPS;
        let over = shard.next_over(now, &mut steps);
        let event = if over.is_some() {
            Event::Expired
        } else {
            Event::Evicted
        };
        let Some(slot) = over.or_else(|| shard.oldest_unreplied()) else {
            return false;
        };
        let removed = shard.remove(slot, |tuple| self.key(tuple));
        drop(shard);
        let is_removed = removed.is_some();
        if let Some(removed) = removed {
            self.bury(removed, event);
        }
        is_removed
    }

    /// Puts a connection into the table with the first reply tuple that is free.
    fn enter(
        &self,
        connection: Connection,
        replies: impl Iterator<Item = Tuple>,
        stale: Option<Reference>,
        now: Instant,
    ) -> Result<Tuple, Taken> {
        let mut connection = Some(connection);
        for reply in replies {
            match self.enter_as(&mut connection, reply, stale, now) {
                Ok(()) => return Ok(reply),
                Err(Taken::Original) => return Err(Taken::Original),
                Err(Taken::Reply) => {}
            }
        }
        Err(Taken::Reply)
    }

    /// Puts a connection into the table if its tuples are free, and leaves it where it is if not.
    fn enter_as(
        &self,
        connection: &mut Option<Connection>,
        reply: Tuple,
        stale: Option<Reference>,
        now: Instant,
    ) -> Result<(), Taken> {
        let outcome = self.insert(connection, reply, [stale, None], now);
        if outcome != Err(Taken::Reply) {
            return outcome;
        }
        // Whether the reply tuple is taken by a connection, or by a reference to one that ended.
        match self.locate(&self.key(reply), now) {
            Located::Found(_) => Err(Taken::Reply),
            Located::Missing(other) => self.insert(connection, reply, [stale, other], now),
        }
    }

    /// Inserts a connection under the locks of its two shards; `stale` are references that its
    /// tuples may replace.
    fn insert(
        &self,
        connection: &mut Option<Connection>,
        reply: Tuple,
        stale: [Option<Reference>; 2],
        now: Instant,
    ) -> Result<(), Taken> {
        let Some(waiting) = connection.as_ref() else {
            return Ok(());
        };
        let keys = [waiting.tuples[0], reply].map(|tuple| self.key(tuple));
        let (mut home, mut other) = self.lock_pair(keys.map(|key| self.shard_of(&key)));
        let is_taken = |found: Option<Reference>, stale| found.is_some() && found != stale;
        if is_taken(home.find(&keys[0]), stale[0]) {
            return Err(Taken::Original);
        }
        let is_own_answer = keys[0] == keys[1];
        let reply_shard = other.as_deref().unwrap_or(&home);
        if is_taken(reply_shard.find(&keys[1]), stale[1]) {
            return Err(Taken::Reply);
        }
        if let Some(mut connection) = connection.take() {
            connection.tuples[1] = reply;
            connection.start(&home.settings.policies, now);
            let reference = home.insert(keys[0], connection, now);
            if !is_own_answer {
                let shard = other.as_deref_mut().unwrap_or(&mut home);
                shard.insert_reply(keys[1], reference);
            }
        }
        Ok(())
    }

    /// Locks the home and, if it is another, the shard of the reply tuple.
    pub(super) fn lock_pair(
        &self,
        [home, reply]: [usize; 2],
    ) -> (MutexGuard<'_, Shard>, Option<MutexGuard<'_, Shard>>) {
        // Invariant 1 of the tracker: the lower number first.
        if home == reply {
            (self.lock(home), None)
        } else if home < reply {
            let first = self.lock(home);
            (first, Some(self.lock(reply)))
        } else {
            let first = self.lock(reply);
            (self.lock(home), Some(first))
        }
    }
}

/// Why a packet of no connection is invalid, if it is.
fn refusal(ask: &Ask<'_>, tuple: &Tuple) -> Option<Event> {
    let begins = match &ask.reading.segment {
        Some(segment) => segment.is_beginning(),
        None => tuple.is_beginning(),
    };
    if ask.reading.is_error() {
        Some(Event::UnrelatedIcmpError)
    } else {
        (!begins).then_some(Event::NoBeginning)
    }
}

/// Which ends are translated, and the reply tuple if there is only one.
fn plan(
    request: &TrackRequest,
    tuple: &Tuple,
    expectation: Option<&Expectation>,
) -> (CtState, Option<Tuple>) {
    let mut reply = tuple.reversed();
    let mut translated = CtState::default();
    let Some(translation) = &request.translation else {
        return (translated, Some(reply));
    };
    if let Some(expectation) = expectation {
        if let Some(address) = expectation.source {
            reply.destination.address = address;
            translated |= CtState::SOURCE_NAT;
        }
        if let Some(end) = expectation.destination {
            reply.source = end;
            translated |= CtState::DESTINATION_NAT;
        }
        return (translated, Some(reply));
    }
    match &translation.target {
        Some((TranslationKind::Source, ..)) => (CtState::SOURCE_NAT, None),
        Some((TranslationKind::Destination, ..)) => (CtState::DESTINATION_NAT, None),
        None => (translated, Some(reply)),
    }
}

/// The connection that a packet begins; its reply tuple comes later.
fn begin(
    ask: &Ask<'_>,
    tuple: &Tuple,
    translated: CtState,
    expectation: Option<&Expectation>,
) -> Connection {
    let request = ask.request;
    let mut connection = Connection {
        tuples: [*tuple, tuple.reversed()],
        parent: expectation.map(|expectation| Box::new(expectation.parent)),
        label: [0; 2],
        rule: request.rule,
        bucket: request.bucket,
        // `insert` sets the time, where it has the policies.
        deadline: ask.now,
        mark: expectation.map_or(0, |expectation| expectation.mark),
        policy: request.timeout_policy,
        progress: Progress::new(tuple, ask.reading.segment.as_ref()),
        translated,
        alg: request
            .alg
            .filter(|alg| alg_protocol(*alg) == tuple.protocol),
        shift: None,
        has_reply: false,
    };
    connection.set_label(expectation.map_or(0, |expectation| expectation.label));
    connection.write(request);
    connection
}

/// The protocol that a protocol of announcements runs over.
fn alg_protocol(alg: Alg) -> u8 {
    match alg {
        Alg::Ftp => protocol::TCP,
        Alg::Tftp => protocol::UDP,
    }
}
