//! Gateways that move during a run: roles follow, flows choose again, nothing is lost.

use thalweg_fabric::*;
use thalweg_v2p::{Profile, Role};

/// Two pods of two ToRs and two spines; the last ToR of each has a gateway; four servers a pod.
fn shape() -> FatTree {
    FatTree {
        pods: 2,
        tors_per_pod: 2,
        spines_per_pod: 2,
        core_links_per_spine: 1,
        servers_per_tor: 2,
        gateway_tors: vec![1, 3],
        gateways_per_tor: 1,
    }
}

/// A packet each microsecond, of 40 flows among 16 machines.
fn trace() -> Vec<TraceLine> {
    let line = |number: u32| TraceLine {
        source: number % 8,
        destination: 8 + number * 3 % 8,
        start: Time::from_micros(u64::from(number)),
        flow: number % 40,
        bytes: 64,
    };
    (0..400).map(line).collect()
}

fn config(scheme: Scheme) -> Config {
    let moved = |at, from_tor, to_tor| GatewayMove {
        at: Time::from_micros(at),
        from_tor,
        to_tor,
    };
    Config {
        gateway_moves: vec![moved(200, 3, 1), moved(300, 1, 3)],
        ..Config::artifact(shape(), Placement::even(16, 8), scheme)
    }
}

fn tor_roles(run: &Simulation) -> [bool; 4] {
    [0, 1, 2, 3].map(|number| {
        let class = NodeClass::Tor;
        let name = NodeName { class, number };
        let node = run.topology().node_named(name).expect("a ToR");
        run.topology().kind(node) == NodeKind::Switch(Role::GatewayTor)
    })
}

#[test]
fn roles_follow_the_gateways_and_flows_choose_among_those_at_work() {
    let mut run = Simulation::new(&config(Scheme::NoCache), &trace()).unwrap();
    let links: Vec<PortId> = run
        .topology()
        .gateways()
        .iter()
        .map(|&gateway| run.topology().ports(gateway).next().expect("a link"))
        .collect();
    let sent = |run: &Simulation| [0, 1].map(|link| run.port_counters(links[link]).sent);
    let mut seen = Vec::new();
    while run.step() {
        let now = run.now().as_micros_f64();
        // A gateway holds a packet for 40 µs; packets sent there before a move leave after it.
        for (moment, roles) in [
            (190.0, [false, false, false, true]),
            (290.0, [false, true, false, false]),
            (398.0, [false, false, false, true]),
        ] {
            if now >= moment && seen.iter().all(|(known, _)| *known != moment) {
                assert_eq!(tor_roles(&run), roles, "{now}");
                seen.push((moment, sent(&run)));
            }
        }
        let census = run.census();
        let gone = census.delivered + census.consumed + census.dropped + census.in_flight;
        assert_eq!(census.sent + census.control, gone);
    }
    let [(_, first), (_, second), (_, third)] = seen[..] else {
        panic!("{seen:?}");
    };
    // ToR 1's gateway is idle, then serves everything for 100 µs; the other gateway ends its
    // work.
    assert!(first[0] == 0 && first[1] > 100, "{first:?}");
    assert!(second[0] > 30 && second[1] < first[1] + 60, "{second:?}");
    assert!(third[1] > second[1] + 30, "{third:?}");
    let report = run.report();
    assert_eq!((report.delivered, report.drops.total()), (400, 0));
    assert_eq!(report.gateway_packets, 400);
}

#[test]
fn no_scheme_loses_a_packet_or_takes_a_gateway_for_a_host() {
    let schemes = [
        Scheme::LocalLearning { entries: 64 },
        Scheme::GwCache { entries: 64 },
        Scheme::OnDemand(OnDemand::Artifact),
        Scheme::SwitchV2p(SwitchV2p::new(Profile::Artifact, 64)),
        Scheme::SwitchV2p(SwitchV2p::new(Profile::Paper, 64)),
        Scheme::SwitchV2p(SwitchV2p::new(Profile::Plus, 64)),
    ];
    for scheme in schemes {
        let mut run = Simulation::new(&config(scheme), &trace()).unwrap();
        run.run();
        let report = run.report();
        assert_eq!(
            (report.delivered, report.misdelivered),
            (400, 0),
            "{scheme:?}"
        );
        assert_eq!(report.drops.total(), 0, "{scheme:?}");
        let again = {
            let mut run = Simulation::new(&config(scheme), &trace()).unwrap();
            run.run();
            run.report()
        };
        assert_eq!(report, again);
    }
}

#[test]
fn a_cache_at_the_gateways_begins_anew_where_they_are() {
    let hits = |gateway_moves: Vec<GatewayMove>| {
        let scheme = Scheme::GwCache { entries: 64 };
        let config = Config {
            gateway_moves,
            ..config(scheme)
        };
        let mut run = Simulation::new(&config, &trace()).unwrap();
        run.run();
        run.report().hits_by_layer.tor
    };
    let stays = GatewayMove {
        at: Time::from_micros(10_000),
        from_tor: 3,
        to_tor: 1,
    };
    let moves = config(Scheme::NoCache).gateway_moves;
    // Eight destinations are learned again after each of two moves.
    assert!(hits(moves) < hits(vec![stays]));
}

#[test]
fn moves_that_cannot_be_are_refused() {
    for (from_tor, to_tor) in [(0, 1), (3, 0), (3, 3)] {
        let bad = GatewayMove {
            at: Time::ZERO,
            from_tor,
            to_tor,
        };
        let config = Config {
            gateway_moves: vec![bad],
            ..config(Scheme::NoCache)
        };
        let error = Simulation::new(&config, &trace()).unwrap_err();
        assert_eq!(error, ConfigError::GatewayMove(1));
    }
}
