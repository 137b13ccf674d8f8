//! Fragments that meet `ct` leave the caches as they leave the interpreter.

use std::net::Ipv4Addr;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{Config, Datapath, Gate, Mode};
use thalweg_packet::wire::{IpProtocol, MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{Change, Operation, Outbox, Pipeline, PortState, forward};

/// Bytes of data in each fragment but the last.
const PART: usize = 1_400;

const RULES: &str = "\
table=0,ip,ct_state=-trk,actions=ct(table=1,zone=5,nat)
table=1,ip,ct_state=+new+trk,actions=ct(commit,zone=5,table=2,nat(src=10.9.0.1-10.9.0.9))
table=1,ip,ct_state=+est+trk,actions=output:3
table=2,ip,actions=output:2,push_mpls:0x8847,pop_mpls:0x0800,ct(zone=6,commit,table=3)
table=3,ip,nw_dst=10.0.0.2,actions=output:4,in_port";

fn pipeline() -> Pipeline {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=4).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", RULES).expect("the test's rules are right");
    let operations = ports.chain(rules.into_change().operations).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

fn outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    outbox
}

fn header() -> PacketBuilder {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    PacketBuilder::ethernet(address(1), address(2))
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
}

/// The fragments of a datagram.
fn fragments(identification: u16, source_port: u16, len: usize) -> Vec<Vec<u8>> {
    let whole = header().udp(source_port, 53).payload(&vec![7; len]).build();
    let data = &whole[34..];
    let count = data.len().div_ceil(PART);
    let parts = data.chunks(PART).enumerate();
    let parts = parts.map(|(number, part)| {
        let place = (number * PART) as u16;
        let builder = header().fragment(identification.into(), place, number + 1 < count);
        builder.protocol(IpProtocol(17)).payload(part).build()
    });
    parts.collect()
}

/// A whole answer to the first of these that left by port 2, if it is a first fragment.
fn answer(sent: &[(PortId, Packet)]) -> Option<Vec<u8>> {
    let mut sent = sent.iter().filter(|(port, _)| *port == PortId(2));
    let frame = sent.next()?.1.bytes();
    let number = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let is_first = number(20) & 0x1fff == 0;
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    let there = Ipv4Addr::new(frame[26], frame[27], frame[28], frame[29]);
    let answer = PacketBuilder::ethernet(address(2), address(1))
        .ipv4(Ipv4Addr::new(10, 0, 0, 2), there)
        .udp(53, number(34));
    is_first.then(|| answer.build())
}

/// The caches and the interpreter, each with its own connections.
struct Both<'a> {
    pipeline: &'a Gate<Pipeline>,
    datapath: Datapath,
    cached: Outbox,
    reference: Outbox,
    /// Packets that left, by port.
    by_port: [u32; 5],
    most_at_once: usize,
}

impl Both<'_> {
    /// Sends a packet to both; returns an answer to what left.
    fn send(&mut self, port: PortId, frame: &[u8]) -> Option<Vec<u8>> {
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(port, Instant::ZERO);
        let pipeline = self.pipeline.read();
        let (version, reference) = (pipeline.version(), &mut self.reference);
        forward(&pipeline, version, packet.clone(), reference).expect("a frame");
        drop(pipeline);
        let (now, cached) = (Instant::ZERO, &mut self.cached);
        self.datapath
            .process(&mut vec![packet], now, self.pipeline, cached);
        assert_eq!(cached.sent, reference.sent);
        self.most_at_once = self.most_at_once.max(cached.sent.len());
        let answer = answer(&cached.sent);
        for (port, _) in cached.sent.drain(..) {
            self.by_port[port.0 as usize] += 1;
        }
        reference.sent.clear();
        answer
    }
}

#[test]
fn caches_and_interpreter_agree_about_fragments() {
    let pipeline = Gate::new(pipeline());
    for mode in Mode::ALL {
        let mut chance = Pcg64Mcg::seed_from_u64(3);
        let config = Config {
            mode,
            ..Config::default()
        };
        let mut both = Both {
            pipeline: &pipeline,
            datapath: Datapath::new(config, &pipeline.read()).expect("a valid configuration"),
            cached: outbox(),
            reference: outbox(),
            by_port: [0; 5],
            most_at_once: 0,
        };
        for round in 0..200_u16 {
            let mut frames = Vec::new();
            for number in 0..3 {
                let len = chance.random_range(0..9_000);
                let port = chance.random_range(1000..1020);
                frames.extend(fragments(round * 3 + number, port, len));
            }
            frames.shuffle(&mut chance);
            if chance.random_range(0..4) == 0 {
                frames.pop();
            }
            for frame in &frames {
                let answer = both.send(PortId(1), frame);
                if let Some(answer) = answer.filter(|_| chance.random_range(0..5) == 0) {
                    both.send(PortId(2), &answer);
                }
            }
        }
        let status = both.cached.connections.fragments().status();
        let other = both.reference.connections.fragments().status();
        assert_eq!(status, other);
        assert!(status.held > 0 && status.v4.completed > 1_000, "{status:?}");
        assert!(both.most_at_once > 10, "{}", both.most_at_once);
        let by_port = &both.by_port[1..];
        assert!(by_port.iter().all(|count| *count > 0), "{by_port:?}");
    }
}
