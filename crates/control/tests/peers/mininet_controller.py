"""mininet's networks on the daemon: its default switch, and controllers of others.

`mn` runs as it is. Its reference controller is Debian's `ovs-testcontroller`; the other is the
simple switch of os-ken. Called as `finsy_controller.py` is, by a Python that has os-ken.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from running_daemon import Daemon, call, prepare_folders

# os-ken as a program. One name that os-ken's web server
# uses is not in newer versions of eventlet; no web server runs here.
OS_KEN = """#!{python}
import sys
import eventlet.wsgi
eventlet.wsgi.ALREADY_HANDLED = None
from os_ken.cmd.manager import main
main(args=sys.argv[1:], prog="osken-manager")
"""
# How long a network may take, from its start to its end.
PATIENCE_S = 120


def ping_all(topology: str, hosts: int, controller: str) -> None:
    """Builds a network, pings from each host to each other, and takes it down."""
    words = ["mn", "--topo", topology, "--switch", "ovs", "--controller", controller]
    done = subprocess.run([*words, "--test", "pingall"], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    said = done.stdout + done.stderr
    pings = hosts * (hosts - 1)
    assert done.returncode == 0, said
    assert f"Results: 0% dropped ({pings}/{pings} received)" in said, said
    assert call("ovs-vsctl", "list-br") == "", "mininet removes its bridges"
    seconds = re.search(r"completed in ([\d.]+) seconds", said)
    print(f"mininet: {topology} under {controller}: {pings} pings, {seconds.group(1)} s")


def install_os_ken() -> None:
    """Makes `os-ken`, which mininet starts in place of Ryu, from which it comes."""
    program = Path("/run/bin/os-ken")
    program.parent.mkdir()
    program.write_text(OS_KEN.format(python=sys.executable))
    program.chmod(0o755)
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"


def main() -> None:
    prepare_folders()
    install_os_ken()
    with Daemon(sys.argv[1]) as daemon:
        ping_all("tree,depth=2", 4, "default")
        ping_all("tree,depth=3", 8, "default")
        for app in ("simple_switch", "simple_switch_13"):
            for topology, hosts in (("tree,depth=2", 4), ("tree,depth=3", 8)):
                ping_all(topology, hosts, f"ryu,os_ken.app.{app},command=os-ken")
        assert not daemon.complaints(), daemon.complaints()


main()
