//! Runs the demonstration as a newcomer would: in an empty folder, without any file.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SMALL: [&str; 9] = [
    "demo",
    "--packets",
    "20000",
    "--flows",
    "500",
    "--rules",
    "500",
    "--changes",
    "10",
];

fn thalweg(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output = command.current_dir(folder).args(arguments).output();
    output.expect("the program can be started")
}

#[test]
fn the_demonstration_tells_all_and_nothing_is_stale() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let output = thalweg(folder.path(), &[&SMALL[..], &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "progress is for terminals");
    let told: Value = serde_json::from_slice(&output.stdout).expect("one object and nothing else");
    let rows = told["rows"].as_array().expect("a row for each maintainer");
    assert!(rows.len() >= 2);
    // The audited pass of each maintainer compared every packet.
    assert_eq!(told["audited_packets"], 20_000 * rows.len());
    assert_eq!(told["stale_packets"], 0);
    assert_eq!(told["same_outputs"], true);
    for row in rows {
        check_row(row);
    }
    assert_eq!(told["report"], "thalweg-demo.html");
    check_report(&folder.path().join("thalweg-demo.html"), rows);
}

fn check_row(row: &Value) {
    let count = |value: &Value| value.as_u64().expect("a count");
    assert_eq!(row["audited_packets"], 20_000);
    assert_eq!(row["stale_packets"], 0);
    let caches = &row["caches"];
    let hits = count(&caches["microflow"]["hits"]) + count(&caches["megaflow"]["hits"]);
    // Each packet is answered once: by a cache or by the interpreter.
    assert_eq!(hits + count(&caches["megaflow"]["misses"]), 20_000);
    let upcalls = count(&row["upcalls"]);
    assert!(0 < upcalls && upcalls <= count(&caches["megaflow"]["misses"]));
    assert!(count(&caches["megaflow"]["entries"]) > 0);
    assert!(row["ns_per_packet"].as_f64().is_some_and(|ns| ns > 0.0));
    assert!(
        row["packets_per_second"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0)
    );
    let changes = row["changes"].as_array().expect("a list");
    assert_eq!(changes.len(), 10);
    for key in ["median", "p99", "max"] {
        assert!(
            row["time_to_update_us"][key]
                .as_f64()
                .is_some_and(|time| time > 0.0)
        );
        assert!(row["affected"][key].is_u64());
    }
    let timeline = row["timeline"].as_array().expect("a list");
    let packets: u64 = timeline
        .iter()
        .map(|window| count(&window["packets"]))
        .sum();
    assert_eq!(packets, 20_000);
}

fn check_report(path: &Path, rows: &[Value]) {
    let page = std::fs::read_to_string(path).expect("the report is there");
    let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for foreign in ["http://", "https://", "<script", "src=", "url(", "@import"] {
        assert!(
            !page.contains(foreign),
            "a page that stands on its own has no {foreign}"
        );
    }
    assert!(page.contains("<svg "));
    for row in rows {
        let name = row["maintainer"].as_str().expect("a name");
        assert!(page.contains(name));
    }
}

#[test]
fn what_is_printed_for_people_says_where_to_look_next() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let output = thalweg(folder.path(), &[&SMALL[..], &["--no-report"]].concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("it is text");
    for part in [
        "stale packets",
        "seed 1",
        "time to update",
        "Where to look next",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours are for terminals");
    let left = std::fs::read_dir(folder.path()).expect("it is a folder");
    assert_eq!(left.count(), 0, "no report was asked for");
}

#[test]
fn what_cannot_be_done_is_refused_with_advice() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let cases: [(&[&str], &str); 5] = [
        (
            &["demo", "--rules", "10"],
            "--rules: the number of OFD rules is 10, but must lie within",
        ),
        (&["demo", "--packets", "7"], "give a whole number from 100"),
        (
            &["demo", "--report", "no/such/folder.html"],
            "use --no-report",
        ),
        (&["demo", "--exponent=-1"], "Zipf exponent cannot be -1"),
        (&["demo", "--sneed", "1"], "--seed"),
    ];
    for (arguments, advice) in cases {
        let output = thalweg(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(advice), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
}
