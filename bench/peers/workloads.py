"""Traffic and rules of the peer measurements, from a fixed seed.

Two shapes of traffic, both of 64-byte UDP over IPv4 frames (60 bytes without the frame check
sequence), shuffled:

- `write_flow_capture`: F distinct five-tuples, for the exact-match cache;
- `write_mask_capture`: packets of about as many distinct five-tuples as packets, that fall on
  M groups of 50 destinations; group k is matched by rules that examine a mask of their own
  (`write_mask_rules`), so that M masks with 50 megaflows each serve all of them;
- `write_source_capture`: N distinct source addresses on the Ethernet level, each of which is a
  megaflow of its own in the ten-table pipeline of `write_pipeline_rules` (3,771 rules), so that
  every packet is an upcall.
"""

import random
import struct

SEED = 1
PIPELINE_SEED = 7
DESTINATIONS_PER_MASK = 50
MASK_LIMIT = 32
ROUTER = 0x020000000001
HOST = 0x020000000002


def _checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _frame(source, destination, source_port, destination_port, eth_src=HOST, eth_dst=ROUTER):
    header = struct.pack("!BBHHHBBHII", 0x45, 0, 46, 0, 0x4000, 64, 17, 0, source, destination)
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    ethernet = eth_dst.to_bytes(6, "big") + eth_src.to_bytes(6, "big") + b"\x08\x00"
    udp = struct.pack("!HHHH", source_port, destination_port, 26, 0)
    return ethernet + header + udp + bytes(18)


def _write_capture(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def write_flow_capture(path, packets, flows):
    """`packets` packets of `flows` random five-tuples, each as often as the others."""
    draw = random.Random(SEED)
    distinct = [
        _frame(
            0x0A000000 | draw.getrandbits(24),
            0x14000000 | draw.getrandbits(24),
            draw.getrandbits(16),
            draw.getrandbits(16),
        )
        for _ in range(flows)
    ]
    frames = [distinct[index % flows] for index in range(packets)]
    draw.shuffle(frames)
    _write_capture(path, frames)


def write_mask_capture(path, packets, masks):
    """`packets` distinct five-tuples over `masks` groups of 50 destination networks.

    The low five bits of the source port are zero: they are what the masks differ in.
    """
    draw = random.Random(SEED)
    frames = []
    for index in range(packets):
        network = draw.randrange(DESTINATIONS_PER_MASK)
        source = 0x1E000000 | draw.getrandbits(24)
        destination = 0x0A000000 | (index % masks) << 16 | network << 8 | draw.getrandbits(8)
        frames.append(
            _frame(
                source,
                destination,
                draw.getrandbits(11) << 5,
                draw.getrandbits(16),
            )
        )
    draw.shuffle(frames)
    _write_capture(path, frames)


def write_source_capture(path, packets):
    """`packets` packets, each from an Ethernet address of its own."""
    draw = random.Random(SEED)
    services = [80, 443, 53, 22, 8080, 3306]
    frames = [
        _frame(
            0x0A000000 | draw.getrandbits(24),
            0x14000000 | draw.getrandbits(24),
            draw.getrandbits(16),
            draw.choice([*services, draw.getrandbits(16)]),
            eth_src=0x020100000000 + index,
            eth_dst=0x020000000100 + index % 64,
        )
        for index in range(packets)
    ]
    draw.shuffle(frames)
    _write_capture(path, frames)


def _write_lines(path, lines):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(line + "\n" for line in lines)


def write_port_rules(path):
    """One rule, which examines the protocol so that no special case for "port only" applies."""
    _write_lines(path, ["table=0,priority=10,in_port=1,udp,actions=output:2"])


def write_mask_rules(path, masks):
    """Rules under which the traffic of `write_mask_capture` makes exactly `masks` masks."""
    assert 1 <= masks < MASK_LIMIT, "the masks are told apart by five bits of the source port"
    lines = []
    for group in range(masks):
        lines.append(
            f"table=0,priority=10,ip,nw_dst=10.{group}.0.0/16,actions=goto_table:{group + 1}"
        )
        port_bits = f",tp_src=0x0/{group:#x}" if group else ""
        for network in range(DESTINATIONS_PER_MASK):
            lines.append(
                f"table={group + 1},priority=10,udp,nw_dst=10.{group}.{network}.0/24"
                f"{port_bits},actions=output:2"
            )
    _write_lines(path, lines)


def _pipeline_head(draw, add):
    add(0, 100, "in_port=1", "goto_table:1")
    add(0, 90, "dl_vlan=100", "drop")
    add(0, 80, "in_port=77,dl_vlan=5", "drop")
    add(0, 0, "", "drop")
    for index in range(1000):
        tail = f"{draw.getrandbits(8):02x}:{draw.getrandbits(8):02x}"
        address = f"02:ff:{tail}:{index >> 8:02x}:{index & 255:02x}"
        add(1, 10, f"dl_src={address}", "drop")
    add(1, 0, "", "goto_table:2")
    for index in range(64):
        action = f"load:{index + 1}->NXM_NX_REG0[],goto_table:3"
        add(2, 10, f"dl_dst=02:00:00:00:01:{index:02x}", action)
    add(2, 0, "", "goto_table:3")
    for index in range(500):
        length = draw.choice([20, 24, 28, 32])
        network = f"172.{16 + index % 16}.{index % 256}.0/{length}"
        port = draw.choice([80, 443, 53])
        add(3, 1000 + index % 50, f"udp,nw_src={network},tp_dst={port}", "drop")
    add(3, 0, "", "goto_table:4")


def _pipeline_tail(draw, add):
    for index in range(1000):
        network = f"20.{draw.getrandbits(8)}.{draw.getrandbits(8)}.0"
        length = draw.choice([16, 20, 22, 24])
        action = f"load:{1 + index % 50}->NXM_NX_REG1[],goto_table:5"
        add(4, 100 + index % 3, f"ip,nw_dst={network}/{length}", action)
    add(4, 1, "ip,nw_dst=20.0.0.0/8", "load:99->NXM_NX_REG1[],goto_table:5")
    add(4, 0, "", "goto_table:5")
    for port in [80, 443, 53, 22, 8080, 3306]:
        add(5, 10, f"udp,tp_dst={port}", f"load:{port}->NXM_NX_REG2[],goto_table:6")
    for index in range(100):
        add(5, 9, f"tcp,tp_dst={10000 + index}", "drop")
    add(5, 0, "", "goto_table:6")
    for queue in range(8):
        add(6, 10, f"ip,nw_tos={queue * 32}", f"load:{queue}->NXM_NX_REG3[],goto_table:7")
    add(6, 0, "", "goto_table:7")
    for index in range(51):
        add(7, 10, f"reg1={index}", f"load:{index}->NXM_NX_REG4[],goto_table:8")
    add(7, 0, "", "goto_table:8")
    for index in range(1000):
        source = f"192.168.{index % 256}.{draw.getrandbits(8)}"
        destination = f"20.{draw.getrandbits(8)}.0.0/16"
        port = draw.choice([80, 443])
        add(8, 10, f"udp,nw_src={source},nw_dst={destination},tp_dst={port}", "drop")
    add(8, 0, "", "goto_table:9")
    for index in range(65):
        action = f"mod_dl_src:02:aa:00:00:00:{index:02x},output:2"
        add(9, 10, f"reg0={index}", action)
    add(9, 0, "", "output:2")


def write_pipeline_rules(path):
    """Ten tables; table 1 matches the Ethernet source exactly, so each one is a megaflow."""
    draw = random.Random(PIPELINE_SEED)
    lines = []

    def add(table, priority, match, actions):
        match = match + "," if match else ""
        lines.append(f"table={table},priority={priority},{match}actions={actions}")

    _pipeline_head(draw, add)
    _pipeline_tail(draw, add)
    _write_lines(path, lines)
