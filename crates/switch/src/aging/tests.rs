use super::*;

fn station(mac: u64) -> Station {
    of_bridge(0, mac)
}

fn of_bridge(bridge: u16, mac: u64) -> Station {
    Station {
        bridge: BridgeId(bridge),
        vlan: 1,
        mac,
    }
}

fn seconds(count: u64) -> Instant {
    Instant::from_nanos(1) + Duration::from_secs(count)
}

fn learned(mac: u64, port: u32) -> MacMove {
    moved(station(mac), Some(PortId(port)))
}

fn forgotten(mac: u64) -> MacMove {
    moved(station(mac), None)
}

#[test]
fn only_news_are_reported_and_silence_forgets() {
    let mut aging = Aging::new(2);
    let one = station(1);
    assert_eq!(aging.see(one, PortId(1), seconds(0)), [learned(1, 1)]);
    assert_eq!(aging.see(one, PortId(1), seconds(0)), []);
    assert_eq!(aging.see(one, PortId(2), seconds(0)), [learned(1, 2)]);
    assert_eq!(aging.see(station(2), PortId(2), seconds(290)).len(), 1);
    let third = aging.see(station(3), PortId(2), seconds(290));
    assert_eq!(third, [], "there is no room");
    assert_eq!(aging.refused, 1);
    assert_eq!(aging.expire(seconds(300)), [forgotten(1)]);
    assert_eq!(aging.expire(seconds(600)), [forgotten(2)]);
    let StationCounters {
        learned,
        expired,
        evicted,
        moved,
        kept,
    } = aging.counters;
    assert_eq!([learned, expired, evicted, moved, kept], [2, 2, 0, 1, 0]);
}

#[test]
fn the_port_with_the_most_stations_makes_room() {
    let mut aging = Aging::new(100);
    aging.set_capacity(BridgeId(0), 4);
    for (second, (mac, port)) in [(1, 1), (2, 2), (3, 2), (4, 2)].into_iter().enumerate() {
        aging.see(station(mac), PortId(port), seconds(second as u64));
    }
    // It is heard again, so that another is the most silent.
    aging.see(station(2), PortId(2), seconds(5));
    let moves = aging.see(station(5), PortId(3), seconds(5));
    assert_eq!(moves, [forgotten(3), learned(5, 3)]);
    let moves = aging.see(station(6), PortId(3), seconds(6));
    assert_eq!(moves, [forgotten(4), learned(6, 3)]);
    assert_eq!(aging.totals(BridgeId(0)).counters.evicted, 2);
    // A bridge without a limit has the switch's.
    for mac in 0..96 {
        assert_eq!(aging.see(of_bridge(1, mac), PortId(9), seconds(7)).len(), 1);
    }
    assert_eq!(aging.see(of_bridge(1, 96), PortId(9), seconds(7)), []);
    assert_eq!((aging.refused, aging.totals(BridgeId(1)).known), (1, 96));
}

#[test]
fn fixed_stations_stay_where_they_are() {
    let mut aging = Aging::new(100);
    aging.set_capacity(BridgeId(0), 2);
    aging.see(station(1), PortId(1), seconds(0));
    let moves = aging.fix(station(1), PortId(2), seconds(0));
    assert_eq!(moves, Some(vec![learned(1, 2)]));
    assert_eq!(aging.see(station(1), PortId(1), seconds(1)), []);
    assert_eq!(aging.counters.kept, 1);
    aging.see(station(2), PortId(1), seconds(1));
    // The learned one makes room; then only fixed ones are left.
    let moves = aging.fix(station(3), PortId(1), seconds(2));
    assert_eq!(moves, Some(vec![forgotten(2), learned(3, 1)]));
    assert_eq!(aging.fix(station(4), PortId(1), seconds(2)), None);
    assert_eq!(aging.see(station(5), PortId(1), seconds(2)), []);
    assert_eq!(aging.refused, 1);
    assert_eq!(aging.expire(seconds(4_000)), []);
    assert_eq!(aging.forget_learned(BridgeId(0)), []);
    let told = aging.stations(BridgeId(0), seconds(4_000));
    let told: Vec<_> = told
        .iter()
        .map(|known| (known.station.mac, known.is_fixed))
        .collect();
    assert_eq!(told, [(1, true), (3, true)]);
    assert_eq!(aging.release(station(2)), None);
    assert_eq!(aging.release(station(1)), Some(forgotten(1)));
    assert_eq!(aging.totals(BridgeId(0)).fixed, 1);
    assert_eq!(aging.forget_ports(&[PortId(1)].into()), [forgotten(3)]);
    assert_eq!(aging.totals(BridgeId(0)).known, 0);
}

#[test]
fn a_station_of_a_port_is_forgotten_in_other_bridges() {
    let mut aging = Aging::new(100);
    for (bridge, mac, port) in [(0, 1, 1), (1, 1, 7), (1, 2, 7), (2, 1, 8)] {
        aging.see(of_bridge(bridge, mac), PortId(port), seconds(0));
    }
    let elsewhere = [1, 2].map(|bridge| moved(of_bridge(bridge, 1), None));
    assert_eq!(aging.forget_elsewhere(&[PortId(1)].into()), elsewhere);
    assert_eq!(aging.stations(BridgeId(0), seconds(0)).len(), 1);
    assert_eq!(aging.stations(BridgeId(1), seconds(0)).len(), 1);
}

/// Invariant 2, after random steps.
#[test]
fn lists_and_stations_agree() {
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut aging = Aging::new(40);
    aging.set_capacity(BridgeId(0), 10);
    aging.set_capacity(BridgeId(1), 20);
    for step in 0..20_000 {
        let station = of_bridge(next(3) as u16, next(40));
        let (port, now) = (PortId(next(5) as u32), seconds(step));
        match next(20) {
            0 => drop(aging.fix(station, port, now)),
            1 => drop(aging.release(station)),
            2 if next(10) == 0 => drop(aging.forget_ports(&[port].into())),
            3 if next(10) == 0 => drop(aging.forget_learned(station.bridge)),
            4 if next(10) == 0 => drop(aging.forget_elsewhere(&[port].into())),
            5 => drop(aging.expire(now)),
            _ => drop(aging.see(station, port, now)),
        }
        assert!(aging.seen.len() <= aging.capacity);
        for (id, bridge) in &aging.bridges {
            let of_bridge = || {
                aging
                    .seen
                    .iter()
                    .filter(|(station, _)| station.bridge == *id)
            };
            assert_eq!(of_bridge().count(), bridge.known);
            assert!(
                bridge
                    .capacity
                    .is_none_or(|capacity| bridge.known <= capacity)
            );
            let listed = |(station, sighting): (&Station, &Sighting)| {
                let of_port = bridge.by_port.get(&sighting.port);
                let found = of_port.and_then(|of_port| of_port.get(&sighting.turn));
                assert_eq!(found == Some(station), !sighting.is_fixed);
            };
            of_bridge().for_each(listed);
            let ports = bridge.by_port.iter();
            let counts: BTreeMap<PortId, usize> = ports
                .map(|(port, of_port)| (*port, of_port.len()))
                .collect();
            assert_eq!(counts, bridge.fullest.checked());
            assert_eq!(counts.values().sum::<usize>() + bridge.fixed, bridge.known);
        }
    }
    let counted = aging.counters;
    assert!(
        counted.evicted > 100 && counted.moved > 100 && counted.kept > 100,
        "{counted:?}"
    );
}
