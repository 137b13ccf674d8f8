#!/usr/bin/env python3
"""Sends captures through BMv2's simple_switch and through Thalweg, and compares what leaves.

    thalweg generate p4-entries --case 3 --count 1000 --packets 20000 --pcap in.pcap -o in.cmds
    bench/peers/simple_switch.py --bmv2 BUILD --p4 examples/p4/switch_3.json --entries in.cmds \\
        --captures in --out peer.json

    bench/peers/simple_switch.py --bmv2 BUILD --cases examples/p4 --out peer.json
    thalweg bench behavior --peer peer.json

    bench/peers/simple_switch.py --bmv2 BUILD --forms examples/p4 --out forms.json

    bench/peers/simple_switch.py --bmv2 BUILD --programs FOLDER --out programs.json

BUILD is where BMv2 was built from its public source. See README.md for what is compared.
"""

import argparse
import collections
import concurrent.futures
import copy
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import machine
from private_switch import PeerError

HERE = pathlib.Path(__file__).resolve().parent
FILE_HEADER = struct.Struct("<IHHiIII")
RECORD_HEADER = struct.Struct("<IIII")
# A program of v1model drops what finds 64 packets before it; nothing is to be dropped here.
QUEUE_PACKETS = 10_000_000


def read_capture(path):
    """The packets of a capture of microseconds or nanoseconds, in this machine's byte order."""
    data = path.read_bytes()
    # simple_switch leaves the capture of a port that sent nothing empty.
    if not data:
        return []
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        raise PeerError(f"{path}: this is no capture (pcap, little-endian)")
    packets, place = [], FILE_HEADER.size
    while place < len(data):
        length = RECORD_HEADER.unpack_from(data, place)[2]
        place += RECORD_HEADER.size
        packets.append(data[place:place + length])
        place += length
    return packets


def write_capture(path, packets):
    """Packets a microsecond apart, each at the time of its number."""
    with path.open("wb") as out:
        out.write(FILE_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, packet in packets:
            out.write(RECORD_HEADER.pack(number // 1_000_000, number % 1_000_000, len(packet),
                                         len(packet)) + packet)


def inputs_of(options):
    """By port: packets with their numbers, taken from the ports in turn."""
    pattern = re.compile(re.escape(options.captures.name) + r"-p(\d+)\.pcap")
    found = [(pattern.fullmatch(path.name), path)
             for path in sorted(options.captures.parent.glob("*.pcap"))]
    lists = {int(match.group(1)): read_capture(path) for match, path in found if match}
    if not lists:
        raise PeerError(f"there is no {options.captures}-pN.pcap; see `thalweg generate p4-entries`")
    inputs, number = collections.defaultdict(list), 0
    for place in range(max(map(len, lists.values()))):
        for port, packets in sorted(lists.items()):
            if place < len(packets):
                inputs[port].append((number, packets[place]))
                number += 1
    return inputs


def cpu_seconds(pid):
    """Processor time of all threads of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port():
    """A TCP port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def say(options, port, commands):
    """Gives commands to simple_switch_CLI; every answer that is an error ends the run."""
    folders = ["tools", "targets/simple_switch", "build/thrift_src/gen-py",
               "build/targets/simple_switch/gen-py"]
    environment = dict(os.environ, PYTHONPATH=":".join(str(options.bmv2 / one) for one in folders))
    done = subprocess.run([options.python, "-m", "sswitch_CLI", "--thrift-port", str(port)],
                          input=commands, capture_output=True, text=True, env=environment,
                          check=False)
    wrong = [line for line in done.stdout.splitlines()
             if re.search(r"(?i)\b(error|invalid|unknown|exception)\b", line)]
    if done.returncode or wrong:
        raise PeerError((wrong or done.stderr.strip().splitlines() or ["no answer"])[-1])


def wait_for(port, process):
    """Until the switch takes commands."""
    for _ in range(200):
        if process.poll() is not None:
            raise PeerError(f"simple_switch ended with {process.returncode}; does it load the program?")
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise PeerError("simple_switch does not listen")


def rest(process, files):
    """Until the switch has nothing to do; its processor time then."""
    before = None
    while True:
        now = (round(cpu_seconds(process.pid), 2), sum(file.stat().st_size for file in files))
        if now == before:
            return now[0]
        before = now
        time.sleep(1.5)


def simple_switch(options, folder, inputs, ports):
    """What leaves, by port, and the processor time from the first packet to the last."""
    interfaces = []
    for port in ports:
        write_capture(folder / f"{port}_in.pcap", inputs.get(port, []))
        interfaces += ["-i", f"{port}@{folder / str(port)}"]
    control = free_port()
    binary = options.bmv2 / "build/targets/simple_switch/simple_switch"
    command = [str(binary), "--thrift-port", str(control), "--use-files", str(options.wait),
               *interfaces, str(options.p4)]
    with (folder / "log").open("wb") as log:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(control, process)
        entries = options.entries.read_text() if options.entries else ""
        # simple_switch_CLI has no comments, and does a command again for each empty line.
        entries = re.sub(r"[ \t]*#.*", "", entries)
        entries = re.sub(r"\n\s*\n", "\n", entries).lstrip()
        say(options, control, f"set_queue_depth {QUEUE_PACKETS}\n{entries}")
        if time.monotonic() - began > options.wait - 0.5:
            raise PeerError(f"entries took longer than {options.wait} s; give more with --wait")
        loaded = cpu_seconds(process.pid)
        time.sleep(began + options.wait + 1.0 - time.monotonic())
        files = [folder / f"{port}_out.pcap" for port in ports]
        seconds = rest(process, files) - loaded
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    return {port: read_capture(folder / f"{port}_out.pcap") for port in ports}, seconds


def replay(options, captures, *more):
    """The processor time of the command."""
    entries = ["--entries", str(options.entries)] if options.entries else []
    command = [options.program, "replay", "--p4", str(options.p4), *entries, *captures,
               "--p4-cache", options.cache, *more]
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user - before.children_user
            + after.children_system - before.children_system)


def thalweg(options, folder, inputs):
    """What leaves, by port, and the processor time without that of loading."""
    captures = []
    for port, packets in inputs.items():
        path = folder / f"{port}_ours.pcap"
        write_capture(path, packets)
        captures += ["--pcap", f"{port}={path}"]
    empty = folder / "empty.pcap"
    write_capture(empty, [])
    loaded = replay(options, ["--pcap", str(empty)])
    seconds = replay(options, captures, "--out", str(folder / "ours")) - loaded
    sent = {int(path.stem): read_capture(path) for path in (folder / "ours").glob("*.pcap")}
    return sent, seconds


def compare(theirs, ours):
    """How many packets of the same place on the same port differ, and the first of them."""
    different, first = 0, None
    for port in sorted(set(theirs) | set(ours)):
        left, right = theirs.get(port, []), ours.get(port, [])
        for place in range(max(len(left), len(right))):
            pair = [side[place].hex() if place < len(side) else None for side in (left, right)]
            if pair[0] != pair[1]:
                different += 1
                first = first or {"port": port, "packet": place, "simple_switch": pair[0],
                                  "thalweg": pair[1]}
    return different, first


def measure(options):
    """One program: what both sent, and the microseconds that each needed for a packet."""
    with tempfile.TemporaryDirectory(prefix="peer-bmv2-") as name:
        folder = pathlib.Path(name)
        inputs = inputs_of(options)
        ours, our_seconds = thalweg(options, folder, inputs)
        theirs, their_seconds = simple_switch(options, folder, inputs, sorted({*inputs, *ours}))
    packets = sum(map(len, inputs.values()))
    different, first = compare(theirs, ours)
    return {"program": options.p4.name, "packets": packets, "sent": sum(map(len, ours.values())),
            "different": different, "first": first, "cache": options.cache,
            "us_per_packet": {"simple_switch": their_seconds / packets * 1e6,
                              "thalweg": our_seconds / packets * 1e6}}


def measure_cases(options):
    """The rows of `thalweg bench behavior --peer`: its own packet of each case, again and again."""
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="peer-cases-") as name:
        subprocess.run([options.program, "bench", "behavior", "--programs", str(options.cases),
                        "--packets", str(options.packets), "--write-inputs", name], check=True)
        for case in range(1, 5):
            options.p4, = options.cases.glob(f"*_{case}.json")
            options.entries = options.p4.with_suffix(".cmds")
            options.captures = pathlib.Path(name) / f"case_{case}"
            runs = [measure(options) for _ in range(options.samples)]
            spent = [run["us_per_packet"]["simple_switch"] * 1e3 for run in runs]
            wrong += sum(run["different"] for run in runs)
            rows.append({"case": str(case), "packets": options.packets,
                         "different": max(run["different"] for run in runs),
                         "ns_per_packet": {"median": statistics.median_low(spent),
                                           "min": min(spent), "max": max(spent)}})
    return {"rows": rows, "different": wrong}


def measure_forms(options):
    """B-Cache's figure 9 on simple_switch: each case without a cache, missing it and hitting it."""
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="peer-forms-") as name:
        folder = pathlib.Path(name)
        subprocess.run([options.program, "bench", "behavior", "--programs", str(options.forms),
                        "--packets", str(options.packets), "--write-inputs", name], check=True)
        for case in range(1, 5):
            plain, = options.forms.glob(f"*_{case}.json")
            entries, captures = plain.with_suffix(".cmds"), folder / f"case_{case}"
            cached, warm = folder / f"cached_{case}.json", folder / f"warm_{case}.cmds"
            subprocess.run([options.program, "p4", "cache", str(plain), "-o", str(cached)],
                           check=True, stdout=subprocess.DEVNULL)
            warm_up(options, plain, entries, captures, warm)
            filled = folder / f"filled_{case}.cmds"
            filled.write_text(entries.read_text() + "\n" + warm.read_text())
            options.captures = captures
            spent = collections.defaultdict(list)
            # Samples of the three take turns.
            for _ in range(options.samples):
                for cache, program, commands in (("off", plain, entries), ("miss", cached, entries),
                                                 ("hit", cached, filled)):
                    options.p4, options.entries = program, commands
                    run = measure(options)
                    wrong += run["different"]
                    spent[cache].append(run["us_per_packet"]["simple_switch"] * 1e3)
            rows += [{"case": str(case), "cache": cache, "packets": options.packets,
                      "behaviours": warm.read_text().count("table_add") if cache == "hit" else 0,
                      "ns_per_packet": {"median": statistics.median_low(samples),
                                        "min": min(samples), "max": max(samples)}}
                     for cache, samples in spent.items()]
    return {"rows": rows, "different": wrong}


def warm_up(options, program, entries, captures, warm):
    """Writes the entries that fill a program's cache with what a few of the packets do."""
    found = sorted(captures.parent.glob(f"{captures.name}-p*.pcap"))
    few = captures.parent / "few"
    few.mkdir(exist_ok=True)
    arguments = []
    for path in found:
        port = re.fullmatch(r".*-p(\d+)\.pcap", path.name).group(1)
        write_capture(few / path.name, list(enumerate(read_capture(path)[:1000])))
        arguments += ["--pcap", f"{port}={few / path.name}"]
    subprocess.run([options.program, "p4", "warm", str(program), "--entries", str(entries),
                    *arguments, "-o", str(warm)], check=True, stdout=subprocess.DEVNULL)


def packets_of(script):
    """By port: the packets of p4c's test script of a program, or one of any program."""
    lines = script.read_text().splitlines() if script.exists() else []
    words = [line.split("#")[0].split() for line in lines]
    packets = [(int(line[1]), "".join(line[2:])) for line in words if line[:1] == ["packet"]]
    inputs = collections.defaultdict(list)
    for number, (port, digits) in enumerate(packets or [(1, "00" * 64)]):
        inputs[port].append((number, bytes.fromhex(digits)))
    return inputs


def with_cache(options, program, folder):
    """Whether simple_switch sends with a cache in front what it sends without."""
    row = {"program": program.name}
    cached = folder / "cached.json"
    done = subprocess.run([options.program, "p4", "cache", str(program), "-o", str(cached)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return {**row, "refused": done.stderr.strip().removeprefix("thalweg: ")}
    inputs = packets_of(program.with_suffix(".stf"))
    captures = []
    for port, packets in inputs.items():
        # So often, they are hot.
        write_capture(folder / f"{port}.pcap", packets * 3)
        captures += ["--pcap", f"{port}={folder / f'{port}.pcap'}"]
    warm = folder / "warm.cmds"
    subprocess.run([options.program, "p4", "warm", str(program), *captures, "-o", str(warm)],
                   capture_output=True, check=True)
    ports = sorted({*inputs, *range(12)})
    sent = []
    for name, path, entries in (("plain", program, None), ("empty", cached, None),
                                ("filled", cached, warm)):
        (folder / name).mkdir()
        own = copy.copy(options)
        own.p4, own.entries, own.wait = path, entries, 3
        sent.append(simple_switch(own, folder / name, inputs, ports)[0])
    plain, *others = sent
    compared = [compare(plain, other) for other in others]
    behaviours = warm.read_text().count("table_add")
    return {**row, "packets": sum(map(len, inputs.values())),
            "sent": sum(map(len, plain.values())), "behaviours": behaviours,
            "different": sum(different for different, _ in compared),
            "first": next((first for _, first in compared if first), None)}


def measure_programs(options):
    """Programs with a cache in front, empty and filled, on simple_switch; none has entries."""
    def measured(program):
        with tempfile.TemporaryDirectory(prefix="peer-programs-") as name:
            try:
                return with_cache(options, program, pathlib.Path(name))
            except (PeerError, subprocess.CalledProcessError) as error:
                return {"program": program.name, "failed": str(error)}
    programs = sorted(options.programs.glob("*.json"))
    # They wait more than they work.
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(measured, programs))
    run = [row for row in rows if "sent" in row]
    return {"programs": len(rows), "run": len(run),
            "refused": sum("refused" in row for row in rows),
            "failed": sum("failed" in row for row in rows),
            "behaviours": sum(row["behaviours"] for row in run),
            "packets": sum(row["packets"] for row in run), "sent": sum(row["sent"] for row in run),
            "rows": rows, "different": sum(row["different"] for row in run)}


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bmv2", type=pathlib.Path, required=True,
                        help="BMv2's source, built in its folder `build`")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--p4", type=pathlib.Path, help="the program, as JSON")
    what.add_argument("--cases", type=pathlib.Path,
                      help="a folder with the four cases: rows for `thalweg bench behavior --peer`")
    what.add_argument("--forms", type=pathlib.Path,
                      help="the same folder: each case without a cache in the program, missing it "
                           "and hitting it")
    what.add_argument("--programs", type=pathlib.Path,
                      help="a folder of programs: each with a cache in front, and without")
    parser.add_argument("--packets", type=int, default=50_000, help="of each case")
    parser.add_argument("--samples", type=int, default=3, help="of each case")
    parser.add_argument("--entries", type=pathlib.Path, help="commands of simple_switch_CLI")
    parser.add_argument("--captures", type=pathlib.Path,
                        help="NAME of captures NAME-pN.pcap, one a port")
    parser.add_argument("--cache", default="off", choices=["off", "traversal", "behavior"],
                        help="what Thalweg remembers")
    parser.add_argument("--wait", type=int, default=10,
                        help="seconds that simple_switch gets for its entries")
    parser.add_argument("--python", default="/usr/bin/python3",
                        help="a Python that has thrift (Debian: python3-thrift)")
    parser.add_argument("--program", default=str(HERE.parents[1] / "target/release/thalweg"))
    parser.add_argument("--out", type=pathlib.Path, help="write JSON here, not to standard output")
    options = parser.parse_args()
    if options.p4 and not options.captures:
        parser.error("--p4 needs --captures")
    return options


def main():
    """Runs both, and writes one JSON object; ends with 1 if a packet differs."""
    options = parse_arguments()
    try:
        how = (measure_cases if options.cases else
               measure_forms if options.forms else
               measure_programs if options.programs else measure)
        found = how(options)
    except (PeerError, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    different = found["different"]
    document = {"peer": "simple_switch", "command": " ".join(sys.argv),
                "machine": machine.describe(), **found}
    text = json.dumps(document, indent=1)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text + "\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
