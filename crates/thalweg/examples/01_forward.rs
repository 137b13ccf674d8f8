//! A switch of three rules, in memory: packets in, packets out.
//!
//! [`Engine`] is a whole switch on one thread, without operating-system ports and without a
//! clock. Rules go in as a change and packets as bytes. Its outbox collects the packets to
//! send. The third packet differs from the first only in its source port, which no rule reads.
//! So it shares the first packet's cache entry: three packets, but two upcalls.
//!
//! Prints:
//!
//! ```text
//! TCP from port 5000: to port 2, TTL 63
//! UDP to port 53: to port 3, TTL 64
//! TCP from port 5001: to port 2, TTL 63
//! 3 packets, 2 upcalls, 2 megaflows
//! ```

use std::error::Error;
use std::io::Write;
use std::net::Ipv4Addr;

use thalweg_packet::wire::{Ipv4View, MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::text;
use thalweg_switch::{Config, Engine};

const RULES: &str = "
    priority=20,udp,tp_dst=53,actions=output:3
    priority=10,ip,nw_dst=10.0.0.2,actions=dec_ttl,output:2
    priority=0,actions=drop
";

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}

/// Forwards three packets and prints where they went.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let now = Instant::ZERO;
    let mut engine = Engine::new(Config::default())?;
    for port in 1..=3 {
        engine.add_port(PortId(port), now);
    }
    // The parser reports all errors of a text together; this text has none.
    let rules = text::parse_rules("rules", RULES).map_err(|faults| faults[0].clone())?;
    engine.apply(&rules.into_change(), now)?;

    let packets = [
        ("TCP from port 5000", from_host().tcp(5000, 80)),
        ("UDP to port 53", from_host().udp(5000, 53)),
        ("TCP from port 5001", from_host().tcp(5001, 80)),
    ];
    for (name, packet) in packets {
        let mut packet = Packet::from_bytes(&packet.build());
        packet.set_received(PortId(1), now);
        engine.forward(&mut vec![packet], now);
        for (port, packet) in engine.outbox().sent.drain(..) {
            let ttl = Ipv4View::new_checked(&packet.bytes()[14..])?.ttl();
            writeln!(out, "{name}: to port {}, TTL {ttl}", port.0)?;
        }
    }
    let caches = engine.datapath();
    let (upcalls, megaflows) = (caches.statistics().upcalls, caches.megaflow_count());
    writeln!(out, "3 packets, {upcalls} upcalls, {megaflows} megaflows")?;
    Ok(())
}

fn from_host() -> PacketBuilder {
    let (source, destination) = (
        MacAddress([2, 0, 0, 0, 0, 1]),
        MacAddress([2, 0, 0, 0, 0, 2]),
    );
    PacketBuilder::ethernet(source, destination)
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
}
