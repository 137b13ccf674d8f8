//! Tests `thalweg bench` with small sizes: its output is complete, and correct where that can
//! be checked.

mod command;

use command::Scene;
use serde_json::Value;

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
        let of_all = |row: &&Value| {
            row["maintainer"] == maintainer && row["class"] == "all" && row["kind"] == "all"
        };
        let of_all: Vec<_> = rows.iter().filter(of_all).collect();
        assert_eq!(of_all.len(), 2, "{maintainer}: one row for each size");
        for row in of_all {
            assert_eq!(row["stale_packets"], 0);
            // One burst after each change, and some bursts before the entries were right.
            let during = row["packets_during"].as_u64().expect("a count");
            assert_eq!(row["packets"], 80 * 32 + during);
            assert_eq!(during > 0, maintainer != "revalidate", "{row}");
            assert!(
                row["affected"].as_f64() > Some(0.0),
                "changes affect something"
            );
            let keeps_record = row["dependency_bytes_per_entry"].as_f64() > Some(0.0);
            assert_eq!(keeps_record, maintainer != "revalidate");
            // A sweep examines every entry, most of them in vain; other maintainers do not.
            let is_sweep = row["falsely_affected"].as_f64() > Some(20.0);
            assert_eq!(is_sweep, maintainer == "revalidate", "{row}");
        }
    }
}

/// The row of one maintainer over all changes.
fn of_all<'a>(report: &'a Value, maintainer: &str) -> &'a Value {
    let rows = report["rows"].as_array().expect("rows");
    let is_it = |row: &&Value| {
        row["maintainer"] == maintainer && row["class"] == "all" && row["kind"] == "all"
    };
    rows.iter().find(is_it).expect("a row of all changes")
}

#[test]
fn rows_are_of_changes_that_affect_as_many_entries_as_asked() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "1000",
        "--updates",
        "80",
        "--maintainer",
        "incremental",
        "--affected",
        "0,2,20",
    ]);
    let rows = report["rows"].as_array().expect("rows");
    for (class, from, to) in [("0", 0.0, 0.0), ("2", 2.0, 2.0), ("20", 16.0, 25.0)] {
        let row = rows.iter().find(|row| row["class"] == class);
        let affected = row.expect("a row for each number")["affected"].as_f64();
        let affected = affected.expect("a mean");
        assert!((from..=to).contains(&affected), "{class}: {affected}");
    }
}

#[test]
fn a_lazy_sweep_is_seen_to_be_one() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "400",
        "--updates",
        "60",
        "--maintainer",
        "lazy,incremental",
    ]);
    let (lazy, strict) = (of_all(&report, "lazy"), of_all(&report, "incremental"));
    assert_eq!(strict["stale_packets"], 0);
    assert!(lazy["stale_packets"].as_u64() > Some(0), "{lazy}");
    assert!(lazy["packets_during"].as_u64() > Some(0), "{lazy}");
}

#[test]
fn every_kind_of_change_has_a_row() {
    let kinds = ["insert", "delete", "modify", "priority", "group", "port"];
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "200",
        "--updates",
        "120",
        "--maintainer",
        "incremental",
        "--change",
        &kinds.join(","),
    ]);
    let rows = report["rows"].as_array().expect("rows");
    let mut updates = 0;
    for kind in kinds {
        let mut of_kind = rows.iter().filter(|row| row["kind"] == kind);
        let row = of_kind.next().unwrap_or_else(|| panic!("{kind} has a row"));
        assert_eq!(
            (&row["class"], &row["stale_packets"]),
            (&"all".into(), &0.into()),
            "{row}"
        );
        updates += row["updates"].as_u64().expect("a count");
    }
    assert_eq!(updates, 120);
    assert_eq!(of_all(&report, "incremental")["stale_packets"], 0);
}

#[test]
fn one_kind_alone_can_be_asked_for() {
    for kind in ["insert", "delete"] {
        let report = Scene::new().json(&[
            "bench",
            "update",
            "--rules",
            "600",
            "--entries",
            "200",
            "--updates",
            "60",
            "--maintainer",
            "barrier",
            "--change",
            kind,
        ]);
        let row = of_all(&report, "barrier");
        assert_eq!(
            (&row["updates"], &row["stale_packets"]),
            (&60.into(), &0.into())
        );
        // A returning rule meets entries made without it, and a removed rule had entries: in
        // at least half of the changes here.
        assert!(row["affected"].as_f64() > Some(0.5), "{row}");
    }
}

#[test]
fn a_bundle_is_one_change() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "200",
        "--updates",
        "20",
        "--maintainer",
        "incremental",
        "--bundle",
        "8",
    ]);
    let row = of_all(&report, "incremental");
    assert_eq!(
        (&row["operations"], &row["updates"]),
        (&8.into(), &20.into())
    );
    assert_eq!(row["stale_packets"], 0);
}

/// A file in the format of `cargo xtask dbsp --out`.
const VIEW: &str = r#"{"command": "thalweg-dbsp", "seed": 1, "pipeline": "ofd", "rules": 600,
    "rows": [{"maintainer": "dbsp", "entries": 64, "class": "all", "updates": 9, "affected": 7.5,
    "time_to_update_us": {"median": 4e3, "p99": 5e3, "max": 6e3},
    "wall_us": {"median": 4e3, "p99": 5e3, "max": 6e3}, "rebuild_ms": 9.5}]}"#;

/// A file in the format of `bench/peers/ovs_revalidate.py`.
const PEER: &str = r#"{"peer": "openvswitch", "rows": [{"maintainer": "openvswitch",
    "entries": 64, "updates": 5, "time_to_update_us": {"median": 1e3, "p99": 2e3, "max": 3e3}}]}"#;

#[test]
fn a_peer_is_a_row_and_a_line() {
    let scene = Scene::new();
    let peer = scene.write("peer.json", PEER);
    let view = scene.write("view.json", VIEW);
    let arguments = [
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "64,200",
        "--updates",
        "20",
        "--maintainer",
        "incremental",
        "--peer",
        &peer,
        "--peer",
        &view,
        "--plot",
        "times.svg",
    ];
    let report = scene.json(&arguments);
    assert_eq!(of_all(&report, "dbsp")["affected"], 7.5);
    let row = of_all(&report, "openvswitch");
    assert_eq!(row["time_to_update_us"]["p99"], 2e3);
    assert_eq!(row.get("affected"), None, "it does not know");
    let picture = std::fs::read_to_string(scene.path("times.svg")).expect("a picture");
    for part in [
        "<svg ",
        "openvswitch",
        "incremental",
        "Time to update, median",
    ] {
        assert!(picture.contains(part), "{part}");
    }
    let page = [&arguments[..arguments.len() - 1], &["times.html"]].concat();
    let text = scene.says(&page);
    assert!(text.contains("openvswitch"), "{text}");
    let page = std::fs::read_to_string(scene.path("times.html")).expect("a page");
    assert!(page.contains("Both axes are logarithmic."), "{page}");
}

#[test]
fn figure_2_has_hits_beside_times() {
    let scene = Scene::new();
    let report = scene.json(&[
        "bench",
        "update",
        "--figure",
        "2",
        "--rules",
        "600",
        "--entries",
        "64,400",
        "--updates",
        "3",
        "--flows",
        "2000",
        "--plot",
        "figure.html",
    ]);
    let hits = report["hits"].as_array().expect("a list");
    let rate = |place: usize| hits[place]["hit_rate"].as_f64().expect("a share");
    assert!(
        0.0 < rate(0) && rate(0) < rate(1) && rate(1) < 1.0,
        "{hits:?}"
    );
    for size in hits {
        let count = |key: &str| size[key].as_u64().expect("a count");
        assert_eq!(count("hits") + count("misses"), 6000);
        assert_eq!(count("packets"), 6000);
    }
    of_all(&report, "revalidate");
    of_all(&report, "incremental");
    let page = std::fs::read_to_string(scene.path("figure.html")).expect("a page");
    assert_eq!(
        page.matches("<svg ").count(),
        5,
        "three of times, two of hits"
    );
}

#[test]
fn table_1_has_a_line_for_each_scheme() {
    let scene = Scene::new();
    let peer = scene.write("peer.json", PEER);
    let text = scene.says(&[
        "bench",
        "update",
        "--table",
        "1",
        "--rules",
        "600",
        "--entries",
        "64,200",
        "--updates",
        "3",
        "--peer",
        &peer,
    ]);
    for scheme in ["incremental", "revalidate", "openvswitch"] {
        let mut lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|words| words.first() == Some(&scheme));
        let line = line.unwrap_or_else(|| panic!("{scheme}: {text}"));
        // A number and its unit for each size; the peer has only one size.
        let cells = if scheme == "openvswitch" { 1 } else { 2 };
        assert_eq!(line.len(), 1 + 2 * cells, "{line:?}");
    }
    assert!(!text.contains("poster's KAIRO"), "other sizes: {text}");
}

#[test]
fn many_new_rules_are_followed_by_searches_and_by_a_sweep() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rules",
        "600",
        "--entries",
        "100",
        "--crossover",
    ]);
    let rows = report["rows"].as_array().expect("rows");
    let new_rules: Vec<_> = rows.iter().map(|row| row["new_rules"].as_u64()).collect();
    assert_eq!(new_rules, [25, 50, 100, 200, 400].map(Some));
    for row in rows {
        for way in ["search_us", "sweep_us"] {
            assert!(row[way]["median"].as_f64() > Some(0.0), "{row}");
        }
    }
}

#[test]
fn depth_compares_pipelines() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--depth",
        "--rules",
        "4000",
        "--entries",
        "200",
        "--updates",
        "3",
        "--maintainer",
        "incremental",
    ]);
    let rows = report["rows"].as_array().expect("rows");
    let shapes: Vec<_> = rows
        .iter()
        .map(|row| (&row["pipeline"], &row["tables"]))
        .collect();
    let deep = (&"synthetic".into(), &22.into());
    let expected = [
        (&"psc".into(), &7.into()),
        (&"ofd".into(), &10.into()),
        deep,
        deep,
        deep,
    ];
    assert_eq!(shapes, expected);
    let ways = |place: usize| rows[place]["traversals"].as_u64().expect("a count");
    assert!(ways(2) < ways(3) && ways(3) < ways(4), "{rows:?}");
}

#[test]
fn updates_at_a_rate_leave_the_worker_forwarding() {
    let report = Scene::new().json(&[
        "bench",
        "update",
        "--rate",
        "5000",
        "--bundle",
        "20",
        "--rules",
        "2000",
        "--entries",
        "300",
        "--seconds",
        "1",
    ]);
    let row = &report["rows"].as_array().expect("rows")[0];
    assert_eq!(row["maintainer"], "incremental");
    assert!(row["entries"].as_u64() >= Some(300), "{row}");
    assert!(row["updates"].as_u64() >= Some(20), "{row}");
    let updates = row["updates"].as_u64().expect("a count");
    assert_eq!(updates % 20, 0, "bundles are whole: {row}");
    for key in ["packets_per_second_before", "packets_per_second_during"] {
        assert!(row[key].as_f64() > Some(0.0), "{row}");
    }
    assert!(row["worker_us_per_update"].as_f64() > Some(0.0), "{row}");
}

#[test]
fn caches_of_an_update_are_as_asked_for() {
    let scene = Scene::new();
    let rates = ["bench", "update", "--rate", "5000", "--bundle", "20"];
    let sizes = ["--rules", "2000", "--entries", "300", "--seconds", "1"];
    let with = |more: &[&str]| {
        let report = scene.json(&[&rates[..], &sizes, more].concat());
        report["rows"].as_array().expect("rows")[0].clone()
    };
    let row = with(&["--megaflow-classifier", "bloom", "--mask-growth", "0"]);
    assert_eq!(row["index"], "bloom", "{row}");
    assert!(row["masks"].as_u64() > Some(1), "{row}");
    let row = with(&["--megaflow-classifier", "tuple_space"]);
    assert_eq!(row["index"], "tuple-space", "{row}");
    let few = [
        "--updates",
        "3",
        "--affected",
        "1",
        "--maintainer",
        "incremental",
    ];
    let cold = [
        "bench",
        "update",
        "--rules",
        "2000",
        "--entries",
        "300",
        "--cold",
    ];
    let report = scene.json(&[&cold[..], &few].concat());
    let row = &report["rows"].as_array().expect("rows")[0];
    assert_eq!(row["stale_packets"], 0, "{row}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = Scene::new();
    let refuses = |arguments: &[&str], expected: &[&str]| {
        scene.refuses(&[&["bench", "update"], arguments].concat(), expected);
    };
    refuses(&["--entries", "0"], &["--entries", "32"]);
    refuses(&["--maintainer", "quick"], &["quick", "incremental"]);
    refuses(&["--figure", "3"], &["--figure", "2"]);
    refuses(&["--figure", "2", "--table", "1"], &["--table"]);
    refuses(&["--rate", "0"], &["--rate"]);
    refuses(&["--megaflow-classifier", "quick"], &["quick", "learned"]);
    refuses(&["--cold", "--rate", "5"], &["--cold"]);
    refuses(&["--full"], &["--figure"]);
    refuses(&["--plot", "x.png"], &["x.png", ".svg or .html"]);
    refuses(&["--plot", "no/x.svg"], &["no existing folder"]);
    let peer = scene.write("peer.json", "{}");
    refuses(
        &["--peer", &peer],
        &["peer.json", "missing field `rows`", "ovs_revalidate.py"],
    );
    refuses(&["--affected", "one"], &["--affected"]);
    refuses(&["--affected", "1", "--depth"], &["--affected"]);
    let few = ["--rules", "600", "--entries", "64", "--bundle", "500"];
    refuses(&few, &["--bundle", "1001 are needed"]);
}

#[test]
fn a_running_switch_is_measured_by_workers_and_drawn() {
    let scene = Scene::new();
    let report = scene.json(&[
        "bench",
        "forward",
        "--rules",
        "acl1-1200",
        "--flows",
        "2000",
        "--mode",
        "computational-flows",
        "--classifier",
        "learned",
        "--workers",
        "1,2",
        "--update-rate",
        "50",
        "--samples",
        "1",
        "--plot",
        "running.html",
    ]);
    let rows = report["running"].as_array().expect("rows");
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(0));
    for (row, workers) in rows.iter().zip([1, 2]) {
        assert_eq!(row["workers"], workers);
        assert!(row["packets_per_second"]["median"].as_f64() > Some(0.0));
        assert!(row["updates_per_second"].as_f64() > Some(0.0));
        assert!(row["loss"].as_f64() < Some(1.0));
        // Training finished before the samples began.
        assert_eq!(row["tables"][0], "learned");
        assert!(row["longest_slice_us"].as_f64() > Some(0.0));
    }
    assert_eq!(rows.len(), 2);
    let page = std::fs::read_to_string(scene.path("running.html")).expect("a page");
    assert!(page.contains("<svg"));
}

#[test]
fn what_tables_and_caches_have_chosen_is_told() {
    let report = Scene::new().json(&[
        "bench",
        "forward",
        "--rules",
        "acl1-1200",
        "--flows",
        "2000",
        "--samples",
        "2",
        "--packets",
        "2000",
    ]);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    for row in rows {
        let table = &row["lookups"]["tables"][0];
        assert_eq!(table["is_measured"], true, "{row}");
        assert!(table["rules"].as_u64() > Some(1_000), "{row}");
        assert!(table["lookups"].as_u64() > Some(0), "{row}");
        let cache = &row["lookups"]["megaflows"][0];
        assert_eq!(cache["is_measured"], row["mode"] == "megaflows", "{row}");
    }
}

/// The figure of the slides on the vector Bloom filter: both ways to search, at each size.
#[test]
fn megaflows_are_searched_with_and_without_the_vector_filter() {
    let scene = Scene::new();
    let report = scene.json(&[
        "bench",
        "forward",
        "--vector-filter",
        "--samples",
        "1",
        "--packets",
        "100000",
        "--plot",
        "filter.svg",
    ]);
    assert_eq!(report["command"], "bench forward");
    let rows = report["rows"].as_array().expect("rows");
    let sizes: Vec<_> = rows
        .iter()
        .map(|row| row["rules_per_mask"].as_u64())
        .collect();
    let expected = [100, 300, 1_000, 3_000, 10_000];
    assert_eq!(sizes, expected.map(|size| [Some(size); 2]).concat());
    for pair in rows.chunks(2) {
        for (row, classifier) in pair.iter().zip(["tuple-space", "bloom"]) {
            assert_eq!(row["classifier"], classifier);
            assert_eq!(row["masks"], 20, "{row}");
            let all = row["rules_per_mask"].as_u64().map(|rules| 20 * rules);
            assert_eq!(row["megaflows"].as_u64(), all, "{row}");
            assert_eq!(row["upcalls"], 0.0, "{row}");
            assert_eq!(
                row["asked"].as_f64() > Some(0.5),
                classifier == "bloom",
                "{row}"
            );
        }
        let searched = |row: &Value| row["subtables"].as_f64().expect("a number");
        // Flows lie evenly in 20 sub-tables, and the filter names the right one.
        assert!(searched(&pair[0]) > 8.0, "{}", pair[0]);
        assert!(searched(&pair[1]) < 3.0, "{}", pair[1]);
    }
    let picture = std::fs::read_to_string(scene.path("filter.svg")).expect("a picture");
    assert!(picture.contains("tuple-space"));
    let refuses = |arguments: &[&str], expected| {
        scene.refuses(
            &[&["bench", "forward", "--vector-filter"], arguments].concat(),
            expected,
        );
    };
    refuses(&["--case", "megaflow"], &["--case"]);
    refuses(&["--attack", "tse"], &["--attack"]);
    refuses(&["--classifier", "bloom"], &["--classifier"]);
}

/// The rows of `bench openflow` with small sizes.
fn openflow_rows(switches: &str) -> Vec<Value> {
    let report = Scene::new().json(&[
        "bench",
        "openflow",
        "--switch",
        switches,
        "--flows",
        "60",
        "--barriers",
        "8",
        "--bundle",
        "25",
        "--dump",
        "150,70,150",
        "--cached",
        "300",
        "--samples",
        "2",
    ]);
    assert_eq!(report["command"], "bench openflow");
    let has_peer = switches.contains("open-vswitch");
    assert_eq!(report["open_vswitch"].is_string(), has_peer);
    report["rows"].as_array().expect("rows").clone()
}

/// The figures of a switch with `cached` flows under way, with the number of rules.
fn measured(rows: &[Value], switch: &str, cached: u64) -> Vec<(String, u64)> {
    let of_it = |row: &&Value| row["switch"] == switch && row["cached"] == cached;
    let of_it = rows.iter().filter(of_it);
    let pairs = of_it.map(|row| {
        let what = row["what"].as_str().expect("words");
        let least = row["value"]["min"].as_f64().expect("a number");
        // Little memory is there already, and little processor time is not seen.
        let may_be_zero = what.contains("memory") || what.contains("processor");
        assert!(least > 0.0 || may_be_zero, "{row}");
        (what.to_owned(), row["rules"].as_u64().expect("a count"))
    });
    pairs.collect()
}

const CHANGES: [(&str, u64); 4] = [
    ("flow-mods, one barrier at the end", 60),
    ("flow-mods in bundles of 25", 60),
    ("flow-mod with its barrier, median", 8),
    ("the same, 99th percentile", 8),
];

const SPENT: [(&str, u64); 2] = [
    ("processor time of a flow-mod", 60),
    ("processor time in bundles", 60),
];

/// Dumps are compared with the rules that the command added.
#[test]
fn openflow_has_its_rows_with_and_without_traffic() {
    let rows = openflow_rows("thalweg");
    let owned = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
        let rows = rows.iter();
        rows.map(|(what, count)| ((*what).to_owned(), *count))
            .collect()
    };
    let (memory, dump) = ("memory of a rule", "dump of all rules");
    let spent = "dump, processor time of a rule";
    let reads = |count| [(memory, count), (dump, count), (spent, count)];
    let without = [&reads(70)[..], &reads(150), &CHANGES, &SPENT].concat();
    assert_eq!(measured(&rows, "Thalweg", 0), owned(&without));
    let of_dump = |count| {
        [
            (dump, count),
            ("longest wait of a packet during a dump", count),
            ("longest wait for as long without a dump", count),
        ]
    };
    let with = [&CHANGES[..], &of_dump(70), &of_dump(150)].concat();
    assert_eq!(measured(&rows, "Thalweg", 300), owned(&with));
    assert_eq!(rows.len(), without.len() + with.len());
}

#[test]
#[cfg(feature = "privileged-tests")]
fn openflow_has_open_vswitch_in_the_same_rows() {
    let rows = openflow_rows("open-vswitch,thalweg");
    let peer = measured(&rows, "Open vSwitch", 0);
    let mut ours = measured(&rows, "Thalweg", 0);
    assert_eq!(peer.len(), 12);
    ours.retain(|row| peer.contains(row));
    assert_eq!(peer, ours);
    assert!(measured(&rows, "Open vSwitch", 300).is_empty());
}

#[test]
fn openflow_refuses_sizes_that_make_no_sense() {
    let scene = Scene::new();
    for (option, value) in [("--flows", "0"), ("--switch", "ovs"), ("--samples", "0")] {
        scene.refuses(&["bench", "openflow", option, value], &[option]);
    }
}

/// The command fails if a packet is lost, or a connection is missing.
#[test]
fn conntrack_has_all_rows_and_those_of_a_peer() {
    const PEER: &str = r#"{"peer": "openvswitch", "rows": [
        {"what": "packet of an established connection", "protocol": "udp", "connections": 50,
        "tracking": "ct", "unit": "ns", "value": {"median": 900.0, "min": 800.0, "max": 950.0}}]}"#;
    let scene = Scene::new();
    let peer = scene.write("peer.json", PEER);
    let arguments = [
        "bench",
        "conntrack",
        "--connections",
        "2000,50,2000",
        "--packets",
        "3000",
        "--samples",
        "2",
        "--peer",
        &peer,
    ];
    let report = scene.json(&arguments);
    assert_eq!(report["command"], "bench conntrack");
    let rows = report["rows"].as_array().expect("rows").iter();
    let names = rows.map(|row| {
        let word = |key: &str| row[key].as_str().expect("a word").to_owned();
        let least = row["value"]["min"].as_f64().expect("a number");
        // A little memory is there already.
        assert!(least > 0.0 || word("unit") == "bytes", "{row}");
        let connections = row["connections"].as_u64().expect("a count");
        let place = [word("place"), word("protocol"), connections.to_string()].join(" ");
        format!("{}: {place} {}", word("what"), word("tracking"))
    });
    let found: Vec<String> = names.collect();
    let (packet, lives) = (
        "packet of an established connection",
        "connections set up and torn down",
    );
    let mut expected = vec![
        "memory of a connection: tracker udp 2000 ct".to_owned(),
        "longest call that expires connections: tracker udp 2000 ct".to_owned(),
        "expiry of a connection: tracker udp 2000 ct".to_owned(),
    ];
    for place in ["switch", "tracker"] {
        let trackings = ["none", "ct", "ct with NAT"];
        let trackings = &trackings[usize::from(place == "tracker")..];
        for traffic in ["udp 50", "udp 2000", "tcp 50", "tcp 2000"] {
            let name = |tracking| format!("{packet}: {place} {traffic} {tracking}");
            expected.extend(trackings.iter().map(name));
        }
        let name = |tracking| format!("{lives}: {place} tcp 500 {tracking}");
        expected.extend(trackings.iter().map(name));
    }
    expected.push(format!("{packet}: openvswitch udp 50 ct"));
    assert_eq!(found, expected);
}

#[test]
fn conntrack_refuses_sizes_that_make_no_sense() {
    let scene = Scene::new();
    for (option, value) in [
        ("--connections", "0"),
        ("--protocol", "icmp"),
        ("--samples", "0"),
        ("--peer", "absent.json"),
    ] {
        scene.refuses(&["bench", "conntrack", option, value], &[option]);
    }
}

#[test]
fn ports_have_rows_of_both_switches() {
    let command = "bench ports --ports 30,30 --samples 1 --rest-ms 100";
    let report = Scene::new().json(&command.split(' ').collect::<Vec<_>>());
    assert!(report["open_vswitch"].is_string(), "{report}");
    let rows = report["rows"].as_array().expect("rows");
    for switch in ["Thalweg", "Open vSwitch"] {
        for what in ["added", "memory of a port", "removed"] {
            let of_both = rows.iter();
            let mut found = of_both.filter(|row| row["switch"] == switch && row["what"] == what);
            let row = found.next().unwrap_or_else(|| panic!("{switch}: {what}"));
            assert_eq!(row["ports"], 30);
            let value = row["value"]["median"].as_f64().expect("a number");
            // So few ports may find room in memory that is there already.
            assert!(value > 0.0 || row["unit"] == "bytes", "{row}");
            assert_eq!(found.count(), 0, "a number of ports is measured once");
        }
    }
}

/// The keys of each row, in the order of the rows.
fn rows_of(report: &Value, keys: [&str; 3]) -> Vec<String> {
    let rows = report["rows"].as_array().expect("rows").iter();
    let words = rows.map(|row| {
        keys.map(|key| match &row[key] {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        })
        .join(" ")
    });
    words.collect()
}

/// The command fails if a packet goes where the clauses do not say.
#[test]
fn conjunction_has_both_forms_where_all_rules_fit() {
    let scene = Scene::new();
    let sizes = [
        "--sizes",
        "5x4x3,60x70x80",
        "--packets",
        "500",
        "--flows",
        "100",
    ];
    let effort = ["--changes", "7", "--samples", "2"];
    let command = [&["bench", "conjunction"][..], &sizes, &effort].concat();
    let report = scene.json(&command);
    let subjects = [
        ("conjunction", "5x4x3"),
        ("expanded", "5x4x3"),
        ("conjunction", "60x70x80"),
    ];
    let expected: Vec<String> = subjects
        .iter()
        .flat_map(|(form, sizes)| {
            [
                "memory of the rules",
                "packet that no cache answers",
                "change of one clause",
            ]
            .map(|what| format!("{what} {form} {sizes}"))
        })
        .collect();
    assert_eq!(rows_of(&report, ["what", "rules", "clauses"]), expected);
    let rows = report["rows"].as_array().expect("rows").iter();
    let counts: Vec<u64> = rows
        .filter(|row| row["what"] == "memory of the rules")
        .map(|row| row["rule_count"].as_u64().expect("a count"))
        .collect();
    // A rule for each clause, or for each combination; what they all do; a rule for the rest.
    assert_eq!(counts, [14, 61, 212]);
    for sizes in ["5x4", "0x1x1", "5x4x3x2"] {
        scene.refuses(&["bench", "conjunction", "--sizes", sizes], &["--sizes"]);
    }
}

/// The command fails if a packet does not come out as it went in.
#[test]
fn tunnel_has_a_row_for_each_kind_and_way() {
    let scene = Scene::new();
    let command = "bench tunnel --bytes 60,900 --packets 2000 --samples 2";
    let report = scene.json(&command.split(' ').collect::<Vec<_>>());
    let expected: Vec<String> = [60, 900]
        .iter()
        .flat_map(|bytes| {
            let ways = ["copy and encapsulation", "decapsulation"];
            let each = ["vxlan", "geneve", "gre"];
            let rows = each
                .into_iter()
                .flat_map(move |kind| ways.map(|way| format!("{way} {kind} {bytes}")));
            std::iter::once(format!("copy into a buffer  {bytes}")).chain(rows)
        })
        .collect();
    assert_eq!(rows_of(&report, ["what", "tunnel", "bytes"]), expected);
    scene.refuses(&["bench", "tunnel", "--bytes", "59"], &["--bytes"]);
}
