#!/usr/bin/env python3
"""Measures TCP between two hosts through a switch: gigabits a second, processor time a gigabyte.

    cargo build --release
    sudo bench/peers/tcp_veth.py --out tcp.json
    sudo bench/peers/tcp_veth.py --switch thalweg --program target/release/thalweg --seconds 5

The hosts are two network namespaces, each with one end of a veth pair; the other ends are in a
third, with the switch. Nothing is turned off: segments, checksums and GRO are as Linux has them.
The processor time is that of the switch's process, from /proc/PID/stat.
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

NAMES = ("tcpv-a", "tcpv-s", "tcpv-b")
TICK = os.sysconf("SC_CLK_TCK")


def run(*command, check=True, **more):
    return subprocess.run(command, check=check, text=True, capture_output=True, **more).stdout


def inside(name, *command):
    return ("ip", "netns", "exec", name) + command


def take_down():
    for name in NAMES:
        run("ip", "netns", "del", name, check=False)


def set_up():
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
        self.pid = self.process.pid

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


class OpenVSwitch:
    """The netdev datapath, with its packets whole (`userspace-tso-enable`)."""

    def __init__(self, program, folder, options):
        environment = dict(os.environ, OVS_RUNDIR=folder, OVS_LOGDIR=folder, OVS_DBDIR=folder)
        self.environment, self.daemons = environment, []
        database, socket_ = os.path.join(folder, "conf.db"), os.path.join(folder, "db.sock")
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        run("ovsdb-tool", "create", database, schema, env=environment)
        self.start("ovsdb-server", database, "--remote=punix:" + socket_)
        self.control = ("ovs-vsctl", "--db=unix:" + socket_)
        run(*self.control, "--no-wait", "init", env=environment)
        run(*self.control, "--no-wait", "set", "Open_vSwitch", ".",
            "other_config:userspace-tso-enable=true", env=environment)
        self.pid = self.start("ovs-vswitchd", "unix:" + socket_, "--disable-system").pid
        run(*self.control, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev",
            "--", "add-port", "br0", "p1", "--", "add-port", "br0", "p2", env=environment)
        time.sleep(1)

    def start(self, program, *arguments):
        command = inside("tcpv-s", program, "-vconsole:off", *arguments)
        daemon = subprocess.Popen(command, env=self.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.daemons.append(daemon)
        time.sleep(1)
        return daemon

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(20)


class Bridge:
    """Linux's own; its time is the system's, not a process's."""

    pid = None

    def __init__(self, program, folder, options):
        run("ip", "-n", "tcpv-s", "link", "add", "br0", "type", "bridge")
        for port in ("p1", "p2"):
            run("ip", "-n", "tcpv-s", "link", "set", port, "master", "br0")
        run("ip", "-n", "tcpv-s", "link", "set", "br0", "up")
        time.sleep(1)

    def stop(self):
        run("ip", "-n", "tcpv-s", "link", "del", "br0")


def seconds_of(pid):
    """The processor time of a process; of all processors if there is none."""
    if pid is None:
        with open("/proc/stat") as file:
            fields = file.readline().split()
        return (sum(map(int, fields[1:])) - int(fields[4]) - int(fields[5])) / TICK
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def bad_sums(name):
    """TCP segments with wrong checksums, as a host counted them."""
    text = run(*inside(name, "cat", "/proc/net/snmp"))
    names, values = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(names, values))["InCsumErrors"])


def measure(switch, streams, seconds):
    server = subprocess.Popen(inside("tcpv-b", "iperf3", "-s", "-1"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    before = seconds_of(switch.pid)
    text = run(*inside("tcpv-a", "iperf3", "-c", "10.9.0.2", "-J", "-t", str(seconds),
                       "-P", str(streams)))
    spent = seconds_of(switch.pid) - before
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switch", choices=SWITCHES, action="append")
    parser.add_argument("--program", default="target/release/thalweg")
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
            set_up()
            with tempfile.TemporaryDirectory() as folder:
                switch = SWITCHES[name](os.path.abspath(options.program), folder, options)
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
