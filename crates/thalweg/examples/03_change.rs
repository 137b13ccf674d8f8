//! Changes rules between packets: the repair leaves nothing stale and keeps entries that are
//! right.
//!
//! Twenty flows to twenty servers leave twenty cache entries. Then a more specific rule sends
//! four of the servers' packets to another port. The maintainer examines the entries and
//! repairs those that the change affects. When [`Engine::apply`] returns, no packet is
//! answered by an older version. The engine is audited: the interpreter answers each packet
//! too, and the engine counts packets for which the caches would have done something else.
//!
//! Prints:
//!
//! ```text
//! 20 packets to port 2, 0 to port 3
//! 4 entries looked at, 4 affected
//! 16 packets to port 2, 4 to port 3
//! 40 packets checked, 0 stale
//! ```

use std::error::Error;
use std::io::Write;
use std::net::Ipv4Addr;

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, text};
use thalweg_switch::{Config, Engine};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}

/// Sends the same packets before and after a change.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let now = Instant::ZERO;
    let mut engine = Engine::new(Config {
        is_audited: true,
        ..Config::default()
    })?;
    for port in 1..=3 {
        engine.add_port(PortId(port), now);
    }
    // Matching a whole address gives each server its own entry.
    for server in 0..20 {
        let rule = format!("priority=10,ip,nw_dst=10.0.0.{server},actions=output:2");
        engine.apply(&Change::adding([text::parse_flow(&rule)?]), now)?;
    }
    send_to_all(&mut engine, out)?;

    let rule = text::parse_flow("priority=20,ip,nw_dst=10.0.0.8/30,actions=output:3")?;
    let update = engine.apply(&Change::adding([rule]), now)?;
    let (examined, affected) = (update.work.examined, update.work.affected());
    writeln!(out, "{examined} entries looked at, {affected} affected")?;

    send_to_all(&mut engine, out)?;
    let audit = engine.audit().ok_or("the engine is audited")?;
    let (checked, stale) = (audit.checked, audit.stale);
    writeln!(out, "{checked} packets checked, {stale} stale")?;
    Ok(())
}

fn send_to_all(engine: &mut Engine, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let now = Instant::ZERO;
    let to = |server| {
        let frame = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::BROADCAST)
            .ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 0, 0, server));
        let mut packet = Packet::from_bytes(&frame.udp(5000, 53).build());
        packet.set_received(PortId(1), now);
        packet
    };
    let mut packets: Vec<Packet> = (0..20).map(to).collect();
    engine.forward(&mut packets, now);
    let sent = &engine.outbox().sent;
    let count = |port| sent.iter().filter(|(to, _)| *to == PortId(port)).count();
    let (second, third) = (count(2), count(3));
    writeln!(out, "{second} packets to port 2, {third} to port 3")?;
    engine.outbox().recycle();
    Ok(())
}
