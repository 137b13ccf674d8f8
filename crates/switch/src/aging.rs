//! When stations were last seen; `normal` forgets a station after a silence.
//!
//! The pipeline's MAC table says where stations are, version by version. The times are kept
//! here, so that a packet from a known station at its known port makes no new version.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{BridgeId, MacMove, Station};

/// Time after which a silent station is forgotten (IEEE 802.1Q, table 8-6).
pub(crate) const AGING_TIME: Duration = Duration::from_secs(300);

/// Stations, and when each was last seen.
#[derive(Debug)]
pub(crate) struct Aging {
    seen: HashMap<Station, (PortId, Instant), BuildHasherDefault<DefaultHasher>>,
    pub(crate) capacity: usize,
    /// The aging time of bridges that have another than [`AGING_TIME`].
    pub(crate) times: BTreeMap<BridgeId, Duration>,
    next_check: Instant,
    /// Stations not remembered for lack of room.
    pub(crate) refused: u64,
}

impl Aging {
    pub(crate) fn new(capacity: usize) -> Aging {
        Aging {
            seen: HashMap::default(),
            capacity,
            times: BTreeMap::new(),
            next_check: Instant::ZERO,
            refused: 0,
        }
    }

    /// Records that a station was seen; returns its move if it has moved or is new.
    pub(crate) fn see(&mut self, station: Station, port: PortId, now: Instant) -> Option<MacMove> {
        if let Some(known) = self.seen.get_mut(&station) {
            let has_moved = known.0 != port;
            *known = (port, now);
            return has_moved.then_some(MacMove {
                station,
                port: Some(port),
            });
        }
        if self.seen.len() >= self.capacity {
            self.refused += 1;
            return None;
        }
        self.seen.insert(station, (port, now));
        Some(MacMove {
            station,
            port: Some(port),
        })
    }

    /// Stations that have been silent for too long; checked once a second.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<MacMove> {
        if now < self.next_check {
            return Vec::new();
        }
        self.next_check = now + Duration::from_secs(1);
        let times = std::mem::take(&mut self.times);
        let moves = self.forget(|station, (_, seen)| {
            now - *seen >= *times.get(&station.bridge).unwrap_or(&AGING_TIME)
        });
        self.times = times;
        moves
    }

    /// Forgets the stations of a bridge.
    pub(crate) fn forget_bridge(&mut self, bridge: BridgeId) {
        self.seen.retain(|station, _| station.bridge != bridge);
    }

    /// Forgets the stations behind a port that is gone.
    pub(crate) fn forget_port(&mut self, port: PortId) -> Vec<MacMove> {
        self.forget(|_, (at, _)| *at == port)
    }

    /// The stations of a bridge, with the time since they were last seen, in their order.
    pub(crate) fn stations(
        &self,
        bridge: BridgeId,
        now: Instant,
    ) -> Vec<(Station, PortId, Duration)> {
        let of_bridge = self
            .seen
            .iter()
            .filter(|(station, _)| station.bridge == bridge);
        let mut stations: Vec<_> = of_bridge
            .map(|(station, (port, seen))| (*station, *port, now - *seen))
            .collect();
        stations.sort_by_key(|(station, ..)| *station);
        stations
    }

    /// Forgets some stations, and tells them in their order.
    pub(crate) fn forget(
        &mut self,
        mut is_meant: impl FnMut(&Station, &(PortId, Instant)) -> bool,
    ) -> Vec<MacMove> {
        let meant = self.seen.extract_if(|station, at| is_meant(station, at));
        let mut moves: Vec<MacMove> = meant
            .map(|(station, _)| MacMove {
                station,
                port: None,
            })
            .collect();
        moves.sort_by_key(|moved| moved.station);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(mac: u64) -> Station {
        Station {
            bridge: BridgeId::default(),
            vlan: 1,
            mac,
        }
    }

    #[test]
    fn only_news_are_reported_and_silence_forgets() {
        let mut aging = Aging::new(2);
        let start = Instant::from_nanos(1);
        assert!(aging.see(station(1), PortId(1), start).is_some());
        assert!(aging.see(station(1), PortId(1), start).is_none());
        assert!(aging.see(station(1), PortId(2), start).is_some());
        let later = start + Duration::from_secs(290);
        assert!(aging.see(station(2), PortId(2), later).is_some());
        assert!(
            aging.see(station(3), PortId(2), later).is_none(),
            "there is no room"
        );
        assert_eq!(aging.refused, 1);
        let end = start + AGING_TIME;
        assert_eq!(
            aging.expire(end),
            [MacMove {
                station: station(1),
                port: None
            }]
        );
        assert_eq!(
            aging.forget_port(PortId(2)),
            [MacMove {
                station: station(2),
                port: None
            }]
        );
    }
}
