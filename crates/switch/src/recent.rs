//! Stations that a worker has recently reported, so that a flood of packets causes no flood of
//! reports.
//!
//! With every packet, `normal` tells where the sender is. The control side needs to know when
//! that is news, and every few seconds that the station is not silent. A worker keeps a table
//! in which each station has one place, by its hash; a station whose place holds another is
//! reported again.
//!
//! 1. A station that a change has moved or forgotten is news again.
//! 2. A station is news again [`REFRESH`] after its last report, which makes up for lost
//!    reports.
//!
//! Costs: 32 bytes per place; one hash and one comparison for each packet that teaches.

use std::time::Duration;

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{LearnedRule, Station};

/// Places of the table; a power of two.
const PLACES: usize = 4_096;

/// Time after which a station is reported again; far less than the aging time.
const REFRESH: Duration = Duration::from_secs(5);

/// The recent reports.
#[derive(Debug)]
pub(crate) struct Recent {
    places: Vec<Option<(Station, PortId, Instant)>>,
}

impl Recent {
    pub(crate) fn new() -> Recent {
        Recent {
            places: vec![None; PLACES],
        }
    }

    /// Whether a sighting must be reported; if so, records it as reported.
    pub(crate) fn is_news(&mut self, station: Station, port: PortId, now: Instant) -> bool {
        let place = &mut self.places[place_of(station)];
        let is_known = place.is_some_and(|(known, known_port, since)| {
            known == station && known_port == port && now - since < REFRESH
        });
        if !is_known {
            *place = Some((station, port, now));
        }
        !is_known
    }

    /// Makes a station news again.
    pub(crate) fn forget(&mut self, station: Station) {
        let place = &mut self.places[place_of(station)];
        if place.is_some_and(|(known, _, _)| known == station) {
            *place = None;
        }
    }
}

/// Rules that a worker has recently reported as taught by packets: the same for `learn`.
///
/// 1. A rule is news again once a change has ended rules, as it may be among them.
/// 2. A rule is news again [`REFRESH_RULE`] after its last report, as its hard timeout counts from
///    the last packet.
#[derive(Debug, Default)]
pub(crate) struct RecentRules {
    /// Empty until a packet teaches a rule.
    places: Vec<Option<RecentRule>>,
    /// How often all was forgotten.
    age: u64,
}

/// A rule that was reported.
#[derive(Clone, Copy, Debug)]
struct RecentRule {
    place_hash: u64,
    whole_hash: u64,
    age: u64,
    told_at: Instant,
}

/// Time after which a rule is reported again; timeouts are whole seconds.
const REFRESH_RULE: Duration = Duration::from_millis(500);

impl RecentRules {
    /// Whether a rule must be reported; if so, records it as reported.
    pub(crate) fn is_news(&mut self, rule: &LearnedRule, now: Instant) -> bool {
        if self.places.is_empty() {
            self.places = vec![None; PLACES];
        }
        let place = &mut self.places[rule.place_hash as usize % PLACES];
        let is_known = place.is_some_and(|known| {
            (known.place_hash, known.whole_hash) == (rule.place_hash, rule.whole_hash)
                && known.age == self.age
                && now - known.told_at < REFRESH_RULE
        });
        if !is_known {
            *place = Some(RecentRule {
                place_hash: rule.place_hash,
                whole_hash: rule.whole_hash,
                age: self.age,
                told_at: now,
            });
        }
        !is_known
    }

    /// Makes all rules news again.
    pub(crate) fn forget_all(&mut self) {
        self.age += 1;
    }
}

/// A station's place: the high bits of a product with 2^64 over the golden ratio.
fn place_of(station: Station) -> usize {
    let word = station.mac | u64::from(station.vlan) << 48;
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_pipeline::BridgeId;

    #[test]
    fn a_station_is_news_once_until_it_moves_or_time_passes() {
        let mut recent = Recent::new();
        let station = Station {
            bridge: BridgeId::default(),
            vlan: 1,
            mac: 2,
        };
        let start = Instant::from_nanos(1);
        assert!(recent.is_news(station, PortId(1), start));
        assert!(!recent.is_news(station, PortId(1), start + Duration::from_secs(4)));
        assert!(recent.is_news(station, PortId(2), start));
        assert!(!recent.is_news(station, PortId(2), start));
        recent.forget(Station {
            bridge: BridgeId::default(),
            vlan: 2,
            mac: 2,
        });
        assert!(!recent.is_news(station, PortId(2), start));
        recent.forget(station);
        assert!(recent.is_news(station, PortId(2), start));
        assert!(recent.is_news(station, PortId(2), start + REFRESH));
    }
}
