"""finsy as the controller of a running switch: learns, reads, takes over, replaces the pipeline.

Called with the program `thalweg` and the folder of `learning.json`, in a network namespace of its
own (it makes tap interfaces). It ends with 0 if everything was as it should be, and prints what
was done. finsy is on PyPI; nothing but it is needed.
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy

from running_switch import PATIENCE, Wire, frame, run

async def received(wire: Wire) -> bytes:
    """What comes next; waits on a thread, as digests must be heard meanwhile."""
    return await asyncio.to_thread(wire.receive)


async def learns(switch: fy.Switch, wires: dict[int, Wire]) -> None:
    """A station is learned by a digest, and packets to it go to its port alone."""
    await switch.write(
        [
            +fy.P4MulticastGroupEntry(1, replicas=[1, 2, 3]),
            +fy.P4DigestEntry(
                "learned_t", max_list_size=1, max_timeout_ns=10**6, ack_timeout_ns=10**9
            ),
        ]
    )
    digests = switch.read_digests("learned_t")
    next_list = asyncio.ensure_future(anext(digests))
    await asyncio.sleep(0)
    wires[1].send(frame(0x0B, 0x0A))
    # Not known yet: it goes everywhere but back.
    assert await received(wires[2]) == frame(0x0B, 0x0A)
    assert await received(wires[3]) == frame(0x0B, 0x0A)
    learned = await asyncio.wait_for(next_list, PATIENCE)
    station = learned.data[0]
    assert (station["mac"], station["port"]) == (0x0A, 1), station
    match = fy.P4TableMatch({"hdr.ethernet.src": station["mac"]})
    place = fy.P4TableMatch({"hdr.ethernet.dst": station["mac"]})
    await switch.write(
        [
            +fy.P4TableEntry("smac", match=match, action=fy.P4TableAction("NoAction")),
            +fy.P4TableEntry(
                "dmac", match=place, action=fy.P4TableAction("forward", port=station["port"])
            ),
            learned.ack(),
        ]
    )
    for _ in range(5):
        wires[2].send(frame(0x0A, 0x0B))
        assert await received(wires[1]) == frame(0x0A, 0x0B)
    assert not wires[3].has_more(), "only the port of the station gets it"
    await digests.aclose()


async def counts(switch: fy.Switch) -> None:
    """Counters and registers are what the packets made of them."""
    entries = [
        entry
        async for entry in switch.read(
            fy.P4TableEntry("dmac", counter_data=fy.P4CounterData())
        )
    ]
    assert len(entries) == 1, entries
    assert entries[0].counter_data.packet_count == 5, entries[0]
    assert entries[0].counter_data.byte_count == 5 * 60, entries[0]
    direct = [entry async for entry in switch.read(fy.P4DirectCounterEntry("dmac_counter"))]
    assert direct[0].packet_count == 5, direct
    counter = [entry async for entry in switch.read(fy.P4CounterEntry("per_port", index=2))]
    assert counter[0].packet_count == 5, counter
    register = [entry async for entry in switch.read(fy.P4RegisterEntry("last_port", index=0))]
    assert register[0].data == 2, register


async def exchanges_packets(switch: fy.Switch, wires: dict[int, Wire]) -> None:
    """Packets for the controller come with the port, and the controller's leave by theirs."""
    place = fy.P4TableMatch({"hdr.ethernet.dst": 0x0C})
    entry = fy.P4TableEntry("dmac", match=place, action=fy.P4TableAction("to_controller"))
    await switch.write([+entry])
    packets = switch.read_packets()
    next_packet = asyncio.ensure_future(anext(packets))
    await asyncio.sleep(0)
    wires[3].send(frame(0x0C, 0x0A))
    packet = await asyncio.wait_for(next_packet, PATIENCE)
    assert packet.payload == frame(0x0C, 0x0A), packet
    assert packet["ingress_port"] == 3, packet
    await switch.write([fy.P4PacketOut(frame(0x0D, 0x0E), egress_port=2, unused=0)])
    assert await received(wires[2]) == frame(0x0D, 0x0E)
    await packets.aclose()


async def is_refused(switch: fy.Switch) -> None:
    """A batch with a wrong update says which one, and does the others."""
    match = [fy.P4TableMatch({"hdr.ethernet.dst": number}) for number in (0x0A, 0x1A)]
    flood = fy.P4TableAction("flood")
    entries = [fy.P4TableEntry("dmac", match=one, action=flood) for one in match]
    try:
        await switch.write([+entry for entry in entries])
    except fy.P4ClientError as error:
        assert error.details[0].canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS, error
        assert 1 not in error.details, error
    else:
        raise AssertionError("an entry was inserted twice")
    await switch.write([-fy.P4TableEntry("dmac", match=match[1])])


async def controls(address: str, folder: Path, wires: dict[int, Wire]) -> None:
    options = fy.SwitchOptions(
        p4info=folder / "learning.p4info.txtpb",
        p4blob=folder / "learning.json",
        initial_election_id=10,
    )
    async with fy.Switch("primary", address, options) as switch:
        assert switch.is_primary
        await learns(switch, wires)
        await counts(switch)
        await exchanges_packets(switch, wires)
        await is_refused(switch)
        print("one controller: learned, counted, exchanged packets, was refused")
        # A second one stands by, and takes over when the first is gone.
        backup = fy.Switch("backup", address, options(initial_election_id=5))
        events = asyncio.Event()
        backup.ee.add_listener(fy.SwitchEvent.BECOME_PRIMARY, lambda _: events.set())
        task = asyncio.ensure_future(backup.run())
        await until(lambda: backup.is_up)
        assert not backup.is_primary and switch.is_primary
    await asyncio.wait_for(events.wait(), PATIENCE)
    await until(lambda: backup.is_up and backup.is_primary)
    found = [entry async for entry in backup.read(fy.P4TableEntry("dmac"))]
    assert len(found) == 2, "the entries of the first one are there"
    await backup.delete_all()
    assert not [entry async for entry in backup.read(fy.P4TableEntry("dmac"))]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    print("two controllers: one took over from the other")
    # A third replaces the pipeline: the state is gone with it.
    forced = options(p4force=True, initial_election_id=30)
    async with fy.Switch("third", address, forced) as switch:
        assert switch.is_primary
        await learns(switch, wires)
        await counts(switch)
    print("the pipeline was replaced")


async def until(holds) -> None:
    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), PATIENCE)


def main() -> None:
    folder = Path(sys.argv[2]).resolve()
    run(sys.argv[1], lambda address, wires: asyncio.run(controls(address, folder, wires)))


main()
