//! What `normal` has learned: stations, where they are, and how long they have been silent.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, Change, MacMove, Operation, Station};

use crate::switch::Switch;

/// A station that a bridge knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownStation {
    /// The station.
    pub station: Station,
    /// The port it is behind.
    pub port: PortId,
    /// The time since it was last heard.
    pub silent_for: Duration,
    /// Whether an operator fixed it to the port.
    pub is_fixed: bool,
}

/// What happened to stations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StationCounters {
    /// Learned of packets.
    pub learned: u64,
    /// Forgotten after a silence.
    pub expired: u64,
    /// Forgotten to make room for others.
    pub evicted: u64,
    /// Seen at another port than before, and learned there.
    pub moved: u64,
    /// Seen at another port than the one they are fixed to.
    pub kept: u64,
}

/// How many stations a bridge has, and what happened to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StationTotals {
    /// Stations that it knows.
    pub known: usize,
    /// The most that it remembers.
    pub capacity: usize,
    /// Of those known, the ones that an operator fixed.
    pub fixed: usize,
    /// What happened to them, since the last reset.
    pub counters: StationCounters,
}

impl Switch {
    /// The stations of a bridge, from the one that was silent for the longest time.
    pub fn stations(&mut self, bridge: BridgeId) -> Vec<KnownStation> {
        self.learn_now();
        let now = self.now();
        self.upkeep.aging().stations(bridge, now)
    }

    /// A station, if its bridge knows it.
    pub fn station(&mut self, station: Station) -> Option<KnownStation> {
        self.learn_now();
        let now = self.now();
        self.upkeep.aging().station(station, now)
    }

    /// How many stations a bridge has, and what happened to them.
    pub fn station_totals(&mut self, bridge: BridgeId) -> StationTotals {
        self.learn_now();
        self.upkeep.aging().totals(bridge)
    }

    /// Sets a bridge's counters of stations to zero; those of all bridges together stay.
    pub fn reset_station_counters(&mut self, bridge: BridgeId) {
        self.upkeep.aging().reset_counters(bridge);
    }

    /// Fixes a station to a port of its bridge: it does not age, and packets do not move it.
    /// Returns false if the bridge has no room for it.
    pub fn fix_station(&mut self, station: Station, port: PortId) -> bool {
        self.learn_now();
        let now = self.now();
        let moves = self.upkeep.aging().fix(station, port, now);
        let is_fixed = moves.is_some();
        self.move_stations(moves.unwrap_or_default());
        is_fixed
    }

    /// Forgets a station that was fixed; returns whether there is one.
    pub fn release_station(&mut self, station: Station) -> bool {
        self.learn_now();
        let moved = self.upkeep.aging().release(station);
        let was_fixed = moved.is_some();
        self.move_stations(moved.into_iter().collect());
        was_fixed
    }

    /// Forgets the stations of a bridge, but not those that are fixed.
    pub fn forget_stations(&mut self, bridge: BridgeId) {
        self.learn_now();
        let moves = self.upkeep.aging().forget_learned(bridge);
        self.move_stations(moves);
    }

    /// Forgets the stations behind ports.
    pub fn forget_stations_behind(&mut self, ports: &BTreeSet<PortId>) {
        self.learn_now();
        let moves = self.upkeep.aging().forget_ports(ports);
        self.move_stations(moves);
    }

    /// Forgets, in the other bridges, the stations that are behind ports: where those went they
    /// may be reached by another way.
    pub fn forget_stations_elsewhere(&mut self, ports: &BTreeSet<PortId>) {
        self.learn_now();
        let moves = self.upkeep.aging().forget_elsewhere(ports);
        self.move_stations(moves);
    }

    /// Sets after which silence the stations of a bridge are forgotten.
    pub fn set_station_aging(&mut self, bridge: BridgeId, after: Duration) {
        self.upkeep.aging().set_aging_time(bridge, after);
    }

    /// Sets the most stations of a bridge, which then makes room for new ones: of the port with
    /// the most stations, the one that was silent for the longest time is forgotten.
    pub fn set_station_capacity(&mut self, bridge: BridgeId, capacity: usize) {
        self.upkeep.aging().set_capacity(bridge, capacity);
    }

    /// Makes stations known that wait for the next change.
    fn learn_now(&mut self) {
        let moves = std::mem::take(&mut self.moves);
        self.move_stations(moves);
    }

    pub(crate) fn move_stations(&mut self, moves: Vec<MacMove>) {
        if !moves.is_empty() {
            self.apply_own(&Change::one(Operation::MoveMacs(moves)), &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_io::MemoryPort;
    use thalweg_pipeline::{BridgeId, Change, text};

    use super::*;
    use crate::{SwitchConfig, SwitchPort};

    #[test]
    fn stations_are_told_and_forgotten_and_caches_emptied() {
        let (one, source) = MemoryPort::new(PortId(1), 64);
        let (two, sink) = MemoryPort::new(PortId(2), 64);
        let ports = vec![
            SwitchPort::new(PortId(1), Box::new(one)),
            SwitchPort::new(PortId(2), Box::new(two)),
        ];
        let mut switch = Switch::start(SwitchConfig::default(), ports).unwrap();
        let rule = text::parse_flow("actions=normal").unwrap();
        switch.apply(&Change::adding([rule])).unwrap();
        let clock = switch.clock();
        clock.stop();
        let mut frame = [0; 60];
        frame[11] = 9;
        let forward = |switch: &mut Switch| {
            assert!(source.inject(&frame));
            while sink.collect().is_empty() {
                switch.poll(Duration::from_millis(1));
            }
            switch.meet_workers();
            switch.poll(Duration::ZERO);
        };
        forward(&mut switch);
        let bridge = BridgeId::default();
        let station = Station {
            bridge,
            vlan: 0,
            mac: 9,
        };
        clock.advance(Duration::from_secs(7));
        let known = KnownStation {
            station,
            port: PortId(1),
            silent_for: Duration::from_secs(7),
            is_fixed: false,
        };
        assert_eq!(switch.stations(bridge), [known]);
        assert_eq!(switch.stations(BridgeId(1)), []);
        let upcalls = |switch: &mut Switch| switch.totals().datapath.upcalls;
        let before = upcalls(&mut switch);
        switch.flush_caches();
        assert_eq!(switch.totals().megaflows, 0);
        forward(&mut switch);
        assert_eq!(upcalls(&mut switch), before + 1);
        switch.set_station_aging(bridge, Duration::from_secs(60));
        clock.advance(Duration::from_secs(61));
        switch.poll(Duration::ZERO);
        assert_eq!(switch.stations(bridge), []);
        forward(&mut switch);
        switch.forget_stations_behind(&[PortId(2)].into());
        assert_eq!(switch.stations(bridge).len(), 1, "it is behind port 1");
        switch.forget_stations_behind(&[PortId(1)].into());
        assert_eq!(switch.stations(bridge), []);
        switch.flush_caches();
        forward(&mut switch);
        assert_eq!(switch.stations(bridge).len(), 1);
        switch.forget_stations(bridge);
        assert_eq!(switch.stations(bridge), []);
        let pipeline = switch.pipeline();
        assert!(
            pipeline
                .macs()
                .stations(pipeline.version())
                .next()
                .is_none()
        );
    }

    #[test]
    fn fixed_stations_send_packets_where_they_are_fixed() {
        let (one, source) = MemoryPort::new(PortId(1), 64);
        let (two, second) = MemoryPort::new(PortId(2), 64);
        let (three, third) = MemoryPort::new(PortId(3), 64);
        let ports = [(1, one), (2, two), (3, three)];
        let ports = ports.map(|(number, port)| SwitchPort::new(PortId(number), Box::new(port)));
        let mut switch = Switch::start(SwitchConfig::default(), ports.into()).unwrap();
        let rule = text::parse_flow("actions=normal").unwrap();
        switch.apply(&Change::adding([rule])).unwrap();
        let mut frame = [0; 60];
        (frame[5], frame[11]) = (8, 9);
        let forward = |switch: &mut Switch| {
            let received = |switch: &mut Switch| switch.totals().datapath.packets;
            let before = received(switch);
            assert!(source.inject(&frame));
            while received(switch) == before {
                switch.poll(Duration::from_millis(1));
            }
            switch.meet_workers();
            switch.poll(Duration::ZERO);
            [second.collect().len(), third.collect().len()]
        };
        let bridge = BridgeId::default();
        let station = |mac| Station {
            bridge,
            vlan: 0,
            mac,
        };
        assert_eq!(forward(&mut switch), [1, 1], "it is flooded");
        assert!(switch.fix_station(station(8), PortId(2)));
        assert_eq!(forward(&mut switch), [1, 0]);
        assert!(switch.fix_station(station(8), PortId(3)));
        assert_eq!(forward(&mut switch), [0, 1]);
        // The sender is fixed elsewhere, and stays there.
        assert!(switch.fix_station(station(9), PortId(2)));
        assert_eq!(forward(&mut switch), [0, 1]);
        assert_eq!(switch.station(station(9)).unwrap().port, PortId(2));
        assert_eq!(switch.station_totals(bridge).fixed, 2);
        assert!(switch.release_station(station(8)));
        assert!(!switch.release_station(station(8)));
        assert_eq!(forward(&mut switch), [1, 1]);
        switch.reset_station_counters(bridge);
        assert_eq!(
            switch.station_totals(bridge).counters,
            StationCounters::default()
        );
        assert!(switch.totals().stations.kept > 0);
    }
}
