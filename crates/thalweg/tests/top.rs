//! `thalweg top` looks at a running `thalweg run`: as one picture, and on a pseudo-terminal that
//! `script` of util-linux makes. A capture and a sink are the ports: no privileges are needed.

mod program;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{Program, TIMEOUT};
use rustix::process::Signal;
use serde_json::Value;
use thalweg_io::CaptureWriter;

const CONFIG: &str = r#"
[switch]
name = "br0"
rules = ["r.rules"]
seed = 1
[control]
socket = "run.ctl"
[cache.megaflow]
max_idle_ms = 0
[[port]]
number = 1
name = "in"
kind = "pcap"
read = "in.pcap"
[[port]]
number = 2
name = "out"
kind = "memory"
"#;

/// Packets to even stations go on, those to odd ones are dropped.
const RULES: &str = "dl_dst=02:00:00:00:00:00/00:00:00:00:00:01,actions=output:2\n\
                     priority=7,dl_dst=02:00:00:00:00:01/00:00:00:00:00:01,actions=drop\n";

const PACKETS: usize = 20;

/// A running switch that has received its capture.
struct Run {
    folder: tempfile::TempDir,
    program: Program,
}

impl Run {
    fn start() -> Run {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let mut writer = CaptureWriter::create(&file("in.pcap")).expect("it is written");
        for index in 0..PACKETS {
            let mut bytes = vec![2, 0, 0, 0, 0, (index % 2) as u8];
            bytes.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
            bytes.resize(60, 0);
            let at = thalweg_packet::Instant::from_nanos(index as u64 * 1_000);
            writer.write(&bytes, at).expect("it is written");
        }
        writer.flush().expect("it is written");
        std::fs::write(file("br0.toml"), CONFIG).expect("it is written");
        std::fs::write(file("r.rules"), RULES).expect("it is written");
        let program = Program::start_json(&file("br0.toml"));
        program.wait_for("ready");
        let run = Run { folder, program };
        let deadline = Instant::now() + TIMEOUT;
        while !run.ctl(&["statistics"]).starts_with("br0: 20 packets ") {
            assert!(Instant::now() < deadline, "it does not receive its capture");
        }
        run
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run.ctl")
    }

    fn output(&self, command: &[&str], words: &[&str]) -> Output {
        let mut client = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        client.args(command).arg("--target").arg(self.socket());
        client.args(words).output().expect("it is there")
    }

    fn ctl(&self, words: &[&str]) -> String {
        let output = self.output(&["ctl"], words);
        String::from_utf8(output.stdout).expect("text")
    }

    /// `thalweg top` on a terminal of its own.
    fn on_a_terminal(&self) -> Child {
        let program = env!("CARGO_BIN_EXE_thalweg");
        let command = format!(
            "stty rows 24 cols 80; exec {program} top --interval 0.1 --target {}",
            self.socket().display()
        );
        let mut script = Command::new("script");
        script.args(["-qefc", &command, "/dev/null"]);
        script.env("TERM", "xterm").env("NO_COLOR", "1");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        script.spawn().expect("util-linux is there")
    }

    /// What `thalweg top` prints; it must succeed.
    fn top(&self, options: &[&str], words: &[&str]) -> String {
        let command = [options, &["top", "--interval", "0.1"]].concat();
        let output = self.output(&command, words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

#[test]
fn one_picture_needs_no_terminal() {
    let run = Run::start();
    let picture = run.top(&[], &["--once"]);
    let lines: Vec<&str> = picture.lines().collect();
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(lines[0].starts_with(" run   up "), "{picture}");
    for start in [
        "packets     0/s",
        "exact        - % of     0/s",
        "upcalls      0/s",
        "entries exact     2 megaflow     2 masks     2",
        "dropped     0/s",
        "in                   finished",
        "out                  up",
        "      0       0 in           eth(dst=",
        "      1       0 in           table=0,",
    ] {
        assert!(has(start), "{start:?}: {picture}");
    }
    // Of the busy entries, the filter leaves one.
    let filtered = run.top(&[], &["--once", "--filter", "dl_dst=02:00:00:00:00:01"]);
    let entries = |picture: &str| picture.matches("in           eth(dst=").count();
    assert_eq!(
        (entries(&picture), entries(&filtered)),
        (2, 1),
        "{filtered}"
    );
}

#[test]
fn the_object_has_rates_entries_and_what_makes_them() {
    let run = Run::start();
    let text = run.top(&["--json"], &[]);
    let object: Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(
        (&object["rules"], &object["megaflows"]),
        (&2.into(), &2.into())
    );
    let rates = &object["rates"];
    assert_eq!(
        (&rates["packets"], &rates["drops"]["action"]),
        (&0.0.into(), &0.0.into())
    );
    let talkers = object["talkers"].as_array().expect("a list");
    let totals = talkers.iter().map(|talker| &talker["packets_total"]);
    assert_eq!(totals.collect::<Vec<_>>(), [9, 9], "{text}");
    let made = object["slow_path"].as_array().expect("a list");
    assert_eq!(made.len(), 2, "{text}");
    for maker in made {
        let counts = (&maker["entries"], &maker["single"]);
        assert_eq!(counts, (&1.into(), &0.into()), "{text}");
        assert_eq!(maker["rules"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn what_cannot_be_shown_is_said() {
    let run = Run::start();
    let fails = |words: &[&str], part: &str| {
        let output = run.output(&["top"], words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        assert!(
            output.stdout.is_empty() && errors.contains(part),
            "{words:?}: {errors}"
        );
    };
    fails(&[], "print one picture with --once");
    fails(
        &["--once", "--filter", "nothing=1"],
        "Failed to parse filter",
    );
    assert_eq!(run.program.end(Signal::TERM).status, Some(0));
    let mut client = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output = client.args(["top", "--once", "--target", "/nonexistent/ctl"]);
    let output = output.output().expect("it is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("is the switch running"), "{errors}");
}

#[test]
fn a_terminal_is_given_back() {
    let run = Run::start();
    let mut terminal = run.on_a_terminal();
    let mut output = terminal.stdout.take().expect("it is piped");
    let mut keys = terminal.stdin.take().expect("it is piped");
    let (mut seen, mut buffer) = (Vec::new(), [0; 4_096]);
    let has = |seen: &[u8], part: &[u8]| seen.windows(part.len()).any(|window| window == part);
    let deadline = Instant::now() + TIMEOUT;
    // An entry is there; then the frame around the reasons.
    for (part, pressed) in [("eth(dst=", "e"), ("┌", "qq")] {
        while !has(&seen, part.as_bytes()) {
            let count = output.read(&mut buffer).expect("it is open");
            seen.extend(&buffer[..count]);
            let is_late = Instant::now() > deadline || count == 0;
            assert!(!is_late, "{part}: {}", String::from_utf8_lossy(&seen));
        }
        keys.write_all(pressed.as_bytes()).expect("it is read");
    }
    output.read_to_end(&mut seen).expect("it ends");
    assert!(terminal.wait().expect("it was started").success());
    let place = |part: &[u8]| seen.windows(part.len()).rposition(|window| window == part);
    let (entered, left) = (place(b"\x1b[?1049h"), place(b"\x1b[?1049l"));
    assert!(
        entered.is_some() && entered < left,
        "{}",
        String::from_utf8_lossy(&seen)
    );
    // Without colours.
    assert!(!has(&seen, b"\x1b[31") && !has(&seen, b"\x1b[36"));
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let run = Run::start();
    let mut terminal = run.on_a_terminal();
    let mut output = terminal.stdout.take().expect("it is piped");
    let mut first = [0];
    output.read_exact(&mut first).expect("a picture begins");
    let script = terminal.id();
    let children = std::fs::read_to_string(format!("/proc/{script}/task/{script}/children"));
    let child: u32 = children.expect("it runs").trim().parse().expect("one");
    terminal.kill().expect("it runs");
    terminal.wait().expect("it was started");
    // Without a parent that asks for its status, an ended process stays as a zombie.
    let is_running = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat"));
        status.is_ok_and(|text| !text.contains(") Z "))
    };
    let deadline = Instant::now() + TIMEOUT;
    while is_running() {
        assert!(Instant::now() < deadline, "{child} reads from no terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
}
