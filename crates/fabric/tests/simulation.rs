//! Runs of small fabrics: closed forms, conservation, randomness, and refusals.

mod small;

use expect_test::expect;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_fabric::*;
use thalweg_v2p::Profile;

use small::small;

fn config(scheme: Scheme) -> Config {
    Config::artifact(small(), Placement::even(32, 8), scheme)
}

fn v2p(profile: Profile, entries: u32) -> Scheme {
    let learning_probability = 0.2;
    Scheme::SwitchV2p(SwitchV2p {
        learning_probability,
        ..SwitchV2p::new(profile, entries)
    })
}

fn schemes() -> Vec<Scheme> {
    let mut schemes = vec![Scheme::NoCache, Scheme::Direct, v2p(Profile::Artifact, 0)];
    for profile in [Profile::Artifact, Profile::Paper, Profile::Plus] {
        schemes.extend([v2p(profile, 2), v2p(profile, 64)]);
    }
    let interval = Time::from_micros(20);
    schemes.extend([
        Scheme::LocalLearning { entries: 2 },
        Scheme::LocalLearning { entries: 64 },
        Scheme::GwCache { entries: 20 },
        Scheme::Bluebird(Bluebird::artifact(20)),
        Scheme::Bluebird(Bluebird {
            insertion: Time::from_micros(5),
            ..Bluebird::paper(20)
        }),
        Scheme::OnDemand(OnDemand::Artifact),
        Scheme::OnDemand(OnDemand::Paper {
            threshold_packets: 1,
        }),
        Scheme::OnDemand(OnDemand::Paper {
            threshold_packets: 5,
        }),
        Scheme::Controller(Controller::artifact(2, interval)),
        Scheme::Controller(Controller::paper(2, interval)),
    ]);
    schemes
}

/// Packets of random pairs, 40 ns apart in the mean; a few machines are popular.
fn traffic(seed: u64, packets: u32) -> Vec<TraceLine> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut start = Time::ZERO;
    let mut line = |_| {
        start += Time::from_nanos(random.random_range(0..80));
        let source = random.random_range(0..32);
        let popular = random.random_bool(0.5);
        let destination = random.random_range(if popular { 0..4 } else { 0..32 });
        TraceLine {
            source,
            destination,
            start,
            flow: source * 32 + destination,
            bytes: random.random_range(1..1400),
        }
    };
    (0..packets).map(&mut line).collect()
}

fn run(config: &Config, trace: &[TraceLine]) -> Simulation {
    let mut run = Simulation::new(config, trace).unwrap();
    run.run();
    run
}

/// The results of every scheme on one trace: refreshed by `UPDATE_EXPECT=1`.
#[test]
fn the_table_of_schemes() {
    let mut table = String::new();
    for scheme in schemes() {
        let mut config = config(scheme);
        let at = Time::from_micros(40);
        let to_server = 5;
        config.migrations.push(Migration {
            machine: 0,
            at,
            to_server,
        });
        let report = run(&config, &traffic(9, 4_000)).report();
        let name = match scheme {
            Scheme::SwitchV2p(of) => format!("{:?} {}", of.profile, of.entries),
            Scheme::Bluebird(of) => format!("Bluebird {} {}", of.entries, of.gap),
            Scheme::Controller(of) => format!("Controller {:?}", of.cost),
            other => format!("{other:?}"),
        };
        let hits = report.hits_by_layer;
        table += &format!(
            "{name}: {} at gateways, {} misdelivered, {} reordered, hits {}/{}/{}, {} invalidations, \
             {} learning packets, {} hops, {:.3} µs a packet, {:.3} µs a flow\n",
            report.gateway_packets,
            report.misdelivered,
            report.reordered,
            hits.core,
            hits.spine,
            hits.tor,
            report.invalidations,
            report.learning_packets,
            report.packet_hops,
            report.mean_packet_latency_us,
            report.mean_fct_us,
        );
    }
    expect![[r#"
        NoCache: 4000 at gateways, 134 misdelivered, 35 reordered, hits 0/0/0, 0 invalidations, 0 learning packets, 30826 hops, 50.124 µs a packet, 112.157 µs a flow
        Direct: 0 at gateways, 21 misdelivered, 15 reordered, hits 0/0/0, 0 invalidations, 0 learning packets, 14293 hops, 4.655 µs a packet, 67.682 µs a flow
        Artifact 0: 4000 at gateways, 134 misdelivered, 35 reordered, hits 0/0/0, 0 invalidations, 798 learning packets, 30826 hops, 50.124 µs a packet, 112.157 µs a flow
        Artifact 2: 2997 at gateways, 193 misdelivered, 1014 reordered, hits 362/209/480, 7 invalidations, 604 learning packets, 27846 hops, 39.255 µs a packet, 106.980 µs a flow
        Artifact 64: 1560 at gateways, 257 misdelivered, 852 reordered, hits 513/317/1652, 8 invalidations, 358 learning packets, 22859 hops, 23.447 µs a packet, 82.497 µs a flow
        Paper 2: 2945 at gateways, 150 misdelivered, 1129 reordered, hits 102/472/573, 11 invalidations, 668 learning packets, 27223 hops, 38.447 µs a packet, 106.160 µs a flow
        Paper 64: 1352 at gateways, 184 misdelivered, 687 reordered, hits 20/752/1936, 16 invalidations, 421 learning packets, 19282 hops, 20.217 µs a packet, 81.145 µs a flow
        Plus 2: 2903 at gateways, 143 misdelivered, 1060 reordered, hits 109/436/624, 8 invalidations, 661 learning packets, 27092 hops, 37.964 µs a packet, 106.285 µs a flow
        Plus 64: 888 at gateways, 144 misdelivered, 510 reordered, hits 0/108/3004, 6 invalidations, 387 learning packets, 17854 hops, 14.991 µs a packet, 72.667 µs a flow
        LocalLearning { entries: 2 }: 2966 at gateways, 196 misdelivered, 1077 reordered, hits 118/396/520, 0 invalidations, 0 learning packets, 26748 hops, 38.670 µs a packet, 107.107 µs a flow
        LocalLearning { entries: 64 }: 1571 at gateways, 275 misdelivered, 810 reordered, hits 14/1088/1327, 0 invalidations, 0 learning packets, 21084 hops, 23.165 µs a packet, 83.307 µs a flow
        GwCache { entries: 20 }: 2114 at gateways, 249 misdelivered, 1038 reordered, hits 0/0/1886, 0 invalidations, 0 learning packets, 29745 hops, 30.831 µs a packet, 92.657 µs a flow
        Bluebird 20 0.25 µs: 0 at gateways, 8 misdelivered, 6 reordered, hits 0/0/0, 0 invalidations, 0 learning packets, 14210 hops, 81.974 µs a packet, 172.280 µs a flow
        Bluebird 20 0 µs: 0 at gateways, 405 misdelivered, 56 reordered, hits 0/0/2942, 0 invalidations, 0 learning packets, 16245 hops, 8.463 µs a packet, 71.531 µs a flow
        OnDemand(Artifact): 970 at gateways, 413 misdelivered, 397 reordered, hits 0/0/0, 0 invalidations, 0 learning packets, 19727 hops, 17.122 µs a packet, 75.275 µs a flow
        OnDemand(Paper { threshold_packets: 1 }): 1355 at gateways, 245 misdelivered, 669 reordered, hits 0/0/0, 0 invalidations, 0 learning packets, 21052 hops, 20.859 µs a packet, 76.310 µs a flow
        OnDemand(Paper { threshold_packets: 5 }): 2230 at gateways, 222 misdelivered, 617 reordered, hits 0/0/0, 0 invalidations, 0 learning packets, 24012 hops, 30.510 µs a packet, 95.834 µs a flow
        Controller Relaxed: 2081 at gateways, 158 misdelivered, 532 reordered, hits 76/735/1108, 0 invalidations, 0 learning packets, 26867 hops, 29.520 µs a packet, 103.840 µs a flow
        Controller Exact: 2088 at gateways, 158 misdelivered, 535 reordered, hits 51/561/1300, 0 invalidations, 0 learning packets, 25346 hops, 29.211 µs a packet, 103.570 µs a flow
    "#]].assert_eq(&table);
}

fn one_packet(source: u32, destination: u32) -> Vec<TraceLine> {
    vec![TraceLine {
        source,
        destination,
        start: Time::from_micros(3),
        flow: 9,
        bytes: 64,
    }]
}

#[test]
fn one_packet_takes_the_time_of_its_links() {
    // 122 bytes: 9 ns on an edge link, 2 ns between switches, 1 µs each.
    for (destination, links, switches) in [(4, 2, 1), (8, 4, 3), (16, 6, 5)] {
        let direct = run(&config(Scheme::Direct), &one_packet(0, destination)).report();
        let nanos = links * 1000 + 2 * 9 + (links - 2) * 2;
        assert_eq!(direct.mean_packet_latency_us, f64::from(nanos) / 1000.0);
        assert_eq!(direct.mean_fct_us, direct.mean_packet_latency_us);
        assert_eq!(direct.packet_hops, switches);
        assert_eq!(direct.switch_bytes.iter().sum::<u64>(), switches * 92);
    }
    // To the gateway, 40 µs there, and back.
    let slow = run(&config(Scheme::NoCache), &one_packet(0, 4)).report();
    assert_eq!(slow.mean_packet_latency_us, 40.0 + 2.0 * 6.026);
    assert_eq!(
        (slow.gateway_packets, slow.packet_hops, slow.hit_rate),
        (1, 10, 0.0)
    );
}

#[test]
fn exact_times_and_traced_sizes() {
    let mut config = config(Scheme::Direct);
    config.payload = Payload::Traced;
    config.edge_link.cuts_to_nanos = false;
    let mut trace = one_packet(0, 4);
    trace[0].bytes = 1_000;
    let report = run(&config, &trace).report();
    // 1058 bytes at 80 ps, twice.
    assert_eq!(report.mean_packet_latency_us, 2.0 + 2.0 * 0.084_64);
}

fn assert_balanced(run: &Simulation) {
    let census = run.census();
    assert_eq!(
        census.sent + census.control,
        census.delivered + census.consumed + census.dropped + census.in_flight,
        "{census:?}"
    );
}

/// Packets under way on links: accepted and not yet arrived.
fn under_way_on_links(run: &Simulation) -> u64 {
    let ports = (0..run.topology().port_count() as u32).map(PortId);
    let counters = ports.map(|port| run.port_counters(port));
    counters
        .map(|counters| counters.sent - counters.arrived)
        .sum()
}

#[test]
fn nothing_is_lost_without_a_reason() {
    for scheme in schemes() {
        let mut config = config(scheme);
        config.payload = Payload::Traced;
        config.edge_link.rate_bps = 10_000_000_000;
        config.edge_link.queue_bytes = 3_000;
        for (machine, to_server) in [(0, 5), (1, 7), (0, 2)] {
            let at = Time::from_micros(20 + 15 * u64::from(to_server));
            config.migrations.push(Migration {
                machine,
                at,
                to_server,
            });
        }
        let mut run = Simulation::new(&config, &traffic(3, 4_000)).unwrap();
        let mut held_at_most = 0;
        while run.step() {
            assert_balanced(&run);
            // The other packets are at a gateway, or at a host that will send them on.
            let in_flight = run.census().in_flight;
            held_at_most = held_at_most.max(in_flight - under_way_on_links(&run));
        }
        let (census, report) = (run.census(), run.report());
        assert_eq!((census.in_flight, under_way_on_links(&run)), (0, 0));
        assert_eq!(census.sent, 4_000);
        let ports = (0..run.topology().port_count() as u32).map(PortId);
        let full: u64 = ports.map(|port| run.port_counters(port).dropped).sum();
        assert_eq!(full, report.drops.of(Drop::QueueFull), "{scheme:?}");
        assert!(full > 0, "{scheme:?}: the queues were never full");
        assert_eq!(report.drops.total(), full, "{scheme:?}: {:?}", report.drops);
        assert!(report.misdelivered > 0 && held_at_most > 0, "{scheme:?}");
    }
}

#[test]
fn everything_arrives_where_there_is_room() {
    for scheme in schemes() {
        let run = run(&config(scheme), &traffic(4, 4_000));
        let (report, census) = (run.report(), run.census());
        assert_eq!(report.delivered, 4_000, "{scheme:?}");
        assert_eq!(census.consumed, census.control);
        assert_eq!(
            census.control > 0,
            report.learning_packets > 0,
            "{scheme:?}"
        );
        let hits = report.hits_by_layer;
        assert_eq!(report.drops.total() + report.misdelivered, 0, "{scheme:?}");
        let hits = hits.core + hits.spine + hits.tor;
        let elsewhere = report.host_resolved + report.control_plane_packets;
        assert_eq!(
            hits + elsewhere + report.gateway_packets,
            4_000,
            "{scheme:?}"
        );
    }
}

#[test]
fn hits_are_those_that_the_agents_count() {
    let run = run(&config(v2p(Profile::Paper, 16)), &traffic(5, 4_000));
    let report = run.report();
    let counted: u64 = run.switch_counters().map(|counters| counters.hits).sum();
    let hits = report.hits_by_layer;
    assert_eq!(hits.core + hits.spine + hits.tor, counted);
    assert!(hits.spine > 0 && hits.tor > hits.spine, "{hits:?}");
    let first = report.first_hits_by_layer;
    let first = first.core + first.spine + first.tor;
    assert!(first > 0 && first <= 1024, "{first}");
}

#[test]
fn caches_help_the_more_the_larger_they_are() {
    let hit_rate = |scheme| run(&config(scheme), &traffic(6, 8_000)).report().hit_rate;
    let rates = [0, 2, 64].map(|entries| hit_rate(v2p(Profile::Artifact, entries)));
    assert_eq!(rates[0], hit_rate(Scheme::NoCache));
    assert!(rates.is_sorted() && rates[2] > rates[1] + 0.1, "{rates:?}");
    assert_eq!(hit_rate(Scheme::Direct), 1.0);
}

#[test]
fn a_seed_is_a_report() {
    let report = |seed, ecmp| {
        let base = config(v2p(Profile::Artifact, 8));
        run(&Config { seed, ecmp, ..base }, &traffic(7, 3_000)).report()
    };
    let (artifact, flows) = (Ecmp::Artifact, Ecmp::PerFlow { seed: 1 });
    assert_eq!(report(1, artifact), report(1, artifact));
    assert_ne!(report(1, artifact), report(2, artifact));
    assert_ne!(report(1, artifact), report(1, flows));
}

#[test]
fn a_moved_machine_is_found_again() {
    let mut config = config(Scheme::NoCache);
    let at = Time::from_micros(10);
    config.migrations.push(Migration {
        machine: 5,
        at,
        to_server: 0,
    });
    // Resolved before the move, so misdelivered at server 1 and sent after the machine.
    let mut trace = one_packet(16, 5);
    trace[0].start = Time::ZERO;
    let report = run(&config, &trace).report();
    assert_eq!(
        (
            report.delivered,
            report.misdelivered,
            report.gateway_packets
        ),
        (1, 1, 1)
    );
    // After the misdelivery, 10 µs and two links of the rack.
    let expected = report.last_misdelivered_us.unwrap() + 10.0 + 2.018;
    assert!((report.mean_packet_latency_us - expected).abs() < 1e-9);
    // If it is sent after the move, it is not misdelivered.
    let report = run(
        &config,
        &[TraceLine {
            start: at,
            ..trace[0]
        }],
    )
    .report();
    assert_eq!((report.delivered, report.misdelivered), (1, 0));
}

#[test]
fn later_lines_of_an_unsorted_trace_do_not_overtake() {
    let mut trace = traffic(8, 1_000);
    let sorted = run(&config(Scheme::NoCache), &trace).report();
    trace.sort_by_key(|line| (line.source, line.start));
    let unsorted = run(&config(Scheme::NoCache), &trace).report();
    assert_eq!(
        sorted.mean_packet_latency_us,
        unsorted.mean_packet_latency_us
    );
    assert_eq!(
        unsorted.reordered, 0,
        "a pair has one path, and waits in line"
    );
}

#[test]
fn what_is_not_there_is_refused_with_what_to_do() {
    let refused = |config: &Config, trace: &[TraceLine]| {
        Simulation::new(config, trace).unwrap_err().to_string()
    };
    let good = config(Scheme::NoCache);
    assert_eq!(
        refused(&good, &[one_packet(0, 1), one_packet(0, 32)].concat()),
        "packet 2 of the trace: machine 32 is on no server; place it, or cut the trace"
    );
    let migrate = |machine, to_server| Config {
        migrations: vec![Migration {
            machine,
            at: Time::ZERO,
            to_server,
        }],
        ..good.clone()
    };
    assert_eq!(
        refused(&migrate(99, 0), &[]),
        "migration of machine 99: it is on no server; name one of the placement"
    );
    assert_eq!(
        refused(&migrate(0, 8), &[]),
        "migration to server 8: name one below 8"
    );
    let crowded = Config {
        placement: Placement::even(9, 9),
        ..good.clone()
    };
    assert_eq!(
        refused(&crowded, &[]),
        "the placement has 9 servers, the fabric 8: use a larger fabric"
    );
    let mut alone = good.clone();
    alone.shape.gateways_per_tor = 0;
    assert_eq!(
        refused(&alone, &[]),
        "no gateway to resolve addresses: give gateway ToRs and gateways a ToR"
    );
    let mut sure = SwitchV2p::new(Profile::Paper, 1);
    sure.learning_probability = 1.5;
    let sure = Config {
        scheme: Scheme::SwitchV2p(sure),
        ..good
    };
    assert_eq!(
        refused(&sure, &[]),
        "a learning probability of 1.5: give 0 to 1"
    );
}
