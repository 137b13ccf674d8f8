//! Tests Ctrl-C: finished files stay, unfinished ones go, and the program says how to
//! continue.

mod command;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::Scene;

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until `is_so` holds; the program must keep running.
fn until(what: &str, child: &mut Child, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let ended = child.try_wait().expect("it was started");
        if ended.is_some() || start.elapsed() > TIMEOUT {
            let _ = child.kill();
            panic!("never: {what}; it ended: {ended:?}");
        }
        std::thread::yield_now();
    }
}

/// Sends the signal, which must end the program; returns its standard error.
fn interrupt(mut child: Child, signal: Signal) -> String {
    kill_process(Pid::from_child(&child), signal).expect("the program is there");
    let status = child.wait().expect("it was started");
    assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
    let mut said = String::new();
    let error = child.stderr.as_mut().expect("it is piped");
    error.read_to_string(&mut said).expect("text");
    assert!(said.starts_with("thalweg: interrupted; "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn generate_leaves_no_part_of_a_capture() {
    for signal in [Signal::INT, Signal::TERM] {
        let scene = Scene::new();
        scene.write("all.pcap", "before");
        // Too many packets to finish during the test.
        let mut child = scene.start(&[
            "generate",
            "traffic",
            "--kind",
            "ofd",
            "--flows",
            "10",
            "--packets",
            "1000000000000",
            "-o",
            "all.pcap",
        ]);
        until("a part", &mut child, || !scene.parts().is_empty());
        let said = interrupt(child, signal);
        assert!(
            said.contains("nothing was written; run the command again"),
            "{said}"
        );
        assert_eq!(scene.parts(), Vec::<String>::new());
        let before = std::fs::read_to_string(scene.path("all.pcap")).expect("it is there");
        assert_eq!(before, "before");
    }
}

/// The input capture is a pipe that does not end.
#[test]
fn replay_leaves_no_part_of_a_capture() {
    let scene = Scene::new();
    scene.write("rules", "table=0,actions=output:2\n");
    let pipe = scene.path("pipe.pcap");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let mut child = scene.start(&[
        "replay",
        "--rules",
        "rules",
        "--pcap",
        "pipe.pcap",
        "--out",
        "out",
    ]);
    let mut capture = OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("a reader");
    capture.write_all(&capture_of(10)).expect("a reader");
    until("a part", &mut child, || !scene.parts().is_empty());
    let said = interrupt(child, Signal::INT);
    assert!(said.contains("nothing was written"), "{said}");
    let left = std::fs::read_dir(scene.path("out"))
        .expect("it was made")
        .count();
    assert_eq!(left, 0);
}

/// A pcap of small packets.
fn capture_of(packets: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for number in 0..packets {
        for word in [number, 0, 14, 14] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    }
    bytes
}

/// A thousand runs, one after the other, of which some get done.
#[test]
fn simulate_keeps_what_is_finished_and_goes_on() {
    let scene = Scene::new();
    let mut trace = String::new();
    for line in 0..2_000 {
        let (source, destination) = (line % 32, (line * 7 + 1) % 32);
        writeln!(trace, "{source},{destination},{},{line},64", line * 60).expect("a string");
    }
    scene.write("trace.csv", &trace);
    scene.write("long.toml", plan(1_000));
    scene.write("short.toml", plan(3));
    let common = ["--jobs", "1", "--ledger", "ledger"];
    let mut child = scene.start(&[&["simulate", "long.toml"], &common[..]].concat());
    let done = || std::fs::read_dir(scene.path("ledger")).map_or(0, Iterator::count);
    until("runs that are done", &mut child, || done() > 4);
    let said = interrupt(child, Signal::INT);
    assert!(
        said.contains(" of 1000 runs are done and kept in ledger; "),
        "{said}"
    );
    assert_eq!(scene.parts(), Vec::<String>::new());
    assert!(done() < 1_000);

    let resumed = scene.json(&[&["simulate", "short.toml"], &common[..]].concat());
    let unbroken = scene.json(&["simulate", "short.toml", "--no-ledger"]);
    assert_eq!(
        (&resumed["runs"], &resumed["from_ledger"]),
        (&3.into(), &3.into())
    );
    for figure in [
        "packet_hops",
        "mean_packet_latency_us",
        "gateway_packets",
        "seed",
    ] {
        for row in 0..3 {
            assert_eq!(
                resumed["rows"][row][figure], unbroken["rows"][row][figure],
                "{figure}"
            );
        }
    }
}

#[test]
fn simulate_without_a_ledger_says_that_nothing_is_kept() {
    let scene = Scene::new();
    // It waits for a trace that never arrives.
    let pipe = scene.path("trace.csv");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    scene.write("plan.toml", plan(1));
    let child = scene.start(&["simulate", "plan.toml", "--no-ledger"]);
    let trace = OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("a reader");
    let said = interrupt(child, Signal::INT);
    assert!(
        said.contains("nothing was written; run the command again"),
        "{said}"
    );
    drop(trace);
}

fn plan(seeds: u64) -> String {
    let seeds: Vec<u64> = (1..=seeds).collect();
    format!(
        "[topology.fat_tree]\npods = 2\ntors_per_pod = 2\nspines_per_pod = 2\n\
         core_links_per_spine = 1\nservers_per_tor = 2\ngateway_tors = [3]\n\
         gateways_per_tor = 2\n[workload]\ntrace = \"trace.csv\"\nmachines = 32\n\
         transport = \"udp\"\n[run]\nschemes = [\"switchv2p\"]\ncache_percent = [50]\n\
         seeds = {seeds:?}\n"
    )
}
