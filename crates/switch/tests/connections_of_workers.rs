//! Connections whose two directions arrive on different workers.
//!
//! ```text
//!   port 1, worker 0:  ct(table=1), new connections are committed, and out at port 2
//!   port 2, worker 1:  the answers; out at port 1 only if they are replies of a connection
//! ```

mod memory_ports;

use std::time::{Duration, Instant};

use thalweg_io::MemoryHandle;
use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};
use thalweg_pipeline::text::parse_rules;
use thalweg_switch::{Switch, SwitchConfig};

/// A reply that is not known as one reaches port 3, as do invalid packets.
const RULES: &str = "table=0,in_port=1,tcp,actions=ct(table=1NAT)
table=0,in_port=2,tcp,actions=ct(table=1NAT)
table=1,in_port=1,tcp,ct_state=+new+trk,actions=ct(commitTARGET),output:2
table=1,in_port=1,tcp,ct_state=+est+trk,actions=output:2
table=1,in_port=2,tcp,ct_state=+est+rpl+trk,actions=output:1
table=1,priority=1,actions=output:3";

/// Connections, and how many are between two segments at once.
const CONNECTIONS: u16 = 2_000;
const AT_ONCE: usize = 32;

/// Longer than any packet takes.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bench {
    switch: Switch,
    handles: Vec<MemoryHandle>,
}

/// A frame's addresses and ports: bytes 26 to 38 of Ethernet and IPv4 without options.
fn reversed(frame: &[u8]) -> [([u8; 4], u16); 2] {
    let address = |at: usize| [frame[at], frame[at + 1], frame[at + 2], frame[at + 3]];
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    [(address(30), port(36)), (address(26), port(34))]
}

fn segment(ends: [([u8; 4], u16); 2], flags: TcpFlags, numbers: (u32, u32)) -> Vec<u8> {
    let [(source, from), (destination, to)] = ends;
    PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
        .ipv4(source.into(), destination.into())
        .tcp(from, to)
        .tcp_flags(flags)
        .tcp_numbers(numbers.0, numbers.1)
        .build()
}

impl Bench {
    fn start(rules: &str) -> Bench {
        let config = SwitchConfig {
            workers: 2,
            ..SwitchConfig::default()
        };
        let (mut switch, handles) = memory_ports::start(config);
        let rules = parse_rules("rules", rules).expect("they are right");
        switch.apply(&rules.into_change()).expect("they fit");
        Bench { switch, handles }
    }

    /// Gives frames to a port, and waits until as many have left by another.
    fn pass(&mut self, from: usize, to: usize, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for frame in frames {
            while !self.handles[from - 1].inject(frame) {
                std::thread::yield_now();
            }
        }
        let mut left = Vec::new();
        let begun = Instant::now();
        while left.len() < frames.len() {
            assert!(begun.elapsed() < PATIENCE, "a packet is lost");
            self.switch.poll(Duration::ZERO);
            let sent = self.handles[to - 1].collect();
            left.extend(sent.iter().map(|packet| packet.bytes().to_vec()));
            assert!(
                self.handles[2].collect().is_empty(),
                "a packet is not known"
            );
        }
        left
    }

    /// Connections begin, `AT_ONCE` together; each segment is sent when the one before was seen.
    fn connect(&mut self) {
        let (ack, syn) = (TcpFlags::ACK, TcpFlags::SYN);
        let clients: Vec<u16> = (1_024..1_024 + CONNECTIONS).collect();
        for ports in clients.chunks(AT_ONCE) {
            let ends = |port: &u16| [([10, 0, 0, 1], *port), ([10, 0, 0, 2], 80)];
            let opening: Vec<Vec<u8>> = ports
                .iter()
                .map(|port| segment(ends(port), syn, (999, 0)))
                .collect();
            let seen = self.pass(1, 2, &opening);
            let answers: Vec<Vec<u8>> = seen
                .iter()
                .map(|frame| segment(reversed(frame), TcpFlags(syn.0 | ack.0), (4_999, 1_000)))
                .collect();
            let mut heard: Vec<u16> = self
                .pass(2, 1, &answers)
                .iter()
                .map(|frame| {
                    let [own, peer] = reversed(frame);
                    assert_eq!((own.0, peer), ([10, 0, 0, 1], ([10, 0, 0, 2], 80)));
                    own.1
                })
                .collect();
            heard.sort_unstable();
            assert_eq!(heard, ports, "each client has its answer");
            let last: Vec<Vec<u8>> = ports
                .iter()
                .map(|port| segment(ends(port), ack, (1_000, 5_000)))
                .collect();
            self.pass(1, 2, &last);
        }
        let count = self.switch.tracker().connection_count();
        assert_eq!(count, u32::from(CONNECTIONS));
        assert_eq!(self.switch.tracker().counters().out_of_window, 0);
    }
}

#[test]
fn both_directions_on_different_workers_are_one_connection() {
    let mut bench = Bench::start(&RULES.replace("NAT", "").replace("TARGET", ""));
    bench.connect();
    bench.switch.stop();
}

#[test]
fn translated_directions_on_different_workers_are_one_connection() {
    let rules = RULES.replace("NAT", ",nat");
    let mut bench = Bench::start(&rules.replace("TARGET", ",nat(src=172.16.0.1-172.16.0.9)"));
    bench.connect();
    bench.switch.stop();
}
