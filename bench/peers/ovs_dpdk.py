#!/usr/bin/env python3
"""Measures Open vSwitch with DPDK, as Debian ships it, on the cases of `thalweg bench forward`.

    sudo bench/peers/ovs_dpdk.py --out peer.json          # all cases, about three minutes
    sudo bench/peers/ovs_dpdk.py --case megaflow          # one kind
    bench/peers/ovs_dpdk.py --write-inputs DIR            # captures and rules only
    sudo bench/peers/ovs_dpdk.py --pcap F --rules F       # traffic and rules of one's own

The cost of a packet is the processor time of the polling thread over the packets it received,
in windows while it is saturated; see README.md for what that includes and for the traps.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import workloads
from private_switch import (PeerError, PrivateSwitch, find_thread, hugepages, install_packages,
                            thread_cpu_ns)

HUGEPAGE_COUNT = 1024
FLOW_COUNTS = [1, 4_000, 200_000]
MASK_COUNTS = [1, 5, 20]
MASK_PACKETS = 100_000
UPCALL_PACKETS = 200_000
CASES = ["io", "exact-match", "megaflow", "upcall"]


def spread(values):
    """The three figures every benchmark of the project prints."""
    return {
        "median": round(statistics.median(values), 2),
        "min": round(min(values), 2),
        "max": round(max(values), 2),
    }


def windows(snapshot, count, seconds):
    """Cost per packet in `count` windows; `snapshot` gives processor time and packets."""
    costs = []
    before = snapshot()
    while len(costs) < count:
        time.sleep(seconds)
        after = snapshot()
        if after[1] <= before[1]:
            raise PeerError("no packets arrived in a window: the source has run dry")
        costs.append((after[0] - before[0]) / (after[1] - before[1]))
        before = after
    return costs


def poll_counter(text, label):
    """One counter of the first polling thread in the output of `pmd-stats-show`."""
    section = text[text.index("pmd thread"):]
    return int(re.search(label + r": (\d+)", section).group(1))


def switch_snapshot(switch, label="packets received"):
    """Processor time in the middle of the request, and the counter."""
    before = switch.poll_thread_cpu_ns()
    text = switch.control("dpif-netdev/pmd-stats-show")
    after = switch.poll_thread_cpu_ns()
    return (before + after) / 2, poll_counter(text, label)


def hit_shares(switch):
    """Per cent of the packets that each cache answered since the counters were cleared."""
    text = switch.control("dpif-netdev/pmd-perf-show")
    shares = {}
    for key, label in [("exact_match", "EMC hits"), ("signature_match", "SMC hits"),
                       ("megaflow", "Megaflow hits"), ("upcall", "Upcalls")]:
        found = re.search(label + r":.*?\(\s*([0-9.]+) %", text)
        shares[key] = float(found.group(1)) if found else 0.0
    return shares


def installed_masks(switch):
    """How many distinct masks the megaflows have."""
    masks = set()
    for line in switch.control("dpctl/dump-flows", "-m").splitlines():
        if not line.startswith("ufid:"):
            continue
        key = line.split(", packets:")[0]
        key = re.sub(r"ufid:\S+ ", "", key)
        masks.add(re.sub(r"=[^/,()]+/", "=/", re.sub(r"=[^/,()]+(?=[,)])", "=", key)))
    return len(masks)


def measure_hits(options, case, flows, masks, capture, rules, exact_match):
    """A row for traffic that hits a cache; `exact_match` switches the first cache on."""
    with PrivateSwitch(options.cores, options.daemon) as switch:
        switch.set_options(**{"emc-insert-inv-prob": "1" if exact_match else "0"})
        switch.load_rules(rules)
        switch.control("upcall/set-flow-limit", "2000000")
        switch.add_source(capture, is_endless=True)
        time.sleep(options.warm_up)
        switch.control("dpif-netdev/pmd-stats-clear")
        costs = windows(lambda: switch_snapshot(switch), options.windows, options.seconds)
        seen = installed_masks(switch)
        if masks is not None and seen != masks:
            raise PeerError(f"{case}: {masks} masks were meant, {seen} are installed")
        return {"case": case, "flows": flows, "masks": seen, "ns_per_packet": spread(costs),
                "hit_per_cent": hit_shares(switch)}


def measure_upcalls(options, inputs):
    """A row for packets that all miss, and the memory of the megaflows they leave behind."""
    with PrivateSwitch(options.cores, options.daemon) as switch:
        switch.set_options(**{"emc-insert-inv-prob": "0"})
        switch.load_rules(inputs / "pipeline.rules")
        switch.control("upcall/set-flow-limit", "2000000")
        memory_before = switch.resident_bytes()
        switch.add_source(inputs / "sources.pcap", is_endless=False)
        costs = []
        before = switch_snapshot(switch, "miss with success upcall")
        while before[1] < UPCALL_PACKETS * 95 // 100:
            # The limit adapts downwards as sweeps take long; it must never be what is measured.
            switch.control("upcall/set-flow-limit", "2000000")
            time.sleep(options.seconds)
            after = switch_snapshot(switch, "miss with success upcall")
            if after[1] <= before[1]:
                raise PeerError("upcalls stopped before the capture ended; see the flow limit")
            if after[1] < UPCALL_PACKETS:
                costs.append((after[0] - before[0]) / (after[1] - before[1]))
            before = after
        time.sleep(1)
        found = re.search(r"flows: (\d+)", switch.control("dpctl/show"))
        installed = int(found.group(1))
        memory = (switch.resident_bytes() - memory_before) / installed
        if len(costs) < 5:
            raise PeerError(f"only {len(costs)} windows of upcalls: use --seconds of less")
        return {"case": "upcall", "flows": installed, "masks": installed_masks(switch),
                "ns_per_packet": spread(costs), "bytes_per_megaflow": round(memory)}


class ForwardingProgram:
    """`dpdk-testpmd` that moves packets from a capture to a null device and looks at none."""

    def __init__(self, cores, capture):
        main_core, poll_core = cores
        command = ["dpdk-testpmd", "-l", f"{main_core},{poll_core}", "--main-lcore",
                   str(main_core), "--no-pci", "--in-memory", "--no-telemetry", "-m", "1024",
                   f"--vdev=net_pcap0,rx_pcap={capture},infinite_rx=1",
                   "--vdev=net_null1,no-rx=1", "--", "--nb-cores=1", "--forward-mode=io",
                   "--auto-start", "--total-num-mbufs=262144", "-i"]
        # A terminal, because the program would keep back what it writes to a pipe.
        reader, writer = os.openpty()
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writer,
                                      stderr=writer, text=True)
        os.close(writer)
        self.output = os.fdopen(reader, encoding="utf-8", errors="replace")

    def received(self):
        """Packets received so far by the first port."""
        self.child.stdin.write("show port stats 0\n")
        self.child.stdin.flush()
        with contextlib.suppress(OSError):  # The terminal is gone when the program is.
            for line in self.output:
                found = re.search(r"RX-packets:\s+(\d+)", line)
                if found:
                    return int(found.group(1))
        raise PeerError("dpdk-testpmd ended early: are there hugepages?")

    def snapshot(self, thread):
        """Processor time in the middle of the request, and packets."""
        before = thread_cpu_ns(self.child.pid, thread)
        packets = self.received()
        return (before + thread_cpu_ns(self.child.pid, thread)) / 2, packets

    def close(self):
        """Asks the program to end; insists after a while."""
        try:
            self.child.communicate("stop\nquit\n", timeout=15)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.child.kill()
            self.child.wait()
        self.output.close()


def measure_io(options, flows, capture):
    """A row for the cost of the source and the sink alone, which every other row includes."""
    program = ForwardingProgram(options.cores, capture)
    try:
        program.received()
        time.sleep(options.warm_up)
        for name in ["rte-worker", "lcore-worker"]:
            try:
                thread = find_thread(program.child.pid, name)
                break
            except PeerError:
                thread = None
        if thread is None:
            raise PeerError("dpdk-testpmd has no worker thread")
        costs = windows(lambda: program.snapshot(thread), options.windows, options.seconds)
    finally:
        program.close()
    return {"case": "io", "flows": flows, "masks": 0, "ns_per_packet": spread(costs)}


def capture_packets(flows):
    """Enough packets that their order does not matter, few enough that they fit the pool."""
    return 1000 if flows == 1 else max(20_000, flows)


def write_inputs(folder):
    """Every capture and rules file of the standard cases."""
    folder.mkdir(parents=True, exist_ok=True)
    for flows in FLOW_COUNTS:
        workloads.write_flow_capture(folder / f"flows_{flows}.pcap", capture_packets(flows), flows)
    for masks in MASK_COUNTS:
        workloads.write_mask_capture(folder / f"masks_{masks}.pcap", MASK_PACKETS, masks)
        workloads.write_mask_rules(folder / f"masks_{masks}.rules", masks)
    workloads.write_source_capture(folder / "sources.pcap", UPCALL_PACKETS)
    workloads.write_port_rules(folder / "port.rules")
    workloads.write_pipeline_rules(folder / "pipeline.rules")


def standard_rows(options, inputs):
    """The rows of the chosen standard cases, one after the other."""
    if "io" in options.case:
        for flows in FLOW_COUNTS:
            yield measure_io(options, flows, inputs / f"flows_{flows}.pcap")
    if "exact-match" in options.case:
        for flows in FLOW_COUNTS:
            yield measure_hits(options, "exact-match", flows, 1, inputs / f"flows_{flows}.pcap",
                               inputs / "port.rules", exact_match=True)
    if "megaflow" in options.case:
        for masks in MASK_COUNTS:
            yield measure_hits(options, "megaflow", MASK_PACKETS, masks,
                               inputs / f"masks_{masks}.pcap", inputs / f"masks_{masks}.rules",
                               exact_match=False)
    if "upcall" in options.case:
        yield measure_upcalls(options, inputs)


def parse_arguments():
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", choices=CASES, help="default: all")
    parser.add_argument("--windows", type=int, default=7, help="windows per row, at least 5")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of a window")
    parser.add_argument("--warm-up", type=float, default=2.5, help="seconds before the first")
    parser.add_argument("--cores", default="0,1", help="main core and polling core")
    parser.add_argument("--daemon", default=PrivateSwitch.__init__.__defaults__[0],
                        help="another build of ovs-vswitchd with DPDK")
    parser.add_argument("--pcap", type=pathlib.Path, help="traffic of one's own")
    parser.add_argument("--rules", type=pathlib.Path, help="rules of one's own")
    parser.add_argument("--exact-match", action="store_true", help="with --pcap: use the EMC")
    parser.add_argument("--write-inputs", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--out", type=pathlib.Path, help="default: standard output")
    options = parser.parse_args()
    if options.windows < 5:
        parser.error("--windows must be at least 5")
    if (options.pcap is None) != (options.rules is None):
        parser.error("--pcap and --rules go together")
    options.cores = [int(core) for core in options.cores.split(",")]
    if len(options.cores) != 2:
        parser.error("--cores takes two numbers, as in 0,1")
    options.case = options.case or CASES
    return options


def measure(options, inputs):
    """All rows asked for, each printed on standard error as it is known."""
    rows = []
    if options.pcap is not None:
        produced = iter([measure_hits(options, "custom", None, None, options.pcap.resolve(),
                                      options.rules.resolve(), options.exact_match)])
    else:
        produced = standard_rows(options, inputs)
    for row in produced:
        rows.append(row)
        cost = row["ns_per_packet"]
        print(f"{row['case']:12} flows {row['flows']} masks {row['masks']}: median "
              f"{cost['median']} ns ({cost['min']} to {cost['max']}) "
              f"{row.get('hit_per_cent', '')}", file=sys.stderr)
    return rows


def main():
    """Sets up, measures, writes one JSON object, and leaves the machine as it was."""
    options = parse_arguments()
    if options.write_inputs is not None:
        write_inputs(options.write_inputs)
        return 0
    try:
        install_packages()
        with tempfile.TemporaryDirectory(prefix="peer-inputs-") as name, \
                hugepages(HUGEPAGE_COUNT):
            inputs = pathlib.Path(name)
            if options.pcap is None:
                write_inputs(inputs)
            rows = measure(options, inputs)
            version = subprocess.run([options.daemon, "--version"], capture_output=True,
                                     text=True, check=True).stdout.split("\n")[0].split()[-1]
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    document = {"peer": "openvswitch-dpdk", "version": version,
                "command": " ".join(sys.argv), "machine": machine.describe(), "rows": rows}
    text = json.dumps(document, indent=1)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
