//! The migration table of SwitchV2P's published code, reproduced as far as it is.
//!
//! | scheme | figure | published | ours: medians of five seeds |
//! | --- | --- | --- | --- |
//! | NoCache, OnDemand | all | | the same; there is no randomness |
//! | SwitchV2P, no timestamp vector | all | | within 1 % |
//! | with it | invalidations | 24 | the same |
//! | | latency, hops, last misdelivery | | within 1 % |
//! | | gateway packets | 5,545 | 5,436 |
//! | | misdelivered | 3,655 | 3,908 |
//! | SwitchV2P, no invalidations | gateway packets, last misdelivery | | within 1 % |
//! | | misdelivered | 17,266 | 8,666 to 15,240 |
//!
//! What is within 1 % is asserted to be. The three figures that are not as published, and for which
//! there is no explanation, are asserted to be what ours are, so that a change of them is noticed.
//!
//! Built only with the feature `shared-data`; the folder is `$THALWEG_SHARED`, else `../shared`
//! beside the workspace, and a missing one fails the test.

mod published;

use published::{open, placement};
use thalweg_fabric::*;
use thalweg_v2p::Profile;

/// Incast of 64 sources to a machine that moves in the middle.
fn migrate(scheme: Scheme, seed: u64) -> Report {
    let trace = read_trace(open("incast.csv.gz"), "incast.csv.gz").unwrap();
    let config = Config {
        seed,
        migrations: vec![Migration {
            machine: 5200,
            at: Time::from_micros(500),
            to_server: 68,
        }],
        ..Config::artifact(FatTree::ft8_10k(1), placement(), scheme)
    };
    let mut run = Simulation::new(&config, &trace).unwrap();
    run.run();
    run.report()
}

/// Without randomness, the published figures exactly, as far as they are printed.
#[test]
fn nocache_is_as_published() {
    let report = migrate(Scheme::NoCache, 1);
    assert_eq!(report.gateway_packets, 64_000);
    assert_eq!(report.delivered, 64_000);
    assert_eq!(report.misdelivered, 2_944);
    assert_eq!(report.last_misdelivered_us, Some(545.611));
    assert_eq!(report.invalidations, 0);
    assert_eq!(format!("{:.2}", report.mean_packet_latency_us), "52.80");
    assert_eq!(format!("{:.3}", report.stretch), "9.919");
}

/// The same of hosts that remember.
#[test]
fn on_demand_is_as_published() {
    let report = migrate(Scheme::OnDemand(OnDemand::Artifact), 1);
    assert_eq!(report.gateway_packets, 0);
    assert_eq!(report.delivered, 64_000);
    assert_eq!(report.misdelivered, 32_384);
    assert_eq!(
        format!("{:.2}", report.last_misdelivered_us.unwrap()),
        "1005.59"
    );
    assert_eq!(format!("{:.2}", report.mean_packet_latency_us), "13.45");
    assert_eq!(format!("{:.3}", report.stretch), "6.518");
}

fn switch_v2p(sends_invalidations: bool, has_timestamp_vector: bool) -> Scheme {
    Scheme::SwitchV2p(SwitchV2p {
        sends_invalidations,
        has_timestamp_vector,
        ..SwitchV2p::new(Profile::Artifact, 12)
    })
}

/// The median over five seeds.
fn median(reports: &[Report], figure: impl Fn(&Report) -> f64) -> f64 {
    let mut figures: Vec<f64> = reports.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn assert_near(found: f64, published: f64, percent: f64) {
    let difference = (found - published).abs() / published * 100.0;
    assert!(
        difference <= percent,
        "{found} for {published}: {difference:.1} % off"
    );
}

fn reports(scheme: Scheme) -> Vec<Report> {
    (1..=5).map(|seed| migrate(scheme, seed)).collect()
}

#[test]
fn switchv2p_without_the_timestamp_vector_is_as_published() {
    let reports = reports(switch_v2p(true, false));
    assert_near(median(&reports, |r| r.gateway_packets as f64), 5_613.0, 1.0);
    assert_near(median(&reports, |r| r.mean_packet_latency_us), 13.14, 1.0);
    assert_near(median(&reports, |r| r.misdelivered as f64), 3_503.0, 1.0);
    assert_near(median(&reports, |r| r.stretch), 5.694, 1.0);
    let last = median(&reports, |r| r.last_misdelivered_us.unwrap());
    assert_eq!(last, 563.071);
    assert!(reports.iter().all(|r| r.invalidations == r.misdelivered));
}

#[test]
fn switchv2p_is_as_published_but_for_two_figures() {
    let reports = reports(switch_v2p(true, true));
    assert_near(median(&reports, |r| r.mean_packet_latency_us), 13.14, 1.0);
    assert_near(median(&reports, |r| r.stretch), 5.699, 1.0);
    let last = median(&reports, |r| r.last_misdelivered_us.unwrap());
    assert_near(last, 563.071, 1.0);
    assert_eq!(median(&reports, |r| r.invalidations as f64), 24.0);
    // Published: 5,545 and 3,655.
    let ours = [
        median(&reports, |r| r.gateway_packets as f64),
        median(&reports, |r| r.misdelivered as f64),
    ];
    assert_eq!(ours, [5_436.0, 3_908.0]);
}

#[test]
fn switchv2p_without_invalidations_misdelivers_to_the_end() {
    let reports = reports(switch_v2p(false, true));
    assert_near(median(&reports, |r| r.gateway_packets as f64), 5_379.0, 1.0);
    let last = median(&reports, |r| r.last_misdelivered_us.unwrap());
    assert_near(last, 1_005.28, 1.0);
    // Published: 17,266.
    let ours: Vec<u64> = reports.iter().map(|r| r.misdelivered).collect();
    assert_eq!(ours, [8_666, 9_909, 8_753, 14_390, 15_240]);
    assert!(reports.iter().all(|r| r.invalidations == 0));
}

#[test]
fn the_traces_are_what_they_are_said_to_be() {
    let lines = |name| read_trace(open(name), name).unwrap();
    let hadoop = lines("hadoop.csv.gz");
    assert_eq!(hadoop.len(), 99_297);
    let bytes: u64 = hadoop.iter().map(|line| line.bytes).sum();
    assert_eq!(bytes / 10_000_000, 1_218);
    assert_eq!(lines("websearch.csv.gz").len(), 6_825);
    assert_eq!(lines("incast.csv.gz").len(), 64_000);
    assert_eq!(lines("video.csv.gz").len(), 769_527);
    assert_eq!(placement(), Placement::even(10_240, 128));
}
