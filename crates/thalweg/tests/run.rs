//! `thalweg run` as its users see it, with captures and sinks for ports: no privileges needed.

mod program;

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use program::{Ended, Program};
use rustix::process::Signal;
use serde_json::Value;
use thalweg_io::CaptureWriter;
use thalweg_packet::Instant;

/// A folder with a capture of this many packets, alternating between two destinations.
fn folder(packets: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = CaptureWriter::create(&folder.path().join("in.pcap")).unwrap();
    for index in 0..packets {
        let mut bytes = vec![
            2,
            0,
            0,
            0,
            0,
            (index % 2) as u8,
            2,
            0,
            0,
            0,
            0,
            9,
            0x88,
            0xb5,
        ];
        bytes.resize(60, 0);
        let at = Instant::from_nanos(index as u64 * 1_000);
        writer.write(&bytes, at).unwrap();
    }
    writer.flush().unwrap();
    folder
}

/// One port that reads the capture, one that writes another, and a sink.
fn write_config(folder: &Path, switch: &str) {
    let mut text = format!("[switch]\n{switch}\n");
    let ports = [
        "kind = \"pcap\"\nread = \"in.pcap\"",
        "kind = \"pcap\"\nwrite = \"out.pcap\"",
        "kind = \"memory\"",
    ];
    for (index, port) in ports.into_iter().enumerate() {
        write!(text, "[[port]]\nnumber = {}\n{port}\n", index + 1).unwrap();
    }
    std::fs::write(folder.join("br0.toml"), text).unwrap();
}

fn run(folder: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command
        .args(options)
        .arg("run")
        .arg(folder.join("br0.toml"));
    command.output().unwrap()
}

const RULES: &str = "dl_dst=02:00:00:00:00:00 actions=output:2\n\
                     dl_dst=02:00:00:00:00:01 actions=output:3,output:2\n";

#[test]
fn a_capture_is_forwarded_to_its_end() {
    let folder = folder(1_001);
    let switch = "name = \"br0\"\nworkers = 2\nrules = [\"r.rules\"]\nend_when_finished = true";
    write_config(folder.path(), switch);
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let output = run(folder.path(), &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["packets"], 1_001);
    // Between workers there may be no room for a moment; nothing is lost without being counted.
    let sent = |port: &str| report["outputs"][port].as_u64().unwrap();
    let dropped = report["drops"]["exchange_full"].as_u64().unwrap_or(0);
    assert_eq!(sent("2") + sent("3") + dropped, 1_501);
    assert_eq!(report["rule_count"], 2);
    let packets: Vec<_> = report["rules"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&packets[0]["packets"], &packets[1]["packets"]),
        (&501.into(), &500.into())
    );
    let microflow = &report["caches"]["microflow"];
    assert_eq!(
        microflow["hits"].as_u64().unwrap() + microflow["misses"].as_u64().unwrap(),
        1_001
    );
    let reader = thalweg_io::CaptureReader::open(&folder.path().join("out.pcap")).unwrap();
    assert_eq!(reader.count() as u64, sent("2"));
}

#[test]
fn people_get_text() {
    let folder = folder(4);
    let switch = "name = \"br0\"\nrules = [\"r.rules\"]\nend_when_finished = true";
    write_config(folder.path(), switch);
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let output = run(folder.path(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("ready br0 with 3 ports, 2 rules, 1 workers")
    );
    assert!(
        lines.next().unwrap().starts_with("br0: 4 packets in "),
        "{text}"
    );
    assert!(
        text.contains("2 packets             120 bytes  table=0, dl_dst=02:00:00:00:00:00"),
        "{text}"
    );
}

#[test]
fn rules_are_read_again_on_a_hangup() {
    let folder = folder(10);
    let file = |name: &str| folder.path().join(name);
    write_config(
        folder.path(),
        "rules = [\"r.rules\"]\ngroups = [\"g.groups\"]",
    );
    std::fs::write(file("g.groups"), "group_id=1,type=all,bucket=output:2\n").unwrap();
    std::fs::write(
        file("r.rules"),
        format!("{RULES}priority=1,actions=group:1\n"),
    )
    .unwrap();
    let program = Program::start_json(&file("br0.toml"));
    program.wait_for("ready thalweg with 3 ports, 3 rules, 1 workers");
    let reload = |rules: &str, answer: &str| {
        std::fs::write(file("r.rules"), rules).unwrap();
        program.signal(Signal::HUP);
        program.wait_for(answer)
    };
    let done = reload(&format!("{RULES}arp,actions=group:1"), "reloaded");
    assert!(
        done.starts_with("reloaded 3 rules: 1 added, 1 removed"),
        "{done}"
    );
    let done = reload("actions=group:2", "thalweg: the rules stay");
    assert!(
        done.contains("r.rules:1: rule `table=0, actions=group:2`: group 2 does not exist"),
        "{done}"
    );
    // One line, however many faults there are.
    let done = reload(
        "actions=ouput:2\nactions=ouput:3\nin_prt=1",
        "thalweg: the rules stay",
    );
    assert!(
        done.contains("r.rules:1:9: unknown") && done.ends_with("(and 2 more faults)"),
        "{done}"
    );
    std::fs::remove_file(file("r.rules")).unwrap();
    program.signal(Signal::HUP);
    let done = program.wait_for("thalweg: the rules stay");
    assert!(
        done.contains("r.rules: No such file") && done.contains("check the path"),
        "{done}"
    );
    let Ended {
        status,
        output,
        took,
    } = program.end(Signal::TERM);
    assert!(took < Duration::from_secs(1), "it took {took:?}");
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&report["packets"], &report["rule_count"]),
        (&10.into(), &3.into())
    );
    assert_eq!(report["changes"].as_array().unwrap().len(), 1);
}

#[test]
fn bad_input_ends_with_2_and_says_where() {
    let folder = folder(0);
    let file = |name: &str| folder.path().join(name);
    let said = |expected: &str| {
        let output = run(folder.path(), &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains(expected) && output.stdout.is_empty(),
            "{text}"
        );
    };
    said("br0.toml: No such file");
    write_config(folder.path(), "wrokers = 2");
    said("br0.toml:2:1: unknown field `wrokers`, expected one of");
    write_config(folder.path(), "rules = [\"r.rules\"]");
    said("r.rules: No such file or directory");
    std::fs::write(
        file("r.rules"),
        "arp actions=drop\nip actions=drp\ntcp_dst=1 actions=drop",
    )
    .unwrap();
    said("r.rules:2:12: unknown");
    said("r.rules:3:1: ");
    std::fs::write(file("r.rules"), "actions=group:1").unwrap();
    said("r.rules:1: rule `table=0, actions=group:1`: group 1 does not exist");
    std::fs::write(file("r.rules"), "").unwrap();
    std::fs::write(file("in.pcap"), "no capture").unwrap();
    said("port 1 (port1): ");
    let text = "[[port]]\nnumber = 1\nkind = \"af_packet\"\ninterface = \"none9\"\n";
    std::fs::write(file("br0.toml"), text).unwrap();
    said("there is no interface `none9`");
}
