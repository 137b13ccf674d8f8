"""A private Open vSwitch without network cards: frames are handed to its ports by hand.

It has Debian's ordinary daemon, its datapath in user space, and ports of the type `dummy`, which
Open vSwitch's own tests use. Frames come in through the control socket, one connection for all.
The thread that takes them from there is not the one that revalidates.
"""

import json
import pathlib
import re
import shutil
import socket
import time

from private_switch import PeerError, PrivateSwitch, thread_cpu_ns

PACKAGES = ["openvswitch-switch"]
# So long without processor time, revalidators rest; so often is looked.
REST_SECONDS = 0.3
LOOK_SECONDS = 0.005
REST_LIMIT_SECONDS = 120


class DummySwitch(PrivateSwitch):
    """One bridge `br0` with these ports, each named after its number: `p1`, `p2`, ..."""

    datapath_type = "dummy"
    daemon_arguments = ("--enable-dummy", "--disable-system", "--disable-system-route")

    def __init__(self, ports, daemon=None):
        super().__init__(cores=None, daemon=daemon or shutil.which("ovs-vswitchd"))
        self.ports = ports
        self.requests = None

    def _extra_options(self):
        return {}

    def _add_first_ports(self):
        for port in self.ports:
            name = f"p{port}"
            self._configure("add-port", "br0", name, "--", "set", "Interface", name, "type=dummy",
                            f"ofport_request={port}")
        self.requests = Requests(self.folder / "vswitchd.ctl")

    def _stop(self):
        if self.requests is not None:
            self.requests.close()
        super()._stop()

    def control(self, *command):
        """`ovs-appctl` to the daemon, on one connection."""
        return self.requests.ask(*command)

    def receive(self, frames):
        """Hands frames to their ports: pairs of a port and bytes in hexadecimal."""
        by_port = {}
        for port, frame in frames:
            by_port.setdefault(port, []).append(frame)
        for port, of_port in by_port.items():
            self.control("netdev-dummy/receive", f"p{port}", *of_port)

    def wait_for_datapath(self):
        """Waits until the frames handed over are forwarded: a port holds a hundred, and the daemon
        takes another connection only after it has served the datapath."""
        another = Requests(self.folder / "vswitchd.ctl")
        another.ask("version")
        another.close()

    def change(self, command, strict, argument):
        """One change of the rules by `ovs-ofctl`."""
        words = ["-O", "OpenFlow15", *([strict] if strict else []), command]
        self._run("ovs-ofctl", *words, self.folder / "br0.mgmt", argument)

    def command(self, command, *arguments):
        """What an `ovs-ofctl` command on the bridge prints."""
        return self._run("ovs-ofctl", "-O", "OpenFlow15", command, self.folder / "br0.mgmt",
                         *arguments)

    def megaflows(self):
        """Megaflows of the datapath."""
        return int(re.search(r"flows\s*: \(current (\d+)\)", self.control("upcall/show")).group(1))

    def dump_duration_ms(self):
        """The daemon's own figure for its last sweep."""
        return int(re.search(r"dump duration : (\d+)ms", self.control("upcall/show")).group(1))

    def sweeps(self):
        """Sweeps that changes of rules have made necessary so far."""
        return int(self.control("coverage/read-counter", "rev_flow_table"))

    def revalidator_cpu_ns(self):
        """Processor time of all threads that revalidate."""
        tasks = pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()
        found = [int(task.name) for task in tasks
                 if (task / "comm").read_text().startswith("revalidator")]
        if not found:
            raise PeerError("the daemon has no thread named revalidator*")
        return sum(thread_cpu_ns(self.daemon.pid, thread) for thread in found)

    def cpu_ns(self):
        """Processor time of all threads of the daemon."""
        tasks = pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()
        return sum(thread_cpu_ns(self.daemon.pid, int(task.name)) for task in tasks)

    def wait_for_rest(self, sweeps_after=None):
        """Waits until revalidators rest, after more sweeps than these; gives when they began to."""
        deadline = time.monotonic() + REST_LIMIT_SECONDS
        spent, since = self.revalidator_cpu_ns(), time.monotonic()
        while time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            now = self.revalidator_cpu_ns()
            if now != spent:
                spent, since = now, time.monotonic()
            elif time.monotonic() - since > REST_SECONDS and (
                    sweeps_after is None or self.sweeps() > sweeps_after):
                return since
        raise PeerError(f"revalidators did not come to rest in {REST_LIMIT_SECONDS} seconds")


class Requests:
    """A connection to a daemon's control socket, which speaks JSON-RPC."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))
        self.number = 0

    def ask(self, method, *parameters):
        """The text that the daemon answers with."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": [str(one) for one in parameters]}
        self.socket.sendall(json.dumps(request).encode())
        text, decoder = "", json.JSONDecoder()
        while True:
            part = self.socket.recv(1 << 16)
            if not part:
                raise PeerError(f"the daemon ended at `{method}`; its log says why")
            text += part.decode()
            try:
                answer, _ = decoder.raw_decode(text)
            except json.JSONDecodeError:
                continue
            if answer.get("error") is not None:
                raise PeerError(f"`{method}` failed: {answer['error']}")
            return answer["result"] or ""

    def close(self):
        """Ends the connection."""
        self.socket.close()
