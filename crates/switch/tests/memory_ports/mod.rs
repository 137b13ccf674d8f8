//! A running switch whose ports hold packets in memory.

use thalweg_io::{MemoryHandle, MemoryPort};
use thalweg_packet::PortId;
use thalweg_switch::{Switch, SwitchConfig, SwitchPort};

/// Starts a switch with ports 1 to 3, each with room for 64 packets.
pub(crate) fn start(config: SwitchConfig) -> (Switch, Vec<MemoryHandle>) {
    let (ports, handles) = (1..=3)
        .map(|number| {
            let (port, handle) = MemoryPort::new(PortId(number), 64);
            (SwitchPort::new(PortId(number), Box::new(port)), handle)
        })
        .unzip();
    let switch = Switch::start(config, ports).expect("it starts");
    (switch, handles)
}
