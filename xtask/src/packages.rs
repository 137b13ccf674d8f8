//! The external programs that the privileged tests use, and how to install them.
//!
//! A test that needs a real client must not be skipped because the client is missing. So
//! clients are installed where that is possible (root, with apt); otherwise an error names
//! what to install.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::ci::succeeds;

/// A program that must be installed, and its Debian package.
struct Client {
    program: &'static str,
    package: &'static str,
}

const CLIENTS: [Client; 13] = [
    Client {
        program: "ovs-ofctl",
        package: "openvswitch-switch",
    },
    Client {
        program: "ovs-vswitchd",
        package: "openvswitch-switch",
    },
    Client {
        program: "ovs-testcontroller",
        package: "openvswitch-testcontroller",
    },
    Client {
        program: "mn",
        package: "mininet",
    },
    Client {
        program: "ovn-northd",
        package: "ovn-central",
    },
    Client {
        program: "ovn-controller",
        package: "ovn-host",
    },
    Client {
        program: "ip",
        package: "iproute2",
    },
    Client {
        program: "ping",
        package: "iputils-ping",
    },
    Client {
        program: "ethtool",
        package: "ethtool",
    },
    Client {
        program: "tcpdump",
        package: "tcpdump",
    },
    Client {
        program: "nc",
        package: "netcat-openbsd",
    },
    Client {
        program: "chromium",
        package: "chromium",
    },
    Client {
        program: "iperf3",
        package: "iperf3",
    },
];

/// Folders of system programs, including those that `PATH` may omit.
const FOLDERS: [&str; 6] = [
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
];

/// Ensures that every client is installed.
pub(crate) fn ensure_clients() -> anyhow::Result<()> {
    ensure(&|_| true)
}

/// Ensures that the programs of Open vSwitch are installed.
pub(crate) fn ensure_open_vswitch() -> anyhow::Result<()> {
    ensure(&|package| package == "openvswitch-switch")
}

/// Open vSwitch's tests, expanded, as Debian ships them.
pub(crate) const OPEN_VSWITCH_TESTS: &str = "/usr/src/openvswitch/openvswitch.tar.gz";
/// The packages of them and of a program that they use.
const TEST_PACKAGES: [&str; 2] = ["openvswitch-source", "openvswitch-testcontroller"];

/// Ensures that Open vSwitch's tests are installed.
pub(crate) fn ensure_open_vswitch_tests() -> anyhow::Result<()> {
    let is_there = || Path::new(OPEN_VSWITCH_TESTS).exists() && has_program("ovs-testcontroller");
    if is_there() {
        return Ok(());
    }
    let list = TEST_PACKAGES.join(" ");
    if !has_program("apt-get") || !is_root()? {
        bail!("this needs {list}; as root, run: apt-get install --no-install-recommends {list}");
    }
    eprintln!("installing {list}");
    apt_get(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(TEST_PACKAGES);
    apt_get(&arguments)?;
    if !is_there() {
        bail!("{list} did not bring {OPEN_VSWITCH_TESTS} and ovs-testcontroller");
    }
    Ok(())
}

/// Shows that Python can make environments and build extensions in them.
const PYTHON_CHECK: &str = "import ensurepip, os, sysconfig, venv\n\
    os.stat(os.path.join(sysconfig.get_path('include'), 'Python.h'))";

/// Ensures that Python is installed, can create environments, and can build extensions.
pub(crate) fn ensure_python() -> anyhow::Result<()> {
    let can = || {
        let mut command = Command::new("python3");
        command.args(["-c", PYTHON_CHECK]);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if can() {
        return Ok(());
    }
    if !has_program("apt-get") || !is_root()? {
        bail!("this needs Python; as root, run: apt-get install python3-venv python3-dev");
    }
    eprintln!("installing python3-venv and python3-dev");
    apt_get(&["update"])?;
    apt_get(&[
        "install",
        "--yes",
        "--no-install-recommends",
        "python3-venv",
        "python3-dev",
    ])?;
    if !can() {
        bail!("python3-venv and python3-dev did not bring a Python that can make environments");
    }
    Ok(())
}

/// Ensures that a folder is a Python environment with what pip installs for `requirements`.
pub(crate) fn ensure_environment(folder: &Path, requirements: &[&str]) -> anyhow::Result<()> {
    ensure_python()?;
    let mut command = Command::new("python3");
    command.args(["-m", "venv"]).arg(folder);
    if !succeeds(command)? {
        bail!("{} cannot be made; see above", folder.display());
    }
    let mut command = Command::new(folder.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check"]);
    command.args(requirements);
    let installed = succeeds(command).context("pip does not run")?;
    if !installed {
        let list = requirements.join(" ");
        bail!("pip did not install {list}; is the package index within reach?");
    }
    Ok(())
}

fn ensure(is_wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<()> {
    let missing_now = || {
        let mut missing = missing_packages(&has_program);
        missing.retain(|package| is_wanted(package));
        missing
    };
    let missing = missing_now();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let by_hand = format!("apt-get update && apt-get install --no-install-recommends {list}");
    if !has_program("apt-get") {
        bail!("this needs {list}, and there is no apt-get here: install their equivalents");
    }
    if !is_root()? {
        bail!("this needs {list}; as root, run: {by_hand}");
    }
    eprintln!("installing {list}");
    apt_get(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&missing);
    apt_get(&arguments)?;
    let still_missing = missing_now().join(" ");
    if !still_missing.is_empty() {
        bail!("{still_missing} did not bring the expected programs; try: {by_hand}");
    }
    Ok(())
}

fn missing_packages(has_program: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let absent = CLIENTS.iter().filter(|client| !has_program(client.program));
    let mut packages: Vec<&'static str> = absent.map(|client| client.package).collect();
    packages.dedup();
    packages
}

fn has_program(program: &str) -> bool {
    FOLDERS
        .iter()
        .any(|folder| Path::new(folder).join(program).exists())
}

/// Whether this process may install packages and open raw sockets.
pub(crate) fn is_root() -> anyhow::Result<bool> {
    let output = Command::new("id")
        .arg("-u")
        .output()
        .context("id does not run")?;
    Ok(output.stdout.trim_ascii() == b"0")
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("apt-get")
        .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("apt-get does not run")?;
    if !status.success() {
        bail!(
            "apt-get {} failed ({status}); see its messages above",
            arguments.join(" ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_package_is_named_once() {
        let missing = missing_packages(&|program| {
            !program.starts_with("ovs-v") && !program.starts_with("ovs-o") && program != "nc"
        });
        assert_eq!(missing, ["openvswitch-switch", "netcat-openbsd"]);
        assert!(missing_packages(&|_| true).is_empty());
    }
}
