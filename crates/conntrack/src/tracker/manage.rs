//! What operators do with the table: look at it, end connections, set limits and time-outs.
//!
//! 1. Work over the whole table holds one lock at a time, for at most [`SLICE`] slots.
//! 2. A walk visits each slot once. A connection that is in the table all the time is seen.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_packet::Instant;

use super::{Found, Located, Tracker};
use crate::connection::{Connection, Direction};
use crate::counters::{Counters, Event};
use crate::entry::ConnectionEntry;
use crate::expectation::Expectation;
use crate::table::{Removed, Settings, Shard};
use crate::timeout::TimeoutPolicy;
use crate::zones::ZoneLimit;
use crate::{Bits, Tuple};

/// The most slots that are visited, or steps that are done, under one lock.
const SLICE: usize = 256;

/// Which connections to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushFilter {
    /// All.
    All,
    /// Those of a zone.
    Zone(u16),
    /// Those whose mark has these bits.
    Mark(Bits<u32>),
    /// Those whose label has these bits.
    Label(Bits<u128>),
    /// Those that a rule committed.
    Rule(u64),
}

/// A place in a walk over the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    shard: usize,
    slot: u32,
}

impl FlushFilter {
    fn has(&self, connection: &Connection) -> bool {
        match self {
            FlushFilter::All => true,
            FlushFilter::Zone(zone) => connection.tuples[0].zone == *zone,
            FlushFilter::Mark(bits) => connection.mark & bits.mask == bits.value & bits.mask,
            FlushFilter::Label(bits) => connection.label() & bits.mask == bits.value & bits.mask,
            FlushFilter::Rule(rule) => connection.rule == *rule,
        }
    }
}

impl Tracker {
    /// The next connections from a place on, after visiting at most `budget` slots.
    ///
    /// Returns the place to go on from, until there is none. A walk begins with
    /// `Cursor::default()`.
    pub fn entries(
        &self,
        cursor: Cursor,
        budget: usize,
        now: Instant,
    ) -> (Vec<ConnectionEntry>, Option<Cursor>) {
        let mut entries = Vec::new();
        let next = self.walk(cursor, budget, Event::Flushed, |shard, slot| {
            let connection = shard
                .get(slot)
                .filter(|connection| !connection.is_over(now));
            entries.extend(connection.map(|connection| connection.entry(now)));
            None
        });
        (entries, next)
    }

    /// Ends all connections of a kind; returns their number.
    ///
    /// Visits the whole table, a slice at a time. [`Tracker::flush_slice`] does one slice.
    pub fn flush(&self, filter: FlushFilter) -> usize {
        let (mut count, mut cursor) = (0, Some(Cursor::default()));
        while let Some(place) = cursor {
            let (ended, next) = self.flush_slice(filter, place, usize::MAX);
            count += ended;
            cursor = next;
        }
        count
    }

    /// Ends the connections of a kind in at most `budget` slots from a place on.
    pub fn flush_slice(
        &self,
        filter: FlushFilter,
        cursor: Cursor,
        budget: usize,
    ) -> (usize, Option<Cursor>) {
        let mut count = 0;
        if filter == FlushFilter::All {
            self.expectations.clear();
        }
        let next = self.walk(cursor, budget, Event::Flushed, |shard, slot| {
            shard
                .get(slot)
                .filter(|connection| filter.has(connection))?;
            count += 1;
            shard.remove(slot, |tuple| self.key(tuple))
        });
        (count, next)
    }

    /// Ends the connections that a rule or a bucket of `gone` committed, in at most `budget` slots
    /// from a place on; returns their number.
    pub fn end_orphans(
        &self,
        gone: &BTreeSet<u64>,
        cursor: Cursor,
        budget: usize,
    ) -> (usize, Option<Cursor>) {
        let mut count = 0;
        let next = self.walk(cursor, budget, Event::Orphaned, |shard, slot| {
            let connection = shard.get(slot)?;
            let owners = [connection.rule, connection.bucket];
            owners.iter().find(|owner| gone.contains(owner))?;
            count += 1;
            shard.remove(slot, |tuple| self.key(tuple))
        });
        (count, next)
    }

    /// Ends the connection with this original tuple; whether there was one.
    ///
    /// The reply tuple serves too, unless it is translated, as in Open vSwitch.
    pub fn flush_tuple(&self, tuple: &Tuple, now: Instant) -> bool {
        match self.locate(&self.key(*tuple), now) {
            Located::Found(found) if may_flush(&found) => {
                self.end(found, Event::Flushed);
                true
            }
            _ => false,
        }
    }

    /// Ends the connections that a rule committed; returns their number.
    ///
    /// Visits the whole table.
    pub fn remove_of_rule(&self, rule: u64) -> usize {
        self.flush(FlushFilter::Rule(rule))
    }

    /// Ends connections whose time is over, in at most `budget` steps; returns their number.
    ///
    /// A step visits one connection, or one tick of a shard's wheel. Lookups never find a
    /// connection whose time is over; this only gives back its memory and its place.
    pub fn expire(&self, now: Instant, budget: usize) -> usize {
        let start = self.next_shard.fetch_add(1, Ordering::Relaxed);
        self.expectations.expire(start, now);
        let (mut left, mut count) = (budget, 0);
        for offset in 0..self.shards.len() {
            let number = start.wrapping_add(offset) % self.shards.len();
            while left > 0 {
                let mut slice = left.min(SLICE);
                left -= slice;
                let removed = self.collect(number, now, &mut slice);
                left += slice;
                count += removed.len();
                removed
                    .into_iter()
                    .for_each(|gone| self.bury(gone, Event::Expired));
                if slice > 0 {
                    break; // The shard has reached `now`.
                }
            }
        }
        count
    }

    /// Takes connections that are over out of a shard, until `now` is reached or no steps are left.
    fn collect(&self, number: usize, now: Instant, steps: &mut usize) -> Vec<Removed> {
        let mut shard = self.lock(number);
        let mut removed = Vec::new();
        while let Some(slot) = shard.next_over(now, steps) {
            removed.extend(shard.remove(slot, |tuple| self.key(tuple)));
        }
        removed
    }

    /// Visits slots from a place on, and buries what `visit` takes out, which `event` counts.
    pub(super) fn walk(
        &self,
        mut cursor: Cursor,
        mut budget: usize,
        event: Event,
        mut visit: impl FnMut(&mut Shard, u32) -> Option<Removed>,
    ) -> Option<Cursor> {
        while cursor.shard < self.shards.len() {
            if budget == 0 {
                return Some(cursor);
            }
            let mut shard = self.lock(cursor.shard);
            let end = shard.slot_count();
            let slice = budget.min(SLICE) as u32;
            let stop = cursor.slot.saturating_add(slice).min(end);
            let removed: Vec<Removed> = (cursor.slot..stop)
                .filter_map(|slot| visit(&mut shard, slot))
                .collect();
            drop(shard);
            budget -= (stop.saturating_sub(cursor.slot) as usize).max(1);
            removed.into_iter().for_each(|gone| self.bury(gone, event));
            cursor = match stop == end {
                true => Cursor {
                    shard: cursor.shard + 1,
                    slot: 0,
                },
                false => Cursor {
                    slot: stop,
                    ..cursor
                },
            };
        }
        None
    }

    /// Adds a connection that another has announced; false if too many are expected, or if
    /// another has announced the same and it has not begun.
    ///
    /// It counts while its parent, a connection with a protocol of announcements, is in the
    /// table. Packets of such connections add their own.
    pub fn expect(&self, expectation: Expectation, now: Instant) -> bool {
        if let Some(other) = self.expectations.find(&expectation.tuple, now)
            && self.find_original(other.parent, now).is_none()
        {
            self.expectations.remove_of(&other.parent);
        }
        self.add_expectation(expectation, now)
    }

    /// As [`Tracker::expect`], while the parent's shard is locked: a connection whose time is over
    /// counts until it is collected.
    pub(super) fn add_expectation(&self, expectation: Expectation, now: Instant) -> bool {
        let is_added = self.expectations.add(expectation, now);
        self.tally.count(match is_added {
            true => Event::Expected,
            false => Event::ExpectationRefused,
        });
        is_added
    }

    /// The number of announced connections that are remembered.
    pub fn expectation_count(&self) -> usize {
        self.expectations.len()
    }

    /// The number of connections; those whose time is over count until they are collected.
    pub fn connection_count(&self) -> u32 {
        self.zones.total()
    }

    /// The most connections.
    pub fn max_connections(&self) -> u32 {
        self.zones.total_limit()
    }

    /// Sets the most connections; more that exist stay.
    pub fn set_max_connections(&self, limit: u32) {
        self.zones.set_total_limit(limit);
    }

    /// The limit and the number of connections of a zone.
    pub fn zone_limit(&self, zone: u16) -> ZoneLimit {
        self.zones.get(zone)
    }

    /// The zones that have a limit of their own.
    pub fn zone_limits(&self) -> Vec<(u16, ZoneLimit)> {
        self.zones.limited()
    }

    /// Sets a zone's limit (0: any number), or removes it, so that the default holds.
    pub fn set_zone_limit(&self, zone: u16, limit: Option<u32>) {
        self.zones.set_limit(zone, limit);
    }

    /// The limit of zones that have none of their own; 0 for any number.
    pub fn default_zone_limit(&self) -> u32 {
        self.zones.default_limit()
    }

    /// Sets the limit of zones that have none of their own.
    pub fn set_default_zone_limit(&self, limit: u32) {
        self.zones.set_default_limit(limit);
    }

    /// A policy of time-outs; number 0 is the default.
    pub fn timeout_policy(&self, id: u32) -> Option<TimeoutPolicy> {
        self.settings().policies.get(id)
    }

    /// Sets or removes a policy; removing number 0 restores the default.
    pub fn set_timeout_policy(&self, id: u32, policy: Option<TimeoutPolicy>) {
        self.change(|settings| settings.policies.set(id, policy));
    }

    /// Sets or removes the policy of a zone, for requests that name none.
    pub fn set_zone_timeout_policy(&self, zone: u16, id: Option<u32>) {
        self.change(|settings| settings.policies.set_zone(zone, id));
    }

    /// Whether TCP segments outside the windows are invalid.
    pub fn tcp_sequence_checks(&self) -> bool {
        self.settings().tcp_sequence_checks
    }

    /// Sets whether TCP segments outside the windows are invalid.
    pub fn set_tcp_sequence_checks(&self, checks: bool) {
        self.change(|settings| settings.tcp_sequence_checks = checks);
    }

    /// How often packets were refused, and connections made and ended.
    pub fn counters(&self) -> Counters {
        self.tally.read()
    }

    fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.lock();
        Arc::clone(&settings.expect("no code panics while it holds the settings"))
    }

    /// Changes the settings, and gives every shard its copy.
    fn change(&self, change: impl FnOnce(&mut Settings)) {
        let settings = self.settings.lock();
        let mut settings = settings.expect("no code panics while it holds the settings");
        let mut changed = Settings::clone(&settings);
        change(&mut changed);
        *settings = Arc::new(changed);
        for number in 0..self.shards.len() {
            self.lock(number).settings = Arc::clone(&settings);
        }
    }
}

/// Whether a tuple that found a connection may end it.
fn may_flush(found: &Found<'_>) -> bool {
    found.direction == Direction::Original || !found.connection().is_translated()
}
