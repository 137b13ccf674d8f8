//! Seeded workloads keep the properties of the published ones.

use std::collections::{HashMap, HashSet};

use thalweg_fabric::*;
use thalweg_v2p::Profile;

fn placement() -> Placement {
    Placement::even(10_240, 128)
}

fn flows(sizes: Sizes, seed: u64) -> Vec<TraceLine> {
    let workload = FlowWorkload {
        sizes,
        load: 0.3,
        edge_bps: 100_000_000_000,
        duration: Time::from_micros(25_000),
        seed,
    };
    workload.generate(&placement())
}

/// Counts how often each machine is the destination of another flow.
fn reuse(lines: &[TraceLine]) -> HashMap<u32, usize> {
    let pairs: HashSet<(u32, u32)> = lines
        .iter()
        .map(|line| (line.destination, line.flow))
        .collect();
    let mut counts = HashMap::new();
    for (destination, _) in pairs {
        *counts.entry(destination).or_default() += 1;
    }
    counts
}

fn often(lines: &[TraceLine]) -> usize {
    reuse(lines).values().filter(|&&count| count >= 10).count()
}

fn assert_sound(lines: &[TraceLine], machines: u32, machines_per_server: u32) {
    assert!(lines.is_sorted_by_key(|line| line.start));
    for line in lines {
        assert!(line.source < machines && line.destination < machines && line.bytes > 0);
        let servers = [line.source, line.destination].map(|one| one / machines_per_server);
        assert_ne!(servers[0], servers[1]);
    }
}

/// Published: 99,297 flows of 12.18 GB, and 6,825 of 11.83 GB, in 25 ms.
#[test]
fn hadoop_and_web_search_have_the_published_load() {
    for (sizes, count, bytes) in [
        (Sizes::HADOOP, 99_297.0, 12.18e9),
        (Sizes::WEB_SEARCH, 6_825.0, 11.83e9),
    ] {
        let lines = flows(sizes, 1);
        assert_sound(&lines, 10_240, 80);
        let found = lines.len() as f64;
        assert!((found / count - 1.0).abs() < 0.05, "{found} for {count}");
        let total: u64 = lines.iter().map(|line| line.bytes).sum();
        assert!(
            (total as f64 / bytes - 1.0).abs() < 0.08,
            "{total} for {bytes}"
        );
        let mean = total as f64 / found;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.06);
        assert_eq!(lines, flows(sizes, 1));
        assert_ne!(lines, flows(sizes, 2));
    }
    assert!(reuse(&flows(Sizes::HADOOP, 1)).len() > 10_200);
}

#[test]
fn quantiles_are_in_order_and_reach_the_ends() {
    for sizes in [Sizes::HADOOP, Sizes::WEB_SEARCH] {
        let quantiles = (0..=1_000).map(|part| sizes.quantile(f64::from(part) / 1_000.0));
        assert!(quantiles.is_sorted());
    }
    assert_eq!(Sizes::HADOOP.quantile(0.0), 1);
    assert_eq!(Sizes::HADOOP.quantile(0.25), 448);
    assert_eq!(Sizes::WEB_SEARCH.quantile(1.0), 29_938_393);
}

/// The 99th percentile of the time from the first packet of a burst to its last.
fn longest_us(lines: &[TraceLine]) -> f64 {
    let mut spans: HashMap<u32, (Time, Time)> = HashMap::new();
    for line in lines {
        let span = spans.entry(line.flow).or_insert((line.start, line.start));
        *span = (span.0.min(line.start), span.1.max(line.start));
    }
    let mut lengths: Vec<Time> = spans.values().map(|span| span.1 - span.0).collect();
    lengths.sort();
    lengths[lengths.len() * 99 / 100].as_micros_f64()
}

/// Published: the 99th percentile is 158 µs, over 2,600 machines are in ten bursts or more.
#[test]
fn bursts_are_short_and_destinations_come_again() {
    let lines = BurstWorkload::published(1).generate(&placement());
    assert_sound(&lines, 10_240, 80);
    // `published` has had these lines since its first results.
    assert_eq!(lines.len(), 339_449);
    // Truncated to whole intervals of 10 µs.
    let longest = longest_us(&lines);
    assert!((145.0..=160.0).contains(&longest), "{longest}");
    assert!((2_600..4_500).contains(&often(&lines)), "{}", often(&lines));
}

/// Asserts that the shares of hits, at cores, spines and ToRs, are near those of Table 5.
fn assert_near(found: Layers, published: [f64; 3], most_points: f64) {
    let counts = [found.core, found.spine, found.tor].map(|count| count as f64);
    let shares = counts.map(|count| 100.0 * count / counts.iter().sum::<f64>());
    for (share, wanted) in shares.iter().zip(published) {
        let off = (share - wanted).abs();
        assert!(off <= most_points, "{shares:.1?} for {published:?}");
    }
}

/// Runs SwitchV2P; Table 5 has caches of 50 % in all.
fn cached(
    shape: FatTree,
    placement: Placement,
    entries: u32,
    transport: Transport,
    lines: &[TraceLine],
) -> Report {
    let scheme = Scheme::SwitchV2p(SwitchV2p::new(Profile::Artifact, entries));
    let config = Config {
        transport,
        ..Config::artifact(shape, placement, scheme)
    };
    let mut run = Simulation::new(&config, lines).unwrap();
    run.run();
    run.report()
}

/// Table 5's Microbursts, of the first 25 ms: within 3 points of a hundred, for all packets and
/// for first ones.
#[test]
fn fitted_bursts_hit_where_the_paper_says() {
    let mut lines = BurstWorkload::fitted(1).generate(&placement());
    assert_sound(&lines, 10_240, 80);
    let longest = longest_us(&lines);
    assert!((155.0..=161.0).contains(&longest), "{longest}");
    assert!((2_600..2_700).contains(&often(&lines)), "{}", often(&lines));
    let end = Time::from_micros(25_000);
    lines.retain(|line| line.start < end);
    let shape = FatTree::ft8_10k(10);
    let report = cached(shape, placement(), 64, Transport::Udp, &lines);
    assert_near(report.hits_by_layer, [6.8, 16.1, 77.1], 3.0);
    assert_near(report.first_hits_by_layer, [28.9, 30.3, 40.8], 3.0);
}

/// Table 5's Alibaba, of a tenth of the calls at the same rate: within 5 points of a hundred.
#[test]
fn fitted_calls_hit_where_the_paper_says() {
    let placement = Placement::even(410_865, 12_800);
    let workload = RpcWorkload {
        calls: RpcWorkload::fitted(1).calls / 10,
        duration: Time::from_micros(2_500),
        ..RpcWorkload::fitted(1)
    };
    let lines = workload.generate(&placement);
    let transport = Transport::Tcp(TcpConfig::artifact());
    let report = cached(FatTree::ft16_400k(), placement, 251, transport, &lines);
    assert_near(report.hits_by_layer, [2.4, 2.0, 95.6], 5.0);
    assert_near(report.first_hits_by_layer, [25.4, 15.0, 59.6], 5.0);
}

/// Published: 769,527 packets of 64 pairs.
#[test]
fn video_is_pairs_at_a_constant_rate() {
    let lines = VideoWorkload::published(1).generate(&placement());
    assert_sound(&lines, 10_240, 80);
    assert!((lines.len() as f64 / 769_527.0 - 1.0).abs() < 0.001);
    let ends: HashSet<u32> = lines.iter().map(|line| line.source).collect();
    let others: HashSet<u32> = lines.iter().map(|line| line.destination).collect();
    assert_eq!((ends.len(), others.len()), (64, 64));
    assert!(ends.is_disjoint(&others));
}

/// Published: 24 % of 410,865 machines are called, over 18,000 of them ten times or more.
#[test]
fn calls_go_to_few() {
    let placement = Placement::even(410_865, 12_800);
    for workload in [RpcWorkload::published(1), RpcWorkload::fitted(1)] {
        let lines = workload.generate(&placement);
        let share = reuse(&lines).len() as f64 / 410_865.0;
        assert!((share - 0.24).abs() < 0.005, "{share}");
        let often = often(&lines);
        assert!((18_000..22_000).contains(&often), "{often}");
        let mut counts: Vec<usize> = reuse(&lines).into_values().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let popular: usize = counts[..counts.len() / 5].iter().sum();
        let part = popular as f64 / lines.len() as f64;
        assert!((part - 0.95).abs() < 0.01, "{part}");
    }
}

#[test]
fn incast_is_all_at_once() {
    let lines = IncastWorkload::published(1).generate(&placement());
    assert_eq!(lines.len(), 64_000);
    assert_sound(&lines, 10_240, 80);
    assert!(lines.iter().all(|line| line.destination == 5_200));
    let sources: HashSet<u32> = lines.iter().map(|line| line.source).collect();
    assert_eq!(sources.len(), 64);
    let nowhere = IncastWorkload {
        destination: 99_999,
        ..IncastWorkload::published(1)
    };
    assert!(nowhere.generate(&placement()).is_empty());
}

#[test]
fn a_single_server_has_nobody_to_send_to() {
    let alone = Placement::even(4, 1);
    assert!(BurstWorkload::published(1).generate(&alone).is_empty());
    assert!(BurstWorkload::fitted(1).generate(&alone).is_empty());
    assert!(RpcWorkload::published(1).generate(&alone).is_empty());
    assert!(VideoWorkload::published(1).generate(&alone).is_empty());
    assert!(IncastWorkload::published(1).generate(&alone).is_empty());
}

/// A generated workload runs, and all its flows end.
#[test]
fn generated_workloads_run() {
    let placement = Placement::even(64, 16);
    let mut shape = FatTree::ft8_10k(1);
    (shape.pods, shape.gateway_tors) = (2, vec![0]);
    let calls = RpcWorkload {
        calls: 3_000,
        ..RpcWorkload::published(1)
    };
    let config = Config {
        transport: Transport::Tcp(TcpConfig::artifact()),
        ..Config::artifact(shape.clone(), placement.clone(), Scheme::NoCache)
    };
    let mut run = Simulation::new(&config, &calls.generate(&placement)).unwrap();
    run.run();
    assert_eq!(run.report().connections_finished, 3_000);
    let bursts = BurstWorkload {
        bursts: 500,
        ..BurstWorkload::published(1)
    };
    let lines = bursts.generate(&placement);
    let config = Config::artifact(shape, placement, Scheme::NoCache);
    let mut run = Simulation::new(&config, &lines).unwrap();
    run.run();
    assert_eq!(run.report().delivered, lines.len() as u64);
}
