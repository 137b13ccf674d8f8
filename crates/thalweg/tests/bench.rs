//! `thalweg bench`, in small: what it prints is whole, and right where it can be right or wrong.

mod command;

use command::Scene;

#[test]
fn updates_leave_nothing_stale_and_rows_tell_maintainers_apart() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "64,200",
        "--updates",
        "80",
        "--maintainer",
        "incremental,barrier,revalidate",
    ]);
    assert_eq!(report["command"], "bench update");
    let rows = report["rows"].as_array().expect("rows");
    for maintainer in ["incremental", "barrier", "revalidate"] {
        let of_all =
            |row: &&serde_json::Value| row["maintainer"] == maintainer && row["class"] == "all";
        let of_all: Vec<_> = rows.iter().filter(of_all).collect();
        assert_eq!(of_all.len(), 2, "{maintainer}: one row for each size");
        for row in of_all {
            assert_eq!(row["stale_packets"], 0);
            assert_eq!(row["packets"], 80 * 32);
            assert!(
                row["affected"].as_f64() > Some(0.0),
                "changes affect something"
            );
            let keeps_record = row["dependency_bytes_per_entry"].as_f64() > Some(0.0);
            assert_eq!(keeps_record, maintainer != "revalidate");
            // A sweep looks at every entry, most of them in vain; the others do not.
            let is_sweep = row["falsely_affected"].as_f64() > Some(20.0);
            assert_eq!(is_sweep, maintainer == "revalidate", "{row}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = Scene::new();
    scene.refuses(&["bench", "update", "--entries", "0"], &["--entries", "32"]);
    scene.refuses(
        &["bench", "update", "--maintainer", "idle"],
        &["idle", "incremental"],
    );
}
