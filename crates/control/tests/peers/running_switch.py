"""A running switch with three taps and no program yet, for controllers that test it.

`run` makes it, hands the wires and the address to a controller, and looks how it ends. It wants a
network namespace of its own.
"""

import os
import select
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Callable

PATIENCE = 20
CPU_PORT = 510
ETHER_TYPE = 0x88B5

def configuration(folder: Path) -> Path:
    """A switch with three taps, and no program yet."""
    ports = "".join(
        f'[[port]]\nnumber = {number}\nname = "p4t{number}"\nkind = "tap"\n'
        for number in (1, 2, 3)
    )
    path = folder / "switch.toml"
    path.write_text(
        f'[switch]\nname = "br0"\n[p4]\ncpu_port = {CPU_PORT}\n'
        f'[p4runtime]\nlisten = "unix:br0.p4rt"\n{ports}'
    )
    return path


def frame(destination: int, source: int, payload: bytes = b"\xab" * 46) -> bytes:
    return destination.to_bytes(6, "big") + source.to_bytes(6, "big") + ETHER_TYPE.to_bytes(2, "big") + payload


class Wire:
    """A tap's other side."""

    def __init__(self, name: str):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHER_TYPE))
        self.socket.bind((name, ETHER_TYPE))
        self.socket.settimeout(PATIENCE)

    def send(self, packet: bytes) -> None:
        self.socket.send(packet)

    def receive(self) -> bytes:
        return self.socket.recv(2048)

    def has_more(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])


def run(program: str, control: Callable[[str, dict[int, Wire]], None]) -> None:
    """Runs the switch while a controller has it; both must end well."""
    program = os.path.abspath(program)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # The kernel's own packets would be counted too.
    for setting in Path("/proc/sys/net/ipv6/conf").glob("*/disable_ipv6"):
        setting.write_text("1")
    with tempfile.TemporaryDirectory() as temporary:
        config = configuration(Path(temporary))
        command = [program, "run", str(config)]
        switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            ready = switch.stdout.readline()
            assert ready.startswith("ready br0"), ready
            wires = {number: Wire(f"p4t{number}") for number in (1, 2, 3)}
            # gRPC's C core makes the path the authority of its calls, with slashes as `%2F`, which
            # servers in Rust refuse as the name of no host; so there are none in it.
            os.chdir(temporary)
            control("unix:br0.p4rt", wires)
        finally:
            switch.send_signal(signal.SIGTERM)
            rest = switch.communicate(timeout=PATIENCE)[0]
        print(rest)
        assert switch.returncode == 0, switch.returncode
        assert not os.path.exists("br0.p4rt"), "the socket is gone"
        os.chdir("/")
