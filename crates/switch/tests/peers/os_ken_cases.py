"""Writes os-ken's switch tests of OpenFlow 1.3 as JSON: messages and packets in hexadecimal.

The cases are JSON files in the package. os-ken makes bytes of them: its OpenFlow library of
the messages, its packet library of the packets. `os_ken.rs` says how a case is run.

    os_ken_cases.py OUTPUT

Random packets are drawn from one seed, so that every run writes the same file.
"""

import importlib
import inspect
import json
import os
import pathlib
import pkgutil
import random
import sys

import netaddr
import os_ken.lib.packet
from os_ken.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_3

# Packets of a stream.
SAMPLES = 4000

# Names of the cases for classes that several modules have.
ALIASES = {
    ("ipv6", "option"): "ipv6option",
    ("icmpv6", "echo"): "icmpv6echo",
    ("dhcp", "option"): "dhcpoption",
    ("dhcp", "options"): "dhcpoptions",
}

PORTS = {
    "target_recv_port": 1,
    "target_send_port_1": 2,
    "target_send_port_2": 3,
    "tester_send_port": 1,
    "tester_recv_port_1": 2,
    "tester_recv_port_2": 3,
}


def packet_names(rng):
    """Returns the names that packets in the cases use."""
    names = {"netaddr": netaddr, "randint": rng.randint}
    folder = os_ken.lib.packet
    for info in pkgutil.iter_modules(folder.__path__):
        module = importlib.import_module(f"{folder.__name__}.{info.name}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__:
                names[ALIASES.get((info.name, name), name)] = kind
    return names


def packet(parts, names):
    """Returns a packet, the headers of which are joined by `/`."""
    made = eval("/".join(parts), names)  # The cases are Python expressions.
    made.serialize()
    return bytes(made.data).hex()


def with_port_numbers(value):
    """Replaces the names of ports."""
    if isinstance(value, dict):
        return {key: with_port_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_port_numbers(part) for part in value]
    return PORTS.get(value, value) if isinstance(value, str) else value


def message(described):
    """Returns an OpenFlow message."""
    protocol = ofproto_protocol.ProtocolDesc(ofproto_v1_3.OFP_VERSION)
    made = ofproto_parser.ofp_msg_from_jsondict(protocol, described)
    made.set_xid(0)
    made.serialize()
    return bytes(made.buf).hex()


def expected_shares(described, sent):
    """Returns the part of the packets that each port gets."""
    shares = []
    for share in described["throughput"]:
        (field,) = share["OFPMatch"]["oxm_fields"]
        assert field["OXMTlv"]["field"] == "in_port", share
        rate = share["kbps"] * 1024 / 8 / sent["bytes"] if "kbps" in share else share["pktps"]
        shares.append([field["OXMTlv"]["value"], rate / sent["pktps"]])
    return shares


def split_tail(packets):
    """Splits off the bytes that all packets end with."""
    tail = os.path.commonprefix([packet[::-1] for packet in packets])[::-1]
    tail = tail[len(tail) % 2 :]
    return [packet[: len(packet) - len(tail)] for packet in packets], tail


def stream(described, names, is_metered):
    """Returns a step of many packets, of which counts are compared; rates need a clock."""
    sent = described["ingress"]["packets"]
    is_random = any("randint" in part for part in sent["data"])
    packets = [packet(sent["data"], names) for _ in range(SAMPLES if is_random else 1)]
    sent = {"bytes": len(packets[0]) / 2, "pktps": sent["pktps"]}
    heads, tail = split_tail(packets)
    return {
        "packets": heads,
        "tail": tail,
        "rounds": SAMPLES // len(packets),
        "expected": "rates" if is_metered else {"shares": expected_shares(described["egress"], sent)},
    }


def step(described, names, is_metered):
    """Returns one step: packets, and what becomes of them."""
    if isinstance(described["ingress"], dict):
        return stream(described, names, is_metered)
    # The second packet meets what the switch remembers of the first.
    done = {"packets": [packet(described["ingress"], names)], "tail": "", "rounds": 2}
    if "egress" in described:
        done["expected"] = {"egress": packet(described["egress"], names)}
    elif "PACKET_IN" in described:
        done["expected"] = {"packet_in": packet(described["PACKET_IN"], names)}
    else:
        done["expected"] = {"table_miss": described["table-miss"]}
    return done


def cases(folder, names):
    """Returns the cases of the folder, sorted by file."""
    for path in sorted(folder.rglob("*.json")):
        descriptions = json.loads(path.read_text())
        for described in descriptions:
            if isinstance(described, str):
                continue
            described = with_port_numbers(described)
            messages = described["prerequisite"]
            is_metered = any("OFPMeterMod" in part for part in messages)
            yield {
                "file": str(path.relative_to(folder).with_suffix("")),
                "name": described["description"],
                "messages": [message(part) for part in messages],
                "steps": [step(part, names, is_metered) for part in described["tests"]],
            }


def main():
    """Writes the file."""
    folder = pathlib.Path(os_ken.__file__).parent / "tests/switch/of13"
    names = packet_names(random.Random(1))
    text = json.dumps(list(cases(folder, names)))
    pathlib.Path(sys.argv[1]).write_text(text)


main()
