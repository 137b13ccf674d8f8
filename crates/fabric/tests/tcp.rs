//! TCP in small fabrics: conservation, losses, moves, marks, randomness.

mod small;

use expect_test::expect;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_fabric::*;
use thalweg_v2p::Profile;

use small::small;

fn config(scheme: Scheme, tcp: TcpConfig) -> Config {
    Config {
        transport: Transport::Tcp(tcp),
        ..Config::artifact(small(), Placement::even(32, 8), scheme)
    }
}

fn v2p(entries: u32) -> Scheme {
    Scheme::SwitchV2p(SwitchV2p {
        learning_probability: 0.2,
        ..SwitchV2p::new(Profile::Artifact, entries)
    })
}

/// Flows of random pairs, 400 ns apart in the mean, of up to `most` bytes, mostly small.
fn flows(seed: u64, count: u32, most: u64) -> Vec<TraceLine> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut start = Time::ZERO;
    let mut line = |flow| {
        start += Time::from_nanos(random.random_range(0..800));
        let small = random.random_bool(0.7);
        TraceLine {
            source: random.random_range(0..32),
            destination: random.random_range(0..32),
            start,
            flow,
            bytes: random.random_range(1..=if small { 4_000.min(most) } else { most }),
        }
    };
    (1..=count).map(&mut line).collect()
}

fn run(config: &Config, trace: &[TraceLine]) -> Simulation {
    let mut run = Simulation::new(config, trace).unwrap();
    run.run();
    run
}

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::NewReno,
    Algorithm::Cubic,
    Algorithm::CubicNs3,
    Algorithm::Dctcp,
];

fn settings() -> impl Iterator<Item = TcpConfig> {
    let detections = [LossDetection::Duplicates(3), LossDetection::RackTlp];
    ALGORITHMS.into_iter().flat_map(move |algorithm| {
        detections.into_iter().map(move |loss_detection| TcpConfig {
            algorithm,
            loss_detection,
            ..TcpConfig::modern()
        })
    })
}

/// A fabric with slow edges, short queues and marks, so that packets are dropped and marked.
fn narrow(scheme: Scheme, tcp: TcpConfig) -> Config {
    let mut config = config(scheme, tcp);
    config.edge_link.rate_bps = 10_000_000_000;
    config.edge_link.queue_bytes = 60_000;
    config.edge_link.mark_bytes = 20_000;
    config
}

#[test]
fn one_flow_takes_five_trips() {
    let trace = [TraceLine {
        source: 0,
        destination: 16,
        start: Time::from_micros(3),
        flow: 9,
        bytes: 500,
    }];
    let report = run(&config(Scheme::Direct, TcpConfig::artifact()), &trace).report();
    // Six links of 1 µs a trip, and some nanoseconds of sending time.
    assert!(
        (30.0..30.5).contains(&report.mean_fct_us),
        "{}",
        report.mean_fct_us
    );
    assert!((6.0..6.1).contains(&report.mean_first_packet_us));
    assert_eq!((report.packets_sent, report.packet_hops), (7, 35));
    assert_eq!((report.connections_finished, report.timeouts), (1, 0));
    let slow = run(&config(Scheme::NoCache, TcpConfig::artifact()), &trace).report();
    assert_eq!((slow.packets_sent, slow.gateway_packets), (7, 7));
    assert!(slow.mean_fct_us > 5.0 * 40.0);
}

#[test]
fn nothing_is_lost_without_a_reason_and_every_flow_ends() {
    for tcp in settings() {
        for scheme in [Scheme::NoCache, Scheme::Direct, v2p(8)] {
            let mut config = narrow(scheme, tcp);
            for (machine, to_server) in [(0, 5), (1, 7), (0, 2)] {
                let at = Time::from_micros(20 + 15 * u64::from(to_server));
                config.migrations.push(Migration {
                    machine,
                    at,
                    to_server,
                });
            }
            let trace = flows(3, 400, 200_000);
            let mut run = Simulation::new(&config, &trace).unwrap();
            while run.step() {
                let census = run.census();
                assert_eq!(
                    census.sent + census.control,
                    census.delivered + census.consumed + census.dropped + census.in_flight,
                );
            }
            let (census, report) = (run.census(), run.report());
            assert_eq!(census.in_flight, 0);
            let ports = (0..run.topology().port_count() as u32).map(PortId);
            let full: u64 = ports.map(|port| run.port_counters(port).dropped).sum();
            assert_eq!(full, report.drops.of(Drop::QueueFull));
            assert_eq!(report.drops.total(), full, "{tcp:?}: {:?}", report.drops);
            assert!(full > 0 && report.retransmitted > 0, "{tcp:?}");
            let ended = report.connections_finished + report.connections_failed;
            assert_eq!(ended, 400, "{tcp:?} {scheme:?}");
            assert_eq!(report.connections_failed, 0, "{tcp:?} {scheme:?}");
        }
    }
}

/// The results of every transport on one trace: refreshed by `UPDATE_EXPECT=1`.
#[test]
fn the_table_of_transports() {
    let mut table = String::new();
    for tcp in settings() {
        let report = run(&narrow(v2p(16), tcp), &flows(9, 600, 300_000)).report();
        table += &format!(
            "{:?} {:?}: {} sent, {} dropped, {} again, {} timeouts, {} recoveries, {} reordered, \
             {:.3} µs a flow\n",
            tcp.algorithm,
            tcp.loss_detection,
            report.packets_sent,
            report.drops.total(),
            report.retransmitted,
            report.timeouts,
            report.recoveries,
            report.reordered,
            report.mean_fct_us,
        );
    }
    expect![[r#"
        NewReno Duplicates(3): 57567 sent, 2879 dropped, 3184 again, 233 timeouts, 279 recoveries, 2053 reordered, 5034.984 µs a flow
        NewReno RackTlp: 57127 sent, 3098 dropped, 3804 again, 83 timeouts, 566 recoveries, 2505 reordered, 2614.567 µs a flow
        Cubic Duplicates(3): 59881 sent, 3275 dropped, 3792 again, 250 timeouts, 325 recoveries, 2610 reordered, 5399.750 µs a flow
        Cubic RackTlp: 59879 sent, 4278 dropped, 5209 again, 69 timeouts, 645 recoveries, 2825 reordered, 2270.397 µs a flow
        CubicNs3 Duplicates(3): 59745 sent, 2798 dropped, 3306 again, 295 timeouts, 309 recoveries, 2552 reordered, 5962.484 µs a flow
        CubicNs3 RackTlp: 57707 sent, 3452 dropped, 4200 again, 150 timeouts, 591 recoveries, 2292 reordered, 3630.873 µs a flow
        Dctcp Duplicates(3): 52292 sent, 846 dropped, 1105 again, 171 timeouts, 184 recoveries, 1459 reordered, 4256.534 µs a flow
        Dctcp RackTlp: 53417 sent, 907 dropped, 1505 again, 32 timeouts, 398 recoveries, 1696 reordered, 1699.778 µs a flow
    "#]].assert_eq(&table);
}

#[test]
fn marks_spare_drops() {
    let dropped = |algorithm| {
        let tcp = TcpConfig {
            algorithm,
            ..TcpConfig::modern()
        };
        let mut config = narrow(Scheme::Direct, tcp);
        config.edge_link.queue_bytes = 200_000;
        run(&config, &flows(5, 40, 4_000_000))
            .report()
            .drops
            .total()
    };
    let (marked, unmarked) = (dropped(Algorithm::Dctcp), dropped(Algorithm::NewReno));
    assert!(marked * 2 < unmarked, "{marked} {unmarked}");
}

#[test]
fn a_seed_is_a_report() {
    let report = |seed| {
        let base = config(v2p(8), TcpConfig::modern());
        run(&Config { seed, ..base }, &flows(7, 500, 50_000)).report()
    };
    assert_eq!(report(1), report(1));
    assert_ne!(report(1), report(2));
}

#[test]
fn settings_out_of_range_are_refused_with_what_to_do() {
    let refused = |tcp| {
        let config = config(Scheme::Direct, tcp);
        Simulation::new(&config, &[]).unwrap_err().to_string()
    };
    let good = TcpConfig::artifact();
    assert_eq!(
        refused(TcpConfig {
            segment_bytes: 0,
            ..good
        }),
        "TCP: segment_bytes is 0: give from 1 to 65000"
    );
    assert_eq!(
        refused(TcpConfig {
            buffer_bytes: 100,
            ..good
        }),
        "TCP: buffer_bytes is 100: give from 1024 to 1073741824"
    );
    let loss_detection = LossDetection::Duplicates(0);
    assert_eq!(
        refused(TcpConfig {
            loss_detection,
            ..good
        }),
        "TCP: duplicates for a loss is 0: give from 1 to 4294967295"
    );
    let timestamp_tick = Time::ZERO;
    assert_eq!(
        refused(TcpConfig {
            timestamp_tick,
            ..good
        }),
        "TCP: timestamp_tick (ps) is 0: give from 1 to 4294967295"
    );
}
