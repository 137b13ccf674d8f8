//! A learning switch: `normal` is its only action.
//!
//! A packet teaches the switch which port its sender is behind. A learned station is an input
//! of the pipeline, like a rule. It takes effect at a later version, and cache entries that
//! read another answer ("unknown: flood") are repaired as after a rule change. A station is a
//! VLAN and an address, so the same address in another VLAN is another station.
//!
//! Prints:
//!
//! ```text
//! anna at 1 to bert, VLAN 10: to 2, 3, 4; then v6
//! bert at 2 to anna, VLAN 10: to 1; then v7
//! anna at 1 to bert again: to 2; then v7
//! anna at 1 to bert, VLAN 20: to 2, 3, 4; then v8
//! bert at 3 to anna, VLAN 10: to 1; then v9
//! anna at 1 to bert once more: to 3; then v9
//! 4 upcalls
//! ```

use std::error::Error;
use std::io::Write;

use thalweg_packet::wire::{EtherType, MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, text};
use thalweg_switch::{Config, Engine};

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout())
}

/// Sends packets between two stations, then one from another VLAN.
pub(crate) fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut engine = Engine::new(Config::default())?;
    for port in 1..=4 {
        engine.add_port(PortId(port), Instant::ZERO);
    }
    let rule = text::parse_flow("actions=normal")?;
    engine.apply(&Change::adding([rule]), Instant::ZERO)?;

    let (anna, bert) = (
        MacAddress([2, 0, 0, 0, 0, 0xa]),
        MacAddress([2, 0, 0, 0, 0, 0xb]),
    );
    let mut send = |what: &str, port: u32, vlan: u16, source, destination| {
        let frame = PacketBuilder::ethernet(source, destination)
            .vlan(vlan, 0)
            .ether_type(EtherType(0x88b5))
            .pad_to(60);
        let mut packet = Packet::from_bytes(&frame.build());
        packet.set_received(PortId(port), Instant::ZERO);
        engine.forward(&mut vec![packet], Instant::ZERO);
        let sent = engine.outbox().sent.drain(..);
        let ports: Vec<String> = sent.map(|(port, _)| port.0.to_string()).collect();
        let (ports, version) = (ports.join(", "), engine.version());
        writeln!(out, "{what}: to {ports}; then {version}")
    };
    send("anna at 1 to bert, VLAN 10", 1, 10, anna, bert)?;
    send("bert at 2 to anna, VLAN 10", 2, 10, bert, anna)?;
    send("anna at 1 to bert again", 1, 10, anna, bert)?;
    send("anna at 1 to bert, VLAN 20", 1, 20, anna, bert)?;
    send("bert at 3 to anna, VLAN 10", 3, 10, bert, anna)?;
    send("anna at 1 to bert once more", 1, 10, anna, bert)?;
    let statistics = engine.datapath().statistics();
    writeln!(out, "{} upcalls", statistics.upcalls)?;
    Ok(())
}
