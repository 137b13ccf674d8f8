//! The tracker: one table of connections that all workers share.
//!
//! ```text
//!   track:    read the packet -> tuple
//!             look the tuple up
//!               known:    judge by the protocol's state, write mark and label
//!               unknown:  new; if asked, commit: admit, choose the reply tuple, insert
//!             translate the packet, outside all locks
//!   and of a control connection: expect what the payload announces (see `announce.rs`)
//! ```
//!
//! The table is cut into shards by a hash that both directions of a connection share. A
//! connection lies in the shard of its original tuple, its *home*. A translation may move the
//! reply tuple to another shard, whose index then refers to the home (see `table.rs`).
//!
//! 1. A thread holds at most two shard locks, the lower number first. Only an insertion holds
//!    two. The settings are locked before shards, expectations after. So there is no deadlock.
//! 2. A connection enters the table with both tuples under the locks of both shards. It leaves
//!    with its slot: from then on a reference that is left in another index is stale, names
//!    nothing, and is taken out at once. So no packet sees half a connection.
//! 3. A tuple names at most one connection. A commit whose reply tuple is taken is refused, or
//!    takes the next tuple that its translation allows.
//! 4. No packet finds a connection whose time is over, whether it was collected or not.
//! 5. A packet is judged once per zone. A second `ct()` of the same zone finds the connection,
//!    and may commit, write and translate, but the packet does not count again.
//! 6. An invalid packet changes nothing and shows nothing: no state, mark, label or byte. The
//!    one exception is in `announce.rs` (3).
//! 7. Every admitted connection is released once, when it leaves.
//!
//! The answers are those of Open vSwitch's userspace tracker (`process_one` in
//! `lib/conntrack.c`), with these departures:
//!
//! - A second `ct(nat)` of one zone does not judge the packet again (5).
//! - Invalid packets are not translated, and neither write nor show mark and label (6).
//! - A connection whose answers would belong to another one is not committed (3). There the
//!   table then answers by chance.
//! - A packet for which no port is free is invalid. There it leaves untranslated.
//! - A full table makes room by ending the oldest connection without a reply.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use thalweg_packet::{Headers, Instant, Packet};

use crate::connection::{Connection, Direction};
use crate::counters::{Event, Tally};
use crate::expectation::Expectations;
use crate::hash::Seed;
use crate::reading::{Reading, read_sums};
use crate::rewrite::translate;
use crate::sync::{Mutex, MutexGuard};
use crate::table::{Key, Reference, Removed, Settings, Shard};
use crate::tcp::Judgement;
use crate::timeout::Policies;
use crate::zones::Zones;
use crate::{CtState, Previous, TimeoutPolicy, TrackRequest, Tracked, Tuple};

use self::announce::{Frame, Writing, counted};

mod ahead;
mod announce;
mod commit;
mod manage;
mod saved;

pub(crate) use saved::saved_instant;

pub use manage::{Cursor, FlushFilter};
pub use saved::{NotResumed, SavedConnection};

/// The bits that say which ends were translated.
const TRANSLATED: CtState = CtState(CtState::SOURCE_NAT.0 | CtState::DESTINATION_NAT.0);

/// What a tracker is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Parts of the table, each with a lock of its own; at least 1.
    pub shard_count: u16,
    /// The key of the hash: chance that senders do not know.
    pub seed: u64,
    /// The most connections.
    pub max_connections: u32,
    /// The most connections that are announced and not begun.
    pub max_expectations: usize,
    /// Whether TCP segments outside the windows are invalid.
    pub tcp_sequence_checks: bool,
    /// Whether a full table ends the oldest connection without a reply to admit another.
    pub evicts_when_full: bool,
    /// The most connections of a zone that has no limit of its own; 0 for any number.
    pub zone_connections: u32,
    /// The time-outs where no policy says others.
    pub timeouts: TimeoutPolicy,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            shard_count: 64,
            seed: 0,
            max_connections: 3_000_000,
            max_expectations: 4_096,
            tcp_sequence_checks: true,
            evicts_when_full: true,
            zone_connections: 0,
            timeouts: TimeoutPolicy::default(),
        }
    }
}

/// The table of connections, shared by all workers.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use thalweg_conntrack::{Config, Previous, TrackRequest, CtState, Tracker};
/// use thalweg_packet::wire::{MacAddress, PacketBuilder};
/// use thalweg_packet::{Headers, Instant};
///
/// let tracker = Tracker::new(Config::default());
/// let mut frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
///     .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
///     .udp(5000, 53)
///     .build();
/// let headers = Headers::parse(&frame)?;
/// let commit = TrackRequest { is_commit: true, ..TrackRequest::default() };
/// let tracked = tracker.track(
///     &mut frame, &headers, &commit, Previous::default(), Instant::ZERO, 0,
/// );
/// assert_eq!(tracked.state, CtState::NEW | CtState::TRACKED);
/// assert_eq!(tracker.connection_count(), 1);
/// # Ok::<(), thalweg_packet::FrameError>(())
/// ```
#[derive(Debug)]
pub struct Tracker {
    shards: Box<[Part]>,
    seed: Seed,
    zones: Zones,
    tally: Tally,
    expectations: Expectations,
    /// What the shards have copies of; locked before any shard.
    settings: Mutex<Arc<Settings>>,
    evicts_when_full: bool,
    /// The shard that [`Tracker::expire`] begins with.
    next_shard: AtomicUsize,
}

/// A shard whose lock shares no cache line with another.
#[derive(Debug)]
#[repr(align(128))]
struct Part(Mutex<Shard>);

/// One packet's question.
struct Ask<'a> {
    bytes: &'a [u8],
    /// Whether the frame has room for a payload of another length.
    may_change_length: bool,
    reading: &'a Reading,
    request: &'a TrackRequest,
    /// What an earlier `ct()` of the same zone said; nothing otherwise.
    earlier: CtState,
    now: Instant,
    random: u64,
}

/// The answer to a packet, and how it leaves.
struct Answer {
    tracked: Tracked,
    /// Its tuple, if it is translated.
    leaving: Option<Tuple>,
    /// Boxed, because nearly all packets have none.
    writing: Option<Box<Writing>>,
}

/// A connection under its home's lock.
struct Found<'a> {
    shard: MutexGuard<'a, Shard>,
    slot: u32,
    direction: Direction,
}

enum Located<'a> {
    Found(Found<'a>),
    /// No connection; perhaps a stale reference in the index.
    Missing(Option<Reference>),
}

impl Default for Tracker {
    fn default() -> Tracker {
        Tracker::new(Config::default())
    }
}

impl Tracker {
    /// An empty table.
    ///
    /// # Panics
    /// If `shard_count` is 0.
    pub fn new(config: Config) -> Tracker {
        assert!(config.shard_count > 0, "a tracker needs a shard");
        let mut policies = Policies::default();
        policies.set(0, Some(config.timeouts));
        let settings = Arc::new(Settings {
            policies,
            tcp_sequence_checks: config.tcp_sequence_checks,
        });
        let seed = Seed::new(config.seed);
        let zones = Zones::new(config.max_connections);
        zones.set_default_limit(config.zone_connections);
        let part = |number| Part(Mutex::new(Shard::new(number, Arc::clone(&settings))));
        Tracker {
            shards: (0..config.shard_count).map(part).collect(),
            seed,
            zones,
            tally: Tally::default(),
            expectations: Expectations::new(config.max_expectations, seed),
            settings: Mutex::new(settings),
            evicts_when_full: config.evicts_when_full,
            next_shard: AtomicUsize::new(0),
        }
    }

    /// Tracks a packet: reports the state of its connection, commits it, and translates the packet.
    ///
    /// `headers` are those of `frame`, and `random` is a number that senders cannot guess. The
    /// frame keeps its length and the places of its headers, so an announcement of FTP whose
    /// rewriting has another length makes it invalid; see [`Tracker::track_packet`].
    pub fn track(
        &self,
        frame: &mut [u8],
        headers: &Headers,
        request: &TrackRequest,
        previous: Previous,
        now: Instant,
        random: u64,
    ) -> Tracked {
        let frame = Frame::Fixed(frame);
        self.track_frame(frame, headers, request, previous, now, random)
    }

    /// Tracks a packet, whose payload may become longer or shorter.
    ///
    /// As [`Tracker::track`]. The headers keep their places.
    pub fn track_packet(
        &self,
        packet: &mut Packet,
        headers: &Headers,
        request: &TrackRequest,
        previous: Previous,
        now: Instant,
        random: u64,
    ) -> Tracked {
        let frame = Frame::Packet(packet);
        self.track_frame(frame, headers, request, previous, now, random)
    }

    fn track_frame(
        &self,
        mut frame: Frame<'_>,
        headers: &Headers,
        request: &TrackRequest,
        previous: Previous,
        now: Instant,
        random: u64,
    ) -> Tracked {
        if previous.state == CtState::INVALID {
            // Refused before it was tracked, as a bad fragment is.
            return invalid(request.zone);
        }
        let reading = match read_sums(frame.bytes(), headers, request.zone, frame.has_sum()) {
            Ok(reading) => reading,
            Err(event) => {
                self.tally.count(event);
                return invalid(request.zone);
            }
        };
        let is_again = previous.zone == request.zone && previous.state.has(CtState::TRACKED);
        let ask = Ask {
            bytes: frame.bytes(),
            may_change_length: frame.may_change_length(),
            reading: &reading,
            request,
            earlier: if is_again {
                previous.state
            } else {
                CtState::UNTRACKED
            },
            now,
            random,
        };
        // Another turn only if another thread has committed the same tuple in between.
        let answer = loop {
            if let Some(answer) = self.answer(&ask) {
                break answer;
            }
        };
        if let Some(writing) = &answer.writing {
            writing.write_header(&mut frame, &reading.places);
        }
        if let Some(leaving) = answer.leaving
            && leaving != reading.tuple
        {
            let bytes = frame.bytes_mut();
            translate(bytes, &reading.places, &reading.tuple, &leaving);
        }
        if let Some(writing) = &answer.writing {
            writing.write_payload(&mut frame, &reading);
        }
        answer.tracked
    }

    #[inline(always)]
    fn answer(&self, ask: &Ask<'_>) -> Option<Answer> {
        let (tuple, located) = self.locate_packet(ask);
        match located {
            Located::Found(found) if ask.request.is_forced && found.direction.is_reply() => {
                self.end(found, Event::Replaced);
                self.unknown(ask, &tuple, None)
            }
            Located::Found(found) => self.known(ask, &tuple, found),
            Located::Missing(stale) => self.unknown(ask, &tuple, stale),
        }
    }

    /// The connection of a packet, and the tuple that the packet has or had in it.
    #[inline(always)]
    fn locate_packet(&self, ask: &Ask<'_>) -> (Tuple, Located<'_>) {
        let tuple = ask.reading.tuple;
        if ask.earlier.0 & TRANSLATED.0 != 0 {
            // A packet that was translated has the reverse of the other direction's tuple.
            let located = self.locate(&self.key(tuple.reversed()), ask.now);
            if let Located::Found(mut found) = located {
                found.direction = found.direction.other();
                let before = found.connection().tuples[found.direction as usize];
                return (before, Located::Found(found));
            }
        }
        (tuple, self.locate(&self.key(tuple), ask.now))
    }

    /// Answers a packet of a connection that is in the table.
    #[inline(always)]
    fn known(&self, ask: &Ask<'_>, tuple: &Tuple, mut found: Found<'_>) -> Option<Answer> {
        let planned = self.plan_known(ask, &found).map_err(Some);
        let judged = planned.and_then(|control| Ok((control, self.judge(ask, &mut found)?)));
        let (control, state) = match judged {
            Ok(judged) => judged,
            Err(None) => {
                self.end(found, Event::Replaced);
                return self.unknown(ask, tuple, None);
            }
            Err(Some(event)) => {
                self.tally.count(event);
                return Some(Answer::invalid(ask.request.zone)); // Invariant 6.
            }
        };
        let (connection, _) = found
            .shard
            .get_mut(found.slot)
            .expect("the shard is locked since the connection was found");
        let mut tracked = Tracked {
            state: state | CtState::TRACKED,
            zone: ask.request.zone,
            ..Tracked::default()
        };
        let mut leaving = None;
        connection.write(ask.request);
        if connection.is_translated()
            && ask.request.translation.is_some()
            && state.0 & TRANSLATED.0 == 0
        {
            tracked.state |= connection.translated(found.direction);
            leaving = Some(connection.leaving(found.direction));
        }
        show(connection, &mut tracked);
        let writing = match control {
            Some(control) => self.keep(ask, &mut found, *control),
            None => None,
        };
        Some(Answer {
            tracked,
            leaving,
            writing,
        })
    }

    /// Judges a packet by the state of its connection, and moves the state.
    ///
    /// An error has the event to count, or none if the packet begins the next connection.
    #[inline(always)]
    fn judge(&self, ask: &Ask<'_>, found: &mut Found<'_>) -> Result<CtState, Option<Event>> {
        let is_reply = found.direction.is_reply();
        let reply = if is_reply {
            CtState::REPLY
        } else {
            CtState::default()
        };
        if ask.is_again(is_reply) {
            return Ok(ask.earlier); // Invariant 5.
        }
        let base = CtState(ask.earlier.0 & TRANSLATED.0);
        if ask.reading.is_error() {
            return Ok(base | CtState::RELATED | reply);
        }
        let (connection, settings) = found
            .shard
            .get_mut(found.slot)
            .expect("the shard is locked since the connection was found");
        let segment = ask.reading.segment.as_ref();
        let segment = segment.map(|segment| counted(segment, connection, is_reply));
        let checks = settings.tcp_sequence_checks;
        let progress = &mut connection.progress;
        let (state, timeout) = match progress.update(segment.as_ref(), is_reply, checks) {
            Judgement::BadFlags => return Err(Some(Event::BadTcpFlags)),
            Judgement::OutOfWindow => return Err(Some(Event::OutOfWindow)),
            Judgement::Reopens => return Err(None),
            Judgement::Repeats(timeout) => (CtState::NEW, Some(timeout)),
            Judgement::Fits(timeout) => (CtState::ESTABLISHED | reply, timeout),
        };
        let related = if connection.parent.is_some() {
            CtState::RELATED
        } else {
            CtState::default()
        };
        let is_sooner =
            timeout.is_some_and(|timeout| connection.extend(timeout, &settings.policies, ask.now));
        let is_first_reply = is_reply && !connection.has_reply;
        connection.has_reply |= is_reply;
        if is_sooner {
            found.shard.place(found.slot, ask.now);
        }
        if is_first_reply {
            found.shard.confirm(found.slot);
        }
        Ok(base | state | related)
    }

    /// Finds the connection of a tuple, and locks its home.
    #[inline(always)]
    fn locate(&self, key: &Key, now: Instant) -> Located<'_> {
        let number = self.shard_of(key);
        let mut shard = self.lock(number);
        let Some(reference) = shard.find(key) else {
            return Located::Missing(None);
        };
        let home = usize::from(reference.home);
        if home != number {
            // Invariant 1: let go of one lock before taking the other.
            drop(shard);
            shard = self.lock(home);
        }
        if !shard.is_live(reference) {
            return Located::Missing(Some(reference));
        }
        let found = Found {
            shard,
            slot: reference.slot,
            direction: reference.direction,
        };
        if found.connection().is_over(now) {
            self.end(found, Event::Expired); // Invariant 4.
            return Located::Missing(None);
        }
        Located::Found(found)
    }

    /// Ends a connection, and lets go of its lock.
    fn end(&self, mut found: Found<'_>, event: Event) {
        let removed = found.shard.remove(found.slot, |tuple| self.key(tuple));
        drop(found);
        if let Some(removed) = removed {
            self.bury(removed, event);
        }
    }

    /// Completes the end of a connection; the caller holds no lock.
    fn bury(&self, removed: Removed, event: Event) {
        let [original, reply] = removed.connection.tuples;
        if removed.is_elsewhere {
            let key = self.key(reply);
            self.lock(self.shard_of(&key)).unindex(key, removed.reply);
        }
        if removed.connection.alg.is_some() {
            self.expectations.remove_of(&original);
        }
        self.zones.release(original.zone);
        self.tally.count(event);
    }

    fn key(&self, tuple: Tuple) -> Key {
        let hash = self.seed.tuple(&tuple);
        Key {
            tuple,
            hash: (hash >> 32) as u32,
        }
    }

    fn shard_of(&self, key: &Key) -> usize {
        self.shard_of_hash(key.hash)
    }

    fn shard_of_hash(&self, hash: u32) -> usize {
        let scaled = u64::from(hash) * self.shards.len() as u64;
        (scaled >> 32) as usize
    }

    fn lock(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number]
            .0
            .lock()
            .expect("no code panics while it holds a shard")
    }
}

impl Ask<'_> {
    /// Whether the packet was judged before, in this direction of this zone.
    fn is_again(&self, is_reply: bool) -> bool {
        self.earlier.has(CtState::TRACKED)
            && !self.earlier.has(CtState::INVALID)
            && self.earlier.has(CtState::REPLY) == is_reply
    }
}

impl Answer {
    fn invalid(zone: u16) -> Answer {
        Answer {
            tracked: invalid(zone),
            leaving: None,
            writing: None,
        }
    }
}

impl Found<'_> {
    fn connection(&self) -> &Connection {
        self.shard
            .get(self.slot)
            .expect("the shard is locked since the connection was found")
    }
}

/// The answer to a packet that cannot be tracked.
fn invalid(zone: u16) -> Tracked {
    Tracked {
        state: CtState::INVALID | CtState::TRACKED,
        zone,
        ..Tracked::default()
    }
}

/// Shows a connection's mark, label, original tuple and protocol of announcements.
fn show(connection: &Connection, tracked: &mut Tracked) {
    tracked.mark = connection.mark;
    tracked.label = connection.label();
    tracked.original = Some(connection.original());
    tracked.alg = connection.alg;
}

#[cfg(test)]
impl Tracker {
    /// Checks that the table is whole, while no other thread uses it.
    ///
    /// # Panics
    /// If an index has a tuple too few, too many or twice, or a counter is wrong.
    pub(crate) fn assert_whole(&self) {
        let (mut indexed, mut expected, mut count) = (0, 0, 0);
        let mut by_zone = std::collections::BTreeMap::new();
        for number in 0..self.shards.len() {
            let known: Vec<_> = {
                let shard = self.lock(number);
                let (known, index_len) = shard.inspect();
                indexed += index_len;
                known
                    .iter()
                    .map(|(at, found)| (*at, found.tuples))
                    .collect()
            };
            for (original, tuples) in known {
                let reply = Reference {
                    direction: Direction::Reply,
                    ..original
                };
                let is_own_answer = tuples[0] == tuples[1];
                for (tuple, reference) in tuples.into_iter().zip([original, reply]) {
                    if is_own_answer && reference == reply {
                        continue;
                    }
                    let key = self.key(tuple);
                    let found = self.lock(self.shard_of(&key)).find(&key);
                    assert_eq!(found, Some(reference), "{tuple:?}");
                    expected += 1;
                }
                count += 1;
                *by_zone.entry(tuples[0].zone).or_insert(0) += 1;
            }
        }
        assert_eq!(indexed, expected, "stale references stay in an index");
        assert_eq!(self.connection_count(), count);
        for zone in 0..10 {
            let expected = by_zone.get(&zone).copied().unwrap_or(0);
            assert_eq!(self.zone_limit(zone).count, expected, "zone {zone}");
        }
    }
}

const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Tracker>();
};

#[cfg(test)]
mod tests;
