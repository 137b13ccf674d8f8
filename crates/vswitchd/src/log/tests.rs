use std::os::unix::net::UnixDatagram;

use tempfile::TempDir;

use super::*;
use crate::options::SyslogMethod;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A log without console and system's log, and more arguments.
fn open(arguments: &[&str]) -> Log {
    let usual = ["-vconsole:off", "--syslog-method=null"];
    let all = usual.iter().chain(arguments).map(|text| text.into());
    Log::open(&DaemonOptions::parse(all).expect("it is right"))
}

fn open_in(folder: &TempDir, arguments: &[&str]) -> Log {
    let file = format!("--log-file={}", folder.path().join("log").display());
    open(&[&[&*file], arguments].concat())
}

/// What follows the time and the number in each line of a file, without the test's thread.
fn lines(folder: &TempDir, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("it is there");
    let thread = format!("({})", std::thread::current().name().unwrap_or_default());
    let rest = |line: &str| {
        let rest = line.splitn(3, '|').nth(2).unwrap_or_default();
        rest.replace(&thread, "")
    };
    text.lines().map(rest).collect()
}

fn command(log: &Log, command: &str, arguments: &[&str]) -> Result<String, String> {
    let request = ControlRequest {
        command: command.to_owned(),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
    };
    log.handle(&request).expect("it is one of the log")
}

fn say(log: &Log, text: &str) {
    log.write(modules::BRIDGE, LogLevel::Info, || text.to_owned());
}

fn opened(folder: &TempDir) -> String {
    let path = folder.path().join("log");
    format!("vlog|INFO|opened log file {}", path.display())
}

#[test]
fn a_line_has_time_number_module_level_and_text() {
    let folder = folder();
    let log = open_in(&folder, &[]);
    let threads = std::thread::Builder::new().name("handler1".to_owned());
    let other = log.clone();
    let thread = threads.spawn(move || {
        say(&other, "first");
        say(&other, "second\n");
    });
    thread.expect("it starts").join().expect("it ends");
    let text = std::fs::read_to_string(folder.path().join("log")).expect("it is there");
    let last: Vec<&str> = text.lines().skip(1).collect();
    for (line, rest) in last.iter().zip([
        "|00001|bridge(handler1)|INFO|first",
        "|00002|bridge(handler1)|INFO|second",
    ]) {
        let (time, found) = line.split_at(24);
        assert_eq!(found, rest);
        let form = "0000-00-00T00:00:00.000Z";
        let digits = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
        assert_eq!(time.chars().map(digits).collect::<String>(), form);
    }
    assert_eq!(last.len(), 2);
}

#[test]
fn texts_that_are_logged_nowhere_are_not_made() {
    let folder = folder();
    let log = open_in(&folder, &["-vbridge:file:err", "-vsyslog:off"]);
    log.write(modules::BRIDGE, LogLevel::Warning, || panic!("it is made"));
    assert!(!log.is_enabled(modules::BRIDGE, LogLevel::Warning));
    assert!(log.is_enabled(modules::BRIDGE, LogLevel::Error));
    assert!(log.is_enabled(modules::VCONN, LogLevel::Info));
    command(&log, "vlog/set", &["bridge:file:dbg"]).expect("it is right");
    assert!(log.is_enabled(modules::BRIDGE, LogLevel::Debug));
    // Without a file, its level does not count.
    command(&log, "vlog/close", &[]).expect("it is closed");
    assert!(!log.is_enabled(modules::BRIDGE, LogLevel::Error));
}

#[test]
fn the_file_is_opened_again_under_its_name() {
    let folder = folder();
    let log = open_in(&folder, &[]);
    let path = folder.path().join("log");
    say(&log, "1");
    // The same file: nothing happens.
    command(&log, "vlog/reopen", &[]).expect("it is opened");
    std::fs::rename(&path, folder.path().join("old")).expect("it is there");
    say(&log, "2");
    command(&log, "vlog/reopen", &[]).expect("it is opened");
    say(&log, "3");
    let old = lines(&folder, "old");
    let expected = [
        &opened(&folder),
        "bridge|INFO|1",
        "bridge|INFO|2",
        "vlog|INFO|closing log file",
    ];
    assert_eq!(old, expected);
    assert_eq!(lines(&folder, "log"), [&opened(&folder), "bridge|INFO|3"]);
}

#[test]
fn a_closed_file_gets_nothing_until_it_is_opened() {
    let folder = folder();
    let log = open_in(&folder, &[]);
    command(&log, "vlog/close", &[]).expect("it is closed");
    say(&log, "1");
    command(&log, "vlog/close", &[]).expect("it is closed already");
    command(&log, "vlog/reopen", &[]).expect("it is opened");
    say(&log, "2");
    let expected = [&opened(&folder), &opened(&folder), "bridge|INFO|2"];
    assert_eq!(lines(&folder, "log"), expected);
}

#[test]
fn what_cannot_be_opened_is_an_error_and_changes_nothing() {
    let none = command(&open(&[]), "vlog/reopen", &[]);
    assert_eq!(none, Err("Logging to file not configured".to_owned()));
    let folder = folder();
    let log = open_in(&folder, &[]);
    std::fs::rename(folder.path().join("log"), folder.path().join("old")).expect("it is there");
    std::fs::create_dir(folder.path().join("log")).expect("it is made");
    let refused = command(&log, "vlog/reopen", &[]);
    assert_eq!(refused, Err("Is a directory".to_owned()));
    say(&log, "1");
    let warning = format!(
        "vlog|WARN|failed to open {} for logging: Is a directory",
        folder.path().join("log").display()
    );
    let expected = [&opened(&folder), &warning, "bridge|INFO|1"];
    assert_eq!(lines(&folder, "old"), expected);
}

#[test]
fn a_kind_of_message_is_limited_unless_its_module_is_not() {
    static LIMIT: LogLimit = LogLimit::new(1, 2);
    let folder = folder();
    let log = open_in(&folder, &[]);
    let write = || {
        log.write_limited(&LIMIT, modules::DPIF, LogLevel::Warning, || "x".to_owned());
    };
    (0..5).for_each(|_| write());
    assert_eq!(lines(&folder, "log").len(), 1 + 2);
    command(&log, "vlog/disable-rate-limit", &["dpif"]).expect("it is right");
    (0..5).for_each(|_| write());
    assert_eq!(lines(&folder, "log").len(), 1 + 2 + 5);
}

#[test]
fn the_systems_log_gets_each_line_with_its_priority() {
    let folder = folder();
    let path = folder.path().join("socket");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let method = format!("--syslog-method=unix:{}", path.display());
    let arguments = ["-vconsole:off", &*method].map(Into::into);
    let log = Log::open(&DaemonOptions::parse(arguments).expect("it is right"));
    let mut buffer = vec![0; 1 << 20];
    let mut received = || {
        let count = socket.recv(&mut buffer).expect("a datagram");
        String::from_utf8(buffer[..count].to_vec()).expect("it is text")
    };
    log.write(modules::BRIDGE, LogLevel::Error, || "one\n\ntwo".to_owned());
    let line = received();
    // The facility is daemon, and the severity is error.
    let (start, rest) = line.split_once("|bridge(").expect("its module");
    assert!(start.starts_with("<27>ovs|0"), "{line}");
    assert!(rest.ends_with(")|ERR|one"), "{line}");
    assert_eq!(received(), "<27>two");
    command(&log, "vlog/set", &["FACILITY:local7"]).expect("it is right");
    say(&log, "three");
    assert!(received().starts_with("<189>ovs|"));
    // Too long for the socket: the begin of it arrives.
    say(&log, &"x".repeat(10 << 20));
    assert!(received().ends_with("xxx"));
    // A log that ends and starts again is found again, at the second line.
    drop(socket);
    say(&log, "lost");
    std::fs::remove_file(&path).expect("it is there");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    say(&log, "four");
    let count = socket.recv(&mut buffer).expect("a datagram");
    assert!(buffer[..count].ends_with(b"four"));
}

#[test]
fn methods_of_the_systems_log_are_read() {
    let parse = SyslogMethod::parse;
    assert_eq!(parse("null"), Ok(SyslogMethod::Null));
    assert_eq!(parse(""), Ok(SyslogMethod::Libc));
    assert_eq!(parse("unix:/a:b"), Ok(SyslogMethod::Unix("/a:b".into())));
    let udp = |text: &str| Ok(SyslogMethod::Udp(text.parse().expect("an address")));
    assert_eq!(parse("udp:127.0.0.1"), udp("127.0.0.1:514"));
    assert_eq!(parse("udp:127.0.0.1:5"), udp("127.0.0.1:5"));
    assert_eq!(parse("udp:[::1]"), udp("[::1]:514"));
    assert_eq!(parse("udp:[::1]:5"), udp("[::1]:5"));
    assert!(
        parse("udp:host")
            .unwrap_err()
            .starts_with("udp:host: an IP address")
    );
    assert!(parse("x").is_err());
}

#[test]
fn modules_stand_at_their_names() {
    let log = LogSettings::new(LogIdentity::default(), modules::NAMES);
    assert_eq!(log.module("backtrace"), Some(modules::BACKTRACE));
    assert_eq!(log.module("ofproto_dpif"), Some(modules::OFPROTO_DPIF));
    assert_eq!(log.module("vswitchd"), Some(modules::VSWITCHD));
    assert!(modules::NAMES.is_sorted());
}
