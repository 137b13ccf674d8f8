#!/usr/bin/env python3
"""Measures ns-3, as Debian ships it, beside the fabric's simulator: the same tree, flows and TCP.

    cargo build --release -p thalweg-fabric --example trace
    sudo bench/peers/ns3.py --traces FOLDER --out ns3.json
    bench/peers/ns3.py --traces FOLDER --before-us 1000 --runs 3

FOLDER has the published hadoop.csv.gz and placement_n128_v80.json.gz of SwitchV2P. There is no
virtual network in either: hosts know each other's addresses. See README.md for what is compared.
"""

import argparse
import gzip
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

import machine
from private_switch import PeerError

HERE = pathlib.Path(__file__).resolve().parent
HEADER_FILE = pathlib.Path("/usr/include/ns3/tcp-cubic.h")
PACKAGES = ["libns3-dev", "g++"]
LIBRARIES = ["-lns3-point-to-point", "-lns3-internet", "-lns3-network", "-lns3-core"]
MACHINES_PER_SERVER = 80
TRACE = "hadoop.csv.gz"


def install_packages():
    """Installs what is missing with apt, as root; says what to run where that is not allowed."""
    if HEADER_FILE.exists() and shutil.which("g++"):
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PeerError(f"ns-3's headers are missing; run: {' '.join(command)}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update"], check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    if not HEADER_FILE.exists():
        raise PeerError(f"still missing after the installation: {HEADER_FILE}")


def version():
    """What Debian says of the package."""
    answer = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libns3-dev"],
                            capture_output=True, text=True, check=True)
    return answer.stdout


def write_flows(traces, before_us, limit, path):
    """Writes the flows between servers that start in time; returns how many there are."""
    count = 0
    with gzip.open(traces / TRACE, "rt") as lines, open(path, "w") as flows:
        for line in lines:
            source, destination, start, _, size = (int(float(text)) for text in line.split(","))
            if start < before_us * 1000:
                servers = source // MACHINES_PER_SERVER, destination // MACHINES_PER_SERVER
                flows.write(f"{servers[0]},{servers[1]},{start},{min(size, limit)}\n")
                count += 1
    return count


def run(command):
    """Runs a program that prints one JSON object; adds the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(answer.stdout)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # ns-3's own figure leaves out what it takes to build.
    result.setdefault("processor_seconds", seconds)
    result["hops_per_processor_second"] = result["packet_hops"] / result["processor_seconds"]
    return result


def spread(results, key):
    """Median, least and greatest."""
    values = [result[key] for result in results]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def row(name, results):
    """A row of the table."""
    last = results[-1]
    return {"case": name, "flows": last["flows"], "packets": last["packets"],
            "packet_hops": last["packet_hops"], "mean_fct_us": last["mean_fct_us"],
            "hops_per_processor_second": spread(results, "hops_per_processor_second")}


def measure(arguments):
    """Both programs in turn; the rows and what they come to."""
    with tempfile.TemporaryDirectory(prefix="thalweg-ns3-") as folder:
        folder = pathlib.Path(folder)
        flows = folder / "flows"
        count = write_flows(arguments.traces, arguments.before_us, arguments.size_limit, flows)
        if count == 0:
            raise PeerError(f"{TRACE}: no flow starts before {arguments.before_us} µs")
        peer = folder / "ns3_fabric"
        subprocess.run(["g++", "-O3", "-std=c++17", "-o", str(peer), str(HERE / "ns3_fabric.cc"),
                        *LIBRARIES], check=True)
        ours = [str(arguments.program), str(arguments.traces), TRACE, "plain", "50",
                str(arguments.before_us), str(arguments.size_limit)]
        results = {"ns-3": [], "thalweg": []}
        for turn in range(arguments.runs):
            results["ns-3"].append(run([str(peer), str(flows)]))
            results["thalweg"].append(run(ours))
            print(f"run {turn + 1} of {arguments.runs}", file=sys.stderr)
    rows = [row(name, of_peer) for name, of_peer in results.items()]
    rates = [one["hops_per_processor_second"]["median"] for one in rows]
    return {"peer": "ns-3", "version": version(), "command": sys.argv,
            "machine": machine.describe(), "rows": rows,
            "hops_ratio": rates[1] / rates[0],
            "fct_ratio": rows[1]["mean_fct_us"] / rows[0]["mean_fct_us"]}


def main():
    root = HERE.parent.parent
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=pathlib.Path, required=True, help="the traces' folder")
    parser.add_argument("--before-us", type=int, default=300, help="flows that start before")
    parser.add_argument("--size-limit", type=int, default=1 << 40, help="cut flows to so many bytes")
    parser.add_argument("--runs", type=int, default=5, help="of each program, in turn")
    parser.add_argument("--program", type=pathlib.Path,
                        default=root / "target/release/examples/trace", help="ours")
    parser.add_argument("--out", type=pathlib.Path, help="write the JSON here, too")
    arguments = parser.parse_args()
    try:
        if not arguments.program.exists():
            raise PeerError(f"{arguments.program} is missing; run: cargo build --release "
                            "-p thalweg-fabric --example trace")
        install_packages()
        result = measure(arguments)
    except PeerError as error:
        sys.exit(f"ns3: {error}")
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
