//! Failing links and switches: detours, losses, and their counters.

use thalweg_fabric::*;

/// Two pods of two ToRs and two spines; the last ToR has a gateway; a machine on each of 8
/// servers.
fn small() -> FatTree {
    FatTree {
        pods: 2,
        tors_per_pod: 2,
        spines_per_pod: 2,
        core_links_per_spine: 1,
        servers_per_tor: 2,
        gateway_tors: vec![3],
        gateways_per_tor: 1,
    }
}

/// Cores 0 and 1, spines 2 to 5, ToRs 6 to 9, then endpoints.
const SPINES: [NodeId; 2] = [NodeId(2), NodeId(3)];
const TOR: NodeId = NodeId(6);
const SERVER: NodeId = NodeId(10);

fn config(failures: Vec<Failure>) -> Config {
    Config {
        failures,
        ecmp: Ecmp::PerFlow { seed: 1 },
        ..Config::artifact(small(), Placement::even(8, 8), Scheme::Direct)
    }
}

/// A packet each microsecond from machine 0 to the other pod, each of another flow.
fn packets(count: u32) -> Vec<TraceLine> {
    let line = |number: u32| TraceLine {
        source: 0,
        destination: 5,
        start: Time::from_micros(u64::from(number)),
        flow: number,
        bytes: 64,
    };
    (0..count).map(line).collect()
}

fn fails(element: Element, at: u64, until: Option<u64>) -> Failure {
    Failure {
        element,
        at: Time::from_micros(at),
        until: until.map(Time::from_micros),
    }
}

fn run(config: &Config, trace: &[TraceLine]) -> Simulation {
    let mut run = Simulation::new(config, trace).unwrap();
    while run.step() {
        let census = run.census();
        let gone = census.delivered + census.consumed + census.dropped + census.in_flight;
        assert_eq!(census.sent + census.control, gone);
    }
    run
}

fn sent_by(run: &Simulation, from: NodeId, to: NodeId) -> u64 {
    let mut ports = run.topology().ports(from);
    let port = ports.find(|&port| run.topology().peer(port) == to).unwrap();
    run.port_counters(port).sent
}

#[test]
fn others_go_round_a_failed_link() {
    let link = Element::Link(SPINES[0], TOR);
    let whole = run(&config(vec![]), &packets(200));
    let ways = SPINES.map(|spine| sent_by(&whole, TOR, spine));
    assert!(ways[0] > 50 && ways[1] > 50, "{ways:?}");
    let run = run(&config(vec![fails(link, 100, None)]), &packets(200));
    let round = SPINES.map(|spine| sent_by(&run, TOR, spine));
    assert!(round[0] < ways[0] && round[1] > ways[1]);
    let report = run.report();
    assert_eq!(report.delivered + report.drops.total(), 200);
    // Only packets on the wire at 100 µs: one at most.
    assert!(report.drops.of(Drop::LinkDown) <= 1);
    assert_eq!(report.drops.total(), report.drops.of(Drop::LinkDown));
    assert_eq!(report.stretch, 5.0);
}

#[test]
fn before_routes_follow_packets_run_into_the_failure() {
    let link = Element::Link(TOR, SPINES[0]);
    let mut config = config(vec![fails(link, 100, Some(150))]);
    config.reroute_after = Time::from_micros(20);
    let run = run(&config, &packets(200));
    let lost = run.report().drops.of(Drop::LinkDown);
    // About half of 20 packets. The repaired link stays unused for another 20 µs, which loses
    // nothing.
    assert!((5..=15).contains(&lost), "{lost}");
    let ports = (0..run.topology().port_count() as u32).map(PortId);
    let counters = ports.map(|port| run.port_counters(port));
    let counted: u64 = counters
        .map(|counters| counters.refused + counters.lost)
        .sum();
    assert_eq!(counted, lost);
}

#[test]
fn a_failed_spine_is_gone_round_and_comes_back() {
    let spine = Element::Switch(SPINES[1]);
    let run = run(&config(vec![fails(spine, 50, Some(150))]), &packets(200));
    let report = run.report();
    assert!(report.drops.of(Drop::LinkDown) <= 2);
    assert_eq!(report.delivered + report.drops.total(), 200);
    let used = sent_by(&run, TOR, SPINES[1]);
    assert!(
        (30..=70).contains(&used),
        "of the first and the last 50 packets: {used}"
    );
}

#[test]
fn what_cannot_be_reached_is_dropped_with_the_reason() {
    let alone = fails(Element::Switch(TOR), 100, None);
    let report = run(&config(vec![alone]), &packets(200)).report();
    assert_eq!(report.delivered + report.drops.total(), 200);
    assert!(report.drops.of(Drop::LinkDown) >= 99);
    // The destination's ToR has failed, so there is no route to it.
    let far = fails(Element::Switch(NodeId(8)), 100, None);
    let report = run(&config(vec![far]), &packets(200)).report();
    assert!(report.drops.of(Drop::NoRoute) >= 95, "{:?}", report.drops);
}

#[test]
fn two_failures_of_one_link_end_with_the_later() {
    let failures = vec![
        fails(Element::Link(SERVER, TOR), 50, Some(100)),
        fails(Element::Switch(TOR), 80, Some(120)),
    ];
    let report = run(&config(failures), &packets(200)).report();
    // From 50 to 120 µs, and the packets under way behind the ToR at 80 µs.
    let lost = report.drops.of(Drop::LinkDown);
    assert!((70..=73).contains(&lost), "{lost}");
}

#[test]
fn a_packet_of_a_failed_link_does_not_arrive_though_it_is_mended_first() {
    // The packet is on the server's link from 0 to 1 µs; the link fails for 100 ns of that
    // time.
    let link = Element::Link(SERVER, TOR);
    let failure = Failure {
        element: link,
        at: Time::from_nanos(400),
        until: Some(Time::from_nanos(500)),
    };
    let report = run(&config(vec![failure]), &packets(2)).report();
    assert_eq!((report.delivered, report.drops.of(Drop::LinkDown)), (1, 1));
}

#[test]
fn tcp_gets_through_failures() {
    let trace: Vec<TraceLine> = (0..40)
        .map(|flow| TraceLine {
            source: flow % 4,
            destination: 4 + flow % 4,
            start: Time::from_micros(u64::from(flow)),
            flow,
            bytes: 400_000,
        })
        .collect();
    let failures = vec![
        fails(Element::Switch(SPINES[0]), 30, Some(400)),
        fails(Element::Link(SERVER, TOR), 100, Some(130)),
    ];
    let config = Config {
        transport: Transport::Tcp(TcpConfig::modern()),
        ..config(failures)
    };
    let report = run(&config, &trace).report();
    assert!(report.drops.of(Drop::LinkDown) > 10, "{:?}", report.drops);
    assert_eq!(
        (report.connections_finished, report.connections_failed),
        (40, 0)
    );
}

#[test]
fn failures_of_nothing_are_refused_with_what_to_name() {
    let refused = |failure| {
        let error = Simulation::new(&config(vec![failure]), &[]).unwrap_err();
        error.to_string()
    };
    let text = "failure 1: there is no such link or switch, or it ends before it begins; name two \
                nodes that are linked, or a switch, and a later end";
    assert_eq!(refused(fails(Element::Link(TOR, NodeId(0)), 1, None)), text);
    assert_eq!(refused(fails(Element::Switch(SERVER), 1, None)), text);
    assert_eq!(refused(fails(Element::Switch(TOR), 5, Some(5))), text);
}
