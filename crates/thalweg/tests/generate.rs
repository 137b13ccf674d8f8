//! Generated files: the same twice, and what other commands read.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use thalweg_io::CaptureReader;
use thalweg_packet::Packet;
use thalweg_pipeline::text;

fn thalweg(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command
        .current_dir(folder)
        .args(arguments.split_whitespace());
    command.output().expect("the program can be started")
}

/// What the command says about what it wrote.
fn summary(folder: &Path, arguments: &str) -> Value {
    let output = thalweg(folder, &format!("{arguments} --json"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).expect("one object and nothing else")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is room for a folder")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it was written")
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let folder = folder();
    let cases = [
        "generate pipeline --kind ofd --rules 600",
        "generate pipeline --pipeline psc --rules 600",
        "generate pipeline --kind synthetic --rules 600 --tables 9 --traversals 4",
        "generate rules --profile fw1 --count 50",
        "generate rules --profile ipc1 --count 50 --format classbench",
        "generate changes --rules 2000 --mix random --count 20 --every 10",
    ];
    for case in cases {
        let first = thalweg(folder.path(), case);
        assert!(first.status.success(), "{case}");
        assert_eq!(first.stdout, thalweg(folder.path(), case).stdout, "{case}");
        let other = thalweg(folder.path(), &format!("{case} --seed 2"));
        assert_ne!(first.stdout, other.stdout, "{case}");
    }
}

#[test]
fn rules_groups_and_changes_read_back() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let made = "generate pipeline --rules 2000 --groups-out g -o r";
    let told = summary(folder.path(), made);
    let rules = text::parse_rules("r", &read(&path("r"))).expect("they are rules");
    assert_eq!(told["rules"], rules.flows.len());
    let groups = text::parse_groups("g", &read(&path("g"))).expect("they are groups");
    assert_eq!(told["groups"], groups.len());
    let made = "generate changes --rules 2000 --mix route-flap --count 7 --every 50 -o c";
    assert_eq!(summary(folder.path(), made)["changes"], 7);
    let changes = text::parse_changes("c", &read(&path("c"))).expect("they are changes");
    let positions: Vec<u64> = changes.iter().map(|change| change.position).collect();
    assert_eq!(positions, [50, 100, 150, 200, 250, 300, 350]);
}

#[test]
fn filters_come_from_classbench_files_packed_or_not() {
    let folder = folder();
    summary(
        folder.path(),
        "generate rules --count 40 --format classbench -o f",
    );
    let plain = std::fs::read(folder.path().join("f")).expect("it was written");
    let mut packed = Vec::new();
    lzma_rs::xz_compress(&mut &plain[..], &mut packed).expect("memory takes it");
    std::fs::write(folder.path().join("f.xz"), packed).expect("it can be written");
    let from = |name: &str| {
        let told = summary(
            folder.path(),
            &format!("generate rules --from {name} -o rules"),
        );
        assert_eq!(told["filters"], 40);
        let text = read(&folder.path().join("rules"));
        let rules = text::parse_rules("rules", &text).expect("they are rules");
        assert_eq!(told["rules"], rules.flows.len());
        rules
    };
    assert_eq!(from("f"), from("f.xz"));
}

#[test]
fn one_capture_or_one_for_each_port_have_the_same_packets() {
    let folder = folder();
    let common = "generate traffic --rules 600 --flows 40 --packets 500 --length 80";
    let whole = summary(folder.path(), &format!("{common} -o all.pcap"));
    assert_eq!(whole["captures"][0]["packets"], 500);
    let parted = summary(folder.path(), &format!("{common} --per-port -o port.pcap"));
    let captures = parted["captures"].as_array().expect("a list");
    assert!(captures.len() > 1);
    let file = |capture: &Value| capture["file"].as_str().expect("a name").to_owned();
    let mut packets: Vec<Packet> = Vec::new();
    for capture in captures {
        let name = file(capture);
        assert_eq!(name, format!("port-p{}.pcap", capture["port"]));
        packets.extend(capture_packets(&folder.path().join(name)));
    }
    packets.sort_by_key(Packet::received_at);
    let in_order = capture_packets(&folder.path().join("all.pcap"));
    let bytes = |packets: &[Packet]| -> Vec<Vec<u8>> {
        packets
            .iter()
            .map(|packet| packet.bytes().to_vec())
            .collect()
    };
    assert_eq!(bytes(&packets), bytes(&in_order));
    assert!(in_order.iter().all(|packet| packet.len() == 80));
}

fn capture_packets(path: &Path) -> Vec<Packet> {
    let mut reader = CaptureReader::open(path).expect("it is a capture");
    let mut packets = Vec::new();
    let mut packet = Packet::default();
    while reader.read_into(&mut packet).expect("it is whole") {
        packets.push(packet.clone());
    }
    packets
}

#[test]
fn generated_files_replay() {
    let folder = folder();
    summary(folder.path(), "generate pipeline --rules 600 -o r");
    let made = "generate traffic --rules 600 --flows 40 --packets 500 --in-port 1 -o t.pcap";
    assert_eq!(summary(folder.path(), made)["captures"][0]["port"], 1);
    summary(
        folder.path(),
        "generate changes --rules 600 --count 5 --every 80 -o c",
    );
    let told = summary(
        folder.path(),
        "replay --rules r --pcap 1=t.pcap --changes c",
    );
    assert_eq!(told["packets"], 500);
    assert_eq!(told["stale_packets"], 0);
}

#[test]
fn what_cannot_be_made_is_refused_with_advice() {
    let folder = folder();
    std::fs::write(folder.path().join("bad"), "@1.2.3.4/33\n").expect("it can be written");
    let cases = [
        ("generate", "Usage:"),
        (
            "generate pipeline --kind mesh",
            "[possible values: ofd, psc, synthetic]",
        ),
        (
            "generate pipeline --rules 3",
            "must lie within 400 to 1000000",
        ),
        ("generate pipeline --json", "name a file with -o"),
        (
            "generate pipeline --kind psc --groups-out g",
            "use --kind ofd",
        ),
        (
            "generate pipeline -o no/such/folder",
            "choose another place",
        ),
        ("generate rules --from bad", "bad:1:10:"),
        ("generate rules --from missing", "check the path"),
        (
            "generate rules --count 0",
            "give a whole number from 1 to 1000000",
        ),
        (
            "generate traffic --in-port 99 -o t",
            "has no port 99; it has 1 to",
        ),
        ("generate traffic -o no/such/folder", "no/such/folder"),
        (
            "generate traffic --in-port x -o t",
            "give a whole number from 1 to 65279",
        ),
        (
            "generate pipeline --kind synthetic --tables 1",
            "--rules, --tables or --traversals: ",
        ),
        ("generate traffic", "--output <FILE>"),
        ("generate changes --mix tea", "route-flap"),
    ];
    for (arguments, advice) in cases {
        let output = thalweg(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {errors}");
        assert!(errors.contains(advice), "{arguments}: {errors}");
    }
}
