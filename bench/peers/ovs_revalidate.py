#!/usr/bin/env python3
"""Measures how long Open vSwitch takes to revalidate its megaflows after a change of one rule.

    cargo build --release
    sudo bench/peers/ovs_revalidate.py --out ovs.json     # 10,000, 100,000 and 200,000 megaflows
    thalweg bench update --entries 10000,100000,200000 --peer ovs.json
    sudo bench/peers/ovs_revalidate.py --megaflows 10000 --kind psc --rules 4000

Rules and traffic are those that `thalweg bench update` makes of the same seed. The time of a change
is the processor time of the revalidator threads from the change until they rest, while every
megaflow has been looked at; see README.md for what that includes and for the traps.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import machine
from dummy_switch import PACKAGES, DummySwitch
from private_switch import TOOLS, PeerError, install_packages

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "target" / "release" / "thalweg"
# Frames in one request to the daemon.
BATCH = 64


def quantiles(values):
    """The three figures of `thalweg bench update`."""
    ordered = sorted(values)

    def at(share):
        return round(ordered[int((len(ordered) - 1) * share)], 1)

    return {"median": at(0.5), "p99": at(0.99), "max": at(1.0)}


def generate(options, folder, megaflows):
    """The rules, and frames with their ports, in the order in which they come in."""
    kind = ["--kind", options.kind, "--rules", str(options.rules), "--seed", str(options.seed)]
    kind += ["--tables", str(options.tables), "--traversals", str(options.traversals)]
    flows = megaflows * options.flows_per_megaflow
    commands = [
        ["generate", "pipeline", *kind, "-o", folder / "pipeline.rules",
         *(["--groups-out", folder / "pipeline.groups"] if options.kind == "ant" else [])],
        ["generate", "traffic", *kind, "--flows", flows, "--packets", flows, "--locality",
         "round-robin", "--per-port", "-o", folder / "traffic.pcap"],
    ]
    for command in commands:
        words = [str(word) for word in [options.program, *command]]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise PeerError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
    frames = []
    for path in folder.glob("traffic-p*.pcap"):
        port = int(path.stem.removeprefix("traffic-p"))
        frames += [(when, port, frame) for when, frame in read_capture(path)]
    frames.sort()
    return [(port, frame) for _, port, frame in frames]


def read_capture(path):
    """Time and bytes of each packet of a capture in this machine's byte order."""
    data = path.read_bytes()
    place, units = 24, 1_000_000
    if int.from_bytes(data[:4], "little") == 0xA1B23C4D:
        units = 1_000_000_000
    while place < len(data):
        seconds, part, length = (int.from_bytes(data[place + at:place + at + 4], "little")
                                 for at in (0, 4, 8))
        yield seconds * units + part, data[place + 16:place + 16 + length].hex()
        place += 16 + length


def fill(switch, frames, megaflows):
    """Sends frames until the cache has the megaflows wanted; gives how many it has."""
    place = 0
    while place < len(frames):
        switch.control("upcall/set-flow-limit", "2000000")
        end = min(len(frames), place + max(1_000, megaflows // 20))
        for start in range(place, end, BATCH):
            switch.receive(frames[start:min(end, start + BATCH)])
        place = end
        have = switch.megaflows()
        if have >= megaflows:
            return have
    raise PeerError(f"{len(frames)} flows make {switch.megaflows()} megaflows of {megaflows}; "
                    "ask for more --rules")


def rules_to_change(path, count):
    """Rules spread over the file that match something and are no default of their table."""
    lines = [line for line in path.read_text().splitlines()
             if "priority=0" not in line and "actions=" in line]
    stride = max(1, len(lines) // count)
    return lines[::stride][:count]


def selector(rule):
    """What a strict deletion of the rule names."""
    return rule.split(",actions=")[0]


def measure(options, switch, rules, frames, have):
    """Microseconds for each change: of the threads, and on the wall."""
    processor, wall = [], []
    changes = []
    for rule in rules_to_change(rules, (options.updates + 1) // 2):
        changes += [("--strict", "del-flows", selector(rule)), ("", "add-flow", rule)]
    for strict, command, argument in changes[:options.updates]:
        switch.control("upcall/set-flow-limit", "2000000")
        switch.wait_for_rest()
        sweeps, before = switch.sweeps(), switch.revalidator_cpu_ns()
        began = time.monotonic()
        switch.change(command, strict, argument)
        ended = switch.wait_for_rest(sweeps_after=sweeps)
        processor.append((switch.revalidator_cpu_ns() - before) / 1e3)
        wall.append((ended - began) * 1e6)
        left = switch.megaflows()
        print(f"{argument[:60]}: {processor[-1] / 1e3:.0f} ms, {left} megaflows left",
              file=sys.stderr)
        if options.refill and left < have * 95 // 100:
            fill(switch, frames, have * 95 // 100)
        elif left < have * 95 // 100:
            raise PeerError(f"of {have} megaflows {left} are left: they were deleted and not "
                            "revalidated; see the limits in dummy_switch.py")
    return processor, wall


def measure_size(options, megaflows):
    """A row of one size."""
    with tempfile.TemporaryDirectory(prefix="peer-inputs-") as name:
        folder = pathlib.Path(name)
        frames = generate(options, folder, megaflows)
        ports = sorted({port for port, _ in frames})
        with DummySwitch(ports) as switch:
            if options.kind == "ant":
                switch.load_groups(folder / "pipeline.groups")
            switch.load_rules(folder / "pipeline.rules")
            have = fill(switch, frames, megaflows)
            switch.wait_for_rest()
            processor, wall = measure(options, switch, folder / "pipeline.rules",
                                      frames, have)
            return {
                "maintainer": "openvswitch", "entries": have, "class": "all",
                "updates": len(processor), "time_to_update_us": quantiles(processor),
                "wall_us": quantiles(wall), "dump_ms": switch.dump_duration_ms(),
            }, switch.version()


def parse_arguments():
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megaflows", type=int, action="append",
                        help="default: 10000, 100000 and 200000")
    parser.add_argument("--kind", default="ofd", help="of the pipeline")
    parser.add_argument("--rules", type=int, default=4000)
    parser.add_argument("--tables", type=int, default=12, help="of a synthetic pipeline")
    parser.add_argument("--traversals", type=int, default=8, help="of a synthetic pipeline")
    parser.add_argument("--refill", action="store_true",
                        help="send the frames again where a change deletes megaflows, as it does "
                             "where the walk of a packet is spread over several (ant)")
    parser.add_argument("--flows-per-megaflow", type=int, default=2,
                        help="flows that are generated for each megaflow: some share one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=8, help="changes for each row, at least 5")
    parser.add_argument("--program", default=PROGRAM, help="thalweg, which generates the workload")
    parser.add_argument("--out", type=pathlib.Path, help="default: standard output")
    options = parser.parse_args()
    if options.updates < 5:
        parser.error("--updates must be at least 5")
    options.megaflows = options.megaflows or [10_000, 100_000, 200_000]
    return options


def main():
    """Measures each size, and writes one JSON object."""
    options = parse_arguments()
    rows, version = [], None
    try:
        install_packages(PACKAGES, [*TOOLS, "ovs-vswitchd"])
        for megaflows in options.megaflows:
            row, version = measure_size(options, megaflows)
            rows.append(row)
            print(f"{row['entries']} megaflows: processor time {row['time_to_update_us']} us, "
                  f"on the wall {row['wall_us']} us", file=sys.stderr)
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    document = {"peer": "openvswitch", "version": version, "command": " ".join(sys.argv),
                "machine": machine.describe(), "rows": rows}
    text = json.dumps(document, indent=1)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
