//! Tests `thalweg replay` through its command line: captures in, captures out, and counters.

mod command;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use command::Scene;
use expect_test::expect;
use thalweg_io::{CaptureReader, CaptureWriter};
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet};

/// Captures carry the time of day, not the time since the start.
const MORNING: Duration = Duration::from_secs(1_700_000_000);

fn at(ms: u64) -> Instant {
    Instant::ZERO + MORNING + Duration::from_millis(ms)
}

fn mac(last: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, last])
}

/// A datagram from one host to another; its TTL identifies the packet.
fn datagram(from: u8, to: u8, ttl: u8) -> Vec<u8> {
    let address = |last| Ipv4Addr::new(10, 0, 0, last);
    let ethernet = PacketBuilder::ethernet(mac(from), mac(to));
    let ip = ethernet.ipv4(address(from), address(to)).ttl(ttl);
    ip.udp(1_000, 2_000).pad_to(60).build()
}

/// A frame that is not IP.
fn other(to: u8) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet(mac(9), mac(to));
    ethernet
        .ether_type(thalweg_packet::wire::EtherType(0x88b5))
        .pad_to(60)
        .build()
}

fn write_capture(scene: &Scene, name: &str, packets: &[(u64, Vec<u8>)]) -> String {
    let path = scene.path(name);
    let mut writer = CaptureWriter::create(Path::new(&path)).unwrap();
    for (ms, bytes) in packets {
        writer.write(bytes, at(*ms)).unwrap();
    }
    writer.flush().unwrap();
    path
}

/// The packets of a capture, with their times.
fn read_capture(path: &str) -> Vec<(Instant, Vec<u8>)> {
    let reader = CaptureReader::open(Path::new(path)).unwrap();
    let packets = reader.map(|packet| {
        let packet = packet.unwrap();
        (packet.received_at(), packet.bytes().to_vec())
    });
    packets.collect()
}

#[test]
fn outputs_are_captures_byte_for_byte() {
    let scene = Scene::new();
    let rules = "dl_dst=02:00:00:00:00:02,actions=output:2\n\
                 ip,dl_dst=02:00:00:00:00:03,actions=dec_ttl,output:3,output:2\n\
                 dl_dst=02:00:00:00:00:04,actions=set_field:02:00:00:00:00:aa->eth_src,CONTROLLER:20\n";
    let rules = scene.write("r.rules", rules);
    let sent = [
        (0, datagram(1, 2, 64)),
        (5, datagram(1, 3, 64)),
        (6, datagram(1, 3, 9)),
        (7, other(4)),
        (9, datagram(1, 2, 64)),
    ];
    let input = write_capture(&scene, "in.pcap", &sent);
    let out = scene.path("out");
    let report = scene.json(&["replay", "--rules", &rules, "--pcap", &input, "--out", &out]);
    assert_eq!(report["packets"], 5);
    assert_eq!(
        report["outputs"],
        serde_json::json!({"2": 4, "3": 2, "controller": 1})
    );
    assert_eq!(
        (&report["stale_packets"], &report["checked_packets"]),
        (&0.into(), &5.into())
    );
    let third = [(at(5), datagram(1, 3, 63)), (at(6), datagram(1, 3, 8))];
    assert_eq!(read_capture(&format!("{out}/3.pcap")), third);
    let second = [
        (at(0), datagram(1, 2, 64)),
        third[0].clone(),
        third[1].clone(),
        (at(9), datagram(1, 2, 64)),
    ];
    assert_eq!(read_capture(&format!("{out}/2.pcap")), second);
    let controller = read_capture(&format!("{out}/controller.pcap"));
    assert_eq!(controller[0].1[6..12], [2, 0, 0, 0, 0, 0xaa]);
    assert_eq!(controller[0].1.len(), 20);
}

#[test]
fn the_traversals_of_entries_are_listed() {
    let scene = Scene::new();
    let mut rules = "ip,dl_dst=02:00:00:00:00:02,actions=goto_table:1\n\
                     ip,dl_dst=02:00:00:00:00:03,actions=dec_ttl,goto_table:1\n\
                     table=1,nw_dst=10.0.0.0/28,ip,actions=output:2\n"
        .to_owned();
    // Twelve traversals with one entry each.
    for table in 2..14 {
        rules += &format!(
            "dl_dst=02:00:00:00:00:{:02x},actions=goto_table:{table}\n",
            table + 2
        );
    }
    let rules = scene.write("r.rules", &rules);
    let hosts = [2, 2, 3, 2].into_iter().chain(4..16);
    let packets: Vec<_> = (hosts.enumerate())
        .map(|(index, to)| (index as u64, datagram(1, to, 64)))
        .collect();
    let input = write_capture(&scene, "in.pcap", &packets);
    let arguments = ["replay", "--rules", &rules, "--pcap", &input];
    let report = scene.json(&arguments);
    let traversals = report["traversals"].as_array().unwrap();
    assert_eq!(traversals.len(), 13);
    assert_eq!(
        traversals[0],
        serde_json::json!({"tables": [0, 1], "entries": 2, "packets": 4})
    );
    assert_eq!(
        traversals[12],
        serde_json::json!({"tables": [0, 13], "entries": 1, "packets": 1})
    );
    let text = scene.says(&arguments);
    let lines = text.lines().filter(|line| line.contains("traversal"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 11, "{text}");
    assert_eq!(lines[0], "traversal 0 -> 1: 2 entries, 4 packets");
    assert_eq!(lines[9], "traversal 0 -> 10: 1 entry, 1 packet");
    assert_eq!(lines[10], "3 more traversals; --json has them");
    // A maintainer that does not record what entries depend on knows no traversals.
    let report = scene.json(&[&arguments[..], &["--maintainer", "revalidate"]].concat());
    assert_eq!(report["traversals"], serde_json::json!([]));
}

#[test]
fn a_lazy_sweep_forwards_stale_packets_and_says_so() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "ip,nw_dst=10.0.0.2,actions=output:2\n");
    let changes = "@1 modify_strict priority=32768,ip,nw_dst=10.0.0.2,actions=output:3\n";
    let changes = scene.write("c.changes", changes);
    let packets: Vec<_> = (0..3).map(|ms| (ms, datagram(1, 2, 64))).collect();
    let input = write_capture(&scene, "in.pcap", &packets);
    let replay = |maintainer: &str| {
        let with = [
            "replay",
            "--rules",
            &rules,
            "--pcap",
            &input,
            "--changes",
            &changes,
        ];
        scene.json(&[&with[..], &["--maintainer", maintainer]].concat())
    };
    let lazy = replay("lazy");
    assert_eq!(
        lazy["stale_packets"], 1,
        "the sweep follows the second packet"
    );
    assert_eq!(lazy["outputs"], serde_json::json!({"2": 2, "3": 1}));
    let strict = replay("incremental");
    assert_eq!(strict["stale_packets"], 0);
    assert_eq!(strict["outputs"], serde_json::json!({"2": 1, "3": 2}));
    let change = &strict["changes"][0];
    let counts = ["affected", "examined", "repaired", "moved", "evicted"].map(|key| &change[key]);
    assert_eq!(counts, [1, 1, 1, 0, 0]);
    let (update, repair) = (&change["time_to_update_us"], &change["time_to_repair_us"]);
    assert!(
        update.as_f64() > Some(0.0) && update.as_f64() <= repair.as_f64(),
        "{change}"
    );
}

#[test]
fn changes_take_effect_at_their_packets() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "priority=1,actions=output:2\n");
    let changes = "@3 add priority=5,ip,actions=output:3\n\
                   @5 bundle {\n  delete_strict priority=5,ip\n  \
                   modify priority=1,actions=output:4\n}\n\
                   @20 delete\n";
    let changes = scene.write("c.changes", changes);
    let packets: Vec<_> = (0..8).map(|index| (index, datagram(1, 2, 64))).collect();
    let input = write_capture(&scene, "in.pcap", &packets);
    for maintainer in ["incremental", "barrier", "revalidate", "flush"] {
        let report = scene.json(&[
            "replay",
            "--rules",
            &rules,
            "--pcap",
            &input,
            "--changes",
            &changes,
            "--maintainer",
            maintainer,
        ]);
        assert_eq!(
            report["outputs"],
            serde_json::json!({"2": 3, "3": 2, "4": 3})
        );
        assert_eq!(report["stale_packets"], 0);
        let changes = report["changes"].as_array().unwrap();
        let positions: Vec<_> = changes.iter().map(|change| &change["position"]).collect();
        // A change after the last packet is made at the end.
        assert_eq!(positions, [3, 5, 8]);
        assert_eq!(changes[0]["affected"], 1);
        assert!(changes[0]["time_to_update_us"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn what_goes_nowhere_is_counted_by_reason() {
    let scene = Scene::new();
    let rules = "dl_dst=02:00:00:00:00:01,actions=drop\n\
                 dl_dst=02:00:00:00:00:02,actions=output:1\n\
                 ip,dl_dst=02:00:00:00:00:03,actions=dec_ttl,output:2\n\
                 dl_dst=02:00:00:00:00:04,actions=set_field:99->reg0,output:NXM_NX_REG0[0..15]\n";
    let rules = scene.write("r.rules", rules);
    let packets = [
        (0, other(1)),
        (1, other(2)),
        (2, datagram(1, 3, 1)),
        (3, other(4)),
        (4, other(5)),
        (5, other(5)),
        (6, vec![0; 13]),
    ];
    let input = write_capture(&scene, "in.pcap", &packets);
    let report = scene.json(&["replay", "--rules", &rules, "--pcap", &input]);
    let expected = serde_json::json!({
        "action": 1, "input_port": 1, "no_such_port": 1, "table_miss": 2, "runt": 1,
        "ttl_expired": 1,
    });
    assert_eq!(report["drops"], expected);
    // Packets whose TTL expires are dropped, and the controller is told.
    assert_eq!(report["outputs"], serde_json::json!({"controller": 1}));
    assert_eq!(report["stale_packets"], 0);
}

#[test]
fn caches_add_up() {
    let scene = Scene::new();
    let rules = scene.write(
        "r.rules",
        "dl_src=02:00:00:00:00:01,actions=output:2\narp,actions=3\n",
    );
    let packets: Vec<_> = (0..100)
        .map(|index| (index, datagram(1, (index % 4) as u8, 64)))
        .collect();
    let input = write_capture(&scene, "in.pcap", &packets);
    let report = scene.json(&["replay", "--rules", &rules, "--pcap", &input]);
    let number = |cache: &str, key: &str| report["caches"][cache][key].as_u64().unwrap();
    assert_eq!(
        number("microflow", "hits") + number("microflow", "misses"),
        100
    );
    assert_eq!(
        number("megaflow", "hits") + number("megaflow", "misses"),
        number("microflow", "misses")
    );
    assert_eq!(report["upcalls"], number("megaflow", "misses"));
    let report = scene.json(&[
        "replay",
        "--rules",
        &rules,
        "--pcap",
        &input,
        "--microflows",
        "0",
        "--megaflows",
        "0",
    ]);
    assert_eq!(
        (&report["upcalls"], &report["outputs"]["2"]),
        (&100.into(), &100.into())
    );
}

/// The port of each packet, which its TTL identifies.
fn ports_by_ttl(scene: &Scene, arguments: &[&str]) -> Vec<(u8, u32)> {
    let out = scene.path("out");
    scene.json(&[arguments, &["--out", &out]].concat());
    let mut ports = Vec::new();
    for port in 2..=4 {
        let path = format!("{out}/{port}.pcap");
        if Path::new(&path).exists() {
            let packets = read_capture(&path);
            ports.extend(packets.iter().map(|(_, bytes)| (bytes[14 + 8], port)));
        }
    }
    ports.sort_unstable();
    ports
}

#[test]
fn timeouts_go_by_the_clock_of_the_capture() {
    let scene = Scene::new();
    let rules = "priority=9,idle_timeout=2,ip,nw_dst=10.0.0.2,actions=output:2\n\
                 priority=9,hard_timeout=4,ip,nw_dst=10.0.0.3,actions=output:3\n\
                 priority=1,actions=output:4\n";
    let rules = scene.write("r.rules", rules);
    let packets = [
        (0, datagram(1, 2, 10)),
        (100, datagram(1, 3, 11)),
        (1_900, datagram(1, 2, 12)),
        (3_700, datagram(1, 2, 13)), // 1.8 s after the previous packet: not idle
        (3_800, datagram(1, 3, 14)), // in the rule's fourth second
        (5_200, datagram(1, 3, 15)), // used, but past the hard timeout
        (5_300, datagram(1, 2, 16)),
        (8_500, datagram(1, 2, 17)), // 3.2 s of silence
    ];
    let input = write_capture(&scene, "in.pcap", &packets);
    let ports = ports_by_ttl(&scene, &["replay", "--rules", &rules, "--pcap", &input]);
    let expected = [
        (10, 2),
        (11, 3),
        (12, 2),
        (13, 2),
        (14, 3),
        (15, 4),
        (16, 2),
        (17, 4),
    ];
    assert_eq!(ports, expected);
}

#[test]
fn captures_of_several_ports_are_merged_by_time() {
    let scene = Scene::new();
    let rules = scene.write(
        "r.rules",
        "in_port=7,actions=output:2\nin_port=8,actions=output:3\n",
    );
    let seven = write_capture(
        &scene,
        "7.pcap",
        &[(0, datagram(1, 2, 1)), (4, datagram(1, 2, 4))],
    );
    let eight = write_capture(
        &scene,
        "8.pcap",
        &[(1, datagram(1, 2, 2)), (5, datagram(1, 2, 5))],
    );
    let (seven, eight) = (format!("7={seven}"), format!("8={eight}"));
    // In order of time, the third packet is the second of port 7.
    let changes = scene.write(
        "c.changes",
        "@2 add priority=40000,in_port=7,actions=output:4\n",
    );
    let arguments = [
        "replay",
        "--rules",
        &rules,
        "--pcap",
        &seven,
        "--pcap",
        &eight,
        "--changes",
        &changes,
    ];
    assert_eq!(
        ports_by_ttl(&scene, &arguments),
        [(1, 2), (2, 3), (4, 4), (5, 3)]
    );
}

/// A pcapng capture of one packet, with times in microseconds.
fn next_generation(packet: &[u8]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let length = (12 + body.len() + padding.len()) as u32;
        let (kind, length) = (kind.to_le_bytes(), length.to_le_bytes());
        [&kind[..], &length, body, &padding, &length].concat()
    };
    let section = [
        0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
    ];
    let interface = [1, 0, 0, 0, 0, 0, 0, 0];
    let length = (packet.len() as u32).to_le_bytes();
    let head = [&[0; 4][..], &[0; 4], &[7, 0, 0, 0], &length, &length].concat();
    let packet = [&head[..], packet].concat();
    [
        block(0x0a0d_0d0a, &section),
        block(1, &interface),
        block(6, &packet),
    ]
    .concat()
}

#[test]
fn both_formats_of_captures_are_read() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "actions=output:2\n");
    let input = scene.write("in.pcapng", next_generation(&datagram(1, 2, 64)));
    let out = scene.path("out");
    let report = scene.json(&["replay", "--rules", &rules, "--pcap", &input, "--out", &out]);
    assert_eq!(report["packets"], 1);
    let expected = [(Instant::from_nanos(7_000), datagram(1, 2, 64))];
    assert_eq!(read_capture(&format!("{out}/2.pcap")), expected);
}

#[test]
fn people_get_text() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "ip,actions=output:2\n");
    let packets = [
        (0, datagram(1, 2, 64)),
        (1, datagram(1, 2, 64)),
        (2, other(1)),
    ];
    let input = write_capture(&scene, "in.pcap", &packets);
    let text = scene.says(&["replay", "--rules", &rules, "--pcap", &input, "--seed", "7"]);
    expect![[r#"
        3 packets, seed 7
          port 2: 2 sent
          dropped, table_miss: 1
        microflow cache: 1 hits, 2 misses, 2 entries
        megaflow cache: 0 hits, 2 misses, 2 entries
        upcalls: 2
        traversal 0: 2 entries, 3 packets
        stale packets: 0 of 3 compared with the interpreter
        table   0: 3 lookups, 2 matched
                   2 packets             120 bytes  table=0, ip actions=output:2
    "#]]
    .assert_eq(&text);
}

#[test]
fn bad_input_ends_with_2_and_says_where_and_what_to_do() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "actions=output:2\n");
    let good = write_capture(&scene, "in.pcap", &[(0, datagram(1, 2, 64)), (1, other(1))]);
    let refuses = |pcap: &str, expected: &[&str]| {
        scene.refuses(&["replay", "--rules", &rules, "--pcap", pcap], expected);
    };
    refuses(
        &scene.path("none.pcap"),
        &["none.pcap", "No such file", "check the path"],
    );
    refuses(
        &scene.path(""),
        &["cannot open capture", "is a directory", "check the path"],
    );
    refuses(
        &scene.write("text.pcap", "no capture"),
        &["text.pcap", "not a capture", "pcapng"],
    );
    let mut bytes = std::fs::read(&good).unwrap();
    bytes[20..24].copy_from_slice(&101_u32.to_ne_bytes());
    refuses(
        &scene.write("raw.pcap", bytes),
        &["raw.pcap", "link type 101", "Ethernet"],
    );
}

#[test]
fn bad_arguments_end_with_2_and_say_which_and_what_to_do() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "actions=output:2\n");
    let good = write_capture(&scene, "in.pcap", &[(0, datagram(1, 2, 64)), (1, other(1))]);
    let replay = ["replay", "--rules", &rules, "--pcap", &good];
    let refuses = |more: &[&str], expected: &[&str]| {
        scene.refuses(&[&replay[..], more].concat(), expected);
    };
    let changes = scene.write("c.changes", "@2 delete\n@1 delete\n@3 ad actions=drop\n");
    refuses(
        &["--changes", &changes],
        &["c.changes:2:1", "do not go back", "c.changes:3:"],
    );
    let changes = scene.write("c.changes", "bundle {\n delete\n");
    refuses(
        &["--changes", &changes],
        &["c.changes:1:1", "not closed", "`}`"],
    );
    let changes = scene.write("c.changes", "@1 add actions=group:3\n");
    refuses(
        &["--changes", &changes],
        &["group 3 does not exist", "add it before"],
    );
    refuses(
        &["--changes", &changes],
        &["--changes: @1: rule `table=0, actions=group:3`"],
    );
    refuses(&["--maintainer", "idle"], &["idle", "revalidate", "flush"]);
    refuses(&["--out", &good], &["--out", "in.pcap", "name a folder"]);
    refuses(
        &["--in-port", "65280"],
        &["--in-port", "give a whole number from 1 to 65279"],
    );
    refuses(
        &["--megaflows", "999999999"],
        &["--megaflows", "from 0 to 16777215"],
    );
    for (pcap, expected) in [
        ("70000=in.pcap", "70000 is no port; give a whole number"),
        ("2=", "no file is named; give FILE or PORT=FILE"),
    ] {
        refuses(&["--pcap", pcap], &["--pcap ", expected]);
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let scene = Scene::new();
    let rules = scene.write("a.rules", "actions=drop\n");
    let pcap = write_capture(&scene, "in.pcap", &[(0, datagram(1, 2, 64))]);
    // More than 2 TiB.
    let config = "switch.workers = 256\nlimits.packets_per_worker = 65536\n\
                  limits.packet_bytes = 131072\n[[port]]\nnumber = 1\n";
    let needed = "the buffers and caches made at the start need 2";
    scene.refuses(
        &["run", &scene.write("a.toml", config)],
        &[needed, "and this machine has", "lower packets_per_worker"],
    );
    // 20 GiB, of which this process may have 8.
    let program = env!("CARGO_BIN_EXE_thalweg");
    let limited = "ulimit -v 8388608; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited, program, "replay", "--rules", &rules])
        .args(["--pcap", &pcap, "--microflows", "268435456"])
        .output()
        .expect("the shell starts");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("lower --microflows"), "{text}");
}

/// A capture of the first `snap` bytes of each packet, as `tcpdump -s` makes it.
fn write_fronts(scene: &Scene, name: &str, snap: usize, packets: &[Vec<u8>]) -> String {
    let path = scene.path(name);
    let mut writer = CaptureWriter::create(Path::new(&path)).unwrap();
    for bytes in packets {
        let mut front = Packet::from_bytes(&bytes[..bytes.len().min(snap)]);
        front.set_cut_bytes((bytes.len() - front.len()) as u32);
        writer.write_packet(&front, at(1)).unwrap();
    }
    writer.flush().unwrap();
    path
}

/// The bytes counted by the rule that contains `words`.
fn bytes_of(report: &serde_json::Value, words: &str) -> u64 {
    let rules = report["rules"].as_array().unwrap();
    let has_words = |rule: &&serde_json::Value| rule["rule"].as_str().unwrap().contains(words);
    let rule = rules.iter().find(has_words).unwrap();
    rule["bytes"].as_u64().unwrap()
}

#[test]
fn packets_of_a_snap_length_are_counted_and_keep_their_lengths() {
    let scene = Scene::new();
    let rules =
        "ip,nw_dst=10.0.0.2,actions=output:2\npriority=1,actions=push_vlan:0x8100,output:3\n";
    let rules = scene.write("r.rules", rules);
    let address = |last| Ipv4Addr::new(10, 0, 0, last);
    let ethernet = PacketBuilder::ethernet(mac(9), mac(2)).ipv4(address(1), address(2));
    let long = ethernet.ttl(64).udp(1, 2).payload(&[7; 1_000]).build();
    let six = PacketBuilder::ethernet(mac(9), mac(2));
    let six = six.ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST).udp(1, 2);
    let six = six.payload(&[7; 500]).build();
    let packets = [long.clone(), six.clone(), other(4)];
    let fronts = write_fronts(&scene, "in.pcap", 60, &packets);
    let out = scene.path("out");
    let replay = [
        "replay", "--rules", &rules, "--pcap", &fronts, "--out", &out,
    ];
    let (report, warning) = scene.json_and_warning(&replay);
    assert_eq!(report["shortened_packets"], 2);
    assert_eq!(report["outputs"], serde_json::json!({"3": 3}));
    let bytes = (long.len() + six.len() + other(4).len()) as u64;
    assert_eq!(bytes_of(&report, "output:3"), bytes, "{report}");
    assert!(
        warning.contains("2 packets") && warning.contains("--padded"),
        "{warning}"
    );
    let reader = CaptureReader::open(Path::new(&format!("{out}/3.pcap"))).unwrap();
    let lengths = reader
        .map(|packet| packet.unwrap())
        .map(|p| (p.len(), p.original_len()));
    let written = [(64, long.len() + 4), (64, six.len() + 4), (64, 64)];
    assert_eq!(lengths.collect::<Vec<_>>(), written);

    let padded = [&replay[..], &["--padded"]].concat();
    let report = scene.json(&padded);
    assert_eq!(
        (&report["shortened_packets"], &report["padded_packets"]),
        (&2.into(), &2.into())
    );
    assert_eq!(report["outputs"], serde_json::json!({"2": 1, "3": 2}));
    let mut filled = long.clone();
    filled[60..].fill(0);
    assert_eq!(read_capture(&format!("{out}/2.pcap")), [(at(1), filled)]);
    let warning = scene.warns(&padded);
    assert_eq!(warning, "");
    // Tools that rewrite captures may forget the original length; then only the headers give
    // it.
    let forgotten = [(1, long[..60].to_vec()), (1, six[..60].to_vec())];
    let forgotten = write_capture(&scene, "forgotten.pcap", &forgotten);
    let report = scene.json(&[
        "replay", "--rules", &rules, "--pcap", &forgotten, "--padded",
    ]);
    assert_eq!(
        (&report["shortened_packets"], &report["padded_packets"]),
        (&0.into(), &2.into())
    );
    assert_eq!(bytes_of(&report, "output:2"), long.len() as u64);
    assert_eq!(bytes_of(&report, "output:3"), six.len() as u64);
}

#[test]
fn ports_of_rules_changes_and_captures_have_names() {
    let scene = Scene::new();
    let rules = scene.write(
        "r.rules",
        "in_port=up,actions=down\nin_port=down,actions=up\n",
    );
    let changes = scene.write(
        "c.changes",
        "@2 add priority=40000,in_port=up,actions=third\n",
    );
    let names = scene.write("ports", "up=7\ndown=8\n");
    let packets = [(1, datagram(1, 2, 64)), (3, datagram(1, 2, 63))];
    let first = write_capture(&scene, "a.pcap", &packets);
    let second = write_capture(&scene, "b.pcap", &[(2, datagram(2, 1, 64))]);
    let down = format!("down={second}");
    let replay = [
        "replay",
        "--rules",
        &rules,
        "--ports",
        &names,
        "--ports",
        "third=9",
        "--changes",
        &changes,
        "--in-port",
        "up",
        "--pcap",
        &first,
        "--pcap",
        &down,
    ];
    let report = scene.json(&replay);
    assert_eq!(
        report["outputs"],
        serde_json::json!({"7": 1, "8": 1, "9": 1})
    );
    let explained = [&["explain"], &replay[1..]].concat();
    assert_eq!(scene.json(&explained)["packets"], 3);
    scene.refuses(
        &[&replay[..10], &["upp", "--pcap", &first]].concat(),
        &[
            "--in-port upp: give a whole number",
            "the name of a port: down, third, up",
        ],
    );
}

#[test]
fn a_capture_whose_last_record_is_cut_is_replayed_up_to_there() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "actions=output:2\n");
    let packets: Vec<_> = (0..9).map(|index| (index, datagram(1, 2, 64))).collect();
    let whole = write_capture(&scene, "in.pcap", &packets);
    let bytes = std::fs::read(&whole).unwrap();
    // Cuts in the last packet's bytes, in its record header, and in the first packet.
    for (end, expected) in [
        (bytes.len() - 5, 8),
        (bytes.len() - 70, 8),
        (24 + 16 + 3, 0),
    ] {
        let cut = scene.write("cut.pcap", &bytes[..end]);
        let replay = ["replay", "--rules", &rules, "--pcap", &cut];
        let (report, warning) = scene.json_and_warning(&replay);
        assert_eq!(report["packets"], expected);
        assert_eq!(report["cut_captures"].as_array().unwrap().len(), 1);
        let place = format!("in the middle of packet {}", expected + 1);
        for part in ["cut.pcap", &place, "copy the file again", "up to there"] {
            assert!(warning.contains(part), "{warning}");
        }
    }
}

#[test]
fn a_replay_that_fails_leaves_no_captures() {
    let scene = Scene::new();
    let rules = scene.write("r.rules", "actions=output:2\n");
    let packets: Vec<_> = (0..9).map(|index| (index, datagram(1, 2, 64))).collect();
    let whole = write_capture(&scene, "in.pcap", &packets);
    let mut bytes = std::fs::read(&whole).unwrap();
    let second = 24 + 16 + packets[0].1.len();
    bytes[second + 8..second + 12].copy_from_slice(&u32::MAX.to_ne_bytes());
    bytes.resize(17 << 20, 0);
    let damaged = scene.write("damaged.pcap", bytes);
    let changes = scene.write("c.changes", "@5 add actions=group:3\n");
    let out = scene.path("out");
    let names = || std::fs::read_dir(&out).unwrap().count();
    let replay = ["replay", "--rules", &rules, "--out", &out, "--pcap"];
    let damaged = [&replay[..], &[&damaged]].concat();
    scene.refuses(&damaged, &["is damaged at packet 2"]);
    assert_eq!(names(), 0);
    let refused = [&replay[..], &[&whole, "--changes", &changes]].concat();
    scene.refuses(&refused, &["group 3 does not exist"]);
    assert_eq!(names(), 0);
    scene.says(&[&replay[..], &[&whole]].concat());
    let path = format!("{out}/2.pcap");
    assert_eq!(read_capture(&path).len(), 9);
    // Existing files stay as they were.
    scene.refuses(&damaged, &["is damaged at packet 2"]);
    assert_eq!((names(), read_capture(&path).len()), (1, 9));
}

#[test]
fn rules_tables_and_groups_say_what_they_have_counted() {
    let scene = Scene::new();
    let rules = "table=0,priority=9,ip,actions=goto_table:1\n\
                 table=0,priority=1,actions=drop\n\
                 table=1,priority=5,ip,nw_dst=10.0.0.2,actions=group:7\n\
                 table=1,priority=5,ip,nw_dst=10.0.0.3,actions=output:3\n\
                 table=1,priority=5,send_flow_rem,hard_timeout=1,ip,nw_dst=10.0.0.4,actions=drop\n";
    let rules = scene.write("r.rules", rules);
    let groups = "group_id=7,type=all,bucket=output:2,bucket=output:3\n";
    let groups = scene.write("g.groups", groups);
    let packets = [
        (0, datagram(1, 2, 64)),
        (1, datagram(1, 2, 64)),
        (2, datagram(1, 4, 64)),
        (3, datagram(1, 9, 64)),
        (4, other(1)),
        (2_000, datagram(1, 2, 64)),
    ];
    let input = write_capture(&scene, "in.pcap", &packets);
    let arguments = ["--rules", &rules, "--groups", &groups, "--pcap", &input];
    let arguments = [&["replay"], &arguments[..]].concat();
    let report = scene.json(&arguments);
    let rules: Vec<_> = report["rules"].as_array().unwrap().iter().collect();
    let counted = |part: &str| {
        let mut rules = rules.iter();
        let rule = rules.find(|rule| rule["rule"].as_str().unwrap().contains(part));
        rule.map(|rule| (rule["packets"].clone(), rule["bytes"].clone()))
    };
    assert_eq!(counted("goto_table:1"), Some((5.into(), 300.into())));
    assert_eq!(counted("table=0, priority=1 "), Some((1.into(), 60.into())));
    assert_eq!(counted("group:7"), Some((3.into(), 180.into())));
    assert_eq!(counted("output:3"), Some((0.into(), 0.into())));
    assert_eq!(
        (counted("nw_dst=10.0.0.4"), &report["rule_count"]),
        (None, &4.into())
    );
    let removed = &report["removed"][0];
    assert_eq!(
        (&removed["reason"], &removed["packets"]),
        (&"hard_timeout".into(), &1.into())
    );
    let tables = serde_json::json!([
        {"table": 0, "lookups": 6, "matches": 6},
        {"table": 1, "lookups": 5, "matches": 4},
    ]);
    assert_eq!(report["tables"], tables);
    let bucket = serde_json::json!({"packets": 3, "bytes": 180});
    let groups = serde_json::json!([
        {"group": 7, "packets": 3, "bytes": 180, "buckets": [bucket, bucket]},
    ]);
    assert_eq!(report["groups"], groups);
    let text = scene.says(&arguments);
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("table"))
        .collect();
    expect![[r#"
        table   0: 6 lookups, 6 matched
        table   1: 5 lookups, 4 matched
        group   7: 3 packets, 180 bytes
                   5 packets             300 bytes  table=0, priority=9,ip actions=goto_table:1
                   3 packets             180 bytes  table=1, priority=5,ip,nw_dst=10.0.0.2 actions=group:7
                   1 packets              60 bytes  table=0, priority=1 actions=drop
                   1 more rule, not used; --json has them
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn no_more_than_ten_rules_are_shown_to_people() {
    let scene = Scene::new();
    let rules: Vec<_> = (0..30)
        .map(|host| format!("ip,nw_dst=10.0.0.{host},actions=output:2\n"))
        .collect();
    let rules = scene.write("r.rules", rules.concat());
    let packets: Vec<_> = (0..20)
        .map(|host| (u64::from(host), datagram(1, host, 64)))
        .collect();
    let input = write_capture(&scene, "in.pcap", &packets);
    let arguments = ["replay", "--rules", &rules, "--pcap", &input];
    let text = scene.says(&arguments);
    assert_eq!(text.matches("nw_dst").count(), 10, "{text}");
    assert!(
        text.ends_with("20 more rules, used less; --json has them\n"),
        "{text}"
    );
    let report = scene.json(&arguments);
    assert_eq!(report["rules"].as_array().unwrap().len(), 30);
}
