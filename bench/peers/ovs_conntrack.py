#!/usr/bin/env python3
"""Measures Open vSwitch's userspace tracker on the traffic of `thalweg bench conntrack`.

    bench/peers/ovs_conntrack.py --source openvswitch --protocol tcp --out ovs.json
    thalweg bench conntrack --protocol tcp --peer ovs.json

--source names a folder of Open vSwitch's source in which `lib/libopenvswitch.la` is built. See
README.md for what is measured, and for the traps.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine
from private_switch import PeerError

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = "lib/.libs/libopenvswitch.a"
LIBRARIES = ["-lpthread", "-lrt", "-lm", "-ldl"]
TRACKINGS = {"ct": "ct", "nat": "ct with NAT"}


def version_of(source):
    """The version that the source says it is."""
    for line in (source / "config.h").read_text().splitlines():
        if line.startswith("#define PACKAGE_VERSION "):
            return line.split('"')[1]
    raise PeerError(f"{source}/config.h has no version")


def build(source, folder):
    """Compiles the program that calls the library; returns its path."""
    program = folder / "ovs_conntrack"
    library = source / LIBRARY
    if not library.exists():
        raise PeerError(f"{library} is missing; run `make lib/libopenvswitch.la` there")
    subprocess.run(["gcc", "-O2", "-o", str(program), f"-I{source}", f"-I{source}/lib",
                    f"-I{source}/include", str(HERE / "ovs_conntrack.c"), str(library),
                    *LIBRARIES], check=True)
    return program


def ask(options, program, *arguments):
    """The numbers that the program prints."""
    command = ["taskset", "-c", str(options.core), str(program), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise PeerError(f"{' '.join(command)}: {ended.stderr.strip()}")
    return [float(line) for line in ended.stdout.split()]


def spread(values):
    """The median, the least and the most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(options, program):
    """The rows, with the keys of ours."""
    counts = sorted({int(count) for count in options.connections.split(",")})
    rows = [{"what": "memory of a connection", "protocol": "udp", "connections": counts[-1],
             "tracking": "ct", "unit": "bytes",
             "value": spread(ask(options, program, "memory", counts[-1]))}]
    for protocol in options.protocol.split(","):
        for count in counts:
            for tracking, name in TRACKINGS.items():
                samples = ask(options, program, protocol, count, tracking, options.packets,
                              options.samples)
                rows.append({"what": "packet of an established connection", "protocol": protocol,
                             "connections": count, "tracking": name, "unit": "ns",
                             "value": spread(samples)})
                print(f"{protocol}, {count} connections, {name}: {rows[-1]['value']}",
                      file=sys.stderr)
    return rows


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", default="1000,1000000", help="rows for each number")
    parser.add_argument("--protocol", default="udp,tcp", help="udp, tcp")
    parser.add_argument("--packets", type=int, default=2_000_000, help="packets in each sample")
    parser.add_argument("--samples", type=int, default=7, choices=range(1, 64), metavar="N")
    parser.add_argument("--core", type=int, default=0, help="the processor to measure on")
    parser.add_argument("--source", type=pathlib.Path, required=True,
                        help="a folder of Open vSwitch's source with the library built")
    parser.add_argument("--out", type=pathlib.Path, help="write JSON here, not to standard output")
    return parser.parse_args()


def main():
    """Compiles, measures, and writes one JSON object."""
    options = parse_arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="peer-conntrack-") as name:
            folder = pathlib.Path(name)
            source = options.source.resolve()
            rows = measure(options, build(source, folder))
            version = version_of(source)
    except (PeerError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    document = {"peer": "Open vSwitch", "version": version, "command": " ".join(sys.argv),
                "machine": machine.describe(), "rows": rows}
    text = json.dumps(document, indent=1)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
