//! Tests `thalweg p4` through its command line.

mod command;

use command::Scene;

#[test]
fn what_is_no_program_is_refused_with_its_place() {
    let scene = Scene::new();
    scene.write("cut.json", "{\"header_types\": [");
    scene.refuses(&["p4", "inspect", "cut.json"], &["cut.json", "line 1"]);
    scene.write("other.json", "{\"header_types\": 7}");
    let place = "other.json: /header_types: this is no array";
    scene.refuses(&["p4", "inspect", "other.json"], &[place]);
    scene.refuses(&["p4", "inspect", "absent.json"], &["absent.json"]);
    scene.refuses(&["p4", "inspect", "cut.json", "--case", "5"], &["5"]);
}

/// Our own programs of the paper's four cases; `docs/p4.md` explains the differences from its
/// figures.
#[test]
fn the_four_cases_of_the_examples() {
    let scene = Scene::new();
    let mut lines = String::new();
    for case in 1..=4 {
        let path = format!(
            "{}/../../examples/p4/switch_{case}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let report = scene.json(&["p4", "inspect", &path]);
        let bits = &report["match_vector_bits"];
        let outputs = &report["valid_outputs"];
        lines += &format!(
            "{case}: pd {} s {} sound {}, outputs {} of {} bits, odd {}, actions {}, stops {}\n",
            bits["pd_vio"],
            bits["s_vio"],
            bits["sound_vio"],
            outputs["objects"],
            outputs["bits"],
            report["odd_primitives"].as_array().map_or(0, Vec::len),
            report["compound_actions"],
            report["stop_points"].as_array().map_or(0, Vec::len),
        );
    }
    expect_test::expect![[r#"
        1: pd 189 s 164 sound 218, outputs 10 of 177 bits, odd 3, actions 8, stops 2
        2: pd 301 s 276 sound 322, outputs 10 of 177 bits, odd 3, actions 8, stops 2
        3: pd 304 s 279 sound 325, outputs 16 of 305 bits, odd 3, actions 8, stops 2
        4: pd 304 s 279 sound 325, outputs 17 of 337 bits, odd 4, actions 16, stops 3
    "#]]
    .assert_eq(&lines);
}

/// The meter of case 4 is part of a traversal; the table that matches its color begins
/// another.
#[test]
fn stops_of_traversals_are_told() {
    let scene = Scene::new();
    for (case, expected) in [
        (3, serde_json::json!([])),
        (4, serde_json::json!(["color"])),
    ] {
        let path = format!(
            "{}/../../examples/p4/switch_{case}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let report = scene.json(&["p4", "inspect", &path]);
        let stops = report["traversal_stops"].as_array().expect("a list");
        let told = stops.iter().map(|stop| {
            assert_eq!(stop["reason"], "steers by a meter's color");
            "color"
        });
        assert_eq!(
            serde_json::json!(told.collect::<Vec<_>>()),
            expected,
            "{stops:?}"
        );
        let text = scene.says(&["p4", "inspect", &path]);
        let says = if case == 3 {
            "to the end of each pipeline"
        } else {
            "traversals may stop at"
        };
        assert!(text.contains(says), "{text}");
    }
}

/// A program with a cache in front is again a program, and reports what it does not cache.
#[test]
fn a_program_gets_a_cache_in_front() {
    let scene = Scene::new();
    scene.write("router.json", include_str!("../../p4/testdata/router.json"));
    let made = [
        "p4",
        "cache",
        "router.json",
        "-o",
        "cached.json",
        "--entries",
        "100",
    ];
    let report = scene.json(&made);
    let key = report["key"].as_array().expect("a key");
    assert!(
        !key.is_empty() && report["key_bits"].as_u64() > Some(8),
        "{report}"
    );
    assert!(report["compound_actions"].as_u64() >= Some(1), "{report}");
    let inspected = scene.json(&["p4", "inspect", "cached.json"]);
    let before = scene.json(&["p4", "inspect", "router.json"]);
    // The tables `bcache.begin` and `bcache.cache`; the other additions are statements.
    let tables = |report: &serde_json::Value| report["tables"].as_u64().expect("tables");
    assert_eq!(tables(&inspected), tables(&before) + 2);
    scene.refuses(
        &["p4", "cache", "cached.json", "-o", "again.json"],
        &["cached.json", "it has a cache already"],
    );
    scene.refuses(
        &["p4", "cache", "absent.json", "-o", "out.json"],
        &["absent.json"],
    );
}

/// The shared program of the paper's four cases resembles the paper's own: it tags and untags,
/// and drops by a meter's color.
#[cfg(feature = "shared-data")]
mod shared {
    use expect_test::expect;

    use super::*;

    fn program(case: u32) -> String {
        let shared = std::env::var("THALWEG_SHARED")
            .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
        let path = format!("{shared}/data/p4/l2l3/l2l3_{case}.json");
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}; set THALWEG_SHARED"))
    }

    #[test]
    fn the_four_cases() {
        let scene = Scene::new();
        let mut lines = String::new();
        for case in 1..=4 {
            scene.write("case.json", program(case));
            let report = scene.json(&["p4", "inspect", "case.json"]);
            let bits = &report["match_vector_bits"];
            let outputs = &report["valid_outputs"];
            lines += &format!(
                "{case}: pi {} pd {} s {} sound {}, outputs {} of {} bits, odd {}, stops {}\n",
                bits["pi_vio"],
                bits["pd_vio"],
                bits["s_vio"],
                bits["sound_vio"],
                outputs["objects"],
                outputs["bits"],
                report["odd_primitives"].as_array().unwrap().len(),
                report["stop_points"].as_array().unwrap().len(),
            );
        }
        expect![[r#"
            1: pi 890 pd 168 s 159 sound 213, outputs 8 of 173 bits, odd 3, stops 2
            2: pi 890 pd 280 s 271 sound 317, outputs 8 of 173 bits, odd 3, stops 2
            3: pi 890 pd 282 s 273 sound 319, outputs 15 of 317 bits, odd 3, stops 2
            4: pi 890 pd 282 s 273 sound 319, outputs 16 of 349 bits, odd 4, stops 3
        "#]]
        .assert_eq(&lines);
    }

    /// The new program's P4Info can be read again, and has the additions.
    #[test]
    fn p4info_comes_along() {
        let scene = Scene::new();
        scene.write("case.json", program(4));
        let shared = std::env::var("THALWEG_SHARED")
            .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
        let path = format!("{shared}/data/p4/l2l3/l2l3_4.p4info.txtpb");
        let p4info = std::fs::read_to_string(&path);
        scene.write(
            "case.txtpb",
            p4info.unwrap_or_else(|error| panic!("{path}: {error}")),
        );
        let arguments = [
            "p4",
            "cache",
            "case.json",
            "-o",
            "out.json",
            "--p4info",
            "case.txtpb",
            "--p4info-output",
            "out.txtpb",
        ];
        scene.json(&arguments);
        let text = std::fs::read_to_string(scene.path("out.txtpb")).expect("P4Info");
        for name in [
            "bcache.cache",
            "bcache.begin",
            "bcache.report",
            "bcache.threshold",
        ] {
            assert!(text.contains(&format!("\"{name}\"")), "{name}");
        }
        assert!(
            text.contains("ip.ttl"),
            "the sound vector has what actions read"
        );
    }

    /// With small sizes: every row exists, and packets that must hit do.
    #[test]
    fn bench_behavior_has_all_rows() {
        let scene = Scene::new();
        let shared = std::env::var("THALWEG_SHARED")
            .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
        let folder = format!("{shared}/data/p4/l2l3");
        let report = scene.json(&[
            "bench",
            "behavior",
            "--programs",
            &folder,
            "--packets",
            "500",
            "--samples",
            "1",
            "--repetitions",
            "2",
            "--behaviors",
            "64",
            "--plot",
            "page.html",
        ]);
        let rows = report["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 4 * 13);
        for row in rows {
            let hits = row["hits_percent"].as_f64().expect("a number");
            // Ingress of case 4 reads a meter, so only egress is remembered.
            let least = if row["case"] == "4" { 45.0 } else { 99.0 };
            match row["what"].as_str() {
                // This program's packets meet the meter of case 4, so ingress is never
                // reported.
                Some("hit") if row["cache"] == "program" && row["case"] == "4" => {
                    assert!(hits < 1.0, "{row}");
                }
                Some("hit") => assert!(hits > least, "{row}"),
                Some("miss" | "rest") => assert!(hits < 1.0, "{row}"),
                // Ingress is recorded, and egress is found.
                _ => assert!((30.0..70.0).contains(&hits), "{row}"),
            }
        }
        let barrier = report["barrier"].as_array().expect("rows");
        assert_eq!(barrier[0]["affected"], 1);
        assert_eq!(barrier[barrier.len() - 1]["affected"], 64);
        assert_eq!(report["manager"].as_array().expect("rows").len(), 5);
        // Without a peer's file: only case 4, without a cache and with three kinds of hits.
        let against = report["against_simple_switch"].as_array().expect("rows");
        assert_eq!(against.len(), 4);
        assert!(against.iter().all(|row| row["is_quoted"] == true));
    }

    #[test]
    fn bench_behavior_stands_against_a_peers_file_and_writes_its_inputs() {
        let scene = Scene::new();
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/p4");
        let small = ["--packets", "50", "--samples", "1", "--repetitions", "1"];
        let bench = [
            "bench",
            "behavior",
            "--programs",
            examples,
            "--behaviors",
            "8",
        ];
        let base: Vec<&str> = bench.into_iter().chain(small).collect();
        let folder = scene.path("inputs");
        std::fs::create_dir(&folder).expect("there is room");
        let write: Vec<&str> = base
            .iter()
            .copied()
            .chain(["--write-inputs", "inputs"])
            .collect();
        assert!(scene.run(&write).status.success());
        for case in 1..=4 {
            let capture = std::fs::read(format!("{folder}/case_{case}-p1.pcap"));
            // A file header, and for each packet a record header of 16 bytes and its 60 bytes.
            assert_eq!(capture.expect("it is there").len(), 24 + 50 * (16 + 60));
        }
        let nowhere: Vec<&str> = base
            .iter()
            .copied()
            .chain(["--write-inputs", "none"])
            .collect();
        scene.refuses(&nowhere, &["none is no folder"]);
        let peer = |different: u32| {
            let spread = r#"{"median": 20000.0, "min": 19000.0, "max": 21000.0}"#;
            format!(
                r#"{{"peer": "simple_switch", "rows": [
                {{"case": "2", "packets": 5, "different": 0, "ns_per_packet": {spread}}},
                {{"case": "4", "packets": 5, "different": {different}, "ns_per_packet": {spread}}}]}}"#
            )
        };
        scene.write("peer.json", peer(0));
        let with: Vec<&str> = base
            .iter()
            .copied()
            .chain(["--peer", "peer.json"])
            .collect();
        let report = scene.json(&with);
        let against = report["against_simple_switch"].as_array().expect("rows");
        assert_eq!(against.len(), 8);
        for row in against {
            assert_eq!(row["is_quoted"], false);
            let is_it = |other: &&serde_json::Value| {
                let is_such = other["cache"] == "off" || other["what"] == "hit";
                is_such && other["case"] == row["case"] && other["cache"] == row["cache"]
            };
            let ours = report["rows"].as_array().expect("rows").iter().find(is_it);
            let ours = ours.expect("a row")["ns_per_packet"]["median"].as_f64();
            let times = row["times"].as_f64().expect("a number");
            let expected = 20_000.0 / ours.expect("a number");
            assert!((times / expected - 1.0).abs() < 1e-9, "{row}");
        }
        scene.write("peer.json", peer(3));
        scene.refuses(&with, &["3 other packets in case 4", "--cases"]);
        scene.write("peer.json", "{}");
        scene.refuses(&with, &["peer.json", "rows"]);
    }

    #[test]
    fn the_graph_is_written_and_the_papers_figures_stand_beside() {
        let scene = Scene::new();
        scene.write("case.json", program(4));
        let inspect = [
            "p4",
            "inspect",
            "case.json",
            "--case",
            "4",
            "--graph",
            "case.dot",
        ];
        let text = scene.says(&inspect);
        assert!(text.contains("stops at I.sc: executes a meter"), "{text}");
        let row = text.lines().find(|line| line.contains("(S-VIO)"));
        assert!(
            row.is_some_and(|row| row.trim_end().ends_with("287")),
            "{text}"
        );
        let drawing = std::fs::read_to_string(scene.path("case.dot")).unwrap();
        assert!(drawing.starts_with("digraph") && drawing.contains("I.nat_rewrite"));
    }
}
