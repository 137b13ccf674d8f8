//! Tests `thalweg replay` and `thalweg trace` with a P4 program, through their command lines.

mod command;

use std::path::Path;

use command::Scene;
use expect_test::expect;
use thalweg_io::{CaptureReader, CaptureWriter};
use thalweg_packet::Instant;

/// A handwritten router, and entries for it.
const ROUTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4/testdata/router.json");
const ENTRIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4/testdata/router.cmds");

const FLOW: &str = "in_port=1,tcp,dl_src=02:00:00:00:00:99,dl_dst=02:00:00:00:00:01,\
                    nw_src=192.0.2.1,nw_dst=10.1.3.4";

#[test]
fn a_packet_is_explained() {
    let scene = Scene::new();
    let arguments = ["trace", "--p4", ROUTER, "--entries", ENTRIES, FLOW];
    expect![[r#"
        ingress
          parsed
          if node_2 (router.p4:58:8): true
          table Ingress.routes: entry 1, Ingress.set_hop
          table Ingress.hops: entry 1, Ingress.send
          table Ingress.acl: no entry, NoAction
        egress, port 3
          sent by port 3, 60 bytes
        leaves by port 3: 020000000008020000000001080045000028000000003f06accac00002010a0103040000000000000000000000005000ffffe0de0000000000000000
    "#]]
    .assert_eq(&scene.says(&arguments));
}

/// A capture of two packets: the program forwards one to port 2 and drops the other.
fn two_packets(scene: &Scene) -> String {
    let input = scene.path("in.pcap");
    let mut packets = Vec::new();
    for (source, destination, protocol) in [(1, [10, 2, 3, 4], 6), (2, [10, 1, 3, 4], 17)] {
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x99, 8, 0];
        let mut ip = vec![
            0x45, 0, 0, 20, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, source,
        ];
        ip.extend(destination);
        let checksum = thalweg_packet::checksum::checksum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(ip);
        packets.push(packet);
    }
    let mut writer = CaptureWriter::create(Path::new(&input)).expect("the folder is ours");
    for packet in &packets {
        writer.write(packet, Instant::ZERO).expect("written");
    }
    writer.flush().expect("written");
    input
}

#[test]
fn a_capture_goes_through_a_program() {
    let scene = Scene::new();
    let input = two_packets(&scene);
    let out = scene.path("out");
    let report = scene.json(&[
        "replay",
        "--p4",
        ROUTER,
        "--entries",
        ENTRIES,
        "--pcap",
        &input,
        "--out",
        &out,
    ]);
    assert_eq!(report["packets"], 2);
    assert_eq!(report["outputs"], serde_json::json!({"2": 1}));
    assert_eq!(report["drops"], serde_json::json!({"p4_ingress": 1}));
    assert_eq!(report["caches"], serde_json::json!({}));
    // v1model has a port 0, but no port 512.
    let from = |port: u32| format!("{port}={input}");
    let report = scene.json(&[
        "replay",
        "--p4",
        ROUTER,
        "--entries",
        ENTRIES,
        "--pcap",
        &from(0),
    ]);
    assert_eq!(report["outputs"], serde_json::json!({"2": 1}));
    let says = ["512 is no port; give a whole number from 0 to 511"];
    scene.refuses(&["replay", "--p4", ROUTER, "--pcap", &from(512)], &says);
    let mut reader = CaptureReader::open(Path::new(&format!("{out}/2.pcap"))).expect("a capture");
    let sent = reader.next().expect("a packet").expect("it is whole");
    assert_eq!(sent.bytes()[..6], [2, 0, 0, 0, 0, 7]);
    assert_eq!(sent.bytes()[22], 63);
}

#[test]
fn caches_of_both_kinds_change_nothing_and_say_what_they_did() {
    let scene = Scene::new();
    let input = two_packets(&scene);
    // The seed decides which segments are recorded.
    let mut arguments = vec![
        "replay",
        "--seed",
        "1",
        "--p4",
        ROUTER,
        "--entries",
        ENTRIES,
    ];
    arguments.extend(["--p4-cache", "traversal"]);
    arguments.extend(["--pcap", &input].repeat(4));
    let cached = scene.json(&arguments);
    assert_eq!(cached["outputs"], serde_json::json!({"2": 4}));
    assert_eq!(cached["drops"], serde_json::json!({"p4_ingress": 4}));
    // A miss, a second miss that is recorded, and two hits.
    let traversals = &cached["caches"]["traversal"];
    assert!(traversals["exact_hits"].as_u64() >= Some(2), "{traversals}");
    assert!(traversals["entries"].as_u64() >= Some(2), "{traversals}");
    // The result does not depend on how tables and segments are searched.
    for kind in ["auto", "tuple-space", "merged-tuples", "bloom", "learned"] {
        let choice = ["--p4-classifier", kind];
        let found = scene.json(&[&arguments[..], &choice].concat());
        assert_eq!(found["outputs"], cached["outputs"], "{kind}");
        assert_eq!(found["caches"], cached["caches"], "{kind}");
        let chosen = found["tables"].as_object().expect("tables by name");
        let may_choose = ["auto", "learned"].contains(&kind);
        assert_eq!(chosen.is_empty(), !may_choose, "{kind}: {chosen:?}");
    }
    let mut arguments = vec!["replay", "--p4", ROUTER, "--entries", ENTRIES];
    arguments.extend(["--p4-cache", "behavior"]);
    for _ in 0..4 {
        arguments.extend(["--pcap", &input]);
    }
    let cached = scene.json(&arguments);
    assert_eq!(cached["outputs"], serde_json::json!({"2": 4}));
    assert_eq!(cached["drops"], serde_json::json!({"p4_ingress": 4}));
    // Seen, hot, and then two hits.
    let behaviors = &cached["caches"]["behavior"];
    assert!(behaviors["hits"].as_u64() >= Some(4), "{behaviors}");
    assert!(behaviors["entries"].as_u64() >= Some(2), "{behaviors}");
    // With room for one behaviour per pipeline; and with a threshold that none reaches.
    let one = [arguments.as_slice(), &["--p4-cache-entries", "1"]].concat();
    let entries = &scene.json(&one)["caches"]["behavior"]["entries"];
    assert!(entries.as_u64() <= Some(2), "{entries}");
    let none = [arguments.as_slice(), &["--p4-threshold", "100"]].concat();
    let entries = &scene.json(&none)["caches"]["behavior"]["entries"];
    assert_eq!(entries.as_u64(), Some(0));
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let scene = Scene::new();
    let entries = scene.write(
        "bad.cmds",
        "\ntable_add routes set_hop 10.0.0.0/8 => 70000\n",
    );
    scene.refuses(
        &["trace", "--p4", ROUTER, "--entries", &entries, FLOW],
        &["bad.cmds:2:40: 70000 does not fit into the 16 bits of hop of Ingress.set_hop"],
    );
    scene.refuses(&["trace", "--entries", &entries, FLOW], &["--p4"]);
    let magic = ["trace", "--p4", ROUTER, "--p4-classifier", "magic", FLOW];
    scene.refuses(
        &magic,
        &["there is no classifier \"magic\"; choose \"auto\""],
    );
    let cached = |cache, more| {
        [
            "trace",
            "--p4",
            ROUTER,
            "--p4-cache",
            cache,
            more,
            "1",
            FLOW,
        ]
    };
    let says = ["give --p4-cache another value"];
    scene.refuses(&cached("off", "--p4-cache-entries"), &says);
    let says = ["give --p4-cache behavior"];
    scene.refuses(&cached("traversal", "--p4-threshold"), &says);
    scene.refuses(
        &["trace", "--p4", ROUTER, "--p4-threshold", "1", FLOW],
        &["--p4-cache"],
    );
    scene.refuses(&["trace", FLOW], &["no rules; give them with --rules FILE"]);
    scene.refuses(
        &["trace", "--p4", ROUTER, "--rules", &entries, FLOW],
        &["cannot be used with"],
    );
}

/// Every faulty line is reported with its place; with `--keep-going` the others are done.
#[test]
fn lines_that_are_at_fault_are_told_and_passed_over() {
    let scene = Scene::new();
    let text = std::fs::read_to_string(ENTRIES).expect("it is there");
    let more = "// a comment\nport_add veth0 1\ntable_add routes set_hop 10.0.0.0/33 => 7\n";
    let entries = scene.write("mixed.cmds", format!("{more}{text}table_delete hops 0\n"));
    let plain = ["trace", "--p4", ROUTER, "--entries", ENTRIES, FLOW];
    let arguments = ["trace", "--p4", ROUTER, "--entries", &entries, FLOW];
    scene.refuses(
        &arguments,
        &[
            "mixed.cmds:1:1: a comment begins with `#`",
            "mixed.cmds:2:1: the command \"port_add\" is not supported",
            "mixed.cmds:3:26: a prefix of 33 bits of the 32",
        ],
    );
    let output = scene.run(&[&arguments[..5], &["--keep-going", FLOW]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).expect("text"),
        scene.says(&plain),
        "entries beyond the fault are there, and handles are those of what is"
    );
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(told.contains("mixed.cmds:3:26: ") && told.ends_with("3 lines were passed over\n"));
    // A refused line is reported like an unreadable one.
    let twice = scene.write("twice.cmds", format!("{text}{text}"));
    let refused = ["trace", "--p4", ROUTER, "--entries", &twice, FLOW];
    scene.refuses(&refused, &["twice.cmds:9:1: ", "exists already"]);
    let output = scene.run(&[&refused[..5], &["--keep-going", FLOW]].concat());
    assert_eq!(
        String::from_utf8(output.stdout).expect("text"),
        scene.says(&plain)
    );
    let told = String::from_utf8(output.stderr).expect("text");
    assert!(told.contains("6 lines were passed over"), "{told}");
    // Of many faulty lines, the first are reported and the rest counted.
    let many = scene.write("many.cmds", "fly\n".repeat(50));
    scene.refuses(
        &["trace", "--p4", ROUTER, "--entries", &many, FLOW],
        &["many.cmds:20:1: ", "many.cmds: 30 more lines are at fault"],
    );
    let alone = ["trace", "--p4", ROUTER, "--keep-going", FLOW];
    scene.refuses(&alone, &["--entries"]);
}

/// Files that are not text are refused with the expected format.
#[test]
fn a_binary_is_no_program_and_no_entries() {
    let scene = Scene::new();
    let binary = scene.write("binary", [0xff, 0xfe, 0, 1]);
    let program = "give the program as the JSON that p4c's back end for BMv2 writes";
    scene.refuses(&["p4", "inspect", &binary], &[program]);
    scene.refuses(&["trace", "--p4", &binary, FLOW], &[program]);
    scene.refuses(
        &["trace", "--p4", ROUTER, "--entries", &binary, FLOW],
        &["give entries as text"],
    );
}

/// A switch starts with a program and entries, and derives its P4Info; no privileges needed.
#[test]
fn a_switch_starts_with_its_entries() {
    let scene = Scene::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/p4");
    let input = scene.path("in.pcap");
    let mut writer = CaptureWriter::create(Path::new(&input)).expect("the folder is ours");
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6];
    packet.resize(60, 7);
    for _ in 0..3 {
        writer.write(&packet, Instant::ZERO).expect("written");
    }
    writer.flush().expect("written");
    let config = |entries: &str| {
        format!(
            "[switch]\nname = \"p4\"\nend_when_finished = true\n\
             [p4]\nprogram = \"{examples}/switch_1.json\"\nentries = \"{entries}\"\n\
             [[port]]\nnumber = 1\nkind = \"pcap\"\nread = \"{input}\"\n\
             [[port]]\nnumber = 2\nkind = \"pcap\"\nwrite = \"{}\"\n",
            scene.path("out.pcap")
        )
    };
    scene.write("p4.toml", config(&format!("{examples}/switch_1.cmds")));
    let output = scene.run(&["--json", "run", &scene.path("p4.toml")]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(report["packets"], 3);
    assert_eq!(report["outputs"]["2"], 3);
    let twice = scene.write(
        "twice.cmds",
        "table_add rmac route 1 2 =>\ntable_add rmac route 1 2 =>\n",
    );
    scene.write("p4.toml", config(&twice));
    let why = "twice.cmds:2:1: table `SwitchIngress.rmac`: it has an entry";
    scene.refuses(&["run", &scene.path("p4.toml")], &[why]);
    let strange = scene.write("strange.cmds", "table_add nowhere route 1 2 =>\n");
    scene.write("p4.toml", config(&strange));
    let why = "strange.cmds:1:11: there is no table";
    scene.refuses(&["run", &scene.path("p4.toml")], &[why]);
    // Faulty lines are skipped: an unknown table, a repeated entry, a port that is too wide.
    let text = std::fs::read_to_string(format!("{examples}/switch_1.cmds")).expect("it is there");
    let more = "table_add nowhere route 1 2 =>\ntable_add rmac route 1 2 =>\n\
        table_add rmac route 1 2 =>\nmirroring_add 5 512\nmirroring_add 5 3\n";
    let mixed = scene.write("mixed.cmds", format!("{more}{text}"));
    let keep_going = config(&mixed).replace("[p4]\n", "[p4]\nkeep_going = true\n");
    scene.write("p4.toml", keep_going);
    let output = scene.run(&["--json", "run", &scene.path("p4.toml")]);
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stderr).expect("text");
    for part in [
        "mixed.cmds:1:11: there is no table",
        "mixed.cmds:3:1: table `SwitchIngress.rmac`: it has an entry",
        "mixed.cmds:4:1: ",
        "512 does not fit",
        "3 lines were passed over",
    ] {
        assert!(told.contains(part), "{part:?} is not in: {told}");
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(report["outputs"]["2"], 3);
}

/// Splits a command at spaces.
fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

/// Behaviours learnt from a capture become entries of the transformed program. Then all of its
/// packets hit them, no behaviour is reported, and the output is the same as without a cache.
#[test]
fn a_cache_is_warmed_from_a_capture() {
    let scene = Scene::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/p4");
    scene.says(&words(
        "generate p4-entries --case 1 --count 20 --packets 300 --pcap in.pcap -o own.cmds",
    ));
    let captures = std::fs::read_dir(scene.path("")).expect("the folder");
    let ports = captures.flatten().filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let port = name.strip_prefix("in-p")?.strip_suffix(".pcap")?;
        Some(format!("--pcap={port}={name}"))
    });
    let ports: Vec<String> = ports.collect();
    assert!(ports.len() > 1, "{ports:?}");
    let ports = ports.join(" ");
    let program = format!("{examples}/switch_1.json");
    let warm = format!("p4 warm {program} --entries own.cmds -o warm.cmds {ports}");
    let report = scene.json(&words(&warm));
    assert!(report["behaviors"].as_u64() > Some(100), "{report}");
    scene.says(&["p4", "cache", &program, "-o", "cached.json"]);
    let file = |name: &str| std::fs::read_to_string(scene.path(name)).expect("commands");
    // With threshold 0, every miss is reported.
    let cold = format!(
        "{}\nregister_write bcache.threshold 0 0\n",
        file("own.cmds")
    );
    scene.write("cold.cmds", &cold);
    scene.write("all.cmds", cold + &file("warm.cmds"));
    let replay = |program: &str, entries: &str, out: &str| {
        let command = format!("replay --p4 {program} --entries {entries} --out {out} {ports}");
        scene.json(&words(&command))
    };
    let plain = replay(&program, "own.cmds", "plain");
    let cold = replay("cached.json", "cold.cmds", "cold");
    let warm = replay("cached.json", "all.cmds", "warm");
    assert!(cold["digests"].as_u64() > Some(100), "{cold}");
    for field in ["digests", "outputs", "drops"] {
        assert_eq!(warm[field], plain[field], "{field}");
    }
    for port in plain["outputs"].as_object().expect("ports").keys() {
        let sent = |out: &str| std::fs::read(scene.path(&format!("{out}/{port}.pcap"))).ok();
        assert!(sent("plain").is_some());
        assert_eq!(sent("plain"), sent("cold"), "port {port}");
        assert_eq!(sent("plain"), sent("warm"), "port {port}");
    }
    let other = format!("p4 warm {ROUTER} --entries own.cmds -o x.cmds {ports}");
    scene.refuses(&words(&other), &["own.cmds:"]);
}
