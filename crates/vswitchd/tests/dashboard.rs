//! The dashboard of a switch with two workers, by its text and by HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use thalweg_dashboard::DashboardConfig;
use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, Change, text};
use thalweg_switch::{Switch, SwitchConfig, SwitchPort};
use thalweg_vswitchd::dashboard::SwitchDashboard;
use thalweg_vswitchd::trace::TraceNames;
use thalweg_vswitchd::views::{EntryScan, picture_text, talkers_text};

/// Some stations go on by table 1, some are dropped, and the rest meet no rule there.
const RULES: [&str; 5] = [
    "priority=9,dl_type=0x1234,actions=resubmit(,1)",
    "priority=8,dl_type=0x1235,actions=drop",
    "table=1,priority=2,dl_dst=02:00:00:00:00:00/ff:ff:ff:ff:ff:03,actions=output:3",
    "table=1,priority=2,dl_dst=02:00:00:00:00:01/ff:ff:ff:ff:ff:03,actions=resubmit(,2)",
    "table=2,actions=output:3,output:1",
];

/// Ports `p1` to `p3` of the bridge `br0`.
struct Names;

impl TraceNames for Names {
    fn bridge(&self, name: &str) -> Option<BridgeId> {
        (name == "br0").then_some(BridgeId(0))
    }

    fn bridge_name(&self, _: BridgeId) -> String {
        "br0".to_owned()
    }

    fn port(&self, _: BridgeId, name: &str) -> Option<PortId> {
        name.strip_prefix('p')?.parse().ok().map(PortId)
    }

    fn port_name(&self, port: PortId) -> Option<String> {
        (1..=3).contains(&port.0).then(|| format!("p{port}"))
    }

    fn has_datapath(&self, kind: Option<&str>) -> bool {
        kind.is_none()
    }

    fn port_of_datapath(&self, number: u32) -> Option<PortId> {
        Some(PortId(number))
    }

    fn datapath_number(&self, name: &str) -> Option<u32> {
        self.port(BridgeId(0), name).map(|port| port.0)
    }

    fn datapath_number_of(&self, port: PortId) -> Option<u32> {
        Some(port.0)
    }
}

struct Stage {
    switch: Switch,
    ports: [MemoryHandle; 3],
    forwarded: u64,
}

impl Stage {
    fn start() -> Stage {
        let made = [1, 2, 3].map(|number| (number, MemoryPort::new(PortId(number), 4_096)));
        let ports = made.each_ref().map(|(_, (_, handle))| handle.clone());
        let made = made.map(|(number, (port, _))| SwitchPort::new(PortId(number), Box::new(port)));
        let mut config = SwitchConfig {
            workers: 2,
            ..SwitchConfig::default()
        };
        config.datapath.megaflow.sample_bytes = 64;
        let mut switch = Switch::start(config, made.into()).expect("it starts");
        let rules = RULES.map(|rule| text::parse_flow(rule).expect("a rule"));
        let changed = switch.apply(&Change::adding(rules));
        changed.expect("there is room");
        Stage {
            switch,
            ports,
            forwarded: 0,
        }
    }

    /// Has ports 1 and 2 receive packets in turn, with a station and a type from their number.
    fn forward(&mut self, count: u64) {
        for number in 0..count {
            let mut frame = [0; 60];
            frame[0] = 2;
            frame[5] = number as u8 % 16;
            frame[12..14].copy_from_slice(&(0x1234 + (number / 16 % 2) as u16).to_be_bytes());
            assert!(self.ports[(number % 2) as usize].inject(&frame));
            self.forwarded += 1;
            let is_late = |switch: &mut Switch, all: u64| {
                let totals = switch.totals();
                let received = totals
                    .ports
                    .iter()
                    .map(|port| port.counters.received_packets);
                received.sum::<u64>() < all
            };
            while is_late(&mut self.switch, self.forwarded) {
                self.switch.poll(Duration::from_millis(1));
            }
        }
        self.ports[2].collect();
        self.ports[0].collect();
    }

    fn picture(&mut self) -> Value {
        let mut scan = EntryScan::default();
        while !scan.step(&mut self.switch) {}
        let text = picture_text(&mut self.switch, &Names, &scan);
        serde_json::from_str(&text).expect("an object")
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// For each edge, its ends' names and its packets: from caches, and from the slow path.
fn edges(picture: &Value) -> BTreeMap<(String, String), (u64, u64)> {
    let nodes = picture["graph"]["nodes"].as_array().expect("a list");
    let name = |place: &Value| {
        let node = &nodes[number(place) as usize];
        match node["kind"].as_str().expect("a kind") {
            "table" => format!(
                "{}/{}",
                node["bridge"].as_str().expect("a name"),
                node["table"]
            ),
            kind => format!("{kind} {}", node["name"].as_str().expect("a name")),
        }
    };
    let edges = picture["graph"]["edges"].as_array().expect("a list");
    let edges = edges.iter().map(|edge| {
        let cached = number(&edge["microflow"]) + number(&edge["megaflow"]);
        let ends = (name(&edge["from"]), name(&edge["to"]));
        (ends, (cached, number(&edge["slow_path"])))
    });
    edges.collect()
}

#[test]
fn the_picture_has_what_a_look_at_once_has() {
    let mut stage = Stage::start();
    assert_eq!(stage.picture()["entries"], 0);
    stage.forward(200);
    let picture = stage.picture();
    // The twin copies all entries at once.
    let whole = talkers_text(&mut stage.switch, &Names, &["limit=1000".to_owned()]);
    let whole: Value = serde_json::from_str(&whole.expect("it is told")).expect("an object");
    let by_flow = |talkers: &Value| {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for talker in talkers.as_array().expect("a list") {
            let flow = format!("{} {}", talker["flow"], talker["actions"]);
            let known = counts.entry(flow).or_default();
            known.0 += number(&talker["packets"]);
            known.1 += number(&talker["bytes"]);
        }
        counts
    };
    let (some, all) = (by_flow(&picture["talkers"]), by_flow(&whole["talkers"]));
    assert_eq!(all.len(), 4, "{whole}");
    // The twin leaves out what only one worker's first packets met, and merges workers.
    for (flow, counts) in &all {
        let known = some.get(flow).unwrap_or_else(|| panic!("{flow}: {some:?}"));
        assert!(known.0 <= counts.0 && known.1 <= counts.1, "{flow}");
    }
}

#[test]
fn edges_and_drops_have_each_packet() {
    let mut stage = Stage::start();
    stage.forward(200);
    let picture = stage.picture();
    // Each packet of the switch is in an entry; each entry had a first packet.
    let edges = edges(&picture);
    let from = |start: &str| {
        let edges = edges
            .iter()
            .filter(|((from, _), _)| from.starts_with(start));
        edges.fold((0, 0), |sum, (_, counts)| {
            (sum.0 + counts.0, sum.1 + counts.1)
        })
    };
    let (cached, slow) = from("in ");
    assert_eq!(
        (cached + slow, slow),
        (200, number(&picture["entries"])),
        "{edges:?}"
    );
    // The type changes with each 16 packets; ports and stations go on with each packet.
    let packets = |from: &str, to: &str| {
        let counts = edges.get(&(from.to_owned(), to.to_owned()));
        counts.map_or(0, |(cached, slow)| cached + slow)
    };
    let first_type = (0..200).filter(|number| number / 16 % 2 == 0);
    let station = |low: u64| {
        first_type
            .clone()
            .filter(|number| number % 4 == low)
            .count() as u64
    };
    assert_eq!(packets("in p1", "br0/0"), 100);
    assert_eq!(packets("br0/0", "br0/1"), first_type.clone().count() as u64);
    assert_eq!(
        packets("br0/0", "drop drop"),
        200 - first_type.clone().count() as u64
    );
    assert_eq!(packets("br0/1", "out p3"), station(0));
    assert_eq!(packets("br0/1", "br0/2"), station(1));
    assert_eq!(packets("br0/2", "out p3"), station(1));
    // No rule matched in table 1: the packet ends there.
    assert_eq!(packets("br0/1", "drop drop"), station(2) + station(3));
    let drops = &picture["drops"];
    let packet = |reason: &str| {
        drops[reason]["packet"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(packet("action").contains("eth_type(0x1235)"), "{drops}");
    assert!(packet("table_miss").contains("eth_type(0x1234)"), "{drops}");
    let steps = drops["table_miss"]["steps"].as_str().unwrap_or_default();
    assert!(
        steps.contains("bridge br0, table 1: no rule matched"),
        "{drops}"
    );
}

#[test]
fn browsers_are_answered_from_the_loop() {
    let mut stage = Stage::start();
    stage.forward(64);
    let config = DashboardConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        allows_remote: false,
    };
    let mut dashboard = SwitchDashboard::start(config, &stage.switch).expect("a free port");
    let address = dashboard.address();
    let mut ask = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let browser = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(request.as_bytes()).expect("it is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it is text");
            answer
        });
        while !browser.is_finished() {
            let wait = match dashboard.serve(&mut stage.switch, &Names) {
                true => Duration::ZERO,
                false => Duration::from_millis(10),
            };
            stage.switch.poll(wait);
        }
        let answer = browser.join().expect("it does not panic");
        let (head, text) = answer.split_once("\r\n\r\n").expect("an empty line");
        (head.contains(" 200 OK"), text.to_owned())
    };
    let object = |(is_ok, text): (bool, String)| -> Value {
        assert!(is_ok, "{text}");
        serde_json::from_str(&text).expect("an object")
    };
    let live = object(ask("/api/live"));
    assert_eq!(live["packets"], 64);
    assert_eq!(live["ports"][0]["name"], "p1");
    let entries = object(ask("/api/entries"));
    let edges = entries["graph"]["edges"].as_array().expect("a list");
    assert!(!edges.is_empty());
    // An answer is given again for a while.
    assert_eq!(object(ask("/api/entries")), entries);
    let question = "/api/explain?bridge=br0&flow=in_port%3D1%2Cdl_type%3D0x1235";
    let (is_ok, text) = ask(question);
    assert!(is_ok && text.starts_with("Megaflow: "), "{text}");
    let (is_ok, text) = ask(&format!("{question}&kind=drop"));
    assert!(
        is_ok && text.ends_with("The packet is dropped: action.\n"),
        "{text}"
    );
    let (is_ok, text) = ask(&format!("{question}&kind=steps"));
    assert!(is_ok && text.contains("Datapath actions: drop"), "{text}");
    let (is_ok, text) = ask("/api/explain?bridge=br1&flow=udp");
    assert!(!is_ok && text.contains("br1"), "{text}");
}
