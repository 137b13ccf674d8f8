"""Faucet as the OpenFlow controller of a running switch: VLANs, routing, an ACL, and its restart.

Four hosts, each in a network namespace, ping each other: first through `thalweg run`, then
through a bridge of the daemon in ovs-vswitchd's place. Called as `finsy_controller.py` is.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from running_daemon import Daemon, call, prepare_folders

FAUCET = """
vlans:
  office: {vid: 100, faucet_mac: "0e:00:00:00:10:01", faucet_vips: ["10.0.100.254/24"]}
  guest: {vid: 200, faucet_mac: "0e:00:00:00:20:01", faucet_vips: ["10.0.200.254/24"]}
routers:
  between: {vlans: [office, guest]}
acls:
  no_ping_to_host_2:
    - rule: {dl_type: 0x800, nw_proto: 1, nw_dst: "10.0.100.2/32", actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
dps:
  sw1:
    dp_id: 0x1
    hardware: "Open vSwitch"
    interfaces:
      1: {native_vlan: office}
      2: {native_vlan: office}
      3: {native_vlan: guest}
      4: {native_vlan: guest, acls_in: [no_ping_to_host_2]}
"""
SWITCH = """
[switch]
name = "br0"
[openflow]
datapath_id = "0000000000000001"
controllers = ["tcp:127.0.0.1:6653"]
max_backoff_us = "1s"
"""
PORT = '[[port]]\nnumber = {0}\nname = "p{0}"\nkind = "af_packet"\n'
ADDRESSES = {1: "10.0.100.1", 2: "10.0.100.2", 3: "10.0.200.3", 4: "10.0.200.4"}
# The ACL stops host 4's packets to host 2, and so its answers to host 2, too.
CUT_OFF = {(2, 4), (4, 2)}
# How long Faucet may take to start, to connect, and to find hosts.
PATIENCE_S = 60


class Host:
    """A host in a namespace of its own, which ends with its process."""

    def __init__(self, number: int) -> None:
        self.number = number
        # It lives until its input is closed.
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; read _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.process.stdout.readline()
        namespace = str(self.process.pid)
        call("ip", "link", "add", f"p{number}", "type", "veth", "peer", "name", "e0",
             "netns", namespace)
        call("ip", "link", "set", f"p{number}", "up")
        address = ADDRESSES[number]
        gateway = address.rsplit(".", 1)[0] + ".254"
        for words in (
            ["ip", "link", "set", "lo", "up"],
            ["ethtool", "-K", "e0", "tx", "off"],
            ["ip", "link", "set", "e0", "up"],
            ["ip", "address", "add", f"{address}/24", "dev", "e0"],
            ["ip", "route", "add", "default", "via", gateway],
        ):
            call(*self.inside(words))

    def inside(self, words: list[str]) -> list[str]:
        return ["nsenter", "--target", str(self.process.pid), "--net", *words]

    def ping(self, other: int, *options: str) -> str:
        """Sends echo requests; returns what `ping` prints."""
        words = self.inside(["ping", "-n", *options, ADDRESSES[other]])
        return subprocess.run(words, capture_output=True, text=True).stdout

    def answers(self, other: int, count: int = 1) -> int:
        """Sends echo requests, one a second; returns how many were answered."""
        output = self.ping(other, "-c", str(count), "-W", "2")
        return int(re.search(r"(\d+) received", output).group(1))

    def unanswered(self, other: int, count: int) -> list[int]:
        """Sends echo requests, one every two milliseconds; returns those without an answer.

        After the last request, `ping` waits for two of its round trips only, and a busy machine
        takes longer. With a deadline it goes on until it has `count` answers.
        """
        output = self.ping(other, "-c", str(count), "-i", "0.002", "-w", "10")
        answered = {int(number) for number in re.findall(r"icmp_seq=(\d+)", output)}
        return [number for number in range(1, count + 1) if number not in answered]

    def reaches(self, other: int) -> bool:
        """Pings until there is an answer, or the patience is over."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.answers(other):
                return True
        return False

    def end(self) -> None:
        # The namespace's end, which would delete it too, comes later.
        call("ip", "link", "delete", f"p{self.number}")
        self.process.stdin.close()
        self.process.wait()


def start_faucet(folder: Path) -> subprocess.Popen:
    binaries = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "FAUCET_CONFIG": str(folder / "faucet.yaml"),
        "FAUCET_LOG": str(folder / "faucet.log"),
        "FAUCET_EXCEPTION_LOG": str(folder / "exceptions.log"),
        "FAUCET_PROMETHEUS_ADDR": "127.0.0.1",
    }
    output = (folder / "faucet.out").open("ab")
    return subprocess.Popen([binaries / "faucet"], env=environment, stdout=output, stderr=output)


def check_matrix(hosts: dict[int, Host]) -> None:
    pairs = [(one, other) for one in hosts for other in hosts if one != other]
    for one, other in pairs:
        if (one, other) not in CUT_OFF:
            assert hosts[one].reaches(other), f"host {one} does not reach host {other}"
    for one, other in CUT_OFF:
        assert hosts[one].answers(other, 2) == 0, f"host {one} reaches host {other}"


def exceptions(folder: Path) -> str:
    log = folder / "exceptions.log"
    return log.read_text() if log.exists() else ""


def drive(folder: Path, hosts: dict[int, Host]) -> None:
    faucet = start_faucet(folder)
    try:
        check_matrix(hosts)
        faucet.terminate()
        faucet.wait()
        # Without a controller the rules stay, and no packet is lost.
        for other in (2, 3):
            lost = hosts[1].unanswered(other, 200)
            assert not lost, f"packets lost to host {other} without a controller: {lost}"
        faucet = start_faucet(folder)
        check_matrix(hosts)
        assert not exceptions(folder), exceptions(folder)
    finally:
        faucet.terminate()
        faucet.wait()


@contextmanager
def running_switch(folder: Path) -> Iterator[None]:
    """`thalweg run`, with a port for each host."""
    ports = "".join(PORT.format(number) for number in ADDRESSES)
    (folder / "br0.toml").write_text(SWITCH + ports)
    switch = subprocess.Popen([sys.argv[1], "run", folder / "br0.toml"])
    try:
        yield
    finally:
        switch.terminate()
        assert switch.wait() == 0


@contextmanager
def bridge(_: Path) -> Iterator[None]:
    """The same as a bridge of the daemon."""
    with Daemon(sys.argv[1]) as daemon:
        words = ["add-br", "br0", "--", "set", "Bridge", "br0", "fail_mode=secure",
                 "other_config:datapath-id=0000000000000001"]
        for number in ADDRESSES:
            words += ["--", "add-port", "br0", f"p{number}",
                      "--", "set", "Interface", f"p{number}", f"ofport_request={number}"]
        words += ["--", "set-controller", "br0", "tcp:127.0.0.1:6653",
                  "--", "set", "Controller", "br0", "max_backoff=1000"]
        call("ovs-vsctl", "--timeout=20", *words)
        yield
        assert not daemon.complaints(), daemon.complaints()
        call("ovs-vsctl", "--timeout=20", "del-br", "br0")


def drive_through(switch, name: str) -> None:
    hosts = {number: Host(number) for number in ADDRESSES}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "faucet.yaml").write_text(FAUCET)
        try:
            with switch(folder):
                drive(folder, hosts)
        except BaseException:
            for log in sorted(folder.glob("*.log")) + [folder / "faucet.out"]:
                if log.exists():
                    print(f"--- {log.name}", *log.read_text().splitlines()[-40:], sep="\n")
            raise
        finally:
            for host in hosts.values():
                host.end()
    print(f"faucet through {name}: two VLANs, routing, an ACL; its restart")


def main() -> None:
    prepare_folders()
    drive_through(running_switch, "`thalweg run`")
    drive_through(bridge, "the daemon")


main()
