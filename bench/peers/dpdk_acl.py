#!/usr/bin/env python3
"""Measures DPDK's classifiers, as Debian ships them, on the sets of `thalweg bench classify`.

    sudo bench/peers/dpdk_acl.py --rules acl1-1k,acl1-10k,fw1-10k --out dpdk.json
    thalweg bench classify --rules acl1-1k,acl1-10k,fw1-10k --peer dpdk.json
    sudo bench/peers/dpdk_acl.py --subtables 1000,10000,100000 --out filter.json

rte_acl gets the same filters, with port ranges as ranges, and the same headers in the same order;
rte_hash (exact keys) and rte_member (a vector Bloom filter) as many keys as there are filters.
With --subtables, the filter and a probe behind it, in turns with our own (`cargo bench --bench
bloom`), sample by sample.
See README.md for what that means, and for the traps.
"""

import argparse
import contextlib
import ipaddress
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import machine
from private_switch import PeerError, hugepages

# As many flows as crates/classifier/benches/bloom.rs looks up, at most.
FLOWS_MAX = 400_000
# Pages for ours, which have two million rules in two forms at the most.
OUR_PAGES = 512
HERE = pathlib.Path(__file__).resolve().parent
HEADER_FILE = pathlib.Path("/usr/include/dpdk/rte_acl.h")
PACKAGES = ["libdpdk-dev", "pkg-config", "gcc", "libc6-dev"]
LIBRARIES = ["-lrte_acl", "-lrte_hash", "-lrte_member", "-lrte_rcu", "-lrte_eal"]
FILTER = re.compile(r"@(\S+)\s+(\S+)\s+(\d+) : (\d+)\s+(\d+) : (\d+)\s+(\S+)/(\S+)")


def install_packages():
    """Installs what is missing with apt, as root; says what to run where that is not allowed."""
    if HEADER_FILE.exists() and shutil.which("pkg-config") and shutil.which("gcc"):
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PeerError(f"DPDK's headers are missing; run: {' '.join(command)}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update"], check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    if not HEADER_FILE.exists():
        raise PeerError(f"still missing after the installation: {HEADER_FILE}")


def build(folder):
    """Compiles the program that calls DPDK's libraries; returns its path and DPDK's version."""
    def ask(what):
        answer = subprocess.run(["pkg-config", what, "libdpdk"], capture_output=True, text=True,
                                check=True)
        return answer.stdout.split()

    program = folder / "dpdk_acl"
    # The library's own code is compiled for old processors, and chooses at run time.
    flags = [flag for flag in ask("--cflags") if not flag.startswith("-march")]
    subprocess.run(["gcc", "-O3", "-march=native", *flags, "-o", str(program),
                    str(HERE / "dpdk_acl.c"), *LIBRARIES], check=True)
    return program, ask("--modversion")[0]


def write_numbers(filters, path):
    """Writes ClassBench's filters as decimal numbers; returns how many there are."""
    lines = []
    for line in filters.read_text().splitlines():
        found = FILTER.match(line)
        if found is None:
            raise PeerError(f"{filters.name}: {line!r} is no filter")
        source, destination, *ports, protocol, mask = found.groups()
        numbers = []
        for prefix in (source, destination):
            network = ipaddress.ip_network(prefix)
            if network.version != 4:
                raise PeerError(f"{filters.name}: only IPv4 is measured; leave IPv6 sets out")
            numbers += [int(network.network_address), network.prefixlen]
        numbers += [*map(int, ports), int(protocol, 16), int(mask, 16)]
        lines.append(" ".join(map(str, numbers)))
    path.write_text("\n".join(lines) + "\n")
    return len(lines)


def dpdk_command(options, program, *arguments):
    """How the program is started."""
    memory = ["--in-memory"] if options.pages else ["--no-huge", "--no-shconf"]
    megabytes = options.pages * 2 or 4096
    return [str(program), "-l", str(options.core), "--main-lcore", str(options.core), "--no-pci",
            "--no-telemetry", "--log-level=3", *memory, "-m", str(megabytes), "--",
            *map(str, arguments)]


def run(options, program, *arguments):
    """One measurement: the row that the program prints."""
    command = dpdk_command(options, program, *arguments)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds,
                              check=True)
    except subprocess.TimeoutExpired:
        return {"refused": f"not done in {options.seconds} s"}
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"status {error.returncode}"])[-1]
        return {"refused": reason}
    return json.loads(done.stdout.splitlines()[-1])


def rows_of_set(options, program, folder, name):
    """The rows of one set, and what was refused of it."""
    stem = pathlib.Path(name).stem
    numbers = folder / f"{stem}.numbers"
    filters = write_numbers(folder / f"{stem}.filters", numbers)
    measured = []
    for traffic in options.traffic.split(","):
        headers = folder / f"{stem}.{traffic}.headers"
        row = run(options, program, "acl", numbers, headers, options.samples, options.bytes)
        measured.append({"classifier": "rte_acl", "traffic": traffic, **row})
    for kind in ("hash", "member"):
        row = run(options, program, kind, filters, options.samples)
        measured.append({"classifier": f"rte_{kind}", "traffic": "uniform", **row})
    return [{"set": name, "batch": 32, **row} for row in measured]


def measure(options, program, folder):
    """All rows."""
    command = [options.program, "bench", "classify", "--rules", options.rules, "--traffic",
               options.traffic, "--flows", str(options.flows), "--seed", str(options.seed),
               "--write-inputs", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = []
    for name in options.rules.split(","):
        for row in rows_of_set(options, program, folder, name):
            rows.append(row)
            cost = row.get("ns_per_lookup", {}).get("median")
            told = row.get("refused") or f"median {cost} ns, built in {row['build_ms']} ms"
            print(f"{name} {row['classifier']} {row['traffic']}: {told}", file=sys.stderr)
    return rows


@contextlib.contextmanager
def turns(command, environment=None):
    """Starts a program that takes a sample for each line; gives what asks it for one."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=environment, cwd=HERE)

    def answer():
        for line in process.stdout:
            if line.startswith(("{", "[")) or line == "ready\n":
                return None if line == "ready\n" else json.loads(line)
        raise PeerError(f"{command[0]} ended with status {process.wait()}")

    def sample():
        process.stdin.write("\n")
        process.stdin.flush()
        return answer()

    try:
        # What it says when it is ready.
        yield answer(), sample
        process.stdin.close()
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()


def spread(costs):
    """The median, the least and the most."""
    return {"median": statistics.median(costs), "min": min(costs), "max": max(costs)}


def rows_of_subtables(options, program, per_table):
    """The peer's row and ours, and how many times as long ours take in the same turn."""
    flows = min(20 * per_table, FLOWS_MAX)
    peer = dpdk_command(options, program, "subtables", per_table, flows)
    environment = dict(os.environ, THALWEG_CASES="five-tuples", THALWEG_TURNS="yes",
                       THALWEG_PER_TABLE=str(per_table), THALWEG_LAYERS=options.layers,
                       # Pages of 2 MB for ours too.
                       MIMALLOC_ALLOW_LARGE_OS_PAGES="1" if options.pages else "0")
    ours = ["taskset", "-c", str(options.core), "cargo", "bench", "-q", "-p",
            "thalweg-classifier", "--bench", "bloom"]
    with turns(peer) as (built, ask_peer), turns(ours, environment) as (_, ask_ours):
        samples = [(ask_peer(), ask_ours()) for _ in range(options.samples)]
    about = {"set": f"20 sub-tables of {per_table}", "traffic": "uniform"}
    costs = [sample["ns"] for sample, _ in samples]
    rows = [{**about, "classifier": "rte_member vBF and one rte_hash probe", "batch": 32, **built,
             "ns_per_lookup": spread(costs),
             "not_found": max(sample["not_found"] for sample, _ in samples)}]
    for place, layer in enumerate(options.layers.split(",")):
        for kind, batch in (("burst", 32), ("single", 1)):
            own = [layers[place][kind] for _, layers in samples]
            ratios = [cost / peer_cost for cost, peer_cost in zip(own, costs)]
            rows.append({**about, "classifier": layer, "batch": batch, "rules": built["rules"],
                         "ns_per_lookup": spread(own), "times_the_peer": spread(ratios)})
    return rows


def measure_subtables(options, program):
    """A filter and the probe behind it, over 20 sub-tables; ours take turns with it."""
    # Whatever has to be compiled is, before anybody's turn.
    subprocess.run(["cargo", "bench", "-q", "-p", "thalweg-classifier", "--bench", "bloom",
                    "--no-run"], check=True, cwd=HERE, stdout=sys.stderr)
    rows = []
    for per_table in map(int, options.subtables.split(",")):
        for row in rows_of_subtables(options, program, per_table):
            rows.append(row)
            ratio = row.get("times_the_peer", {"median": 1})["median"]
            print(f"{row['set']}, {row['classifier']}, {row['batch']} at once: "
                  f"{row['ns_per_lookup']}, {ratio:.2f}x", file=sys.stderr)
    return rows


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", default="acl1-1k,fw1-1k,ipc1-1k",
                        help="sets of IPv4 filters, as `thalweg bench classify --rules` takes them")
    parser.add_argument("--subtables", help="measure a filter before 20 sub-tables of so many rules "
                        "each, several sizes by commas, and nothing else")
    parser.add_argument("--layers", default="common bits",
                        help="what takes turns with it: rows of benches/bloom.rs, several by commas")
    parser.add_argument("--traffic", default="uniform", help="uniform, zipf, trace")
    parser.add_argument("--flows", type=int, default=262_144)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=int, default=7, choices=range(1, 64), metavar="N")
    parser.add_argument("--core", type=int, default=0, help="the processor to measure on")
    parser.add_argument("--pages", type=int, default=1024,
                        help="hugepages of 2 MB; 0 for ordinary memory, which is slower")
    parser.add_argument("--bytes", type=int, default=0,
                        help="the most memory of rte_acl's tries; 0 for its own choice")
    parser.add_argument("--seconds", type=int, default=300,
                        help="time for one set; large ones may never be built")
    parser.add_argument("--program", default=str(HERE.parents[1] / "target/release/thalweg"),
                        help="the program that generates filters and headers")
    parser.add_argument("--out", type=pathlib.Path, help="write JSON here, not to standard output")
    return parser.parse_args()


def main():
    """Installs, compiles, measures, and writes one JSON object."""
    options = parse_arguments()
    try:
        if not options.subtables and not pathlib.Path(options.program).exists():
            raise PeerError(f"{options.program} is missing; run: cargo build --release")
        install_packages()
        # Of those that are reserved the peer takes `pages`.
        pages = options.pages + (OUR_PAGES if options.subtables else 0)
        reserved = hugepages(pages) if options.pages else contextlib.nullcontext()
        with tempfile.TemporaryDirectory(prefix="peer-dpdk-") as name, reserved:
            folder = pathlib.Path(name)
            program, version = build(folder)
            rows = (measure_subtables(options, program) if options.subtables
                    else measure(options, program, folder))
    except (PeerError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    document = {"peer": "dpdk", "version": version, "command": " ".join(sys.argv),
                "machine": machine.describe(),
                "memory": "hugepages of 2 MB" if options.pages else "ordinary",
                "rows": [row for row in rows if "refused" not in row],
                "refused": [row for row in rows if "refused" in row]}
    text = json.dumps(document, indent=1)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
