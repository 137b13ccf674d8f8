//! A running switch, and `ovs-ofctl` that speaks with it.

// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::program::Program;

pub(crate) const VERSIONS: [&str; 6] = [
    "OpenFlow10",
    "OpenFlow11",
    "OpenFlow12",
    "OpenFlow13",
    "OpenFlow14",
    "OpenFlow15",
];

/// An IPv4 packet with UDP, from 10.0.0.1 to 10.0.0.2, of 59 bytes.
pub(crate) const PACKET: &str = "00010203040506070809aabb08004500001c00000000401166cf0a0000010a000002\
                      00010002000800004141414141414141414141414141414141";

/// A running switch with two ports that swallow what they get.
pub(crate) struct Switch {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) program: Program,
}

impl Switch {
    pub(crate) fn start(openflow: &str) -> Switch {
        Switch::with_ports(2, openflow)
    }

    pub(crate) fn with_ports(ports: u32, openflow: &str) -> Switch {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = (1..=ports).map(|number| {
            format!("[[port]]\nnumber = {number}\nname = \"p{number}\"\nkind = \"memory\"\n")
        });
        let ports: String = ports.collect();
        let text = format!("[switch]\nname = \"br0\"\n{ports}[openflow]\n{openflow}\n");
        std::fs::write(folder.path().join("br0.toml"), text).expect("it is written");
        let program = Program::start_json(&folder.path().join("br0.toml"));
        program.wait_for("ready");
        Switch { folder, program }
    }

    pub(crate) fn target(&self) -> String {
        format!("unix:{}", self.folder.path().join("br0.mgmt").display())
    }

    /// Runs a command of `ovs-ofctl` on the switch; output and errors in one.
    pub(crate) fn ask(
        &self,
        version: &str,
        command: &[&str],
        arguments: &[&str],
    ) -> (bool, String) {
        let mut program = ofctl(self.folder.path());
        program.args(["-O", version]).args(command);
        program.arg(self.target()).args(arguments);
        let output = program.output().expect("ovs-ofctl runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("it is text");
        (output.status.success(), text)
    }

    /// The same for a command that must succeed.
    pub(crate) fn ok(&self, version: &str, command: &[&str], arguments: &[&str]) -> String {
        let (is_done, text) = self.ask(version, command, arguments);
        assert!(is_done, "{version} {command:?} {arguments:?}: {text}");
        text
    }

    /// The error that a command must have.
    pub(crate) fn error(&self, version: &str, command: &[&str], arguments: &[&str]) -> String {
        let (is_done, text) = self.ask(version, command, arguments);
        assert!(
            !is_done || text.contains("OFPT_ERROR"),
            "{command:?} {arguments:?}: {text}"
        );
        let name = text.split("): ").nth(1).unwrap_or(&text);
        name.lines().next().unwrap_or_default().to_owned()
    }

    /// How many packets the port has sent.
    pub(crate) fn packets_sent_by(&self, port: &str) -> u64 {
        let ports = self.ok("OpenFlow13", &["dump-ports"], &[port]);
        let mut lines = ports.lines();
        let sent = lines.find_map(|line| line.trim().strip_prefix("tx pkts="));
        let sent = sent.and_then(|sent| sent.split(',').next());
        sent.expect("a count").parse().expect("a number")
    }

    /// The rules, sorted, without counts and the reply's first line.
    pub(crate) fn flows(&self, version: &str) -> Vec<String> {
        lines(&self.ok(version, &["--no-stats", "dump-flows"], &[]))
    }

    /// Waits until the rules are these.
    pub(crate) fn wait_for_flows(&self, expected: &[&str]) {
        let begun = Instant::now();
        loop {
            let flows = self.flows("OpenFlow13");
            if flows == expected {
                return;
            }
            let is_early = begun.elapsed() < Duration::from_secs(20);
            assert!(is_early, "{flows:?} is not {expected:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the ports from 2 on have sent these counts of packets.
    pub(crate) fn wait_for(&self, expected: &[u64], what: &str) {
        let begun = Instant::now();
        loop {
            let sent = sent(self);
            if sent == expected {
                return;
            }
            let is_late = begun.elapsed() > Duration::from_secs(20);
            assert!(!is_late, "{what}: {sent:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path.display().to_string()
    }

    pub(crate) fn stop(self) {
        assert_eq!(self.program.end(Signal::INT).status, Some(0));
    }
}

pub(crate) fn ofctl(folder: &Path) -> Command {
    let mut command = Command::new("ovs-ofctl");
    command.env("OVS_RUNDIR", folder).env("OVS_LOGDIR", folder);
    command.args(["--timeout", "20"]);
    command
}

pub(crate) fn lines(text: &str) -> Vec<String> {
    let entries = text.lines().filter(|line| !line.contains(" reply ("));
    let mut entries: Vec<String> = entries.map(|line| line.trim().to_owned()).collect();
    entries.sort();
    entries
}

/// `ovs-ofctl monitor` in the background; its output goes to a file.
pub(crate) struct Monitor {
    child: Child,
    file: std::path::PathBuf,
    control: std::path::PathBuf,
}

impl Monitor {
    pub(crate) fn start(switch: &Switch, version: &str) -> Monitor {
        let monitor = Monitor::open(switch, version, &["65534", "watch:"]);
        // The reply to the monitor's request says that it is listening.
        monitor.wait_for("FLOW_MONITOR");
        monitor
    }

    /// One that lets paused packets go on.
    pub(crate) fn resuming(switch: &Switch, version: &str) -> Monitor {
        let told = ["65534", "resume", "-vvconn:console:dbg"];
        let monitor = Monitor::open(switch, version, &told);
        // The answer to the barrier behind its settings.
        monitor.wait_for("OFPT_BARRIER_REPLY");
        monitor
    }

    pub(crate) fn open(switch: &Switch, version: &str, what: &[&str]) -> Monitor {
        let file = switch.folder.path().join(format!("monitor-{version}"));
        let control = switch.folder.path().join(format!("monitor-{version}.ctl"));
        let output = std::fs::File::create(&file).expect("a file");
        let errors = output.try_clone().expect("a second handle");
        let mut command = Command::new("ovs-ofctl");
        command.env("OVS_RUNDIR", switch.folder.path());
        command.arg(format!("--unixctl={}", control.display()));
        command.args(["-O", version, "monitor", &switch.target()]);
        command.args(what);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().expect("ovs-ofctl runs");
        Monitor {
            child,
            file,
            control,
        }
    }

    /// Sends a message, in hexadecimal digits, and waits until the switch has done it.
    pub(crate) fn send(&self, digits: &str) {
        for order in [&["ofctl/send", digits][..], &["ofctl/barrier"]] {
            let mut command = Command::new("ovs-appctl");
            command.arg("-t").arg(&self.control).args(order);
            let output = command.output().expect("ovs-appctl runs");
            assert!(output.status.success(), "{order:?}: {output:?}");
        }
    }

    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_for_count(text, 1)
    }

    pub(crate) fn wait_for_count(&self, text: &str, count: usize) -> String {
        let begun = Instant::now();
        loop {
            let told = std::fs::read_to_string(&self.file).unwrap_or_default();
            if told.matches(text).count() >= count {
                return told;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "no {text} ({count} times) in {told}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many packets each of the ports 2 to 10 has sent.
pub(crate) fn sent(switch: &Switch) -> Vec<u64> {
    let told = switch.ok("OpenFlow13", &["dump-ports"], &[]);
    let ports = told.lines().zip(told.lines().skip(1));
    let ports = ports.filter_map(|(port, sent)| {
        let number = port.trim().strip_prefix("port")?.split(':').next()?;
        let number: u32 = number.trim().parse().ok()?;
        let sent = sent.trim().strip_prefix("tx pkts=")?.split(',').next()?;
        Some((number, sent.parse().ok()?))
    });
    let mut ports: Vec<(u32, u64)> = ports.filter(|(number, _)| *number > 1).collect();
    ports.sort_unstable();
    ports.into_iter().map(|(_, sent)| sent).collect()
}
