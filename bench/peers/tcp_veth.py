#!/usr/bin/env python3
"""Measures TCP between two hosts through a switch: gigabits a second, processor time a gigabyte.

    cargo build --release
    sudo bench/peers/tcp_veth.py --out tcp.json
    sudo bench/peers/tcp_veth.py --switch thalweg --program target/release/thalweg --seconds 5
    sudo bench/peers/tcp_veth.py --vxlan --streams 1 --out vxlan.json

The hosts are two network namespaces, each with one end of a veth pair; the other ends are in a
third, with the switch. Nothing is turned off: segments, checksums and GRO are as Linux has them.
The processor time is that of the switch's process, from /proc/PID/stat. With `--vxlan` there are
two switches, each with one of the hosts, joined by a tunnel over a third veth pair; the time is
that of both.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from machine import describe

NAMES = ("tcpv-a", "tcpv-s", "tcpv-b", "tcpv-t")
# Of each end of the tunnel: namespace, device, port of the host, own address, the other's.
ENDS = (("tcpv-s", "u1", "p1", "10.8.0.1", "10.8.0.2"),
        ("tcpv-t", "u2", "p2", "10.8.0.2", "10.8.0.1"))
TICK = os.sysconf("SC_CLK_TCK")


def run(*command, check=True, **more):
    return subprocess.run(command, check=check, text=True, capture_output=True, **more).stdout


def inside(name, *command):
    return ("ip", "netns", "exec", name) + command


def take_down():
    for name in NAMES:
        run("ip", "netns", "del", name, check=False)


def set_up(has_tunnel):
    take_down()
    for name in NAMES:
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    for host, port, address in (("tcpv-a", "p1", "10.9.0.1"), ("tcpv-b", "p2", "10.9.0.2")):
        run("ip", "link", "add", "eth0", "netns", host, "type", "veth",
            "peer", "name", port, "netns", "tcpv-s")
        run("ip", "-n", host, "addr", "add", address + "/24", "dev", "eth0")
        run("ip", "-n", host, "link", "set", "eth0", "up")
        run("ip", "-n", "tcpv-s", "link", "set", port, "up")
    if has_tunnel:
        run("ip", "-n", "tcpv-s", "link", "set", "p2", "netns", "tcpv-t")
        run("ip", "-n", "tcpv-t", "link", "set", "p2", "up")
        run("ip", "link", "add", "u1", "netns", "tcpv-s", "type", "veth",
            "peer", "name", "u2", "netns", "tcpv-t")
        for name, device, _, address, _ in ENDS:
            run("ip", "-n", name, "link", "set", device, "mtu", "1600", "up")
            run("ip", "-n", name, "addr", "add", address + "/24", "dev", device)


class Thalweg:
    def __init__(self, program, folder, options):
        config = os.path.join(folder, "switch.toml")
        with open(os.path.join(folder, "normal.rules"), "w") as rules:
            rules.write(options.rules.replace("\\n", "\n") + "\n")
        with open(config, "w") as file:
            file.write('[switch]\nname = "br0"\nrules = ["normal.rules"]\n')
            for number in (1, 2):
                file.write(f'[[port]]\nnumber = {number}\nname = "p{number}"\n')
        self.process = subprocess.Popen(inside("tcpv-s", program, "run", config),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if line.startswith("ready"):
                break
        else:
            sys.exit("the switch did not start")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        # `ip netns exec` replaces itself.
        self.pids = [self.process.pid]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


class Daemons:
    """Daemons that are configured by databases, with a folder each."""

    def __init__(self, folder):
        self.folder, self.daemons, self.pids = folder, [], []

    def add(self, name, program, *settings):
        """Starts a daemon in a namespace; returns what configures it."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        environment = dict(os.environ, OVS_RUNDIR=folder, OVS_LOGDIR=folder, OVS_DBDIR=folder)
        database, socket_ = os.path.join(folder, "conf.db"), os.path.join(folder, "db.sock")
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        run("ovsdb-tool", "create", database, schema, env=environment)
        self.start(name, environment, "ovsdb-server", database, "--remote=punix:" + socket_)

        def control(*words):
            run("ovs-vsctl", "--timeout=20", "--db=unix:" + socket_, *words, env=environment)

        control("--no-wait", "init")
        for setting in settings:
            control("--no-wait", "set", "Open_vSwitch", ".", setting)
        self.pids.append(self.start(name, environment, *program, "unix:" + socket_))
        return control

    def start(self, name, environment, *command):
        daemon = subprocess.Popen(inside(name, *command, "-vconsole:off"), env=environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.daemons.append(daemon)
        time.sleep(1)
        return daemon.pid

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(20)


def bridge(name, *ports):
    """The words that add a bridge with ports; each has its settings behind its name."""
    words = ["add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"]
    for port, *settings in ports:
        words += ["--", "add-port", name, port]
        words += ["--", "set", "interface", port, *settings] if settings else []
    return words


class OpenVSwitch(Daemons):
    """The netdev datapath, with its packets whole (`userspace-tso-enable`)."""

    def __init__(self, program, folder, options):
        super().__init__(folder)
        control = self.add("tcpv-s", ("ovs-vswitchd", "--disable-system"),
                           "other_config:userspace-tso-enable=true")
        control(*bridge("br0", ("p1",), ("p2",)))
        time.sleep(1)


def tunnel(remote):
    return ("vx", "type=vxlan", f"options:remote_ip={remote}", "options:key=7")


class ThalwegTunnel(Daemons):
    """Outer packets go through sockets, which the kernel routes."""

    def __init__(self, program, folder, options):
        super().__init__(folder)
        for name, _, port, _, remote in ENDS:
            control = self.add(name, (program, "vswitchd"))
            control(*bridge("br0", (port,), tunnel(remote)))
        time.sleep(1)


class OpenVSwitchTunnel(Daemons):
    """Outer packets leave by a bridge of their own. Open vSwitch 3.1 puts no whole frames into
    tunnels, so the hosts cut theirs and write checksums."""

    def __init__(self, program, folder, options):
        super().__init__(folder)
        for host in ("tcpv-a", "tcpv-b"):
            run(*inside(host, "ethtool", "-K", "eth0", "tx", "off"))
        for name, device, port, address, remote in ENDS:
            control = self.add(name, ("ovs-vswitchd", "--disable-system"))
            control(*bridge("outer", (device,)))
            run("ip", "-n", name, "addr", "flush", "dev", device)
            run("ip", "-n", name, "addr", "add", address + "/24", "dev", "outer")
            run("ip", "-n", name, "link", "set", "outer", "mtu", "1600", "up")
            run(*inside(name, "ethtool", "-K", "outer", "tx", "off"))
            control(*bridge("br0", (port,), tunnel(remote)))
        time.sleep(2)


class Bridge:
    """Linux's own; its time is the system's, not a process's."""

    pids = []

    def __init__(self, program, folder, options):
        if options.vxlan:
            for name, device, port, _, remote in ENDS:
                run("ip", "-n", name, "link", "add", "vx", "type", "vxlan", "id", "7",
                    "remote", remote, "dstport", "4789", "dev", device)
                self.join(name, port, "vx")
        else:
            self.join("tcpv-s", "p1", "p2")
        time.sleep(1)

    @staticmethod
    def join(name, *ports):
        run("ip", "-n", name, "link", "add", "br0", "type", "bridge")
        for port in ports:
            run("ip", "-n", name, "link", "set", port, "master", "br0", "up")
        run("ip", "-n", name, "link", "set", "br0", "up")

    def stop(self):
        """The namespaces take it with them."""


def seconds_of(pids):
    """The processor time of processes; of all processors if there are none."""
    if not pids:
        with open("/proc/stat") as file:
            fields = file.readline().split()
        return (sum(map(int, fields[1:])) - int(fields[4]) - int(fields[5])) / TICK
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICK


def bad_sums(name):
    """TCP segments with wrong checksums, as a host counted them."""
    text = run(*inside(name, "cat", "/proc/net/snmp"))
    names, values = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(names, values))["InCsumErrors"])


def measure(switch, streams, seconds):
    server = subprocess.Popen(inside("tcpv-b", "iperf3", "-s", "-1"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    before = seconds_of(switch.pids)
    text = run(*inside("tcpv-a", "iperf3", "-c", "10.9.0.2", "-J", "-t", str(seconds),
                       "-P", str(streams)))
    spent = seconds_of(switch.pids) - before
    server.wait(20)
    end = json.loads(text)["end"]
    sent = end["sum_received"]
    return {
        "streams": streams,
        "gbit_per_s": round(sent["bits_per_second"] / 1e9, 2),
        "cpu_s_per_gb": round(spent / (sent["bytes"] / 1e9), 2),
        "resent": end["sum_sent"].get("retransmits"),
        "bad_sums": bad_sums("tcpv-a") + bad_sums("tcpv-b"),
    }


SWITCHES = {"thalweg": Thalweg, "ovs": OpenVSwitch, "bridge": Bridge}
TUNNELS = {"thalweg": ThalwegTunnel, "ovs": OpenVSwitchTunnel, "bridge": Bridge}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switch", choices=SWITCHES, action="append")
    parser.add_argument("--program", default="target/release/thalweg")
    parser.add_argument("--vxlan", action="store_true", help="two switches and a tunnel")
    parser.add_argument("--rules", default="actions=NORMAL")
    parser.add_argument("--streams", default="1,8")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("iperf3") is None:
        sys.exit("needs root and iperf3: sudo apt-get install iperf3")
    rows = []
    for _ in range(options.samples):
        for name in options.switch or SWITCHES:
            set_up(options.vxlan)
            kinds = TUNNELS if options.vxlan else SWITCHES
            with tempfile.TemporaryDirectory() as folder:
                switch = kinds[name](os.path.abspath(options.program), folder, options)
                try:
                    for streams in map(int, options.streams.split(",")):
                        row = {"switch": name, **measure(switch, streams, options.seconds)}
                        rows.append(row)
                        print(json.dumps(row), flush=True)
                finally:
                    switch.stop()
    take_down()
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"command": sys.argv, "machine": describe(), "rows": rows}, file,
                      indent=1)


if __name__ == "__main__":
    main()
