//! The real `ovs-appctl` asks this crate and a real server of Open vSwitch the same: both say
//! the same. Needs Open vSwitch's programs, no privileges.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thalweg_unixctl::{ControlCommand, ControlCommands, ControlConnection};
use thalweg_vswitchd::vlog::{
    LogDestination, LogIdentity, LogLevel, LogMoment, LogRecord, LogSettings, VLOG_COMMANDS,
};

/// A wait that ends in an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `ovs-appctl` says to a command: output, errors, and its exit code.
type Said = (String, String, Option<i32>);

fn appctl(socket: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new("ovs-appctl");
    command.args(["--timeout=20", "-t"]).arg(socket);
    let output = command.args(arguments).output();
    let output = output.expect("ovs-appctl is installed");
    let [said, errors] = [output.stdout, output.stderr].map(|bytes| {
        let text = String::from_utf8(bytes).expect("it is text");
        text.replace(&socket.display().to_string(), "SOCKET")
    });
    (said, errors, output.status.code())
}

/// The output of a command that must succeed.
fn output(socket: &Path, arguments: &[&str]) -> String {
    let (said, errors, code) = appctl(socket, arguments);
    assert_eq!((&*errors, code), ("", Some(0)), "{arguments:?}");
    said
}

/// A real server, of which the database is empty.
struct Real {
    folder: TempDir,
    child: Child,
}

impl Real {
    fn start() -> Real {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new("ovsdb-server")
            .args(["--no-chdir", "-vconsole:off", "--log-file=log"])
            .current_dir(folder.path())
            .env("OVS_RUNDIR", folder.path())
            .env("OVS_LOGDIR", folder.path())
            .env("OVS_SYSLOG_METHOD", "null")
            .env("TZ", "UTC0")
            .arg(format!("--unixctl={}", folder.path().join("ctl").display()))
            .arg(empty_database(folder.path()))
            .stderr(Stdio::null())
            .spawn();
        let child = child.expect("ovsdb-server is installed");
        let real = Real { folder, child };
        let begin = Instant::now();
        while UnixStream::connect(real.socket()).is_err() {
            assert!(begin.elapsed() < PATIENCE, "the server does not listen");
            std::thread::yield_now();
        }
        real
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("ctl")
    }

    /// What it wrote last of all; a message may have several lines.
    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log"));
        let log = log.expect("it has a log");
        let begin = log.rfind("\n17").or_else(|| log.rfind("\n18"));
        log[begin.expect("a line") + 1..]
            .trim_end_matches('\n')
            .to_owned()
    }

    /// The last line of its log.
    fn last_line(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log"));
        let log = log.expect("it has a log");
        log.lines().last().expect("a line").to_owned()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

fn empty_database(folder: &Path) -> PathBuf {
    let schema = folder.join("schema");
    let text =
        r#"{"name":"d","version":"1.0.0","tables":{"T":{"columns":{"c":{"type":"string"}}}}}"#;
    std::fs::write(&schema, text).expect("it is written");
    let database = folder.join("db");
    let mut command = Command::new("ovsdb-tool");
    let status = command.arg("create").arg(&database).arg(schema).status();
    assert!(status.expect("ovsdb-tool is installed").success());
    database
}

fn identity(pid: u32) -> LogIdentity {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("it has a name");
    LogIdentity {
        program: "ovsdb-server".to_owned(),
        host: host.trim().to_owned(),
        pid,
        syslog_prefix: String::new(),
    }
}

/// The modules of a server and their levels, as it lists them.
fn settings_of(real: &Real) -> LogSettings {
    let list = output(&real.socket(), &["vlog/list"]);
    let lines = list.lines().skip(2);
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let mut log = LogSettings::new(identity(real.child.id()), names);
    log.set("console:off").expect("it is right");
    log
}

/// Serves this crate's side on a socket, as long as the test runs.
fn serve(socket: &Path, mut log: LogSettings) {
    let listener = UnixListener::bind(socket).expect("a socket");
    let mut commands = ControlCommands::new("ovsdb-server (Open vSwitch) 3.1.0");
    commands.add(&VLOG_COMMANDS);
    commands.add(&[ControlCommand::new("one", "thing", 1, 1)]);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve_one(stream.expect("a connection"), &commands, &mut log);
        }
    });
}

fn serve_one(mut stream: UnixStream, commands: &ControlCommands, log: &mut LogSettings) {
    let mut connection = ControlConnection::default();
    let mut buffer = [0; 1000];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        connection.receive(&buffer[..count], Duration::ZERO);
        loop {
            let request = connection.next(commands);
            if let Some(request) = &request {
                let reply = log.handle(request);
                connection.reply(reply.unwrap_or_else(|| Ok("done".to_owned())));
            }
            let bytes = connection.take_output();
            if let Some(bytes) = &bytes {
                stream.write_all(bytes).expect("the client reads");
            }
            if request.is_none() && bytes.is_none() {
                break;
            }
        }
        if connection.end_reason().is_some() {
            return;
        }
    }
}

/// Numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        of[(self.0 >> 33) as usize % of.len()]
    }
}

/// Commands about the log, right and wrong ones.
fn random_command(numbers: &mut Numbers) -> Vec<String> {
    let words = [
        "any",
        "ANY",
        "console",
        "file",
        "Syslog",
        "dbg",
        "ERR",
        "warn",
        "info",
        "emer",
        "off",
        "unixctl",
        "Jsonrpc",
        "reconnect",
        "consol",
        "",
    ];
    let command = numbers.pick(&[
        "vlog/set",
        "vlog/set",
        "vlog/set",
        "vlog/set",
        "vlog/enable-rate-limit",
        "vlog/disable-rate-limit",
        "vlog/nothing",
        "vlog/list",
        "vlog/list-pattern",
    ]);
    let mut arguments = vec![command.to_owned()];
    for _ in 0..numbers.pick(&["", "1", "11"]).len() {
        let separator = numbers.pick(&[":", ",", " ", "::", "\t"]);
        let [first, second, third] = [(); 3].map(|()| numbers.pick(&words));
        arguments.push(
            match numbers.pick(&["", "1", "11", "111", "pattern", "facility"]) {
                "" => first.to_owned(),
                "1" => format!("{first}{separator}{second}"),
                "11" => format!("{first}{separator}{second}{separator}{third}"),
                "111" => format!("{separator}{first}{separator}"),
                "pattern" => format!("Pattern{separator}{first}{separator}%p%m {second}:%c"),
                _ => format!(
                    "FACILITY{separator}{}",
                    numbers.pick(&["daemon", "LOCAL7", "x", ""])
                ),
            },
        );
    }
    arguments
}

#[test]
fn commands_about_the_log_are_answered_as_a_real_server_answers_them() {
    let real = Real::start();
    let own = real.folder.path().join("own");
    serve(&own, settings_of(&real));
    let mut numbers = Numbers(31);
    let mut refused = 0;
    for _ in 0..150 {
        let command = random_command(&mut numbers);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let said = appctl(&real.socket(), &command);
        refused += usize::from(said.2 != Some(0));
        assert_eq!(appctl(&own, &command), said, "{command:?}");
        for list in ["vlog/list", "vlog/list-pattern"] {
            let said = output(&real.socket(), &[list]);
            assert_eq!(output(&own, &[list]), said, "after {command:?}");
        }
    }
    assert!((20..130).contains(&refused), "{refused}");
}

#[test]
fn what_cannot_be_carried_out_is_refused_as_a_real_server_refuses_it() {
    let real = Real::start();
    let own = real.folder.path().join("own");
    serve(&own, settings_of(&real));
    for command in [
        &["nothing"][..],
        &["version", "more"],
        &["list-commands", "more", "and more"],
        &["vlog/list", "more"],
        &["vlog/message"],
        &["echo"],
        &["version"],
    ] {
        assert_eq!(
            appctl(&own, command),
            appctl(&real.socket(), command),
            "{command:?}"
        );
    }
    let (_, errors, code) = appctl(&own, &["one"]);
    let text = "\"one\" command requires at least 1 arguments\n\
                ovs-appctl: SOCKET: server returned an error\n";
    assert_eq!((&*errors, code), (text, Some(2)));
    assert_eq!(output(&own, &["one", "x"]), "done\n");
    // The list has the same form, and of the log the same commands.
    let of_log = |list: String| -> Vec<String> {
        let lines = list
            .lines()
            .filter(|line| line.contains("vlog/") || !line.starts_with(' '));
        lines.map(str::to_owned).collect()
    };
    let listed = of_log(output(&own, &["list-commands"]));
    assert_eq!(listed, of_log(output(&real.socket(), &["list-commands"])));
    assert_eq!(listed.len(), 1 + VLOG_COMMANDS.len());
}

#[test]
fn lines_are_as_a_real_server_writes_them() {
    let real = Real::start();
    let socket = real.socket();
    let mut log = settings_of(&real);
    let unixctl = log.module("unixctl").expect("every server has it");
    for pattern in [
        "%c|%p|%m",
        "%A %B %E %P %t%T",
        "%-10c|%10p|%02p|%-60m|",
        "%0100m|%q|%%|%5%|",
        "%c{3}|%D{%%#}|%d{x##y####}x",
    ] {
        let spec = format!("PATTERN:file:{pattern}");
        output(&socket, &["vlog/set", &spec, "unixctl:file:dbg"]);
        log.set(&spec).expect("it is right");
        output(&socket, &["vlog/enable-rate-limit"]);
        let record = LogRecord {
            module: unixctl,
            level: LogLevel::Debug,
            thread: "",
            text: "replying with success, id=0: \"\"",
        };
        let own = log.line(LogDestination::File, &record, &LogMoment::default());
        // Digits of the time are not the same.
        let same = |line: &str| -> String {
            let is_time = pattern.contains('#');
            line.chars()
                .filter(|letter| !is_time || !letter.is_ascii_digit())
                .collect()
        };
        assert_eq!(same(&real.last_line()), same(&own), "{pattern}");
    }
}

/// Formats of times, one for each letter that strftime(3) has in the C locale.
const TIMES: [&str; 8] = [
    "%Y-%m-%d %H:%M:%S.### %T %F %R %s",
    "%a %A %b %B %h %e %j %y %C %u %w",
    "%U %W %V %G %g %I %p %P %k %l %M",
    "%D %c|%x|%X|%r|%n|%t|%%|#|##|####|#x#",
    "%z %h %e %T.###",
    "%Ey %Od",
    "%Q %",
    "%-d %_d %0e",
];

#[test]
fn times_are_as_a_real_server_writes_them() {
    let real = Real::start();
    let socket = real.socket();
    let mut log = settings_of(&real);
    let unixctl = log.module("unixctl").expect("every server has it");
    output(&socket, &["vlog/set", "unixctl:file:dbg"]);
    for format in TIMES {
        // The line says its own time.
        let spec = format!("PATTERN:file:%D{{%s ###}}|%D{{{format}}}|%d{{%z {format}}}");
        output(&socket, &["vlog/set", &spec]);
        log.set(&spec).expect("it is right");
        output(&socket, &["vlog/enable-rate-limit"]);
        let said = real.last_lines();
        let (time, _) = said.split_once('|').expect("it begins with the time");
        let (seconds, millis) = time.split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let moment = LogMoment {
            since_epoch: Duration::from_millis(number(seconds) * 1000 + number(millis)),
            ..LogMoment::default()
        };
        let record = LogRecord {
            module: unixctl,
            level: LogLevel::Debug,
            thread: "",
            text: "",
        };
        let own = log.line(LogDestination::File, &record, &moment);
        assert_eq!(own, said, "{format}");
    }
}
