//! One shard of the table: connections, an index from tuples, and the queues that end them.
//!
//! ```text
//!   index: hash -> slot and direction, or a place in `foreign`
//!   slots: connection        wheel: which slots may be over
//!                            unreplied: slots without a reply, oldest first
//!   foreign: reply tuple -> reference (home shard, slot, generation)
//! ```
//!
//! 1. A connection lies in its *home*: the shard of its original tuple. The home's index has
//!    the original tuple. The reply tuple is in the index of its own shard, which is the home
//!    unless a translation moved it.
//! 2. A reference names a connection only while its slot has its generation. Generations of a
//!    slot never repeat within 2^32 connections, so a stale reference names nothing. Only
//!    `foreign` has stale references.
//! 3. A slot is free, or is in the wheel; a slot in `unreplied` has a connection without reply.
//!
//! See `tracker.rs` for the order in which shards are locked.

use std::net::Ipv6Addr;
use std::slice;
use std::sync::Arc;

use prefetch_index::prefetch_index;
use thalweg_packet::Instant;

use crate::chain::Chains;
use crate::connection::{Connection, Direction, Progress};
use crate::index::Index;
use crate::timeout::Policies;
use crate::wheel::Wheel;
use crate::{CtState, Endpoint, Tuple};

/// A tuple with its hash, so that it is computed once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) tuple: Tuple,
    /// The upper bits choose the shard, all bits the place in the index.
    pub(crate) hash: u32,
}

/// Where a connection is, and the direction of the tuple that led to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    pub(crate) home: u16,
    pub(crate) direction: Direction,
}

/// What all shards have a copy of, so that a packet finds it under the lock it holds.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) policies: Policies,
    /// Whether TCP segments outside the windows are invalid.
    pub(crate) tcp_sequence_checks: bool,
}

/// The bit of a target that is a place in `foreign`.
const FOREIGN: u32 = 1 << 31;

/// The most slots of a shard: their targets have no bit of `FOREIGN`.
pub(crate) const SLOTS_MAX: u32 = 1 << 30;

/// What a target of the index stands for.
enum Target {
    /// A connection of this shard.
    Here(u32, Direction),
    /// A place in `foreign`.
    Foreign(usize),
}

impl Target {
    fn here(slot: u32, direction: Direction) -> u32 {
        slot << 1 | direction as u32
    }

    fn of(target: u32) -> Target {
        match (target & FOREIGN != 0, target & 1) {
            (true, _) => Target::Foreign((target & !FOREIGN) as usize),
            (false, 0) => Target::Here(target >> 1, Direction::Original),
            (false, _) => Target::Here(target >> 1, Direction::Reply),
        }
    }
}

const _: () = assert!(std::mem::size_of::<Slot>() == 192);

/// A place for a connection: three cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    generation: u32,
    /// Whether there is a connection. Its fields can be prefetched without it.
    is_taken: bool,
    /// [`vacant`] if there is none.
    connection: Connection,
}

impl Slot {
    fn get(&self) -> Option<&Connection> {
        self.is_taken.then_some(&self.connection)
    }

    fn take(&mut self) -> Option<Connection> {
        let was_taken = std::mem::take(&mut self.is_taken);
        was_taken.then(|| std::mem::replace(&mut self.connection, vacant()))
    }

    /// Prefetches what a packet reads and writes.
    fn prefetch(&self) {
        let connection = &self.connection;
        prefetch_index(slice::from_ref(&connection.progress), 0);
        prefetch_index(slice::from_ref(&connection.deadline), 0);
        prefetch_index(slice::from_ref(&self.generation), 0);
    }
}

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    number: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
    index: Index,
    /// Reply tuples of connections whose home is another shard.
    foreign: Vec<(Tuple, Reference)>,
    foreign_free: Vec<u32>,
    wheel: Wheel,
    unreplied: Chains,
    pub(crate) settings: Arc<Settings>,
}

/// A connection that has left the table, but may still be in another shard's index.
#[derive(Debug)]
#[must_use]
pub(crate) struct Removed {
    pub(crate) connection: Connection,
    /// The reference of the reply tuple.
    pub(crate) reply: Reference,
    /// Whether the reply tuple is not in the home's index.
    pub(crate) is_elsewhere: bool,
}

impl Shard {
    pub(crate) fn new(number: u16, settings: Arc<Settings>) -> Shard {
        Shard {
            number,
            slots: Vec::new(),
            free: Vec::new(),
            index: Index::default(),
            foreign: Vec::new(),
            foreign_free: Vec::new(),
            wheel: Wheel::new(),
            unreplied: Chains::new(1),
            settings,
        }
    }

    /// Asks for the place in the index at which a lookup of this hash begins.
    pub(crate) fn prefetch_place(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Asks for the slot of a connection with this hash, if the index has one.
    pub(crate) fn prefetch_slot(&self, hash: u32) {
        if let Some(target) = self.index.find(hash, |_| true)
            && let Target::Here(slot, _) = Target::of(target)
        {
            self.slots[slot as usize].prefetch();
        }
    }

    /// What the index says of a tuple; the reference may be stale.
    pub(crate) fn find(&self, key: &Key) -> Option<Reference> {
        Some(self.reference(self.find_target(key)?))
    }

    fn find_target(&self, key: &Key) -> Option<u32> {
        self.index
            .find(key.hash, |target| *self.tuple(target) == key.tuple)
    }

    /// The tuple that a target of the index stands for.
    fn tuple(&self, target: u32) -> &Tuple {
        match Target::of(target) {
            Target::Foreign(at) => &self.foreign[at].0,
            Target::Here(slot, direction) => {
                let connection = self.slots[slot as usize].get();
                let connection = connection.expect("a connection leaves with its index entries");
                &connection.tuples[direction as usize]
            }
        }
    }

    fn reference(&self, target: u32) -> Reference {
        match Target::of(target) {
            Target::Foreign(at) => self.foreign[at].1,
            Target::Here(slot, direction) => Reference {
                slot,
                generation: self.slots[slot as usize].generation,
                home: self.number,
                direction,
            },
        }
    }

    /// The connection of a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Connection> {
        self.slots.get(slot as usize)?.get()
    }

    /// The connection of a slot to change, with the settings.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<(&mut Connection, &Settings)> {
        let slot = self.slots.get_mut(slot as usize)?;
        slot.is_taken
            .then_some((&mut slot.connection, &self.settings))
    }

    /// Whether a reference to this shard names a connection.
    pub(crate) fn is_live(&self, reference: Reference) -> bool {
        // Invariant 2.
        self.slots
            .get(reference.slot as usize)
            .is_some_and(|slot| slot.generation == reference.generation && slot.is_taken)
    }

    /// The number of slots, free ones included.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Puts a connection into this shard, its home, and its original tuple into the index.
    ///
    /// Returns the reference for its reply tuple.
    pub(crate) fn insert(&mut self, key: Key, connection: Connection, now: Instant) -> Reference {
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        let place = &mut self.slots[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        let deadline = connection.deadline;
        place.connection = connection;
        place.is_taken = true;
        let reference = Reference {
            slot,
            generation: place.generation,
            home: self.number,
            direction: Direction::Original,
        };
        self.wheel.place(slot, deadline, now);
        self.unreplied.push_back(0, slot);
        self.replace_stale(&key);
        self.index
            .insert(key.hash, Target::here(slot, Direction::Original));
        Reference {
            direction: Direction::Reply,
            ..reference
        }
    }

    /// Puts a reply tuple into the index; the connection may lie in another shard.
    pub(crate) fn insert_reply(&mut self, key: Key, reference: Reference) {
        self.replace_stale(&key);
        let target = if reference.home == self.number {
            Target::here(reference.slot, reference.direction)
        } else {
            let place = (key.tuple, reference);
            let at = match self.foreign_free.pop() {
                Some(at) => {
                    self.foreign[at as usize] = place;
                    at
                }
                None => {
                    self.foreign.push(place);
                    self.foreign.len() as u32 - 1
                }
            };
            FOREIGN | at
        };
        self.index.insert(key.hash, target);
    }

    /// Takes a tuple of another shard's connection out, if the index has this reference.
    pub(crate) fn unindex(&mut self, key: Key, reference: Reference) -> bool {
        let target = self.find_target(&key);
        let own = target.filter(|target| {
            matches!(Target::of(*target), Target::Foreign(at) if self.foreign[at].1 == reference)
        });
        own.is_some_and(|target| self.remove_foreign(key.hash, target))
    }

    /// Takes out a stale reference, before its tuple gets another one.
    fn replace_stale(&mut self, key: &Key) {
        if let Some(target) = self.find_target(key) {
            let is_stale = self.remove_foreign(key.hash, target);
            debug_assert!(
                is_stale,
                "the caller has looked that the tuple is not taken"
            );
        }
    }

    /// Takes a target out of the index and of `foreign`, if it is there.
    fn remove_foreign(&mut self, hash: u32, target: u32) -> bool {
        let Target::Foreign(at) = Target::of(target) else {
            return false;
        };
        self.foreign_free.push(at as u32);
        self.index.remove(hash, target)
    }

    /// Takes a connection out, and the tuples of it that this shard's index has.
    pub(crate) fn remove(&mut self, slot: u32, key: impl Fn(Tuple) -> Key) -> Option<Removed> {
        let place = self.slots.get_mut(slot as usize)?;
        let connection = place.take()?;
        let reply = Reference {
            slot,
            generation: place.generation,
            home: self.number,
            direction: Direction::Reply,
        };
        self.wheel.remove(slot);
        self.unreplied.unlink(slot);
        self.free.push(slot);
        let [original_key, reply_key] = connection.tuples.map(key);
        let original = Target::here(slot, Direction::Original);
        self.index.remove(original_key.hash, original);
        let answer = Target::here(slot, Direction::Reply);
        let is_elsewhere = !self.index.remove(reply_key.hash, answer);
        Some(Removed {
            connection,
            reply,
            is_elsewhere,
        })
    }

    /// Notes that a connection has a reply.
    pub(crate) fn confirm(&mut self, slot: u32) {
        self.unreplied.unlink(slot);
    }

    /// The connection without a reply that is the oldest.
    pub(crate) fn oldest_unreplied(&self) -> Option<u32> {
        self.unreplied.front(0)
    }

    /// Places a connection whose deadline moved forward.
    pub(crate) fn place(&mut self, slot: u32, now: Instant) {
        if let Some(connection) = self.get(slot) {
            self.wheel.place(slot, connection.deadline, now);
        }
    }

    /// The next connection that is over, for at most `budget` steps.
    pub(crate) fn next_over(&mut self, now: Instant, budget: &mut usize) -> Option<u32> {
        while let Some(slot) = self.wheel.advance(now, budget) {
            match self.get(slot) {
                Some(connection) if connection.is_over(now) => return Some(slot),
                _ => self.place(slot, now),
            }
        }
        None
    }

    fn add_slot(&mut self) -> u32 {
        let slot = self.slot_count();
        self.slots.push(Slot {
            generation: 0,
            is_taken: false,
            connection: vacant(),
        });
        self.wheel.add_slot();
        self.unreplied.add_slot();
        slot
    }
}

#[cfg(test)]
impl Shard {
    /// The connections of this shard with their references, and the size of its index.
    ///
    /// # Panics
    /// If invariant 3 does not hold.
    pub(crate) fn inspect(&self) -> (Vec<(Reference, &Connection)>, usize) {
        let mut known = Vec::new();
        for (slot, place) in self.slots.iter().enumerate() {
            let slot = slot as u32;
            assert_eq!(!place.is_taken, self.free.contains(&slot));
            assert_eq!(place.is_taken, self.wheel.has(slot));
            let is_unreplied = place.get().is_some_and(|known| !known.has_reply);
            assert_eq!(is_unreplied, self.unreplied.has(slot));
            let reference = Reference {
                slot,
                generation: place.generation,
                home: self.number,
                direction: Direction::Original,
            };
            known.extend(place.get().map(|found| (reference, found)));
        }
        (known, self.index.len())
    }
}

/// What a slot without a connection holds.
fn vacant() -> Connection {
    let end = Endpoint {
        address: Ipv6Addr::UNSPECIFIED,
        port: 0,
    };
    let tuple = Tuple {
        source: end,
        destination: end,
        icmp: (0, 0),
        zone: 0,
        protocol: 0,
        is_ipv6: false,
    };
    Connection {
        tuples: [tuple; 2],
        parent: None,
        label: [0; 2],
        rule: 0,
        bucket: 0,
        deadline: Instant::ZERO,
        mark: 0,
        policy: 0,
        progress: Progress::Icmp { has_reply: false },
        translated: CtState::default(),
        alg: None,
        shift: None,
        has_reply: false,
    }
}

/// Bytes of the table for each connection: its slot, its links and its two index entries.
#[cfg(test)]
pub(crate) fn bytes_per_connection() -> usize {
    let links = 2 * size_of::<crate::chain::Link>();
    let (free, level) = (size_of::<u32>(), size_of::<u8>());
    // At least three eighths of the index are in use, once it has grown.
    let index = 2 * size_of::<crate::index::ConnectionEntry>() * 8 / 3;
    let foreign = size_of::<(Tuple, Reference)>() + size_of::<u32>();
    size_of::<Slot>() + links + free + level + index + foreign
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::tuple;

    fn key(tuple: Tuple) -> Key {
        Key {
            tuple,
            hash: u32::from(tuple.source.port),
        }
    }

    fn connection(port: u16) -> Connection {
        let tuple = tuple("10.0.0.1", port, "10.0.0.2", 80);
        Connection {
            tuples: [tuple, tuple.reversed()],
            parent: None,
            label: [0; 2],
            rule: 0,
            bucket: 0,
            deadline: Instant::from_nanos(1),
            mark: 0,
            policy: 0,
            progress: Progress::new(&tuple, None),
            translated: crate::CtState::default(),
            alg: None,
            shift: None,
            has_reply: false,
        }
    }

    /// Invariant 2.
    #[test]
    fn a_reference_does_not_name_the_next_connection_of_its_slot() {
        let settings = Settings {
            policies: Policies::default(),
            tcp_sequence_checks: true,
        };
        let mut shard = Shard::new(3, Arc::new(settings));
        let [first, second] = [1, 2].map(connection);
        let (old, new) = (key(first.tuples[0]), key(second.tuples[0]));
        let reply = key(first.tuples[1]);
        let reference = shard.insert(old, first, Instant::ZERO);
        shard.insert_reply(reply, reference);
        assert!(shard.is_live(reference));
        let removed = shard.remove(reference.slot, key).expect("a connection");
        assert!(!removed.is_elsewhere && !shard.is_live(reference));
        assert_eq!((shard.find(&old), shard.find(&reply)), (None, None));
        let next = shard.insert(new, second, Instant::ZERO);
        assert_eq!((next.slot, next.home), (reference.slot, 3));
        assert!(shard.is_live(next) && !shard.is_live(reference));
        // An old reference takes nothing out that is not its own.
        assert!(!shard.unindex(new, reference));
        assert!(shard.find(&new).is_some());
        let removed = shard.remove(next.slot, key).expect("a connection");
        assert!(removed.is_elsewhere, "its reply tuple was never here");
        assert!(shard.remove(next.slot, key).is_none());
    }
}
