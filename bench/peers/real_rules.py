#!/usr/bin/env python3
"""Measures conjunctive matches and learned rules in Open vSwitch and in Thalweg's daemon.

    cargo build --release -p thalweg-vswitchd --example ovs_vswitchd
    bench/peers/real_rules.py --out real-rules.json
    bench/peers/real_rules.py --switch thalweg --samples 1

Both daemons have the userspace datapath with ports of the type `dummy`, and get the same rules by
`ovs-ofctl` and the same frames by their control socket. Times are processor time of all threads
of the daemon, in which reading the frames from the socket is included. See README.md for the rows.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

import machine
from dummy_switch import DummySwitch
from private_switch import PeerError
from workloads import _checksum

OURS = (pathlib.Path(__file__).resolve().parents[2]
        / "target" / "release" / "examples" / "ovs_vswitchd")
MISSING = {"thalweg": "build it, or give --program",
           "openvswitch": "install openvswitch-switch, or give --switch thalweg"}
# Ports that frames come in by: of each, Open vSwitch takes one frame each time that it looks.
SOURCES = 64
SINK = SOURCES + 1
# Sources, destinations and ports of the conjunctive match.
SIZES = (1_000, 1_000, 100)
FIRST_PORT = 1_000
# Flows with a cache entry each while clauses change.
CACHED = 10_000
# Changes of one clause, and learned rules whose delay is measured.
CHANGES = 100
DELAYS = 100
REST_SECONDS = 1.0


def address(network, index):
    """The address with this number in a network of 16 bits."""
    return f"10.{network}.{index >> 8}.{index & 255}"


def frame(source, destination, source_port, destination_port):
    """A TCP segment, in hexadecimal."""
    packed = [bytes(int(part) for part in one.split(".")) for one in (source, destination)]
    head = bytes.fromhex("4500002800004000400600000000000000000000")
    head = head[:12] + packed[0] + packed[1]
    head = head[:10] + _checksum(head).to_bytes(2, "big") + head[12:]
    ports = source_port.to_bytes(2, "big") + destination_port.to_bytes(2, "big")
    tcp = ports + bytes(8) + bytes.fromhex("5010ffff00000000")
    ethernet = bytes.fromhex("0200000000020200000000010800")
    return (ethernet + head + tcp).ljust(60, b"\0").hex()


def clauses():
    """The rules of one conjunctive match."""
    sources, destinations, ports = SIZES
    head, clause = "table=0,priority=100", "actions=conjunction(1"
    lines = [f"{head},ip,nw_src={address(1, index)},{clause},1/3)" for index in range(sources)]
    lines += [f"{head},ip,nw_dst={address(2, index)},{clause},2/3)"
              for index in range(destinations)]
    lines += [f"{head},tcp,tp_dst={FIRST_PORT + index},{clause},3/3)" for index in range(ports)]
    return lines + [f"{head},ip,conj_id=1,actions=output:{SINK}", "table=0,priority=0,actions=drop"]


LEARN = ["table=0,priority=5,tcp,actions=learn(table=1,priority=100,eth_type=0x800,"
         "nw_proto=6,NXM_OF_IP_SRC[]=NXM_OF_IP_DST[],NXM_OF_IP_DST[]=NXM_OF_IP_SRC[],"
         "NXM_OF_TCP_DST[]=NXM_OF_TCP_SRC[],output:NXM_OF_IN_PORT[])," f"output:{SINK}",
         f"table=0,priority=10,in_port={SINK},actions=resubmit(,1)"]


class Bench:
    """The rows of one sample of one switch."""

    def __init__(self, switch, folder):
        self.switch = switch
        self.folder = folder
        self.rows = {}

    def load(self, lines):
        """Replaces all rules; gives processor time in nanoseconds."""
        path = self.folder / "rules"
        path.write_text("".join(line + "\n" for line in lines))
        before = self.switch.cpu_ns()
        self.switch.load_rules(path)
        return self.rested() - before

    def rested(self):
        """Waits until the daemon rests; gives its processor time."""
        spent, since = self.switch.cpu_ns(), time.monotonic()
        while time.monotonic() - since < REST_SECONDS:
            time.sleep(0.05)
            now = self.switch.cpu_ns()
            # Timers of a daemon that rests take some microseconds.
            if now - spent > 3_000_000:
                since = time.monotonic()
            spent = now
        return spent

    def send(self, frames):
        """Sends frames, one to each port in turn; gives processor time in nanoseconds for each."""
        before = self.switch.cpu_ns()
        for start in range(0, len(frames), SOURCES):
            self.switch.receive(list(enumerate(frames[start:start + SOURCES], 1)))
            self.switch.wait_for_datapath()
        return (self.switch.cpu_ns() - before) / len(frames)

    def conjunction(self):
        """Memory, loading, and the change of one clause while flows are cached."""
        sources, destinations, ports = SIZES
        self.load(["table=0,priority=0,actions=drop"])
        before = self.switch.resident_bytes()
        lines = clauses()
        self.rows["load a clause"] = ("us", self.load(lines) / len(lines) / 1e3)
        grown = self.switch.resident_bytes() - before
        self.rows["memory of the clauses"] = ("KB", grown / 1e3)
        frames = []
        for index in range(CACHED):
            # One in two does not have all clauses: its port is none of the match.
            port = FIRST_PORT + index % ports + (index & 1) * ports
            frames.append(frame(address(1, index % sources), address(2, index * 7 % destinations),
                                20_000 + index % 40_000, port))
        self.rows["first packet of a flow"] = ("us", self.send(frames) / 1e3)
        self.rows["packet of a cached flow"] = ("us", self.send(frames) / 1e3)
        before = self.rested()
        for index in range(CHANGES):
            rule = lines[index * len(lines) // CHANGES]
            selector = rule.split(",actions=")[0]
            self.switch.change("del-flows", "--strict", selector)
            self.switch.change("add-flow", "", rule)
        spent = self.rested() - before
        self.rows["change of one clause"] = ("us", spent / (2 * CHANGES) / 1e3)

    def learn(self, count):
        """Learned rules: memory, time of each, and the delay until one is used."""
        self.load(LEARN)
        delays = []
        for index in range(DELAYS):
            there = (address(3, index), address(4, 0))
            reply = f"in_port={SINK},tcp,nw_src={there[1]},nw_dst={there[0]},tp_dst={9_000 + index}"
            began = time.monotonic()
            self.switch.receive([(1, frame(*there, 9_000 + index, 80))])
            while "output:1" not in self.switch.control("ofproto/trace", "br0", reply):
                if time.monotonic() - began > 10:
                    raise PeerError("a learned rule is not used after ten seconds")
            delays.append((time.monotonic() - began) * 1e6)
        self.rows["packet to visible rule, wall"] = ("us", statistics.median(delays))
        frames = [frame(address(5 + (index >> 16), index & 0xffff), address(4, 1), 10_000, 80)
                  for index in range(count)]
        memory, before = self.switch.resident_bytes(), self.rested()
        self.send(frames)
        spent = self.rested() - before
        self.rows["learned rule, with its packet"] = ("us", spent / count / 1e3)
        grown = self.switch.resident_bytes() - memory
        self.rows["memory of a learned rule"] = ("B", grown / count)
        told = self.switch.command("dump-aggregate", "table=1")
        found = int(re.search(r"flow_count=(\d+)", told).group(1))
        if found != count + DELAYS:
            raise PeerError(f"{found} rules were learned of {count + DELAYS}")


def measure(daemon, options):
    """One sample: rows, and the version."""
    with tempfile.TemporaryDirectory(prefix="peer-rules-") as name:
        with DummySwitch(range(1, SINK + 1), daemon) as switch:
            bench = Bench(switch, pathlib.Path(name))
            bench.conjunction()
            version = switch.version()
        # Memory that the first part has freed is not used again.
        with DummySwitch(range(1, SINK + 1), daemon) as switch:
            bench.switch = switch
            switch.control("upcall/set-flow-limit", "2000000")
            bench.learn(options.learned)
            return bench.rows, version


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switch", action="append", choices=["thalweg", "openvswitch"])
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--learned", type=int, default=100_000)
    parser.add_argument("--program", default=OURS, help="Thalweg's daemon in ovs-vswitchd's place")
    parser.add_argument("--out", type=pathlib.Path, help="default: standard output")
    options = parser.parse_args()
    options.switch = options.switch or ["thalweg", "openvswitch"]
    return options


def main():
    """Measures the switches in turns, and writes one JSON object."""
    options = parse_arguments()
    samples, versions = {}, {}
    try:
        for _ in range(options.samples):
            for switch in options.switch:
                asked = options.program if switch == "thalweg" else "ovs-vswitchd"
                daemon = shutil.which(asked)
                if daemon is None:
                    raise PeerError(f"{asked} is not there; {MISSING[switch]}")
                rows, versions[switch] = measure(daemon, options)
                for what, (unit, value) in rows.items():
                    samples.setdefault((what, unit), {}).setdefault(switch, []).append(value)
                print(switch, rows, file=sys.stderr)
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    names = {"thalweg": "Thalweg", "openvswitch": "Open vSwitch"}
    rows = [{"what": what, "unit": unit, "switch": names[switch],
             "value": {"median": statistics.median(values), "min": min(values),
                       "max": max(values)}}
            for (what, unit), by_switch in samples.items() for switch, values in by_switch.items()]
    document = {"command": " ".join(sys.argv), "versions": versions,
                "machine": machine.describe(), "rows": rows}
    text = json.dumps(document, indent=1) + "\n"
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
