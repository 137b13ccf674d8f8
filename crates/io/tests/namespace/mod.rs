//! Network namespaces that live as long as a value.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const NEEDED: &str = "this test needs root and iproute2, to make network namespaces: run `cargo \
                      xtask test` as root, or leave the feature `privileged-tests` off";

/// A network namespace with a unique name, removed when dropped.
pub(crate) struct Namespace {
    pub(crate) name: String,
}

impl Namespace {
    /// Creates a namespace in which nothing sends by itself (no IPv6).
    pub(crate) fn new(purpose: &str) -> Namespace {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("thalweg-{}-{number}-{purpose}", std::process::id());
        run(&["netns", "add", &name]);
        let namespace = Namespace { name };
        namespace.set_ipv6(false);
        namespace
    }

    pub(crate) fn set_ipv6(&self, is_on: bool) {
        let value = if is_on { "0" } else { "1" };
        self.enter(|| {
            for which in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                // A kernel without IPv6 lacks this file and is quiet anyway.
                let _ = std::fs::write(path, value);
            }
        });
    }

    /// Runs `ip` with these arguments inside, and returns its output.
    pub(crate) fn ip(&self, arguments: &[&str]) -> String {
        run(&[&["-n", &self.name], arguments].concat())
    }

    /// Starts a program inside, without its output.
    pub(crate) fn spawn(&self, program: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command.args(arguments).stdout(Stdio::null());
        command.spawn().expect(NEEDED)
    }

    /// Calls `action` on a thread inside.
    pub(crate) fn enter<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        let enter_and_call = || {
            let file = File::open(format!("/run/netns/{}", self.name)).expect(NEEDED);
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind).expect(NEEDED);
            action()
        };
        std::thread::scope(|scope| {
            let result = scope.spawn(enter_and_call).join();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// Two namespaces with a veth pair between them: `va` on the left, `vb` on the right, both up.
pub(crate) struct Cable {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
}

impl Cable {
    pub(crate) fn new(purpose: &str) -> Cable {
        let (left, right) = (Namespace::new(purpose), Namespace::new(purpose));
        left.ip(&[
            "link",
            "add",
            "va",
            "type",
            "veth",
            "peer",
            "name",
            "vb",
            "netns",
            &right.name,
        ]);
        left.ip(&["link", "set", "va", "up"]);
        right.ip(&["link", "set", "vb", "up"]);
        let cable = Cable { left, right };
        cable.wait_until_it_carries();
        cable
    }

    /// Waits until both ends have a queue: an interface that is up drops frames until then.
    fn wait_until_it_carries(&self) {
        for (namespace, interface) in [(&self.left, "va"), (&self.right, "vb")] {
            eventually("the interface has its queue", || {
                let shown = namespace.ip(&["link", "show", "dev", interface]);
                shown.contains("qdisc noqueue") && shown.contains("state UP")
            });
        }
    }

    /// As [`Cable::new`], with IPv6 on the left end.
    pub(crate) fn with_ipv6(purpose: &str) -> Cable {
        let cable = Cable::new(purpose);
        cable.left.ip(&["link", "set", "va", "down"]);
        cable.left.set_ipv6(true);
        cable.left.ip(&["link", "set", "va", "up"]);
        cable.wait_until_it_carries();
        cable
    }
}

/// Repeats `ask` until it returns true; panics after 20 seconds.
pub(crate) fn eventually(what: &str, mut ask: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ask() {
        assert!(start.elapsed() < Duration::from_secs(20), "in vain: {what}");
        std::thread::yield_now();
    }
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect(NEEDED);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`ip {}`: {errors}\n{NEEDED}",
        arguments.join(" ")
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
