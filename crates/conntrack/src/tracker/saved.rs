//! Connections as values that outlive their tracker: a switch that starts again has them still.
//!
//! 1. A resumed connection is the one that was saved: what it says of the next packet, and when
//!    it ends, are the same, but for 4. The caller's clock must go on from where the saved one
//!    was.
//! 2. Of connections with a tuple in common, the one that is there stays.
//! 3. Announced connections that have not begun are not saved, nor are fragments.
//! 4. The peers of a TCP connection have spoken between save and resumption, so they come back
//!    as stale (`tcp/stale.rs`): their next segments tell where they are now.

use serde::{Deserialize, Serialize};
use thalweg_packet::Instant;

use super::Tracker;
use super::manage::Cursor;
use crate::connection::{Connection, Progress};
use crate::counters::Event;
use crate::{ConnectionEntry, Tuple};

/// A connection with all that the tracker knows of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedConnection(Connection);

/// Why a saved connection is not in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum NotResumed {
    /// Its time is over.
    #[error("its time is over")]
    Over,
    /// Another connection has one of its tuples.
    #[error("another connection has its addresses")]
    Taken,
    /// The table or its zone is full.
    #[error("there is no room for it")]
    Full,
    /// No tracker can have saved it.
    #[error("its state makes no sense")]
    Unsound,
}

impl SavedConnection {
    fn new(mut connection: Connection) -> SavedConnection {
        if let Progress::Tcp(peers) = &mut connection.progress {
            peers.set_stale(); // Invariant 4.
        }
        SavedConnection(connection)
    }

    /// The connection as a dump shows it.
    pub fn entry(&self, now: Instant) -> ConnectionEntry {
        self.0.entry(now)
    }

    /// The rule that committed it; 0 for none.
    pub fn rule(&self) -> u64 {
        self.0.rule
    }

    /// Sets which rule and which bucket of a group committed it; 0 for none.
    pub fn set_owners(&mut self, rule: u64, bucket: u64) {
        (self.0.rule, self.0.bucket) = (rule, bucket);
    }

    /// Whether its parts fit together.
    fn is_sound(&self) -> bool {
        let has_sound_peers = match &self.0.progress {
            Progress::Tcp(peers) => peers.is_sound(),
            _ => true,
        };
        let shift = self.0.shift.as_deref();
        let [original, reply] = &self.0.tuples;
        let is_pair = (original.protocol, original.zone, original.is_ipv6)
            == (reply.protocol, reply.zone, reply.is_ipv6);
        has_sound_peers && is_pair && shift.is_none_or(|shift| shift.is_sound())
    }
}

impl Tracker {
    /// The next connections from a place on, to be kept, after visiting at most `budget` slots.
    ///
    /// Returns the place to go on from, as [`Tracker::entries`] does.
    pub fn saved(
        &self,
        cursor: Cursor,
        budget: usize,
        now: Instant,
    ) -> (Vec<SavedConnection>, Option<Cursor>) {
        let mut saved = Vec::new();
        let next = self.walk(cursor, budget, Event::Flushed, |shard, slot| {
            let connection = shard
                .get(slot)
                .filter(|connection| !connection.is_over(now));
            saved.extend(connection.cloned().map(SavedConnection::new));
            None
        });
        (saved, next)
    }

    /// Puts a saved connection into the table.
    ///
    /// # Errors
    /// If it is over, or has no place; the table is as it was.
    pub fn resume(&self, saved: SavedConnection, now: Instant) -> Result<(), NotResumed> {
        if !saved.is_sound() {
            return Err(NotResumed::Unsound);
        }
        let SavedConnection(connection) = saved;
        if connection.is_over(now) {
            return Err(NotResumed::Over);
        }
        let original: Tuple = connection.tuples[0];
        let admitted = self.admit(original.zone, &original, now);
        admitted.map_err(|_| NotResumed::Full)?;
        match self.put(connection, now) {
            true => Ok(()),
            false => {
                self.zones.release(original.zone);
                Err(NotResumed::Taken)
            }
        }
    }

    /// Inserts a connection as it is; false if one of its tuples is taken (invariant 2).
    fn put(&self, connection: Connection, now: Instant) -> bool {
        let keys = connection.tuples.map(|tuple| self.key(tuple));
        let has_reply = connection.has_reply;
        let (mut home, mut other) = self.lock_pair(keys.map(|key| self.shard_of(&key)));
        let reply_shard = other.as_deref().unwrap_or(&home);
        if home.find(&keys[0]).is_some() || reply_shard.find(&keys[1]).is_some() {
            return false;
        }
        let reference = home.insert(keys[0], connection, now);
        if has_reply {
            home.confirm(reference.slot);
        }
        if keys[0] != keys[1] {
            let shard = other.as_deref_mut().unwrap_or(&mut home);
            shard.insert_reply(keys[1], reference);
        }
        true
    }
}

/// Instants as their nanoseconds.
pub(crate) mod saved_instant {
    use serde::{Deserialize, Deserializer, Serializer};
    use thalweg_packet::Instant;

    pub(crate) fn serialize<S: Serializer>(
        instant: &Instant,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(instant.as_nanos())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Instant, D::Error> {
        u64::deserialize(deserializer).map(Instant::from_nanos)
    }
}
