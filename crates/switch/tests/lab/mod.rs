//! An engine for tests: rules as text, packets from a few numbers, every answer audited.

// Each test program uses only a part of it.
#![allow(dead_code)]

use std::net::Ipv4Addr;
use std::time::Duration;

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::{self, Parser};
use thalweg_pipeline::{Change, Outbox, Pipeline, RuleId, Translation, forward};
use thalweg_switch::{Config, Engine, Update};

/// Ports that every lab has.
pub(crate) const PORTS: u32 = 8;

/// Brings the five-tuple into the key; no packet comes from port 99.
pub(crate) const READS_FIVE_TUPLE: &str = "priority=1,in_port=99,udp,nw_src=192.0.2.1,\
                                           nw_dst=192.0.2.2,tp_src=1,tp_dst=2,actions=drop\n";

pub(crate) struct Lab {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
}

impl Lab {
    pub(crate) fn new(mut config: Config, rules: &str) -> Lab {
        config.is_audited = true;
        Lab::unaudited(config, rules)
    }

    pub(crate) fn unaudited(config: Config, rules: &str) -> Lab {
        let mut engine = Engine::new(config).expect("the limits make sense");
        let now = Instant::ZERO + Duration::from_secs(1_000_000);
        engine.outbox().grows = true;
        (1..=PORTS).for_each(|port| engine.add_port(PortId(port), now));
        let mut lab = Lab { engine, now };
        let rules = text::parse_rules("lab", rules);
        let rules = rules.unwrap_or_else(|errors| panic!("{errors:#?}"));
        lab.apply(&rules.into_change());
        lab
    }

    pub(crate) fn apply(&mut self, change: &Change) -> Update {
        let applied = self.engine.apply(change, self.now);
        applied.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Does one operation of a change file.
    pub(crate) fn change(&mut self, text: &str) -> Update {
        let operation = Parser::new().parse_operation(text);
        let operation = operation.unwrap_or_else(|error| panic!("{error}"));
        self.apply(&Change::one(operation))
    }

    /// Forwards a packet from port 1; returns the ports it was sent to.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Vec<u32> {
        self.send_from(1, bytes)
    }

    pub(crate) fn send_from(&mut self, port: u32, bytes: &[u8]) -> Vec<u32> {
        let packet = self.packet(port, bytes);
        self.engine.forward(&mut vec![packet], self.now);
        if let Some(audit) = self.engine.audit() {
            assert_eq!(audit.stale, 0, "{bytes:02x?} has a stale answer");
        }
        let outbox = self.engine.outbox();
        let ports = outbox.sent.iter().map(|(port, _)| port.0).collect();
        outbox.recycle();
        ports
    }

    pub(crate) fn packet(&self, port: u32, bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes);
        packet.set_received(PortId(port), self.now);
        packet
    }

    /// The interpreter's passes of a packet.
    pub(crate) fn interpret(&self, packet: &Packet) -> Vec<Translation> {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let pipeline = self.engine.pipeline();
        let passes = forward(&pipeline, pipeline.version(), packet.clone(), &mut outbox);
        passes.unwrap_or_default()
    }

    pub(crate) fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.engine.tick(self.now);
    }

    /// The living rules as text, sorted, with packet counts.
    pub(crate) fn rules(&mut self) -> Vec<(String, u64)> {
        self.engine.settle();
        let pipeline = self.engine.pipeline();
        let mut rules: Vec<_> = living(&pipeline)
            .map(|id| {
                let flow = pipeline.flow_of(id).expect("it lives").to_string();
                (flow, pipeline.rule(id).expect("it lives").counters.packets)
            })
            .collect();
        rules.sort();
        rules
    }
}

pub(crate) fn living(pipeline: &Pipeline) -> impl Iterator<Item = RuleId> {
    pipeline.rules(pipeline.version()).map(|(id, _)| id)
}

/// A datagram between two numbered hosts, from a source port.
pub(crate) fn datagram(from: u32, to: u32, source_port: u16) -> Vec<u8> {
    let address = |host: u32| Ipv4Addr::from(0x0a00_0000 | host);
    let mac = |host: u32| MacAddress::from_u64(0x0200_0000_0000 | u64::from(host));
    let ethernet = PacketBuilder::ethernet(mac(from), mac(to));
    let ip = ethernet.ipv4(address(from), address(to));
    ip.udp(source_port, 53).pad_to(60).build()
}
