//! When stations were last seen, and which of them a bridge has room for.
//!
//! The pipeline's MAC table says where stations are, version by version. The times are kept
//! here, so that a packet from a known station at its known port makes no new version.
//!
//! A bridge with a limit of its own makes room for a new station: of the port with the most
//! stations, the one that was silent for the longest time is forgotten. So a port that sends
//! from many addresses pushes out its own. Where only the switch's limit counts, and as its
//! last resort, the new station stays unknown.
//!
//! 1. A station that an operator fixed does not move, age or make room.
//! 2. `seen` and the lists of the bridges have the same stations.
//!
//! Costs: two searches in ordered maps for each report of a station.

mod fullest;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{BridgeId, MacMove, Station};

use self::fullest::Fullest;
use crate::stations::{KnownStation, StationCounters, StationTotals};

/// Time after which a silent station is forgotten (IEEE 802.1Q, table 8-6).
pub(crate) const AGING_TIME: Duration = Duration::from_secs(300);

/// Stations, and when each was last seen.
#[derive(Debug)]
pub(crate) struct Aging {
    seen: HashMap<Station, Sighting, BuildHasherDefault<DefaultHasher>>,
    pub(crate) capacity: usize,
    bridges: BTreeMap<BridgeId, OfBridge>,
    /// The number of the next sighting.
    turn: u64,
    next_check: Instant,
    /// Stations not remembered for lack of room.
    pub(crate) refused: u64,
    /// What happened to the stations of all bridges.
    pub(crate) counters: StationCounters,
}

/// Where and when a station was last seen.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    port: PortId,
    at: Instant,
    /// Its number among all: the order of sightings while the clock stands still.
    turn: u64,
    is_fixed: bool,
}

/// The stations of a bridge.
#[derive(Debug)]
struct OfBridge {
    /// The most stations; without it, only the switch's limit counts.
    capacity: Option<usize>,
    aging_time: Duration,
    /// Of each port, the stations that may make room, by their turns.
    by_port: BTreeMap<PortId, BTreeMap<u64, Station>>,
    /// How many those are.
    fullest: Fullest,
    known: usize,
    fixed: usize,
    counters: StationCounters,
}

impl Default for OfBridge {
    fn default() -> Self {
        OfBridge {
            capacity: None,
            aging_time: AGING_TIME,
            by_port: BTreeMap::new(),
            fullest: Fullest::default(),
            known: 0,
            fixed: 0,
            counters: StationCounters::default(),
        }
    }
}

impl OfBridge {
    fn enter(&mut self, station: Station, sighting: &Sighting) {
        self.known += 1;
        self.fixed += usize::from(sighting.is_fixed);
        if sighting.is_fixed {
            return; // Invariant 1.
        }
        let of_port = self.by_port.entry(sighting.port).or_default();
        of_port.insert(sighting.turn, station);
        self.fullest.set(sighting.port, of_port.len());
    }

    fn leave(&mut self, sighting: &Sighting) {
        self.known -= 1;
        self.fixed -= usize::from(sighting.is_fixed);
        if sighting.is_fixed {
            return;
        }
        let Some(of_port) = self.by_port.get_mut(&sighting.port) else {
            return;
        };
        of_port.remove(&sighting.turn);
        self.fullest.set(sighting.port, of_port.len());
        if of_port.is_empty() {
            self.by_port.remove(&sighting.port);
        }
    }

    /// Records that a station was seen where it was before.
    fn renew(&mut self, station: Station, port: PortId, turns: [u64; 2]) {
        if let Some(of_port) = self.by_port.get_mut(&port) {
            of_port.remove(&turns[0]);
            of_port.insert(turns[1], station);
        }
    }

    /// The station that makes room for another.
    fn most_silent(&self) -> Option<Station> {
        let port = self.fullest.first()?;
        let (_, station) = self.by_port.get(&port)?.first_key_value()?;
        Some(*station)
    }

    fn is_full(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.known >= capacity)
    }
}

impl Aging {
    pub(crate) fn new(capacity: usize) -> Aging {
        Aging {
            seen: HashMap::default(),
            capacity,
            bridges: BTreeMap::new(),
            turn: 0,
            next_check: Instant::ZERO,
            refused: 0,
            counters: StationCounters::default(),
        }
    }

    /// Records that a station was seen; returns the moves if it has moved or is new.
    pub(crate) fn see(&mut self, station: Station, port: PortId, now: Instant) -> Vec<MacMove> {
        let known = self.seen.get(&station).copied();
        match known {
            Some(known) if known.is_fixed => {
                let stays = u64::from(known.port != port);
                self.count(station.bridge, |counters| counters.kept += stays);
                return Vec::new();
            }
            Some(known) => {
                let has_moved = known.port != port;
                self.count(station.bridge, |counters| {
                    counters.moved += u64::from(has_moved);
                });
                self.enter(station, port, now, false);
                return match has_moved {
                    true => vec![moved(station, Some(port))],
                    false => Vec::new(),
                };
            }
            None => {}
        }
        let Some(mut moves) = self.make_room(station.bridge) else {
            self.refused += 1;
            return Vec::new();
        };
        self.count(station.bridge, |counters| counters.learned += 1);
        self.enter(station, port, now, false);
        moves.push(moved(station, Some(port)));
        moves
    }

    /// Fixes a station to a port; `None` if there is no room.
    pub(crate) fn fix(
        &mut self,
        station: Station,
        port: PortId,
        now: Instant,
    ) -> Option<Vec<MacMove>> {
        let mut moves = match self.seen.contains_key(&station) {
            true => Vec::new(),
            false => self.make_room(station.bridge)?,
        };
        self.enter(station, port, now, true);
        moves.push(moved(station, Some(port)));
        Some(moves)
    }

    /// Takes in a station that a former switch had; `None` if there is no room. One that is
    /// known stays where it is.
    pub(crate) fn resume(
        &mut self,
        station: Station,
        port: PortId,
        (seen_at, is_fixed): (Instant, bool),
    ) -> Option<Vec<MacMove>> {
        if self.seen.contains_key(&station) {
            return Some(Vec::new());
        }
        let mut moves = self.make_room(station.bridge)?;
        self.enter(station, port, seen_at, is_fixed);
        moves.push(moved(station, Some(port)));
        Some(moves)
    }

    /// Forgets a station that was fixed; `None` if there is none.
    pub(crate) fn release(&mut self, station: Station) -> Option<MacMove> {
        self.seen.get(&station).filter(|known| known.is_fixed)?;
        self.leave(station)
    }

    /// A station, if it is known.
    pub(crate) fn station(&self, station: Station, now: Instant) -> Option<KnownStation> {
        let known = self.seen.get(&station)?;
        Some(known.told(station, now))
    }

    /// Stations that have been silent for too long; checked once a second.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<MacMove> {
        if now < self.next_check {
            return Vec::new();
        }
        self.next_check = now + Duration::from_secs(1);
        let mut silent = Vec::new();
        for bridge in self.bridges.values() {
            for of_port in bridge.by_port.values() {
                // Turns follow the clock.
                let silent_ones = of_port.values().take_while(|station| {
                    let seen = self.seen.get(station);
                    seen.is_some_and(|seen| now - seen.at >= bridge.aging_time)
                });
                silent.extend(silent_ones.copied());
            }
        }
        for station in &silent {
            self.count(station.bridge, |counters| counters.expired += 1);
        }
        self.forget_all(silent)
    }

    /// Forgets the stations of a bridge that is removed, and its limits.
    pub(crate) fn remove_bridge(&mut self, bridge: BridgeId) {
        self.seen.retain(|station, _| station.bridge != bridge);
        self.bridges.remove(&bridge);
    }

    /// Forgets the stations of a bridge, but not those that are fixed.
    pub(crate) fn forget_learned(&mut self, bridge: BridgeId) -> Vec<MacMove> {
        let of_bridge = self.bridges.get(&bridge);
        let learned = of_bridge.into_iter().flat_map(|known| {
            let ports = known.by_port.values();
            ports.flat_map(|of_port| of_port.values().copied())
        });
        let learned = learned.collect();
        self.forget_all(learned)
    }

    /// Forgets the stations behind ports that are gone, fixed ones too.
    pub(crate) fn forget_ports(&mut self, ports: &BTreeSet<PortId>) -> Vec<MacMove> {
        let behind = self.behind(ports);
        self.forget_all(behind)
    }

    /// Forgets, in other bridges, the stations that are also behind one of these ports.
    pub(crate) fn forget_elsewhere(&mut self, ports: &BTreeSet<PortId>) -> Vec<MacMove> {
        let bridges: Vec<BridgeId> = self.bridges.keys().copied().collect();
        let behind = self.behind(ports);
        let elsewhere = behind.into_iter().flat_map(|station| {
            let others = bridges
                .iter()
                .filter(move |other| **other != station.bridge);
            others.map(move |bridge| Station {
                bridge: *bridge,
                ..station
            })
        });
        let elsewhere: Vec<Station> = elsewhere.collect();
        self.forget_all(elsewhere)
    }

    /// The stations of a bridge, from the one that was silent for the longest time.
    pub(crate) fn stations(&self, bridge: BridgeId, now: Instant) -> Vec<KnownStation> {
        let mut of_bridge: Vec<_> = self
            .seen
            .iter()
            .filter(|(station, _)| station.bridge == bridge)
            .collect();
        of_bridge.sort_unstable_by_key(|(_, sighting)| sighting.turn);
        let stations = of_bridge.into_iter();
        stations
            .map(|(station, sighting)| sighting.told(*station, now))
            .collect()
    }

    /// How many stations a bridge has, and what happened to them.
    pub(crate) fn totals(&self, bridge: BridgeId) -> StationTotals {
        let none = OfBridge::default();
        let known = self.bridges.get(&bridge).unwrap_or(&none);
        StationTotals {
            known: known.known,
            capacity: known.capacity.unwrap_or(self.capacity),
            fixed: known.fixed,
            counters: known.counters,
        }
    }

    /// Sets what a bridge has counted to zero; the switch's totals stay.
    pub(crate) fn reset_counters(&mut self, bridge: BridgeId) {
        self.bridges.entry(bridge).or_default().counters = StationCounters::default();
    }

    /// Sets after which silence the stations of a bridge are forgotten.
    pub(crate) fn set_aging_time(&mut self, bridge: BridgeId, after: Duration) {
        self.bridges.entry(bridge).or_default().aging_time = after;
    }

    /// Sets the most stations of a bridge. Those beyond it stay until others need room.
    pub(crate) fn set_capacity(&mut self, bridge: BridgeId, capacity: usize) {
        self.bridges.entry(bridge).or_default().capacity = Some(capacity);
    }

    /// Makes room for one more station of a bridge; `None` if there is none.
    fn make_room(&mut self, bridge: BridgeId) -> Option<Vec<MacMove>> {
        let mut moves = Vec::new();
        while self.bridges.entry(bridge).or_default().is_full() {
            let silent = self.bridges[&bridge].most_silent()?;
            self.count(bridge, |counters| counters.evicted += 1);
            moves.extend(self.leave(silent));
        }
        (self.seen.len() < self.capacity).then_some(moves)
    }

    fn enter(&mut self, station: Station, port: PortId, at: Instant, is_fixed: bool) {
        let sighting = Sighting {
            port,
            at,
            turn: self.turn,
            is_fixed,
        };
        self.turn += 1;
        let bridge = self.bridges.entry(station.bridge).or_default();
        let before = self.seen.insert(station, sighting);
        match before {
            Some(before) if before.port == port && !before.is_fixed && !is_fixed => {
                bridge.renew(station, port, [before.turn, sighting.turn]);
            }
            before => {
                before.iter().for_each(|before| bridge.leave(before));
                bridge.enter(station, &sighting);
            }
        }
    }

    fn leave(&mut self, station: Station) -> Option<MacMove> {
        let sighting = self.seen.remove(&station)?;
        if let Some(bridge) = self.bridges.get_mut(&station.bridge) {
            bridge.leave(&sighting);
        }
        Some(moved(station, None))
    }

    /// Forgets those of the stations that are known, and tells them in their order.
    fn forget_all(&mut self, mut stations: Vec<Station>) -> Vec<MacMove> {
        stations.sort_unstable();
        let stations = stations.into_iter();
        stations.filter_map(|station| self.leave(station)).collect()
    }

    fn behind(&self, ports: &BTreeSet<PortId>) -> Vec<Station> {
        let seen = self.seen.iter();
        let seen = seen.filter(|(_, known)| ports.contains(&known.port));
        seen.map(|(station, _)| *station).collect()
    }

    fn count(&mut self, bridge: BridgeId, count: impl Fn(&mut StationCounters)) {
        count(&mut self.counters);
        count(&mut self.bridges.entry(bridge).or_default().counters);
    }
}

impl Sighting {
    fn told(&self, station: Station, now: Instant) -> KnownStation {
        KnownStation {
            station,
            port: self.port,
            silent_for: now - self.at,
            is_fixed: self.is_fixed,
        }
    }
}

fn moved(station: Station, port: Option<PortId>) -> MacMove {
    MacMove { station, port }
}

#[cfg(test)]
mod tests;
