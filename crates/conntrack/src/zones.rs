//! How many connections each zone has, and may have.
//!
//! 1. A connection is counted before it is in the table, and until after it has left it; so
//!    the table never has more than the limits at the time of admission allow.
//! 2. Every zone is counted, with a limit or without. (Open vSwitch counts only connections
//!    that came after their zone's limit, and counts all zones without one together.)

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::counters::Event;
use crate::table::SLOTS_MAX;

/// The limit and the number of connections of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneLimit {
    /// The most connections of the zone; 0 for any number.
    pub limit: u32,
    /// Connections of the zone now.
    pub count: u32,
}

/// Marks a limit of a zone as set.
const SET: u64 = 1 << 32;

/// Counts and limits of all zones and of the table.
#[derive(Debug)]
pub(crate) struct Zones {
    counts: Box<[AtomicU32]>,
    /// `SET` and the limit, or 0.
    limits: Box<[AtomicU64]>,
    default_limit: AtomicU32,
    total: AtomicU32,
    total_limit: AtomicU32,
}

impl Zones {
    pub(crate) fn new(total_limit: u32) -> Zones {
        let zones = 0..=u16::MAX;
        Zones {
            counts: zones.clone().map(|_| AtomicU32::new(0)).collect(),
            limits: zones.map(|_| AtomicU64::new(0)).collect(),
            default_limit: AtomicU32::new(0),
            total: AtomicU32::new(0),
            total_limit: AtomicU32::new(total_limit),
        }
    }

    /// Counts one more connection of a zone, if there is room.
    pub(crate) fn admit(&self, zone: u16) -> Result<(), Event> {
        let zone_limit = match self.limit(zone) {
            0 => u32::MAX,
            limit => limit,
        };
        let count = &self.counts[usize::from(zone)];
        if !add_below(count, zone_limit) {
            return Err(Event::ZoneFull);
        }
        if !add_below(&self.total, self.total_limit().min(SLOTS_MAX)) {
            count.fetch_sub(1, Ordering::Relaxed);
            return Err(Event::TableFull);
        }
        Ok(())
    }

    /// Counts one connection less.
    pub(crate) fn release(&self, zone: u16) {
        self.counts[usize::from(zone)].fetch_sub(1, Ordering::Relaxed);
        self.total.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn set_limit(&self, zone: u16, limit: Option<u32>) {
        let value = limit.map_or(0, |limit| SET | u64::from(limit));
        self.limits[usize::from(zone)].store(value, Ordering::Relaxed);
    }

    pub(crate) fn set_default_limit(&self, limit: u32) {
        self.default_limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn default_limit(&self) -> u32 {
        self.default_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, zone: u16) -> ZoneLimit {
        ZoneLimit {
            limit: self.limit(zone),
            count: self.counts[usize::from(zone)].load(Ordering::Relaxed),
        }
    }

    /// The zones with a limit of their own.
    pub(crate) fn limited(&self) -> Vec<(u16, ZoneLimit)> {
        (0..=u16::MAX)
            .filter(|zone| self.limits[usize::from(*zone)].load(Ordering::Relaxed) != 0)
            .map(|zone| (zone, self.get(zone)))
            .collect()
    }

    pub(crate) fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn total_limit(&self) -> u32 {
        self.total_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_total_limit(&self, limit: u32) {
        self.total_limit.store(limit, Ordering::Relaxed);
    }

    fn limit(&self, zone: u16) -> u32 {
        match self.limits[usize::from(zone)].load(Ordering::Relaxed) {
            0 => self.default_limit(),
            limit => limit as u32,
        }
    }
}

/// Adds 1 if the value is below the limit; whether it was.
fn add_below(value: &AtomicU32, limit: u32) -> bool {
    value
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |value| {
            (value < limit).then(|| value + 1)
        })
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_its_own_limit_or_the_default() {
        let zones = Zones::new(4);
        zones.set_default_limit(1);
        zones.set_limit(3, Some(2));
        assert_eq!(zones.admit(1), Ok(()));
        assert_eq!(zones.admit(1), Err(Event::ZoneFull));
        assert_eq!(zones.admit(3), Ok(()));
        assert_eq!(zones.admit(3), Ok(()));
        assert_eq!(zones.admit(3), Err(Event::ZoneFull));
        let three = ZoneLimit { limit: 2, count: 2 };
        assert_eq!(zones.limited(), [(3, three)]);
        zones.set_limit(3, Some(0));
        assert_eq!(zones.admit(3), Ok(()), "0 is no limit");
        assert_eq!(zones.admit(3), Err(Event::TableFull));
        assert_eq!((zones.get(3).count, zones.total()), (3, 4));
        zones.release(1);
        zones.set_limit(3, None);
        assert_eq!(zones.admit(3), Err(Event::ZoneFull));
        assert_eq!(zones.admit(2), Ok(()));
        assert_eq!(zones.get(1), ZoneLimit { limit: 1, count: 0 });
    }
}
