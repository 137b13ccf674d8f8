//! `thalweg ctl` asks a running `thalweg run` and changes it; so does `ovs-appctl`, where tests
//! may use it. Captures and sinks are the ports: no privileges are needed.

mod program;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use program::{Ended, Program, TIMEOUT};
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

/// Packets to station 0 go on, those to station 1 are dropped.
const RULES: &str = "dl_dst=02:00:00:00:00:00,actions=normal,output:2\n\
                     priority=7,dl_dst=02:00:00:00:00:01,actions=drop\n";

/// Packets of the capture, half of them to each station.
const PACKETS: usize = 10;

/// What a client said: output, errors and status.
struct Said {
    output: String,
    errors: String,
    status: Option<i32>,
}

impl Said {
    fn of(output: &Output) -> Said {
        Said {
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status.code(),
        }
    }
}

/// A running switch with a control socket.
struct Run {
    folder: tempfile::TempDir,
    program: Program,
}

impl Run {
    /// Starts one that has received its capture.
    fn start() -> Run {
        Run::start_with(|_| Vec::new())
    }

    /// The same, with the options of `run` for a folder.
    fn start_with(options: impl Fn(&Path) -> Vec<String>) -> Run {
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
        // What a process left behind is replaced.
        drop(UnixListener::bind(file("run.ctl")).expect("it is bound"));
        let options = options(folder.path());
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let program = Program::start_json_with(&options, &file("br0.toml"));
        program.wait_for("ready");
        let run = Run { folder, program };
        let deadline = Instant::now() + TIMEOUT;
        while run.statistics()["packets"] != PACKETS {
            assert!(Instant::now() < deadline, "it does not receive its capture");
        }
        run
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run.ctl")
    }

    /// What `thalweg ctl` says.
    fn ctl(&self, words: &[&str]) -> Said {
        let mut client = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        client.arg("ctl").arg("--target").arg(self.socket());
        client.args(words);
        Said::of(&client.output().expect("it is there"))
    }

    /// The answer to a command that must succeed.
    fn ok(&self, words: &[&str]) -> String {
        let said = self.ctl(words);
        assert_eq!(said.status, Some(0), "{words:?}: {}", said.errors);
        said.output
    }

    /// The words with which a command is refused.
    fn refused(&self, words: &[&str]) -> String {
        let said = self.ctl(words);
        let (status, output) = (said.status, said.output.as_str());
        assert_eq!((status, output), (Some(2), ""), "{words:?}");
        said.errors
    }

    fn statistics(&self) -> Value {
        let text = self.ok(&["statistics", "--json"]);
        serde_json::from_str(&text).expect("it is one object")
    }
}

#[test]
fn a_running_switch_is_asked() {
    let run = Run::start();
    let mode = std::fs::metadata(run.socket()).expect("it is there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    assert!(run.ok(&["version"]).starts_with("thalweg "));
    let commands = run.ok(&["list-commands"]);
    for name in ["statistics ", "caches ", "ofproto/trace ", "exit "] {
        assert!(commands.contains(&format!("\n  {name}")), "{commands}");
    }
    let text = run.ok(&["statistics"]);
    assert!(text.starts_with("br0: 10 packets in "), "{text}");
    let rules = run.ok(&["rules"]);
    let counted = |part: &str| {
        let line = rules.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("{part}: {rules}")).to_owned()
    };
    assert!(counted("dl_dst=02:00:00:00:00:00,actions=NORMAL,output:2").contains("n_packets=5,"));
    let dropping = counted("priority=7,dl_dst=02:00:00:00:00:01,actions=drop");
    assert!(dropping.contains("n_packets=5, n_bytes=300,"), "{dropping}");
    let (of_bridge, all) = (run.ok(&["bridge/dump-flows", "br0"]), rules.lines().count());
    assert_eq!(of_bridge.lines().count(), all);
    let stations = run.ok(&["fdb/show"]);
    let learned = stations.lines().nth(1).expect("a station");
    assert!(
        learned.starts_with("    1     0  02:00:00:00:00:09 "),
        "{stations}"
    );
    assert_eq!(run.ok(&["dpctl/dump-conntrack"]), "");
    let repairs = run.ok(&["thalweg/repairs"]);
    assert!(repairs.starts_with("version "), "{repairs}");
}

#[test]
fn entries_are_shown_with_the_reason_of_each_bit_and_drops_with_a_packet() {
    let run = Run::start();
    let flows = run.ok(&["dpctl/dump-flows", "--names"]);
    assert_eq!(flows.lines().count(), 3, "{flows}");
    assert!(flows.contains("in_port(in)"), "{flows}");
    let dropping = "eth(dst=02:00:00:00:00:01), packets:4, bytes:240,";
    assert!(flows.contains(dropping), "{flows}");
    let filtered = ["caches", "filter=dl_dst=02:00:00:00:00:01"];
    let entries = run.ok(&filtered);
    assert!(
        entries.starts_with("microflows: 2\nmegaflows: 2, under "),
        "{entries}"
    );
    assert_eq!(entries.matches("recirc_id(0)").count(), 1, "{entries}");
    let reasons = "\n  bridge br0, table 0: table=0,priority=7,dl_dst=02:00:00:00:00:01,actions=drop\n  \
                   Why its mask has\n    eth_dst=02:00:00:00:00:01\n        0. lookup: ";
    assert!(entries.contains(reasons), "{entries}");
    assert!(
        run.ok(&["caches", "limit=1"])
            .ends_with("\n1 more; name some by filter=, or raise limit=\n")
    );
    let drops = run.ok(&["thalweg/why-drop"]);
    let mut lines = drops.lines();
    let count = lines.next().expect("a reason");
    assert_eq!(
        count.split_whitespace().collect::<Vec<_>>(),
        ["action", "5"]
    );
    let sample = lines.next().expect("a packet");
    let (times, packet) = sample.split_once(" ago, such as ").expect("a packet");
    assert!(times.starts_with("    5 packets, the last "), "{drops}");
    assert!(
        lines.next().expect("a rule").contains("priority=7,dl_dst"),
        "{drops}"
    );
    // The packet can be asked about as it is.
    let traced = run.ok(&["ofproto/trace", packet]);
    assert!(
        traced.contains("dl_dst=02:00:00:00:00:01, priority 7"),
        "{traced}"
    );
    assert!(traced.ends_with("\nDatapath actions: drop\n"), "{traced}");
    let flow = "in_port=1,dl_dst=02:00:00:00:00:01";
    let why = run.ok(&["thalweg/why-drop", "br0", flow]);
    assert!(why.ends_with("The packet is dropped: action.\n"), "{why}");
    let explained = run.ok(&["thalweg/explain", "br0", flow]);
    assert!(explained.contains("\nWhat would touch it\n"), "{explained}");
}

#[test]
fn rules_change_as_one_version_or_not_at_all() {
    let run = Run::start();
    let version = |text: &str| -> u64 {
        let (_, rest) = text.split_once("version ").expect("a version");
        let digits = rest.split(|letter: char| !letter.is_ascii_digit());
        digits
            .into_iter()
            .find_map(|word| word.parse().ok())
            .expect("a number")
    };
    // The entry that dropped is repaired.
    let opened = run.ok(&[
        "rules/add",
        "priority=8,dl_dst=02:00:00:00:00:01,actions=output:2",
    ]);
    assert!(opened.ends_with(", 1 entry affected\n"), "{opened}");
    let two = [
        "rules/add",
        "table=1,arp,actions=out",
        "table=1,udp,actions=drop",
    ];
    let added = run.ok(&two);
    assert!(added.contains(": 2 rules added, 0 removed, "), "{added}");
    let before = version(
        &run.ok(&["thalweg/repairs"])
            .replace("version  ", "version "),
    );
    // The second is wrong, so the first is not there either.
    let wrong = run.refused(&["rules/add", "table=1,tcp,actions=1", "actions=nowhere"]);
    assert!(wrong.contains("actions=nowhere: "), "{wrong}");
    let full = run.refused(&["rules/add", "table=1,tcp,actions=1", "actions=group:9"]);
    assert!(full.contains("group 9 does not exist"), "{full}");
    assert!(!run.ok(&["rules"]).contains("tcp"));
    let after = version(
        &run.ok(&["thalweg/repairs"])
            .replace("version  ", "version "),
    );
    assert_eq!(after, before);
    let removed = run.ok(&["rules/del", "table=1,arp"]);
    assert!(
        removed.contains(": 0 rules added, 1 removed, "),
        "{removed}"
    );
    let none = run.ok(&["rules/del", "--strict", "table=1,udp,priority=1"]);
    assert!(none.contains(", 0 removed, "), "{none}");
    let other = ["rules/change", "delete table=1", "add table=2,actions=drop"];
    let both = run.ok(&other);
    assert!(both.contains(": 1 rule added, 1 removed, "), "{both}");
    let statistics = run.statistics();
    let keys = [
        "position",
        "time_to_update_us",
        "affected",
        "added",
        "removed",
    ];
    for change in statistics["changes"].as_array().expect("a list") {
        assert!(keys.iter().all(|key| change[key].is_number()), "{change}");
    }
    // The files have the last word.
    let again = run.ok(&["reload"]);
    assert!(
        again.starts_with("reloaded 2 rules: 0 added, 2 removed"),
        "{again}"
    );
    std::fs::write(run.folder.path().join("r.rules"), "acti").expect("it is written");
    let stays = run.refused(&["reload"]);
    assert!(stays.contains("the rules stay as they were"), "{stays}");
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let run = Run::start();
    for (words, part) in [
        (&["nothing"][..], "\"nothing\" is not a valid command"),
        (&["rules", "x"], "takes at most 0 arguments"),
        (&["statistics", "-x"], "-x: only --json"),
        (
            &["fdb/show", "br1"],
            "br1: no such bridge; the switch is called br0",
        ),
        (&["caches", "limit=x"], "limit= takes a number"),
        (&["dpctl/dump-flows", "dp"], "dp: there is no such datapath"),
        (
            &["dpctl/dump-conntrack", "dp"],
            "dp: there is no such datapath",
        ),
        (&["port/add", "0", "eth0"], "from 1 to 65279"),
        (&["port/add", "2", "eth0"], "there is already port 2 (out)"),
        (
            &["port/add", "3", "eth0", "5"],
            "does not begin with a digit",
        ),
        (&["rules/del", "--strict"], "name the rules"),
        (&["port/add", "3", "none9"], "there is no interface `none9`"),
        (&["port/del", "9"], "9: there is no such port"),
    ] {
        let said = run.refused(words);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    assert_eq!(run.ok(&["port/del", "out"]), "");
    assert_eq!(run.statistics()["ports_detached"], 1);
}

/// What `thalweg ctl` says with options, where daemons have their files in a folder.
fn ctl_in(folder: &Path, words: &[&str]) -> Said {
    let mut client = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    client.arg("ctl").args(words).env("OVS_RUNDIR", folder);
    Said::of(&client.output().expect("it is there"))
}

#[test]
fn without_a_target_the_daemon_of_the_pidfile_is_asked() {
    let run = Run::start();
    let folder = run.folder.path();
    let pid = run.program.id();
    std::fs::write(folder.join("ovs-vswitchd.pid"), format!("{pid}\n")).expect("it is written");
    let named = folder.join(format!("ovs-vswitchd.{pid}.ctl"));
    std::os::unix::fs::symlink("run.ctl", &named).expect("it is made");
    let said = ctl_in(folder, &["version"]);
    assert_eq!((said.status, &*said.errors), (Some(0), ""));
    assert_eq!(said.output, run.ok(&["version"]));
}

#[test]
fn without_a_switch_the_status_is_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let fails = |words: &[&str], part: &str| {
        let said = ctl_in(folder, words);
        assert_eq!((said.status, &*said.output), (Some(1), ""), "{words:?}");
        assert!(said.errors.contains(part), "{words:?}: {}", said.errors);
    };
    let socket = "is the switch running, and is this its socket?";
    fails(&["--target", "/nonexistent/ctl", "version"], socket);
    fails(&["--target", "4294967295", "version"], "no control socket");
    fails(&["version"], "no daemon has a pidfile");
    std::fs::write(folder.join("ovs-vswitchd.pid"), "4711\n").expect("it is written");
    fails(&["version"], "ovs-vswitchd.4711.ctl");
    // One that takes requests, and answers none in time.
    let busy = folder.join("busy.ctl");
    let _listener = UnixListener::bind(&busy).expect("it is bound");
    let busy = busy.to_str().expect("a text");
    fails(
        &["--target", busy, "--timeout", "1", "version"],
        "--timeout",
    );
}

/// Asks until the socket has no room; returns the number of requests.
fn ask_all_it_takes(stream: &mut UnixStream) -> usize {
    let request = b"{\"id\":0,\"method\":\"list-commands\",\"params\":[]}";
    for count in 0.. {
        match stream.write(request) {
            Ok(written) => assert_eq!(written, request.len(), "a short request is kept whole"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return count;
            }
        }
    }
    unreachable!("the numbers do not end")
}

#[test]
fn a_client_that_reads_nothing_or_talks_nonsense_holds_up_nobody() {
    let run = Run::start();
    let mut stuck = UnixStream::connect(run.socket()).expect("it listens");
    stuck.set_nonblocking(true).expect("it is set");
    let deadline = Instant::now() + TIMEOUT;
    // Until the switch, which has had its turn, has taken nothing more: it cannot write answers.
    while ask_all_it_takes(&mut stuck) > 0 {
        assert!(Instant::now() < deadline, "it takes requests without end");
        assert_eq!(run.statistics()["packets"], PACKETS);
    }
    let mut nonsense = UnixStream::connect(run.socket()).expect("it listens");
    nonsense.write_all(b"}{").expect("it is read");
    assert_eq!(nonsense.read(&mut [0]).expect("it is closed"), 0);
    let silent: Vec<UnixStream> = (0..100)
        .map(|_| UnixStream::connect(run.socket()).expect("it listens"))
        .collect();
    assert_eq!(run.statistics()["packets"], PACKETS);
    drop(silent);
}

#[test]
fn exit_ends_the_run_as_a_signal_does() {
    let run = Run::start();
    let pid = run.program.id().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["--json", "ctl", "--target", &pid, "version"])
        .output()
        .expect("it is there");
    let said: Value = serde_json::from_slice(&output.stdout).expect("it is one object");
    assert_eq!(said["command"], "version");
    assert!(
        said["result"]
            .as_str()
            .expect("a text")
            .starts_with("thalweg ")
    );
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["--json", "ctl", "--target", &pid, "statistics"])
        .output()
        .expect("it is there");
    let now: Value = serde_json::from_slice(&output.stdout).expect("it is one object");
    assert_eq!(run.ok(&["exit"]), "");
    assert!(!run.socket().exists());
    let Ended { status, output, .. } = run.program.wait();
    assert_eq!(status, Some(0));
    let last: Value = serde_json::from_str(&output).expect("it is one object");
    let keys = |value: &Value| -> Vec<String> {
        let keys = value.as_object().expect("an object").keys();
        keys.cloned().collect()
    };
    assert_eq!(keys(&now), keys(&last));
    assert_eq!(now["drops"], last["drops"]);
}

#[test]
fn a_signal_removes_the_socket_too() {
    let run = Run::start();
    let socket = run.socket();
    assert_eq!(run.program.end(Signal::TERM).status, Some(0));
    assert!(!socket.exists());
}

#[test]
fn the_log_has_levels_modules_and_a_file_that_may_be_moved() {
    let run = Run::start_with(|folder| {
        let file = folder.join("run.log").display().to_string();
        vec![
            "--log=info,control=debug".to_owned(),
            format!("--log-file={file}"),
        ]
    });
    let path = run.folder.path().join("run.log");
    let lines = || -> Vec<String> {
        let text = std::fs::read_to_string(&path).expect("it is there");
        text.lines().map(str::to_owned).collect()
    };
    let ready = lines().into_iter().find(|line| line.contains(" ready "));
    let first = ready.expect("it is logged");
    let words: Vec<&str> = first.splitn(5, ' ').collect();
    let [program, time, level, module, text] = words[..] else {
        panic!("{first}");
    };
    assert_eq!([program, level, module], ["thalweg:", "INFO", "run:"]);
    assert!(time.starts_with("20") && time.ends_with('Z'), "{first}");
    assert!(text.starts_with("ready br0 with 2 ports"), "{first}");
    run.ok(&["fdb/flush", "br0"]);
    let asked = r#" DEBUG control: fdb/flush["br0"]"#;
    assert!(
        lines().iter().any(|line| line.ends_with(asked)),
        "{:?}",
        lines()
    );
    assert_eq!(run.ok(&["log/show"]), "control=debug,info\n");
    assert!(
        run.refused(&["log/set", "wran"])
            .contains("wran: give a level")
    );
    run.ok(&["log/set", "warn"]);
    assert_eq!(run.ok(&["log/show"]), "warn\n");
    let before = lines();
    run.ok(&["rules/add", "priority=3,actions=drop"]);
    assert_eq!(lines(), before);
    run.ok(&["log/set", "info"]);
    std::fs::rename(&path, run.folder.path().join("old.log")).expect("it is moved");
    run.ok(&["log/reopen"]);
    run.ok(&["rules/del", "--strict", "priority=3"]);
    run.ok(&["reload"]);
    let parts = [
        " INFO control: version ",
        " INFO reload: reloaded 2 rules: 0 added, 0 removed",
    ];
    let after = lines();
    assert_eq!(after.len(), parts.len(), "{after:?}");
    for (line, part) in after.iter().zip(parts) {
        assert!(line.contains(part), "{line}");
    }
    let wrong = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(["run", "--log=wran", "none.toml"])
        .output()
        .expect("it is there");
    assert_eq!(wrong.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(errors.contains("--log wran: give a level"), "{errors}");
}

/// Open vSwitch's own client gets what `thalweg ctl` gets.
#[cfg(feature = "privileged-tests")]
#[test]
fn ovs_appctl_is_answered_the_same() {
    let run = Run::start();
    let appctl = |words: &[&str]| {
        let mut client = Command::new("ovs-appctl");
        client.arg("-t").arg(run.socket()).args(words);
        client.output().expect("it is installed")
    };
    for words in [
        &["version"][..],
        &["list-commands"],
        &["fdb/stats-show", "br0"],
        &["ofproto/trace", "br0", "in_port=1,dl_dst=02:00:00:00:00:01"],
        &["thalweg/learning"],
    ] {
        let output = appctl(words);
        assert!(output.status.success(), "{words:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // Both end their last line.
        assert_eq!(said.trim_end(), run.ok(words).trim_end(), "{words:?}");
    }
    let refused = appctl(&["fdb/show", "br1"]);
    assert_eq!(refused.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.starts_with("br1: no such bridge"), "{errors}");
}

/// On a machine of its own, whose journal is a socket of the test.
#[cfg(feature = "privileged-tests")]
#[test]
fn the_log_goes_to_the_journal_if_there_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("journal")).expect("it is new");
    let journal = std::os::unix::net::UnixDatagram::bind(path("journal/socket"));
    let journal = journal.expect("it is bound");
    journal.set_read_timeout(Some(TIMEOUT)).expect("it is set");
    std::fs::write(path("r.rules"), RULES).expect("it is written");
    let config = "[switch]\nname = \"br0\"\nrules = [\"r.rules\"]\n\
                  [[port]]\nnumber = 1\nkind = \"memory\"\n";
    std::fs::write(path("br0.toml"), config).expect("it is written");
    let run = |mounts: &str| {
        let script = format!(
            "mount -t tmpfs none /run; {mounts} exec \"$PROGRAM\" run --log-journal br0.toml"
        );
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-ec", &script]);
        shell.env("PROGRAM", env!("CARGO_BIN_EXE_thalweg"));
        shell.current_dir(folder.path());
        shell.stdout(std::process::Stdio::null());
        shell.stderr(std::process::Stdio::piped());
        shell.spawn().expect("unshare is installed")
    };
    let mut there =
        run("mkdir -p /run/systemd/journal; mount --bind journal /run/systemd/journal;");
    let mut entry = [0; 4_096];
    let has = |entry: &[u8], text: &str| {
        let mut places = entry.windows(text.len());
        places.any(|place| place == text.as_bytes())
    };
    loop {
        let length = journal.recv(&mut entry).expect("it logs");
        let entry = &entry[..length];
        if entry.is_empty() {
            // The layer looks whether the journal is there.
            continue;
        }
        assert!(has(entry, "SYSLOG_IDENTIFIER") && has(entry, "PRIORITY"));
        if has(entry, "ready br0 with 1 port") {
            assert!(has(entry, "TARGET"));
            break;
        }
    }
    there.kill().expect("it runs");
    let output = there.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let absent = run("").wait_with_output().expect("it ends");
    assert_eq!(absent.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(
        errors.contains("--log-journal: no journal listens"),
        "{errors}"
    );
}
