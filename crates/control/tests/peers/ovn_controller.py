"""OVN drives two daemons: hosts reach each other as the logical network says.

Debian's `ovn-northd` and `ovn-controller` run as they are. Their network has two switches and one
for the outside, a gateway router with NAT, ACLs, load balancers (one with affinity) and DHCP. The
hosts are namespaces behind veth interfaces. The second chassis is a namespace too, with a database,
a daemon and an `ovn-controller` of its own; between the two is a tunnel, first Geneve, then VXLAN.
Called as `finsy_controller.py` is; with a last argument `there` it is the second chassis.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from running_daemon import Daemon, call, prepare_folders

RUN = Path("/run/ovn")
LOG = Path("/var/log/ovn")

# By chassis, its address. The first one is the namespace that this runs in.
CHASSIS = {"here": "192.168.50.1", "there": "192.168.50.2"}
# By port of the logical network: the Ethernet address, the address, and the router's.
HOSTS = {
    "a1": ("50:54:00:00:00:01", "10.0.0.1", "10.0.0.254"),
    "a2": ("50:54:00:00:00:02", "10.0.0.2", "10.0.0.254"),
    "b1": ("50:54:00:00:00:03", "10.0.1.3", "10.0.1.254"),
    "x1": ("50:54:00:00:00:09", "172.16.0.9", "172.16.0.254"),
    "a3": ("50:54:00:00:00:05", "10.0.0.5", "10.0.0.254"),
    "b2": ("50:54:00:00:00:06", "10.0.1.6", "10.0.1.254"),
}
# The hosts of the second chassis.
FAR = ("a3", "b2")
NETWORK = """
lr-add r0
set Logical_Router r0 options:chassis=here
lrp-add r0 r0a 00:00:00:00:ff:01 10.0.0.254/24
lrp-add r0 r0b 00:00:00:00:ff:02 10.0.1.254/24
lrp-add r0 r0x 00:00:00:00:ff:03 172.16.0.254/24
lr-nat-add r0 dnat_and_snat 172.16.0.2 10.0.0.2
ls-add a
ls-add b
ls-add x
acl-add a to-lport 1000 'outport == "a1" && icmp4' drop
acl-add a to-lport 1002 'outport == "a2" && tcp.dst == 81' drop
acl-add a to-lport 1001 'outport == "a2" && tcp' allow-related
lb-add lb 10.9.0.100:80 10.0.0.1:80,10.0.1.3:80
ls-lb-add a lb
lb-add fond 10.9.0.101:80 10.0.0.1:80,10.0.1.3:80
set Load_Balancer fond options:affinity_timeout=60
ls-lb-add a fond
"""


def start_central() -> None:
    """Starts OVN's databases and `ovn-northd`, with the network."""
    os.environ["OVN_RUNDIR"] = str(RUN)
    for name in ("nb", "sb"):
        database = str(RUN / f"{name}.db")
        call("ovsdb-tool", "create", database, f"/usr/share/ovn/ovn-{name}.ovsschema")
        call("ovsdb-server", "--detach", f"--pidfile={RUN}/{name}.pid",
             f"--unixctl={RUN}/{name}.ctl", f"--remote=punix:{RUN}/ovn{name}_db.sock", database)
    call("ovn-northd", "--detach", f"--pidfile={RUN}/northd.pid")
    lines = NETWORK.strip().splitlines()
    for port, (mac, address, _) in HOSTS.items():
        switch = port[0]
        lines += [f"lsp-add {switch} {port}", f"lsp-set-addresses {port} '{mac} {address}'"]
    for switch in "abx":
        lines += [f"lsp-add {switch} {switch}r", f"lsp-set-type {switch}r router",
                  f"lsp-set-addresses {switch}r router",
                  f"lsp-set-options {switch}r router-port=r0{switch}"]
    lines += ["lsp-set-port-security a2 '50:54:00:00:00:02 10.0.0.2'"]
    for line in lines:
        call("sh", "-c", f"ovn-nbctl --timeout=60 {line}")
    options = call("ovn-nbctl", "create", "DHCP_Options", "cidr=10.0.0.0/24",
                   'options="server_id"="10.0.0.254" "server_mac"="00:00:00:00:ff:01" '
                   '"lease_time"="3600" "router"="10.0.0.254"').strip()
    call("ovn-nbctl", "lsp-set-dhcpv4-options", "a1", options)
    call("ovn-nbctl", "--timeout=60", "--wait=sb", "sync")


def make_hosts() -> None:
    """Makes the second chassis, the link to it, and the hosts of both."""
    call("ip", "netns", "add", "there")
    call("ip", "link", "add", "under", "type", "veth", "peer", "name", "under", "netns", "there")
    for chassis, address in CHASSIS.items():
        ip = ["ip", "-n", "there"] if chassis == "there" else ["ip"]
        call(*ip, "link", "set", "lo", "up")
        call(*ip, "address", "add", f"{address}/24", "dev", "under")
        # Room for outer headers.
        call(*ip, "link", "set", "under", "mtu", "2000", "up")
    for port, (mac, address, router) in HOSTS.items():
        call("ip", "netns", "add", port)
        ip = ["ip", "-n", "there"] if port in FAR else ["ip"]
        call(*ip, "link", "add", f"v{port}", "type", "veth", "peer", "name", "eth0")
        call(*ip, "link", "set", "eth0", "netns", port)
        call(*ip, "link", "set", f"v{port}", "up")
        inside = ["ip", "-n", port]
        call(*inside, "link", "set", "lo", "up")
        call(*inside, "link", "set", "eth0", "address", mac, "up")
        call(*inside, "address", "add", f"{address}/24", "dev", "eth0")
        call(*inside, "route", "add", "default", "via", router)
        # Checksums that the interface should fill in are not filled in by a switch.
        call("ip", "netns", "exec", port, "ethtool", "-K", "eth0", "tx", "off")


def start_controller(chassis: str) -> str:
    """Starts `ovn-controller` on a bridge with a port for each host; returns its socket."""
    words = ["add-br", "br-int", "--", "set", "Bridge", "br-int", "fail_mode=secure"]
    for port in HOSTS:
        if (port in FAR) != (chassis == "there"):
            continue
        words += ["--", "add-port", "br-int", f"v{port}",
                  "--", "set", "Interface", f"v{port}", f"external_ids:iface-id={port}"]
    ids = {"ovn-remote": f"unix:{RUN}/ovnsb_db.sock", "ovn-encap-type": "geneve",
           "ovn-encap-ip": CHASSIS[chassis], "system-id": chassis}
    words += ["--", "set", "Open_vSwitch", "."]
    words += [f"external_ids:{key}={value}" for key, value in ids.items()]
    call("ovs-vsctl", "--timeout=60", *words)
    pidfile = RUN / f"{chassis}.pid"
    call("ovn-controller", "--detach", f"--pidfile={pidfile}",
         f"--log-file={LOG}/{chassis}.log", "-vconsole:off")
    (control,) = Path("/run").glob(f"*/ovn-controller.{pidfile.read_text().strip()}.ctl")
    return str(control)


def be_second_chassis() -> None:
    """Runs a daemon and a controller until standard input ends."""
    with Daemon(sys.argv[1]) as daemon:
        controller = start_controller("there")
        print("ready", flush=True)
        for encapsulation in sys.stdin:
            encapsulate(encapsulation.strip())
            print("done", flush=True)
        assert not daemon.complaints(), daemon.complaints()
        call("ovn-appctl", "-t", controller, "exit")


def encapsulate(encapsulation: str) -> None:
    """Has the chassis ask for another kind of tunnel."""
    call("ovs-vsctl", "set", "Open_vSwitch", ".",
         f"external_ids:ovn-encap-type={encapsulation}")


class SecondChassis:
    """This script in the second chassis' namespace, with folders of its own."""

    def __init__(self) -> None:
        folders = {"OVS_RUNDIR": "/run/there", "OVS_LOGDIR": "/var/log/there"}
        for folder in folders.values():
            Path(folder).mkdir()
        command = ["ip", "netns", "exec", "there", sys.executable, __file__, sys.argv[1], "there"]
        self.process = subprocess.Popen(command, env=os.environ | folders, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n", "the second chassis starts"

    def encapsulate(self, encapsulation: str) -> None:
        self.process.stdin.write(f"{encapsulation}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0, "the second chassis ends well"


def run_in(host: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["ip", "netns", "exec", host, *words], capture_output=True, text=True,
                          timeout=60)


def ping(host: str, address: str) -> bool:
    """Whether a host has an answer; the first packet may wait for ARP."""
    return run_in(host, "ping", "-c", "3", "-i", "0.2", "-W", "2", address).returncode == 0


SERVER = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])), backlog=64)
while True:
    connection, peer = server.accept()
    connection.sendall(f"{sys.argv[2]} {peer[0]}".encode())
    connection.close()
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3) as connection:
    print(connection.recv(100).decode())
"""


def serve(host: str, port: int) -> None:
    """Answers TCP connections with the host's name and the client's address."""
    subprocess.Popen(["ip", "netns", "exec", host, "python3", "-c", SERVER, str(port), host])
    until(lambda: f":{port}" in run_in(host, "ss", "-Hltn").stdout)


def until(is_so) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.05)


def ask(host: str, address: str, port: int) -> list[str]:
    """What a server answers; empty without a connection."""
    return run_in(host, "python3", "-c", CLIENT, address, str(port)).stdout.split()


DISCOVER = """
import socket, struct, sys
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
raw.bind(("eth0", 0))
raw.settimeout(5)
bootp = struct.pack("!BBBBIHH", 1, 1, 6, 0, 0x12345678, 0, 0x8000) + bytes(16)
bootp += mac + bytes(10 + 64 + 128) + bytes.fromhex("63825363350101370103ff")
udp = struct.pack("!HHHH", 68, 67, 8 + len(bootp), 0) + bootp
head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                   bytes(4), bytes([255] * 4))
total = sum(struct.unpack("!10H", head))
total = (total & 0xffff) + (total >> 16)
head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + head[12:]
raw.send(bytes([255] * 6) + mac + b"\\x08\\x00" + head + udp)
while True:
    frame = raw.recv(2000)
    if frame[23] == 17 and frame[36:38] == b"\\x00\\x44" and frame[42] == 2:
        print(socket.inet_ntoa(frame[58:62]), frame[282:].hex())
        break
"""


def offered(host: str) -> str:
    """The address that DHCP offers, and the options after the magic cookie."""
    return run_in(host, "python3", "-c", DISCOVER, HOSTS[host][0]).stdout


def check_reachability() -> None:
    assert ping("a2", "10.0.0.254") and ping("b1", "10.0.1.254"), "the router answers"
    assert ping("b1", "10.0.0.2"), "the router leads from one switch to the other"
    assert not ping("a2", "10.0.0.1"), "an ACL drops ICMP to a1"
    serve("a2", 80)
    serve("a2", 81)
    assert ask("b1", "10.0.0.2", 80) == ["a2", "10.0.1.3"], "an ACL admits TCP to a2"
    assert not ask("b1", "10.0.0.2", 81), "another drops that to one port"


def check_balancing() -> None:
    serve("a1", 80)
    serve("b1", 80)
    # Of a1's own connections some lead back to it.
    for client in ("a2", "a1"):
        served = [ask(client, "10.9.0.100", 80) for _ in range(24)]
        assert all(served), served
        assert {answer[0] for answer in served} == {"a1", "b1"}, served
    # OVN drops the packets that teach, so that the first connection fails; with Open vSwitch, too.
    ask("a2", "10.9.0.101", 80)
    served = [ask("a2", "10.9.0.101", 80) for _ in range(12)]
    assert len({answer[0] for answer in served if answer}) == 1 and all(served), served
    learned = call("ovs-ofctl", "-O", "OpenFlow15", "dump-flows", "br-int")
    assert re.search(r"idle_timeout=60,[^\n]*nw_src=10.0.0.2,nw_dst=10.9.0.101", learned), learned


def check_translation() -> None:
    assert ping("x1", "172.16.0.2"), "the outside reaches a2 by its outer address"
    assert ask("x1", "172.16.0.2", 80) == ["a2", "172.16.0.9"]
    serve("x1", 80)
    assert ask("a2", "172.16.0.9", 80) == ["x1", "172.16.0.2"], "and a2 has it outside"


def received(interface: str) -> int:
    """Packets that came in by an interface of this chassis."""
    return int(call("ovs-vsctl", "get", "Interface", interface, "statistics:rx_packets"))


def check_tunnel(kind: str) -> None:
    """Hosts of the two chassis reach each other through a tunnel of this kind."""
    # The router answers neither chassis alone: it is on the first one.
    assert ping("a2", "10.0.0.5") and ping("a3", "10.0.0.2"), f"{kind}: within a switch"
    assert ping("a3", "10.0.1.3") and ping("b2", "10.0.1.254"), f"{kind}: through the router"
    assert ping("a3", "10.0.1.6"), f"{kind}: through the router and back"
    assert not ping("a3", "10.0.0.1"), f"{kind}: an ACL drops ICMP to a1"
    assert ask("a3", "10.0.0.2", 80) == ["a2", "10.0.0.5"], f"{kind}: an ACL admits TCP to a2"
    assert not ask("b2", "10.0.0.2", 81), f"{kind}: another drops that to one port"
    assert ask("a2", "10.0.0.5", 82) == ["a3", "10.0.0.2"], f"{kind}: TCP to the other chassis"
    interface = call("ovs-vsctl", "--bare", "--columns=name", "find", "Interface",
                     f"type={kind}").strip()
    error = call("ovs-vsctl", "get", "Interface", interface, "error").strip()
    assert error == "[]", error
    until(lambda: received(interface) > 20)


def main() -> None:
    if sys.argv[-1] == "there":
        be_second_chassis()
        return
    prepare_folders()
    with Daemon(sys.argv[1]) as daemon:
        start_central()
        make_hosts()
        controller = start_controller("here")
        second = SecondChassis()
        call("ovn-nbctl", "--timeout=60", "--wait=hv", "sync")
        check_reachability()
        serve("a3", 82)
        check_tunnel("geneve")
        encapsulate("vxlan")
        second.encapsulate("vxlan")
        call("ovn-nbctl", "--timeout=60", "--wait=hv", "sync")
        until(lambda: "vxlan" in call("ovs-vsctl", "--columns=type", "list", "Interface"))
        check_tunnel("vxlan")
        check_balancing()
        check_translation()
        address, options = offered("a1").split()
        assert address == "10.0.0.1" and "350102" in options, (address, options)
        # The logical network follows a change, and so do entries that were remembered.
        call("ovn-nbctl", "acl-del", "a", "to-lport", "1000", 'outport == "a1" && icmp4')
        call("ovn-nbctl", "--timeout=60", "--wait=hv", "sync")
        assert ping("a2", "10.0.0.1"), "the ACL is gone"
        # OVN writes out the type of the datapath; that changes nothing.
        added = [line for line in daemon.log() if "added interface br-int" in line]
        assert len(added) == 1, added
        assert not daemon.complaints(), daemon.complaints()
        refused = [line for line in daemon.log() if "|connmgr|INFO|" in line and "error" in line]
        assert not refused, refused
        second.end()
        call("ovn-appctl", "-t", controller, "exit")
    print("ovn: ovn-controller drives two daemons; hosts, ACLs, balancers, NAT, DHCP and tunnels "
          "work")


main()
