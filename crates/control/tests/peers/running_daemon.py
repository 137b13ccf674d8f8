"""The daemon in ovs-vswitchd's place, with Debian's `ovsdb-server`, at the paths where everything
looks for them.

Needs namespaces of its own for the network, mounts and processes: `/run`, `/tmp` and `/var/log`
become empty folders, and what is left running ends with the namespace. (mininet, when it fails,
ends processes and removes files of `/tmp` by pattern.)
"""

import os
import select
import subprocess
from pathlib import Path

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
# Open vSwitch's programs look at the same variables.
RUN = Path(os.environ.get("OVS_RUNDIR", "/run/openvswitch"))
LOG = Path(os.environ.get("OVS_LOGDIR", "/var/log/openvswitch")) / "ovs-vswitchd.log"
# How long one command may take.
PATIENCE_S = 60


def call(*words: str) -> str:
    """Runs a command, which must succeed; returns what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def prepare_folders() -> None:
    """Makes the folders that a machine with Open vSwitch has, empty and for this namespace only."""
    for folder in ("/run", "/tmp", "/var/log"):
        call("mount", "-t", "tmpfs", "none", folder)
    for folder in ("/run/lock", RUN, LOG.parent, "/run/ovn", "/var/log/ovn"):
        Path(folder).mkdir()
    call("ip", "link", "set", "lo", "up")


class Daemon:
    """A database server and the daemon; `with` ends both, and looks how the daemon ends."""

    def __init__(self, program: str) -> None:
        database = str(RUN / "conf.db")
        call("ovsdb-tool", "create", database, SCHEMA)
        remote = f"--remote=punix:{RUN}/db.sock"
        call("ovsdb-server", "--detach", "--pidfile", "--log-file", remote, database)
        call("ovs-vsctl", "--no-wait", "init")
        # Under the name of what it replaces.
        name = RUN / "ovs-vswitchd"
        name.symlink_to(Path(program).resolve())
        call(str(name), "--detach", "--pidfile", "--log-file", "-vconsole:off")

    def __enter__(self) -> "Daemon":
        return self

    def log(self) -> list[str]:
        return LOG.read_text().splitlines()

    def complaints(self) -> list[str]:
        """What its log has of warnings and worse."""
        return [line for line in self.log() if any(f"|{level}|" in line for level in
                                                    ("WARN", "ERR", "EMER"))]

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            print("--- ovs-vswitchd.log", *self.log()[-40:], sep="\n")
            return
        pidfile = RUN / "ovs-vswitchd.pid"
        process = os.pidfd_open(int(pidfile.read_text()))
        call("ovs-appctl", "exit", "--cleanup")
        ended, _, _ = select.select([process], [], [], PATIENCE_S)
        os.close(process)
        assert ended and not pidfile.exists(), "the daemon does not end well"
        call("ovs-appctl", "-t", "ovsdb-server", "exit")
