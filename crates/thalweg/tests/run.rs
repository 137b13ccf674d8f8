//! Tests `thalweg run` through its command line, with captures and sinks as ports: no
//! privileges needed.

mod program;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use program::{Ended, Program};
use rustix::process::Signal;
use serde_json::Value;
use thalweg_io::CaptureWriter;
use thalweg_packet::Instant;

/// A folder with a capture of `packets` packets, alternating between two destinations.
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

/// Configures three ports: one reads the capture, one writes another, and one is a sink.
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
    // An exchange between workers may be full for a moment; lost packets are counted.
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
    let switch = "name = \"br0\"\nrules = [\"r.rules\"]\nend_when_finished = true\nseed = 7";
    write_config(folder.path(), switch);
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let output = run(folder.path(), &[]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("ready br0 with 3 ports, 2 rules, 1 worker, seed 7")
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
    program.wait_for("ready thalweg with 3 ports, 3 rules, 1 worker, seed ");
    let reload = |rules: &str, answer: &str| {
        std::fs::write(file("r.rules"), rules).unwrap();
        program.signal(Signal::HUP);
        program.wait_for_answer(answer)
    };
    let done = reload(&format!("{RULES}arp,actions=group:1"), "reloaded");
    assert!(
        done.starts_with("reloaded 3 rules: 1 added, 1 removed"),
        "{done}"
    );
    let done = reload("actions=group:2", ": the rules stay");
    assert!(
        done.contains("r.rules:1:9: rule `table=0, actions=group:2`: group 2 does not exist"),
        "{done}"
    );
    // One line, however many errors there are.
    let done = reload(
        "actions=ouput:2\nactions=ouput:3\nin_prt=1",
        ": the rules stay",
    );
    assert!(
        done.contains("r.rules:1:9: unknown") && done.ends_with("(and 2 more faults)"),
        "{done}"
    );
    std::fs::remove_file(file("r.rules")).unwrap();
    program.signal(Signal::HUP);
    let done = program.wait_for_part(": the rules stay");
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
fn a_signal_that_asks_for_nothing_gets_a_line() {
    let folder = folder(10);
    write_config(folder.path(), "rules = [\"r.rules\"]");
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let program = Program::start_json(&folder.path().join("br0.toml"));
    program.wait_for("ready");
    for signal in [Signal::USR1, Signal::USR2] {
        program.signal(signal);
        let line = program.wait_for("thalweg: 2");
        assert!(
            line.contains("Z thalweg for ") && line.contains(", 2 rules, 3 of 3 ports"),
            "{line}"
        );
    }
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

/// An editor that empties a file before writing it removes no rule.
#[test]
fn a_file_that_says_nothing_is_refused() {
    let folder = folder(10);
    let file = |name: &str| folder.path().join(name);
    let groups = "group_id=1,type=all,bucket=output:2\n";
    write_config(
        folder.path(),
        "rules = [\"r.rules\"]\ngroups = [\"g.groups\"]",
    );
    std::fs::write(file("g.groups"), groups).unwrap();
    std::fs::write(file("r.rules"), RULES).unwrap();
    let program = Program::start_json(&file("br0.toml"));
    program.wait_for("ready thalweg with 3 ports, 2 rules");
    let reload = |rules: &str, answer: &str| {
        std::fs::write(file("r.rules"), rules).unwrap();
        program.signal(Signal::HUP);
        program.wait_for_answer(answer)
    };
    for empty in ["", "# nothing yet\n\n"] {
        let done = reload(empty, ": the rules stay");
        assert!(
            done.contains("r.rules: there is no rule in it") && done.contains("allow_empty_rules"),
            "{done}"
        );
    }
    std::fs::write(file("g.groups"), "").unwrap();
    let done = reload(RULES, ": the rules stay");
    assert!(done.contains("g.groups: there is no group in it"), "{done}");
    std::fs::write(file("g.groups"), groups).unwrap();
    let done = reload(RULES, "reloaded");
    assert!(
        done.starts_with("reloaded 2 rules: 0 added, 0 removed"),
        "{done}"
    );
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

#[test]
fn rules_may_be_none_where_that_is_said() {
    let folder = folder(10);
    let switch = "rules = [\"r.rules\"]\nallow_empty_rules = true";
    write_config(folder.path(), switch);
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let program = Program::start_json(&folder.path().join("br0.toml"));
    program.wait_for("ready thalweg with 3 ports, 2 rules");
    std::fs::write(folder.path().join("r.rules"), "").unwrap();
    program.signal(Signal::HUP);
    let done = program.wait_for("reloaded");
    assert!(
        done.starts_with("reloaded 0 rules: 0 added, 2 removed"),
        "{done}"
    );
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

#[test]
fn the_configuration_is_read_again_on_a_hangup() {
    let folder = folder(10);
    let file = |name: &str| folder.path().join(name);
    let port = |number: u32, keys: &str| format!("[[port]]\nnumber = {number}\n{keys}\n");
    let start = format!(
        "[switch]\nrules = [\"r.rules\"]\n[limits]\nrules = 2\n{}{}{}",
        port(1, "kind = \"pcap\"\nread = \"in.pcap\""),
        port(2, "kind = \"pcap\"\nwrite = \"out.pcap\""),
        port(3, "kind = \"memory\"")
    );
    std::fs::write(file("br0.toml"), &start).unwrap();
    std::fs::write(file("r.rules"), RULES).unwrap();
    let program = Program::start_json(&file("br0.toml"));
    program.wait_for("ready thalweg with 3 ports, 2 rules");
    let reload = |config: &str, answer: &str| {
        std::fs::write(file("br0.toml"), config).unwrap();
        program.signal(Signal::HUP);
        program.wait_for_answer(answer)
    };
    // The limit of rules holds, and is then raised; the number of the removed port is reused.
    std::fs::write(
        file("r.rules"),
        format!("{RULES}arp actions=output:second\n"),
    )
    .unwrap();
    let second = port(4, "name = \"second\"\nkind = \"pcap\"\nread = \"in.pcap\"");
    let less = start.replace(&port(3, "kind = \"memory\""), &second);
    let done = reload(&less, ": the rules stay as they were");
    assert!(
        done.contains("the text has more rules than the limit of 2"),
        "{done}"
    );
    let done = reload(&less.replace("rules = 2", "rules = 3"), "reloaded");
    assert!(
        done.starts_with("reloaded 3 rules: 1 added, 0 removed")
            && done.ends_with("; ports: 1 added, 1 removed"),
        "{done}"
    );
    let third = port(3, "kind = \"pcap\"\nwrite = \"third.pcap\"");
    let more = format!("{}{third}", less.replace("rules = 2", "rules = 3"));
    let done = reload(&more, "reloaded 3 rules: 0 added, 0 removed");
    assert!(done.ends_with("; ports: 1 added, 0 removed"), "{done}");
    let Ended { status, output, .. } = program.end(Signal::TERM);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&output).unwrap();
    // The first port received the capture, and later the fourth did again.
    assert_eq!(report["packets"], 20);
    let ports = report["ports"].as_array().unwrap();
    let numbers: Vec<u64> = ports
        .iter()
        .map(|port| port["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    // Half of them also go to port 3, which was a sink, then absent, then a capture.
    assert_eq!(report["outputs"]["2"], 20);
    let counted = ["ports_attached", "ports_detached", "ports_gone"].map(|key| &report[key]);
    assert_eq!(counted, [&Value::from(2), &Value::from(1), &Value::from(0)]);
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let folder = folder(10);
    let file = |name: &str| folder.path().join(name);
    write_config(folder.path(), "rules = [\"r.rules\"]");
    std::fs::write(file("r.rules"), RULES).unwrap();
    let start = std::fs::read_to_string(file("br0.toml")).unwrap();
    let program = Program::start_json(&file("br0.toml"));
    program.wait_for("ready thalweg with 3 ports, 2 rules");
    let reload = |config: &str, answer: &str| {
        std::fs::write(file("br0.toml"), config).unwrap();
        program.signal(Signal::HUP);
        program.wait_for_answer(answer)
    };
    let done = reload("[[port]]\nnumbr = 1", ": the configuration stays as it was");
    assert!(
        done.contains("br0.toml:2:1: unknown field `numbr`"),
        "{done}"
    );
    let none = "[[port]]\nnumber = 4\ninterface = \"none9\"\n";
    let done = reload(
        &format!("{start}{none}"),
        ": the configuration stays as it was",
    );
    assert!(
        done.contains("port 4 (port4): there is no interface `none9`") && done.contains("`lo`"),
        "{done}"
    );
    let done = reload(&start, "reloaded 2 rules: 0 added, 0 removed");
    assert!(done.ends_with("until all workers followed"), "{done}");
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

#[test]
fn what_only_a_start_can_change_is_said_by_key_each_time() {
    let folder = folder(10);
    let file = |name: &str| folder.path().join(name);
    write_config(folder.path(), "rules = [\"r.rules\"]\n[limits]\nrules = 9");
    std::fs::write(file("r.rules"), RULES).unwrap();
    let start = std::fs::read_to_string(file("br0.toml")).unwrap();
    let program = Program::start_json(&file("br0.toml"));
    program.wait_for("ready thalweg with 3 ports, 2 rules");
    let fixed = start.replace(
        "[switch]",
        "[switch]\nworkers = 2\nmode = \"computational-flows\"",
    );
    let fixed = fixed.replace("[limits]", "[cache.megaflow]\nbytes = \"1 MB\"\n[limits]");
    std::fs::write(file("br0.toml"), fixed).unwrap();
    for _ in 0..2 {
        program.signal(Signal::HUP);
        let said = program.wait_for_part(": workers in [switch] has changed");
        assert!(
            said.ends_with("which takes effect at the next start"),
            "{said}"
        );
        program.wait_for_part(": mode in [switch] has changed");
        program.wait_for_part(": bytes in [cache.megaflow] has changed");
        let done = program.wait_for("reloaded 2 rules: 0 added, 0 removed");
        assert!(done.ends_with("until all workers followed"), "{done}");
    }
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

#[test]
fn a_program_has_other_ports_after_a_hangup() {
    let folder = folder(10);
    let path = folder.path().join("br0.toml");
    let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4/testdata");
    let p4 = format!(
        "[p4]\nprogram = \"{testdata}/router.json\"\nentries = \"{testdata}/router.cmds\"\n"
    );
    let port = |number: u32, keys: &str| format!("[[port]]\nnumber = {number}\n{keys}\n");
    let first = port(1, "kind = \"memory\"");
    let source = port(2, "kind = \"pcap\"\nread = \"in.pcap\"");
    std::fs::write(&path, format!("{p4}{first}")).unwrap();
    let program = Program::start_json(&path);
    program.wait_for("ready thalweg with 1 port, P4Runtime on");
    let reload = |config: String, answer: &str| {
        std::fs::write(&path, config).unwrap();
        program.signal(Signal::HUP);
        program.wait_for_answer(answer)
    };
    let done = reload(
        format!("{p4}{first}{source}"),
        ": the configuration was read",
    );
    assert!(done.ends_with("; ports: 1 added, 0 removed"), "{done}");
    // The port is removed and added again, so the capture is read from its start.
    let done = reload(format!("{p4}{first}"), ": the configuration was read");
    assert!(done.ends_with("; ports: 0 added, 1 removed"), "{done}");
    let fixed = format!("{p4}cpu_port = 9\n[p4runtime]\ndevice_id = 7\n{first}{source}");
    reload(fixed, ": cpu_port in [p4] has changed");
    program.wait_for_part(": device_id in [p4runtime] has changed");
    program.wait_for_part(": the configuration was read again; ports: 1 added");
    reload("[p4]".to_owned(), ": the configuration stays as it was");
    program.signal(Signal::USR1);
    let line = program.wait_for("thalweg: 2");
    assert!(line.ends_with(": 2 of 2 ports"), "{line}");
    let Ended { status, output, .. } = program.end(Signal::TERM);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&output).unwrap();
    let counted = ["ports_attached", "ports_detached", "ports_gone"].map(|key| &report[key]);
    assert_eq!(counted, [&Value::from(2), &Value::from(1), &Value::from(0)]);
    let received = &report["ports"][1]["received_packets"];
    assert!((10..=20).contains(&received.as_u64().unwrap()), "{report}");
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
    said("r.rules:1:9: rule `table=0, actions=group:1`: group 1 does not exist");
    std::fs::write(
        file("r.rules"),
        "# a group\ngroup_id=1,type=all,bucket=output:1\n\n  ip actions=clone(group:1,group:2)",
    )
    .unwrap();
    said("r.rules:4:28: rule `table=0, ip actions=clone(group:1,group:2)`: group 2 does not");
    std::fs::write(file("r.rules"), "table=2,ip,actions=dec_ttl,goto_table:2").unwrap();
    said("r.rules:1:28: goto_table:2 in table 2; a rule can only go to a later table");
    std::fs::write(file("r.rules"), "").unwrap();
    said("r.rules: there is no rule in it");
    std::fs::write(file("r.rules"), "actions=drop").unwrap();
    std::fs::write(file("in.pcap"), "no capture").unwrap();
    said("port 1 (port1): ");
    let text = "[[port]]\nnumber = 1\nkind = \"af_packet\"\ninterface = \"none9\"\n";
    std::fs::write(file("br0.toml"), text).unwrap();
    said("there is no interface `none9`");
}

#[test]
fn prometheus_reads_what_a_run_counts() {
    let folder = folder(0);
    let text = "[switch]\nname = \"br0\"\nrules = [\"r.rules\"]\n[metrics]\nlisten = \
                \"127.0.0.1:0\"\n[[port]]\nnumber = 1\nname = \"p1\"\nkind = \"memory\"\n";
    std::fs::write(folder.path().join("br0.toml"), text).unwrap();
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let program = Program::start_json(&folder.path().join("br0.toml"));
    let said = program.wait_for_part("metrics at http://");
    let (_, url) = said.split_once("http://").unwrap();
    let address = url.strip_suffix("/metrics").unwrap();
    program.wait_for("ready");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: switch\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    for line in [
        "thalweg_rules 2",
        "thalweg_port_up{bridge=\"br0\",port=\"p1\"} 1",
        "thalweg_packets_total 0",
    ] {
        assert!(answer.contains(&format!("\n{line}\n")), "{line}: {answer}");
    }
    // The address is taken, which is said.
    let text = text.replace("127.0.0.1:0", address);
    std::fs::write(folder.path().join("br0.toml"), text).unwrap();
    let output = run(folder.path(), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("cannot listen on"), "{errors}");
    assert_eq!(program.end(Signal::TERM).status, Some(0));
}

#[test]
fn a_browser_is_answered_by_a_run() {
    let folder = folder(0);
    let text = "[switch]\nname = \"br0\"\nrules = [\"r.rules\"]\n[dashboard]\nlisten = \
                \"127.0.0.1:0\"\n[[port]]\nnumber = 1\nname = \"p1\"\nkind = \"memory\"\n";
    std::fs::write(folder.path().join("br0.toml"), text).unwrap();
    std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
    let program = Program::start_json(&folder.path().join("br0.toml"));
    let said = program.wait_for_part("dashboard at http://");
    let (_, url) = said.split_once("http://").unwrap();
    let address = url.strip_suffix("/").unwrap();
    program.wait_for("ready");
    let ask = |path: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for (path, part) in [
        ("/", "<title>Thalweg</title>"),
        ("/api/live", "\"name\":\"p1\""),
        ("/api/entries", "\"entries\":0"),
        (
            "/api/explain?bridge=br0&flow=in_port%3D1",
            "Why its mask has",
        ),
        ("/api/explain?bridge=br1&flow=in_port%3D1", "unknown bridge"),
    ] {
        let answer = ask(path);
        assert!(answer.contains(part), "{path}: {answer}");
    }
    // The address is taken, which is said.
    let text = text.replace("127.0.0.1:0", address);
    std::fs::write(folder.path().join("br0.toml"), text).unwrap();
    let output = run(folder.path(), &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("[dashboard]: cannot listen on"), "{errors}");
    assert_eq!(program.end(Signal::TERM).status, Some(0));
}

/// Of each thread of a process: its capabilities, and whether it can gain none and its system calls
/// are filtered.
fn rights(pid: u32) -> Vec<(u64, bool, bool)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let rights = tasks.map(|task| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let value = |name: &str| {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(name));
            line.expect("the kernel says it").trim().to_owned()
        };
        let permitted = u64::from_str_radix(&value("CapPrm:"), 16).unwrap();
        let is_filtered = value("Seccomp:") == "2";
        (permitted, value("NoNewPrivs:") == "1", is_filtered)
    });
    rights.collect()
}

#[test]
fn no_thread_of_a_run_keeps_what_it_does_not_need() {
    const NET_RAW: u64 = 1 << 13;
    let folder = folder(0);
    let config = |process: &str| {
        let text = format!(
            "[switch]\nname = \"br0\"\nrules = [\"r.rules\"]\nworkers = 2\n[control]\n{process}\
             [[port]]\nnumber = 1\nkind = \"memory\"\n"
        );
        std::fs::write(folder.path().join("br0.toml"), text).unwrap();
        std::fs::write(folder.path().join("r.rules"), RULES).unwrap();
        let program = Program::start_json(&folder.path().join("br0.toml"));
        program.wait_for("ready");
        program
    };
    let own = rights(std::process::id())[0].0;
    let program = config("");
    let threads = rights(program.id());
    assert!(threads.len() >= 4, "{threads:?}");
    for rights in threads {
        assert_eq!(rights, (own & NET_RAW, true, true));
    }
    assert_eq!(program.end(Signal::TERM).status, Some(0));
    let kept = "[process]\nkeep_capabilities = true\nkeep_system_calls = true\n";
    let program = config(kept);
    for rights in rights(program.id()) {
        assert_eq!(rights, (own, false, false));
    }
    assert_eq!(program.end(Signal::TERM).status, Some(0));
}
