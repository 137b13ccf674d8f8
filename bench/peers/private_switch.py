"""A private Open vSwitch with DPDK, and the hugepages it needs.

Everything lives in one temporary folder: database, sockets, logs. Both daemons are children of
this process, in the foreground, and only those two are ever stopped. DPDK runs with
`--in-memory`, which takes hugepages without a mount point and leaves no files behind.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

DAEMON = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
PACKAGES = ["openvswitch-switch", "openvswitch-switch-dpdk", "dpdk-dev"]
TOOLS = ["ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"]
PROGRAMS = [*TOOLS, "dpdk-testpmd", DAEMON]


class PeerError(Exception):
    """The peer cannot be measured here; the text says why and what to do."""


def install_packages(packages=PACKAGES, programs=PROGRAMS):
    """Installs what is missing with apt, as root; says what to run where that is not allowed."""
    if all(shutil.which(name) is not None for name in programs):
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise PeerError(f"Open vSwitch is missing; run: {' '.join(command)}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update"], check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise PeerError(f"still missing after the installation: {', '.join(missing)}")


@contextlib.contextmanager
def hugepages(count):
    """Raises the number of 2 MB hugepages to `count`, and restores what was there."""
    try:
        before = int(HUGEPAGES.read_text())
        if before < count:
            HUGEPAGES.write_text(str(count))
    except OSError as error:
        raise PeerError(f"hugepages cannot be reserved ({error}); run as root on a host "
                        "whose kernel has hugetlbfs") from error
    try:
        have = int(HUGEPAGES.read_text())
        if have < count:
            raise PeerError(f"the kernel gave {have} hugepages of {count}: memory is short or "
                            "fragmented; free some, or reserve them at boot")
        yield
    finally:
        HUGEPAGES.write_text(str(before))


def thread_cpu_ns(process_id, thread_id):
    """Processor time of a thread, in which time when it was preempted does not count."""
    text = pathlib.Path(f"/proc/{process_id}/task/{thread_id}/schedstat").read_text()
    return int(text.split()[0])


def find_thread(process_id, prefix):
    """The id of the first thread whose name begins with `prefix`."""
    for task in pathlib.Path(f"/proc/{process_id}/task").iterdir():
        if (task / "comm").read_text().startswith(prefix):
            return int(task.name)
    raise PeerError(f"process {process_id} has no thread named {prefix}*")


# Megaflows stay, and are looked at when rules change and not besides.
LIMITS = {
    "n-handler-threads": "1",
    "n-revalidator-threads": "1",
    "max-idle": "600000",
    "max-revalidator": "120000",
    "flow-limit": "2000000",
}


class PrivateSwitch:
    """One bridge `br0`; port 1 is the source (a capture), port 2 the sink (`net_null`)."""

    datapath_type = "netdev"
    daemon_arguments = ()

    def __init__(self, cores, daemon=DAEMON):
        self.cores = cores
        self.daemon_path = daemon
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="peer-ovs-"))
        self.environment = dict(os.environ)
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"]:
            self.environment[name] = str(self.folder)
        self.database = f"unix:{self.folder}/db.sock"
        self.children = []
        self.daemon = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def _start(self):
        folder = self.folder
        self._run("ovsdb-tool", "create", folder / "conf.db", SCHEMA)
        self._spawn("ovsdb-server", folder / "conf.db", f"--remote=p{self.database}",
                    f"--unixctl={folder}/ovsdb.ctl", f"--pidfile={folder}/ovsdb.pid")
        self._wait_for(folder / "db.sock")
        self.configure_database("init")
        self.set_options(**LIMITS, **self._extra_options())
        self.daemon = self._spawn(self.daemon_path, self.database, *self.daemon_arguments,
                                  f"--unixctl={folder}/vswitchd.ctl",
                                  f"--pidfile={folder}/vswitchd.pid",
                                  f"--log-file={folder}/vswitchd.log")
        self._wait_for(folder / "vswitchd.ctl")
        self._configure("add-br", "br0", "--", "set", "bridge", "br0",
                        f"datapath_type={self.datapath_type}", "fail_mode=secure")
        self._add_first_ports()

    def _extra_options(self):
        main_core, poll_core = self.cores
        return {
            "dpdk-init": "true",
            "dpdk-socket-mem": "1536",
            "dpdk-lcore-mask": hex(1 << main_core),
            "pmd-cpu-mask": hex(1 << poll_core),
            "dpdk-extra": '"--no-pci --in-memory --no-telemetry"',
        }

    def _add_first_ports(self):
        self._add_port("sink", 2, "net_null0,no-rx=1")

    def _stop(self):
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _spawn(self, *command):
        with open(self.folder / "stderr.log", "ab") as log:
            child = subprocess.Popen([str(word) for word in command], env=self.environment,
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(child)
        return child

    def _run(self, *command):
        words = [str(word) for word in command]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=180)
        if done.returncode != 0:
            raise PeerError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
        return done.stdout

    def _wait_for(self, path):
        for _ in range(600):
            if path.exists():
                return
            for child in self.children:
                if child.poll() is not None:
                    tail = (self.folder / "stderr.log").read_text()[-2000:]
                    raise PeerError(f"{child.args[0]} ended with {child.returncode}: {tail}")
            time.sleep(0.05)
        raise PeerError(f"{path.name} did not appear in 30 seconds")

    def _configure(self, *command):
        return self._run("ovs-vsctl", f"--db={self.database}", "--timeout=120", *command)

    def configure_database(self, *command):
        """`ovs-vsctl` without waiting for the daemon."""
        return self._run("ovs-vsctl", f"--db={self.database}", "--no-wait", *command)

    def set_options(self, **options):
        """Sets `other_config` keys; names are written with dashes."""
        self.configure_database("set", "Open_vSwitch", ".",
                                *[f"other_config:{key}={value}" for key, value in options.items()])

    def _add_port(self, name, number, device):
        self._configure("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk",
                        f"ofport_request={number}", f"options:dpdk-devargs={device}")
        trouble = self._configure("get", "Interface", name, "error").strip()
        if trouble not in ("[]", ""):
            raise PeerError(f"port {name}: {trouble}")

    def add_source(self, capture, is_endless):
        """Port 1 reads `capture`: from memory for ever, or once from the file."""
        endless = ",infinite_rx=1" if is_endless else ""
        self._add_port("source", 1, f"net_pcap0,rx_pcap={capture}{endless}")

    def load_rules(self, path):
        """Replaces all rules by those of an `ovs-ofctl` file."""
        bridge = self.folder / "br0.mgmt"
        self._run("ovs-ofctl", "-O", "OpenFlow15", "del-flows", bridge)
        self._run("ovs-ofctl", "-O", "OpenFlow15", "add-flows", bridge, path)

    def load_groups(self, path):
        """Adds the groups of an `ovs-ofctl` file."""
        self._run("ovs-ofctl", "-O", "OpenFlow15", "add-groups", self.folder / "br0.mgmt", path)

    def control(self, *command):
        """`ovs-appctl` to the daemon."""
        return self._run("ovs-appctl", "-t", self.folder / "vswitchd.ctl", *command)

    def version(self):
        """The version the daemon reports, such as `3.1.0`."""
        first = self._run(self.daemon_path, "--version").splitlines()[0]
        return first.split()[-1]

    def poll_thread_cpu_ns(self):
        """Processor time of the thread that polls the ports."""
        return thread_cpu_ns(self.daemon.pid, find_thread(self.daemon.pid, "pmd-c"))

    def resident_bytes(self):
        """Memory of the daemon that is in use; hugepages do not count."""
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024
