"""OVN's `ovn-controller` on the daemon: it connects, and what it cannot set is counted.

Debian's `ovn-northd` and `ovn-controller` run as they are. Their network has switches, a router,
ACLs, a load balancer, NAT and a second chassis. OVN sends all entries in one bundle, so that one
which is refused keeps out the rest; therefore each is then tried alone, and `docs/daemon.md`
says what is missing. `UPDATE_EXPECT=1` renews the page. Called as `finsy_controller.py` is.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from running_daemon import Daemon, call, prepare_folders

PAGE = Path(__file__).parents[4] / "docs/daemon.md"
BEGIN = "<!-- What OVN cannot set; ovn_controller.py writes it. -->\n"
END = "<!-- End. -->\n"
RUN = Path("/run/ovn")
LOG = Path("/var/log/ovn/ovn-controller.log")

NETWORK = """
lr-add r0
set Logical_Router r0 options:chassis=here
lrp-add r0 r0a 00:00:00:00:ff:01 10.0.0.254/24
lrp-add r0 r0b 00:00:00:00:ff:02 10.0.1.254/24
lr-nat-add r0 snat 172.16.0.1 10.0.0.0/24
ls-add a
lsp-add a a1
lsp-set-addresses a1 "50:54:00:00:00:01 10.0.0.1"
lsp-add a a2
lsp-set-addresses a2 "50:54:00:00:00:02 10.0.0.2"
lsp-set-port-security a2 "50:54:00:00:00:02 10.0.0.2"
lsp-add a ar
lsp-set-type ar router
lsp-set-addresses ar router
lsp-set-options ar router-port=r0a
acl-add a to-lport 1000 'outport == "a1" && icmp4' drop
acl-add a to-lport 1001 'outport == "a2" && tcp' allow-related
lb-add lb 10.0.0.100:80 10.0.0.1:80,10.0.1.3:80
ls-lb-add a lb
ls-add b
lsp-add b b1
lsp-set-addresses b1 "50:54:00:00:00:03 10.0.1.3"
lsp-add b br
lsp-set-type br router
lsp-set-addresses br router
lsp-set-options br router-port=r0b
"""
# What the last of the network's parts to be there makes of the entries: the address of NAT.
LAST = "172.16.0.1"


def start_central() -> None:
    """Starts OVN's databases and `ovn-northd`, with the network."""
    os.environ["OVN_RUNDIR"] = str(RUN)
    for name in ("nb", "sb"):
        database = str(RUN / f"{name}.db")
        call("ovsdb-tool", "create", database, f"/usr/share/ovn/ovn-{name}.ovsschema")
        call("ovsdb-server", "--detach", f"--pidfile={RUN}/{name}.pid",
             f"--unixctl={RUN}/{name}.ctl", f"--remote=punix:{RUN}/ovn{name}_db.sock", database)
    call("ovn-northd", "--detach", f"--pidfile={RUN}/northd.pid")
    for line in NETWORK.strip().splitlines():
        call("sh", "-c", f"ovn-nbctl --timeout=60 {line}")
    call("ovn-nbctl", "--timeout=60", "--wait=sb", "sync")
    call("ovn-sbctl", "chassis-add", "there", "geneve", "127.0.0.2")


def start_controller() -> str:
    """Starts `ovn-controller` on a bridge with three ports; returns its control socket."""
    words = ["add-br", "br-int", "--", "set", "Bridge", "br-int", "fail_mode=secure"]
    for number, port in enumerate(("a1", "a2", "b1")):
        call("ip", "link", "add", f"v{port}", "type", "veth", "peer", "name", f"e{port}")
        call("ip", "link", "set", f"v{port}", "up")
        words += ["--", "add-port", "br-int", f"v{port}",
                  "--", "set", "Interface", f"v{port}", f"external_ids:iface-id={port}"]
    ids = {"ovn-remote": f"unix:{RUN}/ovnsb_db.sock", "ovn-encap-type": "geneve",
           "ovn-encap-ip": "127.0.0.1", "system-id": "here"}
    words += ["--", "set", "Open_vSwitch", "."]
    words += [f"external_ids:{key}={value}" for key, value in ids.items()]
    call("ovs-vsctl", "--timeout=60", *words)
    pidfile = RUN / "ovn-controller.pid"
    call("ovn-controller", "--detach", f"--pidfile={pidfile}", f"--log-file={LOG}",
         "-vvconn:file:dbg", "-vconsole:off")
    (socket,) = Path("/run").glob(f"*/ovn-controller.{pidfile.read_text().strip()}.ctl")
    call("ovn-appctl", "-t", str(socket), "vlog/disable-rate-limit", "vconn")
    return str(socket)


def wanted() -> dict[str, list[str]]:
    """The flow entries and groups of the first bundle with all of them, once each."""
    wanted: dict[str, dict[str, None]] = {"flow": {}, "group": {}}
    reader = subprocess.Popen(["tail", "-n", "+1", "-f", LOG], stdout=subprocess.PIPE, text=True)
    for line in reader.stdout:
        if "OPEN_REQUEST" in line:
            wanted = {"flow": {}, "group": {}}
        if "COMMIT_REQUEST" in line and LAST in "".join(wanted["flow"]):
            break
        flow = re.search(r"ADD table:(\d+) (.*?) ?cookie:0x[0-9a-f]+ (?:idle.*? )?(actions=.*)$",
                         line)
        if flow:
            table, match, actions = flow.groups()
            wanted["flow"][",".join(part for part in (f"table={table}", match, actions) if part)] = None
        group = re.search(r"^ ADD (group_id=.*)$", line)
        if group:
            wanted["group"][group.group(1)] = None
    reader.kill()
    reader.wait()
    return {kind: list(texts) for kind, texts in wanted.items()}


def is_taken(kind: str, text: str) -> bool:
    """Whether a bridge that OVN does not drive takes an entry."""
    words = ["ovs-ofctl", "-O", "OpenFlow15", f"add-{kind}", "br-try", text]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 or "OFPT_ERROR" in done.stderr, f"{text}: {done.stderr}"
    return done.returncode == 0


def refusals(daemon: Daemon) -> Counter:
    """Why entries were refused, as the daemon's log says it."""
    # The second answer comes after a look at what was refused before the first.
    for _ in range(2):
        call("ovs-appctl", "dpif/show")
    reasons = (re.search(r"\|connmgr\|INFO\|br-try: sending .* message: (.*)$", line)
               for line in daemon.log())
    return Counter(reason.group(1) for reason in reasons if reason)


def try_alone(daemon: Daemon, entries: dict[str, list[str]]) -> str:
    """Tries each entry; returns what the page says."""
    call("ovs-appctl", "vlog/disable-rate-limit", "connmgr")
    call("ovs-vsctl", "--timeout=60", "add-br", "br-try",
         "--", "set", "Bridge", "br-try", "fail_mode=secure")
    # Entries send to groups.
    taken = {kind: sum(is_taken(kind, text) for text in entries[kind])
             for kind in ("group", "flow")}
    reasons = refusals(daemon)
    count = {kind: len(texts) for kind, texts in entries.items()}
    refused = sum(count.values()) - sum(taken.values())
    assert refused == sum(reasons.values()), (refused, reasons)
    lines = [
        f"Of {count['flow']} flow entries and {count['group']} groups, {taken['flow']} entries "
        f"and {taken['group']} groups are taken.",
        "",
        "| what the log says of the others | number |",
        "| --- | --- |",
    ]
    lines += [f"| {reason} | {number} |" for reason, number in sorted(reasons.items())]
    return "".join(f"{line}\n" for line in lines)


def reasons_of(text: str) -> list[str]:
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]


def compare_page(text: str) -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    said, after = rest.split(END)
    if os.environ.get("UPDATE_EXPECT"):
        PAGE.write_text(before + BEGIN + text + END + after)
    else:
        # How many there are of each depends on how far OVN was when it sent its bundle.
        assert reasons_of(said) == reasons_of(text), f"{PAGE} should say:\n{text}"


def main() -> None:
    prepare_folders()
    with Daemon(sys.argv[1]) as daemon:
        start_central()
        controller = start_controller()
        entries = wanted()
        text = try_alone(daemon, entries)
        # It is there, and the switch with it.
        call("ovn-appctl", "-t", controller, "version")
        tunnel = call("ovs-vsctl", "get", "Interface", "ovn-there-0", "error")
        assert "tunnels (geneve) are not supported yet" in tunnel, tunnel
        # OVN writes out the type of the datapath; that changes nothing.
        added = [line for line in daemon.log() if "added interface br-int" in line]
        assert len(added) == 1, added
        others = [line for line in daemon.complaints() if "tunnels (geneve)" not in line]
        assert not others, others
        compare_page(text)
        call("ovn-appctl", "-t", controller, "exit")
    print("ovn: ovn-controller connects;", text.splitlines()[0])


main()
