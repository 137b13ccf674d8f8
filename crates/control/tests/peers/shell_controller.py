"""p4runtime-shell as the controller of a running switch: writes, reads, packets, and is refused.

Called as `finsy_controller.py` is. It is on PyPI, and needs protobuf below 3.21.
"""

import sys
from pathlib import Path

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

from running_switch import Wire, frame, run


def writes_and_reads(wires: dict[int, Wire]) -> None:
    group = sh.MulticastGroupEntry(1)
    for port in (1, 2, 3):
        group.add(port, 1)
    group.insert()
    entry = sh.TableEntry("ingress.dmac")(action="ingress.forward")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0b"
    entry.action["port"] = "2"
    entry.insert()
    wires[1].send(frame(0x0B, 0x0A))
    assert wires[2].receive() == frame(0x0B, 0x0A)
    assert not wires[3].has_more()
    found = [one for one in sh.TableEntry("ingress.dmac").read()]
    assert len(found) == 1, found
    assert found[0].action["port"].value == b"\x02", found
    counters = [one for one in sh.DirectCounterEntry("ingress.dmac_counter").read()]
    assert counters[0].packet_count == 1, counters
    counter = sh.CounterEntry("ingress.per_port")
    counter.index = 1
    assert [one.packet_count for one in counter.read()] == [1]
    entry.action["port"] = "3"
    entry.modify()
    wires[1].send(frame(0x0B, 0x0A))
    assert wires[3].receive() == frame(0x0B, 0x0A)
    try:
        entry.insert()
    except P4RuntimeWriteException as error:
        assert "ALREADY_EXISTS" in str(error), error
    else:
        raise AssertionError("an entry was inserted twice")
    entry.delete()
    wires[1].send(frame(0x0B, 0x0A))
    assert wires[2].receive() == wires[3].receive() == frame(0x0B, 0x0A)


def hears(wires: dict[int, Wire]) -> None:
    entry = sh.TableEntry("ingress.dmac")(action="ingress.to_controller")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0c"
    entry.insert()
    wires[3].send(frame(0x0C, 0x0A))
    heard = []
    sh.PacketIn().sniff(lambda message: heard.append(message.packet), timeout=1)
    assert [packet.payload for packet in heard] == [frame(0x0C, 0x0A)], heard
    packet = sh.PacketOut(payload=frame(0x0D, 0x0E))
    packet.metadata["egress_port"] = "2"
    packet.metadata["unused"] = "0"
    packet.send()
    assert wires[2].receive() == frame(0x0D, 0x0E)


def main() -> None:
    folder = Path(sys.argv[2]).resolve()
    config = sh.FwdPipeConfig(
        str(folder / "learning.p4info.txtpb"), str(folder / "learning.json")
    )

    def control(address: str, wires: dict[int, Wire]) -> None:
        sh.setup(device_id=1, grpc_addr=address, election_id=(0, 1), config=config, verbose=False)
        writes_and_reads(wires)
        hears(wires)
        sh.teardown()
        print("p4runtime-shell: wrote, read, was refused, exchanged packets")

    run(sys.argv[1], control)


main()
