//! Tests `thalweg simulate`: rows, the ledger, shards, result files, and refusals.

mod command;

use std::fmt::Write;

use serde_json::Value;

use crate::command::Scene;

/// Two pods of two racks, gateways in the last rack, 8 servers of 4 machines.
const PLAN: &str = r#"
[topology.fat_tree]
pods = 2
tors_per_pod = 2
spines_per_pod = 2
core_links_per_spine = 1
servers_per_tor = 2
gateway_tors = [3]
gateways_per_tor = 2
[workload]
trace = "trace.csv"
machines = 32
transport = "udp"
[run]
schemes = ["nocache", "direct", "ondemand", "locallearning", "gwcache", "bluebird", "controller",
           "switchv2p", "switchv2p-tor", "switchv2p+"]
cache_percent = [50, 200]
seeds = [1, 2]
"#;

/// The keys of a row, which must stay.
const KEYS: [&str; 22] = [
    "scheme",
    "profile",
    "cache_percent",
    "seed",
    "hit_rate",
    "mean_fct_us",
    "mean_first_packet_us",
    "mean_packet_latency_us",
    "stretch",
    "packets_sent",
    "gateway_packets",
    "misdelivered",
    "last_misdelivered_us",
    "invalidations",
    "learning_packets",
    "drops",
    "reordered",
    "retransmitted",
    "switch_bytes",
    "hits_by_layer",
    "first_hits_by_layer",
    "packet_hops",
];

/// Ten schemes, of which three have no caches.
const RUNS: u64 = (3 + 7 * 2) * 2;

/// Packets among 32 machines, a few of them popular.
fn trace() -> String {
    let mut text = String::new();
    let mut word = 1_u64;
    for line in 0..2_000_u64 {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        let (source, other) = (word >> 33 & 31, word >> 40 & 31);
        let destination = if word >> 60 & 1 == 0 {
            other & 3
        } else {
            other
        };
        let flow = source * 32 + destination;
        writeln!(text, "{source},{destination},{},{flow},64", line * 60).expect("a string");
    }
    text
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("plan.toml", PLAN);
    scene.write("trace.csv", trace());
    scene
}

/// The rows without processor time, which varies.
fn rows(result: &Value) -> Vec<Value> {
    let rows = result["rows"].as_array().expect("rows").iter().cloned();
    let without_time = |mut row: Value| {
        let seconds = row
            .as_object_mut()
            .and_then(|row| row.remove("cpu_seconds"));
        assert!(
            seconds
                .and_then(|seconds| seconds.as_f64())
                .expect("a time")
                >= 0.0
        );
        row
    };
    rows.map(without_time).collect()
}

#[test]
fn rows_have_the_figures_of_their_runs() {
    let scene = scene();
    let result = scene.json(&["simulate", "plan.toml", "--no-ledger", "--no-report"]);
    assert_eq!(
        (&result["runs"], &result["from_ledger"]),
        (&RUNS.into(), &0.into())
    );
    let rows = rows(&result);
    assert_eq!(rows.len() as u64, RUNS);
    for row in &rows {
        for key in KEYS {
            assert!(row.get(key).is_some(), "{key} is not in {row}");
        }
        assert_eq!(
            (&row["packets_sent"], &row["delivered"]),
            (&2_000.into(), &2_000.into())
        );
        assert_eq!(
            row["switch_bytes"].as_array().expect("a list").len(),
            2 + 4 + 4
        );
    }
    let of = |scheme: &'static str| rows.iter().filter(move |row| row["scheme"] == scheme);
    assert!(of("nocache").all(|row| row["hit_rate"] == 0.0 && row["cache_percent"].is_null()));
    assert!(of("direct").all(|row| row["hit_rate"] == 1.0));
    // 50 % of 32 machines are 16 entries, divided among 10 switches, one gateway rack or four
    // racks.
    for (scheme, entries) in [
        ("switchv2p", 1),
        ("gwcache", 16),
        ("bluebird", 4),
        ("switchv2p-tor", 4),
    ] {
        let row = of(scheme).next().expect("a row");
        assert_eq!(
            (&row["cache_percent"], &row["cache_entries"]),
            (&50.0.into(), &entries.into())
        );
    }
    let seeds: Vec<&Value> = of("switchv2p").map(|row| &row["seed"]).collect();
    assert_eq!(seeds, [1, 2, 1, 2]);
    // Random results vary with the seed, and larger caches help.
    let figures = |scheme: &'static str, key: &str| -> Vec<f64> {
        of(scheme)
            .map(|row| row[key].as_f64().expect("a number"))
            .collect()
    };
    let rates = figures("switchv2p", "hit_rate");
    assert!(rates[0] < rates[2] && rates[1] < rates[3], "{rates:?}");
    let rates = figures("locallearning", "hit_rate");
    assert_ne!(rates[2], rates[3]);
}

#[test]
fn rows_are_the_same_however_the_runs_are_done() {
    let scene = scene();
    let run = |more: &[&str]| {
        let arguments = [&["simulate", "plan.toml", "--no-report"], more].concat();
        scene.json(&arguments)
    };
    let alone = run(&["--jobs", "1", "--no-ledger"]);
    let together = run(&["--jobs", "3", "--ledger", "together"]);
    assert_eq!(rows(&together), rows(&alone));
    // In parts, and then from the ledger that the parts left.
    let parts = ["1/3", "2/3", "3/3"].map(|part| run(&["--shard", part, "--ledger", "parts"]));
    let counts: usize = parts.iter().map(|part| rows(part).len()).sum();
    assert_eq!(counts as u64, RUNS);
    let whole = run(&["--ledger", "parts"]);
    assert_eq!(whole["from_ledger"], RUNS);
    assert_eq!(rows(&whole), rows(&alone));
    // The text is also identical.
    let text =
        |more: &[&str]| scene.says(&[&["simulate", "plan.toml", "--no-report"], more].concat());
    assert_eq!(
        text(&["--jobs", "1", "--no-ledger"]),
        text(&["--jobs", "2", "--no-ledger"])
    );
}

#[test]
fn what_was_done_is_not_done_again_and_nothing_else_is_taken_for_it() {
    let scene = scene();
    let kept = |plan: &str| {
        let result = scene.json(&["simulate", plan, "--no-report", "--ledger", "kept"]);
        result["from_ledger"].as_u64().expect("a number")
    };
    assert_eq!((kept("plan.toml"), kept("plan.toml")), (0, RUNS));
    let folder = scene.path("kept");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("it was made")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert_eq!(files.len() as u64, RUNS);
    // One file is gone, one is cut, and one has another's content.
    std::fs::remove_file(&files[0]).expect("it is there");
    std::fs::write(&files[1], "{\"run\":").expect("it is ours");
    std::fs::copy(&files[3], &files[2]).expect("it is ours");
    assert_eq!((kept("plan.toml"), kept("plan.toml")), (RUNS - 3, RUNS));
    // Another seed, and other traffic.
    scene.write(
        "seeds.toml",
        PLAN.replace("seeds = [1, 2]", "seeds = [2, 3]"),
    );
    assert_eq!(kept("seeds.toml"), RUNS / 2);
    scene.write("trace.csv", trace().replacen(",64\n", ",65\n", 1));
    assert_eq!(kept("plan.toml"), 0);
}

/// Half of the runs, then all: nothing shows that they were done at different times.
#[test]
fn files_of_resumed_runs_are_those_of_an_unbroken_one() {
    let scene = scene();
    let unbroken = ["--no-ledger", "--parquet", "unbroken.parquet"];
    scene.says(
        &[
            &["simulate", "plan.toml", "--report", "unbroken.html"],
            &unbroken[..],
        ]
        .concat(),
    );
    scene.says(&["simulate", "plan.toml", "--shard", "0/2"]);
    let resumed = ["--parquet", "resumed.parquet", "--report", "resumed.html"];
    let result = scene.json(&[&["simulate", "plan.toml"], &resumed[..]].concat());
    assert_eq!(result["from_ledger"], RUNS / 2);
    let read = |name: &str| std::fs::read(scene.path(name)).expect("it is there");
    assert!(read("unbroken.parquet") == read("resumed.parquet"));
    let _ = read("resumed.html");
}

/// A changed byte in a stored row, and a cut file.
#[test]
fn what_is_damaged_in_the_ledger_is_told_and_done_again() {
    let scene = scene();
    let plan = ["simulate", "plan.toml", "--no-report"];
    let first = scene.json(&plan);
    assert_eq!(first["damaged_in_ledger"], 0);
    let folder = std::fs::read_dir(scene.path("plan.ledger")).expect("it is there");
    let mut files: Vec<_> = folder.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let text = std::fs::read_to_string(&files[0]).expect("text");
    let changed = text.replacen("\"packets_sent\":2000", "\"packets_sent\":2001", 1);
    assert_ne!(changed, text);
    std::fs::write(&files[0], changed).expect("the folder is ours");
    let text = std::fs::read_to_string(&files[1]).expect("text");
    std::fs::write(&files[1], &text[..text.len() / 2]).expect("the folder is ours");
    let second = scene.json(&plan);
    assert_eq!(second["damaged_in_ledger"], 2);
    assert_eq!(second["from_ledger"], RUNS - 2);
    assert_eq!(rows(&second), rows(&first));
    let third = scene.json(&plan);
    assert_eq!(third["damaged_in_ledger"], 0, "they are whole again");
    assert_eq!(third["from_ledger"], RUNS);
}

/// Three processes at a time; each writes every row and the page.
#[test]
fn several_processes_share_a_ledger() {
    let scene = scene();
    let plan = [
        "--json",
        "simulate",
        "plan.toml",
        "--parquet",
        "rows.parquet",
    ];
    let started = [(); 3].map(|()| scene.start(&plan));
    let results = started.map(|child| {
        let output = child.wait_with_output().expect("it was started");
        assert!(output.status.success(), "{output:?}");
        let result: Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(result["damaged_in_ledger"], 0);
        rows(&result)
    });
    assert!(results[0] == results[1] && results[1] == results[2]);
    let after = scene.json(&["simulate", "plan.toml", "--parquet", "again.parquet"]);
    assert_eq!(after["from_ledger"], RUNS);
    let read = |name: &str| std::fs::read(scene.path(name)).expect("it is there");
    assert!(read("rows.parquet") == read("again.parquet"));
    assert_eq!(scene.parts(), Vec::<String>::new());
}

#[test]
fn results_are_files_too() {
    let scene = scene();
    let text = scene.says(&["simulate", "plan.toml", "--parquet", "rows.parquet"]);
    assert!(
        text.contains("What runs came to") && text.contains("Table 5"),
        "{text}"
    );
    let page = std::fs::read_to_string(scene.path("plan.html")).expect("it is there");
    for part in [
        "Thalweg: plan",
        "Hit rate",
        "FCT, times better than NoCache",
        "First packet, times better than NoCache",
        "Bytes that switches processed, by pod",
        "The same in pod 2, by switch",
        "gateway ToR 2",
        "The controller&#39;s plans",
    ] {
        let part = part.replace("&#39;", "'");
        assert!(page.contains(&part), "{part} is not in the page");
    }
    assert!(
        !page.contains("http://")
            || page.matches("http://").count()
                == page.matches("http://www.w3.org/2000/svg").count()
    );
    let rows = std::fs::read(scene.path("rows.parquet")).expect("it is there");
    assert!(rows.starts_with(b"PAR1") && rows.ends_with(b"PAR1"));
    // A part of a plan has no page.
    std::fs::remove_file(scene.path("plan.html")).expect("it is there");
    scene.says(&["simulate", "plan.toml", "--shard", "0/9"]);
    assert!(!std::path::Path::new(&scene.path("plan.html")).exists());
}

#[test]
fn a_migration_and_several_fabrics() {
    let scene = Scene::new();
    scene.write("trace.csv", trace());
    let plan = PLAN
        .split("[workload]")
        .nth(1)
        .expect("the rest of the plan")
        .replace("seeds = [1, 2]", "seeds = [1]");
    let plan = format!(
        "[topology]\nkind = \"ft8-10k\"\ngateways_per_tor = [1, 3]\n[workload]{plan}\
         [migration]\nvm = 0\nat_us = 40\nto_server = 100\n"
    );
    scene.write("plan.toml", plan);
    let result = scene.json(&["simulate", "plan.toml", "--no-ledger"]);
    let rows = rows(&result);
    let gateways: Vec<u64> = rows
        .iter()
        .filter_map(|row| row["gateways"].as_u64())
        .collect();
    assert_eq!((gateways[0], gateways[17]), (4, 12));
    assert!(
        rows.iter()
            .any(|row| row["misdelivered"].as_u64() > Some(0))
    );
    let page = std::fs::read_to_string(scene.path("plan.html")).expect("it is there");
    for part in ["FCT against gateways", "the paper's Table 4"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_place_and_remedy() {
    let scene = scene();
    let refused = |from: &str, to: &str, expected: &[&str]| {
        assert!(PLAN.contains(from), "{from}");
        scene.write("bad.toml", PLAN.replace(from, to));
        scene.refuses(&["simulate", "bad.toml"], expected);
    };
    refused(
        "\"gwcache\"",
        "\"cache\"",
        &["bad.toml:15:62: ", "there is no scheme \"cache\"; give"],
    );
    refused(
        "machines",
        "machine",
        &["bad.toml:12:1: unknown field `machine`"],
    );
    refused(
        "cache_percent = [50, 200]",
        "cache_entries = [1, 268435456]",
        &[
            "bad.toml:17:21: ",
            "more than this machine's memory",
            "give less",
        ],
    );
    refused("50, 200", "50, 1e9", &["bad.toml:17:22: ", "give less"]);
    refused(
        "machines = 32",
        "machines = 3",
        &["machine", "is on no server"],
    );
    refused("trace.csv", "nowhere.csv", &["nowhere.csv", "--data"]);
    scene.write("line.csv", "1,2,3,4,5\n1,2,3\n");
    refused(
        "trace.csv",
        "line.csv",
        &["line.csv:2: 3 columns; write `source,"],
    );
    scene.write("empty.csv", "\n");
    refused("trace.csv", "empty.csv", &["empty.csv: it has no lines"]);
    refused(
        "machines = 32",
        "placement = \"line.csv\"",
        &["line.csv:1: ", "a list for each server"],
    );
    scene.refuses(&["simulate", "none.toml"], &["none.toml", "check the path"]);
    scene.refuses(
        &["simulate", "plan.toml", "--shard", "3/2"],
        &["--shard", "such as 1/4"],
    );
    scene.refuses(
        &["simulate", "plan.toml", "--report", "no/a.html"],
        &["a folder that exists"],
    );
}

/// A rack's link to a spine fails, and then its other link too.
#[test]
fn what_fails_is_named_and_gone_around() {
    let scene = scene();
    let plan = PLAN.replace("seeds = [1, 2]", "seeds = [1]\nreroute_after_us = 2");
    let one = "[[failure]]\nlink = [\"ToR 0\", \"spine 1\"]\nat_us = 20\nuntil_us = 60\n";
    let all = "[[failure]]\nswitch = \"tor-0\"\nat_us = 30\n";
    let drops = |name: &str, plan: String| {
        scene.write(name, plan);
        let result = scene.json(&["simulate", name, "--no-ledger", "--no-report"]);
        let all = rows(&result);
        for row in &all {
            let figure = |key: &str| row[key].as_u64().expect("a number");
            // Drops include the protocol's own packets.
            assert!(figure("packets_sent") <= figure("delivered") + figure("drops"));
            assert!(figure("delivered") <= figure("packets_sent"));
        }
        let of = |row: &Value| row["drops"].as_u64().expect("a number");
        let direct = all.iter().find(|row| row["scheme"] == "direct");
        of(direct.expect("a row"))
    };
    let whole = drops("plan.toml", plan.clone());
    let part = drops("link.toml", format!("{plan}{one}"));
    let none = drops("rack.toml", format!("{plan}{one}{all}"));
    // Until switches know of the failure, packets are lost; without its rack, most are.
    assert_eq!(whole, 0);
    assert!(part > 0 && none > 10 * part, "{part} {none}");
    let refused = |text: &str, expected: &[&str]| {
        scene.write("bad.toml", format!("{PLAN}{text}"));
        scene.refuses(&["simulate", "bad.toml"], expected);
    };
    refused(
        "[[failure]]\nlink = [\"tor 0\", \"spine 3\"]\nat_us = 1\n",
        &["bad.toml:20:8: ToR 0 and spine 3 are not linked; give"],
    );
    refused(
        "[[failure]]\nat_us = 1\nswitch = \"core 9\"\n",
        &["bad.toml:21:10: the fabric has no core 9; give"],
    );
}

/// The gateways move to the pod's other rack during the run.
#[test]
fn gateways_move_and_nothing_is_lost() {
    let scene = scene();
    let plan = PLAN.replace("seeds = [1, 2]", "seeds = [1]");
    let moves = "[[gateway_move]]\nat_us = 60\nfrom = \"tor 3\"\nto = \"tor 2\"\n";
    scene.write("plan.toml", format!("{plan}{moves}"));
    let result = scene.json(&["simulate", "plan.toml", "--no-ledger", "--no-report"]);
    for row in rows(&result) {
        assert_eq!(
            (&row["delivered"], &row["gateways"]),
            (&2_000.into(), &2.into()),
            "{row}"
        );
        assert_eq!(row["misdelivered"], 0, "{row}");
    }
    let refused = |from: &str, to: &str, expected: &[&str]| {
        scene.write("bad.toml", format!("{plan}{}", moves.replace(from, to)));
        scene.refuses(&["simulate", "bad.toml"], expected);
    };
    refused(
        "tor 2",
        "tor 4",
        &["bad.toml:22:6: the fabric has no ToR 4; give"],
    );
    refused(
        "tor 2",
        "tor 3",
        &["bad.toml:22:6: there are gateways at ToR 3 then; give"],
    );
    refused(
        "tor 3",
        "tor 1",
        &["there is no gateway at ToR 1 then; give"],
    );
    refused(
        "tor 3",
        "core 0",
        &["bad.toml:21:8: core 0 has no gateways; give"],
    );
}

/// Captures a server's link in each run; sent and received packets agree with the report.
#[test]
fn links_are_captured() {
    let scene = scene();
    let plan = PLAN.replace("seeds = [1, 2]", "seeds = [1]");
    scene.write("plan.toml", plan);
    let result = scene.json(&["simulate", "plan.toml", "--capture", "server-0"]);
    let captures = result["captures"].as_array().expect("captures");
    assert_eq!(captures.len() as u64, RUNS / 2);
    let sent = trace();
    let of = |column: usize| {
        let machine = |line: &str| line.split(',').nth(column)?.parse::<u32>().ok();
        let on_server = |line: &&str| machine(line).is_some_and(|machine| machine < 4);
        sent.lines().filter(on_server).count() as u64
    };
    for capture in captures {
        let packets = capture["packets"].as_u64().expect("a number");
        assert_eq!((packets, &capture["not_kept"]), (of(0) + of(1), &0.into()));
        let file = capture["file"].as_str().expect("a file");
        let bytes = std::fs::read(scene.path(file)).expect("it was written");
        // Nanosecond format; a header of 24 bytes, and one of 16 bytes per packet.
        assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_ne_bytes());
        assert!(bytes.len() as u64 > 24 + packets * (16 + 64));
    }
    scene.refuses(
        &["simulate", "plan.toml", "--capture", "server-8"],
        &["--capture: the fabric has no server 8; give"],
    );
    scene.refuses(
        &["simulate", "plan.toml", "--capture", "server"],
        &["--capture", "is no node; give"],
    );
}

/// The flow with the most packets, and their number.
fn busiest_flow() -> (String, u32) {
    let trace = trace();
    let mut counts = std::collections::BTreeMap::new();
    for flow in trace.lines().filter_map(|line| line.split(',').nth(3)) {
        *counts.entry(flow).or_insert(0) += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let (flow, count) = most.expect("flows");
    assert!(count > 5, "{count}");
    (flow.to_owned(), count)
}

/// One packet's way, shown for a run without caches and one with them.
#[test]
fn a_packet_s_way_is_explained_hop_by_hop() {
    let scene = scene();
    let plan = PLAN
        .replace("seeds = [1, 2]", "seeds = [1]")
        .replace("[50, 200]", "[2000]");
    scene.write("plan.toml", plan);
    let (flow, count) = busiest_flow();
    let packet = format!("{flow}:{}", count - 1);
    let result = scene.json(&["simulate", "plan.toml", "--trace-packet", &packet]);
    let ways = result["runs"].as_array().expect("runs");
    assert_eq!(ways.len(), 10);
    let words = |scheme: &str| -> Vec<String> {
        let way = ways
            .iter()
            .find(|way| way["scheme"] == scheme)
            .expect("a run");
        let steps = way["steps"].as_array().expect("steps");
        let text = |step: &Value| format!("{}: {}", step["node"], step["what"]).replace('"', "");
        steps.iter().map(text).collect()
    };
    let slow = words("nocache");
    assert!(
        slow[0].starts_with("server") && slow[0].contains("to gateway"),
        "{slow:?}"
    );
    assert!(
        slow.iter()
            .any(|step| step.contains("arrives, to be resolved")),
        "{slow:?}"
    );
    assert!(
        slow.last().expect("steps").ends_with("delivered"),
        "{slow:?}"
    );
    let direct = words("direct");
    assert!(direct.len() < slow.len() && !direct.iter().any(|step| step.contains("gateway")));
    let cached = words("switchv2p");
    assert!(
        cached
            .iter()
            .any(|step| step.contains("hit, ") && step.contains("rewritten")),
        "{cached:?}"
    );
    assert!(
        cached.last().expect("steps").ends_with("delivered"),
        "{cached:?}"
    );
    let text = scene.says(&["simulate", "plan.toml", "--trace-packet", &packet]);
    assert!(
        text.contains("what happens") && text.contains("gateway"),
        "{text}"
    );
    scene.refuses(
        &["simulate", "plan.toml", "--trace-packet", "9999"],
        &["no flow 9999", "give"],
    );
    let late = format!("{flow}:99999");
    scene.refuses(
        &["simulate", "plan.toml", "--trace-packet", &late],
        &["never sends"],
    );
}

/// Runs every generator briefly; each is reproducible.
#[test]
fn traffic_may_be_generated() {
    let scene = Scene::new();
    for (generator, more, transport) in [
        ("hadoop", "duration_us = 20", "tcp"),
        ("websearch", "duration_us = 200\nload_percent = 5", "tcp"),
        ("microbursts", "duration_us = 50\ncount = 20", "udp"),
        ("video", "duration_us = 500\ncount = 3", "udp"),
        ("alibaba", "duration_us = 50\ncount = 30", "tcp"),
        ("microbursts-fitted", "duration_us = 50\ncount = 20", "udp"),
        ("alibaba-fitted", "duration_us = 50\ncount = 30", "tcp"),
        ("incast", "count = 2", "udp"),
    ] {
        let run = |seed: u32| {
            let plan = format!(
                "[topology]\nkind = \"ft8-10k\"\n[workload]\ngenerate = \"{generator}\"\n{more}\n\
                 traffic_seed = {seed}\nmachines = 10240\ntransport = \"{transport}\"\n\
                 size_limit_bytes = 10000\n[run]\nschemes = [\"nocache\"]\n"
            );
            scene.write("plan.toml", plan);
            rows(&scene.json(&["simulate", "plan.toml", "--no-ledger", "--no-report"]))
        };
        let (one, again, other) = (run(1), run(1), run(2));
        assert_eq!(one, again, "{generator}");
        assert!(
            one[0]["packets_sent"].as_u64() > Some(2),
            "{generator}: {one:?}"
        );
        assert_ne!(one, other, "{generator}");
    }
}

/// Gateways with limited capacity, hosts that get mappings, and memory by layer.
#[test]
fn what_is_beyond_the_paper_is_run_too() {
    let scene = scene();
    let run = |schemes: &str, more: &str| {
        let start = PLAN.find("schemes = ").expect("it is there");
        let plan = format!(
            "{}schemes = [{schemes}]\ncache_percent = [200]\nseeds = [1]\n{more}",
            &PLAN[..start]
        );
        scene.write("plan.toml", plan);
        rows(&scene.json(&["simulate", "plan.toml", "--no-ledger", "--no-report"]))
    };
    let count = |row: &Value, key: &str| row[key].as_u64().expect("a number");
    // 2,000 packets in 120 µs exceed the capacity of two gateways with a million packets per
    // second each.
    let slow = run(
        "\"nocache\"",
        "[gateways]\npackets_per_second = 1000000\nqueue_packets = 9\n",
    );
    let dropped = count(&slow[0], "drops");
    assert!(dropped > 1_000, "{dropped}");
    assert_eq!(slow[0]["drops_by_reason"]["gateway_full"], dropped);
    assert_eq!(count(&slow[0], "delivered") + dropped, 2_000);
    // The sooner hosts get mappings, the fewer packets reach gateways.
    let at_gateways = |threshold: u32| {
        let more = format!("offload_threshold_packets = {threshold}\n");
        count(&run("\"offload\"", &more)[0], "gateway_packets")
    };
    let counts = [1, 3, 1_000].map(at_gateways);
    assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
    assert_eq!(counts[2], 2_000);
    // Weights put memory in ToRs only: they are 6 of 10 switches, so their share of 64 entries
    // is 15.
    let layered = run("\"switchv2p\"", "[memory]\ncore = 0\nspine = 0\ntor = 1\n");
    let hits = &layered[0]["hits_by_layer"];
    assert_eq!((&hits["core"], &hits["spine"]), (&0.into(), &0.into()));
    assert!(count(hits, "tor") > 0);
}

/// A packed trace and placement, in the data folder.
#[test]
fn data_may_be_packed_and_elsewhere() {
    let scene = scene();
    let plan = PLAN.replace("trace.csv", "far/trace.csv.gz");
    let plan = plan.replace("machines = 32", "placement = \"far/placement.json.gz\"");
    scene.write("packed.toml", plan);
    let pack = |name: &str, text: &str| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, text.as_bytes()).expect("memory");
        scene.write(name, packer.finish().expect("memory"));
    };
    std::fs::create_dir(scene.path("data")).expect("the folder is ours");
    pack("data/trace.csv.gz", &trace());
    let servers: Vec<String> = (0..8)
        .map(|server| {
            let machines: Vec<String> = (server * 4..server * 4 + 4)
                .map(|number| format!("\"{number}\""))
                .collect();
            format!("\"p{}\": [{}]", server + 1, machines.join(", "))
        })
        .collect();
    pack(
        "data/placement.json.gz",
        &format!("{{{}}}", servers.join(", ")),
    );
    let run = |plan: &str| {
        scene.json(&[
            "simulate",
            plan,
            "--data",
            "data",
            "--no-ledger",
            "--no-report",
        ])
    };
    assert_eq!(rows(&run("packed.toml")), rows(&run("plan.toml")));
}

/// Two tenants with and without their own lines, and memory placed by demand.
#[test]
fn tenants_and_memory_by_curves_are_in_rows_tables_and_the_ledger() {
    let scene = scene();
    let from = PLAN.find("schemes").expect("it has some");
    let plan = format!(
        "{}schemes = [\"nocache\", \"switchv2p\", \"switchv2p-partitions\", \"switchv2p+\",\n\
         \"switchv2p+curves\"]\ncache_percent = 200\nmeasure_percent = 50\n\
         [[tenant]]\ntraffic = 3\n[[tenant]]\ntraffic = 1\n",
        &PLAN[..from]
    );
    scene.write("plan.toml", &plan);
    let result = scene.json(&["simulate", "plan.toml"]);
    let all = rows(&result);
    let of = |scheme: &str| {
        let row = all.iter().find(|row| row["scheme"] == scheme);
        row.expect("a row of each scheme")
    };
    let number = |value: &Value| value.as_u64().expect("a number");
    for row in &all {
        assert_eq!(
            (&row["delivered"], &row["misdelivered"]),
            (&2_000.into(), &0.into())
        );
        let tenants = row["tenants"].as_array().expect("a list");
        let sent: Vec<u64> = tenants
            .iter()
            .map(|one| number(&one["packets_sent"]))
            .collect();
        assert_eq!((sent.len(), sent[0] + sent[1]), (2, 2_000));
        assert!(sent[0] > 2 * sent[1] && sent[1] > 200, "{sent:?}");
        let at_gateways = tenants.iter().map(|one| number(&one["gateway_packets"]));
        assert_eq!(at_gateways.sum::<u64>(), number(&row["gateway_packets"]));
        let is_placed = row["scheme"] == "switchv2p+curves";
        assert_eq!(!row["placed_entries"].is_null(), is_placed, "{row}");
    }
    // 64 lines over 10 switches are 6 each; these 60 are distributed in sets of four.
    let placed = &of("switchv2p+curves")["placed_entries"];
    let lines = ["core", "spine", "tor"].map(|layer| number(&placed[layer]));
    assert_eq!(lines.iter().sum::<u64>(), 60, "{lines:?}");
    assert!(lines.iter().all(|lines| lines % 4 == 0), "{lines:?}");
    for (one, other) in [
        ("switchv2p", "switchv2p-partitions"),
        ("switchv2p+", "switchv2p+curves"),
    ] {
        assert_ne!(
            of(one)["gateway_packets"],
            of(other)["gateway_packets"],
            "{other}"
        );
    }
    let page = std::fs::read_to_string(scene.path("plan.html")).expect("it is there");
    for part in [
        "What runs came to for each tenant",
        "Where miss-ratio curves put memory",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    the_ledger_knows_what_was_measured(&scene, &plan, &all);
}

/// The measured percentage is part of a run's identity.
fn the_ledger_knows_what_was_measured(scene: &Scene, plan: &str, all: &[Value]) {
    let again = scene.json(&["simulate", "plan.toml", "--no-report"]);
    assert_eq!(
        (&again["from_ledger"], &rows(&again)),
        (&5.into(), &all.to_vec())
    );
    scene.write(
        "plan.toml",
        plan.replace("measure_percent = 50", "measure_percent = 90"),
    );
    let other = scene.json(&["simulate", "plan.toml", "--no-report"]);
    assert_eq!(other["from_ledger"], 4);
    // A packet's way is shown for the run with placed memory.
    let said = scene.json(&["simulate", "plan.toml", "--trace-packet", "0"]);
    assert_eq!(said["runs"].as_array().map(Vec::len), Some(5));
    scene.write(
        "plan.toml",
        PLAN.replace("\"nocache\"", "\"switchv2p-partitions\""),
    );
    let expected = ["plan.toml:", "add [[tenant]] sections"];
    scene.refuses(&["simulate", "plan.toml"], &expected);
}
