//! The stations that a bridge knows (`fdb/show`, `fdb/stats-show`).

use std::fmt::Write;

use thalweg_packet::PortId;
use thalweg_packet::wire::MacAddress;
use thalweg_pipeline::BridgeId;
use thalweg_switch::Switch;

use crate::bridges::LOCAL;

/// A port as OpenFlow names it.
pub(crate) fn port_text(port: PortId) -> String {
    match (port.0 & 0xffff) as u16 {
        LOCAL => "LOCAL".to_owned(),
        number => number.to_string(),
    }
}

/// The stations of a bridge, from the one that was silent for the longest time.
pub fn stations_text(switch: &mut Switch, bridge: BridgeId) -> String {
    let mut text = " port  VLAN  MAC                Age\n".to_owned();
    for known in switch.stations(bridge) {
        let port = port_text(known.port);
        let mac = MacAddress::from_u64(known.station.mac);
        let age = match known.is_fixed {
            true => "static".to_owned(),
            false => format!("{:>3}", known.silent_for.as_secs()),
        };
        let vlan = known.station.vlan;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{port:>5}  {vlan:>4}  {mac}  {age}");
    }
    text
}

/// What became of a bridge's stations; `name` is the bridge's.
pub fn station_counters_text(switch: &mut Switch, bridge: BridgeId, name: &str) -> String {
    let totals = switch.station_totals(bridge);
    let counters = totals.counters;
    format!(
        "Statistics for bridge \"{name}\":\n  \
         Current/maximum MAC entries in the table: {}/{}\n  \
         Current static MAC entries in the table : {}\n  \
         Total number of learned MAC entries     : {}\n  \
         Total number of expired MAC entries     : {}\n  \
         Total number of evicted MAC entries     : {}\n  \
         Total number of port moved MAC entries  : {}\n",
        totals.known,
        totals.capacity,
        totals.fixed,
        counters.learned,
        counters.expired,
        counters.evicted,
        counters.moved
    )
}
