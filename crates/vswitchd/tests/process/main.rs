//! A daemon that does nothing is started, asked and ended as scripts and Open vSwitch's programs
//! do it. Needs Open vSwitch's programs, no privileges.
//!
//! This program is both: the tests, and with [`AS_DAEMON`] in the environment the daemon.

mod daemon;
mod fixture;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::fixture::{AS_DAEMON, Fixture, Running, Said, wait_until};

/// The usual arguments, as Open vSwitch's tests give them.
const USUAL: [&str; 5] = [
    "--detach",
    "--no-chdir",
    "--pidfile",
    "--log-file",
    "-vunixctl",
];
const APPCTL: [&str; 2] = ["-t", "ovs-vswitchd"];

fn main() -> ExitCode {
    if std::env::var_os(AS_DAEMON).is_some() {
        return daemon::run();
    }
    type Test = (&'static str, fn());
    let tests: [Test; 17] = [
        ("it_goes_into_the_background", it_goes_into_the_background),
        ("it_stays_in_the_foreground", it_stays_in_the_foreground),
        ("modules_are_those_of_debian", modules_are_those_of_debian),
        ("one_daemon_runs_at_a_time", one_daemon_runs_at_a_time),
        ("real_one_keeps_it_out", real_one_keeps_it_out),
        ("of_many_one_goes_on", of_many_one_goes_on),
        (
            "debians_scripts_start_and_stop_it",
            debians_scripts_start_and_stop_it,
        ),
        ("a_pidfile_can_be_taken_over", a_pidfile_can_be_taken_over),
        ("signals_end_it", signals_end_it),
        (
            "a_second_signal_ends_it_at_once",
            a_second_signal_ends_it_at_once,
        ),
        (
            "what_nohup_ignored_stays_ignored",
            what_nohup_ignored_stays_ignored,
        ),
        ("the_log_rotates", the_log_rotates),
        ("failures_reach_the_user", failures_reach_the_user),
        ("the_monitor_starts_it_again", the_monitor_starts_it_again),
        (
            "what_ends_early_ends_its_monitor",
            what_ends_early_ends_its_monitor,
        ),
        (
            "the_control_socket_has_a_path",
            the_control_socket_has_a_path,
        ),
        ("it_runs_as_another_user", it_runs_as_another_user),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// What `ovs-appctl` prints for a command to the daemon that the pidfile names.
fn ask(fixture: &Fixture, command: &[&str]) -> String {
    let said = fixture.tool("ovs-appctl", &[&APPCTL, command].concat());
    assert_eq!((&*said.errors, said.code()), ("", Some(0)), "{command:?}");
    said.output
}

fn exit(fixture: &Fixture) {
    let pid = fixture.pid();
    assert_eq!(ask(fixture, &["exit"]), "");
    wait_until("it ends", || !fixture::is_running(pid));
}

fn it_goes_into_the_background() {
    let fixture = Fixture::new();
    let said = fixture.daemon(&USUAL);
    let log = fixture.path("ovs-vswitchd.log");
    let opened = format!("|00001|vlog|INFO|opened log file {}\n", log.display());
    assert_eq!((&*said.output, said.code()), ("", Some(0)));
    // Everything that is logged before it is ready is shown, and nothing else.
    assert_eq!(&said.errors[20..], opened);
    let pid = fixture.pid();
    let process = |name: &str| format!("/proc/{pid}/{name}");
    let link = |name: &str| std::fs::read_link(process(name)).expect("it runs");
    for standard in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(standard), Path::new("/dev/null"), "{standard}");
    }
    assert_eq!(link("cwd"), fixture.folder());
    let status = std::fs::read_to_string(process("stat")).expect("it runs");
    let fields: Vec<&str> = status.split_whitespace().collect();
    // Its name and its session, proc_pid_stat(5).
    assert_eq!(
        (fields[1], fields[5]),
        ("(ovs-vswitchd)", &*pid.to_string())
    );
    assert!(fixture.path(&format!("ovs-vswitchd.{pid}.ctl")).exists());
    assert!(ask(&fixture, &["version"]).starts_with("ovs-vswitchd (Open vSwitch) 3.1.0\n"));
    assert!(ask(&fixture, &["list-commands"]).contains("  exit                    [--cleanup]\n"));
    ask(&fixture, &["vlog/list"]);
    assert!(
        fixture
            .log()
            .contains("|unixctl|DBG|received request vlog/list[], id=0")
    );
    exit(&fixture);
    assert_eq!(fixture.files(), ["ovs-vswitchd.log"]);
    // Without --no-chdir, it leaves the directory.
    fixture.daemon(&["--detach", "--pidfile", "--log-file=other.log"]);
    let left = std::fs::read_link(format!("/proc/{}/cwd", fixture.pid()));
    assert_eq!(left.expect("it runs"), Path::new("/"));
    std::fs::remove_file(fixture.path("other.log")).expect("it is there");
    ask(&fixture, &["vlog/reopen"]);
    assert!(fixture.path("other.log").exists());
    exit(&fixture);
}

fn it_stays_in_the_foreground() {
    let fixture = Fixture::new();
    let running = fixture.spawn(&["--pidfile", "-vconsole:info"]);
    fixture.wait_ready();
    assert_eq!(fixture.pid(), running.pid());
    ask(&fixture, &["log", "shown"]);
    ask(&fixture, &["exit", "--cleanup"]);
    let said = running.wait();
    assert_eq!(said.code(), Some(0));
    assert!(
        said.errors.ends_with("|vswitchd|INFO|shown\n"),
        "{}",
        said.errors
    );
    assert!(fixture.files().is_empty());
}

fn modules_are_those_of_debian() {
    let list = |start: &dyn Fn(&Fixture)| {
        let fixture = Fixture::new();
        start(&fixture);
        let list = ask(&fixture, &["vlog/list"]);
        exit(&fixture);
        list
    };
    let own = list(&|fixture| {
        fixture.daemon(&USUAL);
    });
    let real = list(&|fixture| {
        // It is ready when it has a database, so it does not go into the background.
        let arguments = ["--enable-dummy", "--pidfile", "-vunixctl"];
        fixture.spawn_real(&arguments).leave();
        fixture.wait_ready();
        ask(fixture, &["vlog/set", "console:off"]);
    });
    // The other levels are those that both command lines set.
    assert_eq!(own, real);
}

/// What a daemon says that finds another, without its number.
fn refusal(fixture: &Fixture, said: &Said) -> String {
    assert_eq!(said.code(), Some(1));
    let (_, line) = said.errors.split_once("ovs-vswitchd: ").expect("a message");
    line.replace(&fixture.pid().to_string(), "PID")
}

fn one_daemon_runs_at_a_time() {
    let fixture = Fixture::new();
    fixture.daemon(&USUAL);
    let pidfile = fixture.path("ovs-vswitchd.pid");
    let text = format!(
        "{}: already running as pid PID, aborting\n",
        pidfile.display()
    );
    for arguments in [
        &["--pidfile"][..],
        &USUAL,
        &["--pidfile", "--detach", "--monitor"],
    ] {
        let second = fixture.daemon(arguments);
        assert_eq!(refusal(&fixture, &second), text, "{arguments:?}");
    }
    // Open vSwitch's own daemon sees the lock.
    let real = fixture.spawn_real(&["--pidfile"]).wait();
    assert_eq!(refusal(&fixture, &real), text);
    let emergency = "|00002|daemon_unix|EMER|";
    assert!(fixture.log().contains(emergency));
    exit(&fixture);
    fixture.daemon(&USUAL);
    exit(&fixture);
}

fn real_one_keeps_it_out() {
    let fixture = Fixture::new();
    let real = fixture.spawn_real(&["--enable-dummy", "--pidfile", "-vconsole:off"]);
    fixture.wait_ready();
    let own = fixture.daemon(&USUAL);
    let second = fixture.spawn_real(&["--pidfile"]).wait();
    assert_eq!(refusal(&fixture, &own), refusal(&fixture, &second));
    // Killed, it leaves its pidfile behind, which keeps nothing out.
    real.kill("KILL");
    real.wait();
    assert!(fixture.path("ovs-vswitchd.pid").exists());
    assert_eq!(fixture.daemon(&USUAL).code(), Some(0));
    exit(&fixture);
}

fn of_many_one_goes_on() {
    let fixture = Fixture::new();
    // One that was left behind makes the start longer.
    std::fs::write(fixture.path("ovs-vswitchd.pid"), "1\n").expect("it is written");
    let running: Vec<Running> = (0..12).map(|_| fixture.spawn(&USUAL)).collect();
    let codes: Vec<Option<i32>> = running.into_iter().map(|one| one.wait().code()).collect();
    let count = |code| codes.iter().filter(|one| **one == Some(code)).count();
    assert_eq!((count(0), count(1)), (1, 11), "{codes:?}");
    exit(&fixture);
    assert_eq!(fixture.files(), ["ovs-vswitchd.log"]);
}

fn debians_scripts_start_and_stop_it() {
    let fixture = Fixture::new();
    let script = ". /usr/share/openvswitch/scripts/ovs-lib; DAEMON_CWD=$OVS_RUNDIR
        start_daemon 0 '' ovs-vswitchd || exit 3
        daemon_is_running ovs-vswitchd || exit 4
        daemon_status ovs-vswitchd; stop_daemon ovs-vswitchd";
    let said = fixture.script(script);
    assert_eq!(said.code(), Some(0), "{}{}", said.output, said.errors);
    let lines: Vec<&str> = said.output.lines().collect();
    let [started, running, ended] = lines[..] else {
        panic!("{lines:?}");
    };
    assert!(started.starts_with("Starting ovs-vswitchd"), "{started}");
    let pid = running.strip_prefix("ovs-vswitchd is running with pid ");
    let pid = pid.expect("it says so");
    assert!(
        ended.starts_with(&format!("Exiting ovs-vswitchd ({pid})")),
        "{ended}"
    );
    assert_eq!(fixture.read_pid(), None);
    // Debian has a monitor.
    let log = fixture.log();
    let last = log.lines().last().expect("a line");
    assert!(last.contains("|daemon_unix(monitor)|INFO|"), "{last}");
    assert!(last.ends_with("exit status 0, exiting"), "{last}");
}

fn a_pidfile_can_be_taken_over() {
    let fixture = Fixture::new();
    fixture.daemon(&USUAL);
    let first = fixture.pid();
    let second = fixture.daemon(&[&USUAL[..], &["--overwrite-pidfile"]].concat());
    assert_eq!(second.code(), Some(0));
    assert_ne!(fixture.pid(), first);
    // The first leaves the file of the second alone.
    let socket = fixture.path(&format!("ovs-vswitchd.{first}.ctl"));
    let target = socket.to_str().expect("it is text");
    fixture.tool("ovs-appctl", &["-t", target, "exit"]);
    wait_until("the first ends", || !fixture::is_running(first));
    exit(&fixture);
    assert_eq!(fixture.files(), ["ovs-vswitchd.log"]);
}

fn signals_end_it() {
    for (name, number, text) in [
        ("TERM", 15, "Terminated"),
        ("INT", 2, "Interrupt"),
        ("HUP", 1, "Hangup"),
        ("ALRM", 14, "Alarm clock"),
    ] {
        let fixture = Fixture::new();
        let running = fixture.spawn(&["--pidfile", "--log-file"]);
        fixture.wait_ready();
        running.kill(name);
        let said = running.wait();
        assert_eq!(said.status.signal(), Some(number));
        let line = format!("|fatal_signal|WARN|terminating with signal {number} ({text})\n");
        assert!(fixture.log().ends_with(&line), "{}", fixture.log());
        assert_eq!(fixture.files(), ["ovs-vswitchd.log"]);
    }
}

fn a_second_signal_ends_it_at_once() {
    let fixture = Fixture::new();
    let running = fixture.spawn(&["--pidfile", "--log-file", "-vunixctl"]);
    fixture.wait_ready();
    let socket = fixture.path(&format!("ovs-vswitchd.{}.ctl", running.pid()));
    let asked = fixture.stall(&socket);
    wait_until("it stalls", || {
        fixture.log().contains("received request stall")
    });
    running.kill("TERM");
    running.kill("INT");
    // Both may be there when the first is looked at.
    let signal = running.wait().status.signal();
    assert!(matches!(signal, Some(2 | 15)), "{signal:?}");
    assert_ne!(asked.wait().code(), Some(0));
    // The next daemon removes the files that are left.
    fixture.daemon(&USUAL);
    exit(&fixture);
    assert!(fixture.read_pid().is_none());
}

fn what_nohup_ignored_stays_ignored() {
    let fixture = Fixture::new();
    let running = fixture.spawn_ignoring("HUP", &["--pidfile"]);
    fixture.wait_ready();
    running.kill("HUP");
    assert!(ask(&fixture, &["version"]).contains("Thalweg"));
    running.kill("TERM");
    assert_eq!(running.wait().status.signal(), Some(15));
}

fn the_log_rotates() {
    let fixture = Fixture::new();
    fixture.daemon(&USUAL);
    ask(
        &fixture,
        &["vlog/set", "unixctl:info", "vswitchd:file:warn"],
    );
    ask(&fixture, &["log", "hidden"]);
    ask(&fixture, &["vlog/set", "vswitchd:file:info"]);
    ask(&fixture, &["log", "before"]);
    let (log, old) = (fixture.path("ovs-vswitchd.log"), fixture.path("old"));
    std::fs::rename(&log, &old).expect("it is there");
    ask(&fixture, &["vlog/reopen"]);
    ask(&fixture, &["log", "after"]);
    ask(&fixture, &["vlog/close"]);
    ask(&fixture, &["log", "nowhere"]);
    exit(&fixture);
    let texts = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("it is there");
        let last = |line: &str| line.rsplit('|').next().unwrap_or_default().to_owned();
        text.lines().map(last).collect()
    };
    assert_eq!(
        texts(&old)[texts(&old).len() - 2..],
        ["before", "closing log file"]
    );
    assert!(!texts(&old).contains(&"hidden".to_owned()));
    let opened = format!("opened log file {}", log.display());
    assert_eq!(texts(&log), [&*opened, "after"]);
}

fn failures_reach_the_user() {
    let fixture = Fixture::new();
    for more in [&[][..], &["--monitor"]] {
        let with = |last: &[&str]| {
            let usual = ["--detach", "--pidfile", "-vconsole:off"];
            fixture.daemon(&[&usual, more, last].concat())
        };
        let failed = with(&[daemon::FAILS]);
        assert_eq!((&*failed.errors, failed.code()), ("it fails\n", Some(3)));
        let crashed = with(&[daemon::CRASHES]);
        assert_eq!(crashed.code(), Some(1));
        let text = "the daemon ended before it was ready (killed (Aborted)";
        assert!(crashed.errors.contains(text), "{}", crashed.errors);
        let refused = with(&["--unixctl=nonexistent/unixctl"]);
        assert_eq!(refused.code(), Some(1));
        let text = "nonexistent/unixctl: could not initialize control socket (No such file";
        assert!(refused.errors.contains(text), "{}", refused.errors);
        let wrong = with(&["--bogus"]);
        let text = "ovs-vswitchd: unrecognized option '--bogus'\n";
        assert_eq!((&*wrong.errors, wrong.code()), (text, Some(1)));
    }
    // The crashed ones left pidfiles, which the next daemons removed.
    assert_eq!(fixture.read_pid(), None);
}

fn the_monitor_starts_it_again() {
    let fixture = Fixture::new();
    let said = fixture.daemon(&[&USUAL[..], &["--monitor"]].concat());
    assert_eq!(said.code(), Some(0));
    let first = fixture.pid();
    let monitor = fixture::parent(first);
    assert_eq!(fixture::name(monitor), "ovs-vswitchd");
    // A fault would do the same, but SEGV from outside is not one.
    fixture::kill(first, "ABRT");
    wait_until("another is there", || {
        fixture.read_pid().is_some_and(|pid| pid != first)
    });
    fixture.wait_ready();
    assert_eq!(fixture::parent(fixture.pid()), monitor);
    let lines = fixture.log();
    let text = format!("pid {first} died, killed (Aborted)");
    let line = lines.lines().find(|line| line.contains(&text));
    let line = line.expect("the monitor says so");
    assert!(
        line.contains("|daemon_unix(monitor)|ERR|1 crashes: "),
        "{line}"
    );
    assert!(line.ends_with(", restarting"), "{line}");
    // A daemon that ends well takes the monitor with it.
    fixture::kill(fixture.pid(), "TERM");
    wait_until("both end", || {
        fixture.read_pid().is_none() && !fixture::is_running(monitor)
    });
    let text = "(monitor)|INFO|pid ";
    let last = fixture.log();
    let last = last.lines().last().expect("a line");
    assert!(
        last.contains(text) && last.ends_with("killed (Terminated), exiting"),
        "{last}"
    );
}

fn what_ends_early_ends_its_monitor() {
    let fixture = Fixture::new();
    let waiting = fixture.spawn(&[&USUAL[..], &["--monitor", daemon::WAITS]].concat());
    fixture.wait_ready();
    assert!(fixture::is_running(waiting.pid()));
    ask(&fixture, &["ready"]);
    assert_eq!(waiting.wait().code(), Some(0));
    let first = fixture.pid();
    let monitor = fixture::parent(first);
    fixture::kill(first, "ABRT");
    wait_until("another is there", || {
        fixture.read_pid().is_some_and(|pid| pid != first)
    });
    fixture.wait_ready();
    // It is not ready, and must not be started once more.
    fixture::kill(fixture.pid(), "TERM");
    wait_until("both end", || {
        fixture.read_pid().is_none() && !fixture::is_running(monitor)
    });
    let log = fixture.log();
    let last = log.lines().last().expect("a line");
    assert!(last.ends_with("killed (Terminated), exiting"), "{last}");
}

fn the_control_socket_has_a_path() {
    let fixture = Fixture::new();
    fixture.daemon(&[&USUAL[..], &["--unixctl=other"]].concat());
    let target = fixture.path("other");
    let target = target.to_str().expect("it is text");
    let said = fixture.tool("ovs-appctl", &["-t", target, "exit"]);
    assert_eq!(said.code(), Some(0));
    wait_until("it ends", || fixture.read_pid().is_none());
    fixture.daemon(&[&USUAL[..], &["--unixctl=none"]].concat());
    assert_eq!(fixture.files(), ["ovs-vswitchd.log", "ovs-vswitchd.pid"]);
    fixture::kill(fixture.pid(), "TERM");
    wait_until("it ends", || fixture.read_pid().is_none());
}

fn it_runs_as_another_user() {
    let fixture = Fixture::new();
    let said = fixture.daemon(&[&USUAL[..], &["--user=nobody"]].concat());
    if !fixture::is_root() {
        let text = "ovs-vswitchd: only root can use --user option\n";
        assert!(said.errors.ends_with(text), "{}", said.errors);
        return;
    }
    assert_eq!(said.code(), Some(0), "{}", said.errors);
    let status = std::fs::read_to_string(format!("/proc/{}/status", fixture.pid()));
    let status = status.expect("it runs");
    let value = |name: &str| {
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name));
        line.expect("it is there")
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .to_owned()
    };
    // IPC_LOCK, NET_RAW, NET_ADMIN, NET_BROADCAST and NET_BIND_SERVICE, capabilities(7).
    let capabilities = ["CapEff:", "CapPrm:"].map(value);
    assert_eq!(capabilities, ["0000000000007c00"; 2]);
    assert_eq!(value("Uid:"), "65534");
    exit(&fixture);
}
