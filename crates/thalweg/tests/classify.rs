//! Tests `thalweg bench classify` with small sizes: answers are right, rows complete, and
//! mistakes reported.

mod command;

use command::Scene;
use serde_json::Value;

/// Arguments that keep a run short.
const SHORT: [&str; 6] = ["--flows", "2000", "--samples", "2", "--sample-ms", "2"];

fn classify(scene: &Scene, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["bench", "classify"], &SHORT[..], arguments].concat();
    let report = scene.json(&arguments);
    assert_eq!(report["command"], "bench classify");
    report["rows"].as_array().expect("rows").clone()
}

const CLASSIFIERS: [&str; 9] = [
    "linear",
    "tuple-space",
    "merged-tuples",
    "bloom",
    "bloom-full-keys",
    "bloom-own-bits",
    "learned",
    "learned-rq-rmi",
    "auto",
];

/// Two filters; the port range makes the second into six rules.
const FILTERS: &str = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\n\
                       @0.0.0.0/0\t10.1.0.0/16\t0 : 65535\t1024 : 65535\t0x11/0xFF\n";

#[test]
fn every_classifier_answers_every_traffic_right() {
    let rows = classify(
        &Scene::new(),
        &[
            "--rules",
            "acl1-300,fw1-300,ipc6-300,openflow-300",
            "--traffic",
            "uniform,zipf,trace",
            "--batch",
            "1,32",
        ],
    );
    for set in ["acl1-300", "fw1-300", "ipc6-300", "openflow-300"] {
        for classifier in CLASSIFIERS {
            for traffic in ["uniform", "zipf", "trace"] {
                for batch in [1, 32] {
                    let is_it = |row: &&Value| {
                        row["set"] == set
                            && row["classifier"] == classifier
                            && row["traffic"] == traffic
                            && row["batch"] == batch
                    };
                    let row = rows.iter().find(is_it);
                    let row = row.unwrap_or_else(|| panic!("{set} {classifier} {traffic}"));
                    check(row);
                    assert_eq!(row["checked"], 2_000, "{row}");
                }
            }
        }
    }
}

/// Checks what must hold for each of our rows.
fn check(row: &Value) {
    assert_eq!(row["wrong"], 0, "{row}");
    let spread = &row["ns_per_lookup"];
    let time = |name: &str| spread[name].as_f64().expect("a time");
    assert!(0.0 < time("min") && time("min") <= time("median"), "{row}");
    assert!(time("median") <= time("max"), "{row}");
    for name in ["rules", "memory_bytes", "masks"] {
        assert!(row[name].as_u64() > Some(0), "{name}: {row}");
    }
    assert!(row["build_ms"].as_f64() > Some(0.0), "{row}");
    assert!(row.get("coverage").is_some(), "{row}");
}

#[test]
fn sets_come_from_filters_from_rules_and_packed() {
    let scene = Scene::new();
    let filters = scene.write("a.filters", FILTERS);
    let mut packed = Vec::new();
    lzma_rs::xz_compress(&mut FILTERS.as_bytes(), &mut packed).expect("memory takes it");
    let packed = scene.write("a.filters.xz", packed);
    let rules = scene.write(
        "b.rules",
        "table=1,arp,arp_spa=10.0.0.0/8,actions=drop\n\
         table=1,priority=5,in_port=3,ipv6,ipv6_dst=2001:db8::/32,actions=output:1\n\
         dl_dst=02:00:00:00:00:00/ff:00:00:00:00:00,actions=drop\n",
    );
    let all = format!("{filters},{packed},{rules}");
    let rows = classify(&scene, &["--rules", &all, "--classifier", "merged-tuples"]);
    let numbers = |row: &Value| (row["filters"].as_u64(), row["rules"].as_u64());
    let numbers: Vec<_> = rows.iter().map(numbers).collect();
    let of_filters = (Some(2), Some(7));
    assert_eq!(numbers, [of_filters, of_filters, (None, Some(2))]);
    rows.iter().for_each(check);
    let of_table = ["--rules", &rules, "--table", "0"];
    assert_eq!(classify(&scene, &of_table)[0]["rules"], 1);
}

#[test]
fn rules_come_and_go_and_threads_look_up() {
    let report = Scene::new().json(&[
        "bench",
        "classify",
        "--rules",
        "ipc1-500",
        "--flows",
        "2000",
        "--threads",
        "1,2",
        "--update-rate",
        "0,20000",
        "--samples",
        "2",
        "--sample-ms",
        "100",
    ]);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), CLASSIFIERS.len() * 4);
    for row in rows {
        check(row);
        let is_alone = row["threads"] == 1 && row["update_rate"] == 0;
        // Each sample keeps some answers, besides those checked afterwards.
        assert_eq!(row["checked"].as_u64() > Some(2_000), !is_alone, "{row}");
        let updates = row["updates_per_second"].as_f64();
        assert_eq!(updates > Some(0.0), row["update_rate"] == 20_000, "{row}");
    }
}

#[test]
fn what_is_left_out_of_a_learned_index_shows() {
    let names = "learned-rq-rmi,learned-no-simd,learned-no-buckets,learned-no-sampling,\
                 learned-always";
    let rows = classify(
        &Scene::new(),
        &["--rules", "acl1-3000", "--classifier", names],
    );
    let row = |name: &str| {
        let row = rows.iter().find(|row| row["classifier"] == name);
        let row = row.expect("a row for each");
        check(row);
        assert!(row["training_ms"].as_f64() > Some(0.0), "{row}");
        row
    };
    let coverage = |name: &str| row(name)["coverage"].as_f64().expect("a share");
    assert!(
        coverage("learned-always") > 0.25,
        "{}",
        row("learned-always")
    );
    assert_eq!(coverage("learned-rq-rmi"), coverage("learned-no-simd"));
    assert_eq!(coverage("learned-rq-rmi"), coverage("learned-no-sampling"));
    assert_ne!(
        row("learned-no-buckets")["details"]["buckets"],
        row("learned-always")["details"]["buckets"]
    );
}

#[test]
fn the_model_stands_beside_what_is_measured() {
    let scene = Scene::new();
    let arguments = [
        "bench",
        "classify",
        "--model",
        "--samples",
        "2",
        "--sample-ms",
        "1",
    ];
    let report = scene.json(&[&arguments[..], &["--plot", "model.svg"]].concat());
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 7 * 3);
    // The paper's 395 + 150 L cycles; a constant for known flows.
    let cycles = |name: &str, subtables: u64| {
        let is_it = |row: &&Value| row["classifier"] == name && row["sub_tables"] == subtables;
        rows.iter().find(is_it).expect("a row")["paper_cycles"].as_f64()
    };
    assert_eq!(cycles("tuple-space", 20), Some(395.0 + 150.0 * 20.0));
    assert_eq!(cycles("bloom-disjoint", 1), cycles("bloom-disjoint", 60));
    for row in rows {
        let by_model = row["model_ns"].as_f64();
        assert!(by_model > Some(0.0), "{row}");
        // Waits are of the vector filter alone, which is not asked before one sub-table.
        let is_vector = row["classifier"] == "bloom-disjoint";
        let is_asked = is_vector && row["sub_tables"].as_u64() > Some(1);
        assert_eq!(row["candidates"].is_number(), is_asked, "{row}");
        let sum = row["sum_ns"].as_f64().zip(by_model);
        assert!(
            sum.is_some_and(|(sum, all)| sum == all || is_asked && sum <= all),
            "{row}"
        );
    }
    assert!(report["stages_ns"]["filter_hash"].as_f64() > Some(0.0));
    // Clock rates from 200 MHz to 10 GHz.
    let number = |value: &Value| value.as_f64().expect("a number");
    let cycle_ns = number(&report["cycle_ns"]);
    assert!((0.1..5.0).contains(&cycle_ns), "{cycle_ns}");
    for (name, time_ns) in report["stages_ns"].as_object().expect("stages") {
        let cycles = number(&report["stages_cycles"][name]);
        assert!((cycles * cycle_ns - number(time_ns)).abs() < 1e-6, "{name}");
    }
    assert!(scene.says(&arguments).contains("Stages, ns: "));
}

#[test]
fn a_peer_is_a_row_and_sets_are_a_line() {
    let scene = Scene::new();
    let peer = scene.write(
        "peer.json",
        r#"{"peer": "dpdk", "rows": [{"set": "acl1-200", "rules": 150, "classifier": "rte_acl",
            "traffic": "uniform", "batch": 32, "build_ms": 7.5,
            "ns_per_lookup": {"median": 40.0, "min": 39.0, "max": 41.0}}]}"#,
    );
    let arguments = [
        "--rules",
        "acl1-200,acl1-400",
        "--classifier",
        "tuple-space",
        "--peer",
        &peer,
        "--plot",
        "lookups.svg",
    ];
    let rows = classify(&scene, &arguments);
    assert_eq!(rows[2]["classifier"], "rte_acl");
    assert_eq!(rows[2]["build_ms"], 7.5);
    assert_eq!(rows[2]["wrong"], Value::Null, "it does not know");
    let picture = std::fs::read_to_string(scene.path("lookups.svg")).expect("it was drawn");
    for part in ["<svg", "rte_acl", "tuple-space", "time a lookup"] {
        assert!(picture.contains(part), "{part}");
    }
    let arguments = [&["bench", "classify"], &SHORT[..], &arguments[..6]].concat();
    let text = scene.says(&arguments);
    assert!(
        text.contains("rte_acl") && text.contains("acl1-400"),
        "{text}"
    );
}

#[test]
fn inputs_for_others_are_the_same_filters_and_headers() {
    let scene = Scene::new();
    let arguments = ["bench", "classify", "--rules", "acl1-200", "--flows", "100"];
    let arguments = [&arguments[..], &["--traffic", "uniform,zipf"]].concat();
    let arguments = [&arguments[..], &["--write-inputs", "."]].concat();
    scene.json(&arguments);
    let read = |name: &str| std::fs::read_to_string(scene.path(name)).expect("it was written");
    let filters = read("acl1-200.filters");
    assert!(filters.starts_with('@'), "{filters}");
    let headers = read("acl1-200.uniform.headers");
    let numbers = headers.lines().next().expect("a header").split('\t');
    assert_eq!(numbers.count(), 5);
    assert_ne!(headers, read("acl1-200.zipf.headers"));
    let path = scene.path("acl1-200.filters");
    let rows = classify(&scene, &["--rules", &path, "--classifier", "tuple-space"]);
    assert_eq!(rows[0]["filters"], filters.lines().count());
}

#[test]
fn slips_are_told_with_their_place() {
    let scene = Scene::new();
    scene.write("bad.filters", format!("{FILTERS}@1.2.3.4/32 5.6.7.8/33\n"));
    scene.write("bad.rules", "actions=drop\ntcp,tp_dst=http,actions=drop\n");
    scene.write("bad.xz", "this is no archive");
    scene.write("none.rules", "# nothing\n");
    let cases: [(&[&str], &str); 11] = [
        (
            &["--rules", "bad.filters"],
            "bad.filters:3:21: 33 is above 32",
        ),
        (&["--rules", "bad.rules"], "bad.rules:2:"),
        (&["--rules", "bad.xz"], "bad.xz: "),
        (&["--rules", "none.rules"], "there is no rule in it"),
        (&["--rules", "missing"], "no set of this name; name a "),
        (&["--rules", "acl1-0"], "no such file"),
        (&["--classifier", "magic"], "choose of tuple-space, "),
        (
            &["--traffic", "tea"],
            "possible values: uniform, zipf, trace",
        ),
        (&["--batch", "0"], "give a whole number from 1 to 4096"),
        (&["--plot", "a.png"], "name a file .svg or .html"),
        (&["--peer", "missing"], "bench/peers/dpdk_acl.py"),
    ];
    for (arguments, expected) in cases {
        scene.refuses(&[&["bench", "classify"], arguments].concat(), &[expected]);
    }
    let no_filters = ["--rules", "bad.rules", "--write-inputs", "nowhere"];
    scene.refuses(
        &[&["bench", "classify"], &no_filters[..]].concat(),
        &["nowhere is no folder"],
    );
}
