//! The migration table of SwitchV2P's published code, reproduced.
//!
//! Built only with the feature `shared-data`; the folder is `$THALWEG_SHARED`, else `../shared`
//! beside the workspace, and a missing one fails the test.

use std::io::BufReader;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use thalweg_fabric::*;

fn open(name: &str) -> BufReader<GzDecoder<std::fs::File>> {
    let folder = match std::env::var_os("THALWEG_SHARED") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = folder.join("data/v2p").join(name);
    let file = std::fs::File::open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()));
    BufReader::new(GzDecoder::new(file))
}

fn placement() -> Placement {
    let name = "placement_n128_v80.json.gz";
    Placement::read(open(name), name).unwrap()
}

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
