//! What `normal` has learned: stations, where they are, and how long they have been silent.

use std::time::Duration;

use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, Change, Operation, Station};

use crate::switch::Switch;

impl Switch {
    /// The stations of a bridge with their ports and the time since they were last heard, by
    /// VLAN and address.
    pub fn stations(&mut self, bridge: BridgeId) -> Vec<(Station, PortId, Duration)> {
        self.learn_now();
        let now = self.now();
        self.upkeep.stations(bridge, now)
    }

    /// Forgets the stations of a bridge.
    pub fn forget_stations(&mut self, bridge: BridgeId) {
        self.learn_now();
        let moves = self.upkeep.forget_stations(bridge);
        if !moves.is_empty() {
            self.apply_own(&Change::one(Operation::MoveMacs(moves)), &[]);
        }
    }

    /// Forgets the stations behind a port.
    pub fn forget_stations_behind(&mut self, port: PortId) {
        self.learn_now();
        let moves = self.upkeep.forget_stations_behind(port);
        if !moves.is_empty() {
            self.apply_own(&Change::one(Operation::MoveMacs(moves)), &[]);
        }
    }

    /// Sets after which silence the stations of a bridge are forgotten.
    pub fn set_station_aging(&mut self, bridge: BridgeId, after: Duration) {
        self.upkeep.set_station_aging(bridge, after);
    }

    /// Makes stations known that wait for the next change.
    fn learn_now(&mut self) {
        if !self.moves.is_empty() {
            let moves = std::mem::take(&mut self.moves);
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
        let known = switch.stations(bridge);
        assert_eq!(known, [(station, PortId(1), Duration::from_secs(7))]);
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
        switch.forget_stations_behind(PortId(2));
        assert_eq!(switch.stations(bridge).len(), 1, "it is behind port 1");
        switch.forget_stations_behind(PortId(1));
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
}
