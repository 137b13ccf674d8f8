//! The migration table of SwitchV2P's published code, reproduced.
//!
//! | scheme | figure | published: one run | ours: 200 seeds, from the least to the greatest |
//! | --- | --- | --- | --- |
//! | NoCache, OnDemand | all | | the same; there is no randomness |
//! | SwitchV2P | gateway packets | 5,545 | 5,512 to 6,023, half of them 5,513 to 5,546 |
//! | | misdelivered | 3,655 | 2,728 to 3,818, half of them 3,655 to 3,740 |
//! | | invalidations | 24 | 17 to 27 |
//! | no timestamp vector | gateway packets | 5,613 | 5,570 to 6,329, half of them 5,603 to 5,683 |
//! | | misdelivered | 3,503 | 2,074 to 3,681, half of them 3,346 to 3,528 |
//! | no invalidations | gateway packets | 5,379 | 5,375 to 5,510 |
//! | | misdelivered | 17,266 | 3,893 to 19,028 |
//!
//! Learning packets are sent at random, and the published figures are those of one seed. Each
//! lies within our range, and some seeds reproduce the exact figures (3 is one). Without
//! invalidations mappings stay stale to the end, and chance decides nearly everything; 5 of
//! 200 seeds misdeliver at least as many packets as the published run.
//!
//! For Video the test asserts the published row of Table 5, and the number of learning
//! packets, which the code prints and the paper does not.
//!
//! Reproduction needs the published code's routes: an invalidation packet to a spine of
//! another pod goes up by any spine. So it mostly reaches the wrong spine, goes on by a ToR,
//! and cleans three more caches on its way ([`Topology::with_published_routes`]).
//!
//! Built only with the feature `shared-data`. The folder is `$THALWEG_SHARED`, else
//! `../shared` beside the workspace; if it is missing, the test fails.

mod published;

use std::sync::LazyLock;

use published::{open, placement};
use thalweg_fabric::*;
use thalweg_v2p::Profile;

static INCAST: LazyLock<Vec<TraceLine>> =
    LazyLock::new(|| read_trace(open("incast.csv.gz"), "incast.csv.gz").unwrap());

/// Incast of 64 sources to a machine that moves half way.
fn migrate(scheme: Scheme, seed: u64) -> Report {
    let config = Config {
        seed,
        migrations: vec![Migration {
            machine: 5200,
            at: Time::from_micros(500),
            to_server: 68,
        }],
        ..Config::artifact(FatTree::ft8_10k(1), placement(), scheme)
    };
    let mut run = Simulation::new(&config, &INCAST).unwrap();
    run.run();
    run.report()
}

/// Without randomness: exactly the published figures, to the printed digits.
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

/// The same for hosts that remember.
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

fn reports(scheme: Scheme, seeds: u64) -> Vec<Report> {
    (1..=seeds).map(|seed| migrate(scheme, seed)).collect()
}

fn sorted(reports: &[Report], figure: impl Fn(&Report) -> f64) -> Vec<f64> {
    let mut figures: Vec<f64> = reports.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// Asserts that the published figure is in our range and our median at most `percent` away
/// from it.
fn assert_near(reports: &[Report], published: f64, percent: f64, figure: impl Fn(&Report) -> f64) {
    let figures = sorted(reports, figure);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    assert!(
        (least..=most).contains(&published),
        "{published} is not from {least} to {most}"
    );
    let median = figures[figures.len() / 2];
    let difference = (median - published).abs() / published * 100.0;
    assert!(
        difference <= percent,
        "{median} for {published}: {difference:.1} % off"
    );
}

fn printed(report: &Report) -> [String; 2] {
    [
        format!("{:.2}", report.mean_packet_latency_us),
        format!("{:.3}", report.stretch),
    ]
}

#[test]
fn switchv2p_is_as_published() {
    let reports = reports(switch_v2p(true, true), 40);
    assert_near(&reports, 5_545.0, 1.0, |r| r.gateway_packets as f64);
    assert_near(&reports, 3_655.0, 2.0, |r| r.misdelivered as f64);
    assert_near(&reports, 24.0, 10.0, |r| r.invalidations as f64);
    assert_near(&reports, 5.699, 0.2, |r| r.stretch);
    let last = sorted(&reports, |r| r.last_misdelivered_us.unwrap());
    assert_eq!(last[last.len() / 2], 563.071);
    // A seed with the same luck as the published run.
    let alike = &reports[2];
    assert_eq!((alike.gateway_packets, alike.misdelivered), (5_545, 3_657));
    assert_eq!(alike.last_misdelivered_us, Some(563.071));
    assert_eq!(printed(alike), ["13.14", "5.699"]);
}

#[test]
fn switchv2p_without_the_timestamp_vector_is_as_published() {
    let reports = reports(switch_v2p(true, false), 40);
    assert_near(&reports, 5_613.0, 1.0, |r| r.gateway_packets as f64);
    assert_near(&reports, 3_503.0, 3.0, |r| r.misdelivered as f64);
    assert_near(&reports, 5.694, 0.2, |r| r.stretch);
    let last = sorted(&reports, |r| r.last_misdelivered_us.unwrap());
    assert_eq!(last[last.len() / 2], 563.071);
    assert!(reports.iter().all(|r| r.invalidations == r.misdelivered));
}

#[test]
fn switchv2p_without_invalidations_misdelivers_to_the_end() {
    let reports = reports(switch_v2p(false, true), 100);
    assert_near(&reports, 5_379.0, 1.0, |r| r.gateway_packets as f64);
    assert_near(&reports, 1_005.28, 0.1, |r| r.last_misdelivered_us.unwrap());
    let misdelivered = sorted(&reports, |r| r.misdelivered as f64);
    assert!(misdelivered[0] < 17_266.0 && 17_266.0 < misdelivered[99]);
    let ours: Vec<u64> = reports[..5].iter().map(|r| r.misdelivered).collect();
    assert_eq!(ours, [8_666, 9_909, 8_753, 14_390, 15_240]);
    assert!(reports.iter().all(|r| r.invalidations == 0));
}

/// 64 pairs without a common destination, caches of 50 %.
fn video(profile: Profile) -> Report {
    let trace = read_trace(open("video.csv.gz"), "video.csv.gz").unwrap();
    let scheme = Scheme::SwitchV2p(SwitchV2p::new(profile, 64));
    let shape = FatTree::ft8_10k(10);
    let config = match profile {
        Profile::Artifact => Config::artifact(shape, placement(), scheme),
        Profile::Paper | Profile::Plus => Config::paper(shape, placement(), scheme, 1),
    };
    let mut run = Simulation::new(&config, &trace).unwrap();
    run.run();
    run.report()
}

/// Table 5's last row, and the learning packets of the published code.
#[test]
fn video_is_as_published() {
    let report = video(Profile::Artifact);
    let hits = report.hits_by_layer;
    let all = (hits.core + hits.spine + hits.tor) as f64;
    let shares = [hits.core, hits.spine, hits.tor].map(|one| one as f64 / all * 100.0);
    for (share, published) in shares.into_iter().zip([16.3, 12.2, 71.5]) {
        assert!((share - published).abs() < 0.1, "{share} for {published}");
    }
    let first = report.first_hits_by_layer;
    assert_eq!((first.core, first.spine, first.tor), (0, 0, 0));
    assert_eq!(report.learning_packets, 408);
}

/// By the text, too, a sender's ToR learns its mappings, though each of the 64 mappings is new
/// to a gateway's ToR only once, and only one new mapping in 200 would be sent.
#[test]
fn the_text_sends_learning_packets_where_the_code_does() {
    for profile in [Profile::Paper, Profile::Plus] {
        let video = video(profile);
        assert!(video.learning_packets > 408, "{}", video.learning_packets);
        let incast = |seed| {
            let scheme = Scheme::SwitchV2p(SwitchV2p::new(profile, 12));
            migrate(scheme, seed).learning_packets
        };
        let sent: Vec<u64> = (1..=5).map(incast).collect();
        assert!(sent.iter().all(|&sent| sent >= 25), "{sent:?}");
    }
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
